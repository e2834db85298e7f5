/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * odp.c -- checks that SoftRoCE writes to the right place in memory that was registered on demand
 *
 *	odp [FILE]
 *
 * One queue pair, connected to itself, writes to anonymous memory, or to a mapping of FILE. Then the
 * processor checks where the bytes are. It uses plain verbs, so the result is that of the kernel. Exit status
 * 0: all bytes are where they should be; 1: some are elsewhere; 77: the device has no on-demand paging; 2:
 * the program failed.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define PAGE ((size_t)4096)
#define LEN (4 * PAGE)
#define EXIT_WRONG 1
#define EXIT_FAILED 2
#define EXIT_SKIPPED 77

struct loop {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *src;
	uint8_t *buf; /* LEN bytes: those to be written, then those read back */
};

static void
need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "odp: %s: %s\n", what, strerror(errno));
	exit(EXIT_FAILED);
}

static bool
on_demand(struct ibv_context *ctx)
{
	const uint32_t needed = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
	struct ibv_device_attr_ex attr = { 0 };

	need(ibv_query_device_ex(ctx, NULL, &attr) == 0, "ibv_query_device_ex");
	return (attr.odp_caps.general_caps & IBV_ODP_SUPPORT) &&
		(attr.odp_caps.per_transport_caps.rc_odp_caps & needed) == needed;
}

/* the index of the IPv4-mapped address, which is routed to the device itself */
static int
gid_index(struct ibv_context *ctx, union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	for (int i = 0; i < 16; i++) {
		if (ibv_query_gid(ctx, 1, i, gid) == 0 && memcmp(gid, mapped, sizeof(mapped)) == 0)
			return i;
	}
	need(false, "no IPv4 address of the device");
	return -1;
}

static void
connect_to_itself(struct loop *l)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = l->qp->qp_num,
		.max_dest_rd_atomic = 1,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 64 },
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	rtr.ah_attr.grh.sgid_index = (uint8_t)gid_index(l->ctx, &rtr.ah_attr.grh.dgid);

	need(ibv_modify_qp(l->qp, &init,
		     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
		"INIT");
	need(ibv_modify_qp(l->qp, &rtr,
		     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
		"RTR");
	need(ibv_modify_qp(l->qp, &rts,
		     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			     IBV_QP_MAX_QP_RD_ATOMIC) == 0,
		"RTS");
}

static void
loop_new(struct loop *l)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	need(devices && devices[0], "no RDMA device");
	l->ctx = ibv_open_device(devices[0]);
	need(l->ctx, "ibv_open_device");
	ibv_free_device_list(devices);
	if (!on_demand(l->ctx)) {
		printf("SKIPPED: this device has no on-demand paging\n");
		exit(EXIT_SKIPPED);
	}

	l->pd = ibv_alloc_pd(l->ctx);
	need(l->pd, "ibv_alloc_pd");
	l->cq = ibv_create_cq(l->ctx, 4, NULL, NULL, 0);
	need(l->cq, "ibv_create_cq");
	struct ibv_qp_init_attr attr = {
		.send_cq = l->cq,
		.recv_cq = l->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	l->qp = ibv_create_qp(l->pd, &attr);
	need(l->qp, "ibv_create_qp");
	connect_to_itself(l);

	l->buf = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(l->buf != MAP_FAILED, "mmap");
	l->src = ibv_reg_mr(l->pd, l->buf, LEN, IBV_ACCESS_LOCAL_WRITE);
	need(l->src, "ibv_reg_mr");
}

static void
transfer(struct loop *l, enum ibv_wr_opcode opcode, const struct ibv_mr *dst, size_t at, size_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)l->buf, .length = (uint32_t)len, .lkey = l->src->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)dst->addr + at, .rkey = dst->rkey },
	};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int n;

	errno = ibv_post_send(l->qp, &wr, &bad);
	need(errno == 0, "ibv_post_send");
	while ((n = ibv_poll_cq(l->cq, 1, &wc)) == 0)
		;
	errno = EIO;
	need(n == 1 && wc.status == IBV_WC_SUCCESS, "the operation failed");
}

/* byte i of the payload: different at each place of a page, unlike a short text that repeats */
static uint8_t
payload(size_t i)
{
	return (uint8_t)(1 + i % 251);
}

/* writes len bytes at offset `at`, and prints where they went; true if that is where they belong */
static bool
try(struct loop *l, const char *what, uint8_t *mem, const struct ibv_mr *mr, size_t at, size_t len)
{
	size_t wrong = 0, outside = 0, read_back = 0;

	memset(mem, 0, LEN);
	for (size_t i = 0; i < len; i++)
		l->buf[i] = payload(i);
	transfer(l, IBV_WR_RDMA_WRITE, mr, at, len);
	memset(l->buf, 0, LEN);
	transfer(l, IBV_WR_RDMA_READ, mr, at, len);

	for (size_t i = 0; i < LEN; i++) {
		if (i >= at && i - at < len)
			wrong += mem[i] != payload(i - at);
		else
			outside += mem[i] != 0;
	}
	for (size_t i = 0; i < len; i++)
		read_back += l->buf[i] != payload(i);
	printf("%s, %zu bytes at offset %zu: %zu not there, %zu elsewhere, %zu wrong when read back\n", what,
		len, at, wrong, outside, read_back);
	if (outside && mem[0] && at >= PAGE / 64)
		printf("  the page begins with %02x %02x %02x %02x: the payload\n", mem[0], mem[1], mem[2],
			mem[3]);
	return !wrong && !outside && !read_back;
}

static bool
try_all(struct loop *l, const char *what, uint8_t *mem, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(l->pd, mem, LEN,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | access);
	bool right = true;

	if (mr == NULL) {
		printf("%s: cannot be registered: %s\n", what, strerror(errno));
		return true;
	}
	right &= try(l, what, mem, mr, 0, 8);
	right &= try(l, what, mem, mr, 64, 8);
	right &= try(l, what, mem, mr, 0, PAGE);
	right &= try(l, what, mem, mr, PAGE - 4, 8);
	need(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	return right;
}

int
main(int argc, char *argv[])
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, fd = -1;
	struct loop l;

	loop_new(&l);
	if (argc > 1) {
		flags = MAP_SHARED;
		fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		need(fd >= 0 && ftruncate(fd, (off_t)LEN) == 0, argv[1]);
	}
	uint8_t *mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, flags, fd, 0);
	need(mem != MAP_FAILED, "mmap");

	/* if pinned memory fails, the program itself is wrong */
	need(try_all(&l, "pinned", mem, 0), "pinned memory");
	return try_all(&l, "on demand", mem, IBV_ACCESS_ON_DEMAND) ? EXIT_SUCCESS : EXIT_WRONG;
}
