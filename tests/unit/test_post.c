/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_post.c -- requests that RPMA_F_MORE batches, and their doorbell */

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>

#include "posting.h"

static void
hold_inline(struct rpma_conn *conn, uintptr_t number)
{
	const uint64_t data = number;
	assert_ok(rpma_write_inline(conn, f.remote, 0, &data, sizeof(data), ALWAYS | MORE, ctx(number)));
}

/* exactly these requests have reached the device, in order, each with its own inline data */
static void
assert_inline_posts(uintptr_t first, int count)
{
	assert_int_equal(mock.chained, count);
	for (int i = 0; i < count; i++) {
		const uint64_t data = first + (uintptr_t)i;
		assert_posted(i, IBV_WR_RDMA_WRITE, ctx(data));
		assert_int_equal(mock.chain[i].sge[0].length, sizeof(data));
		assert_memory_equal(mock.chain[i].inline_data, &data, sizeof(data));
	}
}

static void
one_doorbell_in_order(void **state)
{
	(void)state;
	const char src[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	assert_ok(rpma_write(f.conn, f.remote, 1, f.mr, 2, 3, ALWAYS | MORE, ctx(0)));
	assert_ok(rpma_read(f.conn, f.mr, 4, f.remote, 5, 6, ON_ERROR | MORE | FENCE, ctx(1)));
	assert_ok(rpma_send(f.conn, f.mr, 7, 8, ALWAYS | MORE, ctx(2)));
	assert_ok(rpma_send_with_imm(f.conn, NULL, 0, 0, ALWAYS | MORE, IMM, ctx(3)));
	assert_ok(rpma_atomic_write(f.conn, f.remote, 8, src, ALWAYS | MORE, ctx(4)));
	assert_int_equal(mock.rung, 0);
	assert_ok(rpma_write_inline_with_imm(f.conn, f.remote, 9, src, 5, ALWAYS, IMM, ctx(5)));
	assert_int_equal(mock.rung, 1);
	assert_int_equal(mock.chained, 6);

	static const struct {
		enum ibv_wr_opcode opcode;
		unsigned flags;
		uint64_t raddr;
		size_t offset, len;
	} table[] = {
		{ IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, RADDR + 1, 2, 3 },
		{ IBV_WR_RDMA_READ, IBV_SEND_FENCE, RADDR + 5, 4, 6 },
		{ IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 7, 8 },
		{ IBV_WR_SEND_WITH_IMM, IBV_SEND_SIGNALED, 0, 0, 0 },
		{ IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_FENCE | IBV_SEND_INLINE, RADDR + 8, 0, 8 },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED | IBV_SEND_INLINE, RADDR + 9, 0, 5 },
	};
	for (int i = 0; i < 6; i++) {
		const struct ibv_send_wr *wr = &mock.chain[i].wr;
		assert_posted(i, (int)table[i].opcode, ctx((uintptr_t)i));
		assert_int_equal(wr->send_flags, table[i].flags);
		if (table[i].raddr) {
			assert_true(wr->wr.rdma.remote_addr == table[i].raddr);
			assert_true(wr->wr.rdma.rkey == MOCK_RKEY);
		}
		assert_int_equal(wr->num_sge, table[i].len > 0);
		if (wr->send_flags & IBV_SEND_INLINE)
			assert_memory_equal(mock.chain[i].inline_data, src, table[i].len);
		else if (table[i].len)
			assert_true(mock.chain[i].sge[0].addr == (uintptr_t)memory + table[i].offset);
		if (table[i].len)
			assert_int_equal(mock.chain[i].sge[0].length, table[i].len);
	}
	assert_int_equal(ntohl(mock.chain[3].wr.imm_data), IMM);
	assert_int_equal(ntohl(mock.chain[5].wr.imm_data), IMM);

	/* the batch is empty: the next request is sent alone */
	assert_ok(rpma_send(f.conn, NULL, 0, 0, ALWAYS, ctx(6)));
	assert_int_equal(mock.rung, 2);
	assert_int_equal(mock.chained, 7);
}

