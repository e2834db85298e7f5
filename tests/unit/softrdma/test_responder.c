/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_responder.c -- which requests are served or refused, and the order of the responses */

#include <errno.h>

#include "failing.h"
#include "fixture.h"

#define FIRST SOFTRDMA_FRAME_FIRST
#define LAST SOFTRDMA_FRAME_LAST
#define WHOLE (FIRST | LAST)
#define IMM SOFTRDMA_FRAME_IMM
#define LATER SOFTRDMA_FRAME_ACK_LATER
#define SEGMENT SOFTRDMA_SEGMENT_MAX
#define RD_ATOM_MAX 3
#define PAGE 4096

struct fixture {
	struct side side;
	struct softrdma_responder *resp;
	struct softrdma_outgoing out;
	struct softrdma_place place;
	uint32_t first;
};

static struct fixture *
new_fixture(int access)
{
	struct fixture *f = calloc(1, sizeof(*f));
	assert_non_null(f);
	quieten();
	side_init(&f->side, 16, access, 4);
	f->resp = &f->side.link->responder;
	f->first = UINT32_MAX - 1;
	softrdma_responder_start(f->resp, f->first, RD_ATOM_MAX);
	return f;
}

static void
free_fixture(struct fixture *f)
{
	side_fini(&f->side);
	free(f);
}

static int
setup(void **state)
{
	*state = new_fixture(ALL_RIGHTS);
	return 0;
}

static int
teardown(void **state)
{
	free_fixture(*state);
	return 0;
}

/* a request at the region's beginning; the test changes its fields */
static struct softrdma_frame
request(const struct fixture *f, uint8_t opcode, uint32_t seq)
{
	struct softrdma_frame frame = { .opcode = opcode, .seq = f->first + seq };
	if (opcode >= SOFTRDMA_OP_WRITE && opcode <= SOFTRDMA_OP_FLUSH) {
		frame.key = f->side.key;
		frame.addr = addr_of(&f->side, 0);
	}
	switch (opcode) {
	case SOFTRDMA_OP_SEND:
	case SOFTRDMA_OP_WRITE:
		frame.flags = WHOLE;
		frame.length = 8;
		break;
	case SOFTRDMA_OP_READ:
		frame.arg = 8;
		break;
	case SOFTRDMA_OP_FLUSH:
		frame.arg = 8;
		frame.code = SOFTRDMA_FLUSH_GLOBAL;
		break;
	case SOFTRDMA_OP_RESYNC:
		break;
	default:
		frame.length = opcode == SOFTRDMA_OP_COMPARE_SWAP ? 16 : 8;
		break;
	}
	return frame;
}

static enum softrdma_service
serve(struct fixture *f, const struct softrdma_frame *frame)
{
	return softrdma_responder_request(f->resp, frame, &f->place);
}

static enum softrdma_service
ask(struct fixture *f, uint8_t opcode, uint32_t seq)
{
	const struct softrdma_frame frame = request(f, opcode, seq);
	return serve(f, &frame);
}

/* serves a request with payload, like the link */
static void
ask_and_place(struct fixture *f, uint8_t opcode, uint32_t seq)
{
	const struct softrdma_frame frame = request(f, opcode, seq);
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_PLACE);
	softrdma_responder_placed(f->resp, &frame);
}

/* the same for a request for which no program waits */
static void
ask_and_place_unasked(struct fixture *f, uint8_t opcode, uint32_t seq)
{
	struct softrdma_frame frame = request(f, opcode, seq);
	frame.flags |= LATER;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_PLACE);
	softrdma_responder_placed(f->resp, &frame);
}

static void
says(struct fixture *f, uint8_t opcode, uint32_t seq)
{
	assert_true(softrdma_responder_next(f->resp, &f->out));
	assert_int_equal(f->out.frame.opcode, opcode);
	assert_int_equal(f->out.frame.seq, f->first + seq);
	uint8_t buf[SOFTRDMA_FRAME_SIZE];
	struct softrdma_frame again;
	softrdma_frame_encode(&f->out.frame, buf);
	assert_true(softrdma_frame_decode(buf, &again));
}

static void
says_nak(struct fixture *f, enum softrdma_nak code, uint32_t seq)
{
	says(f, SOFTRDMA_OP_NAK, seq);
	assert_int_equal(f->out.frame.code, code);
}

static void
says_nothing(struct fixture *f)
{
	assert_false(softrdma_responder_next(f->resp, &f->out));
}

static void
test_write(void **state)
{
	struct fixture *f = *state;
	const struct softrdma_frame frame = request(f, SOFTRDMA_OP_WRITE, 0);
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_PLACE);
	assert_int_equal(f->place.count, 1);
	assert_ptr_equal(f->place.iov[0].iov_base, f->side.mem);
	assert_int_equal(f->place.iov[0].iov_len, 8);
	assert_ptr_equal(f->place.mr[0], f->side.mr);
	says_nothing(f); /* not before it has arrived */
	softrdma_responder_placed(f->resp, &frame);
	says(f, SOFTRDMA_OP_ACK, 0);
	says_nothing(f);
	expect_no_wc(f->side.recv_cq);
}

static void
test_acknowledgements_are_coalesced(void **state)
{
	struct fixture *f = *state;
	for (uint32_t i = 0; i < 5; i++)
		ask_and_place(f, SOFTRDMA_OP_WRITE, i);
	says(f, SOFTRDMA_OP_ACK, 4);
	says_nothing(f);
	ask_and_place(f, SOFTRDMA_OP_WRITE, 5);
	assert_int_equal(ask(f, SOFTRDMA_OP_READ, 6), SOFTRDMA_SERVICE_DISCARD);
	says(f, SOFTRDMA_OP_READ_RESPONSE, 6); /* acknowledges 5 too */
	says_nothing(f);
	assert_int_equal(ask(f, SOFTRDMA_OP_READ, 7), SOFTRDMA_SERVICE_DISCARD);
	ask_and_place(f, SOFTRDMA_OP_WRITE, 8);
	says(f, SOFTRDMA_OP_READ_RESPONSE, 7); /* no ACK may overtake missing data */
	says(f, SOFTRDMA_OP_ACK, 8);
	says_nothing(f);
}

/* the peer's messages have had replies: from now on their acknowledgements wait for one */
static void
have_replies(struct fixture *f, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		ask_and_place_unasked(f, SOFTRDMA_OP_WRITE, 0);
		softrdma_responder_reply_leaves(f->resp);
		says(f, SOFTRDMA_OP_ACK, 0);
		says_nothing(f);
		f->first++;
	}
}

/* no acknowledgement waits before enough messages have had replies, or again after one had none in time */
static void
test_late_acknowledgements_begin_and_end(void **state)
{
	struct fixture *f = *state;
	for (int i = 0; i < 3; i++) {
		have_replies(f, SOFTRDMA_ACK_LATER_FROM - 1);
		ask_and_place_unasked(f, SOFTRDMA_OP_WRITE, 0);
		ask_and_place_unasked(f, SOFTRDMA_OP_WRITE, 1);
		assert_false(softrdma_responder_ack_may_wait(f->resp));
		says(f, SOFTRDMA_OP_ACK, 1);
		softrdma_responder_reply_leaves(f->resp); /* to both */
		softrdma_responder_reply_leaves(f->resp); /* to nothing */
		f->first += 2;
		ask_and_place_unasked(f, SOFTRDMA_OP_WRITE, 0);
		says_nothing(f);
		assert_true(softrdma_responder_ack_may_wait(f->resp));
		softrdma_responder_no_reply(f->resp);
		says(f, SOFTRDMA_OP_ACK, 0);
		says_nothing(f);
		softrdma_responder_reply_leaves(f->resp); /* late, but it counts */
		f->first++;
		ask_and_place_unasked(f, SOFTRDMA_OP_WRITE, 0);
		says(f, SOFTRDMA_OP_ACK, 0);
		softrdma_responder_no_reply(f->resp);
		f->resp->unanswered = false;
		f->first++;
	}
}

