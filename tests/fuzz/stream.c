/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * stream.c -- one side of a connection, at the mercy of its peer
 *
 * The input says what the peer sends, where its stream is cut, and what this side posts and does meanwhile
 * (stream_ops.h). For any input the following must hold:
 *
 * - Each request completes in order and at most once, and exactly once when the connection has ended.
 * - No byte changes unless a posted request or a frame with the right key, range and right allows it.
 * - A READ response contains readable memory only.
 * - What this side sends follows the protocol.
 * - Nothing is allocated for what arrives.
 */

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "softrdma/engine/connection.h"
#include "softrdma/verbs/device.h"
#include "softrdma/core/link.h"
#include "softrdma/wire/opcode.h"
#include "stream_ledger.h"
#include "stream_memory.h"
#include "stream_ops.h"

#define QP_NUM 77
#define QUEUE_DEPTH 16
#define SGE_MAX 4
#define INLINE_MAX 64
#define RD_ATOM_MAX 4
#define CQE_MANY (4 * LEDGER_MAX)
#define CQE_FEW 3
#define WIRE_SIZE ((size_t)1 << 16)
#define PAYLOAD_MASK 0x1fff

/* the sanitizer's function, NULL in builds without it */
__attribute__((weak)) size_t __sanitizer_get_current_allocated_bytes(void);

/* splits bytes into frames by the rules of the protocol, independently of the code under test */
struct parser {
	uint8_t header[SOFTRDMA_FRAME_SIZE];
	size_t have;
	uint32_t payload; /* bytes still to come */
	struct softrdma_frame frame;
	bool bad;  /* not a frame of the protocol, or a frame after DISCONNECT; the rest is ignored */
	bool last; /* DISCONNECT has been seen */
	bool late; /* the queue pair had already failed when the first byte of the frame was sent */
};

struct stream {
	unsigned flags;
	uint32_t random;
	struct softrdma_link *link;
	struct ibv_qp qp;
	struct softrdma_cq *send_cq, *recv_cq;
	struct softrdma_recv_queue recvs;
	struct ledger sends, receives;
	bool over;      /* the socket is closed */
	bool destroyed; /* the queue pair is destroyed */

	/* from the peer: sent, but not arrived yet */
	uint8_t wire[WIRE_SIZE];
	size_t begin, end;
	uint32_t peer_seq; /* of the next request to be made up */
	struct parser in;

	/* to the peer */
	struct parser out;
	bool refused;       /* a NAK has been sent */
	bool closed_silent; /* this side has closed with nothing to send: it may no longer send a NAK */
};

/* ---- what is sent ---- */

static void
check_frame_sent(struct stream *s)
{
	const struct softrdma_frame *f = &s->out.frame;
	bool request = softrdma_opcode_is_request(f->opcode);
	bool response = !request && f->opcode < SOFTRDMA_OP_READY;

	FUZZ_CHECK(!s->out.last);
	FUZZ_CHECK(!(response && s->refused));
	FUZZ_CHECK(!(request && s->out.late));
	FUZZ_CHECK(!(f->opcode == SOFTRDMA_OP_NAK && s->closed_silent));
	s->out.last = f->opcode == SOFTRDMA_OP_DISCONNECT;
	s->refused = s->refused || f->opcode == SOFTRDMA_OP_NAK;
}

static void
sent(struct stream *s, const uint8_t *at, size_t len)
{
	struct parser *p = &s->out;

	while (len > 0) {
		size_t n;

		if (p->payload > 0) {
			n = len < p->payload ? len : p->payload;
			if (p->frame.opcode == SOFTRDMA_OP_READ_RESPONSE)
				FUZZ_CHECK(memory_is_readable(at, n));
			p->payload -= (uint32_t)n;
		} else {
			n = SOFTRDMA_FRAME_SIZE - p->have < len ? SOFTRDMA_FRAME_SIZE - p->have : len;
			if (p->have == 0)
				p->late = s->link->failed;
			memcpy(p->header + p->have, at, n);
			p->have += n;
		}
		if (p->have == SOFTRDMA_FRAME_SIZE) {
			FUZZ_CHECK(softrdma_frame_decode(p->header, &p->frame));
			p->have = 0;
			p->payload = p->frame.length;
			check_frame_sent(s);
		}
		at += n;
		len -= n;
	}
}