static void
submitting(void **state)
{
	(void)state;
	assert_fails(RPMA_E_INVAL, rpma_conn_submit(NULL));
	assert_ok(rpma_conn_submit(f.conn)); /* no batch was ever begun */
	for (uintptr_t i = 0; i < 3; i++)
		hold_inline(f.conn, i);
	assert_int_equal(mock.rung, 0);
	assert_ok(rpma_conn_submit(f.conn));
	assert_int_equal(mock.rung, 1);
	assert_inline_posts(0, 3);
	assert_ok(rpma_conn_submit(f.conn));
	assert_int_equal(mock.rung, 1);
}

/* a request with a wrong argument is not batched, and the batch does not change */
static void
a_refused_post_is_not_held(void **state)
{
	(void)state;
	hold_inline(f.conn, 0);
	assert_fails(RPMA_E_INVAL, rpma_write(f.conn, f.remote, 0, f.mr, 0, 65, ALWAYS | MORE, ctx(9)));
	assert_fails(RPMA_E_INVAL, rpma_write(f.conn, f.remote, 0, f.mr, 0, 65, ALWAYS, ctx(9)));
	assert_fails(RPMA_E_INVAL, rpma_send(f.conn, NULL, 0, 0, MORE, ctx(9)));
	assert_int_equal(mock.rung, 0);
	hold_inline(f.conn, 1);
	assert_ok(rpma_conn_submit(f.conn));
	assert_inline_posts(0, 2);
}

/* the caller may reuse its memory */
static void
what_is_held_was_copied(void **state)
{
	(void)state;
	struct rpma_sge pieces[PIECES] = { { f.mr, 1, 2 }, { f.large, 3, 4 }, { f.mr, 5, 6 } };
	char data[INLINE_SIZE];
	char expected[INLINE_SIZE];
	memset(data, 0x11, sizeof(data));
	memset(expected, 0x11, sizeof(expected));
	assert_ok(rpma_writev(f.conn, f.remote, 0, pieces, PIECES, ALWAYS | MORE, ctx(0)));
	assert_ok(rpma_write_inline(f.conn, f.remote, 0, data, sizeof(data), ALWAYS | MORE, ctx(1)));
	assert_ok(rpma_readv(f.conn, pieces, 2, f.remote, 0, ALWAYS | MORE, ctx(2)));
	assert_ok(rpma_send_inline(f.conn, data, 5, ALWAYS | MORE, ctx(3)));
	assert_ok(rpma_atomic_write(f.conn, f.remote, 0, data, ALWAYS | MORE, ctx(4)));
	assert_ok(rpma_send_inline(f.conn, NULL, 0, ALWAYS | MORE, ctx(5)));
	memset(pieces, 0xEE, sizeof(pieces));
	memset(data, 0xEE, sizeof(data));
	assert_ok(rpma_conn_submit(f.conn));

	assert_int_equal(mock.chained, 6);
	static const size_t offsets[PIECES] = { 1, 3, 5 }, lens[PIECES] = { 2, 4, 6 };
	for (int post = 0; post <= 2; post += 2) {
		assert_int_equal(mock.chain[post].wr.num_sge, post == 0 ? PIECES : 2);
		for (int i = 0; i < mock.chain[post].wr.num_sge; i++) {
			const char *base = i == 1 ? large : memory;
			assert_true(mock.chain[post].sge[i].addr == (uintptr_t)base + offsets[i]);
			assert_int_equal(mock.chain[post].sge[i].length, lens[i]);
		}
	}
	static const size_t inline_lens[] = { 0, INLINE_SIZE, 0, 5, 8 };
	for (int post = 1; post < 5; post += post == 3 ? 1 : 2) {
		assert_int_equal(mock.chain[post].sge[0].length, inline_lens[post]);
		assert_memory_equal(mock.chain[post].inline_data, expected, inline_lens[post]);
	}
	assert_int_equal(mock.chain[5].wr.num_sge, 0);
}