/* a message that gives the program a completion; flags of its only frame */
static void
get_message(struct fixture *f, uint32_t seq, uint8_t flags)
{
	struct softrdma_frame frame = request(f, SOFTRDMA_OP_SEND, seq);
	struct ibv_wc wc;
	post_recv(&f->side, 1, 0, 64);
	frame.flags |= flags;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_PLACE);
	softrdma_responder_placed(f->resp, &frame);
	assert_int_equal(softrdma_cq_pop(f->side.recv_cq, 1, &wc), 1);
}

/* the acknowledgement of a message may wait while a thread handles it, after others that had replies */
static void
test_message_awaits_reply(void **state)
{
	struct fixture *f = *state;
	for (unsigned i = 0; i < SOFTRDMA_ACK_LATER_FROM; i++) {
		get_message(f, i, 0);
		assert_false(softrdma_responder_expects_reply(f->resp));
		softrdma_responder_reply_leaves(f->resp);
		says(f, SOFTRDMA_OP_ACK, i);
	}
	f->first += SOFTRDMA_ACK_LATER_FROM;
	get_message(f, 0, 0);
	assert_true(softrdma_responder_expects_reply(f->resp));
	/* another message does not change that, but any other request does */
	get_message(f, 1, 0);
	assert_true(softrdma_responder_expects_reply(f->resp));
	ask_and_place(f, SOFTRDMA_OP_WRITE, 2);
	assert_false(softrdma_responder_expects_reply(f->resp));
	get_message(f, 3, 0);
	assert_true(softrdma_responder_expects_reply(f->resp));
	assert_int_equal(ask(f, SOFTRDMA_OP_READ, 4), SOFTRDMA_SERVICE_DISCARD);
	get_message(f, 5, 0);
	assert_false(softrdma_responder_expects_reply(f->resp));
	says(f, SOFTRDMA_OP_READ_RESPONSE, 4);
	assert_true(softrdma_responder_expects_reply(f->resp));
	says(f, SOFTRDMA_OP_ACK, 5);
	assert_false(softrdma_responder_expects_reply(f->resp));
	softrdma_responder_reply_leaves(f->resp);
	/* if no program waits for it, nothing is due anyway */
	get_message(f, 6, LATER);
	assert_false(softrdma_responder_expects_reply(f->resp));
	assert_true(softrdma_responder_ack_may_wait(f->resp));
	get_message(f, 7, 0);
	assert_true(softrdma_responder_expects_reply(f->resp));
	softrdma_responder_reply_leaves(f->resp);
	assert_false(softrdma_responder_expects_reply(f->resp));
	says(f, SOFTRDMA_OP_ACK, 7);
	f->first += 8;
	/* the thread had finished before its reply */
	get_message(f, 0, 0);
	softrdma_responder_reply_is_late(f->resp);
	for (unsigned i = 1; i <= SOFTRDMA_ACK_LATER_FROM; i++) {
		assert_false(softrdma_responder_expects_reply(f->resp));
		softrdma_responder_reply_leaves(f->resp);
		ask_and_place(f, SOFTRDMA_OP_WRITE, 2 * i - 1); /* which is no message */
		get_message(f, 2 * i, 0);
	}
	assert_true(softrdma_responder_expects_reply(f->resp));
	/* a message that finds no receive */
	assert_int_equal(ask(f, SOFTRDMA_OP_SEND, 2 * SOFTRDMA_ACK_LATER_FROM + 1), SOFTRDMA_SERVICE_DISCARD);
	assert_false(softrdma_responder_expects_reply(f->resp));
}

/* one that was not asked for leaves when the link asks for it, or with one that was */
static void
test_late_acknowledgements(void **state)
{
	struct fixture *f = *state;
	have_replies(f, SOFTRDMA_ACK_LATER_FROM);
	assert_false(softrdma_responder_ack_may_wait(f->resp));
	softrdma_responder_ack_now(f->resp); /* nothing is executed: nothing is remembered */
	ask_and_place_unasked(f, SOFTRDMA_OP_WRITE, 0);
	ask_and_place_unasked(f, SOFTRDMA_OP_WRITE, 1);
	says_nothing(f);
	assert_true(softrdma_responder_ack_may_wait(f->resp));
	softrdma_responder_ack_now(f->resp);
	assert_false(softrdma_responder_ack_may_wait(f->resp));
	says(f, SOFTRDMA_OP_ACK, 1);
	says_nothing(f);

	ask_and_place_unasked(f, SOFTRDMA_OP_WRITE, 2);
	ask_and_place(f, SOFTRDMA_OP_WRITE, 3);
	ask_and_place_unasked(f, SOFTRDMA_OP_WRITE, 4);
	assert_false(softrdma_responder_ack_may_wait(f->resp));
	says(f, SOFTRDMA_OP_ACK, 4);
	ask_and_place_unasked(f, SOFTRDMA_OP_WRITE, 5);
	says_nothing(f); /* the request of before is answered */
	assert_true(softrdma_responder_ack_may_wait(f->resp));
}

/* a response acknowledges what came before it, and what comes after it may wait again */
static void
test_late_acknowledgements_and_responses(void **state)
{
	struct fixture *f = *state;
	have_replies(f, SOFTRDMA_ACK_LATER_FROM);
	ask_and_place_unasked(f, SOFTRDMA_OP_WRITE, 0);
	assert_int_equal(ask(f, SOFTRDMA_OP_READ, 1), SOFTRDMA_SERVICE_DISCARD);
	says(f, SOFTRDMA_OP_READ_RESPONSE, 1);
	says_nothing(f);
	assert_false(softrdma_responder_ack_may_wait(f->resp));
	ask_and_place_unasked(f, SOFTRDMA_OP_WRITE, 2);
	says_nothing(f);
	assert_true(softrdma_responder_ack_may_wait(f->resp));
	/* others are always answered; they have no such flag */
	assert_int_equal(ask(f, SOFTRDMA_OP_FLUSH, 3), SOFTRDMA_SERVICE_DISCARD);
	says(f, SOFTRDMA_OP_ACK, 3);
	says_nothing(f);
}

/* no late acknowledgement comes behind a response after which nothing is acknowledged, or is lost because of it */
static void
test_late_acknowledgements_at_an_end(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(ALL_RIGHTS); /* no receive is posted */
	have_replies(f, SOFTRDMA_ACK_LATER_FROM);
	ask_and_place_unasked(f, SOFTRDMA_OP_WRITE, 0);
	assert_int_equal(ask(f, SOFTRDMA_OP_SEND, 1), SOFTRDMA_SERVICE_DISCARD);
	says(f, SOFTRDMA_OP_ACK, 0);
	says(f, SOFTRDMA_OP_RNR, 1);
	says_nothing(f);
	free_fixture(f);

	/* a refusal answers all before it */
	f = new_fixture(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	have_replies(f, SOFTRDMA_ACK_LATER_FROM);
	ask_and_place_unasked(f, SOFTRDMA_OP_WRITE, 0);
	assert_int_equal(ask(f, SOFTRDMA_OP_READ, 1), SOFTRDMA_SERVICE_DISCARD);
	says_nak(f, SOFTRDMA_NAK_ACCESS, 1);
	says_nothing(f);
	free_fixture(f);

	f = new_fixture(ALL_RIGHTS); /* the end of the connection */
	have_replies(f, SOFTRDMA_ACK_LATER_FROM);
	ask_and_place_unasked(f, SOFTRDMA_OP_WRITE, 0);
	softrdma_responder_close(f->resp);
	says(f, SOFTRDMA_OP_ACK, 0);
	says_nothing(f);
	free_fixture(f);
}

static void
test_segmented_write(void **state)
{
	struct fixture *f = *state;
	struct softrdma_frame frame = request(f, SOFTRDMA_OP_WRITE, 0);
	frame.flags = FIRST;
	frame.length = SEGMENT;
	frame.arg = SEGMENT + 9;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_PLACE);
	softrdma_responder_placed(f->resp, &frame);
	says_nothing(f);
	frame.flags = 0;
	frame.length = 8;
	frame.arg = 0;
	frame.addr += SEGMENT;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_PLACE);
	assert_ptr_equal(f->place.iov[0].iov_base, f->side.mem + SEGMENT);
	softrdma_responder_placed(f->resp, &frame);
	frame.flags = LAST;
	frame.length = 1;
	frame.addr += 8;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_PLACE);
	softrdma_responder_placed(f->resp, &frame);
	says(f, SOFTRDMA_OP_ACK, 0);
}