/* sends; a system call takes at most max bytes */
static void
send_some(struct stream *s, size_t max)
{
	struct softrdma_tx *tx = &s->link->tx;

	while (max > 0 && !s->over && softrdma_link_tx_fill(s->link)) {
		struct iovec *iov = &tx->iov[tx->first];
		size_t n = iov->iov_len < max ? iov->iov_len : max;

		sent(s, iov->iov_base, n);
		softrdma_link_tx_done(s->link, n);
		max -= n;
	}
}

/* ---- what arrives ---- */

/* marks the bytes that the frame may change */
static void
allow(const struct softrdma_frame *f)
{
	bool first = f->flags & SOFTRDMA_FRAME_FIRST;
	bool last = f->flags & SOFTRDMA_FRAME_LAST;
	uint64_t whole = first && !last ? f->arg : f->length;

	switch (f->opcode) {
	case SOFTRDMA_OP_WRITE:
		/* a message that does not fit as a whole changes nothing */
		memory_allow_remote(f->key, f->addr, whole, IBV_ACCESS_REMOTE_WRITE);
		break;
	case SOFTRDMA_OP_ATOMIC_WRITE:
		memory_allow_remote(f->key, f->addr, 8, IBV_ACCESS_REMOTE_WRITE);
		break;
	case SOFTRDMA_OP_COMPARE_SWAP:
	case SOFTRDMA_OP_FETCH_ADD:
		memory_allow_remote(f->key, f->addr, 8, IBV_ACCESS_REMOTE_ATOMIC);
		break;
	default:
		break;
	}
}

static void
parse(struct parser *p, const uint8_t *at, size_t len)
{
	while (len > 0 && !p->bad) {
		size_t n = len;

		if (p->payload > 0) {
			n = n < p->payload ? n : p->payload;
			p->payload -= (uint32_t)n;
		} else {
			size_t missing = SOFTRDMA_FRAME_SIZE - p->have;

			n = n < missing ? n : missing;
			memcpy(p->header + p->have, at, n);
			p->have += n;
		}
		if (p->have == SOFTRDMA_FRAME_SIZE) {
			p->have = 0;
			p->bad = p->last || !softrdma_frame_decode(p->header, &p->frame);
			if (!p->bad) {
				p->payload = p->frame.length;
				p->last = p->frame.opcode == SOFTRDMA_OP_DISCONNECT;
				allow(&p->frame);
			}
		}
		at += n;
		len -= n;
	}
}

static void
stream_ended(struct stream *s)
{
	softrdma_link_lost(s->link);
	s->link->tx.first = s->link->tx.count = 0;
	s->over = true;
}

static uint32_t
next_random(struct stream *s)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 17;
	s->random ^= s->random << 5;
	return s->random;
}

/* the number of bytes that one system call returns, of those that are available */
static size_t
next_piece(struct stream *s, size_t available)
{
	if (s->flags & STREAM_BYTE_BY_BYTE)
		return 1;
	if (s->random == 0)
		return available;
	/* mostly short */
	size_t scale = next_random(s) & 3 ? 40 : available;
	return 1 + next_random(s) % (scale < available ? scale : available);
}

/* one recvmsg() */
static bool
receive_some(struct stream *s, size_t max)
{
	struct iovec iov[SOFTRDMA_SGE_MAX + 1];
	int count = softrdma_link_rx_iov(s->link, iov);
	size_t room = 0;

	if (count == 0) {
		FUZZ_CHECK(softrdma_responder_is_flushing(&s->link->responder));
		return false;
	}
	for (int i = 0; i < count; i++)
		room += iov[i].iov_len;
	FUZZ_CHECK(room > 0);
	size_t available = s->end - s->begin < room ? s->end - s->begin : room;
	size_t len = next_piece(s, available < max ? available : max);
	parse(&s->in, s->wire + s->begin, len);
	size_t left = len;
	for (int i = 0; left > 0; i++) {
		size_t n = left < iov[i].iov_len ? left : iov[i].iov_len;

		memcpy(iov[i].iov_base, s->wire + s->begin, n);
		s->begin += n;
		left -= n;
	}
	if (!softrdma_link_rx_done(s->link, len))
		stream_ended(s);
	return true;
}

