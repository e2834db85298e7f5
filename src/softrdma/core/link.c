/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* link.c -- one connection: the byte stream on one side, requester and responder of a queue pair on the other */

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "softrdma/base/env.h"
#include "softrdma/core/link.h"
#include "usdt.h"

void
softrdma_link_init(struct softrdma_link *link, void (*delete)(struct softrdma_link *link))
{
	const size_t gap = offsetof(struct softrdma_link, rx.stage);
	const size_t rest = offsetof(struct softrdma_link, responder.first_waiting);
	static_assert(offsetof(struct softrdma_link, responder.first_waiting) ==
			offsetof(struct softrdma_link, rx.stage) + SOFTRDMA_STAGE_SIZE +
				sizeof(link->responder.waiting),
		"only the stage and the ring of responses are not cleared");
	memset(link, 0, gap);
	memset((char *)link + rest, 0, sizeof(*link) - rest);
	pthread_mutex_init(&link->lock, NULL);
	/*
	 * message(connected, breaks-protocol): the other side breaks the protocol -> Install one version on
	 * both sides. If they are the same, report it.
	 */
	link->breach = "what is no frame of the protocol, or none that fits here";
	atomic_init(&link->refs, 1);
	link->delete = delete;
	link->tx.frames_max = SOFTRDMA_TX_FRAMES;
}

void
softrdma_link_get(struct softrdma_link *link)
{
	atomic_fetch_add(&link->refs, 1);
}

void
softrdma_link_put(struct softrdma_link *link)
{
	if (atomic_fetch_sub(&link->refs, 1) > 1)
		return;
	softrdma_requester_fini(&link->requester);
	pthread_mutex_destroy(&link->lock);
	link->delete (link);
}

void
softrdma_link_start(struct softrdma_link *link, uint32_t peer_seq, uint32_t initiator_depth,
	uint32_t responder_resources)
{
	softrdma_requester_start(&link->requester, link->seq, initiator_depth);
	softrdma_responder_start(&link->responder, peer_seq, responder_resources);
	softrdma_link_open(link);
}

void
softrdma_link_open(struct softrdma_link *link)
{
	assert(link->state == SOFTRDMA_LINK_IDLE);
	link->state = SOFTRDMA_LINK_UP;
}

static void
tell_disconnected(struct softrdma_link *link)
{
	if (link->ops)
		link->ops->disconnected(link, link->ops_arg);
}

/* the payload being received is no longer wanted, but its bytes must still be skipped */
static void
discard_payload(struct softrdma_rx *rx)
{
	if (rx->state == SOFTRDMA_RX_PLACING || rx->state == SOFTRDMA_RX_OPERAND)
		rx->state = SOFTRDMA_RX_DISCARDING;
}

/* --- the batch of frames to send (doorbell batching) --- */

/*
 * Takes the requests out of the batch: their memory belongs to the application again. False: one has left in part,
 * so the stream cannot go on.
 */
static bool
drop_requests(struct softrdma_tx *tx)
{
	unsigned to = tx->first;
	bool whole = true;
	for (unsigned i = tx->first; i < tx->count; i++) {
		bool begun = tx->is_header[i] ? tx->iov[i].iov_len < SOFTRDMA_FRAME_SIZE : i == tx->first;
		if (softrdma_opcode_is_request(tx->opcode[i])) {
			whole = whole && !begun;
			continue;
		}
		tx->iov[to] = tx->iov[i];
		tx->mr[to] = tx->mr[i];
		tx->opcode[to] = tx->opcode[i];
		tx->seq[to] = tx->seq[i];
		tx->is_header[to] = tx->is_header[i];
		to++;
	}
	tx->count = to;
	return whole;
}

void
softrdma_link_break(struct softrdma_link *link)
{
	link->tx.first = link->tx.count = 0;
	link->fin_due = true;
	link->disconnect_due = false;
}

void
softrdma_link_fail(struct softrdma_link *link, enum ibv_wc_status status)
{
	/* a thread that posts a receive reads it without the lock */
	atomic_store_explicit(&link->failed, true, memory_order_release);
	if (link->qp)
		link->qp->state = IBV_QPS_ERR;
	softrdma_requester_fail(&link->requester, status);
	softrdma_responder_fail(&link->responder);
	if (link->shm_path)
		link->shm_path->ops->shut(link);
	softrdma_recv_queue_forget(link->responder.queue, link);
	discard_payload(&link->rx);
	if (!drop_requests(&link->tx))
		softrdma_link_break(link);
}

