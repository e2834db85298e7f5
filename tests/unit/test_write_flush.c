/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_write_flush.c -- durable writes: what is posted, and that each has exactly one completion */

#include "posting.h"
#include "write_flush.h"

#define WRITE_FAILED IBV_WC_REM_ACCESS_ERR
#define FLUSHED IBV_WC_WR_FLUSH_ERR
#define NOTHING 0xFFFFu /* no status */

static int
post(struct rpma_conn *conn, int flags, const void *context)
{
	return rpma_write_flush(conn, f.remote, 8, f.mr, 16, 24, RPMA_FLUSH_TYPE_VISIBILITY, flags, context);
}

/* ---- the posted requests ---- */

static void
arguments(void **state)
{
	(void)state;
	const struct {
		struct rpma_conn *conn;
		struct rpma_mr_remote *dst;
		size_t dst_offset;
		struct rpma_mr_local *src;
		size_t src_offset, len;
		int type, flags, ret;
	} table[] = {
		{ f.conn, f.remote, 0, f.mr, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, 0 },
		{ f.conn, f.remote, 64, f.mr, 64, 0, RPMA_FLUSH_TYPE_VISIBILITY, ON_ERROR, 0 },
		{ f.conn, f.large_remote, 5, f.large, 3, MOCK_MAX_MSG, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS,
			0 },
		{ NULL, f.remote, 0, f.mr, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, RPMA_E_INVAL },
		{ f.conn, NULL, 0, f.mr, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, RPMA_E_INVAL },
		{ f.conn, f.remote, 0, NULL, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, RPMA_E_INVAL },
		{ f.conn, NULL, 0, NULL, 0, 0, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, RPMA_E_INVAL },
		{ f.conn, f.remote, 0, f.mr, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, 0, RPMA_E_INVAL },
		{ f.conn, f.remote, 0, f.mr, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, MORE, RPMA_E_INVAL },
		{ f.conn, f.remote, 0, f.mr, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS | 1 << 4,
			RPMA_E_INVAL },
		{ f.conn, f.remote, 0, f.mr, 0, 64, 2, ALWAYS, RPMA_E_INVAL },
		{ f.conn, f.remote, 0, f.mr, 0, 64, -1, ALWAYS, RPMA_E_INVAL },
		{ f.conn, f.remote, 1, f.mr, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, RPMA_E_INVAL },
		{ f.conn, f.remote, 65, f.mr, 0, 0, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, RPMA_E_INVAL },
		{ f.conn, f.remote, SIZE_MAX, f.mr, 0, 2, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, RPMA_E_INVAL },
		{ f.conn, f.large_remote, 0, f.mr, 1, 64, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, RPMA_E_INVAL },
		{ f.conn, f.large_remote, 0, f.mr, SIZE_MAX, 2, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS,
			RPMA_E_INVAL },
		{ f.conn, f.large_remote, 0, f.large, 0, MOCK_MAX_MSG + 1, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS,
			RPMA_E_INVAL },
		{ f.conn, f.remote, 0, f.mr, 0, SIZE_MAX, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, RPMA_E_INVAL },
		/* by reading after the write; but the other side has not declared that this is enough */
		{ f.conn, f.remote, 0, f.mr, 0, 64, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, RPMA_E_NOSUPP },
	};
	for (size_t i = 0; i < ROWS(table); i++) {
		const int errors = mock.logged[RPMA_LOG_LEVEL_ERROR];
		forget_posts();
		int ret = rpma_write_flush(table[i].conn, table[i].dst, table[i].dst_offset, table[i].src,
			table[i].src_offset, table[i].len, (enum rpma_flush_type)table[i].type,
			table[i].flags, ctx(1));
		if (ret != table[i].ret)
			fail_msg("row %zu: %d", i, ret);
		assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], errors + (ret != 0));
		assert_int_equal(mock.chained, ret == 0 ? 2 : 0);
		assert_int_equal(mock.rung, ret == 0);
	}

	/* a region that does not offer the flush */
	struct rpma_mr_remote *none = mock_remote(64, RPMA_MR_USAGE_WRITE_DST, true, ALL_CAPS);
	forget_posts();
	assert_fails(RPMA_E_NOSUPP,
		rpma_write_flush(f.conn, none, 0, f.mr, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, NULL));
	assert_int_equal(mock.rung, 0);
	rpma_mr_remote_delete(&none);
}