static void
test_send_into_pieces(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge[3] = { piece(&f->side, 0, 5), piece(&f->side, 0, 0), piece(&f->side, 100, 10) };
	post_recv_sges(&f->side, 42, sge, 3);
	struct softrdma_frame frame = request(f, SOFTRDMA_OP_SEND, 0);
	frame.flags |= IMM | SOFTRDMA_FRAME_SOLICITED;
	frame.arg = 0xaabbccdd;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_PLACE);
	assert_int_equal(f->place.count, 2);
	assert_int_equal(f->place.iov[0].iov_len, 5);
	assert_ptr_equal(f->place.iov[1].iov_base, f->side.mem + 100);
	assert_int_equal(f->place.iov[1].iov_len, 3);
	softrdma_responder_placed(f->resp, &frame);
	struct ibv_wc wc;
	assert_int_equal(softrdma_cq_pop(f->side.recv_cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 42);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 8);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 0xaabbccdd);
	assert_int_equal(wc.qp_num, 77);
	says(f, SOFTRDMA_OP_ACK, 0);
}

static void
test_write_with_immediate(void **state)
{
	struct fixture *f = *state;
	post_recv(&f->side, 43, 0, 0);
	struct softrdma_frame frame = request(f, SOFTRDMA_OP_WRITE, 0);
	frame.flags |= IMM;
	frame.arg = 5;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_PLACE);
	softrdma_responder_placed(f->resp, &frame);
	struct ibv_wc wc;
	assert_int_equal(softrdma_cq_pop(f->side.recv_cq, 1, &wc), 1);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 8);
	assert_int_equal(wc.imm_data, 5);
}

/* accesses that must be refused, each with its NAK, and without a change of memory */
struct refused {
	const char *what;
	uint8_t opcode;
	int take_away; /* rights that the region lacks */
	int64_t offset;
	uint64_t len; /* of opcodes that have a length */
	uint32_t key_change;
	bool other_pd;
	enum softrdma_nak nak;
};

#define ACCESS SOFTRDMA_NAK_ACCESS
#define INVALID SOFTRDMA_NAK_INVALID_REQUEST
#define END ((int64_t)REGION_SIZE)

static const struct refused refusals[] = {
	{ "write: key", SOFTRDMA_OP_WRITE, 0, 0, 8, 1, false, ACCESS },
	{ "write: protection domain", SOFTRDMA_OP_WRITE, 0, 0, 8, 0, true, ACCESS },
	{ "write: right", SOFTRDMA_OP_WRITE, IBV_ACCESS_REMOTE_WRITE, 0, 8, 0, false, ACCESS },
	{ "write: in front", SOFTRDMA_OP_WRITE, 0, -1, 8, 0, false, ACCESS },
	{ "write: over the end", SOFTRDMA_OP_WRITE, 0, END - 7, 8, 0, false, ACCESS },
	{ "write: behind", SOFTRDMA_OP_WRITE, 0, END, 1, 0, false, ACCESS },
	{ "read: key", SOFTRDMA_OP_READ, 0, 0, 8, 0x80000000u, false, ACCESS },
	{ "read: protection domain", SOFTRDMA_OP_READ, 0, 0, 8, 0, true, ACCESS },
	{ "read: right", SOFTRDMA_OP_READ, IBV_ACCESS_REMOTE_READ, 0, 8, 0, false, ACCESS },
	{ "read: over the end", SOFTRDMA_OP_READ, 0, 1, REGION_SIZE, 0, false, ACCESS },
	{ "read: in front", SOFTRDMA_OP_READ, 0, -8, 16, 0, false, ACCESS },
	{ "swap: right", SOFTRDMA_OP_COMPARE_SWAP, IBV_ACCESS_REMOTE_ATOMIC, 0, 8, 0, false, ACCESS },
	{ "swap: key", SOFTRDMA_OP_COMPARE_SWAP, 0, 0, 8, 1, false, ACCESS },
	{ "swap: over the end", SOFTRDMA_OP_COMPARE_SWAP, 0, END - 4, 8, 0, false, ACCESS },
	{ "swap: not aligned", SOFTRDMA_OP_COMPARE_SWAP, 0, 4, 8, 0, false, INVALID },
	{ "add: right", SOFTRDMA_OP_FETCH_ADD, IBV_ACCESS_REMOTE_ATOMIC, 0, 8, 0, false, ACCESS },
	{ "add: protection domain", SOFTRDMA_OP_FETCH_ADD, 0, 0, 8, 0, true, ACCESS },
	{ "add: not aligned", SOFTRDMA_OP_FETCH_ADD, 0, 1, 8, 0, false, INVALID },
	{ "atomic write: right", SOFTRDMA_OP_ATOMIC_WRITE, IBV_ACCESS_REMOTE_WRITE, 0, 8, 0, false, ACCESS },
	{ "atomic write: behind", SOFTRDMA_OP_ATOMIC_WRITE, 0, END, 8, 0, false, ACCESS },
	{ "atomic write: not aligned", SOFTRDMA_OP_ATOMIC_WRITE, 0, 2, 8, 0, false, INVALID },
	{ "flush: right", SOFTRDMA_OP_FLUSH, SOFTRDMA_ACCESS_FLUSH_GLOBAL, 0, 8, 0, false, ACCESS },
	{ "flush: key", SOFTRDMA_OP_FLUSH, 0, 0, 8, 1, false, ACCESS },
	{ "flush: wraps", SOFTRDMA_OP_FLUSH, 0, 8, UINT64_MAX - 7, 0, false, ACCESS },
	{ "flush: over the end", SOFTRDMA_OP_FLUSH, 0, 1, REGION_SIZE, 0, false, ACCESS },
};

static void
test_refusals(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		const struct refused *r = &refusals[i];
		struct fixture *f = new_fixture(ALL_RIGHTS & ~r->take_away);
		post_recv(&f->side, 9, 0, 8);
		ask_and_place(f, SOFTRDMA_OP_SEND, 0);
		expect_wc(f->side.recv_cq, 9, IBV_WC_SUCCESS);

		struct softrdma_frame frame = request(f, r->opcode, 1);
		frame.addr += (uint64_t)r->offset;
		frame.key ^= r->key_change;
		if (r->opcode == SOFTRDMA_OP_WRITE)
			frame.length = (uint32_t)r->len;
		if (r->opcode == SOFTRDMA_OP_READ || r->opcode == SOFTRDMA_OP_FLUSH)
			frame.arg = r->len;
		struct ibv_pd *other = softrdma_ibv_alloc_pd(softrdma_context());
		if (r->other_pd)
			f->resp->pd = other;
		if (serve(f, &frame) != SOFTRDMA_SERVICE_DISCARD)
			fail_msg("not refused: %s", r->what);
		assert_true(softrdma_responder_has_failed(f->resp));
		says_nak(f, r->nak, 1); /* and acknowledges 0 */
		says_nothing(f);
		/* only one NAK is sent in the life of a connection */
		assert_int_equal(ask(f, SOFTRDMA_OP_READ, 2), SOFTRDMA_SERVICE_DISCARD);
		says_nothing(f);
		softrdma_ibv_dealloc_pd(other);
		free_fixture(f);
	}
}

