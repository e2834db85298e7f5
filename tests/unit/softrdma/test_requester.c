/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_requester.c -- which frames are sent, what a response does, and that each request completes once, in
 * order
 */

#include <errno.h>

#include "fixture.h"

#define FIRST SOFTRDMA_FRAME_FIRST
#define LAST SOFTRDMA_FRAME_LAST
#define SEGMENT SOFTRDMA_SEGMENT_MAX
#define QUEUE_DEPTH 8

struct fixture {
	struct side side;
	struct softrdma_requester *req;
	struct softrdma_outgoing out;
	struct softrdma_place place;
	uint32_t first; /* the first sequence number */
};

static struct fixture *
new_fixture(uint32_t first, uint32_t rd_atom_max)
{
	struct fixture *f = calloc(1, sizeof(*f));
	assert_non_null(f);
	side_init(&f->side, 64, ALL_RIGHTS, QUEUE_DEPTH);
	f->req = &f->side.link->requester;
	f->first = first;
	softrdma_requester_start(f->req, first, rd_atom_max);
	return f;
}

/* sequence numbers pass the end of 32 bits in every test */
static int
setup(void **state)
{
	quieten();
	*state = new_fixture(UINT32_MAX - 1, 4);
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;
	side_fini(&f->side);
	free(f);
	return 0;
}

static struct softrdma_send *
post(struct fixture *f, uint8_t opcode, uint64_t wr_id, size_t len)
{
	struct softrdma_send *send = prepare(&f->side, opcode, wr_id, 0, len);
	send->remote_addr = 0x1000;
	send->key = 0x77;
	if (opcode == SOFTRDMA_OP_FLUSH) {
		send->num_sge = 0;
		send->flush_type = SOFTRDMA_FLUSH_GLOBAL;
	}
	commit(&f->side);
	return send;
}

/* the next frame must be this one; numbers count from the first request */
static void
leaves(struct fixture *f, uint8_t opcode, uint32_t seq)
{
	assert_true(softrdma_requester_next(f->req, &f->out));
	assert_int_equal(f->out.frame.opcode, opcode);
	assert_int_equal(f->out.frame.seq, f->first + seq);
	uint8_t buf[SOFTRDMA_FRAME_SIZE];
	struct softrdma_frame again;
	softrdma_frame_encode(&f->out.frame, buf);
	assert_true(softrdma_frame_decode(buf, &again)); /* every output is a valid frame */
	size_t len = 0;
	for (int i = 0; i < f->out.place.count; i++)
		len += f->out.place.iov[i].iov_len;
	assert_int_equal(len, f->out.frame.length);
}

static void
nothing_leaves(struct fixture *f)
{
	assert_false(softrdma_requester_next(f->req, &f->out));
}

static enum softrdma_response_action
answer(struct fixture *f, const struct softrdma_frame *what, uint32_t seq)
{
	struct softrdma_frame frame = *what;
	frame.seq = f->first + seq;
	return softrdma_requester_response(f->req, &frame, &f->place);
}

static enum softrdma_response_action
simple(struct fixture *f, uint8_t opcode, uint32_t seq)
{
	return answer(f, &(struct softrdma_frame){ .opcode = opcode }, seq);
}

static enum softrdma_response_action
nak(struct fixture *f, uint16_t code, uint32_t seq)
{
	return answer(f, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_NAK, .code = code }, seq);
}

static enum softrdma_response_action
data(struct fixture *f, uint8_t opcode, uint32_t seq, uint8_t flags, uint32_t len)
{
	return answer(f, &(struct softrdma_frame){ .opcode = opcode, .flags = flags, .length = len }, seq);
}

static void
placed(struct fixture *f, uint32_t seq, uint32_t len)
{
	const struct softrdma_frame frame = { .opcode = SOFTRDMA_OP_READ_RESPONSE,
		.seq = f->first + seq,
		.length = len };
	softrdma_requester_placed(f->req, &frame);
}

static void
full_read(struct fixture *f, uint32_t seq, uint32_t len)
{
	assert_int_equal(data(f, SOFTRDMA_OP_READ_RESPONSE, seq, FIRST | LAST, len), SOFTRDMA_RESPONSE_PLACE);
	placed(f, seq, len);
}

static void
test_frames_of_single_requests(void **state)
{
	struct fixture *f = *state;
	struct softrdma_send *send = post(f, SOFTRDMA_OP_READ, 1, 100);
	leaves(f, SOFTRDMA_OP_READ, 0);
	assert_int_equal(f->out.frame.arg, 100);
	assert_int_equal(f->out.frame.addr, 0x1000);
	assert_int_equal(f->out.frame.key, 0x77);
	assert_int_equal(f->out.frame.length, 0);

	send = post(f, SOFTRDMA_OP_FLUSH, 2, 1 << 20);
	send->flush_type = SOFTRDMA_FLUSH_PERSISTENT;
	leaves(f, SOFTRDMA_OP_FLUSH, 1);
	assert_int_equal(f->out.frame.arg, 1 << 20);
	assert_int_equal(f->out.frame.code, SOFTRDMA_FLUSH_PERSISTENT);

	send = post(f, SOFTRDMA_OP_COMPARE_SWAP, 3, 8);
	send->operand[0] = 0x0807060504030201;
	send->operand[1] = 0x100f0e0d0c0b0a09;
	leaves(f, SOFTRDMA_OP_COMPARE_SWAP, 2);
	for (uint8_t i = 0; i < 16; i++)
		assert_int_equal(f->out.bytes[i], i + 1);
	assert_ptr_equal(f->out.place.iov[0].iov_base, f->out.bytes);

	send = post(f, SOFTRDMA_OP_FETCH_ADD, 4, 8);
	send->operand[0] = 0x0807060504030201;
	leaves(f, SOFTRDMA_OP_FETCH_ADD, 3);
	assert_int_equal(f->out.frame.length, 8);
	assert_int_equal(f->out.bytes[7], 8);

	send = post(f, SOFTRDMA_OP_ATOMIC_WRITE, 5, 8);
	memcpy(send->operand, "ABCDEFGH", 8);
	leaves(f, SOFTRDMA_OP_ATOMIC_WRITE, 4);
	assert_memory_equal(f->out.bytes, "ABCDEFGH", 8);
	nothing_leaves(f);
}

