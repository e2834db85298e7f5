/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* responder.c -- the side that serves: requests in, memory and receives touched, responses out */

#include <assert.h>
#include <string.h>

#include "softrdma/base/copy.h"
#include "softrdma/core/responder.h"
#include "usdt.h"

void
softrdma_responder_init(struct softrdma_responder *resp, const struct ibv_pd *pd, struct softrdma_cq *cq,
	struct softrdma_recv_queue *queue, bool queue_is_shared, uint32_t qp_num, struct softrdma_link *link)
{
	const size_t from = offsetof(struct softrdma_responder, first_waiting);
	memset((char *)resp + from, 0, sizeof(*resp) - from); /* not the ring: see struct softrdma_link */
	resp->queue_is_shared = queue_is_shared;
	resp->pd = pd;
	resp->cq = cq;
	resp->queue = queue;
	resp->qp_num = qp_num;
	resp->link = link;
}

void
softrdma_responder_start(struct softrdma_responder *resp, uint32_t seq, uint32_t rd_atom_max)
{
	assert(rd_atom_max <= SOFTRDMA_RD_ATOM_MAX);
	resp->expected = resp->responded = seq;
	resp->rd_atom_max = rd_atom_max ? rd_atom_max : 1;
}

/* a bit for each state that may follow one; a failed responder stays so */
#define TO(state) (1u << SOFTRDMA_RESPONDER_##state)
static const unsigned may_follow[] = {
	[SOFTRDMA_RESPONDER_SERVING] = TO(IN_MESSAGE) | TO(IN_ATOMIC) | TO(FLUSHING) | TO(FAILED),
	[SOFTRDMA_RESPONDER_IN_MESSAGE] = TO(IN_MESSAGE) | TO(SERVING) | TO(RNR_DUE) | TO(FAILED),
	[SOFTRDMA_RESPONDER_IN_ATOMIC] = TO(SERVING) | TO(FAILED),
	[SOFTRDMA_RESPONDER_FLUSHING] = TO(SERVING) | TO(FAILED),
	[SOFTRDMA_RESPONDER_RNR_DUE] = TO(RNR_SENT) | TO(FAILED),
	[SOFTRDMA_RESPONDER_RNR_SENT] = TO(RNR_OVER) | TO(SERVING) | TO(FAILED),
	[SOFTRDMA_RESPONDER_RNR_OVER] = TO(SERVING) | TO(FAILED),
	[SOFTRDMA_RESPONDER_FAILED] = TO(FAILED),
};

static void
set_state(struct softrdma_responder *resp, enum softrdma_responder_state state)
{
	assert(may_follow[resp->state] & 1u << state);
	resp->state = state;
}

static void
fail(struct softrdma_responder *resp)
{
	set_state(resp, SOFTRDMA_RESPONDER_FAILED);
	resp->ready_due = false;
	resp->ack_due = true; /* nothing follows that it could travel with */
}

static bool
waits_for_receive(const struct softrdma_responder *resp)
{
	return resp->state == SOFTRDMA_RESPONDER_RNR_DUE || resp->state == SOFTRDMA_RESPONDER_RNR_SENT ||
		resp->state == SOFTRDMA_RESPONDER_RNR_OVER;
}

static void
complete_recv(struct softrdma_responder *resp, uint64_t wr_id, const struct ibv_wc *what, bool solicited)
{
	struct ibv_wc wc = *what;
	wc.wr_id = wr_id;
	wc.qp_num = resp->qp_num;
	USDT(softrdma, complete_receive, wc.qp_num, wc.wr_id, wc.byte_len, (int)wc.status);
	if (!softrdma_cq_push(resp->cq, &wc, solicited))
		resp->overrun = true;
}

static void
fail_recv(struct softrdma_responder *resp, uint64_t wr_id, enum ibv_wc_status status)
{
	const struct ibv_wc wc = { .status = status, .opcode = IBV_WC_RECV };
	complete_recv(resp, wr_id, &wc, true);
}

static void
count_served(struct softrdma_responder *resp, enum softrdma_stats_operation kind, uint64_t bytes)
{
	SOFTRDMA_COUNT(&resp->counters, served.operations[kind], 1);
	SOFTRDMA_COUNT(&resp->counters, served.bytes[kind], bytes);
}