/* a message that does not fit as a whole changes nothing: its first frame is checked for the total length */
static void
test_long_write_over_the_end(void **state)
{
	struct fixture *f = *state;
	struct softrdma_frame frame = request(f, SOFTRDMA_OP_WRITE, 0);
	frame.flags = FIRST;
	frame.arg = 16;
	frame.addr = addr_of(&f->side, REGION_SIZE - 15);
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_DISCARD);
	says_nak(f, ACCESS, 0);
}

static void
test_persistent_flush_needs_its_right(void **state)
{
	struct fixture *f = *state;
	struct softrdma_frame frame = request(f, SOFTRDMA_OP_FLUSH, 0);
	frame.code = SOFTRDMA_FLUSH_PERSISTENT;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_DISCARD);
	says_nak(f, ACCESS, 0);
}

/* with a length of 0 nothing is refused, for any key and address */
static void
test_accesses_of_no_bytes(void **state)
{
	struct fixture *f = *state;
	struct softrdma_frame frame = request(f, SOFTRDMA_OP_WRITE, 0);
	frame.key ^= 1;
	frame.addr = UINT64_MAX;
	frame.length = 0;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_PLACE);
	assert_int_equal(f->place.count, 0);
	softrdma_responder_placed(f->resp, &frame);
	frame = request(f, SOFTRDMA_OP_READ, 1);
	frame.key ^= 1;
	frame.arg = 0;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_DISCARD);
	says(f, SOFTRDMA_OP_READ_RESPONSE, 1);
	assert_int_equal(f->out.frame.flags, WHOLE);
	assert_int_equal(f->out.place.count, 0);
	frame = request(f, SOFTRDMA_OP_FLUSH, 2);
	frame.code = SOFTRDMA_FLUSH_PERSISTENT;
	frame.arg = 0;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_DISCARD);
	says(f, SOFTRDMA_OP_ACK, 2);
}

static void
test_too_long_for_the_receive(void **state)
{
	struct fixture *f = *state;
	post_recv(&f->side, 1, 0, 7);
	post_recv(&f->side, 2, 0, 100);
	assert_int_equal(ask(f, SOFTRDMA_OP_SEND, 0), SOFTRDMA_SERVICE_DISCARD);
	expect_wc(f->side.recv_cq, 1, IBV_WC_LOC_LEN_ERR);
	expect_no_wc(f->side.recv_cq);
	says_nak(f, INVALID, 0);
	softrdma_responder_fail(f->resp);
	expect_wc(f->side.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	softrdma_responder_fail(f->resp);
	expect_no_wc(f->side.recv_cq);
}

/* the whole message, not only its first frame */
static void
test_too_long_message_in_short_frames(void **state)
{
	struct fixture *f = *state;
	post_recv(&f->side, 1, 0, 15);
	struct softrdma_frame frame = request(f, SOFTRDMA_OP_SEND, 0);
	frame.flags = FIRST;
	frame.arg = 16;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_DISCARD);
	expect_wc(f->side.recv_cq, 1, IBV_WC_LOC_LEN_ERR);
	says_nak(f, INVALID, 0);
}

static void
test_receive_without_memory(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = piece(&f->side, 0, 8);
	sge.lkey ^= 1;
	post_recv_sges(&f->side, 1, &sge, 1);
	assert_int_equal(ask(f, SOFTRDMA_OP_SEND, 0), SOFTRDMA_SERVICE_DISCARD);
	expect_wc(f->side.recv_cq, 1, IBV_WC_LOC_PROT_ERR);
	says_nak(f, SOFTRDMA_NAK_OPERATION, 0);
}

/*
 * Frames that break the protocol. If in_message is set, they come after the first 8 of 16 bytes of a message
 * of that opcode.
 */
struct broken {
	const char *what;
	uint8_t in_message; /* 0: not within a message */
	struct softrdma_frame frame;
	uint32_t seq;
};

static const struct broken broken[] = {
	{ "number too large", 0, { .opcode = SOFTRDMA_OP_WRITE, .flags = WHOLE }, 1 },
	{ "number too small", 0, { .opcode = SOFTRDMA_OP_WRITE, .flags = WHOLE }, UINT32_MAX },
	{ "number half way around", 0, { .opcode = SOFTRDMA_OP_READ }, 0x80000000u },
	{ "no first frame", 0, { .opcode = SOFTRDMA_OP_WRITE, .flags = LAST, .length = 8 }, 0 },
	{ "neither first nor last", 0, { .opcode = SOFTRDMA_OP_SEND, .flags = 0, .length = 8 }, 0 },
	{ "an end without a beginning", 0, { .opcode = SOFTRDMA_OP_SEND, .flags = LAST }, 0 },
	{ "RESYNC for nothing", 0, { .opcode = SOFTRDMA_OP_RESYNC }, 0 },
	{ "empty first frame", 0, { .opcode = SOFTRDMA_OP_WRITE, .flags = FIRST, .arg = 8 }, 0 },
	{ "a second first frame", SOFTRDMA_OP_WRITE,
		{ .opcode = SOFTRDMA_OP_WRITE, .flags = WHOLE, .length = 8 }, 0 },
	{ "another opcode in the message", SOFTRDMA_OP_WRITE,
		{ .opcode = SOFTRDMA_OP_SEND, .flags = LAST, .length = 8 }, 0 },
	{ "a READ in the message", SOFTRDMA_OP_SEND, { .opcode = SOFTRDMA_OP_READ }, 0 },
	{ "an atomic in the message", SOFTRDMA_OP_SEND, { .opcode = SOFTRDMA_OP_FETCH_ADD, .length = 8 }, 0 },
	{ "RESYNC in the message", SOFTRDMA_OP_SEND, { .opcode = SOFTRDMA_OP_RESYNC }, 0 },
	{ "too much, the last", SOFTRDMA_OP_WRITE,
		{ .opcode = SOFTRDMA_OP_WRITE, .flags = LAST, .length = 9 }, 0 },
	{ "too much, not the last", SOFTRDMA_OP_SEND, { .opcode = SOFTRDMA_OP_SEND, .flags = 0, .length = 9 },
		0 },
	{ "too little", SOFTRDMA_OP_SEND, { .opcode = SOFTRDMA_OP_SEND, .flags = LAST, .length = 7 }, 0 },
	{ "all without an end", SOFTRDMA_OP_SEND, { .opcode = SOFTRDMA_OP_SEND, .flags = 0, .length = 8 },
		0 },
	{ "nothing in the middle", SOFTRDMA_OP_WRITE, { .opcode = SOFTRDMA_OP_WRITE, .flags = 0 }, 0 },
	{ "the next number in the message", SOFTRDMA_OP_SEND,
		{ .opcode = SOFTRDMA_OP_SEND, .flags = LAST, .length = 8 }, 1 },
};

