/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_send_ring.c -- that each work request has a slot of its own, and completes once, in order */

#include <errno.h>

#include "failing.h"
#include "fixture.h"

#define DEPTH 6 /* no power of two */
#define INLINE 20
#define SGES 3

struct fixture {
	struct softrdma_send_ring ring;
	struct softrdma_cq *cq;
};

static void
begin(struct fixture *f, int cqe, uint32_t depth)
{
	const struct ibv_qp_cap cap = { .max_send_wr = depth,
		.max_send_sge = SGES,
		.max_inline_data = INLINE };
	f->cq = new_cq(cqe);
	assert_int_equal(softrdma_send_ring_init(&f->ring, NULL, f->cq, 77, &cap), 0);
	softrdma_send_ring_start(&f->ring, UINT32_MAX - 1); /* the numbers pass the end of 32 bits */
}

static void
end(struct fixture *f)
{
	softrdma_send_ring_fini(&f->ring);
	assert_int_equal(softrdma_ibv_destroy_cq(&f->cq->cq), 0);
}

static void
post(struct fixture *f, uint8_t opcode, uint64_t wr_id, bool signaled)
{
	const uint32_t head = f->ring.head;
	struct softrdma_send *send = softrdma_send_ring_slot(&f->ring);
	assert_non_null(send);
	send->opcode = opcode;
	send->wr_id = wr_id;
	send->signaled = signaled;
	send->length = 8;
	assert_int_equal(softrdma_send_ring_commit(&f->ring), head);
	assert_ptr_equal(softrdma_send_ring_at(&f->ring, head), send);
}

/* a depth is kept exactly, and a depth of 0 accepts nothing */
static void
test_depths(void **state)
{
	(void)state;
	for (uint32_t depth = 0; depth < 6; depth++) {
		struct fixture f;
		begin(&f, 8, depth);
		for (uint32_t i = 0; i < 3 * depth; i++) {
			for (uint32_t n = 0; n < depth; n++) {
				assert_int_equal(softrdma_send_ring_room(&f.ring), depth - n);
				post(&f, SOFTRDMA_OP_WRITE, n, false);
			}
			assert_null(softrdma_send_ring_slot(&f.ring));
			for (uint32_t n = 0; n < depth; n++)
				softrdma_send_ring_complete(&f.ring, IBV_WC_SUCCESS);
		}
		if (depth == 0)
			assert_null(softrdma_send_ring_slot(&f.ring));
		end(&f);
	}
}

/* SGEs and inline data of different requests do not overlap; a slot that is used again is cleared, and keeps its place for both */
static void
test_slots_are_apart(void **state)
{
	(void)state;
	struct fixture f;
	begin(&f, 8, DEPTH);
	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < DEPTH; i++) {
			struct softrdma_send *send = softrdma_send_ring_clear_slot(&f.ring, f.ring.head + i);
			assert_int_equal(send->wr_id | send->length | send->opcode | send->is_inline, 0);
			send->wr_id = 1 + i;
			memset(send->sge, (int)i, SGES * sizeof(*send->sge));
			memset(send->inline_data, (int)i, INLINE);
		}
		/* they are no requests yet */
		assert_int_equal(softrdma_send_ring_room(&f.ring), DEPTH);
		for (uint32_t i = 0; i < DEPTH; i++) {
			const struct softrdma_send *send =
				softrdma_send_ring_slot_at(&f.ring, f.ring.head + i);
			uint8_t pattern[SGES * sizeof(*send->sge)];
			memset(pattern, (int)i, sizeof(pattern));
			assert_int_equal(send->wr_id, 1 + i);
			assert_memory_equal(send->sge, pattern, sizeof(pattern));
			assert_memory_equal(send->inline_data, pattern, INLINE);
		}
		for (uint32_t i = 0; i < DEPTH - 1; i++)
			post(&f, SOFTRDMA_OP_SEND, i, false);
		for (uint32_t i = 0; i < DEPTH - 1; i++)
			softrdma_send_ring_complete(&f.ring, IBV_WC_SUCCESS);
	}
	expect_no_wc(f.cq);
	end(&f);
}

/* a place for a destination in each slot: it stays there, and counts as not set each time the slot is used */
static void
test_destinations(void **state)
{
	(void)state;
	struct fixture f;
	begin(&f, 8, DEPTH);
	assert_null(softrdma_send_ring_slot(&f.ring)->to);
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_int_equal(softrdma_send_ring_add_destinations(&f.ring), ENOMEM);
	assert_int_equal(fail_nothing(), 1);
	assert_null(softrdma_send_ring_slot(&f.ring)->to);
	assert_int_equal(softrdma_send_ring_add_destinations(&f.ring), 0);
	struct softrdma_destination *places[8]; /* the next power of two */
	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 8; i++) {
			struct softrdma_send *send = softrdma_send_ring_slot(&f.ring);
			assert_non_null(send->to);
			assert_int_equal(send->to->address.sin6_family, AF_UNSPEC);
			memset(send->to, 0x55, sizeof(*send->to));
			for (uint32_t k = 0; round == 0 && k < i; k++)
				assert_ptr_not_equal(places[k], send->to);
			if (round == 0)
				places[i] = send->to;
			assert_ptr_equal(places[i], send->to);
			post(&f, SOFTRDMA_OP_SEND, i, false);
			softrdma_send_ring_complete(&f.ring, IBV_WC_SUCCESS);
		}
	}
	expect_no_wc(f.cq);
	end(&f);
}