static void
count_refused(struct softrdma_responder *resp, enum softrdma_nak nak)
{
	SOFTRDMA_COUNT(&resp->counters, served.refused[nak - SOFTRDMA_NAK_INVALID_REQUEST], 1);
}

static void
send_nak(struct softrdma_responder *resp, enum softrdma_nak nak, uint32_t seq)
{
	assert(resp->nak == 0);
	resp->nak = (uint8_t)nak;
	resp->nak_seq = seq;
	resp->nak_due = true;
	count_refused(resp, nak);
	USDT(softrdma, refuse, resp->qp_num, seq, (int)nak);
}

/* the expected request is executed; its frame had these flags */
static void
executed(struct softrdma_responder *resp, uint8_t flags)
{
	const bool later = flags & SOFTRDMA_FRAME_ACK_LATER;
	resp->expected++;
	resp->unanswered = resp->unanswered || later || resp->have_recv;
	resp->message_is_last = resp->have_recv;
	if (resp->have_recv && resp->at_once > 0)
		resp->at_once--;
	resp->ack_due = resp->ack_due || !later || resp->answers < SOFTRDMA_ACK_LATER_FROM;
}

/* a response is made that covers all requests before seq */
static void
responded_before(struct softrdma_responder *resp, uint32_t seq)
{
	resp->responded = seq;
	resp->ack_due = resp->ack_due && seq != resp->expected;
}

bool
softrdma_responder_ack_may_wait(const struct softrdma_responder *resp)
{
	return resp->responded != resp->expected && !resp->ack_due;
}

bool
softrdma_responder_expects_reply(const struct softrdma_responder *resp)
{
	return resp->unanswered && resp->message_is_last && resp->answers >= SOFTRDMA_ACK_LATER_FROM &&
		resp->at_once == 0 && resp->ack_due && resp->state == SOFTRDMA_RESPONDER_SERVING &&
		resp->count_waiting == 0;
}

void
softrdma_responder_reply_is_late(struct softrdma_responder *resp)
{
	resp->at_once = SOFTRDMA_ACK_LATER_FROM;
}

void
softrdma_responder_ack_now(struct softrdma_responder *resp)
{
	resp->ack_due = resp->ack_due || resp->responded != resp->expected;
}

void
softrdma_responder_reply_leaves(struct softrdma_responder *resp)
{
	if (resp->unanswered && resp->answers < SOFTRDMA_ACK_LATER_FROM)
		resp->answers++;
	resp->unanswered = false;
	softrdma_responder_ack_now(resp);
}

void
softrdma_responder_no_reply(struct softrdma_responder *resp)
{
	resp->answers = 0;
	softrdma_responder_ack_now(resp);
}

/* tells a requester that waits that no response will come (on hardware its retries run out) */
static void
give_up(struct softrdma_responder *resp)
{
	if (resp->count_waiting > 0)
		send_nak(resp, SOFTRDMA_NAK_GONE, resp->waiting[resp->first_waiting].seq);
	else if (resp->state != SOFTRDMA_RESPONDER_SERVING && resp->state != SOFTRDMA_RESPONDER_FAILED)
		send_nak(resp, SOFTRDMA_NAK_GONE, resp->expected);
	resp->count_waiting = 0;
}

void
softrdma_responder_fail(struct softrdma_responder *resp)
{
	if (resp->nak == 0)
		give_up(resp);
	fail(resp);
	if (resp->have_recv) {
		resp->have_recv = false;
		fail_recv(resp, resp->recv.wr_id, IBV_WC_WR_FLUSH_ERR);
	}
	struct softrdma_recv recv;
	while (!resp->queue_is_shared && softrdma_recv_queue_take(resp->queue, &recv))
		fail_recv(resp, recv.wr_id, IBV_WC_WR_FLUSH_ERR);
}

void
softrdma_responder_drop(struct softrdma_responder *resp)
{
	resp->have_recv = false;
	struct softrdma_recv recv;
	while (!resp->queue_is_shared && softrdma_recv_queue_take(resp->queue, &recv))
		;
}