static void
test_broken_protocol(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
		struct fixture *f = new_fixture(ALL_RIGHTS);
		post_recv(&f->side, 1, 0, 64);
		if (broken[i].in_message) {
			struct softrdma_frame begin = request(f, broken[i].in_message, 0);
			begin.flags = FIRST;
			begin.arg = 16;
			assert_int_equal(serve(f, &begin), SOFTRDMA_SERVICE_PLACE);
			softrdma_responder_placed(f->resp, &begin);
		}
		struct softrdma_frame frame = broken[i].frame;
		frame.seq = f->first + broken[i].seq;
		if (frame.opcode != SOFTRDMA_OP_SEND && frame.opcode != SOFTRDMA_OP_RESYNC) {
			frame.key = f->side.key;
			frame.addr = addr_of(&f->side, 8);
		}
		if (serve(f, &frame) != SOFTRDMA_SERVICE_BAD)
			fail_msg("served: %s", broken[i].what);
		free_fixture(f);
	}
}

static void
test_reads_are_answered_in_order(void **state)
{
	struct fixture *f = *state;
	struct softrdma_frame frame = request(f, SOFTRDMA_OP_READ, 0);
	frame.arg = SEGMENT + 1;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_DISCARD);
	frame = request(f, SOFTRDMA_OP_FETCH_ADD, 1);
	frame.addr += 16;
	*(uint64_t *)(void *)(f->side.mem + 16) = 40;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_OPERAND);
	const uint8_t two[8] = { 2 };
	softrdma_responder_operand(f->resp, &frame, two);
	assert_int_equal(*(uint64_t *)(void *)(f->side.mem + 16), 42);

	says(f, SOFTRDMA_OP_READ_RESPONSE, 0);
	assert_int_equal(f->out.frame.flags, FIRST);
	assert_int_equal(f->out.frame.length, SEGMENT);
	assert_ptr_equal(f->out.place.iov[0].iov_base, f->side.mem);
	says(f, SOFTRDMA_OP_READ_RESPONSE, 0);
	assert_int_equal(f->out.frame.flags, LAST);
	assert_int_equal(f->out.frame.length, 1);
	assert_ptr_equal(f->out.place.iov[0].iov_base, f->side.mem + SEGMENT);
	says(f, SOFTRDMA_OP_ATOMIC_RESPONSE, 1);
	assert_int_equal(f->out.bytes[0], 40);
	assert_int_equal(f->out.frame.length, 8);
	says_nothing(f);
}

static void
test_atomics(void **state)
{
	struct fixture *f = *state;
	uint64_t *target = (uint64_t *)(void *)f->side.mem;
	*target = 5;
	uint8_t operand[16] = { 5, [8] = 9 };
	struct softrdma_frame frame = request(f, SOFTRDMA_OP_COMPARE_SWAP, 0);
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_OPERAND);
	softrdma_responder_operand(f->resp, &frame, operand);
	assert_int_equal(*target, 9);
	says(f, SOFTRDMA_OP_ATOMIC_RESPONSE, 0);
	assert_int_equal(f->out.bytes[0], 5);

	frame.seq++;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_OPERAND);
	softrdma_responder_operand(f->resp, &frame, operand);
	assert_int_equal(*target, 9); /* the old value was not 5 */
	says(f, SOFTRDMA_OP_ATOMIC_RESPONSE, 1);
	assert_int_equal(f->out.bytes[0], 9);

	*target = UINT64_MAX;
	frame = request(f, SOFTRDMA_OP_FETCH_ADD, 2);
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_OPERAND);
	softrdma_responder_operand(f->resp, &frame, operand);
	assert_int_equal(*target, 4);
	says(f, SOFTRDMA_OP_ATOMIC_RESPONSE, 2);
	assert_int_equal(f->out.bytes[7], 0xff);

	frame = request(f, SOFTRDMA_OP_ATOMIC_WRITE, 3);
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_OPERAND);
	softrdma_responder_operand(f->resp, &frame, (const uint8_t *)"ABCDEFGH");
	assert_memory_equal(target, "ABCDEFGH", 8);
	says(f, SOFTRDMA_OP_ACK, 3);
}

/* the region is deregistered between the header and the operand */
static void
test_atomic_whose_memory_goes(void **state)
{
	struct fixture *f = *state;
	const struct softrdma_frame frame = request(f, SOFTRDMA_OP_FETCH_ADD, 0);
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_OPERAND);
	softrdma_mr_remove(f->side.mr);
	softrdma_mr_delete(f->side.mr);
	f->side.mr = NULL;
	softrdma_responder_operand(f->resp, &frame, (const uint8_t *)"\1\0\0\0\0\0\0\0");
	assert_int_equal(*f->side.mem, 0);
	says_nak(f, SOFTRDMA_NAK_OPERATION, 0);
}

/* a page of a file that can be truncated */
struct cut {
	int fd;
	uint8_t *mem;
	struct softrdma_mr *mr;
};

static struct cut
new_cut(const struct fixture *f)
{
	struct cut cut = { .fd = memfd_create("test", MFD_CLOEXEC) };
	assert_int_equal(ftruncate(cut.fd, PAGE), 0);
	cut.mem = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, cut.fd, 0);
	cut.mr = softrdma_mr_new(f->side.pd, cut.mem, PAGE, ALL_RIGHTS);
	assert_non_null(cut.mr);
	return cut;
}

static void
free_cut(struct cut *cut)
{
	softrdma_mr_remove(cut->mr);
	softrdma_mr_delete(cut->mr);
	munmap(cut->mem, PAGE);
	close(cut->fd);
}

static struct softrdma_frame
request_of_cut(const struct fixture *f, const struct cut *cut, uint8_t opcode, uint32_t seq)
{
	struct softrdma_frame frame = request(f, opcode, seq);
	frame.key = cut->mr->mr.rkey;
	frame.addr = (uintptr_t)cut->mem;
	return frame;
}

static const uint8_t atomic_opcodes[] = { SOFTRDMA_OP_ATOMIC_WRITE, SOFTRDMA_OP_FETCH_ADD,
	SOFTRDMA_OP_COMPARE_SWAP };

static const uint8_t an_operand[16] = { [0] = 0, [8] = 1 }; /* compare with 0, store 1 */

/* the file is truncated, or the queue pair fails, between the header and the operand */
static void
test_atomic_in_vain(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(atomic_opcodes); i++) {
		struct fixture *f = new_fixture(ALL_RIGHTS);
		struct cut cut = new_cut(f);
		const struct softrdma_frame frame = request_of_cut(f, &cut, atomic_opcodes[i], 0);
		assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_OPERAND);
		assert_int_equal(ftruncate(cut.fd, 0), 0);
		softrdma_responder_operand(f->resp, &frame, an_operand);
		says_nak(f, SOFTRDMA_NAK_OPERATION, 0);
		assert_int_equal(ftruncate(cut.fd, PAGE), 0);
		softrdma_responder_operand(f->resp, &frame, an_operand + 8);
		assert_int_equal(cut.mem[0], 0);
		says_nothing(f);
		free_cut(&cut);
		free_fixture(f);
	}
}

/* the kernel cannot say whether the page exists: no instruction accesses it, though it does */
static void
test_atomic_without_populate(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(atomic_opcodes); i++) {
		struct fixture *f = new_fixture(ALL_RIGHTS);
		struct cut cut = new_cut(f);
		const struct softrdma_frame frame = request_of_cut(f, &cut, atomic_opcodes[i], 0);
		assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_OPERAND);
		fail_call(FAIL_MINE, "madvise", 0, 1, EINVAL);
		softrdma_responder_operand(f->resp, &frame, an_operand + 8 * (i < 2));
		assert_int_equal(fail_nothing(), 1);
		says_nak(f, SOFTRDMA_NAK_OPERATION, 0);
		assert_int_equal(cut.mem[0], 0);
		free_cut(&cut);
		free_fixture(f);
	}
}