static void
one_chain(int flush_opcode)
{
	static const struct {
		int flags;
		unsigned write, flush;
	} table[] = {
		{ ALWAYS, 0, IBV_SEND_SIGNALED },
		{ ON_ERROR, 0, 0 },
		/* the fence is set on the first of the two requests */
		{ ALWAYS | FENCE, IBV_SEND_FENCE, IBV_SEND_SIGNALED },
		{ ON_ERROR | FENCE, IBV_SEND_FENCE, 0 },
	};
	for (size_t i = 0; i < ROWS(table); i++) {
		forget_posts();
		assert_ok(post(f.conn, table[i].flags, ctx(1)));
		assert_int_equal(mock.rung, 1);
		assert_int_equal(mock.chained, 2);
		assert_int_equal(mock.chain[0].wr.opcode, IBV_WR_RDMA_WRITE);
		assert_int_equal(mock.chain[0].wr.send_flags, table[i].write);
		assert_true(mock.chain[0].wr.wr_id != (uintptr_t)ctx(1));
		assert_true(mock.chain[0].wr.wr.rdma.remote_addr == RADDR + 8);
		assert_true(mock.chain[0].wr.wr.rdma.rkey == MOCK_RKEY);
		assert_true(mock.chain[0].sge[0].addr == (uintptr_t)memory + 16);
		assert_int_equal(mock.chain[0].sge[0].length, 24);
		assert_posted(1, flush_opcode, ctx(1));
		assert_int_equal(mock.chain[1].wr.send_flags, table[i].flush);
	}
}

static void
a_native_chain(void **state)
{
	(void)state;
	one_chain(RPMAI_WR_FLUSH);
	assert_true(mock.flush.raddr == RADDR + 8 && mock.flush.len == 24 && mock.flush.rkey == MOCK_RKEY);
	assert_int_equal(mock.flush.type, RPMAI_FLUSH_GLOBAL);
	assert_ok(
		rpma_write_flush(f.conn, f.remote, 0, f.mr, 0, 64, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, NULL));
	assert_int_equal(mock.flush.type, RPMAI_FLUSH_PERSISTENT);
}

static void
a_chain_with_a_read(void **state)
{
	(void)state;
	one_chain(IBV_WR_RDMA_READ);
	assert_true(mock.chain[1].wr.wr.rdma.remote_addr == RADDR + 8);
	assert_in_range(mock.chain[1].sge[0].length, 1, 24);
	/* not into the written data */
	assert_not_in_range(mock.chain[1].sge[0].addr, (uintptr_t)memory, (uintptr_t)memory + 63);
}

static void
held_back_like_others(void **state)
{
	(void)state;
	assert_ok(post(f.conn, ALWAYS | MORE, ctx(1)));
	assert_ok(post(f.conn, ALWAYS | MORE, ctx(2)));
	assert_int_equal(mock.rung, 0);
	assert_ok(rpma_send(f.conn, NULL, 0, 0, ALWAYS, ctx(3)));
	assert_int_equal(mock.rung, 1);
	assert_int_equal(mock.chained, 5);
	assert_posted(1, RPMAI_WR_FLUSH, ctx(1));
	assert_posted(3, RPMAI_WR_FLUSH, ctx(2));
	assert_posted(4, IBV_WR_SEND, ctx(3));
	assert_true(mock.chain[0].wr.wr_id != mock.chain[2].wr.wr_id);

	/* a write and its flush are not separated when the batch is full */
	struct rpma_conn *conn = conn_of_sq_size(3);
	forget_posts();
	for (uintptr_t i = 0; i < 3; i++) {
		assert_ok(post(conn, ALWAYS | MORE, ctx(i)));
		assert_int_equal(mock.chained, 2 * (int)i);
	}
	assert_ok(rpma_conn_delete(&conn));

	/* a batch too small for both: they are posted at once */
	conn = conn_of_sq_size(1);
	forget_posts();
	assert_ok(post(conn, ALWAYS | MORE, ctx(1)));
	assert_int_equal(mock.rung, 1);
	assert_int_equal(mock.chained, 2);
	assert_ok(rpma_conn_delete(&conn));
}