static void
deliver(struct stream *s, size_t max)
{
	size_t before =
		__sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes() : 0;
	size_t last = s->end < s->begin + max ? s->end : s->begin + max;

	while (!s->over && s->begin < last && receive_some(s, last - s->begin))
		;
	if (__sanitizer_get_current_allocated_bytes)
		FUZZ_CHECK(__sanitizer_get_current_allocated_bytes() == before);
	if (s->begin == s->end)
		s->begin = s->end = 0;
}

/* a worker reports that the medium has completed the flush */
static void
flushed(struct stream *s, int error)
{
	if (!softrdma_responder_is_flushing(&s->link->responder))
		return;
	softrdma_responder_flushed(&s->link->responder, error);
	if (s->link->qp && error)
		softrdma_link_fail(s->link, IBV_WC_WR_FLUSH_ERR);
	if (s->link->qp && !s->over && !softrdma_link_rx_go_on(s->link))
		stream_ended(s);
}

/* ---- steps ---- */

static void
put_on_wire(struct stream *s, const uint8_t *bytes, size_t len)
{
	if (len > WIRE_SIZE - s->end)
		len = WIRE_SIZE - s->end;
	if (bytes)
		memcpy(s->wire + s->end, bytes, len);
	else
		memset(s->wire + s->end, 0x3c, len);
	s->end += len;
}

static void
raw_step(struct stream *s, struct fuzz_input *in)
{
	size_t len = fuzz_u8(in);

	if (len > in->left)
		len = in->left;
	put_on_wire(s, in->at, len);
	in->at += len;
	in->left -= len;
}

/* Sequence numbers in the input are relative to the correct one, so that inputs get far. */
static uint32_t
number_of(struct stream *s, uint8_t opcode, uint8_t delta)
{
	const struct softrdma_responder *resp = &s->link->responder;
	uint32_t base = s->link->requester.ring.tail;

	if (softrdma_opcode_is_request(opcode))
		base = delta & 0x80 ? resp->expected : s->peer_seq;
	delta &= 0x7f;
	return base + delta - (delta & 0x40 ? 0x80 : 0);
}

static uint64_t
argument_of(const struct softrdma_frame *f, uint16_t arg)
{
	if (arg >= 0xff00) /* close to the limits */
		return (arg & 1 ? SOFTRDMA_MSG_MAX : UINT32_MAX) + (uint64_t)((arg >> 1) & 7) - 3;
	if (f->opcode == SOFTRDMA_OP_READ)
		return (uint64_t)arg << 4;
	return arg;
}

/* takes opcode, flags, key and address from the input, and makes the other fields plausible */
static void
frame_step(struct stream *s, struct fuzz_input *in)
{
	uint8_t header[SOFTRDMA_FRAME_SIZE];
	struct softrdma_frame f = { .opcode = fuzz_u8(in), .flags = fuzz_u8(in) };

	f.seq = number_of(s, f.opcode, fuzz_u8(in));
	uint8_t id = fuzz_u8(in);
	uint16_t offset = fuzz_u16(in);
	f.length = fuzz_u16(in) & PAYLOAD_MASK;
	f.arg = argument_of(&f, fuzz_u16(in));
	f.code = fuzz_u8(in);
	unsigned region = id & ~STREAM_WRONG_KEY;
	if (region < REGION_COUNT) {
		f.key = regions[region].key + (id & STREAM_WRONG_KEY ? MEMORY_OTHER_KEY : 0);
		f.addr = regions[region].addr + offset;
	}
	if (softrdma_opcode_is_request(f.opcode) &&
		((f.opcode != SOFTRDMA_OP_SEND && f.opcode != SOFTRDMA_OP_WRITE &&
			 f.opcode != SOFTRDMA_OP_RESYNC) ||
			(f.flags & SOFTRDMA_FRAME_LAST)))
		s->peer_seq = f.seq + 1;
	softrdma_frame_encode(&f, header);
	put_on_wire(s, header, sizeof(header));
	put_on_wire(s, NULL, f.length);
}

