/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_batch.c -- the bytes of a batch: what of it has left, its copy, and memory that is not there */

#include "fixture.h"

#include "softrdma/core/link.h"

#define FRAMES 2
#define LENGTH 100 /* of the payload of each frame */
#define SIZE (FRAMES * (SOFTRDMA_FRAME_SIZE + LENGTH))

/* a batch of writes from different places, of content that depends on the position */
static void
batch_init(struct side *side)
{
	quieten();
	side_init(side, 16, ALL_RIGHTS, 16);
	softrdma_link_start(side->link, 100, 4, 4);
	for (size_t i = 0; i < FRAMES; i++)
		pattern_fill(side->mem + i * REGION_SIZE / FRAMES, LENGTH, 1, i * LENGTH);
	for (size_t i = 0; i < FRAMES; i++) {
		struct softrdma_send *send =
			prepare(side, SOFTRDMA_OP_WRITE, i, i * REGION_SIZE / FRAMES, LENGTH);
		send->remote_addr = 0x1000;
		send->key = 7;
		commit(side);
	}
	assert_true(softrdma_link_tx_fill(side->link));
}

/* the whole batch is headers, each followed by its payload */
static void
expect_all(const struct side *side, const uint8_t *bytes)
{
	for (size_t i = 0; i < FRAMES; i++) {
		struct softrdma_frame frame;
		const uint8_t *at = bytes + i * (SOFTRDMA_FRAME_SIZE + LENGTH);
		assert_true(softrdma_frame_decode(at, &frame));
		assert_int_equal(frame.opcode, SOFTRDMA_OP_WRITE);
		assert_int_equal(frame.length, LENGTH);
		assert_memory_equal(at + SOFTRDMA_FRAME_SIZE, side->mem + i * REGION_SIZE / FRAMES, LENGTH);
	}
}

/* a copy is as long as the room is, and nothing is written after its end; it leaves the batch as it was */
static void
test_copy(void **state)
{
	(void)state;
	struct side side;
	uint8_t whole[SIZE + 1], part[SIZE + 1];
	batch_init(&side);
	whole[SIZE] = 0xee;
	assert_int_equal(softrdma_link_tx_copy(side.link, whole, SIZE + 1), SIZE);
	assert_int_equal(whole[SIZE], 0xee);
	expect_all(&side, whole);
	for (size_t room = 0; room <= SIZE; room++) {
		memset(part, 0xee, sizeof(part));
		assert_int_equal(softrdma_link_tx_copy(side.link, part, room), room);
		assert_memory_equal(part, whole, room);
		assert_int_equal(part[room], 0xee);
	}
	side_fini(&side);
}

/* after any number of bytes the rest of the batch is what was not sent, and then there is nothing */
static void
test_done(void **state)
{
	(void)state;
	for (size_t first = 0; first <= SIZE; first++) {
		struct side side;
		uint8_t whole[SIZE], rest[SIZE];
		batch_init(&side);
		assert_int_equal(softrdma_link_tx_copy(side.link, whole, SIZE), SIZE);
		softrdma_link_tx_done(side.link, first);
		assert_int_equal(softrdma_link_tx_copy(side.link, rest, SIZE), SIZE - first);
		assert_memory_equal(rest, whole + first, SIZE - first);
		softrdma_link_tx_done(side.link, SIZE - first);
		assert_int_equal(softrdma_link_tx_copy(side.link, rest, SIZE), 0);
		assert_false(softrdma_link_tx_fill(side.link));
		side_fini(&side);
	}
}

/* the memory of the second frame is unmapped: what comes before it is copied, then the copy fails, and so does the request */
static void
test_memory_gone(void **state)
{
	(void)state;
	struct side side;
	uint8_t bytes[SIZE];
	const size_t present = SIZE - LENGTH;
	batch_init(&side);
	assert_int_equal(munmap(side.mem + REGION_SIZE / FRAMES, REGION_SIZE / FRAMES), 0);
	assert_int_equal(softrdma_link_tx_copy(side.link, bytes, SIZE), present);
	assert_memory_equal(bytes + SOFTRDMA_FRAME_SIZE, side.mem, LENGTH);
	softrdma_link_tx_done(side.link, present);
	assert_int_equal(softrdma_link_tx_copy(side.link, bytes, SIZE), -1);
	expect_no_wc(side.send_cq);
	softrdma_link_tx_fault(side.link);
	assert_true(side.link->failed);
	expect_wc(side.send_cq, 0, IBV_WC_LOC_PROT_ERR);
	expect_wc(side.send_cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_no_wc(side.send_cq);
	side_fini(&side);
}

/* the memory of a response is not there: no request of this side has done that, so all of them are only flushed */
static void
test_memory_of_a_response(void **state)
{
	(void)state;
	struct side side;
	uint8_t bytes[SOFTRDMA_FRAME_SIZE];
	quieten();
	side_init(&side, 16, ALL_RIGHTS, 16);
	softrdma_link_start(side.link, 100, 4, 4);
	const struct softrdma_frame read = { .opcode = SOFTRDMA_OP_READ,
		.seq = 100,
		.key = side.key,
		.addr = addr_of(&side, 0),
		.arg = LENGTH };
	softrdma_frame_encode(&read, bytes);
	assert_int_equal(softrdma_link_rx_take(side.link, bytes, sizeof(bytes)), sizeof(bytes));
	prepare(&side, SOFTRDMA_OP_FLUSH, 7, 0, 0); /* it needs no memory */
	commit(&side);
	assert_true(softrdma_link_tx_fill(side.link));
	softrdma_link_tx_fault(side.link);
	assert_true(side.link->failed);
	expect_wc(side.send_cq, 7, IBV_WC_WR_FLUSH_ERR);
	expect_no_wc(side.send_cq);
	side_fini(&side);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_done),
		cmocka_unit_test(test_memory_gone),
		cmocka_unit_test(test_memory_of_a_response),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
