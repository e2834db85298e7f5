/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conf_atomics.c -- compare-and-swap and fetch-and-add: values, neighbouring words, and concurrent use */

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "groups.h"
#include "pattern.h"
#include "role.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define USAGE (RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC)
#define WORDS 8

static _Atomic uint64_t *
word(const struct mem *m, size_t i)
{
	return (_Atomic uint64_t *)(void *)(m->data + i * 8);
}

static size_t
at(size_t i)
{
	return GUARD + i * 8;
}

/* waits for the atomic; returns the value before it */
static uint64_t
take_result(struct rpma_cq *cq, const struct mem *result, uint64_t ctx, enum ibv_wc_opcode opcode)
{
	uint64_t old;

	CHECK_EQ(expect_ok(cq, ctx).opcode, opcode);
	memcpy(&old, result->data, sizeof(old));
	CHECK_EQ(pattern_check_byte(result->data + 8, result->len - 8 + GUARD, GUARD_BYTE), -1);
	CHECK_EQ(pattern_check_byte(result->base, GUARD, GUARD_BYTE), -1);
	return old;
}

static uint64_t
swap(struct rpma_conn *conn, struct mem *result, struct rpma_mr_remote *dst, size_t i, uint64_t expected,
	uint64_t desired)
{
	CHECK_OK(rpma_compare_and_swap(conn, result->mr, GUARD, dst, at(i), expected, desired, ALWAYS,
		CTX(0xca5)));
	return take_result(conn_cq(conn), result, 0xca5, IBV_WC_COMP_SWAP);
}

static uint64_t
add(struct rpma_conn *conn, struct mem *result, struct rpma_mr_remote *dst, size_t i, uint64_t addend)
{
	CHECK_OK(rpma_fetch_and_add(conn, result->mr, GUARD, dst, at(i), addend, ALWAYS, CTX(0xfaa)));
	return take_result(conn_cq(conn), result, 0xfaa, IBV_WC_FETCH_ADD);
}

/* ---- values ---- */

static void
values_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	need_caps(r, RPMA_CAP_ATOMICS);
	mem_new(r, &m, WORDS * 8, USAGE);
	*word(&m, 3) = 10;
	desc_put(r, &m);
	ctl_expect(r, "done");
	/* swapped, then added to with carries through all bytes; nothing else was touched */
	CHECK(*word(&m, 3) == UINT64_C(0x100000000) - 3);
	CHECK_EQ(pattern_check_byte(m.base, GUARD + 24, GUARD_BYTE), -1);
	CHECK_EQ(pattern_check_byte(m.data + 32, (WORDS - 4) * 8 + GUARD, GUARD_BYTE), -1);
	mem_delete(&m);
	role_close(r);
}

static void
values_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct mem result;

	role_connect(r, NULL);
	need_caps(r, RPMA_CAP_ATOMICS);
	mem_new(r, &result, 16, RPMA_MR_USAGE_READ_DST);
	dst = remote_take(r);
	CHECK_EQ(swap(r->conn, &result, dst, 3, 11, 99), 10); /* not the expected value: no swap */
	CHECK_EQ(swap(r->conn, &result, dst, 3, 10, UINT32_MAX), 10);
	CHECK_EQ(swap(r->conn, &result, dst, 3, 10, 0), UINT32_MAX);
	CHECK_EQ(add(r->conn, &result, dst, 3, 1), UINT32_MAX);
	CHECK_EQ(add(r->conn, &result, dst, 3, UINT64_MAX), UINT64_C(0x100000000)); /* adds -1 */
	CHECK_EQ(add(r->conn, &result, dst, 3, 0), UINT32_MAX);
	CHECK_EQ(add(r->conn, &result, dst, 3, 0 - UINT64_C(2)), UINT32_MAX);
	expect_none(r->cq);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&result);
	role_close(r);
}

/* ---- in order with writes and reads of the connection, in flight together ---- */

#define ROUNDS 200

static void
order_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	need_caps(r, RPMA_CAP_ATOMICS);
	mem_new(r, &m, 8, USAGE);
	desc_put(r, &m);
	ctl_expect(r, "done");
	CHECK(*word(&m, 0) == ROUNDS * 1000 + 7 + ROUNDS);
	mem_delete(&m);
	role_close(r);
}

/* scenario->arg: each round is one batch */
static void
order_initiator(struct role *r)
{
	const int more = r->scenario->arg ? RPMA_F_MORE : 0;
	struct rpma_mr_remote *dst;
	struct mem old, back;

	role_connect(r, NULL);
	need_caps(r, RPMA_CAP_ATOMICS);
	mem_new(r, &old, 16, RPMA_MR_USAGE_READ_DST);
	mem_new(r, &back, 8, RPMA_MR_USAGE_READ_DST);
	dst = remote_take(r);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		uint64_t value = i * 1000;

		CHECK_OK(rpma_write_inline(r->conn, dst, GUARD, &value, 8, ALWAYS | more, CTX(1)));
		CHECK_OK(rpma_fetch_and_add(r->conn, old.mr, GUARD, dst, GUARD, 7, ALWAYS | more, CTX(2)));
		CHECK_OK(rpma_compare_and_swap(r->conn, old.mr, GUARD + 8, dst, GUARD, value + 7,
			value + 7 + i, ALWAYS | more, CTX(3)));
		CHECK_OK(rpma_read(r->conn, back.mr, GUARD, dst, GUARD, 8, ALWAYS, CTX(4)));
		for (uint64_t ctx = 1; ctx <= 4; ctx++)
			expect_ok(r->cq, ctx);
		CHECK(*word(&old, 0) == value);
		CHECK(*word(&old, 1) == value + 7);
		CHECK(*word(&back, 0) == value + 7 + i);
	}
	expect_none(r->cq);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&old);
	mem_delete(&back);
	role_close(r);
}