/* ---- completions ---- */

/* the completions that the device reports at the next poll */
static void
report(const struct ibv_wc *wc, int count)
{
	assert_in_range(count, 0, MOCK_EVENTS);
	for (int i = 0; i < count; i++)
		mock.wc[i] = wc[i];
	mock.wcs = count;
	mock.wcs_once = true;
}

static struct ibv_wc
done(uint64_t wr_id, enum ibv_wc_status status)
{
	/* only these members of a failed completion may be read */
	return (struct ibv_wc){ .wr_id = wr_id, .status = status, .opcode = (enum ibv_wc_opcode)0x7777 };
}

static uint64_t
id(const void *context)
{
	return (uintptr_t)context;
}

/* the id of the write part of the n-th durable write since forget_posts() */
static uint64_t
part(int n)
{
	assert_in_range(2 * n, 0, mock.chained - 1);
	return mock.chain[2 * n].wr.wr_id;
}

/* takes the completions as the user does */
static int
collect(struct ibv_wc wc[static MOCK_EVENTS])
{
	struct rpma_cq *cq = NULL;
	int got = -1;
	assert_ok(rpma_conn_get_cq(f.conn, &cq));
	int ret = rpma_cq_get_wc(cq, MOCK_EVENTS, wc, &got);
	if (ret == RPMA_E_NO_COMPLETION)
		return 0;
	assert_int_equal(ret, 0);
	return got;
}

static void
a_success_is_the_flushs(void **state)
{
	(void)state;
	struct ibv_wc wc[MOCK_EVENTS];
	assert_ok(post(f.conn, ALWAYS, ctx(1)));
	report(&(struct ibv_wc){ .wr_id = id(ctx(1)), .opcode = (enum ibv_wc_opcode)RPMAI_WC_FLUSH }, 1);
	assert_int_equal(collect(wc), 1);
	assert_true(wc[0].wr_id == id(ctx(1)));
	assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
	assert_int_equal((int)wc[0].opcode, RPMAI_WC_FLUSH);
}

