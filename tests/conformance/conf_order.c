/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conf_order.c -- the order of operations on one connection */

#include <arpa/inet.h>
#include <string.h>

#include "groups.h"
#include "pattern.h"
#include "role.h"

#define LEN ((size_t)65536)
#define ROUNDS 200
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR
#define ALWAYS RPMA_F_COMPLETION_ALWAYS

/*
 * the target of all one-sided scenarios here: it has a region and sleeps until the initiator is done; then
 * scenario->arg checks the region
 */
typedef void check_function(const struct mem *m);
struct end_check {
	check_function *check;
};

static void
region_target(struct role *r)
{
	const struct end_check *end = r->scenario->arg;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN,
		RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
	desc_put(r, &m);
	ctl_expect(r, "done");
	end->check(&m);
	mem_delete(&m);
	role_close(r);
}

struct sides {
	struct mem src;
	struct mem dst;
	struct rpma_mr_remote *remote;
};

static void
sides_open(struct role *r, struct sides *s)
{
	role_connect(r, NULL);
	mem_new(r, &s->src, LEN, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_SEND);
	mem_new(r, &s->dst, LEN, RPMA_MR_USAGE_READ_DST);
	s->remote = remote_take(r);
}

static void
sides_close(struct role *r, struct sides *s)
{
	expect_none(r->cq);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&s->remote));
	mem_delete(&s->src);
	mem_delete(&s->dst);
	role_close(r);
}

/* a read posted after a write sees its data, without waiting for its completion */
static void
write_read_initiator(struct role *r)
{
	struct sides s;

	sides_open(r, &s);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		mem_fill(&s.src, i);
		CHECK_OK(rpma_write(r->conn, s.remote, GUARD, s.src.mr, GUARD, LEN, ON_ERROR, NULL));
		CHECK_OK(rpma_read(r->conn, s.dst.mr, GUARD, s.remote, GUARD, LEN, ALWAYS, CTX(i)));
		expect_ok(r->cq, i);
		mem_check(&s.dst, i);
	}
	sides_close(r, &s);
}

static void
check_last_round(const struct mem *m)
{
	mem_check(m, ROUNDS);
}

/* many writes to one place: the last one remains */
static void
one_place_initiator(struct role *r)
{
	struct sides s;

	sides_open(r, &s);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t slot = i % DEPTH;

		/* each write that may be in flight has a buffer of its own */
		memset(s.src.data + slot * 8, (int)i, 8);
		CHECK_OK(rpma_write(r->conn, s.remote, GUARD, s.src.mr, GUARD + slot * 8, 8, ALWAYS, CTX(i)));
		if (i + 1 >= DEPTH)
			expect_ok(r->cq, i + 1 - DEPTH);
	}
	for (uint64_t i = ROUNDS - DEPTH + 1; i < ROUNDS; i++)
		expect_ok(r->cq, i);
	sides_close(r, &s);
}

static void
check_one_place(const struct mem *m)
{
	CHECK_EQ(pattern_check_byte(m->data, 8, (uint8_t)(ROUNDS - 1)), -1);
	CHECK_EQ(pattern_check_byte(m->data + 8, LEN - 8, GUARD_BYTE), -1);
}

/* writes of odd lengths, unsignaled except for the last of each batch, make up the whole */
static void
pieces_initiator(struct role *r)
{
	struct sides s;
	size_t offset = 0;

	sides_open(r, &s);
	mem_fill(&s.src, ROUNDS);
	for (uint64_t i = 1; offset < LEN; i++) {
		size_t len = 1 + (i * 37) % 509;
		bool last;

		if (len > LEN - offset)
			len = LEN - offset;
		last = i % (DEPTH / 2) == 0 || offset + len == LEN;
		CHECK_OK(rpma_write(r->conn, s.remote, GUARD + offset, s.src.mr, GUARD + offset, len,
			last ? ALWAYS : ON_ERROR, CTX(i)));
		if (last)
			expect_ok(r->cq, i);
		offset += len;
	}
	sides_close(r, &s);
}

