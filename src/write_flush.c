/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * write_flush.c -- durable writes: a write and the flush of its range, posted together, with one completion
 *
 * The write part asks for no completion, and a reliable connection keeps the order. So if nothing fails, the
 * flush's completion stands for both. If the write fails, the device reports it anyway, and then reports the
 * flush after it as flushed (IBV_WC_WR_FLUSH_ERR). The first completion has the reason and becomes that of
 * the durable write; the second is dropped. The write part is recognized by its wr_id, the address of a
 * struct write_part, which no context of the program can be. Only failed completions are compared with it.
 */

#include <errno.h>
#include <stdlib.h>

#include "conn.h"
#include "err.h"
#include "flush.h"
#include "inherited.h"
#include "op.h"
#include "write_flush.h"

/* ---- completions ---- */

int
rpmai_write_parts_new(uint32_t sq_size, struct write_parts **parts_ptr)
{
	struct write_parts *parts = calloc(1, sizeof(*parts));
	if (parts == NULL)
		return RPMAI_FAIL_NOMEM();

	/*
	 * An element is used again only after its write part has left the send queue and its completion, if
	 * any, has been merged. Twice the queue size is needed: one poll of the completion queue frees
	 * entries that can be posted again before their completions are merged.
	 */
	parts->size = 2 * sq_size + 2;
	parts->list = calloc(parts->size, sizeof(*parts->list));
	if (parts->list == NULL) {
		free(parts);
		return RPMAI_FAIL_NOMEM();
	}
	*parts_ptr = parts;
	return 0;
}

void
rpmai_write_parts_delete(struct write_parts **parts_ptr)
{
	struct write_parts *parts = *parts_ptr;
	if (parts == NULL)
		return;
	*parts_ptr = NULL;
	free(parts->list);
	free(parts);
}

static struct write_part *
part_of(const struct write_parts *parts, uint64_t wr_id)
{
	const uint64_t first = (uintptr_t)parts->list;
	const uint64_t end = (uintptr_t)(parts->list + parts->size);
	return wr_id >= first && wr_id < end ? &parts->list[(wr_id - first) / sizeof(*parts->list)] : NULL;
}

/* true if the completion is reported to the program */
static bool
merge_one(struct write_parts *parts, struct ibv_wc *wc)
{
	struct write_part *part = part_of(parts, wc->wr_id);
	if (part && atomic_load(&part->is_alone))
		return false;
	if (part) {
		wc->wr_id = part->op_context;
		wc->opcode = (enum ibv_wc_opcode)RPMAI_WC_FLUSH;
		parts->has_reported = true;
		parts->reported = part->op_context;
		return true;
	}
	if (parts->has_reported && wc->wr_id == parts->reported) {
		parts->has_reported = false;
		return false;
	}
	return true;
}

int
rpmai_write_parts_merge(struct write_parts *parts, struct ibv_wc *wc, int count)
{
	int kept = 0;
	for (int i = 0; i < count; i++) {
		if (wc[i].status != IBV_WC_SUCCESS && !merge_one(parts, &wc[i]))
			continue;
		if (kept != i)
			wc[kept] = wc[i];
		kept++;
	}
	return kept;
}

/* ---- the operation ---- */

int
rpma_write_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, size_t len, enum rpma_flush_type type, int flags,
	const void *op_context)
{
	if (conn == NULL || dst == NULL || src == NULL)
		return RPMAI_FAIL_NULL();

	if (rpmai_peer_is_inherited(conn->peer))
		return rpmai_refuse_inherited();
	int ret = rpmai_op_check_flags(flags);
	if (ret)
		return ret;

	struct work_request reqs[2];
	rpmai_op_init(&reqs[0], IBV_WR_RDMA_WRITE, flags, NULL);
	reqs[0].wr.send_flags &= ~(unsigned)IBV_SEND_SIGNALED;
	ret = rpmai_op_add_remote(&reqs[0], dst, dst_offset, len);
	if (ret)
		return ret;
	ret = rpmai_op_add_local(conn, &reqs[0], src, src_offset, len);
	if (ret)
		return ret;
	ret = rpmai_flush_prepare(conn, &reqs[1], dst, dst_offset, len, type, flags & ~RPMA_F_FENCE,
		op_context);
	if (ret)
		return ret;

	struct write_parts *parts = conn->cq->write_parts;
	int taken;
	rpmai_cq_keep_order(conn->cq);
	pthread_mutex_lock(&conn->held.lock);
	struct write_part *part = &parts->list[parts->next];
	part->op_context = (uintptr_t)op_context;
	/* until both are posted, because the flush may complete earlier; a FLUSH is never posted without its write */
	atomic_store(&part->is_alone, (int)reqs[1].wr.opcode != RPMAI_WR_FLUSH);
	reqs[0].wr.wr_id = (uintptr_t)part;
	rpmai_op_trace(conn, &reqs[0], len);
	rpmai_op_trace(conn, &reqs[1], len);
	ret = rpmai_post_locked(conn, reqs, 2, flags, &taken);
	if (taken == 2)
		atomic_store(&part->is_alone, false);
	if (taken)
		parts->next = (parts->next + 1) % parts->size;
	pthread_mutex_unlock(&conn->held.lock);
	if (ret)
		return ret;

	rpmai_stats_add(&conn->stats.writes, 1);
	rpmai_stats_add(&conn->stats.bytes_written, len);
	rpmai_stats_add(&conn->stats.flushes, 1);
	return 0;
}
