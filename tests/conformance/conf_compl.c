/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conf_compl.c -- which operations complete, how often, and what their completions carry */

#include <arpa/inet.h>
#include <pthread.h>
#include <string.h>

#include "count.h"
#include "groups.h"
#include "pattern.h"
#include "role.h"

#define LEN ((size_t)4096)
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR
#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define REGION_USAGE (RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)

/* an opcode from headers newer than rdma-core 44 */
#define WC_ATOMIC_WRITE 9

/* a region, and as many empty receives as fit */
static void
region_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, REGION_USAGE);
	for (uint64_t i = 0; i < DEPTH; i++)
		CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(i)));
	desc_put(r, &m);
	ctl_expect(r, "done");
	mem_delete(&m);
	role_close(r);
}

struct sides {
	struct mem m;
	struct rpma_mr_remote *remote;
};

static void
sides_open(struct role *r, struct sides *s)
{
	role_connect(r, NULL);
	mem_new(r, &s->m, LEN, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_SEND);
	s->remote = remote_take(r);
}

static void
sides_close(struct role *r, struct sides *s)
{
	expect_none(r->cq);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&s->remote));
	mem_delete(&s->m);
	role_close(r);
}

/* one of each, with contexts ctx to ctx + 6; without a flush of zero bytes, which harms hardware */
static void
post_each(struct role *r, struct sides *s, int flags, uint64_t ctx)
{
	CHECK_OK(rpma_write(r->conn, s->remote, 0, s->m.mr, 0, LEN, flags, CTX(ctx)));
	CHECK_OK(rpma_read(r->conn, s->m.mr, 0, s->remote, 0, LEN, flags, CTX(ctx + 1)));
	CHECK_OK(rpma_atomic_write(r->conn, s->remote, 0, "12345678", flags, CTX(ctx + 2)));
	post_flush(r, s->remote, 0, LEN, RPMA_FLUSH_TYPE_VISIBILITY, flags, ctx + 3);
	CHECK_OK(rpma_write_with_imm(r->conn, s->remote, 0, s->m.mr, 0, LEN, flags, 5, CTX(ctx + 4)));
	CHECK_OK(rpma_send(r->conn, NULL, 0, 0, flags, CTX(ctx + 5)));
	CHECK_OK(rpma_send_with_imm(r->conn, NULL, 0, 0, flags, 6, CTX(ctx + 6)));
}

static bool
is_opcode(const struct role *r, const struct ibv_wc *wc, unsigned which)
{
	static const enum ibv_wc_opcode plain[] = {
		[0] = IBV_WC_RDMA_WRITE,
		[1] = IBV_WC_RDMA_READ,
		[4] = IBV_WC_RDMA_WRITE,
		[5] = IBV_WC_SEND,
		[6] = IBV_WC_SEND,
	};

	/* without a native atomic write it is an inline write */
	if (which == 2)
		return (int)wc->opcode == WC_ATOMIC_WRITE || wc->opcode == IBV_WC_RDMA_WRITE;
	if (which == 3)
		return wc_is_flush(r, wc);
	return wc->opcode == plain[which];
}

/*
 * No success completes that was not asked to. The last operation completes exactly once, which proves that
 * all before it are done.
 */
static void
on_error_initiator(struct role *r)
{
	struct sides s;

	sides_open(r, &s);
	for (uint64_t i = 0; i < 4; i++) {
		post_each(r, &s, ON_ERROR, 100);
		CHECK_OK(rpma_write(r->conn, s.remote, 0, s.m.mr, 0, 8, ALWAYS, CTX(i)));
		expect_ok(r->cq, i);
		expect_none(r->cq);
	}
	sides_close(r, &s);
}

static void
always_initiator(struct role *r)
{
	struct sides s;

	sides_open(r, &s);
	for (uint64_t i = 0; i < 4; i++) {
		post_each(r, &s, ALWAYS, i * 7);
		for (unsigned n = 0; n < 7; n++) {
			struct ibv_wc wc = expect_ok(r->cq, i * 7 + n);

			if (!is_opcode(r, &wc, n))
				check_failed(__FILE__, __LINE__, "opcode %d of operation %u", wc.opcode, n);
			CHECK_EQ(wc.qp_num, conn_qp_num(r->conn));
		}
		expect_none(r->cq);
	}
	sides_close(r, &s);
}