/* a batch holds as many requests as the send queue, at most 256; then the doorbell rings by itself */
static void
a_full_list_is_rung(void **state)
{
	(void)state;
	static const struct {
		uint32_t sq_size;
		int capacity;
	} table[] = { { 1, 1 }, { SQ_SIZE, SQ_SIZE }, { 256, 256 }, { 257, 256 } };
	for (size_t i = 0; i < ROWS(table); i++) {
		struct rpma_conn *conn = conn_of_sq_size(table[i].sq_size);
		const int capacity = table[i].capacity;
		forget_posts();
		for (int n = 0; n < capacity; n++)
			hold_inline(conn, (uintptr_t)n);
		assert_int_equal(mock.rung, 0);
		hold_inline(conn, (uintptr_t)capacity);
		assert_int_equal(mock.rung, 1);
		assert_inline_posts(0, capacity);
		assert_ok(rpma_conn_submit(conn));
		assert_int_equal(mock.rung, 2);
		assert_inline_posts(0, capacity + 1);

		/* a request without the flag does not fit either: the batch goes first */
		forget_posts();
		for (int n = 0; n < capacity; n++)
			hold_inline(conn, (uintptr_t)n);
		const uint64_t data = (uint64_t)capacity;
		assert_ok(rpma_write_inline(conn, f.remote, 0, &data, 8, ALWAYS, ctx(data)));
		assert_inline_posts(0, capacity + 1);
		assert_ok(rpma_conn_delete(&conn));
	}
}

/* a send queue without entries holds no batch, and no request is lost */
static void
a_queue_without_entries(void **state)
{
	(void)state;
	struct rpma_conn *conn = conn_of_sq_size(0);
	for (uintptr_t i = 0; i < 3; i++)
		hold_inline(conn, i);
	assert_int_equal(mock.rung, 3);
	assert_inline_posts(0, 3);
	mock.send_limit = mock.sends;
	assert_fails(RPMA_E_PROVIDER, rpma_send(conn, NULL, 0, 0, ALWAYS | MORE, NULL));
	assert_ok(rpma_conn_delete(&conn));
}

static void
what_the_device_does_not_take_stays_held(void **state)
{
	(void)state;
	for (int taken = 0; taken < 5; taken++) {
		forget_posts();
		mock.send_limit = 0;
		for (uintptr_t i = 0; i < 4; i++)
			hold_inline(f.conn, i);

		/* the call that rings the doorbell fails: its own request is not posted, and leaves the batch */
		mock.send_limit = taken;
		if (taken == 0)
			fail_next("post_send", ENOMEM);
		const uint64_t data = 4;
		assert_fails(RPMA_E_PROVIDER,
			rpma_write_inline(f.conn, f.remote, 0, &data, 8, ALWAYS, ctx(data)));
		char told[64];
		(void)snprintf(told, sizeof(told), "this operation is not posted; still held back: %d)",
			4 - taken);
		assert_non_null(strstr(mock.last_log, told));
		assert_non_null(strstr(mock.last_log, "queue is full"));
		assert_inline_posts(0, taken);

		if (taken > 0 && taken < 4) {
			assert_fails(RPMA_E_PROVIDER, rpma_conn_submit(f.conn));
			(void)snprintf(told, sizeof(told), "queue (still held back: %d)", 4 - taken);
			assert_non_null(strstr(mock.last_log, told));
			assert_null(strstr(mock.last_log, "not posted"));
			assert_inline_posts(0, taken);
		}

		/* the program posts it again; it and later requests are added to the others, and overwrite none */
		for (uintptr_t i = 4; i < 8; i++)
			hold_inline(f.conn, i);
		mock.send_limit = 0;
		assert_ok(rpma_conn_submit(f.conn));
		assert_inline_posts(0, 8);
		assert_ok(rpma_conn_submit(f.conn));
		assert_inline_posts(0, 8);
	}
}

/* if the device takes only a part each time, every call makes progress */
static void
one_at_a_time(void **state)
{
	(void)state;
	for (uintptr_t i = 0; i < SQ_SIZE; i++)
		hold_inline(f.conn, i);
	for (int limit = 1; limit < SQ_SIZE; limit++) {
		mock.send_limit = limit;
		assert_fails(RPMA_E_PROVIDER, rpma_conn_submit(f.conn));
		assert_inline_posts(0, limit);
	}
	mock.send_limit = 0;
	assert_ok(rpma_conn_submit(f.conn));
	assert_inline_posts(0, SQ_SIZE);
}