static struct ibv_sge
local_piece(enum region_id id, uint8_t offset, uint32_t len)
{
	const struct region *r = &regions[id];

	return (struct ibv_sge){ .addr = r->addr + offset, .length = len, .lkey = r->key };
}

/* chooses the local memory of a request, sometimes in a region that does not allow the access */
static void
take_local(struct softrdma_send *send, uint8_t flags, uint8_t offset, uint32_t len)
{
	static const enum region_id ids[] = { REGION_LOCAL, REGION_FLEETING, REGION_ALL, REGION_READ };
	enum region_id id = ids[flags >> 6];
	uint32_t pieces = 1 + (offset & 1), each = len / pieces;

	send->num_sge = (int)pieces;
	send->length = (uint64_t)pieces * each;
	for (uint32_t i = 0; i < pieces; i++)
		send->sge[i] = local_piece(id, offset, each);
}

static void
take_operation(struct softrdma_send *send, uint8_t kind, uint32_t len)
{
	static const uint8_t opcodes[] = { SOFTRDMA_OP_SEND, SOFTRDMA_OP_WRITE, SOFTRDMA_OP_READ,
		SOFTRDMA_OP_ATOMIC_WRITE, SOFTRDMA_OP_COMPARE_SWAP, SOFTRDMA_OP_FETCH_ADD,
		SOFTRDMA_OP_FLUSH };

	send->opcode = opcodes[kind % sizeof(opcodes)];
	switch (send->opcode) {
	case SOFTRDMA_OP_COMPARE_SWAP:
	case SOFTRDMA_OP_FETCH_ADD:
		send->num_sge = 1;
		send->sge[0].length = 8;
		send->length = 8;
		break;
	case SOFTRDMA_OP_ATOMIC_WRITE:
		send->num_sge = 0;
		send->length = 8;
		break;
	case SOFTRDMA_OP_FLUSH:
		send->num_sge = 0;
		send->length = len;
		send->flush_type = SOFTRDMA_FLUSH_PERSISTENT;
		break;
	default:
		send->has_imm = kind >= 0x80 && send->opcode != SOFTRDMA_OP_READ;
		break;
	}
}

static void
post_step(struct stream *s, struct fuzz_input *in)
{
	struct softrdma_requester *req = &s->link->requester;
	uint8_t kind = fuzz_u8(in), flags = fuzz_u8(in), offset = fuzz_u8(in);
	uint32_t len = fuzz_u16(in);
	struct softrdma_send *send =
		s->destroyed || !ledger_room(&s->sends) ? NULL : softrdma_send_ring_slot(&req->ring);

	if (send == NULL)
		return;
	if (len >= 0x8000) /* longer than a segment */
		len *= 9;
	send->signaled = flags & 1;
	send->fenced = flags & 2;
	send->solicited = flags & 4;
	take_local(send, flags, offset, len);
	take_operation(send, kind, len);
	send->remote_addr = 0x1000;
	send->key = 0x77;
	send->imm = 5;
	if ((flags & 8) && send->length <= INLINE_MAX &&
		(send->opcode == SOFTRDMA_OP_SEND || send->opcode == SOFTRDMA_OP_WRITE)) {
		send->is_inline = true;
		send->num_sge = 0;
	}
	if (send->opcode == SOFTRDMA_OP_READ || send->opcode == SOFTRDMA_OP_COMPARE_SWAP ||
		send->opcode == SOFTRDMA_OP_FETCH_ADD) {
		for (int i = 0; i < send->num_sge; i++)
			memory_allow(send->sge[i].addr, send->sge[i].length);
	}
	send->wr_id = ledger_post(&s->sends, send->signaled);
	softrdma_send_ring_commit(&req->ring);
	if (req->failed)
		softrdma_requester_fail(req, IBV_WC_WR_FLUSH_ERR);
}