/* flags without a completion bit, and no flags at all, are refused and leave nothing behind */
static void
bad_flags_initiator(struct role *r)
{
	struct sides s;

	sides_open(r, &s);
	CHECK_RET(rpma_write(r->conn, s.remote, 0, s.m.mr, 0, 8, 0, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_read(r->conn, s.m.mr, 0, s.remote, 0, 8, 0, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_send(r->conn, NULL, 0, 0, 0, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_write(r->conn, NULL, 0, s.m.mr, 0, 8, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_write(r->conn, s.remote, 0, NULL, 0, 8, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_read(r->conn, NULL, 0, s.remote, 0, 8, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_send(r->conn, NULL, 0, 8, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_recv(r->conn, NULL, 0, 8, NULL), RPMA_E_INVAL);
	post_each(r, &s, ALWAYS, 0);
	for (uint64_t i = 0; i < 7; i++)
		expect_ok(r->cq, i);
	sides_close(r, &s);
}

/*
 * A range that leaves a region is refused at once, on either side, also if offset + len wraps. Later
 * operations still succeed.
 */
static void
bad_ranges_initiator(struct role *r)
{
	size_t size = GUARD + LEN + GUARD;
	struct sides s;

	sides_open(r, &s);
	CHECK_RET(rpma_write(r->conn, s.remote, size - 7, s.m.mr, 0, 8, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_write(r->conn, s.remote, 0, s.m.mr, size - 7, 8, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_read(r->conn, s.m.mr, 0, s.remote, SIZE_MAX - 3, 8, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_read(r->conn, s.m.mr, SIZE_MAX - 3, s.remote, 0, 8, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_send(r->conn, s.m.mr, 1, size, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_recv(r->conn, s.m.mr, size + 1, 0, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_atomic_write(r->conn, s.remote, size, "12345678", ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_flush(r->conn, s.remote, 8, size, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, NULL),
		RPMA_E_INVAL);
	CHECK_RET(rpma_write(r->conn, s.remote, 0, s.m.mr, 0, (size_t)UINT32_MAX + 9, ALWAYS, NULL),
		RPMA_E_INVAL);
	CHECK_OK(rpma_write(r->conn, s.remote, size - 8, s.m.mr, size - 8, 8, ALWAYS, CTX(1)));
	CHECK_OK(rpma_write(r->conn, s.remote, size, s.m.mr, size, 0, ALWAYS, CTX(2)));
	expect_ok(r->cq, 1);
	expect_ok(r->cq, 2);
	sides_close(r, &s);
}

/* all 64 bits of a context come back */
static void
context_initiator(struct role *r)
{
	static const uint64_t contexts[] = { 0, 1, UINT32_MAX, 1ULL << 32, 0x0123456789abcdefULL, 1ULL << 63,
		UINT64_MAX };
	size_t count = sizeof(contexts) / sizeof(contexts[0]);
	struct sides s;

	sides_open(r, &s);
	for (size_t i = 0; i < count; i++)
		CHECK_OK(rpma_write(r->conn, s.remote, 0, s.m.mr, 0, 8, ALWAYS, CTX(contexts[i])));
	for (size_t i = 0; i < count; i++)
		expect_ok(r->cq, contexts[i]);
	sides_close(r, &s);
}

/* several completions from one call, at most as many as the array has room for */
static void
batch_initiator(struct role *r)
{
	struct ibv_wc wc[32];
	struct sides s;
	int total = 0;
	int n;

	sides_open(r, &s);
	for (uint64_t i = 0; i < 20; i++)
		CHECK_OK(rpma_write(r->conn, s.remote, 0, s.m.mr, 0, 8, ALWAYS, CTX(i)));
	while (total < 20) {
		int ret = rpma_cq_get_wc(r->cq, 7, wc, &n);

		if (ret == RPMA_E_NO_COMPLETION)
			continue; /* the deadline of the scenario ends this loop */
		CHECK_OK(ret);
		CHECK(n >= 1 && n <= 7);
		for (int i = 0; i < n; i++) {
			CHECK_EQ(wc[i].wr_id, total + i);
			CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
		}
		total += n;
	}
	CHECK_RET(rpma_cq_get_wc(r->cq, 32, wc, &n), RPMA_E_NO_COMPLETION);
	CHECK_RET(rpma_cq_get_wc(r->cq, 2, wc, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_cq_get_wc(r->cq, 0, wc, &n), RPMA_E_INVAL);
	sides_close(r, &s);
}

/* no descriptor and no wait: polling alone brings completions */
static void
polling_initiator(struct role *r)
{
	struct sides s;

	sides_open(r, &s);
	for (uint64_t i = 0; i < 2000; i++) {
		struct ibv_wc wc;

		CHECK_OK(rpma_write(r->conn, s.remote, 0, s.m.mr, 0, 64, ALWAYS, CTX(i)));
		CHECK_OK(poll_wc(r->cq, &wc, WAIT_MS));
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, i);
	}
	sides_close(r, &s);
}

/* rpma_cq_wait alone, as the original's examples do: wait, then get */
static void
blocking_initiator(struct role *r)
{
	struct sides s;

	sides_open(r, &s);
	for (uint64_t i = 0; i < 500; i++) {
		struct ibv_wc wc;

		CHECK_OK(rpma_write(r->conn, s.remote, 0, s.m.mr, 0, 64, ALWAYS, CTX(i)));
		CHECK_OK(rpma_cq_wait(r->cq));
		CHECK_OK(rpma_cq_get_wc(r->cq, 1, &wc, NULL));
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, i);
	}
	sides_close(r, &s);
}

/* ---- a thread that is blocked in rpma_cq_wait ---- */

/* takes one completion by blocking waits alone */
static void *
blocked_thread(void *arg)
{
	struct role *r = arg;
	struct ibv_wc wc;
	int ret;

	do {
		CHECK_OK(rpma_cq_wait(r->cq));
		ret = rpma_cq_get_wc(r->cq, 1, &wc, NULL);
	} while (ret == RPMA_E_NO_COMPLETION);
	CHECK_OK(ret);
	CHECK_EQ(wc.status, r->is_target ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(wc.wr_id, 77);
	return NULL;
}

/* a message wakes it */
static void
blocked_target(struct role *r)
{
	pthread_t thread;

	role_connect(r, NULL);
	CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(77)));
	CHECK_EQ(pthread_create(&thread, NULL, blocked_thread, r), 0);
	ctl_put(r, "waiting");
	CHECK_EQ(pthread_join(thread, NULL), 0);
	ctl_expect(r, "gone");
	expect_end(r->conn);
	conn_delete(&r->conn);
	role_delete(r);
}

/* a disconnect of its own side wakes it, because that flushes a receive */
static void
blocked_initiator(struct role *r)
{
	struct rpma_cq *cq;
	pthread_t thread;

	role_connect(r, NULL);
	cq = conn_rcq(r->conn);
	CHECK(cq == NULL);
	ctl_expect(r, "waiting");
	CHECK_OK(rpma_send(r->conn, NULL, 0, 0, ALWAYS, CTX(1)));
	expect_ok(r->cq, 1);
	CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(77)));
	CHECK_EQ(pthread_create(&thread, NULL, blocked_thread, r), 0);
	CHECK_OK(rpma_conn_disconnect(r->conn));
	CHECK_EQ(pthread_join(thread, NULL), 0);
	ctl_put(r, "gone");
	expect_end(r->conn);
	conn_delete(&r->conn);
	role_delete(r);
}

/* ---- threads that are cancelled while they wait ---- */

static void *
wait_for_ever(void *arg)
{
	rpma_cq_wait(((struct role *)arg)->cq);
	return NULL;
}

static void *
wait_timed_for_ever(void *arg)
{
	rpma_cq_wait_timed(((struct role *)arg)->cq, -1);
	return NULL;
}

static void *
wait_for_event(void *arg)
{
	enum rpma_conn_event event;

	rpma_conn_next_event(((struct role *)arg)->conn, &event);
	return NULL;
}

/* nothing comes, so each of these threads waits until it is cancelled; two wait for the turn of another */
static void
cancel_waiters(struct role *r)
{
	void *(*const waits[])(void *arg) = { wait_for_ever, wait_timed_for_ever, wait_timed_for_ever,
		wait_timed_for_ever, wait_for_event };
	enum { COUNT = sizeof(waits) / sizeof(waits[0]) };
	pthread_t threads[COUNT];
	void *result;

	if (in_thread_sanitizer())
		check_skip(r,
			"the thread sanitizer sees no lock of a thread that is cancelled in a system call");
	for (int i = 0; i < COUNT; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, waits[i], r), 0);
	for (int i = 0; i < COUNT; i++) {
		CHECK_EQ(pthread_cancel(threads[i]), 0);
		CHECK_EQ(pthread_join(threads[i], &result), 0);
		CHECK(result == PTHREAD_CANCELED);
	}
}

/* after that, both sides wait and are served as before */
static void
cancelled_target(struct role *r)
{
	struct ibv_wc wc;

	role_connect(r, NULL);
	cancel_waiters(r);
	CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(77)));
	ctl_put(r, "ready");
	CHECK_OK(rpma_cq_wait_timed(r->cq, WAIT_MS));
	CHECK_OK(rpma_cq_get_wc(r->cq, 1, &wc, NULL));
	CHECK_EQ(wc.wr_id, 77);
	expect_end(r->conn);
	conn_delete(&r->conn);
	role_delete(r);
}

static void
cancelled_initiator(struct role *r)
{
	struct ibv_wc wc;

	role_connect(r, NULL);
	cancel_waiters(r);
	ctl_expect(r, "ready");
	CHECK_OK(rpma_send(r->conn, NULL, 0, 0, ALWAYS, CTX(1)));
	CHECK_OK(rpma_cq_wait(r->cq));
	CHECK_OK(rpma_cq_get_wc(r->cq, 1, &wc, NULL));
	CHECK_EQ(wc.wr_id, 1);
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	conn_delete(&r->conn);
	role_delete(r);
}

/* ---- the shorthands ---- */

static struct rpma_completion
next_completion(struct role *r)
{
	struct rpma_completion c = { 0 };
	int fd;
	int ret = rpma_conn_completion_get(r->conn, &c);

	CHECK_OK(rpma_conn_get_completion_fd(r->conn, &fd));
	while (ret == RPMA_E_NO_COMPLETION) {
		CHECK(wait_readable(fd, WAIT_MS));
		CHECK_OK(rpma_conn_completion_wait(r->conn));
		ret = rpma_conn_completion_get(r->conn, &c);
	}
	CHECK_OK(ret);
	return c;
}

static struct rpma_completion
expect_op(struct role *r, uint64_t ctx, enum rpma_op op)
{
	struct rpma_completion c = next_completion(r);

	CHECK_EQ((uintptr_t)c.op_context, ctx);
	CHECK_EQ(c.op_status, IBV_WC_SUCCESS);
	CHECK_EQ(c.op, op);
	return c;
}

static void
shorthands_target(struct role *r)
{
	struct rpma_completion c;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, REGION_USAGE | RPMA_MR_USAGE_RECV);
	for (uint64_t i = 0; i < 3; i++)
		CHECK_OK(rpma_recv(r->conn, m.mr, GUARD, LEN, CTX(i)));
	desc_put(r, &m);
	c = expect_op(r, 0, RPMA_OP_RECV);
	CHECK_EQ(c.byte_len, 100);
	CHECK(!(c.flags & IBV_WC_WITH_IMM));
	c = expect_op(r, 1, RPMA_OP_RECV);
	CHECK_EQ(c.byte_len, 0);
	CHECK(c.flags & IBV_WC_WITH_IMM);
	CHECK_EQ(c.imm, 0x11223344);
	c = expect_op(r, 2, RPMA_OP_RECV_RDMA_WITH_IMM);
	CHECK_EQ(c.byte_len, LEN);
	CHECK_EQ(c.imm, 0x55667788);
	/* the last word was written by rpma_write_atomic */
	ctl_expect(r, "done");
	CHECK_EQ(pattern_check(m.data, LEN - 8, 3, 0), -1);
	CHECK_EQ(pattern_check(m.data + LEN - 8, 8, 3, LEN - 8), -1);
	mem_delete(&m);
	role_close(r);
}

static void
shorthands_initiator(struct role *r)
{
	struct rpma_completion c;
	struct sides s;

	sides_open(r, &s);
	mem_fill(&s.m, 3);
	CHECK_RET(rpma_conn_completion_get(r->conn, &c), RPMA_E_NO_COMPLETION);
	CHECK_OK(rpma_send(r->conn, s.m.mr, GUARD, 100, ALWAYS, CTX(1)));
	CHECK_OK(rpma_send_with_imm(r->conn, NULL, 0, 0, ALWAYS, 0x11223344, CTX(2)));
	CHECK_OK(rpma_write_with_imm(r->conn, s.remote, GUARD, s.m.mr, GUARD, LEN, ALWAYS, 0x55667788,
		CTX(3)));
	CHECK_OK(rpma_write(r->conn, s.remote, GUARD, s.m.mr, GUARD, LEN, ALWAYS, CTX(4)));
	CHECK_OK(rpma_write(r->conn, s.remote, GUARD + LEN - 8, s.m.mr, 0, 8, ALWAYS, CTX(5)));
	CHECK_OK(rpma_write_atomic(r->conn, s.remote, GUARD + LEN - 8, s.m.mr, GUARD + LEN - 8, ALWAYS,
		CTX(6)));
	post_flush(r, s.remote, GUARD, LEN, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, 7);
	CHECK_OK(rpma_read(r->conn, s.m.mr, GUARD, s.remote, GUARD, LEN, ALWAYS, CTX(8)));
	for (uint64_t i = 1; i <= 2; i++)
		expect_op(r, i, RPMA_OP_SEND);
	for (uint64_t i = 3; i <= 6; i++)
		expect_op(r, i, RPMA_OP_WRITE);
	c = next_completion(r);
	CHECK_EQ((uintptr_t)c.op_context, 7);
	CHECK(c.op == RPMA_OP_FLUSH || (!r->soft && c.op == RPMA_OP_READ));
	expect_op(r, 8, RPMA_OP_READ);
	mem_check(&s.m, 3);
	sides_close(r, &s);
}

static const struct scenario list[] = {
	{ "smoke-completion-on-error-none", region_target, on_error_initiator, LEN, 0, NULL },
	{ "smoke-completion-always-one", region_target, always_initiator, LEN, 0, NULL },
	{ "completion-context", region_target, context_initiator, LEN, 0, NULL },
	{ "completion-batch", region_target, batch_initiator, LEN, 0, NULL },
	{ "completion-by-polling", region_target, polling_initiator, LEN, 0, NULL },
	{ "completion-by-blocking-wait", region_target, blocking_initiator, LEN, 0, NULL },
	{ "completion-wakes-blocked-thread", blocked_target, blocked_initiator, 0, 0, NULL },
	{ "completion-waiters-cancelled", cancelled_target, cancelled_initiator, 0, 0, NULL },
	{ "arguments-flags-and-memory", region_target, bad_flags_initiator, LEN, 0, NULL },
	{ "arguments-ranges", region_target, bad_ranges_initiator, LEN, 0, NULL },
	{ "smoke-shorthands", shorthands_target, shorthands_initiator, LEN, 0, NULL },
};

const struct scenario_group group_compl = { list, sizeof(list) / sizeof(list[0]) };