/* a full batch that the device does not take has no room for another request, with or without the flag */
static void
no_room_for_more(void **state)
{
	(void)state;
	for (int more = 0; more < 2; more++) {
		forget_posts();
		for (uintptr_t i = 0; i < SQ_SIZE; i++)
			hold_inline(f.conn, i);
		fail_next("post_send", EIO);
		assert_fails(RPMA_E_AGAIN,
			rpma_write_inline(f.conn, f.remote, 0, "", 1, ALWAYS | (more ? MORE : 0), ctx(99)));
		assert_null(strstr(mock.last_log, "queue is full"));
		assert_non_null(strstr(rpma_errormsg(), strerror(EIO)));
		assert_int_equal(mock.chained, 0);
		/* a full queue is no error: the program collects, and tries again */
		static const int full[] = { ENOMEM, -ENOMEM };
		for (size_t i = 0; i < 2; i++) {
			const int errors = mock.logged[RPMA_LOG_LEVEL_ERROR];
			fail_next("post_send", full[i]);
			assert_int_equal(rpma_write_inline(f.conn, f.remote, 0, "", 1,
						 ALWAYS | (more ? MORE : 0), ctx(99)),
				RPMA_E_AGAIN);
			assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], errors);
			assert_non_null(strstr(rpma_errormsg(), "queue is full"));
		}
		assert_ok(rpma_conn_submit(f.conn));
		assert_inline_posts(0, SQ_SIZE);
	}
}

/* a post that is held because some of the others have left succeeds, so it says nothing */
static void
room_by_a_part_of_the_batch(void **state)
{
	(void)state;
	for (uintptr_t i = 0; i < SQ_SIZE; i++)
		hold_inline(f.conn, i);
	mock.send_limit = 3;
	const int errors = mock.logged[RPMA_LOG_LEVEL_ERROR];
	hold_inline(f.conn, SQ_SIZE);
	assert_int_equal(mock.chained, 3);
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], errors);
	mock.send_limit = 0;
	assert_ok(rpma_conn_submit(f.conn));
	assert_inline_posts(0, SQ_SIZE + 1);
}

/* devices report a full queue in several ways */
static void
a_full_queue(void **state)
{
	(void)state;
	static const int full[] = { ENOMEM, -ENOMEM, ENOSPC };
	for (size_t i = 0; i < sizeof(full) / sizeof(full[0]); i++) {
		fail_next("post_send", full[i]);
		assert_fails(RPMA_E_PROVIDER, rpma_send(f.conn, NULL, 0, 0, ALWAYS, ctx(0)));
		assert_non_null(strstr(rpma_errormsg(), "queue is full"));
		assert_non_null(strstr(rpma_errormsg(), strerror(abs(full[i]))));
	}
}

/* if no batch exists, a failed request leaves nothing behind */
static void
a_post_that_fails_is_gone(void **state)
{
	(void)state;
	fail_next("post_send", EIO);
	assert_fails(RPMA_E_PROVIDER, rpma_send(f.conn, NULL, 0, 0, ALWAYS, ctx(0)));
	assert_ok(rpma_conn_submit(f.conn));
	assert_int_equal(mock.chained, 0);
	assert_int_equal(mock.rung, 1);
}

static void
no_memory_for_the_list(void **state)
{
	(void)state;
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpma_send(f.conn, NULL, 0, 0, ALWAYS | MORE, ctx(0)));
	assert_int_equal(mock.malloc_skip, -1);
	assert_ok(rpma_conn_submit(f.conn));
	assert_int_equal(mock.rung, 0);
	hold_inline(f.conn, 0);
	mock.malloc_skip = 0; /* it is allocated once */
	hold_inline(f.conn, 1);
	mock.malloc_skip = -1;
	assert_ok(rpma_conn_submit(f.conn));
	assert_inline_posts(0, 2);
}