/*
 * Pages are gone, but not the region. This is refused as an error of the target, not as an access violation.
 */
static void
test_read_whose_pages_go(void **state)
{
	struct fixture *f = *state;
	struct cut cut = new_cut(f);
	struct softrdma_frame frame = request_of_cut(f, &cut, SOFTRDMA_OP_READ, 0);
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_DISCARD);
	says(f, SOFTRDMA_OP_READ_RESPONSE, 0);
	frame = request_of_cut(f, &cut, SOFTRDMA_OP_READ, 1);
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_DISCARD);
	assert_int_equal(ftruncate(cut.fd, 0), 0);
	says_nak(f, SOFTRDMA_NAK_OPERATION, 1);
	assert_true(softrdma_responder_has_failed(f->resp));
	assert_false(f->resp->access_violation);
	says_nothing(f);
	free_cut(&cut);
}

static void
test_too_many_reads_and_atomics(void **state)
{
	(void)state;
	for (int atomic = 0; atomic < 2; atomic++) {
		struct fixture *f = new_fixture(ALL_RIGHTS);
		for (uint32_t i = 0; i < RD_ATOM_MAX; i++)
			assert_int_equal(ask(f, SOFTRDMA_OP_READ, i), SOFTRDMA_SERVICE_DISCARD);
		assert_false(softrdma_responder_has_failed(f->resp));
		assert_int_equal(ask(f, atomic ? SOFTRDMA_OP_FETCH_ADD : SOFTRDMA_OP_READ, RD_ATOM_MAX),
			SOFTRDMA_SERVICE_DISCARD);
		assert_true(softrdma_responder_has_failed(f->resp));
		for (uint32_t i = 0; i < RD_ATOM_MAX; i++)
			says(f, SOFTRDMA_OP_READ_RESPONSE,
				i); /* earlier requests get their responses first */
		says_nak(f, INVALID, RD_ATOM_MAX);
		says_nothing(f);
		free_fixture(f);
	}
}

/* the ring of waiting responses wraps many times */
static void
test_reads_for_ever(void **state)
{
	struct fixture *f = *state;
	for (uint32_t i = 0; i < 3 * SOFTRDMA_RD_ATOM_MAX; i++) {
		struct softrdma_frame frame = request(f, SOFTRDMA_OP_READ, i);
		frame.addr += i;
		assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_DISCARD);
		if (i == 0)
			continue;
		says(f, SOFTRDMA_OP_READ_RESPONSE, i - 1);
		assert_ptr_equal(f->out.place.iov[0].iov_base, f->side.mem + i - 1);
	}
}

static void
test_read_whose_memory_goes(void **state)
{
	(void)state;
	for (int begun = 0; begun < 2; begun++) {
		struct fixture *f = new_fixture(ALL_RIGHTS);
		ask_and_place(f, SOFTRDMA_OP_WRITE, 0);
		struct softrdma_frame frame = request(f, SOFTRDMA_OP_READ, 1);
		frame.arg = SEGMENT + 1;
		assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_DISCARD);
		assert_int_equal(ask(f, SOFTRDMA_OP_READ, 2), SOFTRDMA_SERVICE_DISCARD);
		ask_and_place(f, SOFTRDMA_OP_WRITE, 3);
		if (begun)
			says(f, SOFTRDMA_OP_READ_RESPONSE, 1);
		softrdma_mr_remove(f->side.mr);
		softrdma_mr_delete(f->side.mr);
		f->side.mr = NULL;
		says_nak(f, ACCESS, 1);
		assert_true(softrdma_responder_has_failed(f->resp));
		says_nothing(f);
		free_fixture(f);
	}
}

static void
test_waiting_for_a_receive(void **state)
{
	struct fixture *f = *state;
	ask_and_place(f, SOFTRDMA_OP_WRITE, 0);
	assert_int_equal(ask(f, SOFTRDMA_OP_READ, 1), SOFTRDMA_SERVICE_DISCARD);
	assert_int_equal(ask(f, SOFTRDMA_OP_SEND, 2), SOFTRDMA_SERVICE_DISCARD);
	assert_ptr_equal(f->side.recvs.waiting, f->side.link);
	/* later requests are discarded, whatever their number */
	assert_int_equal(ask(f, SOFTRDMA_OP_WRITE, 3), SOFTRDMA_SERVICE_DISCARD);
	assert_int_equal(ask(f, SOFTRDMA_OP_READ, 4), SOFTRDMA_SERVICE_DISCARD);
	assert_int_equal(f->resp->count_waiting, 1);
	says(f, SOFTRDMA_OP_READ_RESPONSE, 1);
	assert_int_equal(ask(f, SOFTRDMA_OP_RESYNC, 2), SOFTRDMA_SERVICE_BAD); /* RNR was not sent yet */
	says(f, SOFTRDMA_OP_RNR, 2);
	says_nothing(f);

	post_recv(&f->side, 1, 0, 8);
	assert_int_equal(ask(f, SOFTRDMA_OP_RESYNC, 2), SOFTRDMA_SERVICE_DISCARD);
	ask_and_place(f, SOFTRDMA_OP_SEND, 2);
	expect_wc(f->side.recv_cq, 1, IBV_WC_SUCCESS);
	ask_and_place(f, SOFTRDMA_OP_WRITE, 3);
	says(f, SOFTRDMA_OP_ACK, 3);
	says_nothing(f);
}

static void
test_replenishing(void **state)
{
	struct fixture *f = *state;
	softrdma_responder_replenished(f->resp); /* no sender waits: nothing is sent */
	says_nothing(f);
	assert_int_equal(ask(f, SOFTRDMA_OP_SEND, 0), SOFTRDMA_SERVICE_DISCARD);
	says(f, SOFTRDMA_OP_RNR, 0);
	says_nothing(f);
	assert_int_equal(ask(f, SOFTRDMA_OP_RESYNC, 0), SOFTRDMA_SERVICE_DISCARD);
	assert_int_equal(ask(f, SOFTRDMA_OP_SEND, 0), SOFTRDMA_SERVICE_DISCARD);
	softrdma_responder_replenished(f->resp); /* before RNR was sent: RNR still goes first */
	softrdma_responder_replenished(f->resp);
	says(f, SOFTRDMA_OP_RNR, 0);
	says(f, SOFTRDMA_OP_RNR_READY, 0);
	says_nothing(f);
	assert_int_equal(ask(f, SOFTRDMA_OP_RESYNC, 1), SOFTRDMA_SERVICE_BAD);
	assert_int_equal(ask(f, SOFTRDMA_OP_RESYNC, 0), SOFTRDMA_SERVICE_DISCARD);
	/* another connection of a shared queue has taken the receive */
	assert_int_equal(ask(f, SOFTRDMA_OP_SEND, 0), SOFTRDMA_SERVICE_DISCARD);
	says(f, SOFTRDMA_OP_RNR, 0);
	says_nothing(f);
	post_recv(&f->side, 1, 0, 8);
	softrdma_responder_replenished(f->resp);
	assert_int_equal(ask(f, SOFTRDMA_OP_RESYNC, 0), SOFTRDMA_SERVICE_BAD); /* too early */
	says(f, SOFTRDMA_OP_RNR_READY, 0);
	assert_int_equal(ask(f, SOFTRDMA_OP_RESYNC, 0), SOFTRDMA_SERVICE_DISCARD);
	ask_and_place(f, SOFTRDMA_OP_SEND, 0);
	expect_wc(f->side.recv_cq, 1, IBV_WC_SUCCESS);
}