static void
recv_step(struct stream *s, struct fuzz_input *in)
{
	uint8_t pieces = fuzz_u8(in), offset = fuzz_u8(in);
	uint32_t len = fuzz_u16(in) & PAYLOAD_MASK;
	enum region_id id = pieces & 0x40 ? REGION_FLEETING : pieces & 0x80 ? REGION_READ : REGION_LOCAL;
	struct ibv_sge sge[SGE_MAX];
	struct ibv_recv_wr wr = { .wr_id = s->receives.posted, .sg_list = sge, .num_sge = pieces % SGE_MAX };

	if (s->destroyed || !ledger_room(&s->receives))
		return;
	for (int i = 0; i < wr.num_sge; i++) {
		sge[i] = local_piece(id, offset, len);
		memory_allow(sge[i].addr, sge[i].length);
	}
	if (softrdma_recv_queue_put(&s->recvs, &wr) != 0)
		return;
	ledger_post(&s->receives, true);
	if (s->link->failed)
		softrdma_responder_fail(&s->link->responder);
	struct softrdma_link *waiting = softrdma_recv_queue_pop_waiting(&s->recvs);
	if (waiting) {
		FUZZ_CHECK(waiting == s->link);
		softrdma_responder_replenished(&waiting->responder);
		softrdma_link_put(waiting);
	}
}

static void
revoke(struct stream *s)
{
	struct softrdma_mr *mr = memory_revoke();

	if (mr == NULL)
		return;
	if (s->link->qp && softrdma_link_revoke(s->link, mr))
		stream_ended(s);
	softrdma_mr_delete(mr);
}

static void
close_link(struct stream *s)
{
	const struct softrdma_tx *tx = &s->link->tx;

	if (s->destroyed)
		return;
	s->closed_silent = s->closed_silent || tx->first == tx->count;
	softrdma_link_close(s->link);
}

/* Frames sent earlier are not taken back. A flush in progress may still end. */
static void
destroy(struct stream *s)
{
	if (s->destroyed)
		return;
	s->destroyed = true;
	softrdma_link_abandon(s->link);
	send_some(s, SIZE_MAX);
	s->link->tx.first = s->link->tx.count = 0;
	s->over = true;
	s->link->state = SOFTRDMA_LINK_DOWN;
}

static void
event_step(struct stream *s, struct fuzz_input *in)
{
	struct softrdma_link *link = s->link;

	switch (fuzz_u8(in) % EVENT_COUNT) {
	case EVENT_POLL:
		ledger_collect(&s->sends, s->send_cq);
		ledger_collect(&s->receives, s->recv_cq);
		break;
	case EVENT_CLOSE:
		close_link(s);
		break;
	case EVENT_LOST:
		if (!s->over)
			stream_ended(s);
		break;
	case EVENT_DESTROYED:
		destroy(s);
		break;
	case EVENT_RX_FAULT:
		if (!s->over)
			softrdma_link_rx_fault(link);
		break;
	case EVENT_REVOKE:
		revoke(s);
		break;
	default: /* EVENT_RNR_TIMER */
		if (!s->over && link->requester.waiting) {
			softrdma_requester_fail(&link->requester, IBV_WC_RNR_RETRY_EXC_ERR);
			softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
		}
		break;
	}
}

static void
step(struct stream *s, struct fuzz_input *in)
{
	uint8_t what = fuzz_u8(in);
	size_t len;

	switch ((what & 0x0f) % STEP_COUNT) {
	case STEP_RAW:
		raw_step(s, in);
		break;
	case STEP_FRAME:
		frame_step(s, in);
		break;
	case STEP_POST:
		post_step(s, in);
		return;
	case STEP_RECV:
		recv_step(s, in);
		return;
	case STEP_SEND:
		len = fuzz_u16(in);
		send_some(s, len ? len : SIZE_MAX);
		return;
	case STEP_DELIVER:
		len = fuzz_u16(in);
		deliver(s, len ? len : WIRE_SIZE);
		return;
	case STEP_FLUSHED:
		flushed(s, fuzz_u8(in) & 1);
		return;
	default:
		event_step(s, in);
		return;
	}
	if (!(what & STEP_HOLD))
		deliver(s, WIRE_SIZE);
}

/* ---- one input ---- */

static void
reset_cq(struct softrdma_cq *cq, uint32_t capacity)
{
	cq->head = 0;
	atomic_store(&cq->count, 0);
	cq->overrun = false;
	cq->capacity = capacity;
}