/* ---- refused when posted ---- */

static void
refused_target(struct role *r)
{
	const int usages[] = { USAGE, RPMA_MR_USAGE_WRITE_DST, RPMA_MR_USAGE_READ_SRC, RPMA_MR_USAGE_RECV };
	struct mem m[4];

	role_connect(r, NULL);
	need_caps(r, RPMA_CAP_ATOMICS);
	for (int i = 0; i < 4; i++) {
		mem_new(r, &m[i], 64, usages[i]);
		desc_put(r, &m[i]);
	}
	ctl_expect(r, "done");
	for (int i = 0; i < 4; i++) {
		mem_check_untouched(&m[i]);
		mem_delete(&m[i]);
	}
	role_close(r);
}

static void
refuse(struct role *r, struct rpma_mr_local *result, size_t result_at, struct rpma_mr_remote *dst,
	size_t dst_at, int expected)
{
	CHECK_RET(rpma_compare_and_swap(r->conn, result, result_at, dst, dst_at, 0, 1, ALWAYS, NULL),
		expected);
	CHECK_RET(rpma_fetch_and_add(r->conn, result, result_at, dst, dst_at, 1, ALWAYS, NULL), expected);
}

static void
refused_initiator(struct role *r)
{
	struct rpma_mr_remote *dst[4];
	struct mem result;

	role_connect(r, NULL);
	need_caps(r, RPMA_CAP_ATOMICS);
	mem_new(r, &result, 8, RPMA_MR_USAGE_READ_DST);
	for (int i = 0; i < 4; i++)
		dst[i] = remote_take(r);
	for (size_t odd = 1; odd < 8; odd++)
		refuse(r, result.mr, GUARD, dst[0], GUARD + odd, RPMA_E_INVAL);
	refuse(r, result.mr, GUARD, dst[0], GUARD + 64 + GUARD, RPMA_E_INVAL);
	refuse(r, result.mr, GUARD, dst[0], SIZE_MAX - 7, RPMA_E_INVAL);
	refuse(r, result.mr, result.mapped - 7, dst[0], GUARD, RPMA_E_INVAL);
	refuse(r, NULL, 0, dst[0], GUARD, RPMA_E_INVAL);
	refuse(r, result.mr, GUARD, NULL, 0, RPMA_E_INVAL);
	for (int i = 1; i < 4; i++)
		refuse(r, result.mr, GUARD, dst[i], GUARD, RPMA_E_NOSUPP);
	expect_none(r->cq);
	mem_check_untouched(&result);
	ctl_put(r, "done");
	for (int i = 0; i < 4; i++)
		CHECK_OK(rpma_mr_remote_delete(&dst[i]));
	mem_delete(&result);
	role_close(r);
}

/* ---- concurrent use: threads with connections of their own, and the target's processors ---- */

#define THREADS 4
#define TURNS 300
/* operations of the processors meanwhile */
#define CPU_TURNS 20000

struct worker {
	struct role *r;
	struct rpma_conn *conn;
	struct rpma_mr_remote *dst;
	struct mem mem; /* results, and what is written and read under the lock */
};

typedef void work(struct worker *w);

static void *
run_worker(void *arg)
{
	struct worker *w = arg;

	(*(work *const *)w->r->scenario->arg)(w);
	return NULL;
}

/* word 0 is the sum */
static void
work_add(struct worker *w)
{
	uint64_t last = 0;

	for (uint64_t i = 0; i < TURNS; i++) {
		uint64_t old = add(w->conn, &w->mem, w->dst, 0, 3);

		CHECK(i == 0 || old >= last + 3);
		last = old;
	}
}

/* word 0 is a lock; word 1 is what it guards, which plain operations read, change and write back */
static void
work_lock(struct worker *w)
{
	struct rpma_cq *cq = conn_cq(w->conn);
	struct mem value;

	mem_new(w->r, &value, 8, RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC);
	for (uint64_t i = 0; i < TURNS / 4; i++) {
		while (swap(w->conn, &w->mem, w->dst, 0, 0, 1) != 0)
			continue;
		CHECK_OK(rpma_read(w->conn, value.mr, GUARD, w->dst, at(1), 8, ALWAYS, CTX(1)));
		expect_ok(cq, 1);
		*word(&value, 0) += 1;
		CHECK_OK(rpma_write(w->conn, w->dst, at(1), value.mr, GUARD, 8, ALWAYS, CTX(2)));
		expect_ok(cq, 2);
		CHECK_EQ(swap(w->conn, &w->mem, w->dst, 0, 1, 0), 1);
	}
	mem_delete(&value);
}