/* write, atomic write, flush: when the flush completes, both are there */
static void
write_atomic_flush_initiator(struct role *r)
{
	struct sides s;

	sides_open(r, &s);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		char word[8];
		struct ibv_wc wc;

		mem_fill(&s.src, i);
		memcpy(word, s.src.data, 8);
		CHECK_OK(rpma_write(r->conn, s.remote, GUARD + 8, s.src.mr, GUARD + 8, LEN - 8, ON_ERROR,
			NULL));
		CHECK_OK(rpma_atomic_write(r->conn, s.remote, GUARD, word, ON_ERROR, NULL));
		post_flush(r, s.remote, GUARD, LEN, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, i);
		wc = expect_ok(r->cq, i);
		CHECK(wc_is_flush(r, &wc));
	}
	sides_close(r, &s);
}

/*
 * The word that declares a flushed record valid never appears without the flush, although the initiator does
 * not wait between them. A flush that the target refuses (its region lacks the right, the descriptor claims
 * it) stops what is posted after it.
 */
static void
refused_flush_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_DST);
	desc_put(r, &m);
	ctl_expect(r, "failed");
	mem_check_untouched(&m);
	expect_end(r->conn);
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

static void
refused_flush_initiator(struct role *r)
{
	struct rpma_mr_remote *remote;
	struct ibv_wc wc;
	struct desc d;

	role_connect(r, NULL);
	desc_take(r, &d);
	desc_alter_usage(&d, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
	remote = desc_import(&d);
	post_flush(r, remote, GUARD, LEN, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, 1);
	CHECK_OK(rpma_atomic_write(r->conn, remote, GUARD, "is valid", ALWAYS, CTX(2)));
	wc = next_wc(r->cq);
	CHECK_EQ(wc.wr_id, 1);
	CHECK(wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_OP_ERR);
	expect_wc(r->cq, 2, IBV_WC_WR_FLUSH_ERR);
	ctl_put(r, "failed");
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	CHECK_OK(rpma_mr_remote_delete(&remote));
	conn_delete(&r->conn);
	role_delete(r);
}

/* completions come in the order of the posts, whatever the operations */
static void
mixed_initiator(struct role *r)
{
	struct sides s;

	sides_open(r, &s);
	mem_fill(&s.src, ROUNDS);
	for (uint64_t i = 0; i < 10 * 6; i += 6) {
		size_t len = i % 4 ? 64 : LEN;

		CHECK_OK(rpma_read(r->conn, s.dst.mr, GUARD, s.remote, GUARD, LEN, ALWAYS, CTX(i)));
		CHECK_OK(rpma_write(r->conn, s.remote, GUARD, s.src.mr, GUARD, len, ALWAYS, CTX(i + 1)));
		post_flush(r, s.remote, GUARD, 64, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, i + 2);
		CHECK_OK(rpma_atomic_write(r->conn, s.remote, GUARD, (char *)s.src.data, ALWAYS, CTX(i + 3)));
		CHECK_OK(rpma_write(r->conn, s.remote, GUARD, s.src.mr, GUARD, LEN, ALWAYS, CTX(i + 4)));
		CHECK_OK(rpma_read(r->conn, s.dst.mr, GUARD, s.remote, GUARD, 64, ALWAYS, CTX(i + 5)));
	}
	for (uint64_t i = 0; i < 10 * 6; i++)
		expect_ok(r->cq, i);
	sides_close(r, &s);
}

/* ---- messages after writes: when the message arrives, the data is there ---- */

static void
notified_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_DST);
	for (uint64_t i = 0; i < DEPTH; i++)
		CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(i)));
	desc_put(r, &m);
	for (uint64_t i = 0; i < DEPTH; i++) {
		expect_recv(r->cq, i, i % 2 ? LEN : 0);
		mem_check(&m, i);
		ctl_put(r, "next");
	}
	mem_delete(&m);
	role_close(r);
}