void
softrdma_responder_close(struct softrdma_responder *resp)
{
	softrdma_responder_fail(resp);
	if (resp->nak_due) {
		resp->nak_due = false;
		resp->expected = resp->nak_seq;
	}
	/* pending responses precede the NAK of a refused request, so the oldest of them is the end */
	if (resp->count_waiting > 0) {
		resp->expected = resp->waiting[resp->first_waiting].seq;
		resp->count_waiting = 0;
	}
	if (resp->nak == 0)
		resp->nak =
			SOFTRDMA_NAK_GONE; /* never sent: requests still on the wire end with DISCONNECT */
}

/* refuses the current request with a NAK; the queue pair is in error from then on (IBTA vol. 1, 9.9.3) */
static enum softrdma_service
refuse(struct softrdma_responder *resp, enum softrdma_nak nak)
{
	if (resp->have_recv) {
		/* the receive is consumed by the request that broke the rule */
		resp->have_recv = false;
		fail_recv(resp, resp->recv.wr_id,
			nak == SOFTRDMA_NAK_INVALID_REQUEST ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR);
	}
	send_nak(resp, nak, resp->expected);
	fail(resp);
	resp->access_violation = nak == SOFTRDMA_NAK_ACCESS;
	return SOFTRDMA_SERVICE_DISCARD;
}

/* takes the receive that a message consumes; false: none is posted, so the request is refused for now (RNR) */
static bool
take_recv(struct softrdma_responder *resp)
{
	if (resp->have_recv)
		return true;
	if (softrdma_recv_queue_take_or_wait(resp->queue, &resp->recv, resp->link)) {
		resp->have_recv = true;
		return true;
	}
	set_state(resp, SOFTRDMA_RESPONDER_RNR_DUE);
	return false;
}

/*
 * Begins a message with this frame, or continues the current one. False: the flags for first and last frame,
 * or the lengths, do not fit the message.
 */
static bool
begin_or_go_on(struct softrdma_responder *resp, const struct softrdma_frame *frame)
{
	bool first = frame->flags & SOFTRDMA_FRAME_FIRST;
	bool last = frame->flags & SOFTRDMA_FRAME_LAST;
	if (first == (resp->state == SOFTRDMA_RESPONDER_IN_MESSAGE))
		return false;
	if (first) {
		resp->opcode = frame->opcode;
		resp->total = last ? frame->length : frame->arg;
		resp->received = 0;
	}
	uint64_t left = resp->total - resp->received;
	if (frame->length > left || last != (frame->length == left) || (frame->length == 0 && !last))
		return false;
	set_state(resp, SOFTRDMA_RESPONDER_IN_MESSAGE);
	return true;
}

static enum softrdma_service
serve_send(struct softrdma_responder *resp, const struct softrdma_frame *frame, struct softrdma_place *place)
{
	if (!begin_or_go_on(resp, frame))
		return SOFTRDMA_SERVICE_BAD;
	if (!take_recv(resp))
		return SOFTRDMA_SERVICE_DISCARD;
	if (resp->total > resp->recv.length)
		return refuse(resp, SOFTRDMA_NAK_INVALID_REQUEST);
	if (softrdma_place_sges(resp->pd, resp->recv.sge, resp->recv.num_sge, resp->received, frame->length,
		    IBV_ACCESS_LOCAL_WRITE, place) != 0)
		return refuse(resp, SOFTRDMA_NAK_OPERATION); /* a bad receive: IBV_WC_LOC_PROT_ERR here */
	return SOFTRDMA_SERVICE_PLACE;
}

/*
 * Finds the region that a request accesses. An access of zero bytes is never refused, as on hardware, and has
 * no region. False: access violation.
 */
static bool
may_access(const struct softrdma_responder *resp, const struct softrdma_frame *frame, uint64_t len,
	int access, struct softrdma_mr **mr_ptr)
{
	*mr_ptr = NULL;
	if (len == 0)
		return true;
	*mr_ptr = softrdma_mr_find(resp->pd, frame->key, frame->addr, len, access);
	return *mr_ptr != NULL;
}