void
softrdma_link_close(struct softrdma_link *link)
{
	softrdma_responder_close(&link->responder);
	softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
	if (link->state != SOFTRDMA_LINK_UP)
		return;
	link->state = SOFTRDMA_LINK_CLOSING;
	if (!link->fin_due)
		link->disconnect_due = true;
}

void
softrdma_link_close_after_violation(struct softrdma_link *link)
{
	assert(link->state == SOFTRDMA_LINK_UP && link->failed);
	link->state = SOFTRDMA_LINK_CLOSING;
	if (!link->fin_due)
		link->disconnect_due = true;
}

void
softrdma_link_abandon(struct softrdma_link *link)
{
	bool ends = link->state == SOFTRDMA_LINK_UP || link->state == SOFTRDMA_LINK_CLOSING;
	softrdma_requester_drop(&link->requester);
	softrdma_responder_drop(&link->responder);
	softrdma_link_close(link);
	link->qp = NULL;
	/* the id still exists: a program that has called rdma_disconnect() waits for the event */
	if (ends)
		tell_disconnected(link);
	link->ops = NULL;
}

void
softrdma_link_lost(struct softrdma_link *link)
{
	bool expected = link->state == SOFTRDMA_LINK_CLOSING;
	if (link->state == SOFTRDMA_LINK_IDLE || link->state == SOFTRDMA_LINK_DOWN)
		return;
	link->state = SOFTRDMA_LINK_DOWN;
	softrdma_link_fail(link, expected ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
	tell_disconnected(link);
}

/* the peer ends the connection: requests get no further response, but receives stay until this side ends it, too */
static void
peer_disconnects(struct softrdma_link *link)
{
	assert(link->state == SOFTRDMA_LINK_UP || link->state == SOFTRDMA_LINK_CLOSING);
	bool respond = link->state == SOFTRDMA_LINK_UP;
	link->state = SOFTRDMA_LINK_DOWN;
	if (!link->by_hand)
		softrdma_requester_fail(&link->requester, IBV_WC_WR_FLUSH_ERR);
	else if (link->requester.ring.tail != link->requester.ring.head)
		softrdma_link_fail(link, IBV_WC_RETRY_EXC_ERR);
	if (!drop_requests(&link->tx))
		softrdma_link_break(link);
	else if (respond)
		link->disconnect_due = true;
	tell_disconnected(link);
}

static bool
mr_in_place(const struct softrdma_place *place, const struct softrdma_mr *mr)
{
	for (int i = 0; i < place->count; i++) {
		if (place->mr[i] == mr)
			return true;
	}
	return false;
}

bool
softrdma_link_revoke(struct softrdma_link *link, const struct softrdma_mr *mr)
{
	bool receiving = link->rx.state == SOFTRDMA_RX_PLACING && mr_in_place(&link->rx.place, mr);
	bool sending = false, asking = false;
	for (unsigned i = link->tx.first; i < link->tx.count; i++) {
		if (link->tx.mr[i] == mr) {
			sending = true;
			asking = asking || softrdma_opcode_is_request(link->tx.opcode[i]);
		}
	}

	/* in the middle of a message: a protection error of the responder or the requester, as on hardware */
	if (receiving && softrdma_opcode_is_request(link->rx.frame.opcode)) {
		softrdma_responder_fault(&link->responder);
		softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
	} else if (receiving || sending) {
		/* no request of this side is to blame for the memory of a response */
		softrdma_link_fail(link, receiving || asking ? IBV_WC_LOC_PROT_ERR : IBV_WC_WR_FLUSH_ERR);
	}
	if (sending) /* a response may still refer to it */
		softrdma_link_break(link);
	return sending;
}

/* --- receiving --- */

/* fails the whole queue pair if its requester or responder has failed, or a completion found no room; true: just now */
static bool
fail_together(struct softrdma_link *link)
{
	bool failed = link->requester.failed || softrdma_responder_has_failed(&link->responder);
	bool overrun = link->requester.ring.overrun || link->responder.overrun;
	bool down =
		link->state != SOFTRDMA_LINK_UP; /* a peer that has disconnected fails the requester alone */
	if (link->failed || (!overrun && (!failed || down)))
		return false;
	softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
	return true;
}

static enum softrdma_rx_state
state_for_request(struct softrdma_link *link)
{
	switch (softrdma_responder_request(&link->responder, &link->rx.frame, &link->rx.place)) {
	case SOFTRDMA_SERVICE_PLACE:
		return SOFTRDMA_RX_PLACING;
	case SOFTRDMA_SERVICE_OPERAND:
		return SOFTRDMA_RX_OPERAND;
	case SOFTRDMA_SERVICE_FLUSH:
	case SOFTRDMA_SERVICE_DISCARD:
		return SOFTRDMA_RX_DISCARDING;
	default:
		return SOFTRDMA_RX_HEADER;
	}
}

/*
 * True if the response completes a request that has not left completely. No honest peer sends one. If it were taken, the
 * program would reuse the memory, and what it stores there would be sent.
 */
static bool
overtakes_its_request(const struct softrdma_link *link)
{
	const struct softrdma_frame *frame = &link->rx.frame;
	const struct softrdma_tx *tx = &link->tx;
	/* a refusal may come while its own request is sent, and completes those before it */
	const bool refuses = frame->opcode == SOFTRDMA_OP_NAK || frame->opcode == SOFTRDMA_OP_RNR;
	if (frame->opcode == SOFTRDMA_OP_RNR_READY)
		return false;
	for (unsigned i = tx->first; i < tx->count; i++) {
		if (softrdma_opcode_is_request(tx->opcode[i]))
			return (int32_t)(frame->seq - tx->seq[i]) >= (refuses ? 1 : 0);
	}
	return false;
}

static enum softrdma_rx_state
state_for_response(struct softrdma_link *link)
{
	if (link->requester.failed)
		return SOFTRDMA_RX_DISCARDING;
	if (overtakes_its_request(link))
		return SOFTRDMA_RX_HEADER;
	switch (softrdma_requester_response(&link->requester, &link->rx.frame, &link->rx.place)) {
	case SOFTRDMA_RESPONSE_PLACE:
		return SOFTRDMA_RX_PLACING;
	case SOFTRDMA_RESPONSE_DONE:
	case SOFTRDMA_RESPONSE_FAILED:
		return SOFTRDMA_RX_DISCARDING;
	default:
		return SOFTRDMA_RX_HEADER;
	}
}

/* a header is complete; false: the peer breaks the protocol */
static bool
begin_frame(struct softrdma_link *link)
{
	struct softrdma_rx *rx = &link->rx;
	if (link->state == SOFTRDMA_LINK_DOWN)
		return false; /* no frame may follow DISCONNECT */
	if (link->awaits_ready && rx->frame.opcode != SOFTRDMA_OP_READY) {
		/* message(breaks-protocol) */
		link->breach = "a frame before READY";
		return false;
	}
	rx->done = 0;
	switch (rx->frame.opcode) {
	case SOFTRDMA_OP_READY:
		link->awaits_ready = false;
		rx->state = SOFTRDMA_RX_DISCARDING;
		if (link->ops)
			link->ops->ready(link, link->ops_arg);
		return true;
	case SOFTRDMA_OP_DISCONNECT:
		rx->state = SOFTRDMA_RX_DISCARDING;
		peer_disconnects(link);
		return true;
	case SOFTRDMA_OP_SHM_OFFER:
		if (link->offer_received) {
			/* message(breaks-protocol) */
			link->breach = "a second offer of shared memory (SHM_OFFER)";
			return false;
		}
		link->offer_received = true;
		rx->state = SOFTRDMA_RX_OPERAND;
		return true;
	default:
		break;
	}
	const bool is_request = softrdma_opcode_is_request(rx->frame.opcode);
	const enum softrdma_rx_state state = is_request ? state_for_request(link) : state_for_response(link);
	if (state == SOFTRDMA_RX_HEADER)
		return false;
	rx->state = state;
	fail_together(link);
	return true;
}

static void
peer_offers(struct softrdma_link *link, const uint8_t *id)
{
	struct softrdma_shm_offer offer;
	softrdma_shm_offer_decode(&link->rx.frame, &offer);
	memcpy(offer.id, id, sizeof(offer.id));
	if (link->shm_path)
		link->shm_path->ops->offer_came(link, &offer);
}

/* the payload of a frame is complete */
static void
end_frame(struct softrdma_link *link, const uint8_t *operand)
{
	struct softrdma_rx *rx = &link->rx;
	enum softrdma_rx_state state = rx->state;
	rx->state = SOFTRDMA_RX_HEADER;
	if (state == SOFTRDMA_RX_DISCARDING)
		return;
	if (rx->frame.opcode == SOFTRDMA_OP_SHM_OFFER)
		peer_offers(link, operand);
	else if (state == SOFTRDMA_RX_OPERAND)
		softrdma_responder_operand(&link->responder, &rx->frame, operand);
	else if (softrdma_opcode_is_request(rx->frame.opcode))
		softrdma_responder_placed(&link->responder, &rx->frame);
	else
		softrdma_requester_placed(&link->requester, &rx->frame);
	fail_together(link);
}

/* gives the SGEs of the place from the byte after those that are done; returns their number */
static int
rest_of_place(const struct softrdma_rx *rx, struct iovec *iov)
{
	size_t skip = rx->done;
	int n = 0;
	for (int i = 0; i < rx->place.count; i++) {
		size_t len = rx->place.iov[i].iov_len;
		if (skip >= len) {
			skip -= len;
			continue;
		}
		iov[n].iov_base = (char *)rx->place.iov[i].iov_base + skip;
		iov[n].iov_len = len - skip;
		n++;
		skip = 0;
	}
	return n;
}

/*
 * Copies len received bytes to the place. On a plain stream that is only the beginning of a payload; the rest is
 * received straight into place. False: the memory is not there.
 */
static bool
copy_to_place(struct softrdma_rx *rx, const uint8_t *from, size_t len)
{
	size_t skip = rx->done;
	for (int i = 0; i < rx->place.count && len > 0; i++) {
		size_t room = rx->place.iov[i].iov_len;
		if (skip >= room) {
			skip -= room;
			continue;
		}
		uint8_t *to = (uint8_t *)rx->place.iov[i].iov_base + skip;
		room -= skip;
		skip = 0;
		size_t n = room < len ? room : len;
		if (softrdma_mr_store(rx->place.mr[i], to, from, n, &rx->pages) != 0)
			return false;
		from += n;
		len -= n;
	}
	assert(len == 0);
	return true;
}

void
softrdma_link_rx_fault(struct softrdma_link *link)
{
	if (link->rx.state != SOFTRDMA_RX_PLACING)
		return;
	softrdma_mr_tell_missing();
	if (softrdma_opcode_is_request(link->rx.frame.opcode))
		softrdma_responder_fault(&link->responder);
	else
		softrdma_requester_fail(&link->requester, IBV_WC_LOC_PROT_ERR);
	softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
}

/* uses payload or the beginning of it, and returns the number of bytes; an operand must be complete */
static uint32_t
use_payload(struct softrdma_link *link, const uint8_t *from, size_t there)
{
	struct softrdma_rx *rx = &link->rx;
	uint32_t wanted = rx->frame.length - rx->done;
	uint32_t len = there < wanted ? (uint32_t)there : wanted;
	if (rx->state == SOFTRDMA_RX_PLACING && len > 0 && !copy_to_place(rx, from, len))
		softrdma_link_rx_fault(link);
	rx->done += len;
	if (len == wanted)
		end_frame(link, from);
	return len;
}

/* takes payload out of the stage; false: the frame is not complete yet */
static bool
payload_from_stage(struct softrdma_link *link)
{
	struct softrdma_rx *rx = &link->rx;
	uint32_t staged = rx->end - rx->begin;
	uint32_t wanted = rx->frame.length - rx->done;
	if (rx->state == SOFTRDMA_RX_OPERAND && staged < wanted)
		return false;
	rx->begin += use_payload(link, rx->stage + rx->begin, staged);
	return staged >= wanted;
}

/* takes a header out of the stage; false: it is not complete, or it is not valid (*bad) */
static bool
header_from_stage(struct softrdma_link *link, bool *bad)
{
	struct softrdma_rx *rx = &link->rx;
	if (rx->end - rx->begin < SOFTRDMA_FRAME_SIZE)
		return false;
	*bad = !softrdma_frame_decode(rx->stage + rx->begin, &rx->frame);
	if (*bad)
		return false;
	rx->begin += SOFTRDMA_FRAME_SIZE;
	USDT(softrdma, receive, link->requester.ring.qp_num, rx->frame.opcode, rx->frame.seq,
		rx->frame.length);
	link->frames_received++;
	*bad = !begin_frame(link);
	return !*bad;
}

static bool
go_on(struct softrdma_link *link)
{
	struct softrdma_rx *rx = &link->rx;
	bool bad = false;
	bool more = true;
	while (more) {
		if (rx->state != SOFTRDMA_RX_HEADER)
			more = payload_from_stage(link);
		else
			more = !softrdma_responder_is_flushing(&link->responder) &&
				header_from_stage(link, &bad);
	}
	if (bad)
		return false;

	/* the rest is less than a header or an operand, or waits for a FLUSH (head-of-line blocking) */
	memmove(rx->stage, rx->stage + rx->begin, rx->end - rx->begin);
	rx->end -= rx->begin;
	rx->begin = 0;
	return true;
}

bool
softrdma_link_rx_go_on(struct softrdma_link *link)
{
	softrdma_pages_forget(&link->rx.pages);
	return go_on(link);
}

int
softrdma_link_rx_iov(struct softrdma_link *link, struct iovec iov[static SOFTRDMA_SGE_MAX + 1])
{
	struct softrdma_rx *rx = &link->rx;
	if (softrdma_responder_is_flushing(&link->responder))
		return 0;

	int n = 0;
	size_t room = SOFTRDMA_STAGE_SIZE - rx->end;
	if (rx->state == SOFTRDMA_RX_PLACING && !link->by_copy) {
		assert(rx->end == 0);
		n = rest_of_place(rx, iov);
		/*
		 * After a long payload, receive only the next header into the stage, so that its payload need not
		 * be copied.
		 */
		if (rx->frame.length - rx->done >= SOFTRDMA_STAGE_SIZE)
			room = SOFTRDMA_FRAME_SIZE;
	}
	iov[n].iov_base = rx->stage + rx->end;
	iov[n].iov_len = room;
	return n + 1;
}

bool
softrdma_link_rx_done(struct softrdma_link *link, size_t len)
{
	struct softrdma_rx *rx = &link->rx;
	if (rx->state == SOFTRDMA_RX_PLACING && !link->by_copy) {
		size_t wanted = rx->frame.length - rx->done;
		size_t placed = len < wanted ? len : wanted;
		rx->done += (uint32_t)placed;
		len -= placed;
	}
	rx->end += (uint32_t)len;
	assert(rx->end <= SOFTRDMA_STAGE_SIZE);
	return softrdma_link_rx_go_on(link);
}

/* puts a header or an operand into the stage, as much of it as has come; returns the number of bytes */
static size_t
to_stage(struct softrdma_rx *rx, const uint8_t *bytes, size_t len)
{
	uint32_t wanted = rx->state == SOFTRDMA_RX_HEADER ? SOFTRDMA_FRAME_SIZE : rx->frame.length;
	wanted -= rx->end;
	const uint32_t n = len < wanted ? (uint32_t)len : wanted;
	memcpy(rx->stage + rx->end, bytes, n);
	rx->end += n;
	return n;
}

ssize_t
softrdma_link_rx_take(struct softrdma_link *link, const uint8_t *bytes, size_t len)
{
	struct softrdma_rx *rx = &link->rx;
	size_t used = 0;
	assert(rx->begin == 0);
	/* a part of an operand that has become unwanted since the last call */
	softrdma_pages_forget(&rx->pages);
	bool ok = rx->end == 0 || go_on(link);
	while (ok && used < len && !softrdma_responder_is_flushing(&link->responder)) {
		if (rx->state == SOFTRDMA_RX_PLACING || rx->state == SOFTRDMA_RX_DISCARDING) {
			used += use_payload(link, bytes + used, len - used);
		} else {
			used += to_stage(rx, bytes + used, len - used);
			ok = go_on(link);
		}
	}
	return ok ? (ssize_t)used : -1;
}

/* --- sending --- */

static bool
next_control_frame(struct softrdma_link *link, struct softrdma_outgoing *out)
{
	memset(&out->frame, 0, sizeof(out->frame));
	out->place.count = 0;
	if (link->ready_due) {
		link->ready_due = false;
		out->frame.opcode = SOFTRDMA_OP_READY;
		return true;
	}
	struct softrdma_shm_offer offer;
	if (link->shm_path && link->shm_path->ops->next_offer(link, &offer)) {
		softrdma_shm_offer_encode(&offer, &out->frame);
		memcpy(out->bytes, offer.id, sizeof(offer.id));
		softrdma_place_one(&out->place, NULL, (uintptr_t)out->bytes, sizeof(offer.id));
		return true;
	}
	return false;
}

/* DISCONNECT leaves after all responses */
static bool
next_last_frame(struct softrdma_link *link, struct softrdma_outgoing *out)
{
	if (!link->disconnect_due)
		return false;
	memset(&out->frame, 0, sizeof(out->frame));
	out->place.count = 0;
	link->disconnect_due = false;
	link->fin_due = true;
	out->frame.opcode = SOFTRDMA_OP_DISCONNECT;
	return true;
}

static size_t
append_frame(struct softrdma_link *link, const struct softrdma_outgoing *out)
{
	struct softrdma_tx *tx = &link->tx;
	unsigned frame = tx->frames++;
	unsigned at = tx->count;
	USDT(softrdma, send, link->requester.ring.qp_num, out->frame.opcode, out->frame.seq,
		out->frame.length);
	softrdma_frame_encode(&out->frame, tx->headers[frame]);
	tx->iov[at].iov_base = tx->headers[frame];
	tx->iov[at].iov_len = SOFTRDMA_FRAME_SIZE;
	tx->mr[at] = NULL;
	tx->opcode[at] = out->frame.opcode;
	tx->seq[at] = out->frame.seq;
	tx->is_header[at] = true;
	for (int i = 0; i < out->place.count; i++) {
		at++;
		tx->iov[at] = out->place.iov[i];
		tx->mr[at] = out->place.mr[i];
		tx->opcode[at] = out->frame.opcode;
		tx->seq[at] = out->frame.seq;
		tx->is_header[at] = false;
		if (tx->iov[at].iov_base == out->bytes) {
			memcpy(tx->bytes[frame], out->bytes, sizeof(out->bytes));
			tx->iov[at].iov_base = tx->bytes[frame];
		}
	}
	tx->count = at + 1;
	return SOFTRDMA_FRAME_SIZE + out->frame.length;
}

static bool
has_room(const struct softrdma_tx *tx, size_t bytes)
{
	return tx->frames < tx->frames_max && tx->count + 1 + SOFTRDMA_SGE_MAX <= SOFTRDMA_TX_IOVS &&
		bytes < SOFTRDMA_TX_BYTES;
}

/* fills an empty batch with the frames that are to leave, as far as there is room */
static void
gather(struct softrdma_link *link)
{
	struct softrdma_tx *tx = &link->tx;
	tx->first = tx->count = tx->frames = 0;
	if (link->state == SOFTRDMA_LINK_IDLE || link->fin_due)
		return;

	if (softrdma_requester_wants_to_send(&link->requester))
		softrdma_responder_reply_leaves(&link->responder);
	else if (link->disconnect_due)
		softrdma_responder_ack_now(&link->responder);
	struct softrdma_outgoing out;
	size_t bytes = 0;
	bool more = true;
	while (more && has_room(tx, bytes)) {
		/* responses and requests take turns: neither waits for the end of the other's long message */
		more = false;
		if (next_control_frame(link, &out) || softrdma_responder_next(&link->responder, &out)) {
			/* a peer that makes memory durable does not read responses either */
			link->requester.behind_flush |= link->requester.flushes > 0;
			bytes += append_frame(link, &out);
			more = true;
		}
		if (has_room(tx, bytes) && softrdma_requester_next(&link->requester, &out)) {
			bytes += append_frame(link, &out);
			more = true;
		}
		if (!more && next_last_frame(link, &out))
			bytes += append_frame(link, &out);
	}
}

bool
softrdma_link_expects_reply(const struct softrdma_link *link)
{
	return link->state == SOFTRDMA_LINK_UP && !link->failed && !link->ready_due &&
		link->shm_path == NULL && link->tx.first == link->tx.count &&
		!softrdma_requester_wants_to_send(&link->requester) &&
		softrdma_responder_expects_reply(&link->responder);
}

void
softrdma_link_reply_is_late(struct softrdma_link *link)
{
	/* else it waits for other posts (gather.c) */
	if (!softrdma_requester_wants_to_send(&link->requester))
		softrdma_responder_reply_is_late(&link->responder);
}

bool
softrdma_link_tx_fill(struct softrdma_link *link)
{
	struct softrdma_tx *tx = &link->tx;
	if (tx->first < tx->count)
		return true;
	gather(link);
	/* the memory of a request or a response may be gone: then a refusal may be due */
	if (fail_together(link) && tx->first == tx->count)
		gather(link);
	return tx->first < tx->count;
}