/* The NAK of a READ is the last response. A later SEND that finds no receive gets no RNR after it. */
static void
test_waiting_for_a_receive_behind_a_refusal(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(ask(f, SOFTRDMA_OP_READ, 0), SOFTRDMA_SERVICE_DISCARD);
	assert_int_equal(ask(f, SOFTRDMA_OP_SEND, 1), SOFTRDMA_SERVICE_DISCARD);
	softrdma_responder_replenished(f->resp);
	softrdma_mr_remove(f->side.mr);
	softrdma_mr_delete(f->side.mr);
	f->side.mr = NULL;
	says_nak(f, ACCESS, 0);
	says_nothing(f);
}

/* RNR_READY is sent only once */
static void
test_fed_again(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(ask(f, SOFTRDMA_OP_SEND, 0), SOFTRDMA_SERVICE_DISCARD);
	says(f, SOFTRDMA_OP_RNR, 0);
	softrdma_responder_replenished(f->resp);
	says(f, SOFTRDMA_OP_RNR_READY, 0);
	softrdma_responder_replenished(f->resp);
	says_nothing(f);
}

/* Only the last frame of a WRITE shows that it needs a receive. After RESYNC the message begins again. */
static void
test_waiting_for_a_receive_at_the_end_of_a_write(void **state)
{
	struct fixture *f = *state;
	struct softrdma_frame first = request(f, SOFTRDMA_OP_WRITE, 0);
	first.flags = FIRST;
	first.arg = 16;
	struct softrdma_frame last = request(f, SOFTRDMA_OP_WRITE, 0);
	last.flags = LAST | IMM;
	last.addr += 8;
	for (int round = 0; round < 2; round++) {
		assert_int_equal(serve(f, &first), SOFTRDMA_SERVICE_PLACE);
		softrdma_responder_placed(f->resp, &first);
		if (round == 1)
			post_recv(&f->side, 1, 0, 0);
		enum softrdma_service service = serve(f, &last);
		if (round == 0) {
			assert_int_equal(service, SOFTRDMA_SERVICE_DISCARD);
			says(f, SOFTRDMA_OP_RNR, 0);
			assert_int_equal(ask(f, SOFTRDMA_OP_RESYNC, 0), SOFTRDMA_SERVICE_DISCARD);
		} else {
			assert_int_equal(service, SOFTRDMA_SERVICE_PLACE);
			softrdma_responder_placed(f->resp, &last);
		}
	}
	struct ibv_wc wc;
	assert_int_equal(softrdma_cq_pop(f->side.recv_cq, 1, &wc), 1);
	assert_int_equal(wc.byte_len, 16);
	says(f, SOFTRDMA_OP_ACK, 0);
}

static struct fixture *
flushing_fixture(void)
{
	struct fixture *f = new_fixture(ALL_RIGHTS | SOFTRDMA_ACCESS_FLUSH_PERSISTENT);
	ask_and_place(f, SOFTRDMA_OP_WRITE, 0);
	struct softrdma_frame frame = request(f, SOFTRDMA_OP_FLUSH, 1);
	frame.code = SOFTRDMA_FLUSH_PERSISTENT;
	frame.addr += 3;
	frame.arg = 99;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_FLUSH);
	assert_true(softrdma_responder_is_flushing(f->resp));
	assert_ptr_equal(f->resp->flush_mr, f->side.mr);
	assert_int_equal(f->resp->flush_addr, addr_of(&f->side, 3));
	assert_int_equal(f->resp->flush_len, 99);
	assert_int_equal(f->side.mr->flushes, 1);
	return f;
}

static void
test_flush(void **state)
{
	(void)state;
	struct fixture *f = flushing_fixture();
	says(f, SOFTRDMA_OP_ACK, 0);
	says_nothing(f); /* not before it is durable */
	softrdma_responder_flushed(f->resp, 0);
	assert_int_equal(f->side.mr->flushes, 0);
	says(f, SOFTRDMA_OP_ACK, 1);
	free_fixture(f);

	f = flushing_fixture();
	softrdma_responder_flushed(f->resp, 5);
	assert_true(softrdma_responder_has_failed(f->resp));
	assert_int_equal(f->side.mr->flushes, 0);
	says_nak(f, SOFTRDMA_NAK_OPERATION, 1);
	says_nothing(f);
	free_fixture(f);

	/*
	 * The queue pair fails meanwhile. The requester is told at once, and the end of the flush sends
	 * nothing.
	 */
	f = flushing_fixture();
	softrdma_responder_fail(f->resp);
	says_nak(f, SOFTRDMA_NAK_GONE, 1);
	softrdma_responder_flushed(f->resp, 0);
	assert_int_equal(f->side.mr->flushes, 0);
	says_nothing(f);
	free_fixture(f);
}

/*
 * If reading flushes, the whole region is flushed before the response. If the flush fails, no response is
 * sent.
 */
static void
test_read_that_flushes(void **state)
{
	(void)state;
	setenv("SOFTRDMA_READ_FLUSHES", "1", 1); /* asked for when a region is registered */
	for (int error = 0; error < 2; error++) {
		struct fixture *f = new_fixture(ALL_RIGHTS);
		struct softrdma_frame frame = request(f, SOFTRDMA_OP_READ, 0);
		frame.addr += 8;
		frame.arg = 16;
		assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_FLUSH);
		assert_int_equal(f->resp->flush_addr, addr_of(&f->side, 0));
		assert_int_equal(f->resp->flush_len, REGION_SIZE);
		assert_int_equal(f->side.mr->flushes, 1);
		says_nothing(f);
		softrdma_responder_flushed(f->resp, error);
		assert_int_equal(f->side.mr->flushes, 0);
		if (error) {
			says_nak(f, SOFTRDMA_NAK_OPERATION, 0);
		} else {
			struct softrdma_outgoing out;
			assert_true(softrdma_responder_next(f->resp, &out));
			assert_int_equal(out.frame.opcode, SOFTRDMA_OP_READ_RESPONSE);
			assert_int_equal(out.frame.length, 16);
			assert_ptr_equal(out.place.iov[0].iov_base, addr_of(&f->side, 8));
			/* a later FLUSH is an ordinary one again */
			assert_false(f->resp->flush_to_read);
		}
		says_nothing(f);
		free_fixture(f);
	}

	/* too many at once are refused, without a flush */
	struct fixture *f = new_fixture(ALL_RIGHTS);
	for (uint32_t i = 0; i < f->resp->rd_atom_max; i++) {
		struct softrdma_frame frame = request(f, SOFTRDMA_OP_READ, i);
		frame.arg = 8;
		assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_FLUSH);
		softrdma_responder_flushed(f->resp, 0);
	}
	struct softrdma_frame frame = request(f, SOFTRDMA_OP_READ, f->resp->rd_atom_max);
	frame.arg = 8;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_DISCARD);
	assert_true(softrdma_responder_has_failed(f->resp));
	assert_int_equal(f->side.mr->flushes, 0);
	free_fixture(f);
	unsetenv("SOFTRDMA_READ_FLUSHES");
}

static void
test_global_flush_is_done_at_once(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(ask(f, SOFTRDMA_OP_FLUSH, 0), SOFTRDMA_SERVICE_DISCARD);
	assert_false(softrdma_responder_is_flushing(f->resp));
	says(f, SOFTRDMA_OP_ACK, 0);
}