static void
test_flags_of_messages(void **state)
{
	struct fixture *f = *state;
	struct softrdma_send *send = post(f, SOFTRDMA_OP_SEND, 1, 10);
	send->solicited = true;
	leaves(f, SOFTRDMA_OP_SEND, 0);
	assert_int_equal(f->out.frame.flags, FIRST | LAST | SOFTRDMA_FRAME_SOLICITED);
	assert_int_equal(f->out.frame.key, 0);
	assert_int_equal(f->out.frame.addr, 0);

	send = post(f, SOFTRDMA_OP_SEND, 2, 0);
	send->has_imm = true;
	send->imm = 0xa1b2c3d4;
	leaves(f, SOFTRDMA_OP_SEND, 1);
	assert_int_equal(f->out.frame.flags, FIRST | LAST | SOFTRDMA_FRAME_IMM);
	assert_int_equal(f->out.frame.arg, 0xa1b2c3d4);

	send = post(f, SOFTRDMA_OP_WRITE, 3, 10); /* a plain write raises no event, even if solicited */
	send->solicited = true;
	leaves(f, SOFTRDMA_OP_WRITE, 2);
	assert_int_equal(f->out.frame.flags, FIRST | LAST);

	send = post(f, SOFTRDMA_OP_WRITE, 4, 10);
	send->solicited = send->has_imm = true;
	leaves(f, SOFTRDMA_OP_WRITE, 3);
	assert_int_equal(f->out.frame.flags, FIRST | LAST | SOFTRDMA_FRAME_IMM | SOFTRDMA_FRAME_SOLICITED);
}

static void
test_segments(void **state)
{
	struct fixture *f = *state;
	static const size_t lengths[] = { SEGMENT - 1, SEGMENT, SEGMENT + 1, 2 * SEGMENT, 2 * SEGMENT + 5 };
	for (uint32_t i = 0; i < 5; i++) {
		struct softrdma_send *send = post(f, SOFTRDMA_OP_WRITE, i, lengths[i]);
		send->has_imm = true;
		send->imm = 5;
		size_t offset = 0;
		do {
			leaves(f, SOFTRDMA_OP_WRITE, i);
			size_t left = lengths[i] - offset;
			bool last = left <= SEGMENT;
			assert_int_equal(f->out.frame.length, last ? left : SEGMENT);
			assert_int_equal(f->out.frame.addr, 0x1000 + offset);
			assert_ptr_equal(f->out.place.iov[0].iov_base, f->side.mem + offset);
			assert_int_equal(f->out.frame.flags,
				(offset ? 0 : FIRST) | (last ? LAST | SOFTRDMA_FRAME_IMM : 0));
			assert_int_equal(f->out.frame.arg, last ? 5 : offset ? 0 : lengths[i]);
			offset += f->out.frame.length;
		} while (offset < lengths[i]);
	}
	nothing_leaves(f);
	assert_int_equal(simple(f, SOFTRDMA_OP_ACK, 4), SOFTRDMA_RESPONSE_DONE);
	for (uint64_t i = 0; i < 5; i++)
		expect_wc(f->side.send_cq, i, IBV_WC_SUCCESS);
}

/* the SGEs of a list need not end where segments do */
static void
test_scattered_segments(void **state)
{
	struct fixture *f = *state;
	struct softrdma_send *send = prepare(&f->side, SOFTRDMA_OP_SEND, 1, 0, SEGMENT + 20);
	send->num_sge = 4;
	send->sge[0] = piece(&f->side, 0, 10);
	send->sge[1] = piece(&f->side, 0, 0);
	send->sge[1].lkey = ~f->side.key; /* the key of an empty SGE is not checked */
	send->sge[2] = piece(&f->side, 100, SEGMENT);
	send->sge[3] = piece(&f->side, SEGMENT + 200, 10);
	commit(&f->side);
	leaves(f, SOFTRDMA_OP_SEND, 0);
	assert_int_equal(f->out.place.count, 2);
	assert_int_equal(f->out.place.iov[1].iov_len, SEGMENT - 10);
	leaves(f, SOFTRDMA_OP_SEND, 0);
	assert_int_equal(f->out.place.count, 2);
	assert_ptr_equal(f->out.place.iov[0].iov_base, f->side.mem + 100 + SEGMENT - 10);
	assert_ptr_equal(f->out.place.iov[1].iov_base, f->side.mem + SEGMENT + 200);
	nothing_leaves(f);
}

static void
test_inline_data_is_the_slots(void **state)
{
	struct fixture *f = *state;
	struct softrdma_send *send = prepare(&f->side, SOFTRDMA_OP_SEND, 1, 0, 5);
	send->is_inline = true;
	send->num_sge = 0;
	memcpy(send->inline_data, "hello", 5);
	commit(&f->side);
	leaves(f, SOFTRDMA_OP_SEND, 0);
	assert_memory_equal(f->out.place.iov[0].iov_base, "hello", 5);
	assert_null(f->out.place.mr[0]);
}

static void
test_queue_full(void **state)
{
	struct fixture *f = *state;
	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < QUEUE_DEPTH; i++) {
			post(f, SOFTRDMA_OP_WRITE, i, 1);
			leaves(f, SOFTRDMA_OP_WRITE, (uint32_t)round * QUEUE_DEPTH + i);
		}
		assert_null(softrdma_send_ring_slot(&f->req->ring));
		assert_int_equal(simple(f, SOFTRDMA_OP_ACK, (uint32_t)round * QUEUE_DEPTH),
			SOFTRDMA_RESPONSE_DONE);
		assert_non_null(softrdma_send_ring_slot(&f->req->ring));
		assert_int_equal(simple(f, SOFTRDMA_OP_ACK, (uint32_t)(round + 1) * QUEUE_DEPTH - 1),
			SOFTRDMA_RESPONSE_DONE);
		for (uint64_t i = 0; i < QUEUE_DEPTH; i++)
			expect_wc(f->side.send_cq, i, IBV_WC_SUCCESS);
	}
	expect_no_wc(f->side.send_cq);
}

/* a queue pair without any of its sizes accepts nothing; one read may be outstanding in any case */
static void
test_no_sizes(void **state)
{
	struct fixture *f = *state;
	struct softrdma_requester req;
	const struct ibv_qp_cap cap = { .max_send_wr = 0 };
	assert_int_equal(softrdma_requester_init(&req, f->side.pd, f->side.send_cq, 1, &cap), 0);
	softrdma_requester_start(&req, 0, 0);
	assert_int_equal(req.rd_atom_max, 1);
	assert_null(softrdma_send_ring_slot(&req.ring));
	softrdma_requester_drop(&req);
	softrdma_requester_fini(&req);
	expect_no_wc(f->side.send_cq);
}

static void
test_unsignaled_success_is_silent(void **state)
{
	struct fixture *f = *state;
	post(f, SOFTRDMA_OP_WRITE, 1, 1)->signaled = false;
	post(f, SOFTRDMA_OP_WRITE, 2, 1);
	post(f, SOFTRDMA_OP_WRITE, 3, 1)->signaled = false;
	for (uint32_t i = 0; i < 3; i++)
		leaves(f, SOFTRDMA_OP_WRITE, i);
	assert_int_equal(simple(f, SOFTRDMA_OP_ACK, 1), SOFTRDMA_RESPONSE_DONE);
	expect_wc(f->side.send_cq, 2, IBV_WC_SUCCESS);
	expect_no_wc(f->side.send_cq);
	assert_int_equal(nak(f, SOFTRDMA_NAK_ACCESS, 2), SOFTRDMA_RESPONSE_FAILED);
	expect_wc(f->side.send_cq, 3, IBV_WC_REM_ACCESS_ERR); /* errors are always signaled */
}