/* in order, with what the request was; without a signal only those that have failed */
static void
test_completions(void **state)
{
	(void)state;
	static const struct {
		uint8_t opcode;
		int wc_opcode;
	} kinds[] = {
		{ SOFTRDMA_OP_SEND, IBV_WC_SEND },
		{ SOFTRDMA_OP_WRITE, IBV_WC_RDMA_WRITE },
		{ SOFTRDMA_OP_READ, IBV_WC_RDMA_READ },
		{ SOFTRDMA_OP_ATOMIC_WRITE, SOFTRDMA_WC_ATOMIC_WRITE },
		{ SOFTRDMA_OP_COMPARE_SWAP, IBV_WC_COMP_SWAP },
		{ SOFTRDMA_OP_FETCH_ADD, IBV_WC_FETCH_ADD },
		{ SOFTRDMA_OP_FLUSH, SOFTRDMA_WC_FLUSH },
	};
	enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
	struct fixture f;
	begin(&f, 64, 4 * KINDS);
	for (uint64_t i = 0; i < KINDS; i++) {
		post(&f, kinds[i].opcode, 10 * i, true);
		post(&f, kinds[i].opcode, 10 * i + 1, false);
		post(&f, kinds[i].opcode, 10 * i + 2, false);
	}
	for (uint64_t i = 0; i < KINDS; i++) {
		softrdma_send_ring_complete(&f.ring, IBV_WC_SUCCESS);
		softrdma_send_ring_complete(&f.ring, IBV_WC_SUCCESS);
		softrdma_send_ring_complete(&f.ring, IBV_WC_REM_OP_ERR);
	}
	for (uint64_t i = 0; i < KINDS; i++) {
		struct ibv_wc wc;
		assert_int_equal(softrdma_cq_pop(f.cq, 1, &wc), 1);
		assert_int_equal(wc.wr_id, 10 * i);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, kinds[i].wc_opcode);
		assert_int_equal(wc.byte_len, 8);
		assert_int_equal(wc.qp_num, 77);
		expect_wc(f.cq, 10 * i + 2, IBV_WC_REM_OP_ERR);
	}
	expect_no_wc(f.cq);
	const struct softrdma_stats *counted = (const struct softrdma_stats *)&f.ring.counters;
	assert_int_equal(counted->failed, KINDS);
	assert_int_equal(counted->issued.operations[SOFTRDMA_STATS_ATOMIC], 6);
	assert_int_equal(counted->issued.bytes[SOFTRDMA_STATS_READ], 16);
	end(&f);
}

static void
test_overrun(void **state)
{
	(void)state;
	struct fixture f;
	begin(&f, 1, 2);
	post(&f, SOFTRDMA_OP_WRITE, 1, true);
	post(&f, SOFTRDMA_OP_WRITE, 2, true);
	softrdma_send_ring_complete(&f.ring, IBV_WC_SUCCESS);
	assert_false(f.ring.overrun);
	softrdma_send_ring_complete(&f.ring, IBV_WC_SUCCESS);
	assert_true(f.ring.overrun);
	end(&f);
}

/* what ibv_post_send(3) demands of the data of each operation */
static void
test_check(void **state)
{
	(void)state;
	static const struct {
		uint8_t opcode;
		bool may_inline, has_sges;
		uint64_t length_min, length_made; /* 0: the length stays */
	} kinds[] = {
		{ SOFTRDMA_OP_SEND, true, true, 0, 0 },
		{ SOFTRDMA_OP_WRITE, true, true, 0, 0 },
		{ SOFTRDMA_OP_READ, false, true, 0, 0 },
		{ SOFTRDMA_OP_ATOMIC_WRITE, true, false, 0, 0 },
		{ SOFTRDMA_OP_COMPARE_SWAP, false, true, 8, 8 },
		{ SOFTRDMA_OP_FETCH_ADD, false, true, 8, 8 },
		{ SOFTRDMA_OP_FLUSH, true, false, 0, 0 },
	};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		for (uint64_t length = 0; length < 20; length++) {
			struct softrdma_send send = { .opcode = kinds[i].opcode, .length = length };
			const bool fits = length >= kinds[i].length_min;
			assert_int_equal(softrdma_send_has_sges(&send), kinds[i].has_sges);
			assert_int_equal(softrdma_send_check(&send), fits ? 0 : EINVAL);
			assert_int_equal(send.length,
				fits && kinds[i].length_made ? kinds[i].length_made : length);
			send.is_inline = true;
			send.length = length;
			assert_int_equal(softrdma_send_check(&send),
				fits && kinds[i].may_inline ? 0 : EINVAL);
		}
	}
}

int
main(void)
{
	quieten();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_depths),
		cmocka_unit_test(test_slots_are_apart),
		cmocka_unit_test(test_destinations),
		cmocka_unit_test(test_completions),
		cmocka_unit_test(test_overrun),
		cmocka_unit_test(test_check),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