static void
stream_open(struct stream *s, struct fuzz_input *in)
{
	static const struct ibv_qp_cap cap = { .max_send_wr = QUEUE_DEPTH,
		.max_send_sge = SGE_MAX,
		.max_inline_data = INLINE_MAX };
	struct softrdma_cq *send_cq = s->send_cq, *recv_cq = s->recv_cq;

	memset(s, 0, offsetof(struct stream, wire));
	memset(&s->begin, 0, sizeof(*s) - offsetof(struct stream, begin));
	s->flags = fuzz_u8(in);
	s->random = fuzz_u16(in);
	s->peer_seq = STREAM_PEER_SEQ;
	s->send_cq = send_cq;
	s->recv_cq = recv_cq;
	reset_cq(send_cq, s->flags & STREAM_SMALL_CQ ? CQE_FEW : CQE_MANY);
	reset_cq(recv_cq, s->flags & STREAM_SMALL_CQ ? CQE_FEW : CQE_MANY);
	FUZZ_CHECK(softrdma_recv_queue_init(&s->recvs, QUEUE_DEPTH, SGE_MAX) == 0);
	s->link = softrdma_connection_new();
	FUZZ_CHECK(s->link);
	s->qp.state = IBV_QPS_RTS;
	s->link->qp = &s->qp;
	s->link->seq = STREAM_OWN_SEQ;
	softrdma_responder_init(&s->link->responder, stream_pd, recv_cq, &s->recvs,
		s->flags & STREAM_SHARED_QUEUE, QP_NUM, s->link);
	FUZZ_CHECK(softrdma_requester_init(&s->link->requester, stream_pd, send_cq, QP_NUM, &cap) == 0);
	softrdma_link_start(s->link, STREAM_PEER_SEQ, RD_ATOM_MAX, RD_ATOM_MAX);
}

/* both ledgers are complete, unless completions were lost with their queue or with the queue pair */
static void
check_ledgers(struct stream *s)
{
	bool overrun = s->send_cq->overrun || s->recv_cq->overrun;
	struct softrdma_recv recv;

	ledger_collect(&s->sends, s->send_cq);
	ledger_collect(&s->receives, s->recv_cq);
	if (s->destroyed || overrun)
		return;
	ledger_check_complete(&s->sends);
	/* receives that no connection has taken stay in a shared queue */
	while (softrdma_recv_queue_take(&s->recvs, &recv)) {
		FUZZ_CHECK(s->flags & STREAM_SHARED_QUEUE);
		FUZZ_CHECK(recv.wr_id == s->receives.next++);
	}
	ledger_check_complete(&s->receives);
}

static void
stream_close(struct stream *s)
{
	/* bytes that are no frame must be refused at once, not left in the buffer */
	flushed(s, 0);
	deliver(s, WIRE_SIZE);
	FUZZ_CHECK(!s->in.bad || s->over || softrdma_responder_is_flushing(&s->link->responder));
	while (softrdma_responder_is_flushing(&s->link->responder))
		flushed(s, 0);
	if (s->flags & STREAM_END_BY_LOSS) {
		if (!s->over)
			stream_ended(s);
	} else {
		send_some(s, SIZE_MAX);
	}
	close_link(s);
	check_ledgers(s);
	send_some(s, SIZE_MAX);
	/* nothing after the end has changed memory */
	memory_check();
	FUZZ_CHECK(s->link->failed);
	destroy(s);
	softrdma_link_put(s->link);
	softrdma_recv_queue_fini(&s->recvs);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct stream s;
	struct fuzz_input in = { data, size };

	if (s.send_cq == NULL) {
		fuzz_quieten();
		memory_init();
		s.send_cq =
			softrdma_cq_of(softrdma_ibv_create_cq(softrdma_context(), CQE_MANY, NULL, NULL, 0));
		s.recv_cq =
			softrdma_cq_of(softrdma_ibv_create_cq(softrdma_context(), CQE_MANY, NULL, NULL, 0));
		FUZZ_CHECK(s.send_cq && s.recv_cq);
	}
	memory_reset();
	stream_open(&s, &in);
	while (in.left > 0)
		step(&s, &in);
	stream_close(&s);
	return 0;
}