static void
test_opcodes_of_completions(void **state)
{
	struct fixture *f = *state;
	static const struct {
		uint8_t opcode;
		int wc;
	} table[] = {
		{ SOFTRDMA_OP_SEND, IBV_WC_SEND },
		{ SOFTRDMA_OP_WRITE, IBV_WC_RDMA_WRITE },
		{ SOFTRDMA_OP_ATOMIC_WRITE, SOFTRDMA_WC_ATOMIC_WRITE },
		{ SOFTRDMA_OP_FLUSH, SOFTRDMA_WC_FLUSH },
		{ SOFTRDMA_OP_READ, IBV_WC_RDMA_READ },
		{ SOFTRDMA_OP_COMPARE_SWAP, IBV_WC_COMP_SWAP },
		{ SOFTRDMA_OP_FETCH_ADD, IBV_WC_FETCH_ADD },
	};
	for (uint32_t i = 0; i < 7; i++) {
		post(f, table[i].opcode, i, 8);
		leaves(f, table[i].opcode, i);
	}
	full_read(f, 4, 8);
	assert_int_equal(data(f, SOFTRDMA_OP_ATOMIC_RESPONSE, 5, 0, 8), SOFTRDMA_RESPONSE_PLACE);
	placed(f, 5, 8);
	assert_int_equal(data(f, SOFTRDMA_OP_ATOMIC_RESPONSE, 6, 0, 8), SOFTRDMA_RESPONSE_PLACE);
	placed(f, 6, 8);
	for (uint32_t i = 0; i < 7; i++) {
		struct ibv_wc wc;
		assert_int_equal(softrdma_cq_pop(f->side.send_cq, 1, &wc), 1);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal((int)wc.opcode, table[i].wc);
		assert_int_equal(wc.byte_len, 8);
		assert_int_equal(wc.qp_num, 77);
	}
}

static void
test_fence(void **state)
{
	struct fixture *f = *state;
	static const uint8_t held_by[] = { SOFTRDMA_OP_READ, SOFTRDMA_OP_FLUSH, SOFTRDMA_OP_FETCH_ADD };
	uint32_t seq = 0;
	for (size_t i = 0; i < 3; i++) {
		post(f, held_by[i], 1, 8);
		post(f, SOFTRDMA_OP_WRITE, 2, 8)->fenced = true;
		post(f, SOFTRDMA_OP_WRITE, 3, 8);
		leaves(f, held_by[i], seq);
		nothing_leaves(f); /* the request without a fence must not overtake it */
		if (held_by[i] == SOFTRDMA_OP_READ) {
			full_read(f, seq, 8);
		} else if (held_by[i] == SOFTRDMA_OP_FLUSH) {
			assert_int_equal(simple(f, SOFTRDMA_OP_ACK, seq), SOFTRDMA_RESPONSE_DONE);
		} else {
			assert_int_equal(data(f, SOFTRDMA_OP_ATOMIC_RESPONSE, seq, 0, 8),
				SOFTRDMA_RESPONSE_PLACE);
			placed(f, seq, 8);
		}
		leaves(f, SOFTRDMA_OP_WRITE, seq + 1);
		leaves(f, SOFTRDMA_OP_WRITE, seq + 2);
		assert_int_equal(simple(f, SOFTRDMA_OP_ACK, seq + 2), SOFTRDMA_RESPONSE_DONE);
		seq += 3;
	}
	post(f, SOFTRDMA_OP_WRITE, 4, 8);
	post(f, SOFTRDMA_OP_WRITE, 5, 8)->fenced = true; /* a fence does not wait for writes */
	leaves(f, SOFTRDMA_OP_WRITE, seq);
	leaves(f, SOFTRDMA_OP_WRITE, seq + 1);
}

static void
test_outstanding_reads_and_atomics(void **state)
{
	struct fixture *f = *state;
	for (uint32_t i = 0; i < 3; i++)
		post(f, SOFTRDMA_OP_READ, i, 8);
	post(f, SOFTRDMA_OP_FETCH_ADD, 3, 8);
	post(f, SOFTRDMA_OP_COMPARE_SWAP, 4, 8);
	post(f, SOFTRDMA_OP_WRITE, 5, 8);
	for (uint32_t i = 0; i < 3; i++)
		leaves(f, SOFTRDMA_OP_READ, i);
	leaves(f, SOFTRDMA_OP_FETCH_ADD, 3);
	nothing_leaves(f);
	full_read(f, 0, 8);
	leaves(f, SOFTRDMA_OP_COMPARE_SWAP, 4);
	leaves(f, SOFTRDMA_OP_WRITE, 5);
	post(f, SOFTRDMA_OP_FLUSH, 6, 8); /* does not count as one of them */
	leaves(f, SOFTRDMA_OP_FLUSH, 6);
	full_read(f, 1, 8);
	full_read(f, 2, 8);
	assert_int_equal(f->req->rd_atoms, 2);
	assert_int_equal(data(f, SOFTRDMA_OP_ATOMIC_RESPONSE, 3, 0, 8), SOFTRDMA_RESPONSE_PLACE);
	placed(f, 3, 8);
	assert_int_equal(data(f, SOFTRDMA_OP_ATOMIC_RESPONSE, 4, 0, 8), SOFTRDMA_RESPONSE_PLACE);
	placed(f, 4, 8);
	assert_int_equal(simple(f, SOFTRDMA_OP_ACK, 6), SOFTRDMA_RESPONSE_DONE);
	assert_int_equal(f->req->rd_atoms, 0);
	assert_int_equal(f->req->fencing, 0);
	for (uint64_t i = 0; i < 7; i++)
		expect_wc(f->side.send_cq, i, IBV_WC_SUCCESS);
}

static void
test_read_in_pieces(void **state)
{
	struct fixture *f = *state;
	post(f, SOFTRDMA_OP_WRITE, 1, 8);
	post(f, SOFTRDMA_OP_READ, 2, SEGMENT + 8);
	leaves(f, SOFTRDMA_OP_WRITE, 0);
	leaves(f, SOFTRDMA_OP_READ, 1);
	assert_int_equal(data(f, SOFTRDMA_OP_READ_RESPONSE, 1, FIRST, SEGMENT), SOFTRDMA_RESPONSE_PLACE);
	expect_wc(f->side.send_cq, 1, IBV_WC_SUCCESS); /* a response acknowledges all earlier requests */
	placed(f, 1, SEGMENT);
	expect_no_wc(f->side.send_cq);
	assert_int_equal(data(f, SOFTRDMA_OP_READ_RESPONSE, 1, LAST, 8), SOFTRDMA_RESPONSE_PLACE);
	assert_ptr_equal(f->place.iov[0].iov_base, f->side.mem + SEGMENT);
	placed(f, 1, 8);
	expect_wc(f->side.send_cq, 2, IBV_WC_SUCCESS);
}