/* failures: the completions that the device reports in each poll, and those that the user gets */
static void
each_has_one_completion(void **state)
{
	(void)state;
	/* events: the write part of the n-th durable write, its flush, or another request with a context */
	enum { WRITE, FLUSH, OTHER };
	struct step {
		int kind;
		uintptr_t number; /* of the durable write, or of the other request's context */
		enum ibv_wc_status status;
		unsigned seen; /* the status that the user gets, or NOTHING */
		bool next_poll;
	};
	static const struct {
		const char *name;
		uintptr_t contexts[3]; /* of the durable writes */
		int writes, steps;
		struct step step[MOCK_EVENTS];
	} table[] = {
		{ "the write fails", { 1 }, 1, 2,
			{ { WRITE, 0, WRITE_FAILED, WRITE_FAILED, false },
				{ FLUSH, 0, FLUSHED, NOTHING, false } } },
		{ "its two completions come apart", { 1 }, 1, 2,
			{ { WRITE, 0, WRITE_FAILED, WRITE_FAILED, false },
				{ FLUSH, 0, FLUSHED, NOTHING, true } } },
		{ "the flush fails", { 1 }, 1, 1,
			{ { FLUSH, 0, IBV_WC_REM_OP_ERR, IBV_WC_REM_OP_ERR, false } } },
		{ "an earlier operation failed", { 2 }, 1, 3,
			{ { OTHER, 1, WRITE_FAILED, WRITE_FAILED, false },
				{ WRITE, 0, FLUSHED, FLUSHED, false },
				{ FLUSH, 0, FLUSHED, NOTHING, false } } },
		{ "without a context", { 0 }, 1, 2,
			{ { WRITE, 0, WRITE_FAILED, WRITE_FAILED, false },
				{ FLUSH, 0, FLUSHED, NOTHING, false } } },
		{ "other errors between the two", { 1 }, 1, 4,
			{ { WRITE, 0, WRITE_FAILED, WRITE_FAILED, false },
				{ OTHER, 5, FLUSHED, FLUSHED, false }, { OTHER, 6, FLUSHED, FLUSHED, true },
				{ FLUSH, 0, FLUSHED, NOTHING, false } } },
		{ "a success of the other queue between the two", { 1 }, 1, 3,
			{ { WRITE, 0, WRITE_FAILED, WRITE_FAILED, false },
				{ OTHER, 1, IBV_WC_SUCCESS, IBV_WC_SUCCESS, false },
				{ FLUSH, 0, FLUSHED, NOTHING, false } } },
		{ "three, each with its context", { 1, 2, 3 }, 3, 6,
			{ { WRITE, 0, WRITE_FAILED, WRITE_FAILED, false },
				{ FLUSH, 0, FLUSHED, NOTHING, false }, { WRITE, 1, FLUSHED, FLUSHED, true },
				{ FLUSH, 1, FLUSHED, NOTHING, true }, { WRITE, 2, FLUSHED, FLUSHED, false },
				{ FLUSH, 2, FLUSHED, NOTHING, false } } },
		{ "three of the same context", { 1, 1, 1 }, 3, 6,
			{ { WRITE, 0, WRITE_FAILED, WRITE_FAILED, false },
				{ FLUSH, 0, FLUSHED, NOTHING, false }, { WRITE, 1, FLUSHED, FLUSHED, false },
				{ FLUSH, 1, FLUSHED, NOTHING, true }, { WRITE, 2, FLUSHED, FLUSHED, false },
				{ FLUSH, 2, FLUSHED, NOTHING, false } } },
		{ "the first flush fails, and a write of the same context behind it", { 1, 1 }, 2, 4,
			{ { FLUSH, 0, IBV_WC_REM_OP_ERR, IBV_WC_REM_OP_ERR, false },
				{ WRITE, 1, FLUSHED, FLUSHED, false }, { FLUSH, 1, FLUSHED, NOTHING, false },
				{ OTHER, 1, FLUSHED, FLUSHED, false } } },
		/*
		 * both completions look the same, so one of them is dropped: one remains for the receive, and
		 * one for the durable write
		 */
		{ "a receive of the same context between the two", { 1 }, 1, 3,
			{ { WRITE, 0, WRITE_FAILED, WRITE_FAILED, false },
				{ OTHER, 1, FLUSHED, NOTHING, false },
				{ FLUSH, 0, FLUSHED, FLUSHED, false } } },
		{ "receives of the same context before and behind", { 1 }, 1, 4,
			{ { OTHER, 1, FLUSHED, FLUSHED, false },
				{ WRITE, 0, WRITE_FAILED, WRITE_FAILED, false },
				{ FLUSH, 0, FLUSHED, NOTHING, true },
				{ OTHER, 1, FLUSHED, FLUSHED, true } } },
	};
	for (size_t i = 0; i < ROWS(table); i++) {
		forget_posts();
		for (int w = 0; w < table[i].writes; w++)
			assert_ok(post(f.conn, w % 2 ? ON_ERROR : ALWAYS, ctx(table[i].contexts[w])));

		for (int s = 0; s < table[i].steps;) {
			struct ibv_wc reported[MOCK_EVENTS], expected[MOCK_EVENTS], got[MOCK_EVENTS];
			int count = 0, kept = 0;
			do {
				const struct step *step = &table[i].step[s++];
				const uintptr_t context =
					step->kind == OTHER ? step->number : table[i].contexts[step->number];
				reported[count++] =
					done(step->kind == WRITE ? part((int)step->number) : id(ctx(context)),
						step->status);
				if (step->seen != NOTHING)
					expected[kept++] =
						done(id(ctx(context)), (enum ibv_wc_status)step->seen);
			} while (s < table[i].steps && !table[i].step[s].next_poll);
			report(reported, count);
			int n = collect(got);
			if (n != kept)
				fail_msg("%s: %d completions, not %d", table[i].name, n, kept);
			for (int k = 0; k < kept; k++)
				if (got[k].wr_id != expected[k].wr_id || got[k].status != expected[k].status)
					fail_msg("%s: completion %d is of %llx with status %d", table[i].name,
						k, (unsigned long long)got[k].wr_id, (int)got[k].status);
		}
	}
}