static enum softrdma_service
serve_write(struct softrdma_responder *resp, const struct softrdma_frame *frame, struct softrdma_place *place)
{
	struct softrdma_mr *mr;
	if (!begin_or_go_on(resp, frame))
		return SOFTRDMA_SERVICE_BAD;
	/* checks the whole rest of the message, so that a message that does not fit changes no byte */
	if (!may_access(resp, frame, resp->total - resp->received, IBV_ACCESS_REMOTE_WRITE, &mr))
		return refuse(resp, SOFTRDMA_NAK_ACCESS);
	if ((frame->flags & SOFTRDMA_FRAME_IMM) && !take_recv(resp))
		return SOFTRDMA_SERVICE_DISCARD;
	softrdma_place_one(place, mr, frame->addr, frame->length);
	return SOFTRDMA_SERVICE_PLACE;
}

/* false: the requester has more reads and atomics outstanding than it may have */
static bool
push_response(struct softrdma_responder *resp, const struct softrdma_response *response)
{
	if (resp->count_waiting == resp->rd_atom_max)
		return false;
	resp->waiting[(resp->first_waiting + resp->count_waiting) % SOFTRDMA_RD_ATOM_MAX] = *response;
	resp->count_waiting++;
	return true;
}

static void
begin_flush(struct softrdma_responder *resp, struct softrdma_mr *mr, uint64_t addr, uint64_t len)
{
	set_state(resp, SOFTRDMA_RESPONDER_FLUSHING);
	resp->flush_mr = mr;
	resp->flush_addr = addr;
	resp->flush_len = len;
	softrdma_mr_get(mr);
}

/* the access right that the queue pair must grant for a request, and the region, too */
static int
right_for(const struct softrdma_frame *frame)
{
	if (frame->opcode == SOFTRDMA_OP_FLUSH && frame->code == SOFTRDMA_FLUSH_PERSISTENT)
		return SOFTRDMA_ACCESS_FLUSH_PERSISTENT;
	return softrdma_opcode_info(frame->opcode)->right;
}

static enum softrdma_service
serve_read(struct softrdma_responder *resp, const struct softrdma_frame *frame)
{
	struct softrdma_mr *mr;
	if (!may_access(resp, frame, frame->arg, IBV_ACCESS_REMOTE_READ, &mr))
		return refuse(resp, SOFTRDMA_NAK_ACCESS);
	const struct softrdma_response response = {
		.seq = frame->seq,
		.is_read = true,
		.key = frame->key,
		.addr = frame->addr,
		.length = frame->arg,
	};
	if (mr && mr->read_flushes && resp->count_waiting < resp->rd_atom_max) {
		/* the whole region: earlier writes may be anywhere in it */
		resp->flush_to_read = true;
		resp->read_after_flush = response;
		begin_flush(resp, mr, (uintptr_t)mr->mr.addr, mr->mr.length);
		return SOFTRDMA_SERVICE_FLUSH;
	}
	if (!push_response(resp, &response))
		return refuse(resp, SOFTRDMA_NAK_INVALID_REQUEST);
	executed(resp, frame->flags);
	count_served(resp, SOFTRDMA_STATS_READ, response.length);
	return SOFTRDMA_SERVICE_DISCARD;
}

static enum softrdma_service
serve_atomic(struct softrdma_responder *resp, const struct softrdma_frame *frame,
	struct softrdma_place *place)
{
	const bool has_result = softrdma_opcode_info(frame->opcode)->result > 0;
	struct softrdma_mr *mr =
		softrdma_mr_find(resp->pd, frame->key, frame->addr, SOFTRDMA_ATOMIC_SIZE, right_for(frame));
	if (mr == NULL)
		return refuse(resp, SOFTRDMA_NAK_ACCESS);
	if (frame->addr % SOFTRDMA_ATOMIC_SIZE != 0 ||
		(has_result && resp->count_waiting == resp->rd_atom_max))
		return refuse(resp, SOFTRDMA_NAK_INVALID_REQUEST);
	softrdma_place_one(place, mr, frame->addr, SOFTRDMA_ATOMIC_SIZE);
	set_state(resp, SOFTRDMA_RESPONDER_IN_ATOMIC);
	return SOFTRDMA_SERVICE_OPERAND;
}

/*
 * A range of zero bytes means nothing. A flush of the whole region is IBTA's other selectivity level, which is
 * not offered.
 */
