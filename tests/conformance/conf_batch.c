/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conf_batch.c -- batched posts, the doorbell that submits them together, and fences between posts */

#include <pthread.h>
#include <string.h>

#include "groups.h"
#include "pattern.h"
#include "role.h"

#define SEED 0xba
#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR
#define MORE RPMA_F_MORE
#define PIECE ((size_t)32)
#define USAGE (RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)

/* ---- 64 writes, a flush and a message: when the message is there, all are ---- */

#define WRITES 64
#define BATCHES 10

static void
batch_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, WRITES * PIECE, USAGE);
	desc_put(r, &m);
	for (uint64_t i = 1; i <= BATCHES; i++) {
		CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(i)));
		ctl_put(r, "ready");
		expect_recv(r->cq, i, 0);
		mem_check(&m, SEED + i);
		expect_none(r->cq);
	}
	mem_delete(&m);
	role_close(r);
}

static void
batch_initiator(struct role *r)
{
	const struct conn_opts opts = { .sq = 2 * WRITES, .cq = 2 * WRITES };
	const bool some = r->scenario->arg != NULL; /* only every 8th write is to complete */
	struct rpma_mr_remote *dst;
	struct ibv_wc wc;
	struct mem m;

	role_connect(r, &opts);
	mem_new(r, &m, WRITES * PIECE, RPMA_MR_USAGE_WRITE_SRC);
	dst = remote_take(r);
	for (uint64_t batch = 1; batch <= BATCHES; batch++) {
		mem_fill(&m, SEED + batch);
		ctl_expect(r, "ready");
		for (uint64_t i = 0; i < WRITES; i++)
			CHECK_OK(rpma_write(r->conn, dst, GUARD + i * PIECE, m.mr, GUARD + i * PIECE, PIECE,
				(some && i % 8 ? ON_ERROR : ALWAYS) | MORE, CTX(i)));
		post_flush(r, dst, GUARD, m.len, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS | MORE, WRITES);
		CHECK_OK(rpma_send(r->conn, NULL, 0, 0, ALWAYS, CTX(WRITES + 1)));
		for (uint64_t i = 0; i < WRITES; i += some ? 8 : 1)
			expect_ok(r->cq, i);
		wc = expect_ok(r->cq, WRITES);
		CHECK(wc_is_flush(r, &wc));
		expect_ok(r->cq, WRITES + 1);
		expect_none(r->cq);
	}
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

/* ---- what rings the doorbell: rpma_conn_submit, and a post of any kind ---- */

#define RINGERS 6

static void
ringing_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, RINGERS * 3 * 8, USAGE);
	for (uint64_t i = 0; i < 4; i++)
		CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(i)));
	desc_put(r, &m);
	ctl_expect(r, "rung");
	mem_check(&m, SEED);
	mem_delete(&m);
	role_close(r);
}

static void
ring_by(struct role *r, int how, struct rpma_mr_remote *dst, struct mem *scratch, uint64_t ctx)
{
	switch (how) {
	case 0:
		CHECK_OK(rpma_conn_submit(r->conn));
		return;
	case 1:
		CHECK_OK(rpma_read(r->conn, scratch->mr, GUARD, dst, GUARD, 8, ALWAYS, CTX(ctx)));
		break;
	case 2:
		CHECK_OK(rpma_send(r->conn, NULL, 0, 0, ALWAYS, CTX(ctx)));
		break;
	case 3:
		CHECK_OK(rpma_send_inline(r->conn, NULL, 0, ALWAYS, CTX(ctx)));
		break;
	case 4:
		post_flush(r, dst, GUARD, 8, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, ctx);
		break;
	default:
		CHECK_OK(rpma_write_with_imm(r->conn, NULL, 0, NULL, 0, 0, ALWAYS, 1, CTX(ctx)));
	}
	expect_ok(r->cq, ctx);
}