static void
many_initiator(struct role *r)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];

	role_open(r);
	need_caps(r, RPMA_CAP_ATOMICS);
	role_listen(r);
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .r = r, .conn = conn_connect(r, NULL) };
		workers[i].dst = remote_take(r);
		mem_new(r, &workers[i].mem, 8, RPMA_MR_USAGE_READ_DST);
	}
	ctl_expect(r, "go");
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, run_worker, &workers[i]), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	ctl_put(r, "done");
	for (int i = 0; i < THREADS; i++) {
		CHECK_OK(rpma_conn_disconnect(workers[i].conn));
		expect_end(workers[i].conn);
		conn_delete(&workers[i].conn);
		CHECK_OK(rpma_mr_remote_delete(&workers[i].dst));
		mem_delete(&workers[i].mem);
	}
	role_delete(r);
}

static void
many_target_open(struct role *r, struct rpma_conn *conns[THREADS], struct mem *m)
{
	role_open(r);
	need_caps(r, RPMA_CAP_ATOMICS);
	mem_new(r, m, WORDS * 8, USAGE);
	memset(m->data, 0, m->len);
	role_listen(r);
	for (int i = 0; i < THREADS; i++) {
		conns[i] = conn_accept(r, NULL);
		desc_put(r, m);
	}
	ctl_put(r, "go");
}

static void
many_target_close(struct role *r, struct rpma_conn *conns[THREADS], struct mem *m)
{
	for (int i = 0; i < THREADS; i++) {
		expect_end(conns[i]);
		conn_delete(&conns[i]);
	}
	CHECK_EQ(pattern_check_byte(m->base, GUARD, GUARD_BYTE), -1);
	CHECK_EQ(pattern_check_byte(m->data + m->len, GUARD, GUARD_BYTE), -1);
	mem_delete(m);
	role_delete(r);
}

static void
sum_target(struct role *r)
{
	struct rpma_conn *conns[THREADS];
	struct mem m;

	many_target_open(r, conns, &m);
	ctl_expect(r, "done");
	CHECK(*word(&m, 0) == (uint64_t)THREADS * TURNS * 3);
	many_target_close(r, conns, &m);
}

/* the same sum, to which the processors add as well */
static void
cpu_sum_target(struct role *r)
{
	struct rpma_conn *conns[THREADS];
	struct mem m;

	many_target_open(r, conns, &m);
	for (int i = 0; i < CPU_TURNS; i++)
		atomic_fetch_add(word(&m, 0), 1);
	ctl_expect(r, "done");
	CHECK(*word(&m, 0) == (uint64_t)THREADS * TURNS * 3 + CPU_TURNS);
	many_target_close(r, conns, &m);
}

static void
lock_target(struct role *r)
{
	struct rpma_conn *conns[THREADS];
	struct mem m;

	many_target_open(r, conns, &m);
	ctl_expect(r, "done");
	CHECK(*word(&m, 0) == 0);
	CHECK(*word(&m, 1) == (uint64_t)THREADS * (TURNS / 4));
	many_target_close(r, conns, &m);
}

/*
 * The target takes the same lock with processor instructions. While it holds the lock, nothing else may
 * write.
 */
static void
cpu_lock_target(struct role *r)
{
	struct rpma_conn *conns[THREADS];
	struct mem m;

	many_target_open(r, conns, &m);
	for (int i = 0; i < TURNS / 4; i++) {
		uint64_t unlocked = 0;

		while (!atomic_compare_exchange_strong(word(&m, 0), &unlocked, 1))
			unlocked = 0;
		atomic_store(word(&m, 1), atomic_load(word(&m, 1)) + 1);
		atomic_store(word(&m, 0), 0);
	}
	ctl_expect(r, "done");
	CHECK(*word(&m, 0) == 0);
	CHECK(*word(&m, 1) == (uint64_t)(THREADS + 1) * (TURNS / 4));
	many_target_close(r, conns, &m);
}

/* scenario->arg points to one of them */
static work *const adding = work_add;
static work *const locking = work_lock;

static const struct scenario list[] = {
	{ "smoke-atomic-values", values_target, values_initiator, 64, 0, NULL },
	{ "atomic-order", order_target, order_initiator, 64, 0, NULL },
	{ "atomic-order-held", order_target, order_initiator, 64, 0, "held" },
	{ "atomic-refused", refused_target, refused_initiator, 64, 0, NULL },
	{ "atomic-sum-of-all", sum_target, many_initiator, 64, 0, &adding },
	{ "atomic-sum-with-processors", cpu_sum_target, many_initiator, 64, SOFT_ONLY, &adding },
	{ "atomic-lock", lock_target, many_initiator, 64, 0, &locking },
	{ "atomic-lock-with-processors", cpu_lock_target, many_initiator, 64, SOFT_ONLY, &locking },
};

const struct scenario_group group_atomics = { list, sizeof(list) / sizeof(list[0]) };