static void
notified_initiator(struct role *r)
{
	struct rpma_mr_remote *remote;
	struct mem src;

	role_connect(r, NULL);
	mem_new(r, &src, LEN, RPMA_MR_USAGE_WRITE_SRC);
	remote = remote_take(r);
	for (uint64_t i = 0; i < DEPTH; i++) {
		mem_fill(&src, i);
		if (i % 2) {
			CHECK_OK(rpma_write_with_imm(r->conn, remote, GUARD, src.mr, GUARD, LEN, ALWAYS, 1,
				CTX(i)));
		} else {
			CHECK_OK(rpma_write(r->conn, remote, GUARD, src.mr, GUARD, LEN, ON_ERROR, NULL));
			CHECK_OK(rpma_send(r->conn, NULL, 0, 0, ALWAYS, CTX(i)));
		}
		expect_ok(r->cq, i);
		ctl_expect(r, "next");
	}
	CHECK_OK(rpma_mr_remote_delete(&remote));
	mem_delete(&src);
	role_close(r);
}

/*
 * ---- messages arrive in the order of the sends, into receives in the order in which they were posted ----
 */

#define MESSAGES 1000
#define MSG_LEN ((size_t)256)

static size_t
message_len(uint64_t i)
{
	return (size_t)(i * 31 % MSG_LEN);
}

static void
post_recv_slot(struct role *r, struct mem *m, uint64_t i)
{
	CHECK_OK(rpma_recv(r->conn, m->mr, GUARD + i % DEPTH * MSG_LEN, MSG_LEN, CTX(i)));
}

static void
messages_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, DEPTH * MSG_LEN, RPMA_MR_USAGE_RECV);
	for (uint64_t i = 0; i < DEPTH; i++)
		post_recv_slot(r, &m, i);
	for (uint64_t i = 0; i < MESSAGES; i++) {
		struct ibv_wc wc = expect_recv(r->cq, i, message_len(i));

		CHECK_EQ(pattern_check(m.data + i % DEPTH * MSG_LEN, message_len(i), i, 0), -1);
		if (i % 3 == 0)
			CHECK_EQ(ntohl(wc.imm_data), i);
		if (i + DEPTH < MESSAGES)
			post_recv_slot(r, &m, i + DEPTH);
	}
	mem_delete(&m);
	role_close(r);
}

static void
send_message(struct role *r, struct mem *m, uint64_t i)
{
	size_t offset = (size_t)(i % DEPTH) * MSG_LEN;
	size_t len = message_len(i);

	pattern_fill(m->data + offset, len, i, 0);
	if (i % 3 == 0)
		CHECK_OK(
			rpma_send_with_imm(r->conn, m->mr, GUARD + offset, len, ALWAYS, (uint32_t)i, CTX(i)));
	else
		CHECK_OK(rpma_send(r->conn, m->mr, GUARD + offset, len, ALWAYS, CTX(i)));
}

static void
messages_initiator(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, DEPTH * MSG_LEN, RPMA_MR_USAGE_SEND);
	for (uint64_t i = 0; i < MESSAGES; i++) {
		if (i >= DEPTH)
			expect_ok(r->cq, i - DEPTH);
		send_message(r, &m, i);
	}
	for (uint64_t i = MESSAGES - DEPTH; i < MESSAGES; i++)
		expect_ok(r->cq, i);
	mem_delete(&m);
	role_close(r);
}

static const struct end_check last_round = { check_last_round };
static const struct end_check one_place = { check_one_place };

static const struct scenario list[] = {
	{ "smoke-order-write-read", region_target, write_read_initiator, LEN, 0, &last_round },
	{ "order-writes-to-one-place", region_target, one_place_initiator, LEN, 0, &one_place },
	{ "order-write-in-pieces", region_target, pieces_initiator, LEN, 0, &last_round },
	{ "smoke-order-write-atomic-flush", region_target, write_atomic_flush_initiator, LEN, 0,
		&last_round },
	{ "order-word-behind-refused-flush", refused_flush_target, refused_flush_initiator, LEN, 0, NULL },
	{ "order-completions-of-mixed-operations", region_target, mixed_initiator, LEN, 0, &last_round },
	{ "order-message-behind-write", notified_target, notified_initiator, LEN, 0, NULL },
	{ "smoke-order-of-messages", messages_target, messages_initiator, DEPTH *MSG_LEN, 0, NULL },
};

const struct scenario_group group_order = { list, sizeof(list) / sizeof(list[0]) };