/* a requester that waits for a response when the queue pair fails gets one */
static void
test_failing(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(ALL_RIGHTS);
	softrdma_responder_fail(f->resp);
	says_nothing(f); /* no request has arrived */
	assert_int_equal(ask(f, SOFTRDMA_OP_WRITE, 0), SOFTRDMA_SERVICE_DISCARD);
	says_nak(f, SOFTRDMA_NAK_GONE, 0);
	free_fixture(f);

	f = new_fixture(ALL_RIGHTS); /* READs that wait */
	ask_and_place(f, SOFTRDMA_OP_WRITE, 0);
	assert_int_equal(ask(f, SOFTRDMA_OP_READ, 1), SOFTRDMA_SERVICE_DISCARD);
	ask_and_place(f, SOFTRDMA_OP_WRITE, 2);
	softrdma_responder_fail(f->resp);
	says_nak(f, SOFTRDMA_NAK_GONE, 1);
	says_nothing(f);
	free_fixture(f);

	f = new_fixture(ALL_RIGHTS); /* within a message, with its receive and others */
	for (uint64_t i = 1; i <= 3; i++)
		post_recv(&f->side, i, 0, 64);
	struct softrdma_frame frame = request(f, SOFTRDMA_OP_SEND, 0);
	frame.flags = FIRST;
	frame.arg = 16;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_PLACE);
	softrdma_responder_fail(f->resp);
	for (uint64_t i = 1; i <= 3; i++)
		expect_wc(f->side.recv_cq, i, IBV_WC_WR_FLUSH_ERR);
	softrdma_responder_placed(f->resp, &frame); /* too late to count */
	says_nak(f, SOFTRDMA_NAK_GONE, 0);
	expect_no_wc(f->side.recv_cq);
	free_fixture(f);

	f = new_fixture(ALL_RIGHTS); /* between an atomic and its operand */
	frame = request(f, SOFTRDMA_OP_ATOMIC_WRITE, 0);
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_OPERAND);
	softrdma_responder_fail(f->resp);
	says_nak(f, SOFTRDMA_NAK_GONE, 0);
	says_nothing(f);
	free_fixture(f);

	f = new_fixture(ALL_RIGHTS); /* while a sender waits for a receive */
	assert_int_equal(ask(f, SOFTRDMA_OP_SEND, 0), SOFTRDMA_SERVICE_DISCARD);
	softrdma_responder_fail(f->resp);
	softrdma_recv_queue_forget(&f->side.recvs, f->side.link);
	says_nak(f, SOFTRDMA_NAK_GONE, 0);
	softrdma_responder_replenished(f->resp);
	says_nothing(f);
	free_fixture(f);
}

/* the failure of one connection does not flush a shared queue's receives, except the one in use */
static void
test_failing_with_a_shared_queue(void **state)
{
	struct fixture *f = *state;
	f->resp->queue_is_shared = true;
	post_recv(&f->side, 1, 0, 64);
	post_recv(&f->side, 2, 0, 64);
	struct softrdma_frame frame = request(f, SOFTRDMA_OP_SEND, 0);
	frame.flags = FIRST;
	frame.arg = 16;
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_PLACE);
	softrdma_responder_fail(f->resp);
	expect_wc(f->side.recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_no_wc(f->side.recv_cq);
	assert_int_equal(f->side.recvs.count, 1);
	softrdma_responder_drop(f->resp);
	assert_int_equal(f->side.recvs.count, 1);
}

/* Orderly end: executed requests are acknowledged, and the others get no response. */
static void
test_closing(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(ALL_RIGHTS);
	ask_and_place(f, SOFTRDMA_OP_WRITE, 0);
	assert_int_equal(ask(f, SOFTRDMA_OP_READ, 1), SOFTRDMA_SERVICE_DISCARD);
	ask_and_place(f, SOFTRDMA_OP_WRITE, 2);
	post_recv(&f->side, 1, 0, 8);
	softrdma_responder_close(f->resp);
	expect_wc(f->side.recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	says(f, SOFTRDMA_OP_ACK, 0);
	says_nothing(f);
	softrdma_responder_close(f->resp);
	says_nothing(f);
	free_fixture(f);

	/* requests that were in transit when this side closed get no NAK either */
	f = new_fixture(ALL_RIGHTS);
	ask_and_place(f, SOFTRDMA_OP_WRITE, 0);
	softrdma_responder_close(f->resp);
	assert_int_equal(ask(f, SOFTRDMA_OP_WRITE, 1), SOFTRDMA_SERVICE_DISCARD);
	says(f, SOFTRDMA_OP_ACK, 0);
	if (softrdma_responder_next(f->resp, &f->out))
		fail_msg("a request after the close is refused (opcode %u)", f->out.frame.opcode);
	free_fixture(f);

	/* a READ before a refused request gets no response either */
	f = new_fixture(IBV_ACCESS_REMOTE_READ);
	assert_int_equal(ask(f, SOFTRDMA_OP_READ, 0), SOFTRDMA_SERVICE_DISCARD);
	assert_int_equal(ask(f, SOFTRDMA_OP_WRITE, 1), SOFTRDMA_SERVICE_DISCARD);
	softrdma_responder_close(f->resp);
	says_nothing(f);
	free_fixture(f);
}

static void
test_dropping(void **state)
{
	struct fixture *f = *state;
	post_recv(&f->side, 1, 0, 8);
	post_recv(&f->side, 2, 0, 8);
	struct softrdma_frame frame = request(f, SOFTRDMA_OP_SEND, 0);
	assert_int_equal(serve(f, &frame), SOFTRDMA_SERVICE_PLACE);
	softrdma_responder_drop(f->resp);
	softrdma_responder_close(f->resp);
	expect_no_wc(f->side.recv_cq);
	assert_int_equal(f->side.recvs.count, 0);
}

static void
test_fault(void **state)
{
	struct fixture *f = *state;
	post_recv(&f->side, 1, 0, 8);
	assert_int_equal(ask(f, SOFTRDMA_OP_SEND, 0), SOFTRDMA_SERVICE_PLACE);
	softrdma_responder_fault(f->resp);
	softrdma_responder_fault(f->resp);
	expect_wc(f->side.recv_cq, 1, IBV_WC_LOC_PROT_ERR);
	expect_no_wc(f->side.recv_cq);
	says_nak(f, SOFTRDMA_NAK_OPERATION, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_write),
		TEST(test_acknowledgements_are_coalesced),
		TEST(test_message_awaits_reply),
		TEST(test_late_acknowledgements),
		TEST(test_late_acknowledgements_begin_and_end),
		TEST(test_late_acknowledgements_and_responses),
		cmocka_unit_test(test_late_acknowledgements_at_an_end),
		TEST(test_segmented_write),
		TEST(test_send_into_pieces),
		TEST(test_write_with_immediate),
		TEST(test_refusals),
		TEST(test_long_write_over_the_end),
		TEST(test_persistent_flush_needs_its_right),
		TEST(test_accesses_of_no_bytes),
		TEST(test_too_long_for_the_receive),
		TEST(test_too_long_message_in_short_frames),
		TEST(test_receive_without_memory),
		TEST(test_broken_protocol),
		TEST(test_reads_are_answered_in_order),
		TEST(test_atomics),
		TEST(test_atomic_whose_memory_goes),
		cmocka_unit_test(test_atomic_in_vain),
		cmocka_unit_test(test_atomic_without_populate),
		TEST(test_read_whose_pages_go),
		TEST(test_too_many_reads_and_atomics),
		TEST(test_reads_for_ever),
		TEST(test_read_whose_memory_goes),
		TEST(test_waiting_for_a_receive),
		TEST(test_replenishing),
		TEST(test_fed_again),
		TEST(test_waiting_for_a_receive_behind_a_refusal),
		TEST(test_waiting_for_a_receive_at_the_end_of_a_write),
		TEST(test_flush),
		TEST(test_read_that_flushes),
		TEST(test_global_flush_is_done_at_once),
		TEST(test_failing),
		TEST(test_failing_with_a_shared_queue),
		TEST(test_closing),
		TEST(test_dropping),
		TEST(test_fault),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
