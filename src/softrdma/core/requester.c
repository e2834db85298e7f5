/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * requester.c -- the send queue of a reliable connection: work requests in, frames out, responses in, completions out
 */

#include <assert.h>
#include <string.h>

#include "softrdma/bounds.h"
#include "softrdma/core/requester.h"

int
softrdma_requester_init(struct softrdma_requester *req, const struct ibv_pd *pd, struct softrdma_cq *cq,
	uint32_t qp_num, const struct ibv_qp_cap *cap)
{
	memset(req, 0, sizeof(*req));
	return softrdma_send_ring_init(&req->ring, pd, cq, qp_num, cap);
}

void
softrdma_requester_fini(struct softrdma_requester *req)
{
	softrdma_send_ring_fini(&req->ring);
}

void
softrdma_requester_start(struct softrdma_requester *req, uint32_t seq, uint32_t rd_atom_max)
{
	softrdma_send_ring_start(&req->ring, seq);
	req->tx = req->posted_from = seq;
	req->completed_locally = 0;
	req->rd_atom_max = rd_atom_max ? rd_atom_max : 1;
}

static struct softrdma_send *
send_at(const struct softrdma_requester *req, uint32_t seq)
{
	return softrdma_send_ring_slot_at(&req->ring, seq);
}

bool
softrdma_requester_may_gather(const struct softrdma_requester *req, uint32_t from)
{
	const uint32_t outstanding = req->tx - req->ring.tail, posted = req->ring.head - req->tx;
	bool may = outstanding >= SOFTRDMA_GATHER_FROM && posted < SOFTRDMA_GATHER_MAX &&
		req->tx_offset == 0 && !req->resync_due && !req->failed;
	for (uint32_t seq = from; may && seq != req->ring.head; seq++)
		may = softrdma_requester_length(req, seq) <= SOFTRDMA_GATHER_LENGTH;
	return may;
}

uint64_t
softrdma_requester_length(const struct softrdma_requester *req, uint32_t seq)
{
	const struct softrdma_send *send = softrdma_send_ring_at(&req->ring, seq);
	return softrdma_send_info(send)->is_flush ? 0 : send->length;
}

/* adds sign (1 or -1) to the counters of what is outstanding */
static void
count_outstanding(struct softrdma_requester *req, const struct softrdma_send *send, int sign)
{
	const struct softrdma_opcode_info *info = softrdma_send_info(send);
	if (info->is_rd_atom)
		req->rd_atoms += (uint32_t)sign;
	if (info->is_rd_atom || info->is_flush)
		req->fencing += (uint32_t)sign;
	if (info->is_flush)
		req->flushes += (uint32_t)sign;
}

/* true if requests up to tail are complete, up to tx are transmitted, and up to head are posted */
static bool
is_in_order(const struct softrdma_requester *req)
{
	return req->tx - req->ring.tail <= req->ring.head - req->ring.tail &&
		req->ring.head - req->ring.tail <= req->ring.capacity;
}

static void
complete_oldest(struct softrdma_requester *req, enum ibv_wc_status status)
{
	const struct softrdma_send *send = softrdma_send_ring_at(&req->ring, req->ring.tail);
	if ((int32_t)(req->ring.tail - req->tx) < 0)
		count_outstanding(req, send, -1);
	else
		req->tx = req->ring.tail + 1; /* it ends before it was transmitted, or only part of it was */
	softrdma_send_ring_complete(&req->ring, status);
	assert(is_in_order(req));
}

void
softrdma_requester_fail(struct softrdma_requester *req, enum ibv_wc_status first_status)
{
	req->failed = true;
	req->waiting = false;
	req->resync_due = false;
	enum ibv_wc_status status = first_status;
	while (req->ring.tail != req->ring.head) {
		complete_oldest(req, status);
		status = IBV_WC_WR_FLUSH_ERR;
	}
	req->tx = req->ring.head;
	req->tx_offset = 0;
}

void
softrdma_requester_drop(struct softrdma_requester *req)
{
	req->failed = true;
	req->waiting = false;
	req->resync_due = false;
	req->ring.tail = req->tx = req->ring.head;
	req->tx_offset = 0;
}

/*
 * Completes everything before seq: the responder works in order, so it has executed that. False if one of
 * them is a read or an atomic, which completes only when its data is there.
 */
