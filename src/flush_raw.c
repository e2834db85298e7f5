/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * flush_raw.c -- flushing by a READ after the writes (the appliance method)
 *
 * A reliable connection executes a READ after the WRITEs before it, and PCI Express lets no read pass a
 * write. So when the response of the READ has come, the writes have left the buffers of the device and of the
 * bus. It does not matter which bytes are read: it is at most 8 bytes of the region, never beyond its end.
 * They land in a scratch buffer that is never read.
 *
 * Where an executed WRITE is visible at once, a READ of no bytes shows as much. It works for a region of the original
 * library, whichever right that has: FLUSH or being read.
 */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "err.h"
#include "flush.h"
#include "op.h"

#define READ_MAX 8 /* bytes */

struct flush_scratch {
	void *page;
	size_t page_size;
	struct rpma_mr_local *mr;
};

/* a shared page of its own: after a fork the device must not write to a page that is the child's */
int
rpmai_flush_scratch_new(struct rpma_peer *peer, struct flush_scratch **scratch_ptr)
{
	int ret;

	struct flush_scratch *scratch = malloc(sizeof(*scratch));
	if (scratch == NULL)
		return RPMAI_FAIL_NOMEM();

	scratch->page_size = (size_t)sysconf(_SC_PAGESIZE);
	assert(scratch->page_size >= READ_MAX);
	scratch->page =
		mmap(NULL, scratch->page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (scratch->page == MAP_FAILED) {
		/* message(system, page-for-flush): flushing by a read, over hardware -> Out of memory. */
		ret = RPMAI_FAIL_ERRNO(RPMA_E_NOMEM, errno, NULL, "mmap() of a page");
		goto err_free;
	}

	ret = rpmai_mr_reg(peer, scratch->page, READ_MAX, RPMA_MR_USAGE_READ_DST, &scratch->mr);
	if (ret)
		goto err_munmap;

	*scratch_ptr = scratch;
	return 0;

err_munmap:
	(void)munmap(scratch->page, scratch->page_size);
err_free:
	free(scratch);
	return ret;
}

int
rpmai_flush_scratch_delete(struct flush_scratch **scratch_ptr)
{
	struct flush_scratch *scratch = *scratch_ptr;
	if (scratch == NULL)
		return 0;
	*scratch_ptr = NULL;

	int ret = rpma_mr_dereg(&scratch->mr);
	/* message(page-for-flush) */
	if (munmap(scratch->page, scratch->page_size))
		ret = rpmai_first_error(ret, RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "munmap()"));
	free(scratch);
	return ret;
}

static int
check(const struct rpma_conn *conn, enum rpma_flush_type type, size_t len)
{
	(void)len;
	/* message(cannot-flush) */
	if (type == RPMA_FLUSH_TYPE_PERSISTENT && !atomic_load(&conn->direct_write_to_pmem))
		return RPMAI_FAIL(RPMA_E_NOSUPP,
			"the devices have no flush operation, and the other side has not declared "
			"direct write to persistent memory (rpma_conn_apply_remote_peer_cfg)");
	return 0;
}

static void
build(const struct rpma_conn *conn, struct work_request *req, const struct mr_descriptor *dst,
	size_t dst_offset, size_t len, enum rpma_flush_type type, int flags, const void *op_context)
{
	(void)type; /* the same for both types: the difference is what the platform of the other side does */

	/*
	 * An empty flush still orders earlier writes: read one byte, the last one if the offset is at the end
	 */
	if (len == 0) {
		len = 1;
		if (dst_offset == dst->size)
			dst_offset--;
	}

	rpmai_op_init(req, IBV_WR_RDMA_READ, flags, op_context);
	req->sge = (struct ibv_sge){
		.addr = (uintptr_t)conn->flush_scratch->mr->ibv_mr->addr,
		.length = len < READ_MAX ? (uint32_t)len : READ_MAX,
		.lkey = conn->flush_scratch->mr->ibv_mr->lkey,
	};
	req->wr.sg_list = &req->sge;
	req->wr.num_sge = 1;
	req->wr.wr.rdma.remote_addr = dst->raddr + dst_offset;
	req->wr.wr.rdma.rkey = dst->rkey;
	assert(rpmai_range_ok(dst->size, dst_offset, req->sge.length));
}

const struct flush_ops rpmai_flush_raw = {
	.check = check,
	.build = build,
};

/* ---- without looking at the region ---- */

/* the device executes in order, so the response shows that the writes before it are executed */
static int
check_order(const struct rpma_conn *conn, enum rpma_flush_type type, size_t len)
{
	(void)len;
	assert(type == RPMA_FLUSH_TYPE_VISIBILITY && conn->peer->rdma->writes_are_visible);
	return 0;
}

/* no right is checked for a READ of no bytes */
static void
build_order(const struct rpma_conn *conn, struct work_request *req, const struct mr_descriptor *dst,
	size_t dst_offset, size_t len, enum rpma_flush_type type, int flags, const void *op_context)
{
	(void)conn, (void)len, (void)type;
	rpmai_op_init(req, IBV_WR_RDMA_READ, flags, op_context);
	req->wr.wr.rdma.remote_addr = dst->raddr + dst_offset;
	req->wr.wr.rdma.rkey = dst->rkey;
}

const struct flush_ops rpmai_flush_order = {
	.check = check_order,
	.build = build_order,
};