static enum softrdma_service
serve_flush(struct softrdma_responder *resp, const struct softrdma_frame *frame)
{
	struct softrdma_mr *mr;
	bool persistent = frame->code == SOFTRDMA_FLUSH_PERSISTENT;
	if (!may_access(resp, frame, frame->arg, right_for(frame), &mr))
		return refuse(resp, SOFTRDMA_NAK_ACCESS);
	if (mr == NULL || !persistent) {
		/* global visibility: this thread has stored the data before the system call that sends the ACK */
		executed(resp, frame->flags);
		count_served(resp, SOFTRDMA_STATS_FLUSH, frame->arg);
		return SOFTRDMA_SERVICE_DISCARD;
	}
	begin_flush(resp, mr, frame->addr, frame->arg);
	return SOFTRDMA_SERVICE_FLUSH;
}

void
softrdma_responder_flushed(struct softrdma_responder *resp, int error)
{
	assert(softrdma_responder_is_flushing(resp));
	softrdma_mr_put(resp->flush_mr);
	resp->flush_mr = NULL;
	bool to_read = resp->flush_to_read;
	resp->flush_to_read = false;
	if (softrdma_responder_has_failed(resp))
		return;
	if (error) {
		refuse(resp, SOFTRDMA_NAK_OPERATION);
		return;
	}
	set_state(resp, SOFTRDMA_RESPONDER_SERVING);
	executed(resp, 0);
	if (to_read) {
		bool pushed = push_response(resp, &resp->read_after_flush);
		assert(pushed); /* serve_read has checked for room, and nothing was served since */
		count_served(resp, SOFTRDMA_STATS_READ, resp->read_after_flush.length);
	} else {
		count_served(resp, SOFTRDMA_STATS_FLUSH, resp->flush_len);
	}
}

static enum softrdma_service
serve_resync(struct softrdma_responder *resp)
{
	if (!waits_for_receive(resp) || resp->state == SOFTRDMA_RESPONDER_RNR_DUE || resp->ready_due)
		return SOFTRDMA_SERVICE_BAD;
	set_state(resp, SOFTRDMA_RESPONDER_SERVING);
	return SOFTRDMA_SERVICE_DISCARD;
}

enum softrdma_service
softrdma_responder_request(struct softrdma_responder *resp, const struct softrdma_frame *frame,
	struct softrdma_place *place)
{
	assert(!softrdma_responder_is_flushing(resp));
	place->count = 0;
	if (softrdma_responder_has_failed(resp)) {
		if (resp->nak == 0)
			send_nak(resp, SOFTRDMA_NAK_GONE, resp->expected);
		return SOFTRDMA_SERVICE_DISCARD;
	}
	if (waits_for_receive(resp) && frame->opcode != SOFTRDMA_OP_RESYNC)
		return SOFTRDMA_SERVICE_DISCARD;
	if (frame->seq != resp->expected)
		return SOFTRDMA_SERVICE_BAD;
	if (resp->state == SOFTRDMA_RESPONDER_IN_MESSAGE && frame->opcode != resp->opcode)
		return SOFTRDMA_SERVICE_BAD;
	if (resp->withheld & right_for(frame))
		return refuse(resp, SOFTRDMA_NAK_INVALID_REQUEST);

	switch (frame->opcode) {
	case SOFTRDMA_OP_SEND:
		return serve_send(resp, frame, place);
	case SOFTRDMA_OP_WRITE:
		return serve_write(resp, frame, place);
	case SOFTRDMA_OP_READ:
		return serve_read(resp, frame);
	case SOFTRDMA_OP_FLUSH:
		return serve_flush(resp, frame);
	case SOFTRDMA_OP_RESYNC:
		return serve_resync(resp);
	default:
		return serve_atomic(resp, frame, place);
	}
}

/* the last frame of a SEND, or of a WRITE with immediate data, completes the receive */
static void
finish_recv(struct softrdma_responder *resp, const struct softrdma_frame *frame)
{
	bool is_send = frame->opcode == SOFTRDMA_OP_SEND;
	struct ibv_wc wc = {
		.status = IBV_WC_SUCCESS,
		.opcode = is_send ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
		.byte_len = (uint32_t)resp->received,
	};
	if (frame->flags & SOFTRDMA_FRAME_IMM) {
		wc.wc_flags = IBV_WC_WITH_IMM;
		wc.imm_data = (uint32_t)frame->arg;
	}
	resp->have_recv = false;
	complete_recv(resp, resp->recv.wr_id, &wc, frame->flags & SOFTRDMA_FRAME_SOLICITED);
}