/*
 * Each bad response arrives while the queue has: WRITE 0, READ 1 (16 bytes), FETCH_ADD 2, WRITE 3, which is
 * not sent yet.
 */
struct bad_answer {
	const char *what;
	struct softrdma_frame frame;
	uint32_t seq;
	bool first_read_piece; /* the first 8 bytes of the READ have arrived */
};

static const struct bad_answer bad_answers[] = {
	{ "ACK of a READ without its data", { .opcode = SOFTRDMA_OP_ACK }, 1, false },
	{ "ACK behind a READ without its data", { .opcode = SOFTRDMA_OP_ACK }, 2, false },
	{ "ACK of what has not been sent", { .opcode = SOFTRDMA_OP_ACK }, 3, false },
	{ "ACK of what has not been posted", { .opcode = SOFTRDMA_OP_ACK }, 4, false },
	{ "ACK of what was before the first", { .opcode = SOFTRDMA_OP_ACK }, UINT32_MAX, false },
	{ "ACK half way around", { .opcode = SOFTRDMA_OP_ACK }, 0x80000000u, false },
	{ "data for a WRITE", { .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = FIRST | LAST, .length = 8 }, 0,
		false },
	{ "READ data for an atomic",
		{ .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = FIRST | LAST, .length = 8 }, 2, false },
	{ "READ data for nothing",
		{ .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = FIRST | LAST, .length = 8 }, 3, false },
	{ "too much READ data", { .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = FIRST | LAST, .length = 17 },
		1, false },
	{ "too much READ data, more to come",
		{ .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = FIRST, .length = 17 }, 1, false },
	{ "too little READ data",
		{ .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = FIRST | LAST, .length = 15 }, 1, false },
	{ "all READ data without an end",
		{ .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = FIRST, .length = 16 }, 1, false },
	{ "READ data without a beginning",
		{ .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = LAST, .length = 16 }, 1, false },
	{ "no READ data, for ever", { .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = FIRST }, 1, false },
	{ "a second beginning", { .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = FIRST | LAST, .length = 8 },
		1, true },
	{ "more than is left", { .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = LAST, .length = 9 }, 1, true },
	{ "less than is left", { .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = LAST, .length = 7 }, 1, true },
	{ "nothing in the middle", { .opcode = SOFTRDMA_OP_READ_RESPONSE }, 1, true },
	{ "NAK in front of missing data", { .opcode = SOFTRDMA_OP_NAK, .code = SOFTRDMA_NAK_ACCESS }, 2,
		false },
	{ "NAK of what has not been sent", { .opcode = SOFTRDMA_OP_NAK, .code = SOFTRDMA_NAK_ACCESS }, 3,
		false },
	{ "atomic result for a WRITE", { .opcode = SOFTRDMA_OP_ATOMIC_RESPONSE, .length = 8 }, 0, false },
	{ "atomic result for a READ", { .opcode = SOFTRDMA_OP_ATOMIC_RESPONSE, .length = 8 }, 1, false },
	{ "atomic result in front of missing data", { .opcode = SOFTRDMA_OP_ATOMIC_RESPONSE, .length = 8 }, 2,
		false },
	{ "RNR for a WRITE without immediate data", { .opcode = SOFTRDMA_OP_RNR }, 0, false },
	{ "RNR for a READ", { .opcode = SOFTRDMA_OP_RNR }, 1, false },
	{ "RNR in front of missing data", { .opcode = SOFTRDMA_OP_RNR }, 2, false },
	{ "RNR for what has not been sent", { .opcode = SOFTRDMA_OP_RNR }, 3, false },
	{ "RNR_READY without RNR", { .opcode = SOFTRDMA_OP_RNR_READY }, 0, false },
};

static void
test_bad_answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad_answers) / sizeof(*bad_answers); i++) {
		const struct bad_answer *bad = &bad_answers[i];
		struct fixture *f = new_fixture(UINT32_MAX - 1, 4);
		post(f, SOFTRDMA_OP_WRITE, 0, 8);
		post(f, SOFTRDMA_OP_READ, 1, 16);
		post(f, SOFTRDMA_OP_FETCH_ADD, 2, 8);
		leaves(f, SOFTRDMA_OP_WRITE, 0);
		leaves(f, SOFTRDMA_OP_READ, 1);
		leaves(f, SOFTRDMA_OP_FETCH_ADD, 2);
		post(f, SOFTRDMA_OP_WRITE, 3, 8);
		if (bad->first_read_piece) {
			assert_int_equal(data(f, SOFTRDMA_OP_READ_RESPONSE, 1, FIRST, 8),
				SOFTRDMA_RESPONSE_PLACE);
			placed(f, 1, 8);
		}
		if (answer(f, &bad->frame, bad->seq) != SOFTRDMA_RESPONSE_BAD)
			fail_msg("taken: %s", bad->what);
		side_fini(&f->side);
		free(f);
	}
}

static void
test_each_refusal(void **state)
{
	(void)state;
	static const int status[] = {
		[SOFTRDMA_NAK_INVALID_REQUEST] = IBV_WC_REM_INV_REQ_ERR,
		[SOFTRDMA_NAK_ACCESS] = IBV_WC_REM_ACCESS_ERR,
		[SOFTRDMA_NAK_OPERATION] = IBV_WC_REM_OP_ERR,
		[SOFTRDMA_NAK_GONE] = IBV_WC_RETRY_EXC_ERR,
	};
	for (uint16_t code = SOFTRDMA_NAK_INVALID_REQUEST; code <= SOFTRDMA_NAK_GONE; code++) {
		struct fixture *f = new_fixture(UINT32_MAX, 4);
		for (uint32_t i = 0; i < 4; i++) {
			post(f, SOFTRDMA_OP_WRITE, i, 8)->signaled = false;
			leaves(f, SOFTRDMA_OP_WRITE, i);
		}
		post(f, SOFTRDMA_OP_WRITE, 4, 8);
		assert_int_equal(nak(f, code, 2), SOFTRDMA_RESPONSE_FAILED);
		/* 0 and 1 have succeeded and are unsignaled; later requests are flushed, signaled or not */
		expect_wc(f->side.send_cq, 2, status[code]);
		expect_wc(f->side.send_cq, 3, IBV_WC_WR_FLUSH_ERR);
		expect_wc(f->side.send_cq, 4, IBV_WC_WR_FLUSH_ERR);
		assert_true(f->req->failed);
		nothing_leaves(f);
		post(f, SOFTRDMA_OP_SEND, 5, 8);
		expect_wc(f->side.send_cq, 5, IBV_WC_WR_FLUSH_ERR);
		expect_no_wc(f->side.send_cq);
		side_fini(&f->side);
		free(f);
	}
}