static void
ringing_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct mem m, scratch;
	uint8_t inlined[8];

	role_connect(r, NULL);
	mem_new(r, &m, RINGERS * 3 * 8, RPMA_MR_USAGE_WRITE_SRC);
	mem_new(r, &scratch, 8, RPMA_MR_USAGE_READ_DST);
	mem_fill(&m, SEED);
	dst = remote_take(r);
	CHECK_OK(rpma_conn_submit(r->conn)); /* nothing is batched */
	for (int how = 0; how < RINGERS; how++) {
		size_t at = GUARD + (size_t)how * 3 * 8;

		CHECK_OK(rpma_write(r->conn, dst, at, m.mr, at, 8, ON_ERROR | MORE, NULL));
		memcpy(inlined, m.base + at + 8, 8);
		CHECK_OK(rpma_write_inline(r->conn, dst, at + 8, inlined, 8, ON_ERROR | MORE, NULL));
		memcpy(inlined, m.base + at + 16, 8);
		CHECK_OK(rpma_atomic_write(r->conn, dst, at + 16, (char *)inlined, ON_ERROR | MORE, NULL));
		memset(inlined, 0xee, sizeof(inlined));
		ring_by(r, how, dst, &scratch, (uint64_t)how);
	}
	CHECK_OK(rpma_write(r->conn, NULL, 0, NULL, 0, 0, ALWAYS, CTX(100)));
	expect_ok(r->cq, 100);
	CHECK_OK(rpma_conn_submit(r->conn));
	expect_none(r->cq);
	ctl_put(r, "rung");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	mem_delete(&scratch);
	role_close(r);
}

/* ---- disconnecting and deleting drop batched posts ---- */

static void
dropped_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 4096, USAGE);
	desc_put(r, &m);
	expect_end(r->conn);
	expect_none(r->cq);
	conn_delete(&r->conn);
	ctl_expect(r, "deleted");
	mem_check_untouched(&m);
	mem_delete(&m);
	role_delete(r);
}

/* scenario->arg: deleted without a disconnect */
static void
dropped_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 4096, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(&m, SEED);
	dst = remote_take(r);
	for (uint64_t i = 0; i < 8; i++)
		CHECK_OK(rpma_write(r->conn, dst, GUARD + i * 8, m.mr, GUARD, 8, ALWAYS | MORE, CTX(i)));
	CHECK_OK(rpma_send_inline(r->conn, "bye", 3, ALWAYS | MORE, CTX(8)));
	if (!r->scenario->arg) {
		CHECK_OK(rpma_conn_disconnect(r->conn));
		expect_end(r->conn);
		expect_none(r->cq);
		CHECK_OK(rpma_conn_submit(r->conn)); /* nothing is left to submit */
		expect_none(r->cq);
	}
	conn_delete(&r->conn);
	ctl_put(r, "deleted");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_delete(r);
}

/* ---- a full send queue ---- */

#define FULL_SQ 16
/* hardware rounds the depth up, but not above this */
#define ROUNDED_MAX 1024

/* messages carry their number: none is missing, none comes twice */
static void
full_target(struct role *r)
{
	uint64_t count;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 8, RPMA_MR_USAGE_RECV);
	count = ctl_get_u64(r);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t got;

		CHECK_OK(rpma_recv(r->conn, m.mr, GUARD, 8, CTX(i)));
		expect_recv(r->cq, i, 8);
		memcpy(&got, m.data, sizeof(got));
		CHECK_EQ(got, i);
	}
	expect_none(r->cq);
	ctl_put(r, "all");
	mem_delete(&m);
	role_close(r);
}

static int
send_number(struct role *r, uint64_t number, int flags)
{
	return rpma_send_inline(r->conn, &number, sizeof(number), flags, CTX(number));
}

static uint64_t
fill_send_queue(struct role *r)
{
	uint64_t posted = 0;
	int ret;

	for (ret = 0; !ret && posted <= ROUNDED_MAX; posted += !ret)
		ret = send_number(r, posted, ALWAYS);
	CHECK_RET(ret, RPMA_E_PROVIDER);
	return posted;
}