/* a failed write is always reported as a failed flush */
static void
the_operation_of_a_failed_write(void **state)
{
	(void)state;
	struct ibv_wc wc[MOCK_EVENTS];
	struct rpma_completion cmpl;
	assert_ok(post(f.conn, ALWAYS, ctx(1)));
	report(&(struct ibv_wc){ .wr_id = part(0), .status = WRITE_FAILED }, 1);
	assert_int_equal(collect(wc), 1);
	assert_int_equal((int)wc[0].opcode, RPMAI_WC_FLUSH);

	forget_posts();
	assert_ok(post(f.conn, ALWAYS, ctx(2)));
	report(&(struct ibv_wc){ .wr_id = part(0), .status = WRITE_FAILED }, 1);
	assert_ok(rpma_conn_completion_get(f.conn, &cmpl));
	assert_ptr_equal(cmpl.op_context, ctx(2));
	assert_int_equal(cmpl.op_status, WRITE_FAILED);
}

/* one completion at a time: a dropped one must not look like an empty queue */
static int
poll_one_by_one(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	(void)cq;
	assert_int_equal(num_entries, 1);
	if (mock.wcs == 0)
		return 0;
	mock.wcs--;
	*wc = mock.wc[0];
	memmove(&mock.wc[0], &mock.wc[1], sizeof(mock.wc) - sizeof(mock.wc[0]));
	return 1;
}

static void
behind_what_is_dropped(void **state)
{
	(void)state;
	struct rpma_cq *cq = NULL;
	struct ibv_wc wc;
	assert_ok(rpma_conn_get_cq(f.conn, &cq));
	assert_ok(post(f.conn, ALWAYS, ctx(1)));
	const struct ibv_wc reported[] = { done(part(0), WRITE_FAILED), done(id(ctx(1)), FLUSHED),
		done(id(ctx(2)), FLUSHED) };
	report(reported, 3);
	mock.wcs_once = false;
	mock.ctx.ops.poll_cq = poll_one_by_one;
	assert_ok(rpma_cq_get_wc(cq, 1, &wc, NULL));
	assert_true(wc.wr_id == id(ctx(1)) && wc.status == WRITE_FAILED);
	assert_ok(rpma_cq_get_wc(cq, 1, &wc, NULL));
	assert_true(wc.wr_id == id(ctx(2)) && wc.status == FLUSHED);
	assert_int_equal(rpma_cq_get_wc(cq, 1, &wc, NULL), RPMA_E_NO_COMPLETION);
}

/* ---- posted in part ---- */