/* a long message may be refused before all of it is sent */
static void
test_refusal_in_the_middle_of_a_message(void **state)
{
	struct fixture *f = *state;
	post(f, SOFTRDMA_OP_WRITE, 1, 3 * SEGMENT);
	leaves(f, SOFTRDMA_OP_WRITE, 0);
	assert_int_equal(simple(f, SOFTRDMA_OP_ACK, 0), SOFTRDMA_RESPONSE_BAD); /* it cannot be complete */
	assert_int_equal(nak(f, SOFTRDMA_NAK_ACCESS, 0), SOFTRDMA_RESPONSE_FAILED);
	nothing_leaves(f);
	expect_wc(f->side.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	expect_no_wc(f->side.send_cq);
}

static void
test_local_memory_gone(void **state)
{
	struct fixture *f = *state;
	post(f, SOFTRDMA_OP_WRITE, 1, 8);
	leaves(f, SOFTRDMA_OP_WRITE, 0);
	post(f, SOFTRDMA_OP_SEND, 2, 8)->sge[0].lkey ^= 1;
	post(f, SOFTRDMA_OP_SEND, 3, 8);
	nothing_leaves(f);
	assert_true(f->req->failed);
	expect_wc(f->side.send_cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_wc(f->side.send_cq, 2, IBV_WC_LOC_PROT_ERR);
	expect_wc(f->side.send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	expect_no_wc(f->side.send_cq);
}

/* the local memory of a READ or an atomic is checked when the response arrives */
static void
test_no_place_for_a_result(void **state)
{
	(void)state;
	for (int atomic = 0; atomic < 2; atomic++) {
		struct fixture *f = new_fixture(7, 4);
		uint8_t opcode = atomic ? SOFTRDMA_OP_COMPARE_SWAP : SOFTRDMA_OP_READ;
		post(f, SOFTRDMA_OP_WRITE, 1, 8);
		post(f, opcode, 2, 8)->sge[0].addr = addr_of(&f->side, REGION_SIZE - 7);
		post(f, SOFTRDMA_OP_WRITE, 3, 8);
		leaves(f, SOFTRDMA_OP_WRITE, 0);
		leaves(f, opcode, 1);
		assert_int_equal(atomic ? data(f, SOFTRDMA_OP_ATOMIC_RESPONSE, 1, 0, 8)
					: data(f, SOFTRDMA_OP_READ_RESPONSE, 1, FIRST | LAST, 8),
			SOFTRDMA_RESPONSE_FAILED);
		expect_wc(f->side.send_cq, 1, IBV_WC_SUCCESS);
		expect_wc(f->side.send_cq, 2, IBV_WC_LOC_PROT_ERR);
		expect_wc(f->side.send_cq, 3, IBV_WC_WR_FLUSH_ERR);
		side_fini(&f->side);
		free(f);
	}
}

static void
test_not_ready(void **state)
{
	struct fixture *f = *state;
	post(f, SOFTRDMA_OP_READ, 0, 8);
	post(f, SOFTRDMA_OP_SEND, 1, SEGMENT + 1);
	post(f, SOFTRDMA_OP_READ, 2, 8);
	post(f, SOFTRDMA_OP_FLUSH, 3, 8);
	leaves(f, SOFTRDMA_OP_READ, 0);
	leaves(f, SOFTRDMA_OP_SEND, 1);
	leaves(f, SOFTRDMA_OP_SEND, 1);
	leaves(f, SOFTRDMA_OP_READ, 2);
	leaves(f, SOFTRDMA_OP_FLUSH, 3);
	full_read(f, 0, 8);
	assert_int_equal(f->req->rd_atoms, 1);
	assert_int_equal(f->req->fencing, 2);
	assert_int_equal(simple(f, SOFTRDMA_OP_RNR, 1), SOFTRDMA_RESPONSE_DONE);
	/* requests that the responder has discarded no longer count as outstanding */
	assert_int_equal(f->req->rd_atoms, 0);
	assert_int_equal(f->req->fencing, 0);
	nothing_leaves(f);
	post(f, SOFTRDMA_OP_WRITE, 4, 8);
	nothing_leaves(f);
	assert_int_equal(simple(f, SOFTRDMA_OP_RNR, 1), SOFTRDMA_RESPONSE_BAD);
	assert_int_equal(simple(f, SOFTRDMA_OP_ACK, 1), SOFTRDMA_RESPONSE_BAD);
	assert_int_equal(simple(f, SOFTRDMA_OP_RNR_READY, 2), SOFTRDMA_RESPONSE_BAD);
	assert_int_equal(simple(f, SOFTRDMA_OP_RNR_READY, 1), SOFTRDMA_RESPONSE_DONE);
	assert_int_equal(simple(f, SOFTRDMA_OP_RNR_READY, 1), SOFTRDMA_RESPONSE_BAD);
	leaves(f, SOFTRDMA_OP_RESYNC, 1);
	leaves(f, SOFTRDMA_OP_SEND, 1);
	assert_true(f->out.frame.flags & FIRST);
	assert_int_equal(f->out.frame.length, SEGMENT);
	/* again, in the middle of the message */
	assert_int_equal(simple(f, SOFTRDMA_OP_RNR, 1), SOFTRDMA_RESPONSE_DONE);
	assert_int_equal(simple(f, SOFTRDMA_OP_RNR_READY, 1), SOFTRDMA_RESPONSE_DONE);
	leaves(f, SOFTRDMA_OP_RESYNC, 1);
	leaves(f, SOFTRDMA_OP_SEND, 1);
	assert_true(f->out.frame.flags & FIRST);
	leaves(f, SOFTRDMA_OP_SEND, 1);
	leaves(f, SOFTRDMA_OP_READ, 2);
	leaves(f, SOFTRDMA_OP_FLUSH, 3);
	leaves(f, SOFTRDMA_OP_WRITE, 4);
	full_read(f, 2, 8);
	assert_int_equal(simple(f, SOFTRDMA_OP_ACK, 4), SOFTRDMA_RESPONSE_DONE);
	for (uint64_t i = 0; i < 5; i++)
		expect_wc(f->side.send_cq, i, IBV_WC_SUCCESS);
	expect_no_wc(f->side.send_cq);
	assert_int_equal(f->req->fencing, 0);
}

/* the responder fails while this side waits for its receive, or is about to send again */
static void
test_refusal_after_not_ready(void **state)
{
	(void)state;
	for (int step = 0; step < 3; step++) {
		struct fixture *f = new_fixture(UINT32_MAX, 4);
		post(f, SOFTRDMA_OP_SEND, 1, 8);
		post(f, SOFTRDMA_OP_SEND, 2, 8);
		leaves(f, SOFTRDMA_OP_SEND, 0);
		assert_int_equal(simple(f, SOFTRDMA_OP_RNR, 0), SOFTRDMA_RESPONSE_DONE);
		if (step > 0)
			assert_int_equal(simple(f, SOFTRDMA_OP_RNR_READY, 0), SOFTRDMA_RESPONSE_DONE);
		if (step > 1)
			leaves(f, SOFTRDMA_OP_RESYNC, 0);
		if (nak(f, SOFTRDMA_NAK_GONE, 0) != SOFTRDMA_RESPONSE_FAILED)
			fail_msg("the refusal is taken for a broken protocol (step %d)", step);
		expect_wc(f->side.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
		expect_wc(f->side.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
		expect_no_wc(f->side.send_cq);
		nothing_leaves(f);
		side_fini(&f->side);
		free(f);
	}
}

/* once it is sent again it is an ordinary request; a request that was not sent cannot be refused */
static void
test_refusal_of_the_unsent_after_not_ready(void **state)
{
	struct fixture *f = *state;
	post(f, SOFTRDMA_OP_SEND, 1, 8);
	post(f, SOFTRDMA_OP_SEND, 2, 8);
	leaves(f, SOFTRDMA_OP_SEND, 0);
	assert_int_equal(simple(f, SOFTRDMA_OP_RNR, 0), SOFTRDMA_RESPONSE_DONE);
	assert_int_equal(nak(f, SOFTRDMA_NAK_GONE, 1), SOFTRDMA_RESPONSE_BAD);
	assert_int_equal(simple(f, SOFTRDMA_OP_RNR_READY, 0), SOFTRDMA_RESPONSE_DONE);
	leaves(f, SOFTRDMA_OP_RESYNC, 0);
	leaves(f, SOFTRDMA_OP_SEND, 0);
	assert_int_equal(nak(f, SOFTRDMA_NAK_GONE, 1), SOFTRDMA_RESPONSE_BAD);
}

static void
test_failing_in_every_state(void **state)
{
	(void)state;
	for (int sent = 0; sent <= 4; sent++) {
		for (int waiting = 0; waiting < 2; waiting++) {
			struct fixture *f = new_fixture(UINT32_MAX, 4);
			post(f, SOFTRDMA_OP_SEND, 0, 8);
			post(f, SOFTRDMA_OP_READ, 1, 8);
			post(f, SOFTRDMA_OP_WRITE, 2, SEGMENT + 1);
			for (int i = 0; i < sent; i++)
				assert_true(softrdma_requester_next(f->req, &f->out));
			if (waiting && sent > 0)
				assert_int_equal(simple(f, SOFTRDMA_OP_RNR, 0), SOFTRDMA_RESPONSE_DONE);
			softrdma_requester_fail(f->req, IBV_WC_RETRY_EXC_ERR);
			expect_wc(f->side.send_cq, 0, IBV_WC_RETRY_EXC_ERR);
			expect_wc(f->side.send_cq, 1, IBV_WC_WR_FLUSH_ERR);
			expect_wc(f->side.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
			softrdma_requester_fail(f->req, IBV_WC_RETRY_EXC_ERR);
			expect_no_wc(f->side.send_cq);
			nothing_leaves(f);
			assert_int_equal(f->req->rd_atoms, 0);
			assert_int_equal(f->req->fencing, 0);
			side_fini(&f->side);
			free(f);
		}
	}
}

static void
test_failing_at_one(void **state)
{
	struct fixture *f = *state;
	for (uint32_t i = 0; i < 4; i++)
		post(f, SOFTRDMA_OP_WRITE, i, 8);
	leaves(f, SOFTRDMA_OP_WRITE, 0);
	softrdma_requester_fail_at(f->req, f->first + 2, IBV_WC_LOC_LEN_ERR);
	expect_wc(f->side.send_cq, 0, IBV_WC_WR_FLUSH_ERR);
	expect_wc(f->side.send_cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_wc(f->side.send_cq, 2, IBV_WC_LOC_LEN_ERR);
	expect_wc(f->side.send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	expect_no_wc(f->side.send_cq);
}

static void
test_dropping(void **state)
{
	struct fixture *f = *state;
	post(f, SOFTRDMA_OP_SEND, 1, 8);
	post(f, SOFTRDMA_OP_READ, 2, 8);
	leaves(f, SOFTRDMA_OP_SEND, 0);
	softrdma_requester_drop(f->req);
	nothing_leaves(f);
	expect_no_wc(f->side.send_cq);
}

static void
test_overrun_is_noticed(void **state)
{
	(void)state;
	struct fixture *f = calloc(1, sizeof(*f));
	side_init(&f->side, 1, ALL_RIGHTS, QUEUE_DEPTH);
	f->req = &f->side.link->requester;
	softrdma_requester_start(f->req, 0, 1);
	for (uint32_t i = 0; i < 2; i++) {
		post(f, SOFTRDMA_OP_WRITE, i, 8);
		leaves(f, SOFTRDMA_OP_WRITE, i);
	}
	assert_int_equal(simple(f, SOFTRDMA_OP_ACK, 1), SOFTRDMA_RESPONSE_DONE);
	assert_true(f->req->ring.overrun);
	side_fini(&f->side);
	free(f);
}

/* slots after the last request may be filled before they are posted; until then they are no requests */
static void
test_slots_ahead(void **state)
{
	struct fixture *f = *state;
	post(f, SOFTRDMA_OP_WRITE, 1, 8);
	leaves(f, SOFTRDMA_OP_WRITE, 0);
	assert_int_equal(softrdma_send_ring_room(&f->req->ring), QUEUE_DEPTH - 1);
	for (uint32_t i = 1; i < QUEUE_DEPTH; i++)
		softrdma_send_ring_clear_slot(&f->req->ring, f->first + i)->wr_id = 1 + i;
	assert_int_equal(softrdma_send_ring_room(&f->req->ring), QUEUE_DEPTH - 1);
	assert_int_equal(softrdma_send_ring_slot_at(&f->req->ring, f->first + 2)->wr_id, 3);
	nothing_leaves(f); /* and sent requests stay */
	assert_int_equal(softrdma_send_ring_at(&f->req->ring, f->first)->wr_id, 1);

	struct softrdma_send *send = softrdma_send_ring_slot(&f->req->ring);
	assert_ptr_equal(send, softrdma_send_ring_slot_at(&f->req->ring, f->first + 1));
	assert_int_equal(send->wr_id, 0);
	post(f, SOFTRDMA_OP_READ, 20, 8);
	assert_int_equal(softrdma_send_ring_at(&f->req->ring, f->first + 1)->wr_id, 20);
	assert_int_equal(softrdma_send_ring_room(&f->req->ring), QUEUE_DEPTH - 2);
	leaves(f, SOFTRDMA_OP_READ, 1);
	nothing_leaves(f);
}

/* a FLUSH transfers none of the bytes of its range */
static void
test_length(void **state)
{
	struct fixture *f = *state;
	post(f, SOFTRDMA_OP_WRITE, 1, 100);
	post(f, SOFTRDMA_OP_FLUSH, 2, 100);
	post(f, SOFTRDMA_OP_READ, 3, 0);
	assert_int_equal(softrdma_requester_length(f->req, f->first), 100);
	assert_int_equal(softrdma_requester_length(f->req, f->first + 1), 0);
	assert_int_equal(softrdma_requester_length(f->req, f->first + 2), 0);
}

/* --- requests that leave together --- */

static bool
may_gather(const struct fixture *f, uint32_t from)
{
	return softrdma_requester_may_gather(f->req, f->first + from);
}

/* a queue that has as many outstanding requests as let the next ones wait */
static void
keep_busy(struct fixture *f)
{
	for (uint32_t i = 0; i < SOFTRDMA_GATHER_FROM; i++) {
		post(f, SOFTRDMA_OP_WRITE, i, 8);
		assert_false(may_gather(f, i));
		leaves(f, SOFTRDMA_OP_WRITE, i);
	}
}

/* a request waits for those that follow only if enough responses must come */
static void
test_gathers_behind_outstanding_requests(void **state)
{
	struct fixture *f = *state;
	const uint32_t next = SOFTRDMA_GATHER_FROM;
	keep_busy(f);
	post(f, SOFTRDMA_OP_WRITE, 10, SOFTRDMA_GATHER_LENGTH);
	assert_true(may_gather(f, next));
	post(f, SOFTRDMA_OP_FLUSH, 11, SOFTRDMA_GATHER_LENGTH + 1); /* moves no bytes */
	assert_true(may_gather(f, next));
	assert_int_equal(simple(f, SOFTRDMA_OP_ACK, 0), SOFTRDMA_RESPONSE_DONE);
	assert_false(may_gather(f, next));
}

/* a long request must leave, and those with it */
static void
test_gathers_no_long_requests(void **state)
{
	struct fixture *f = *state;
	const uint32_t next = SOFTRDMA_GATHER_FROM;
	keep_busy(f);
	post(f, SOFTRDMA_OP_WRITE, 10, SOFTRDMA_GATHER_LENGTH + 1);
	assert_false(may_gather(f, next));
	post(f, SOFTRDMA_OP_WRITE, 11, 8);
	assert_false(may_gather(f, next));
	assert_true(may_gather(f, next + 1)); /* posted by itself */
}

/* at most as many as leave in one batch; and nothing waits if the queue pair has failed, or must be resynchronized */
static void
test_gathers_a_limited_number(void **state)
{
	(void)state;
	struct fixture *f = calloc(1, sizeof(*f));
	const uint32_t next = SOFTRDMA_GATHER_FROM;
	assert_non_null(f);
	side_init(&f->side, 64, ALL_RIGHTS, SOFTRDMA_GATHER_FROM + SOFTRDMA_GATHER_MAX + 1);
	f->req = &f->side.link->requester;
	softrdma_requester_start(f->req, 0, 4);
	keep_busy(f);
	for (uint32_t i = 1; i < SOFTRDMA_GATHER_MAX; i++) {
		post(f, SOFTRDMA_OP_WRITE, i, 8);
		assert_true(may_gather(f, next + i - 1));
	}
	f->req->resync_due = true;
	assert_false(may_gather(f, next));
	f->req->resync_due = false;
	assert_true(may_gather(f, next));
	post(f, SOFTRDMA_OP_WRITE, 99, 8);
	assert_false(may_gather(f, next));

	softrdma_requester_fail(f->req, IBV_WC_WR_FLUSH_ERR);
	assert_false(softrdma_requester_may_gather(f->req, f->req->ring.head));
	side_fini(&f->side);
	free(f);
}

/* the rest of a message that has begun to leave does not wait */
static void
test_gathers_nothing_within_a_message(void **state)
{
	struct fixture *f = *state;
	keep_busy(f);
	struct softrdma_send *send = post(f, SOFTRDMA_OP_WRITE, 10, 8);
	assert_true(may_gather(f, SOFTRDMA_GATHER_FROM));
	send->length = 8;
	f->req->tx_offset = 4;
	assert_false(may_gather(f, SOFTRDMA_GATHER_FROM));
	f->req->tx_offset = 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* a request can complete locally only if all requests before it have been acknowledged */
static void
test_alone(void **state)
{
	(void)state;
	struct side side;
	struct softrdma_outgoing out;
	side_init(&side, 16, ALL_RIGHTS, 8);
	struct softrdma_requester *req = &side.link->requester;
	softrdma_requester_start(req, 100, 4);
	assert_null(softrdma_requester_alone(req));
	prepare(&side, SOFTRDMA_OP_WRITE, 1, 0, 8);
	commit(&side);
	prepare(&side, SOFTRDMA_OP_WRITE, 2, 0, 8);
	commit(&side);
	assert_int_equal(softrdma_requester_alone(req)->wr_id, 1);
	assert_true(softrdma_requester_next(req, &out));
	assert_null(softrdma_requester_alone(req));
	side_fini(&side);
}

/* --- responses that may come late --- */

#define LATER SOFTRDMA_FRAME_ACK_LATER

static void
leaves_with(struct fixture *f, uint8_t opcode, uint32_t seq, uint8_t flags)
{
	leaves(f, opcode, seq);
	assert_int_equal(f->out.frame.flags & (LAST | LATER), flags);
}

/* only a SEND or WRITE that is not signaled needs no response soon, and the flag is in its last frame */
static void
test_asks_for_what_is_awaited(void **state)
{
	struct fixture *f = *state;
	post(f, SOFTRDMA_OP_WRITE, 1, 8)->signaled = false;
	leaves_with(f, SOFTRDMA_OP_WRITE, 0, LAST | LATER);
	post(f, SOFTRDMA_OP_SEND, 2, 8)->signaled = false;
	leaves_with(f, SOFTRDMA_OP_SEND, 1, LAST | LATER);
	post(f, SOFTRDMA_OP_WRITE, 3, 8);
	leaves_with(f, SOFTRDMA_OP_WRITE, 2, LAST);
	assert_int_equal(simple(f, SOFTRDMA_OP_ACK, 2), SOFTRDMA_RESPONSE_DONE);
	post(f, SOFTRDMA_OP_WRITE, 4, SEGMENT + 1)->signaled = false;
	leaves_with(f, SOFTRDMA_OP_WRITE, 3, 0);
	leaves_with(f, SOFTRDMA_OP_WRITE, 3, LAST | LATER);
	assert_int_equal(simple(f, SOFTRDMA_OP_ACK, 3), SOFTRDMA_RESPONSE_DONE);
	static const uint8_t others[] = { SOFTRDMA_OP_FLUSH, SOFTRDMA_OP_ATOMIC_WRITE, SOFTRDMA_OP_READ,
		SOFTRDMA_OP_FETCH_ADD };
	for (uint32_t i = 0; i < 4; i++) {
		post(f, others[i], 5 + i, 8)->signaled = false;
		leaves_with(f, others[i], 4 + i, 0);
	}
	nothing_leaves(f);
}

/* the request that takes the last slot is asked for, also after RNR, because the next post waits for a slot */
static void
test_asks_before_the_queue_is_full(void **state)
{
	(void)state;
	static const struct {
		uint32_t depth, later;
	} table[] = { { 1, 0 }, { 2, 1 }, { 3, 2 }, { 4, 3 }, { 64, SOFTRDMA_GATHER_FROM - 1 } };
	for (size_t at = 0; at < sizeof(table) / sizeof(table[0]); at++) {
		struct fixture *f = calloc(1, sizeof(*f));
		assert_non_null(f);
		side_init(&f->side, 64, ALL_RIGHTS, table[at].depth);
		f->req = &f->side.link->requester;
		softrdma_requester_start(f->req, 0, 4);
		for (int again = 0; again < 2; again++) {
			for (uint32_t i = 0; i < table[at].depth; i++) {
				if (again == 0)
					post(f, SOFTRDMA_OP_SEND, i, 8)->signaled = false;
				leaves_with(f, SOFTRDMA_OP_SEND, i,
					i < table[at].later ? LAST | LATER : LAST);
			}
			assert_false(softrdma_requester_wants_to_send(f->req));
			if (again == 1)
				break;
			assert_int_equal(simple(f, SOFTRDMA_OP_RNR, 0), SOFTRDMA_RESPONSE_DONE);
			assert_false(softrdma_requester_wants_to_send(f->req));
			assert_int_equal(simple(f, SOFTRDMA_OP_RNR_READY, 0), SOFTRDMA_RESPONSE_DONE);
			assert_true(softrdma_requester_wants_to_send(f->req));
			leaves(f, SOFTRDMA_OP_RESYNC, 0);
			assert_true(softrdma_requester_wants_to_send(f->req));
		}
		side_fini(&f->side);
		free(f);
	}
}

/* a local completion waits for all requests before it */
static void
test_asks_always(void **state)
{
	struct fixture *f = *state;
	f->req->asks_always = true;
	post(f, SOFTRDMA_OP_WRITE, 1, 8)->signaled = false;
	leaves_with(f, SOFTRDMA_OP_WRITE, 0, LAST);
}

/* numbers of requests that are outstanding; each of them is true if its response was asked for */
struct outstanding {
	bool asked[64];
	uint32_t oldest, next;
};

static bool
any_is_asked_for(const struct outstanding *o)
{
	bool any = false;
	for (uint32_t i = o->oldest; i != o->next; i++)
		any = any || o->asked[i % 64];
	return any;
}

/*
 * Whatever is posted, answered and refused: if posts wait for a response, or no slot is left, then a response must come
 * soon. The seed is fixed.
 */
static void
test_waits_for_no_late_response(void **state)
{
	(void)state;
	static const uint32_t depths[] = { 1, 2, 3, 5, 8, 40 };
	unsigned random = 1, gathered = 0, full = 0;
	for (size_t at = 0; at < sizeof(depths) / sizeof(depths[0]); at++) {
		struct fixture *f = calloc(1, sizeof(*f));
		struct outstanding o = { 0 };
		assert_non_null(f);
		side_init(&f->side, 64, ALL_RIGHTS, depths[at]);
		f->req = &f->side.link->requester;
		softrdma_requester_start(f->req, 0, 4);
		for (int i = 0; i < 20000; i++) {
			const unsigned what = (unsigned)rand_r(&random) % 16;
			if (what < 9 && softrdma_send_ring_room(&f->req->ring)) {
				post(f, SOFTRDMA_OP_SEND, 0, 8)->signaled = rand_r(&random) % 8 == 0;
				leaves(f, SOFTRDMA_OP_SEND, o.next);
				o.asked[o.next++ % 64] = !(f->out.frame.flags & LATER);
			} else if (what < 15 && o.oldest != o.next) {
				o.oldest += 1 + (uint32_t)rand_r(&random) % (o.next - o.oldest);
				assert_int_equal(simple(f, SOFTRDMA_OP_ACK, o.oldest - 1),
					SOFTRDMA_RESPONSE_DONE);
			} else if (o.oldest != o.next) {
				const uint32_t end = o.next;
				o.oldest = o.next =
					o.oldest + (uint32_t)rand_r(&random) % (o.next - o.oldest);
				assert_int_equal(simple(f, SOFTRDMA_OP_RNR, o.next), SOFTRDMA_RESPONSE_DONE);
				assert_int_equal(simple(f, SOFTRDMA_OP_RNR_READY, o.next),
					SOFTRDMA_RESPONSE_DONE);
				leaves(f, SOFTRDMA_OP_RESYNC, o.next);
				while (o.next != end) {
					leaves(f, SOFTRDMA_OP_SEND, o.next);
					o.asked[o.next++ % 64] = !(f->out.frame.flags & LATER);
				}
			}
			if (softrdma_requester_may_gather(f->req, f->req->ring.head)) {
				assert_true(any_is_asked_for(&o));
				gathered++;
			}
			if (softrdma_send_ring_room(&f->req->ring) == 0) {
				assert_true(any_is_asked_for(&o));
				full++;
			}
			struct ibv_wc wc;
			while (softrdma_cq_pop(f->side.send_cq, 1, &wc) == 1)
				assert_int_equal(wc.status, IBV_WC_SUCCESS);
		}
		side_fini(&f->side);
		free(f);
	}
	assert_true(gathered > 1000 && full > 1000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone),
		TEST(test_gathers_behind_outstanding_requests),
		TEST(test_gathers_no_long_requests),
		cmocka_unit_test(test_gathers_a_limited_number),
		TEST(test_gathers_nothing_within_a_message),
		TEST(test_asks_for_what_is_awaited),
		cmocka_unit_test(test_asks_before_the_queue_is_full),
		TEST(test_asks_always),
		cmocka_unit_test(test_waits_for_no_late_response),
		TEST(test_frames_of_single_requests),
		TEST(test_flags_of_messages),
		TEST(test_segments),
		TEST(test_scattered_segments),
		TEST(test_inline_data_is_the_slots),
		TEST(test_queue_full),
		TEST(test_no_sizes),
		TEST(test_unsignaled_success_is_silent),
		TEST(test_opcodes_of_completions),
		TEST(test_fence),
		TEST(test_outstanding_reads_and_atomics),
		TEST(test_read_in_pieces),
		TEST(test_bad_answers),
		TEST(test_each_refusal),
		TEST(test_refusal_in_the_middle_of_a_message),
		TEST(test_local_memory_gone),
		TEST(test_no_place_for_a_result),
		TEST(test_not_ready),
		TEST(test_refusal_after_not_ready),
		TEST(test_refusal_of_the_unsent_after_not_ready),
		TEST(test_failing_in_every_state),
		TEST(test_failing_at_one),
		TEST(test_dropping),
		TEST(test_overrun_is_noticed),
		TEST(test_slots_ahead),
		TEST(test_length),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