/* a connection has a list only while it holds something back, and the list has room for what its queue takes */
static void
a_list_ends_with_what_it_holds(void **state)
{
	(void)state;
	struct rpma_conn *big = conn_of_sq_size(256);
	const uint64_t data = 1;
	hold_inline(f.conn, 0);
	assert_ok(rpma_write_inline(f.conn, f.remote, 0, &data, sizeof(data), ALWAYS, ctx(data)));
	mock.malloc_skip = 0; /* the next allocation fails */
	assert_fails(RPMA_E_NOMEM, rpma_send(f.conn, NULL, 0, 0, ALWAYS | MORE, NULL));
	hold_inline(f.conn, 2);
	assert_ok(rpma_conn_submit(f.conn));
	assert_inline_posts(0, 3);
	hold_inline(f.conn, 3);
	assert_ok(rpma_conn_disconnect(f.conn)); /* drops it */
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpma_send(f.conn, NULL, 0, 0, ALWAYS | MORE, NULL));

	for (uintptr_t i = 3; i < 3 + 256; i++)
		hold_inline(big, i);
	assert_int_equal(mock.rung, 2);
	assert_ok(rpma_conn_submit(big));
	assert_inline_posts(0, 3 + 256);
	hold_inline(big, 0);
	assert_ok(rpma_conn_delete(&big));
}

/* a full list is rung, and stays with its connection until the post has its place */
static void
a_plain_post_needs_no_memory(void **state)
{
	(void)state;
	for (uintptr_t i = 0; i < SQ_SIZE; i++)
		hold_inline(f.conn, i);
	mock.malloc_skip = 0;
	hold_inline(f.conn, SQ_SIZE);
	for (uintptr_t i = SQ_SIZE + 1; i < 2 * SQ_SIZE; i++)
		hold_inline(f.conn, i);
	const uint64_t data = 2 * SQ_SIZE;
	assert_ok(rpma_write_inline(f.conn, f.remote, 0, &data, 8, ALWAYS, ctx(data)));
	assert_int_equal(mock.malloc_skip, 0);
	mock.malloc_skip = -1;
	assert_inline_posts(0, 2 * SQ_SIZE + 1);
}

static void
the_end_drops_what_is_held(void **state)
{
	(void)state;
	struct rpma_conn *conn = conn_of_sq_size(SQ_SIZE);
	int notices = mock.logged[RPMA_LOG_LEVEL_NOTICE];
	hold_inline(conn, 0);
	hold_inline(conn, 1);
	assert_ok(rpma_conn_disconnect(conn));
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_NOTICE], notices + 1);
	assert_non_null(strstr(mock.last_log, "2 operations"));
	assert_ok(rpma_conn_submit(conn));
	assert_int_equal(mock.rung, 0);

	/* if nothing is dropped, nothing is logged */
	notices = mock.logged[RPMA_LOG_LEVEL_NOTICE];
	assert_ok(rpma_conn_disconnect(conn));
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_NOTICE], notices);

	hold_inline(conn, 2);
	assert_ok(rpma_conn_delete(&conn));
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_NOTICE], notices + 1);
	assert_non_null(strstr(mock.last_log, "1 operation"));
	assert_int_equal(mock.rung, 0);
}

/* ---- chains with operations that only extended verbs have ---- */

/* batches one request of each kind; they are posted by ibv_wr_* because an atomic write is among them */
static void
hold_one_of_each(void)
{
	static const char src[8] = { 8, 7, 6, 5, 4, 3, 2, 1 };
	const int flags = ALWAYS | MORE;
	const struct rpma_sge pieces[] = { { f.mr, 1, 2 }, { f.large, 3, 4 } };
	assert_ok(rpma_write(f.conn, f.remote, 1, f.mr, 2, 3, flags, ctx(0)));
	assert_ok(rpma_write_with_imm(f.conn, f.remote, 4, f.mr, 5, 6, flags, IMM, ctx(1)));
	assert_ok(rpma_readv(f.conn, pieces, 2, f.remote, 7, flags, ctx(2)));
	assert_ok(rpma_send_inline(f.conn, src, 8, flags, ctx(3)));
	assert_ok(rpma_send_with_imm(f.conn, NULL, 0, 0, flags, IMM, ctx(4)));
	assert_ok(rpma_compare_and_swap(f.conn, f.mr, 8, f.remote, 16, 111, 222, flags, ctx(5)));
	assert_ok(rpma_fetch_and_add(f.conn, f.mr, 16, f.remote, 24, 333, ON_ERROR | MORE, ctx(6)));
	assert_ok(rpma_atomic_write(f.conn, f.remote, 32, src, flags, ctx(7)));
}