/* scenario->arg: the last post rings the doorbell; otherwise rpma_conn_submit does */
static void
full_initiator(struct role *r)
{
	const struct conn_opts opts = { .sq = FULL_SQ, .cq = 4096 };
	uint64_t count;

	role_connect(r, &opts);
	count = fill_send_queue(r);
	for (int i = 0; i < FULL_SQ - 1; i++)
		CHECK_OK(send_number(r, count++, ALWAYS | MORE));
	/* it fails, and is not posted later: the target gets no message with this number */
	if (r->scenario->arg)
		CHECK_RET(send_number(r, UINT64_MAX, ALWAYS), RPMA_E_PROVIDER);
	for (int i = 0; i < 3; i++)
		CHECK_RET(rpma_conn_submit(r->conn), RPMA_E_PROVIDER);
	expect_none(r->cq);
	ctl_put_u64(r, count);
	for (uint64_t i = 0; i < count; i++) {
		expect_ok(r->cq, i);
		(void)rpma_conn_submit(r->conn); /* submits as many as there is room for now */
	}
	CHECK_OK(rpma_conn_submit(r->conn));
	ctl_expect(r, "all");
	expect_none(r->cq);
	role_close(r);
}

/*
 * The list of batched posts is full, and the device accepts none of them. A further post is now refused, with
 * or without RPMA_F_MORE, and is not kept. A caller that is to post it again must be able to rely on that.
 */
static void
refill_initiator(struct role *r)
{
	const struct conn_opts opts = { .sq = FULL_SQ, .cq = 4096 };
	uint64_t count, total;
	int ret;

	role_connect(r, &opts);
	count = fill_send_queue(r);
	total = 4 * count;
	for (ret = 0; !ret && count <= 2 * ROUNDED_MAX; count += !ret)
		ret = send_number(r, count, ALWAYS | MORE);
	CHECK_RET(ret, RPMA_E_AGAIN);
	CHECK_RET(send_number(r, count, ALWAYS | MORE), RPMA_E_AGAIN);
	CHECK_RET(send_number(r, count, ALWAYS), RPMA_E_AGAIN);
	CHECK_RET(rpma_conn_submit(r->conn), RPMA_E_PROVIDER);
	expect_none(r->cq);
	ctl_put_u64(r, total);
	for (uint64_t i = 0; i < total; i++) {
		expect_ok(r->cq, i);
		while (count < total && (ret = send_number(r, count, ALWAYS | MORE)) == 0)
			count++;
		CHECK(count == total || ret == RPMA_E_AGAIN);
		(void)rpma_conn_submit(r->conn);
	}
	CHECK_OK(rpma_conn_submit(r->conn));
	ctl_expect(r, "all");
	expect_none(r->cq);
	role_close(r);
}

/*
 * ---- far more posts than fit in the queue or in the list of batched posts: the library submits by itself
 * ----
 */

#define LONG_COUNT 2000

static void
long_target(struct role *r)
{
	const struct conn_opts opts = { .rq = LONG_COUNT, .cq = LONG_COUNT };
	struct mem m;

	role_connect(r, &opts);
	mem_new(r, &m, LONG_COUNT * 8, RPMA_MR_USAGE_RECV);
	for (uint64_t i = 0; i < LONG_COUNT; i++)
		CHECK_OK(rpma_recv(r->conn, m.mr, GUARD + i * 8, 8, CTX(i)));
	ctl_put(r, "ready");
	for (uint64_t i = 0; i < LONG_COUNT; i++) {
		uint64_t got;

		expect_recv(r->cq, i, 8);
		memcpy(&got, m.data + i * 8, sizeof(got));
		CHECK_EQ(got, i);
	}
	expect_none(r->cq);
	mem_delete(&m);
	role_close(r);
}

/* the queue has room for all, the list of batched posts has not */
static void
long_initiator(struct role *r)
{
	const struct conn_opts opts = { .sq = LONG_COUNT, .cq = LONG_COUNT };

	role_connect(r, &opts);
	ctl_expect(r, "ready");
	for (uint64_t i = 0; i < LONG_COUNT; i++)
		CHECK_OK(send_number(r, i, ALWAYS | MORE));
	CHECK_OK(rpma_conn_submit(r->conn));
	for (uint64_t i = 0; i < LONG_COUNT; i++)
		expect_ok(r->cq, i);
	expect_none(r->cq);
	role_close(r);
}