static void
a_write_that_is_alone(void **state)
{
	(void)state;
	struct ibv_wc wc[MOCK_EVENTS];
	struct rpma_conn_stats stats = { .size = sizeof(stats) };
	mock.send_limit = 1;
	assert_fails(RPMA_E_PROVIDER, post(f.conn, ALWAYS, ctx(1)));
	assert_int_equal(mock.chained, 1);
	const uint64_t alone = mock.chain[0].wr.wr_id;
	mock.send_limit = 0;
	assert_ok(rpma_conn_submit(f.conn)); /* nothing is left in the batch */
	assert_int_equal(mock.chained, 1);

	/* the call has failed, so its completion is dropped; the completion of the next one is its own */
	forget_posts();
	assert_ok(post(f.conn, ALWAYS, ctx(1)));
	assert_true(part(0) != alone);
	const struct ibv_wc reported[] = { done(alone, WRITE_FAILED), done(part(0), FLUSHED),
		done(id(ctx(1)), FLUSHED) };
	report(reported, 1);
	assert_int_equal(collect(wc), 0);
	report(reported, 3);
	assert_int_equal(collect(wc), 1);
	assert_true(wc[0].wr_id == id(ctx(1)) && wc[0].status == FLUSHED);

	assert_ok(rpma_conn_get_stats(f.conn, &stats));
	assert_int_equal(stats.writes, 1);
	assert_int_equal(stats.flushes, 1);
	assert_int_equal(stats.bytes_written, 24);
	assert_int_equal(stats.completion_errors, 1);
}

static int (*complete)(struct ibv_qp_ex *qp);
static struct ibv_wc early_wc[MOCK_EVENTS];
static int early;

/* both parts have failed, and another thread collects that, before the post returns */
static int
complete_early(struct ibv_qp_ex *qp)
{
	int ret = complete(qp);
	const struct ibv_wc reported[] = { done(part(0), WRITE_FAILED), done(id(ctx(1)), FLUSHED) };
	report(reported, 2);
	early = collect(early_wc);
	return ret;
}

static void
failed_before_the_post_returns(void **state)
{
	(void)state;
	complete = f.conn->qp_ex->wr_complete;
	f.conn->qp_ex->wr_complete = complete_early;
	assert_ok(post(f.conn, ALWAYS, ctx(1)));
	f.conn->qp_ex->wr_complete = complete;
	assert_int_equal(early, 1);
	assert_true(early_wc[0].wr_id == id(ctx(1)) && early_wc[0].status == WRITE_FAILED);
}

static void
nothing_taken(void **state)
{
	(void)state;
	const char *const call = f.conn->qp_ex ? "wr_complete" : "post_send";
	fail_next(call, ENOMEM);
	assert_fails(RPMA_E_PROVIDER, post(f.conn, ALWAYS, ctx(1)));
	assert_int_equal(mock.chained, 0);
	assert_ok(post(f.conn, ALWAYS, ctx(2)));
	assert_int_equal(mock.chained, 2);
}

/* behind a post that is held back: the device takes that one, and then neither or one of the two parts */
static void
behind_held_posts_in_part(void **state)
{
	(void)state;
	struct ibv_wc wc[MOCK_EVENTS];
	for (int parts_taken = 0; parts_taken < 2; parts_taken++) {
		forget_posts();
		mock.send_limit = 0;
		assert_ok(rpma_send(f.conn, NULL, 0, 0, ALWAYS | MORE, ctx(0)));
		mock.send_limit = 1 + parts_taken;
		assert_fails(RPMA_E_PROVIDER, post(f.conn, ALWAYS, ctx(1)));
		assert_int_equal(mock.chained, 1 + parts_taken);
		mock.send_limit = 0;
		assert_ok(rpma_conn_submit(f.conn)); /* nothing is left in the batch */
		assert_int_equal(mock.chained, 1 + parts_taken);
		if (parts_taken == 0)
			continue;
		/* the call has failed, so no completion of the write part is shown */
		const struct ibv_wc reported[] = { done(mock.chain[1].wr.wr_id, WRITE_FAILED) };
		report(reported, 1);
		assert_int_equal(collect(wc), 0);
	}
}

/*
 * the write was posted and its flush is still batched: after the next doorbell it is an ordinary durable
 * write
 */