static const struct {
	int opcode;
	unsigned flags;
	uint64_t raddr;
	int pieces;
} one_of_each[] = {
	{ IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, RADDR + 1, 1 },
	{ IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED, RADDR + 4, 1 },
	{ IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, RADDR + 7, 2 },
	{ IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE, 0, 1 },
	{ IBV_WR_SEND_WITH_IMM, IBV_SEND_SIGNALED, 0, 0 },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_SEND_SIGNALED, RADDR + 16, 1 },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, 0, RADDR + 24, 1 },
	{ RPMAI_WR_ATOMIC_WRITE, IBV_SEND_SIGNALED | IBV_SEND_FENCE, RADDR + 32, 0 },
};

static void
each_extended_operation(void **state)
{
	(void)state;
	static const char src[8] = { 8, 7, 6, 5, 4, 3, 2, 1 };
	hold_one_of_each();
	assert_int_equal(mock.rung, 0);
	assert_ok(rpma_conn_submit(f.conn));
	assert_int_equal(mock.rung, 1);
	assert_int_equal(mock_count("post_send"), 0);
	assert_int_equal(mock_count("wr_complete"), 1);

	assert_int_equal(mock.chained, ROWS(one_of_each));
	for (size_t i = 0; i < ROWS(one_of_each); i++) {
		const struct ibv_send_wr *wr = &mock.chain[i].wr;
		assert_posted((int)i, one_of_each[i].opcode, ctx(i));
		assert_int_equal(wr->send_flags, one_of_each[i].flags);
		assert_int_equal(wr->num_sge, one_of_each[i].pieces);
		if (one_of_each[i].opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			one_of_each[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			assert_true(wr->wr.atomic.remote_addr == one_of_each[i].raddr);
			assert_true(wr->wr.atomic.rkey == MOCK_RKEY);
		} else if (one_of_each[i].raddr) {
			assert_true(wr->wr.rdma.remote_addr == one_of_each[i].raddr);
			assert_true(wr->wr.rdma.rkey == MOCK_RKEY);
		}
	}
	assert_true(mock.chain[0].sge[0].addr == (uintptr_t)memory + 2 && mock.chain[0].sge[0].length == 3);
	assert_int_equal(ntohl(mock.chain[1].wr.imm_data), IMM);
	assert_true(mock.chain[2].sge[0].addr == (uintptr_t)memory + 1 && mock.chain[2].sge[0].length == 2);
	assert_true(mock.chain[2].sge[1].addr == (uintptr_t)large + 3 && mock.chain[2].sge[1].length == 4);
	assert_memory_equal(mock.chain[3].inline_data, src, 8);
	assert_int_equal(ntohl(mock.chain[4].wr.imm_data), IMM);
	assert_true(mock.chain[5].wr.wr.atomic.compare_add == 111 && mock.chain[5].wr.wr.atomic.swap == 222);
	assert_true(mock.chain[5].sge[0].addr == (uintptr_t)memory + 8 && mock.chain[5].sge[0].length == 8);
	assert_true(mock.chain[6].wr.wr.atomic.compare_add == 333);
	assert_memory_equal(mock.atomic, src, 8);
}

/* a flush between two others: all are posted as one chain, and the flush has its range */
static void
a_flush_among_others(void **state)
{
	(void)state;
	hold_inline(f.conn, 0);
	assert_ok(rpma_flush(f.conn, f.remote, 3, 4, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS | MORE | FENCE,
		ctx(1)));
	hold_inline(f.conn, 2);
	assert_int_equal(mock.rung, 0);
	assert_ok(rpma_conn_submit(f.conn));
	assert_int_equal(mock.rung, 1);
	assert_posted(0, IBV_WR_RDMA_WRITE, ctx(0));
	assert_posted(1, RPMAI_WR_FLUSH, ctx(1));
	assert_posted(2, IBV_WR_RDMA_WRITE, ctx(2));
	assert_int_equal(mock.flushes, 1);
	assert_true(mock.flush.raddr == RADDR + 3 && mock.flush.len == 4);
	assert_int_equal(mock.flush.type, RPMAI_FLUSH_PERSISTENT);
	assert_int_equal(mock.flush.flags, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
}

/* a chain that ibv_post_send can post is posted by it, on any device */
static void
the_usual_way_where_it_suffices(void **state)
{
	(void)state;
	hold_inline(f.conn, 0);
	hold_inline(f.conn, 1);
	assert_ok(rpma_conn_submit(f.conn));
	assert_int_equal(mock_count("post_send"), 1);
	assert_int_equal(mock_count("wr_complete"), 0);
	assert_inline_posts(0, 2);
}

static void
all_or_nothing(void **state)
{
	(void)state;
	hold_one_of_each();
	for (int i = 0; i < 2; i++) {
		fail_next("wr_complete", ENOMEM);
		assert_fails(RPMA_E_PROVIDER, rpma_conn_submit(f.conn));
		assert_non_null(strstr(mock.last_log, "queue is full"));
		assert_int_equal(mock.chained, 0);
	}
	assert_ok(rpma_conn_submit(f.conn));
	assert_int_equal(mock.chained, ROWS(one_of_each));
	for (size_t i = 0; i < ROWS(one_of_each); i++)
		assert_posted((int)i, one_of_each[i].opcode, ctx(i));

	/* a single failed request is not kept */
	forget_posts();
	fail_next("wr_complete", EIO);
	assert_fails(RPMA_E_PROVIDER,
		rpma_flush(f.conn, f.remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, ctx(0)));
	assert_ok(rpma_conn_submit(f.conn));
	assert_int_equal(mock.chained, 0);
}

/* ---- several threads ---- */

#define THREADS 4
#define POSTS 2000

/* a send queue that several threads may use at the same time, as with real devices */
static struct {
	pthread_mutex_t lock;
	uint64_t next[THREADS]; /* the number of a thread's next request */
	uint64_t posts;
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int
common_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	(void)qp;
	(void)bad_wr;
	pthread_mutex_lock(&queue.lock);
	for (; wr; wr = wr->next) {
		const uint64_t thread = wr->wr_id >> 32, number = wr->wr_id & UINT32_MAX;
		uint64_t data;
		assert_in_range(thread, 0, THREADS - 1);
		memcpy(&data, (const void *)(uintptr_t)wr->sg_list[0].addr, sizeof(data));
		assert_true(data == wr->wr_id);
		assert_true(number == queue.next[thread]);
		queue.next[thread]++;
		queue.posts++;
	}
	pthread_mutex_unlock(&queue.lock);
	return 0;
}

/* each thread has its own mixture of requests that are batched and requests that ring the doorbell */
static void *
post_many(void *arg)
{
	const uint64_t thread = (uintptr_t)arg;
	uint64_t failed = 0;
	for (uint64_t i = 0; i < POSTS; i++) {
		const uint64_t data = thread << 32 | i;
		const int more = i % (thread + 2) ? MORE : 0;
		failed += rpma_write_inline(f.conn, f.remote, 0, &data, sizeof(data), ALWAYS | more,
				  (void *)(uintptr_t)data) != 0;
		if (i % 37 == 0)
			failed += rpma_conn_submit(f.conn) != 0;
	}
	failed += rpma_conn_submit(f.conn) != 0;
	return (void *)(uintptr_t)failed;
}

/* no request is lost, doubled, or overtaken by a later one of the same thread */
static void
threads_post_together(void **state)
{
	(void)state;
	pthread_t threads[THREADS];
	mock.ctx.ops.post_send = common_post_send;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, post_many, (void *)i), 0);
	for (int i = 0; i < THREADS; i++) {
		void *failed;
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	assert_int_equal(queue.posts, THREADS * POSTS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(queue.next[i], POSTS);

	struct rpma_conn_stats stats = { .size = sizeof(stats) };
	assert_ok(rpma_conn_get_stats(f.conn, &stats));
	assert_int_equal(stats.writes, THREADS * POSTS);
	assert_int_equal(stats.bytes_written, THREADS * POSTS * 8);
}

/* ---- several threads, and a send queue that is full most of the time ---- */

#define SCARCE_THREADS 2
#define SCARCE_POSTS 3000

/* it has room for the next request of a list in two of three cases */
static struct {
	pthread_mutex_t lock;
	unsigned turn;
	unsigned char executed[SCARCE_THREADS][SCARCE_POSTS]; /* how often */
} scarce = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int
scarce_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	(void)qp;
	pthread_mutex_lock(&scarce.lock);
	for (; wr && scarce.turn++ % 3; wr = wr->next)
		scarce.executed[wr->wr_id >> 32][wr->wr_id & UINT32_MAX]++;
	pthread_mutex_unlock(&scarce.lock);
	*bad_wr = wr;
	return wr ? ENOMEM : 0;
}

static void
ignore_log(enum rpma_log_level level, const char *file_name, const int line_no, const char *function_name,
	const char *message_format, ...)
{
	(void)level, (void)file_name, (void)line_no, (void)function_name, (void)message_format;
}

/* the first thread's posts are held back, the second one's ring; an array of what each call has returned */
static void *
post_into_scarce_queue(void *arg)
{
	const uint64_t thread = (uintptr_t)arg;
	int *rets = calloc(SCARCE_POSTS, sizeof(*rets));
	for (uint64_t i = 0; i < SCARCE_POSTS; i++)
		rets[i] = rpma_send(f.conn, NULL, 0, 0, ALWAYS | (thread == 0 ? MORE : 0),
			(void *)(uintptr_t)(thread << 32 | i));
	return rets;
}

/* a post that succeeds is executed once, one that fails is never executed, whatever another thread holds back */
static void
an_error_means_that_nothing_was_posted(void **state)
{
	(void)state;
	pthread_t threads[SCARCE_THREADS];
	void *rets[SCARCE_THREADS];
	mock.ctx.ops.post_send = scarce_post_send;
	assert_ok(rpma_log_set_function(ignore_log));
	for (uintptr_t i = 0; i < SCARCE_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, post_into_scarce_queue, (void *)i), 0);
	for (int i = 0; i < SCARCE_THREADS; i++)
		assert_int_equal(pthread_join(threads[i], &rets[i]), 0);
	while (rpma_conn_submit(f.conn) != 0)
		;
	for (int i = 0; i < SCARCE_THREADS; i++) {
		for (int n = 0; n < SCARCE_POSTS; n++) {
			const int ret = ((int *)rets[i])[n];
			assert_true(ret == 0 || ret == RPMA_E_AGAIN || ret == RPMA_E_PROVIDER);
			assert_int_equal(scarce.executed[i][n], ret == 0);
		}
		free(rets[i]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		plain_test(one_doorbell_in_order),
		plain_test(submitting),
		plain_test(a_refused_post_is_not_held),
		plain_test(what_is_held_was_copied),
		plain_test(a_full_list_is_rung),
		plain_test(a_queue_without_entries),
		plain_test(what_the_device_does_not_take_stays_held),
		plain_test(one_at_a_time),
		plain_test(no_room_for_more),
		plain_test(room_by_a_part_of_the_batch),
		plain_test(a_full_queue),
		plain_test(a_post_that_fails_is_gone),
		plain_test(no_memory_for_the_list),
		plain_test(a_list_ends_with_what_it_holds),
		plain_test(a_plain_post_needs_no_memory),
		plain_test(the_end_drops_what_is_held),
		native_test(each_extended_operation),
		native_test(a_flush_among_others),
		native_test(the_usual_way_where_it_suffices),
		native_test(all_or_nothing),
		plain_test(threads_post_together),
		plain_test(an_error_means_that_nothing_was_posted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