/* ---- a post that is refused leaves the batch as it was ---- */

static void
refused_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 64, USAGE);
	desc_put(r, &m);
	ctl_expect(r, "rung");
	mem_check_head(&m, 16, SEED);
	mem_delete(&m);
	role_close(r);
}

static void
refused_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 64, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(&m, SEED);
	dst = remote_take(r);
	CHECK_OK(rpma_write(r->conn, dst, GUARD, m.mr, GUARD, 8, ALWAYS | MORE, CTX(1)));
	CHECK_RET(rpma_write(r->conn, dst, m.mapped, m.mr, GUARD, 8, ALWAYS | MORE, CTX(2)), RPMA_E_INVAL);
	CHECK_RET(rpma_write(r->conn, dst, m.mapped, m.mr, GUARD, 8, ALWAYS, CTX(3)), RPMA_E_INVAL);
	CHECK_RET(rpma_atomic_write(r->conn, dst, GUARD + 1, "1234567", ALWAYS, CTX(4)), RPMA_E_INVAL);
	CHECK_RET(rpma_write(r->conn, dst, GUARD, m.mr, GUARD, 8, MORE, CTX(5)), RPMA_E_INVAL);
	CHECK_OK(rpma_write(r->conn, dst, GUARD + 8, m.mr, GUARD + 8, 8, ALWAYS, CTX(6)));
	expect_ok(r->cq, 1);
	expect_ok(r->cq, 6);
	expect_none(r->cq);
	ctl_put(r, "rung");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

/* ---- the target refuses an operation in the middle of a batch ---- */

#define CHAIN 16
#define BAD 5

static void
broken_target(struct role *r)
{
	struct mem m, gone;

	role_connect(r, NULL);
	mem_new(r, &m, CHAIN * 8, USAGE);
	mem_new(r, &gone, 8, USAGE);
	desc_put(r, &m);
	desc_put(r, &gone);
	mem_dereg(&gone);
	ctl_put(r, "gone");
	expect_end(r->conn);
	ctl_expect(r, "broken there"); /* not before that: fewer bytes may have arrived */
	mem_check_head(&m, BAD * 8, SEED);
	mem_check_untouched(&gone);
	mem_delete(&m);
	mem_delete(&gone);
	conn_delete(&r->conn);
	role_delete(r);
}