static void
the_flush_is_rung_later(void **state)
{
	(void)state;
	struct ibv_wc wc[MOCK_EVENTS];
	assert_ok(post(f.conn, ALWAYS | MORE, ctx(1)));
	mock.send_limit = 1;
	assert_fails(RPMA_E_PROVIDER, rpma_conn_submit(f.conn));
	assert_int_equal(mock.chained, 1);
	mock.send_limit = 0;
	assert_ok(rpma_conn_submit(f.conn));
	assert_int_equal(mock.chained, 2);
	assert_posted(1, IBV_WR_RDMA_READ, ctx(1));
	const struct ibv_wc reported[] = { done(part(0), WRITE_FAILED), done(id(ctx(1)), FLUSHED) };
	report(reported, 2);
	assert_int_equal(collect(wc), 1);
	assert_true(wc[0].wr_id == id(ctx(1)) && wc[0].status == WRITE_FAILED);
}

static void
no_memory_for_the_list(void **state)
{
	(void)state;
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, post(f.conn, ALWAYS | MORE, ctx(1)));
	assert_int_equal(mock.rung, 0);
	assert_ok(post(f.conn, ALWAYS, ctx(1)));
	assert_int_equal(mock.chained, 2);
}

/* ---- the ring of write parts ---- */

/* however many there were: those in progress are distinct, and each knows its context */
static void
the_ring_wraps(void **state)
{
	(void)state;
	struct ibv_wc wc[MOCK_EVENTS];
	for (uintptr_t round = 0; round < 40; round++) {
		forget_posts();
		for (uintptr_t i = 0; i < SQ_SIZE / 2; i++)
			assert_ok(post(f.conn, ALWAYS, ctx(10 * round + i)));
		for (int i = 0; i < SQ_SIZE / 2; i++)
			for (int j = 0; j < i; j++)
				assert_true(part(i) != part(j));
		const int last = SQ_SIZE / 2 - 1;
		const void *context = ctx(10 * round + (uintptr_t)last);
		const struct ibv_wc reported[] = { done(part(last), WRITE_FAILED),
			done(id(context), FLUSHED) };
		report(reported, 2);
		assert_int_equal(collect(wc), 1);
		assert_true(wc[0].wr_id == id(context) && wc[0].status == WRITE_FAILED);
	}
}

static void
its_memory(void **state)
{
	(void)state;
	struct write_parts *parts = NULL;
	for (int skip = 0; skip < 2; skip++) {
		mock.malloc_skip = skip;
		assert_fails(RPMA_E_NOMEM, rpmai_write_parts_new(10, &parts));
		assert_null(parts);
	}
	rpmai_write_parts_delete(&parts);
	assert_ok(rpmai_write_parts_new(10, &parts));
	assert_in_range(parts->size, 2 * 10, 1000);

	/* addresses directly before and after the ring are ordinary contexts */
	struct ibv_wc wc[] = { done((uintptr_t)parts->list - 1, FLUSHED),
		done((uintptr_t)(parts->list + parts->size), FLUSHED) };
	assert_int_equal(rpmai_write_parts_merge(parts, wc, 2), 2);
	assert_true(wc[0].wr_id == (uintptr_t)parts->list - 1);
	assert_int_equal(rpmai_write_parts_merge(parts, wc, 0), 0);
	rpmai_write_parts_delete(&parts);
	assert_null(parts);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		plain_test(arguments),
		native_test(a_native_chain),
		plain_test(a_chain_with_a_read),
		native_test(held_back_like_others),
		native_test(a_success_is_the_flushs),
		native_test(each_has_one_completion),
		plain_test(each_has_one_completion),
		native_test(the_operation_of_a_failed_write),
		native_test(behind_what_is_dropped),
		plain_test(a_write_that_is_alone),
		plain_test(nothing_taken),
		plain_test(behind_held_posts_in_part),
		native_test(failed_before_the_post_returns),
		native_test(nothing_taken),
		plain_test(the_flush_is_rung_later),
		native_test(no_memory_for_the_list),
		native_test(the_ring_wraps),
		plain_test(its_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