void
softrdma_responder_placed(struct softrdma_responder *resp, const struct softrdma_frame *frame)
{
	if (softrdma_responder_has_failed(resp))
		return;
	assert(resp->state == SOFTRDMA_RESPONDER_IN_MESSAGE);
	resp->received += frame->length;
	if (!(frame->flags & SOFTRDMA_FRAME_LAST))
		return;
	set_state(resp, SOFTRDMA_RESPONDER_SERVING);
	executed(resp, frame->flags);
	count_served(resp, softrdma_opcode_info(resp->opcode)->operation, resp->received);
	if (resp->have_recv)
		finish_recv(resp, frame);
}

static uint64_t
get_u64(const uint8_t *at)
{
	uint64_t value = 0;
	for (int i = 0; i < 8; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

void
softrdma_responder_fault(struct softrdma_responder *resp)
{
	if (!softrdma_responder_has_failed(resp))
		refuse(resp, SOFTRDMA_NAK_OPERATION);
}

/*
 * Uses the CPU's atomic instructions and no lock, so that it is atomic with all CPUs and all connections of
 * this machine.
 */
void
softrdma_responder_operand(struct softrdma_responder *resp, const struct softrdma_frame *frame,
	const uint8_t *operand)
{
	if (softrdma_responder_has_failed(resp))
		return;
	set_state(resp, SOFTRDMA_RESPONDER_SERVING);
	struct softrdma_mr *mr = softrdma_mr_find(resp->pd, frame->key, frame->addr, SOFTRDMA_ATOMIC_SIZE, 0);
	uint64_t *target = (uint64_t *)(uintptr_t)frame->addr;
	if (mr == NULL || softrdma_mr_populate(mr, target, SOFTRDMA_ATOMIC_SIZE) != 0) {
		softrdma_responder_fault(resp);
		return;
	}

	struct softrdma_response response = { .seq = frame->seq };
	uint64_t value = get_u64(operand);
	switch (frame->opcode) {
	case SOFTRDMA_OP_ATOMIC_WRITE:
		memcpy(&value, operand, SOFTRDMA_ATOMIC_SIZE); /* bytes, not a number */
		__atomic_store_n(target, value, __ATOMIC_SEQ_CST);
		break;
	case SOFTRDMA_OP_FETCH_ADD:
		response.value = __atomic_fetch_add(target, value, __ATOMIC_SEQ_CST);
		break;
	default:
		assert(frame->opcode == SOFTRDMA_OP_COMPARE_SWAP);
		response.value = value;
		__atomic_compare_exchange_n(target, &response.value, get_u64(operand + SOFTRDMA_ATOMIC_SIZE),
			false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		break;
	}
	executed(resp, frame->flags);
	count_served(resp, softrdma_opcode_info(frame->opcode)->operation, SOFTRDMA_ATOMIC_SIZE);
	if (softrdma_opcode_info(frame->opcode)->result > 0) {
		bool pushed = push_response(resp, &response);
		assert(pushed); /* serve_atomic has checked for room */
	}
}

void
softrdma_responder_replenished(struct softrdma_responder *resp)
{
	if (waits_for_receive(resp))
		resp->ready_due = true;
}

static void
own_value(struct softrdma_outgoing *out, uint64_t value)
{
	for (int i = 0; i < SOFTRDMA_ATOMIC_SIZE; i++)
		out->bytes[i] = (uint8_t)(value >> (8 * i));
	out->frame.length = SOFTRDMA_ATOMIC_SIZE;
	softrdma_place_one(&out->place, NULL, (uintptr_t)out->bytes, SOFTRDMA_ATOMIC_SIZE);
}

/* finds memory for a READ response; 0, or a NAK: the region, or a page at an end, may be gone since it was admitted */
static uint8_t
find_to_read(const struct softrdma_responder *resp, uint32_t key, uint64_t addr, uint32_t len,
	struct softrdma_mr **mr_ptr)
{
	*mr_ptr = NULL;
	if (len == 0)
		return 0;
	*mr_ptr = softrdma_mr_find(resp->pd, key, addr, len, IBV_ACCESS_REMOTE_READ);
	if (*mr_ptr == NULL)
		return SOFTRDMA_NAK_ACCESS;
	bool there = softrdma_copy_check_ends((const void *)(uintptr_t)addr, len) == 0;
	if (!there)
		softrdma_mr_tell_missing();
	return there ? 0 : SOFTRDMA_NAK_OPERATION;
}

/* makes one frame of the oldest pending response; 0, or the NAK to send instead */
static uint8_t
next_waiting(struct softrdma_responder *resp, struct softrdma_outgoing *out)
{
	struct softrdma_response *response = &resp->waiting[resp->first_waiting];
	bool last = true;
	out->frame.seq = response->seq;
	if (response->is_read) {
		uint64_t left = response->length - response->offset;
		uint32_t len = left < SOFTRDMA_SEGMENT_MAX ? (uint32_t)left : SOFTRDMA_SEGMENT_MAX;
		uint64_t addr = response->addr + response->offset;
		struct softrdma_mr *mr;
		uint8_t nak = find_to_read(resp, response->key, addr, len, &mr);
		if (nak)
			return nak;
		last = len == left;
		out->frame.opcode = SOFTRDMA_OP_READ_RESPONSE;
		out->frame.length = len;
		out->frame.flags = (uint8_t)((response->offset == 0 ? SOFTRDMA_FRAME_FIRST : 0) |
			(last ? SOFTRDMA_FRAME_LAST : 0));
		softrdma_place_one(&out->place, mr, addr, len);
		response->offset += len;
	} else {
		out->frame.opcode = SOFTRDMA_OP_ATOMIC_RESPONSE;
		own_value(out, response->value);
	}
	if (last) {
		responded_before(resp, response->seq + 1);
		resp->first_waiting = (resp->first_waiting + 1) % SOFTRDMA_RD_ATOM_MAX;
		resp->count_waiting--;
	}
	return 0;
}

bool
softrdma_responder_next(struct softrdma_responder *resp, struct softrdma_outgoing *out)
{
	memset(&out->frame, 0, sizeof(out->frame));
	out->place.count = 0;

	if (resp->count_waiting > 0) {
		uint8_t nak = next_waiting(resp, out);
		if (nak == 0)
			return true;
		count_refused(resp, nak);
		USDT(softrdma, refuse, resp->qp_num, resp->waiting[resp->first_waiting].seq, (int)nak);
		/* no later request has a response, so this NAK replaces that of a request refused since */
		resp->nak = nak;
		resp->nak_seq = resp->waiting[resp->first_waiting].seq;
		resp->nak_due = true;
		resp->count_waiting = 0;
		fail(resp); /* the NAK is the last response: a later request that found no receive gets no RNR */
		memset(&out->frame, 0, sizeof(out->frame));
	}
	if (resp->nak_due) {
		resp->nak_due = false;
		out->frame.opcode = SOFTRDMA_OP_NAK;
		out->frame.seq = resp->nak_seq;
		out->frame.code = resp->nak;
		responded_before(resp, resp->expected); /* the NAK acknowledges all requests before its own */
		return true;
	}
	/* what was executed is answered before the RNR (doc/softrdma-protocol.md, section 6) */
	const bool ack_due = resp->ack_due || resp->state == SOFTRDMA_RESPONDER_RNR_DUE;
	if (ack_due && resp->responded != resp->expected) {
		responded_before(resp, resp->expected);
		out->frame.opcode = SOFTRDMA_OP_ACK;
		out->frame.seq = resp->expected - 1;
		return true;
	}
	out->frame.seq = resp->expected;
	if (resp->state == SOFTRDMA_RESPONDER_RNR_DUE) {
		set_state(resp, SOFTRDMA_RESPONDER_RNR_SENT);
		out->frame.opcode = SOFTRDMA_OP_RNR;
		return true;
	}
	if (resp->ready_due && resp->state == SOFTRDMA_RESPONDER_RNR_SENT) {
		resp->ready_due = false;
		set_state(resp, SOFTRDMA_RESPONDER_RNR_OVER);
		out->frame.opcode = SOFTRDMA_OP_RNR_READY;
		return true;
	}
	return false;
}