static void
broken_initiator(struct role *r)
{
	struct rpma_mr_remote *dst, *gone;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, CHAIN * 8, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(&m, SEED);
	dst = remote_take(r);
	gone = remote_take(r);
	ctl_expect(r, "gone");
	for (uint64_t i = 0; i < CHAIN; i++) {
		size_t at = GUARD + i * 8;

		CHECK_OK(rpma_write(r->conn, i == BAD ? gone : dst, i == BAD ? GUARD : at, m.mr, at, 8,
			ALWAYS | MORE, CTX(i)));
	}
	CHECK_OK(rpma_conn_submit(r->conn));
	for (uint64_t i = 0; i < BAD; i++)
		expect_ok(r->cq, i);
	expect_wc(r->cq, BAD, IBV_WC_REM_ACCESS_ERR);
	for (uint64_t i = BAD + 1; i < CHAIN; i++)
		expect_wc(r->cq, i, IBV_WC_WR_FLUSH_ERR);
	expect_none(r->cq);
	ctl_put(r, "broken there");
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	CHECK_OK(rpma_mr_remote_delete(&dst));
	CHECK_OK(rpma_mr_remote_delete(&gone));
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

/* ---- several threads batch and submit posts on one connection ---- */

#define THREADS 4
#define PER_THREAD 500
#define WINDOW 10
#define STRIPE (WINDOW * 8)

struct batcher {
	struct role *r;
	struct rpma_mr_remote *dst;
	unsigned index;
};

static pthread_barrier_t turn;

/* each thread writes its own stripe; at the end of each turn it submits the batched posts of all threads */
static void *
post_batches(void *arg)
{
	struct batcher *b = arg;

	for (uint64_t i = 0; i < PER_THREAD; i++) {
		uint8_t value[8];
		size_t at = GUARD + b->index * STRIPE + i % WINDOW * 8;
		bool last = i % WINDOW == WINDOW - 1;

		/* the last turn leaves the pattern of the whole region */
		pattern_fill(value, 8, SEED + (i < PER_THREAD - WINDOW ? i + 1 : 0), at - GUARD);
		CHECK_OK(rpma_write_inline(b->r->conn, b->dst, at, value, 8, last ? ALWAYS : ALWAYS | MORE,
			CTX((uint64_t)b->index << 32 | i)));
		if (last) {
			pthread_barrier_wait(&turn); /* all threads have submitted */
			pthread_barrier_wait(&turn); /* all completions are taken */
		}
	}
	return NULL;
}

static void
take_turns(struct role *r)
{
	uint64_t next[THREADS] = { 0 };

	for (int t = 0; t < PER_THREAD / WINDOW; t++) {
		pthread_barrier_wait(&turn);
		for (int i = 0; i < THREADS * WINDOW; i++) {
			struct ibv_wc wc = next_wc(r->cq);
			uint64_t index = wc.wr_id >> 32;

			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			CHECK(index < THREADS);
			CHECK_EQ(wc.wr_id & UINT32_MAX, next[index]);
			next[index]++;
		}
		expect_none(r->cq);
		pthread_barrier_wait(&turn);
	}
}

static void
threads_initiator(struct role *r)
{
	struct batcher batchers[THREADS];
	pthread_t threads[THREADS];
	struct rpma_mr_remote *dst;

	role_connect(r, NULL);
	dst = remote_take(r);
	CHECK_EQ(pthread_barrier_init(&turn, NULL, THREADS + 1), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		batchers[i] = (struct batcher){ .r = r, .dst = dst, .index = i };
		CHECK_EQ(pthread_create(&threads[i], NULL, post_batches, &batchers[i]), 0);
	}
	take_turns(r);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	pthread_barrier_destroy(&turn);
	ctl_put(r, "written");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	role_close(r);
}

static void
threads_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, (size_t)THREADS * STRIPE, USAGE);
	desc_put(r, &m);
	ctl_expect(r, "written");
	mem_check(&m, SEED);
	mem_delete(&m);
	role_close(r);
}

/* ---- fences ---- */

#define FENCE_LEN ((size_t)64 << 10)
#define FENCE_TURNS 50

static void
fence_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, FENCE_LEN, USAGE);
	mem_fill(&m, SEED);
	desc_put(r, &m);
	ctl_expect(r, "done");
	mem_check(&m, SEED + FENCE_TURNS);
	mem_delete(&m);
	role_close(r);
}

/*
 * A read, then a write of the same place behind a fence: the read gets the old content. scenario->arg: as one
 * batch.
 */
static void
fence_initiator(struct role *r)
{
	const int more = r->scenario->arg ? MORE : 0;
	struct rpma_mr_remote *dst;
	struct mem src, back;

	role_connect(r, NULL);
	mem_new(r, &src, FENCE_LEN, RPMA_MR_USAGE_WRITE_SRC);
	mem_new(r, &back, FENCE_LEN, RPMA_MR_USAGE_READ_DST);
	dst = remote_take(r);
	for (uint64_t i = 0; i < FENCE_TURNS; i++) {
		mem_fill(&src, SEED + i + 1);
		CHECK_OK(
			rpma_read(r->conn, back.mr, GUARD, dst, GUARD, FENCE_LEN, ALWAYS | more, CTX(3 * i)));
		post_flush(r, dst, GUARD, FENCE_LEN, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS | more, 3 * i + 1);
		CHECK_OK(rpma_write(r->conn, dst, GUARD, src.mr, GUARD, FENCE_LEN, ALWAYS | RPMA_F_FENCE,
			CTX(3 * i + 2)));
		for (uint64_t ctx = 3 * i; ctx < 3 * i + 3; ctx++)
			expect_ok(r->cq, ctx);
		mem_check(&back, SEED + i);
	}
	expect_none(r->cq);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&src);
	mem_delete(&back);
	role_close(r);
}