static bool
complete_before(struct softrdma_requester *req, uint32_t seq)
{
	while (req->ring.tail != seq) {
		if (softrdma_send_info(send_at(req, req->ring.tail))->is_rd_atom)
			return false;
		complete_oldest(req, IBV_WC_SUCCESS);
	}
	return true;
}

void
softrdma_requester_fail_at(struct softrdma_requester *req, uint32_t seq, enum ibv_wc_status status)
{
	/* requests before seq have no response: they may or may not have been executed */
	while (req->ring.tail != seq)
		complete_oldest(req, IBV_WC_WR_FLUSH_ERR);
	softrdma_requester_fail(req, status);
}

static bool
may_leave(const struct softrdma_requester *req, const struct softrdma_send *send)
{
	if (req->tx_offset > 0)
		return true; /* a part of it is transmitted already */
	if (send->fenced && req->fencing > 0)
		return false;
	return !softrdma_send_info(send)->is_rd_atom || req->rd_atoms < req->rd_atom_max;
}

bool
softrdma_requester_wants_to_send(const struct softrdma_requester *req)
{
	if (req->resync_due)
		return true;
	if (req->waiting || req->paused || req->failed || req->tx == req->ring.head)
		return false;
	return may_leave(req, send_at(req, req->tx));
}

static void
put_u64(uint8_t *at, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

/* payload that travels in the frame itself */
static void
own_bytes(struct softrdma_outgoing *out, size_t len)
{
	out->frame.length = (uint32_t)len;
	softrdma_place_one(&out->place, NULL, (uintptr_t)out->bytes, len);
}

int
softrdma_requester_segments(const struct softrdma_requester *req, const struct softrdma_send *send,
	uint64_t offset, uint64_t len, struct softrdma_place *place)
{
	const int access = send->opcode == SOFTRDMA_OP_READ ? IBV_ACCESS_LOCAL_WRITE : 0;
	if (!send->is_inline)
		return softrdma_place_sges(req->ring.pd, send->sge, send->num_sge, offset, len, access,
			place);
	softrdma_place_one(place, NULL, (uintptr_t)send->inline_data + offset, len);
	return 0;
}

/* the payload of the next segment of a SEND or WRITE; 0 or EACCES */
static int
segment(const struct softrdma_requester *req, const struct softrdma_send *send, struct softrdma_outgoing *out)
{
	uint64_t left = send->length - req->tx_offset;
	uint32_t len = left < SOFTRDMA_SEGMENT_MAX ? (uint32_t)left : SOFTRDMA_SEGMENT_MAX;
	if (req->tx_offset == 0)
		out->frame.flags |= SOFTRDMA_FRAME_FIRST;
	if (len == left) {
		out->frame.flags |= SOFTRDMA_FRAME_LAST;
		if (send->has_imm) {
			out->frame.flags |= SOFTRDMA_FRAME_IMM;
			out->frame.arg = send->imm;
		}
		if (send->solicited && (send->has_imm || send->opcode == SOFTRDMA_OP_SEND))
			out->frame.flags |= SOFTRDMA_FRAME_SOLICITED;
	} else if (req->tx_offset == 0) {
		out->frame.arg = send->length;
	}
	if (send->opcode == SOFTRDMA_OP_WRITE) {
		out->frame.key = send->key;
		out->frame.addr = send->remote_addr + req->tx_offset;
	}
	out->frame.length = len;
	return softrdma_requester_segments(req, send, req->tx_offset, len, &out->place);
}

/* one frame is the whole request */
static void
single(const struct softrdma_send *send, struct softrdma_outgoing *out)
{
	out->frame.key = send->key;
	out->frame.addr = send->remote_addr;
	switch (send->opcode) {
	case SOFTRDMA_OP_READ:
		out->frame.arg = send->length;
		break;
	case SOFTRDMA_OP_FLUSH:
		out->frame.arg = send->length;
		out->frame.code = send->flush_type;
		break;
	case SOFTRDMA_OP_ATOMIC_WRITE:
		memcpy(out->bytes, send->operand, SOFTRDMA_ATOMIC_SIZE);
		own_bytes(out, SOFTRDMA_ATOMIC_SIZE);
		break;
	default:
		put_u64(out->bytes, send->operand[0]);
		put_u64(out->bytes + SOFTRDMA_ATOMIC_SIZE, send->operand[1]);
		own_bytes(out, softrdma_send_info(send)->length_min);
		break;
	}
}

/*
 * True if nothing waits for the response to the request at tx: no program, no post that needs the last slot of the queue,
 * and none of those that leave behind others. Because of this, one of GATHER_FROM outstanding requests is always asked for.
 */
static bool
may_wait_for_ack(const struct softrdma_requester *req, const struct softrdma_send *send)
{
	const uint32_t outstanding = req->tx - req->ring.tail + 1; /* with this one */
	return softrdma_send_info(send)->is_message && !send->signaled && !req->asks_always &&
		outstanding < SOFTRDMA_GATHER_FROM && outstanding < req->ring.capacity;
}

/* the last frame of the request at tx is made */
static void
sent_whole(struct softrdma_requester *req, const struct softrdma_send *send, struct softrdma_frame *frame)
{
	if (may_wait_for_ack(req, send))
		frame->flags |= SOFTRDMA_FRAME_ACK_LATER;
	count_outstanding(req, send, 1);
	req->tx++;
	req->tx_offset = 0;
}

bool
softrdma_requester_next(struct softrdma_requester *req, struct softrdma_outgoing *out)
{
	assert(is_in_order(req));
	memset(&out->frame, 0, sizeof(out->frame));
	out->place.count = 0;
	if (req->resync_due) {
		req->resync_due = false;
		out->frame.opcode = SOFTRDMA_OP_RESYNC;
		out->frame.seq = req->tx - req->completed_locally;
		return true;
	}
	if (!softrdma_requester_wants_to_send(req))
		return false;

	struct softrdma_send *send = send_at(req, req->tx);
	req->rewound = false;
	req->behind_flush = req->flushes > 0 || (req->behind_flush && req->ring.tail != req->tx);
	out->frame.opcode = send->opcode;
	out->frame.seq = req->tx - req->completed_locally;
	const bool is_message = softrdma_send_info(send)->is_message;
	if (is_message) {
		if (segment(req, send, out) != 0) {
			softrdma_requester_fail_at(req, req->tx, IBV_WC_LOC_PROT_ERR);
			return false;
		}
		req->tx_offset += out->frame.length;
	} else {
		single(send, out);
	}
	if (!is_message || (out->frame.flags & SOFTRDMA_FRAME_LAST))
		sent_whole(req, send, &out->frame);
	return true;
}

const struct softrdma_send *
softrdma_requester_alone(const struct softrdma_requester *req)
{
	bool waits = req->waiting || req->resync_due || req->failed;
	if (waits || req->ring.tail != req->tx || req->tx_offset > 0 || req->tx == req->ring.head)
		return NULL;
	return send_at(req, req->tx);
}

void
softrdma_requester_complete_locally(struct softrdma_requester *req)
{
	complete_oldest(req, IBV_WC_SUCCESS);
	req->completed_locally++;
}

/* true if the request is transmitted and has no response; if partly, a part of it is enough */
static bool
is_outstanding(const struct softrdma_requester *req, uint32_t seq, bool partly)
{
	uint32_t sent = req->tx - req->ring.tail + (partly && req->tx_offset > 0);
	return seq - req->ring.tail < sent;
}

static enum softrdma_response_action
acknowledged(struct softrdma_requester *req, uint32_t seq)
{
	if (!is_outstanding(req, seq, false) || !complete_before(req, seq + 1))
		return SOFTRDMA_RESPONSE_BAD;
	return SOFTRDMA_RESPONSE_DONE;
}

static enum softrdma_response_action
read_response(struct softrdma_requester *req, const struct softrdma_frame *frame, uint32_t seq,
	struct softrdma_place *place)
{
	if (!is_outstanding(req, seq, false) || !complete_before(req, seq))
		return SOFTRDMA_RESPONSE_BAD;
	struct softrdma_send *send = send_at(req, seq);
	if (send->opcode != SOFTRDMA_OP_READ)
		return SOFTRDMA_RESPONSE_BAD;
	bool first = frame->flags & SOFTRDMA_FRAME_FIRST;
	bool last = frame->flags & SOFTRDMA_FRAME_LAST;
	uint64_t left = send->length - send->arrived;
	if (first != (send->arrived == 0) || frame->length > left || last != (frame->length == left) ||
		(frame->length == 0 && !last))
		return SOFTRDMA_RESPONSE_BAD;
	if (softrdma_requester_segments(req, send, send->arrived, frame->length, place) != 0) {
		softrdma_requester_fail(req, IBV_WC_LOC_PROT_ERR);
		return SOFTRDMA_RESPONSE_FAILED;
	}
	return SOFTRDMA_RESPONSE_PLACE;
}

static enum softrdma_response_action
atomic_response(struct softrdma_requester *req, uint32_t seq, struct softrdma_place *place)
{
	if (!is_outstanding(req, seq, false) || !complete_before(req, seq))
		return SOFTRDMA_RESPONSE_BAD;
	struct softrdma_send *send = send_at(req, seq);
	if (softrdma_send_info(send)->result == 0)
		return SOFTRDMA_RESPONSE_BAD;
	if (softrdma_place_sges(req->ring.pd, send->sge, send->num_sge, 0, SOFTRDMA_ATOMIC_SIZE,
		    IBV_ACCESS_LOCAL_WRITE, place) != 0) {
		softrdma_requester_fail(req, IBV_WC_LOC_PROT_ERR);
		return SOFTRDMA_RESPONSE_FAILED;
	}
	return SOFTRDMA_RESPONSE_PLACE;
}

static enum softrdma_response_action
refused(struct softrdma_requester *req, uint32_t seq, uint16_t code)
{
	static const enum ibv_wc_status status[] = {
		[SOFTRDMA_NAK_INVALID_REQUEST] = IBV_WC_REM_INV_REQ_ERR,
		[SOFTRDMA_NAK_ACCESS] = IBV_WC_REM_ACCESS_ERR,
		[SOFTRDMA_NAK_OPERATION] = IBV_WC_REM_OP_ERR,
		[SOFTRDMA_NAK_GONE] = IBV_WC_RETRY_EXC_ERR,
	};
	bool sent = is_outstanding(req, seq, true) || (req->rewound && seq == req->tx);
	if (!sent || !complete_before(req, seq))
		return SOFTRDMA_RESPONSE_BAD;
	SOFTRDMA_COUNT(&req->ring.counters, issued.refused[code - SOFTRDMA_NAK_INVALID_REQUEST], 1);
	softrdma_requester_fail(req, status[code]);
	return SOFTRDMA_RESPONSE_FAILED;
}

/* stops transmission and rewinds to the refused request: the responder has discarded all from there on */
static enum softrdma_response_action
not_ready(struct softrdma_requester *req, uint32_t seq)
{
	if (req->waiting || !is_outstanding(req, seq, true) || !complete_before(req, seq))
		return SOFTRDMA_RESPONSE_BAD;
	const struct softrdma_send *send = send_at(req, seq);
	if (send->opcode != SOFTRDMA_OP_SEND && !send->has_imm)
		return SOFTRDMA_RESPONSE_BAD;
	while (req->tx != seq)
		count_outstanding(req, send_at(req, --req->tx), -1);
	req->tx_offset = 0;
	req->waiting = true;
	req->rewound = true;
	req->refused = seq;
	req->refusals++;
	return SOFTRDMA_RESPONSE_DONE;
}

static enum softrdma_response_action
ready_again(struct softrdma_requester *req, uint32_t seq)
{
	if (!req->waiting || seq != req->refused)
		return SOFTRDMA_RESPONSE_BAD;
	req->waiting = false;
	req->resync_due = true;
	return SOFTRDMA_RESPONSE_DONE;
}

enum softrdma_response_action
softrdma_requester_response(struct softrdma_requester *req, const struct softrdma_frame *frame,
	struct softrdma_place *place)
{
	const uint32_t seq = frame->seq + req->completed_locally;
	switch (frame->opcode) {
	case SOFTRDMA_OP_ACK:
		return acknowledged(req, seq);
	case SOFTRDMA_OP_READ_RESPONSE:
		return read_response(req, frame, seq, place);
	case SOFTRDMA_OP_ATOMIC_RESPONSE:
		return atomic_response(req, seq, place);
	case SOFTRDMA_OP_NAK:
		return refused(req, seq, frame->code);
	case SOFTRDMA_OP_RNR:
		return not_ready(req, seq);
	default:
		assert(frame->opcode == SOFTRDMA_OP_RNR_READY);
		return ready_again(req, seq);
	}
}

void
softrdma_requester_placed(struct softrdma_requester *req, const struct softrdma_frame *frame)
{
	const uint32_t seq = frame->seq + req->completed_locally;
	struct softrdma_send *send = send_at(req, seq);
	assert(req->ring.tail == seq);
	send->arrived += frame->length;
	if (send->opcode != SOFTRDMA_OP_READ || send->arrived == send->length)
		complete_oldest(req, IBV_WC_SUCCESS);
}