/* a fence concerns only its own post; it is accepted on posts of every kind, also where it has no effect */
static void
fence_all_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 64, USAGE);
	CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(1)));
	CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(2)));
	desc_put(r, &m);
	expect_recv(r->cq, 1, 0);
	expect_recv(r->cq, 2, 0);
	mem_check(&m, SEED);
	mem_delete(&m);
	role_close(r);
}

static void
fence_all_initiator(struct role *r)
{
	const int flags = ALWAYS | RPMA_F_FENCE;
	struct rpma_mr_remote *dst;
	struct mem src, back;

	role_connect(r, NULL);
	mem_new(r, &src, 64, RPMA_MR_USAGE_WRITE_SRC);
	mem_new(r, &back, 64, RPMA_MR_USAGE_READ_DST);
	mem_fill(&src, SEED);
	dst = remote_take(r);
	CHECK_OK(rpma_write(r->conn, dst, GUARD, src.mr, GUARD, 64, flags, CTX(1)));
	post_flush(r, dst, GUARD, 64, RPMA_FLUSH_TYPE_VISIBILITY, flags, 2);
	post_write_flush(r, dst, &src, GUARD, 64, RPMA_FLUSH_TYPE_VISIBILITY, flags, 3);
	CHECK_OK(rpma_read(r->conn, back.mr, GUARD, dst, GUARD, 64, flags, CTX(4)));
	CHECK_OK(rpma_write_inline(r->conn, dst, GUARD, src.data, 8, flags, CTX(5)));
	CHECK_OK(rpma_atomic_write(r->conn, dst, GUARD, (char *)src.data, flags, CTX(6)));
	CHECK_OK(rpma_send(r->conn, NULL, 0, 0, flags, CTX(7)));
	CHECK_OK(rpma_send_inline(r->conn, NULL, 0, flags, CTX(8)));
	for (uint64_t i = 1; i <= 8; i++)
		expect_ok(r->cq, i);
	expect_none(r->cq);
	mem_check(&back, SEED);
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&src);
	mem_delete(&back);
	role_close(r);
}

static const struct scenario list[] = {
	{ "smoke-batch-writes-flush-send", batch_target, batch_initiator, WRITES *PIECE, 0, NULL },
	{ "batch-few-completions", batch_target, batch_initiator, WRITES *PIECE, 0, "few" },
	{ "batch-what-rings", ringing_target, ringing_initiator, 64, 0, NULL },
	{ "batch-dropped-by-disconnect", dropped_target, dropped_initiator, 4096, 0, NULL },
	{ "batch-dropped-by-delete", dropped_target, dropped_initiator, 4096, 0, "delete" },
	{ "batch-full-queue-submit", full_target, full_initiator, 8, 0, NULL },
	{ "batch-full-queue-post", full_target, full_initiator, 8, 0, "post" },
	{ "batch-full-and-refused", full_target, refill_initiator, 8, 0, NULL },
	{ "batch-longer-than-is-held", long_target, long_initiator, 8, 0, NULL },
	{ "batch-with-a-refused-post", refused_target, refused_initiator, 64, 0, NULL },
	{ "batch-that-breaks", broken_target, broken_initiator, 64, 0, NULL },
	{ "batch-threads", threads_target, threads_initiator, 64, 0, NULL },
	{ "fence-write-behind-read", fence_target, fence_initiator, FENCE_LEN, 0, NULL },
	{ "fence-write-behind-read-held", fence_target, fence_initiator, FENCE_LEN, 0, "held" },
	{ "fence-on-every-call", fence_all_target, fence_all_initiator, 64, 0, NULL },
};

const struct scenario_group group_batch = { list, sizeof(list) / sizeof(list[0]) };
