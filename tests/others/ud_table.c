// SPDX-License-Identifier: BSD-3-Clause
// Copyright the librpma authors

// ud_table.c -- a table of what queue pairs of unreliable datagrams (UD) do, which is the same over each device. One
// process has up to three of them. Nothing here waits for time: that a datagram does not come is shown by a later one of
// the same sender, because one queue pair's datagrams stay in order on their way to another one of the same machine.
//
//	ud_table <device> <index of a GID>	writes "<test> | pass", or "fail: <what is wrong>"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	GRH = 40,
	SLOTS = 64,
	SLOT = 8192, // lead, GRH, payload, and bytes that stay as they are
	LEAD = 64,
	GUARD = 0xa5,
	QKEY = 0x11111111,
	DEADLINE = 20, // seconds, for each completion
	SMALL = 100,   // payload of most tests
};

static struct ibv_context *device;
static struct ibv_pd *pd; // of all queue pairs
static uint32_t mtu;
static uint8_t gid_index;
static union ibv_gid gid;

#define NEED(condition) \
	do { \
		if (!(condition)) \
			return #condition; \
	} while (0)

// for calls that say themselves what is wrong
#define DO(call) \
	do { \
		const char *wrong_ = call; \
		if (wrong_ != NULL) \
			return wrong_; \
	} while (0)

static unsigned char
byte_of(size_t at, unsigned int seed)
{
	return (unsigned char)(at * 7 + at / 251 + seed);
}

static void
fill(unsigned char *bytes, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; ++i)
		bytes[i] = byte_of(i, seed);
}

static bool
is_filled(const unsigned char *bytes, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; ++i) {
		if (bytes[i] != byte_of(i, seed))
			return false;
	}
	return true;
}

static bool
is_untouched(const unsigned char *bytes, size_t n)
{
	for (size_t i = 0; i < n; ++i) {
		if (bytes[i] != GUARD)
			return false;
	}
	return true;
}

// --- queue pairs ---

struct party {
	struct ibv_comp_channel *channel; // of the receives
	struct ibv_cq *sent, *received;
	struct ibv_srq *srq; // NULL: the queue pair has its own receives
	bool lends_srq;      // the shared queue is that of another party
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_ah *ah; // to the GID of all parties
	unsigned char memory[SLOTS * SLOT];
};

static struct party here, there, third;

static unsigned char *
slot(struct party *p, unsigned int i)
{
	return p->memory + (size_t)i * SLOT;
}

static int
to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
}

static int
to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | (state == IBV_QPS_RTS ? IBV_QP_SQ_PSN : 0));
}

static const char *
to_rts(struct ibv_qp *qp)
{
	NEED(to_init(qp) == 0);
	NEED(to_state(qp, IBV_QPS_RTR) == 0);
	NEED(to_state(qp, IBV_QPS_RTS) == 0);
	return NULL;
}

// a queue pair in RESET, with a shared receive queue of its own, or another party's, or none
static const char *
open_in_reset(struct party *p, bool with_srq, struct ibv_srq *lent)
{
	struct ibv_ah_attr to = { .is_global = 1,
		.port_num = 1,
		.grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 64 } };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = SLOTS, .max_sge = 4 } };
	memset(p, 0, sizeof(*p));
	p->channel = ibv_create_comp_channel(device);
	NEED(p->channel != NULL);
	p->sent = ibv_create_cq(device, 2 * SLOTS, NULL, NULL, 0);
	p->received = ibv_create_cq(device, 2 * SLOTS, NULL, p->channel, 0);
	NEED(p->sent != NULL && p->received != NULL);
	p->lends_srq = lent != NULL;
	p->srq = with_srq ? ibv_create_srq(pd, &srq) : lent;
	NEED(!with_srq || p->srq != NULL);
	struct ibv_qp_init_attr attr = { .send_cq = p->sent,
		.recv_cq = p->received,
		.srq = p->srq,
		.qp_type = IBV_QPT_UD,
		.cap = { SLOTS, SLOTS, 4, 4, 64 } };
	p->qp = ibv_create_qp(pd, &attr);
	NEED(p->qp != NULL);
	p->mr = ibv_reg_mr(pd, p->memory, sizeof(p->memory), IBV_ACCESS_LOCAL_WRITE);
	NEED(p->mr != NULL);
	p->ah = ibv_create_ah(pd, &to);
	NEED(p->ah != NULL);
	return NULL;
}

static const char *
open_party(struct party *p)
{
	DO(open_in_reset(p, false, NULL));
	return to_rts(p->qp);
}

static const char *
close_party(struct party *p)
{
	NEED(ibv_destroy_ah(p->ah) == 0);
	NEED(ibv_destroy_qp(p->qp) == 0);
	NEED(p->srq == NULL || p->lends_srq || ibv_destroy_srq(p->srq) == 0);
	NEED(ibv_destroy_cq(p->sent) == 0 && ibv_destroy_cq(p->received) == 0);
	NEED(ibv_destroy_comp_channel(p->channel) == 0);
	NEED(ibv_dereg_mr(p->mr) == 0);
	return NULL;
}

static const char *
open_both(void)
{
	DO(open_party(&here));
	return open_party(&there);
}

static const char *
close_both(void)
{
	DO(close_party(&here));
	return close_party(&there);
}

// --- work requests ---

// a receive of this number of bytes, GRH included, behind the lead of a slot
static int
post_receive(struct party *p, unsigned int in, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)slot(p, in) + LEAD, bytes, p->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = in, .sg_list = &sge, .num_sge = 1 };
	memset(slot(p, in), GUARD, SLOT);
	return p->srq != NULL ? ibv_post_srq_recv(p->srq, &wr, &bad) : ibv_post_recv(p->qp, &wr, &bad);
}

struct order {
	const struct party *to;
	uint32_t length, qkey; // 0: SMALL, QKEY
	uint32_t qp_num;       // 0: that of the other party
	unsigned int flags;    // IBV_SEND_SIGNALED is added unless it is unsignaled
	bool unsignaled, has_imm;
	struct ibv_ah *ah; // NULL: the party's own
};

static struct ibv_send_wr
request(const struct party *from, unsigned int seed, const struct order *order, struct ibv_sge *sge)
{
	return (struct ibv_send_wr){ .wr_id = seed,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = order->has_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
		.send_flags = order->flags | (order->unsignaled ? 0 : IBV_SEND_SIGNALED),
		.imm_data = htonl(seed),
		.wr = { .ud = { .ah = order->ah != NULL ? order->ah : from->ah,
				.remote_qpn = order->qp_num != 0 ? order->qp_num : order->to->qp->qp_num,
				.remote_qkey = order->qkey != 0 ? order->qkey : QKEY } } };
}

// one datagram, from the slot that the seed chooses; the seed is its work request's identity
static int
post_send(struct party *from, unsigned int seed, struct order order)
{
	const uint32_t length = order.length != 0 ? order.length : SMALL;
	unsigned char *bytes = slot(from, SLOTS / 2 + seed % (SLOTS / 2));
	struct ibv_sge sge = { (uintptr_t)bytes, length, from->mr->lkey };
	struct ibv_send_wr *bad, wr = request(from, seed, &order, &sge);
	fill(bytes, length, seed);
	return ibv_post_send(from->qp, &wr, &bad);
}

// --- completions ---

static bool
next(struct ibv_cq *cq, struct ibv_wc *wc)
{
	const time_t end = time(NULL) + DEADLINE;
	int n;
	do {
		n = ibv_poll_cq(cq, 1, wc);
	} while (n == 0 && time(NULL) < end);
	return n == 1;
}

static const char *
ends_with(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	NEED(next(cq, &wc));
	NEED(wc.wr_id == wr_id);
	if (wc.status != status)
		return ibv_wc_status_str(wc.status);
	return NULL;
}

static const char *
is_sent(struct party *from, unsigned int seed)
{
	return ends_with(from->sent, seed, IBV_WC_SUCCESS);
}

static bool
has_no_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	return ibv_poll_cq(cq, 1, &wc) == 0;
}

// the header names the GID of sender and receiver: all of IPv6, or IPv4 in the last 20 bytes
static const char *
names_gids(const unsigned char grh[GRH])
{
	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid.raw)) {
		NEED(grh[20] == 0x45 && grh[29] == IPPROTO_UDP);
		NEED(memcmp(grh + 32, gid.raw + 12, 4) == 0 && memcmp(grh + 36, gid.raw + 12, 4) == 0);
		return NULL;
	}
	NEED(grh[0] >> 4 == 6 && grh[6] == IPPROTO_UDP);
	NEED(memcmp(grh + 8, gid.raw, 16) == 0 && memcmp(grh + 24, gid.raw, 16) == 0);
	return NULL;
}

static const char *
describes(const struct ibv_wc *wc, const struct party *p, const struct party *from, uint32_t length)
{
	NEED(wc->opcode == IBV_WC_RECV);
	NEED(wc->qp_num == p->qp->qp_num);
	NEED(wc->src_qp == from->qp->qp_num);
	NEED(wc->byte_len == GRH + length);
	NEED(wc->wc_flags & IBV_WC_GRH);
	return NULL;
}

// the next receive is in this slot of the memory's owner, is this datagram, and has changed nothing around it
static const char *
arrives_in(struct party *owner, unsigned int in, struct party *p, const struct party *from, unsigned int seed,
	uint32_t length, struct ibv_wc *wc)
{
	NEED(next(p->received, wc));
	if (wc->status != IBV_WC_SUCCESS)
		return ibv_wc_status_str(wc->status);
	NEED(wc->wr_id == in);
	DO(describes(wc, p, from, length));
	const unsigned char *bytes = slot(owner, in);
	NEED(is_untouched(bytes, LEAD));
	DO(names_gids(bytes + LEAD));
	NEED(is_filled(bytes + LEAD + GRH, length, seed));
	NEED(is_untouched(bytes + LEAD + GRH + length, SLOT - LEAD - GRH - length));
	return NULL;
}

static const char *
arrives(struct party *p, unsigned int in, const struct party *from, unsigned int seed, uint32_t length)
{
	struct ibv_wc wc;
	DO(arrives_in(p, in, p, from, seed, length, &wc));
	NEED(!(wc.wc_flags & IBV_WC_WITH_IMM));
	return NULL;
}

// a receive, and a datagram for it, which is the next that comes
static const char *
passes(struct party *from, struct party *to, unsigned int in, unsigned int seed)
{
	NEED(post_receive(to, in, GRH + SMALL) == 0);
	NEED(post_send(from, seed, (struct order){ .to = to }) == 0);
	DO(is_sent(from, seed));
	return arrives(to, in, from, seed, SMALL);
}

// --- payloads ---

static const char *
payload(uint32_t length)
{
	DO(open_both());
	NEED(post_receive(&there, 1, SLOT - LEAD) == 0);
	struct ibv_sge sge = { (uintptr_t)slot(&here, 40), length, here.mr->lkey };
	struct order order = { .to = &there };
	struct ibv_send_wr *bad, wr = request(&here, 5, &order, &sge);
	wr.num_sge = length > 0;
	fill(slot(&here, 40), length, 5);
	NEED(ibv_post_send(here.qp, &wr, &bad) == 0);
	DO(is_sent(&here, 5));
	DO(arrives(&there, 1, &here, 5, length));
	DO(passes(&here, &there, 2, 6));
	return close_both();
}

static const char *
payload_none(void)
{
	return payload(0);
}

static const char *
payload_one(void)
{
	return payload(1);
}

static const char *
payload_odd(void)
{
	return payload(mtu / 2 - 1);
}

static const char *
payload_mtu(void)
{
	return payload(mtu);
}

// the receive has not a byte more than it needs
static const char *
exact_receive(void)
{
	DO(open_both());
	NEED(post_receive(&there, 1, GRH + mtu) == 0);
	NEED(post_send(&here, 1, (struct order){ .to = &there, .length = mtu }) == 0);
	DO(is_sent(&here, 1));
	DO(arrives(&there, 1, &here, 1, mtu));
	return close_both();
}

// C10-93.1.1: no error
static const char *
too_long_succeeds(void)
{
	DO(open_both());
	NEED(post_receive(&there, 1, SLOT - LEAD) == 0);
	NEED(post_send(&here, 1, (struct order){ .to = &there, .length = mtu + 1 }) == 0);
	DO(is_sent(&here, 1));
	NEED(post_send(&here, 2, (struct order){ .to = &there }) == 0);
	DO(is_sent(&here, 2));
	DO(arrives(&there, 1, &here, 2, SMALL));
	return close_both();
}

// whatever its completion says, no byte of it comes, and its queue pair can be used again, if need be by way of RESET
static const char *
too_long_is_not_sent(void)
{
	struct ibv_wc wc;
	DO(open_both());
	NEED(post_receive(&there, 1, SLOT - LEAD) == 0);
	NEED(post_send(&here, 1, (struct order){ .to = &there, .length = mtu + 1 }) == 0);
	NEED(next(here.sent, &wc) && wc.wr_id == 1);
	if (wc.status != IBV_WC_SUCCESS) {
		NEED(wc.status == IBV_WC_LOC_LEN_ERR);
		NEED(to_state(here.qp, IBV_QPS_RESET) == 0);
		DO(to_rts(here.qp));
	}
	NEED(post_send(&here, 2, (struct order){ .to = &there }) == 0);
	DO(is_sent(&here, 2));
	DO(arrives(&there, 1, &here, 2, SMALL));
	return close_both();
}

static const char *
immediate_data(void)
{
	struct ibv_wc wc;
	DO(open_both());
	NEED(post_receive(&there, 1, SLOT - LEAD) == 0);
	NEED(post_send(&here, 0x01020304, (struct order){ .to = &there, .has_imm = true }) == 0);
	DO(is_sent(&here, 0x01020304));
	DO(arrives_in(&there, 1, &there, &here, 0x01020304, SMALL, &wc));
	NEED((wc.wc_flags & IBV_WC_WITH_IMM) && ntohl(wc.imm_data) == 0x01020304);
	DO(passes(&here, &there, 2, 6)); // which has none
	return close_both();
}

// the source need not be registered, and may change as soon as the call returns
static const char *
inline_data(void)
{
	unsigned char bytes[64];
	struct ibv_sge sge = { (uintptr_t)bytes, sizeof(bytes), 0 };
	struct order order = { .to = &there, .flags = IBV_SEND_INLINE };
	DO(open_both());
	struct ibv_send_wr *bad, wr = request(&here, 9, &order, &sge);
	NEED(post_receive(&there, 1, SLOT - LEAD) == 0);
	fill(bytes, sizeof(bytes), 9);
	NEED(ibv_post_send(here.qp, &wr, &bad) == 0);
	memset(bytes, 0, sizeof(bytes));
	DO(is_sent(&here, 9));
	DO(arrives(&there, 1, &here, 9, sizeof(bytes)));
	return close_both();
}

// a receive in three pieces: one ends within the GRH, one has the rest of the GRH and the first bytes of the payload
static const char *
pieces(void)
{
	enum { FIRST = 30, SECOND = 20, STEP = 1000, LENGTH = 700 };
	DO(open_both());
	unsigned char *bytes = slot(&there, 1);
	struct ibv_sge to[3], from[2];
	for (unsigned int i = 0; i < 3; ++i)
		to[i] = (struct ibv_sge){ (uintptr_t)bytes + i * STEP,
			i == 0           ? FIRST
				: i == 1 ? SECOND
					 : STEP,
			there.mr->lkey };
	struct ibv_recv_wr *bad_receive, receive = { .wr_id = 1, .sg_list = to, .num_sge = 3 };
	memset(bytes, GUARD, SLOT);
	NEED(ibv_post_recv(there.qp, &receive, &bad_receive) == 0);
	unsigned char sent[LENGTH], got[GRH + LENGTH];
	fill(sent, LENGTH, 3);
	memcpy(slot(&here, 40), sent, 111);
	memcpy(slot(&here, 42), sent + 111, LENGTH - 111);
	from[0] = (struct ibv_sge){ (uintptr_t)slot(&here, 40), 111, here.mr->lkey };
	from[1] = (struct ibv_sge){ (uintptr_t)slot(&here, 42), LENGTH - 111, here.mr->lkey };
	struct order order = { .to = &there };
	struct ibv_send_wr *bad, wr = request(&here, 3, &order, from);
	wr.num_sge = 2;
	NEED(ibv_post_send(here.qp, &wr, &bad) == 0);
	DO(is_sent(&here, 3));
	struct ibv_wc wc;
	NEED(next(there.received, &wc) && wc.status == IBV_WC_SUCCESS && wc.wr_id == 1);
	DO(describes(&wc, &there, &here, LENGTH));
	memcpy(got, bytes, FIRST);
	memcpy(got + FIRST, bytes + STEP, SECOND);
	memcpy(got + FIRST + SECOND, bytes + 2 * STEP, sizeof(got) - FIRST - SECOND);
	DO(names_gids(got));
	NEED(is_filled(got + GRH, LENGTH, 3));
	NEED(is_untouched(bytes + FIRST, STEP - FIRST));
	NEED(is_untouched(bytes + STEP + SECOND, STEP - SECOND));
	NEED(is_untouched(bytes + 2 * STEP + sizeof(got) - FIRST - SECOND,
		SLOT - 2 * STEP - sizeof(got) + FIRST + SECOND));
	return close_both();
}

// --- completions and events ---

// a list of eight sends of which only the last one has a completion
static const char *
unsignaled(void)
{
	enum { COUNT = 8 };
	DO(open_both());
	for (unsigned int i = 0; i < COUNT; ++i)
		NEED(post_receive(&there, i, GRH + SMALL) == 0);
	for (unsigned int i = 0; i < COUNT; ++i)
		NEED(post_send(&here, i, (struct order){ .to = &there, .unsignaled = i + 1 < COUNT }) == 0);
	DO(is_sent(&here, COUNT - 1));
	NEED(has_no_completion(here.sent));
	for (unsigned int i = 0; i < COUNT; ++i)
		DO(arrives(&there, i, &here, i, SMALL));
	return close_both();
}

// all completions of sends are those of the list, in its order
static const char *
order_of_sends(void)
{
	enum { COUNT = 16 };
	DO(open_both());
	for (unsigned int i = 0; i < COUNT; ++i)
		NEED(post_receive(&there, i, GRH + mtu) == 0);
	for (unsigned int i = 0; i < COUNT; ++i)
		NEED(post_send(&here, i, (struct order){ .to = &there, .length = i % 2 ? mtu : 1 }) == 0);
	for (unsigned int i = 0; i < COUNT; ++i)
		DO(is_sent(&here, i));
	for (unsigned int i = 0; i < COUNT; ++i)
		DO(arrives(&there, i, &here, i, i % 2 ? mtu : 1));
	return close_both();
}

static bool
has_event(struct party *p, int milliseconds)
{
	struct pollfd waits = { .fd = p->channel->fd, .events = POLLIN };
	return poll(&waits, 1, milliseconds) == 1;
}

static const char *
take_event(struct party *p)
{
	struct ibv_cq *cq;
	void *context;
	NEED(has_event(p, DEADLINE * 1000));
	NEED(ibv_get_cq_event(p->channel, &cq, &context) == 0 && cq == p->received);
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

static const char *
event(void)
{
	DO(open_both());
	NEED(ibv_req_notify_cq(there.received, 0) == 0);
	DO(passes(&here, &there, 1, 1));
	DO(take_event(&there));
	DO(passes(&here, &there, 2, 2)); // it was not asked for again
	DO(passes(&here, &there, 3, 3));
	NEED(!has_event(&there, 0));
	return close_both();
}

// a datagram without the flag gives no event. If it gave one, there would be two, because the second request asks anew
static const char *
solicited(void)
{
	DO(open_both());
	NEED(ibv_req_notify_cq(there.received, 1) == 0);
	DO(passes(&here, &there, 1, 1));
	DO(passes(&here, &there, 2, 2));
	NEED(!has_event(&there, 0));
	NEED(ibv_req_notify_cq(there.received, 1) == 0);
	NEED(post_receive(&there, 3, GRH + SMALL) == 0);
	NEED(post_send(&here, 3, (struct order){ .to = &there, .flags = IBV_SEND_SOLICITED }) == 0);
	DO(take_event(&there));
	DO(arrives(&there, 3, &here, 3, SMALL));
	NEED(!has_event(&there, 0));
	return close_both();
}

// --- what is dropped: the next datagram gets the receive ---

static const char *
drops(struct order order)
{
	DO(open_both());
	order.to = &there;
	NEED(post_receive(&there, 1, GRH + SMALL) == 0);
	NEED(post_send(&here, 1, order) == 0);
	DO(is_sent(&here, 1));
	NEED(post_send(&here, 2, (struct order){ .to = &there }) == 0);
	DO(is_sent(&here, 2));
	DO(arrives(&there, 1, &here, 2, SMALL));
	return close_both();
}

static const char *
foreign_key(void)
{
	return drops((struct order){ .qkey = QKEY + 1 });
}

static const char *
receive_too_short(void)
{
	return drops((struct order){ .length = SMALL + 1 });
}

static const char *
no_receive_for_grh(void)
{
	DO(open_both());
	NEED(post_receive(&there, 1, GRH - 1) == 0); // nothing fits
	NEED(post_receive(&there, 2, GRH + SMALL) == 0);
	NEED(post_send(&here, 1, (struct order){ .to = &there, .length = 1 }) == 0);
	DO(is_sent(&here, 1));
	// the first receive stays where it is: the queue pair has to be reset
	NEED(to_state(there.qp, IBV_QPS_RESET) == 0);
	NEED(has_no_completion(there.received));
	DO(to_rts(there.qp));
	DO(passes(&here, &there, 3, 3));
	return close_both();
}

// A datagram without a receive is lost, though a receive comes later. When it is lost is not known, so the receive may be
// in time; a device that kept the datagram would have it in time in each round.
static const char *
no_receive(void)
{
	const time_t end = time(NULL) + DEADLINE;
	DO(open_both());
	for (unsigned int round = 0;; round += 3) {
		struct ibv_wc wc;
		NEED(time(NULL) < end);
		NEED(post_send(&here, round, (struct order){ .to = &there }) == 0);
		DO(is_sent(&here, round));
		NEED(post_receive(&there, 1, GRH + SMALL) == 0);
		NEED(post_receive(&there, 2, GRH + SMALL) == 0);
		NEED(post_send(&here, round + 1, (struct order){ .to = &there }) == 0);
		DO(is_sent(&here, round + 1));
		NEED(next(there.received, &wc) && wc.status == IBV_WC_SUCCESS && wc.wr_id == 1);
		if (is_filled(slot(&there, 1) + LEAD + GRH, SMALL, round + 1))
			break;
		NEED(is_filled(slot(&there, 1) + LEAD + GRH, SMALL, round));
		DO(arrives(&there, 2, &here, round + 1, SMALL));
	}
	return close_both();
}

static const char *
gone_receiver(void)
{
	DO(open_both());
	DO(open_party(&third));
	const uint32_t gone = third.qp->qp_num;
	DO(close_party(&third));
	NEED(post_send(&here, 1, (struct order){ .qp_num = gone }) == 0);
	DO(is_sent(&here, 1));
	DO(passes(&here, &there, 2, 2));
	return close_both();
}

// IBTA vol. 1, 3.5.3: the highest bit asks for the Q_Key of the sender's own queue pair
static const char *
own_key(void)
{
	DO(open_both());
	NEED(post_receive(&there, 1, GRH + SMALL) == 0);
	NEED(post_send(&here, 1, (struct order){ .to = &there, .qkey = 0x80000000 }) == 0);
	DO(is_sent(&here, 1));
	DO(arrives(&there, 1, &here, 1, SMALL));
	return close_both();
}

// --- who sends to whom ---

static const char *
itself(void)
{
	DO(open_party(&here));
	for (unsigned int round = 0; round < 20; ++round)
		DO(passes(&here, &here, round % 4, round));
	return close_party(&here);
}

static const char *
reply(void)
{
	struct ibv_wc wc;
	DO(open_both());
	NEED(post_receive(&there, 1, GRH + SMALL) == 0);
	NEED(post_send(&here, 1, (struct order){ .to = &there }) == 0);
	DO(is_sent(&here, 1));
	DO(arrives_in(&there, 1, &there, &here, 1, SMALL, &wc));
	struct ibv_ah *back =
		ibv_create_ah_from_wc(pd, &wc, (struct ibv_grh *)(void *)(slot(&there, 1) + LEAD), 1);
	NEED(back != NULL);
	NEED(post_receive(&here, 2, GRH + SMALL) == 0);
	NEED(post_send(&there, 2, (struct order){ .qp_num = wc.src_qp, .ah = back }) == 0);
	DO(is_sent(&there, 2));
	DO(arrives(&here, 2, &there, 2, SMALL));
	NEED(ibv_destroy_ah(back) == 0);
	return close_both();
}

// the order of each sender is kept; nothing is lost, because there is a receive for each
static const char *
two_senders(void)
{
	enum { COUNT = 15 };
	unsigned int come[2] = { 0, 0 };
	DO(open_both());
	DO(open_party(&third));
	for (unsigned int i = 0; i < 2 * COUNT; ++i)
		NEED(post_receive(&there, i, GRH + SMALL) == 0);
	for (unsigned int i = 0; i < COUNT; ++i) {
		NEED(post_send(&here, i, (struct order){ .to = &there }) == 0);
		NEED(post_send(&third, 100 + i, (struct order){ .to = &there }) == 0);
	}
	for (unsigned int i = 0; i < 2 * COUNT; ++i) {
		struct ibv_wc wc;
		NEED(next(there.received, &wc) && wc.status == IBV_WC_SUCCESS && wc.wr_id == i);
		const bool of_third = wc.src_qp == third.qp->qp_num;
		DO(describes(&wc, &there, of_third ? &third : &here, SMALL));
		NEED(is_filled(slot(&there, i) + LEAD + GRH, SMALL, (of_third ? 100 : 0) + come[of_third]++));
	}
	NEED(come[0] == COUNT && come[1] == COUNT);
	for (unsigned int i = 0; i < COUNT; ++i) {
		DO(is_sent(&here, i));
		DO(is_sent(&third, 100 + i));
	}
	DO(close_party(&third));
	return close_both();
}

// two queue pairs take the receives of one queue, in the order in which they were posted
static const char *
shared_receives(void)
{
	struct ibv_wc wc;
	DO(open_party(&here));
	DO(open_in_reset(&there, true, NULL));
	DO(open_in_reset(&third, false, there.srq));
	DO(to_rts(there.qp));
	DO(to_rts(third.qp));
	for (unsigned int i = 0; i < 20; ++i)
		NEED(post_receive(&there, i, GRH + SMALL) == 0);
	for (unsigned int i = 0; i < 20; ++i) {
		struct party *to = i % 3 ? &there : &third;
		NEED(post_send(&here, i, (struct order){ .to = to }) == 0);
		DO(is_sent(&here, i));
		DO(arrives_in(&there, i, to, &here, i, SMALL, &wc));
	}
	DO(close_party(&third));
	return close_both();
}

static const char *
shared_too_short(void)
{
	DO(open_party(&here));
	DO(open_in_reset(&there, true, NULL));
	DO(to_rts(there.qp));
	NEED(post_receive(&there, 1, GRH + SMALL) == 0);
	NEED(post_send(&here, 1, (struct order){ .to = &there, .length = SMALL + 1 }) == 0);
	DO(is_sent(&here, 1));
	NEED(post_send(&here, 2, (struct order){ .to = &there }) == 0);
	DO(is_sent(&here, 2));
	DO(arrives(&there, 1, &here, 2, SMALL));
	return close_both();
}

// --- states ---

static const char *
sends_before_rts(void)
{
	DO(open_party(&there));
	DO(open_in_reset(&here, false, NULL));
	NEED(post_send(&here, 1, (struct order){ .to = &there }) == EINVAL);
	NEED(to_init(here.qp) == 0);
	NEED(post_send(&here, 2, (struct order){ .to = &there }) == EINVAL);
	NEED(to_state(here.qp, IBV_QPS_RTR) == 0);
	NEED(post_send(&here, 3, (struct order){ .to = &there }) == EINVAL);
	NEED(has_no_completion(here.sent));
	NEED(to_state(here.qp, IBV_QPS_RTS) == 0);
	DO(passes(&here, &there, 1, 4));
	return close_both();
}

static const char *
receives_in_init(void)
{
	DO(open_party(&here));
	DO(open_in_reset(&there, false, NULL));
	NEED(to_init(there.qp) == 0);
	NEED(post_receive(&there, 1, GRH + SMALL) == 0);
	NEED(to_state(there.qp, IBV_QPS_RTR) == 0);
	NEED(post_send(&here, 1, (struct order){ .to = &there }) == 0);
	DO(is_sent(&here, 1));
	DO(arrives(&there, 1, &here, 1, SMALL));
	DO(passes(&here, &there, 2, 2)); // in RTR
	NEED(to_state(there.qp, IBV_QPS_RTS) == 0);
	DO(passes(&here, &there, 3, 3));
	DO(passes(&there, &here, 4, 4));
	return close_both();
}

static const char *
has_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	NEED(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
	NEED(attr.qp_state == state);
	return NULL;
}

static const char *
flushes(void)
{
	enum { COUNT = 5 };
	DO(open_both());
	for (unsigned int i = 0; i < COUNT; ++i)
		NEED(post_receive(&there, i, GRH + SMALL) == 0);
	NEED(to_state(there.qp, IBV_QPS_ERR) == 0);
	DO(has_state(there.qp, IBV_QPS_ERR));
	for (unsigned int i = 0; i < COUNT; ++i)
		DO(ends_with(there.received, i, IBV_WC_WR_FLUSH_ERR));
	NEED(has_no_completion(there.received));
	for (unsigned int i = 0; i < COUNT; ++i)
		NEED(post_send(&there, 10 + i, (struct order){ .to = &here }) == 0);
	for (unsigned int i = 0; i < COUNT; ++i)
		DO(ends_with(there.sent, 10 + i, IBV_WC_WR_FLUSH_ERR));
	NEED(has_no_completion(there.sent));
	return close_both();
}

// a send of a queue pair in ERR is flushed, also if it asks for no completion
static const char *
flushes_unsignaled(void)
{
	DO(open_both());
	NEED(to_state(there.qp, IBV_QPS_ERR) == 0);
	NEED(post_send(&there, 1, (struct order){ .to = &here, .unsignaled = true }) == 0);
	DO(ends_with(there.sent, 1, IBV_WC_WR_FLUSH_ERR));
	return close_both();
}

static const char *
flushes_late_receives(void)
{
	DO(open_both());
	NEED(to_state(there.qp, IBV_QPS_ERR) == 0);
	NEED(post_receive(&there, 1, GRH + SMALL) == 0);
	DO(ends_with(there.received, 1, IBV_WC_WR_FLUSH_ERR));
	return close_both();
}

// RESET leaves no work request, and what comes meanwhile is lost
static const char *
reset(void)
{
	DO(open_both());
	NEED(post_receive(&there, 1, GRH + SMALL) == 0);
	NEED(post_receive(&there, 2, GRH + SMALL) == 0);
	NEED(to_state(there.qp, IBV_QPS_RESET) == 0);
	DO(has_state(there.qp, IBV_QPS_RESET));
	NEED(post_send(&here, 1, (struct order){ .to = &there }) == 0); // lost
	DO(is_sent(&here, 1));
	NEED(to_init(there.qp) == 0);
	NEED(post_receive(&there, 5, GRH + SMALL) == 0); // which would be there for it
	NEED(to_state(there.qp, IBV_QPS_RTR) == 0);
	NEED(to_state(there.qp, IBV_QPS_RTS) == 0);
	NEED(has_no_completion(there.received));
	NEED(post_send(&here, 2, (struct order){ .to = &there }) == 0);
	DO(is_sent(&here, 2));
	DO(arrives(&there, 5, &here, 2, SMALL));
	DO(passes(&there, &here, 6, 3));
	return close_both();
}

static const char *
reset_after_error(void)
{
	DO(open_both());
	for (unsigned int round = 0; round < 10; ++round) {
		NEED(post_receive(&there, 1, GRH + SMALL) == 0);
		NEED(to_state(there.qp, IBV_QPS_ERR) == 0);
		DO(ends_with(there.received, 1, IBV_WC_WR_FLUSH_ERR));
		NEED(to_state(there.qp, IBV_QPS_RESET) == 0);
		DO(to_rts(there.qp));
		DO(passes(&here, &there, 2, round));
		DO(passes(&there, &here, 3, round + 100));
	}
	return close_both();
}

static const char *
other_key(void)
{
	struct ibv_qp_attr attr = { .qkey = 0x22222222 };
	DO(open_both());
	DO(passes(&here, &there, 1, 1));
	NEED(ibv_modify_qp(there.qp, &attr, IBV_QP_QKEY) == 0);
	NEED(post_receive(&there, 2, GRH + SMALL) == 0);
	NEED(post_send(&here, 2, (struct order){ .to = &there }) == 0); // by the old key
	NEED(post_send(&here, 3, (struct order){ .to = &there, .qkey = 0x22222222 }) == 0);
	DO(is_sent(&here, 2));
	DO(is_sent(&here, 3));
	DO(arrives(&there, 2, &here, 3, SMALL));
	return close_both();
}

static const char *
query(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	DO(open_party(&here));
	NEED(ibv_query_qp(here.qp, &attr, IBV_QP_STATE | IBV_QP_QKEY | IBV_QP_PORT | IBV_QP_CAP, &init) == 0);
	NEED(attr.qp_state == IBV_QPS_RTS && attr.qkey == QKEY && attr.port_num == 1);
	NEED(attr.cap.max_send_wr >= SLOTS && attr.cap.max_recv_wr >= SLOTS);
	NEED(attr.cap.max_send_sge >= 4 && attr.cap.max_recv_sge >= 4 && attr.cap.max_inline_data >= 64);
	NEED(init.qp_type == IBV_QPT_UD && init.send_cq == here.sent && init.recv_cq == here.received);
	NEED(init.srq == NULL);
	return close_party(&here);
}

// --- what is refused ---

static const char *
refuses(enum ibv_wr_opcode opcode)
{
	DO(open_both());
	struct ibv_sge sge = { (uintptr_t)slot(&here, 0), 8, here.mr->lkey };
	struct order order = { .to = &there };
	struct ibv_send_wr *bad = NULL, wr = request(&here, 1, &order, &sge);
	wr.opcode = opcode;
	NEED(ibv_post_send(here.qp, &wr, &bad) == EINVAL && bad == &wr);
	DO(passes(&here, &there, 1, 2));
	return close_both();
}

static const char *
refuses_write(void)
{
	return refuses(IBV_WR_RDMA_WRITE);
}

static const char *
refuses_read(void)
{
	return refuses(IBV_WR_RDMA_READ);
}

static const char *
refuses_atomics(void)
{
	DO(refuses(IBV_WR_ATOMIC_CMP_AND_SWP));
	return refuses(IBV_WR_ATOMIC_FETCH_AND_ADD);
}

static const char *
refuses_handles(void)
{
	struct ibv_ah_attr local = { .port_num = 1,
		.dlid = 1,
		.grh = { .dgid = gid, .sgid_index = gid_index } };
	struct ibv_ah_attr far = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .sgid_index = 255 } };
	struct ibv_ah_attr port = { .is_global = 1,
		.port_num = 2,
		.grh = { .dgid = gid, .sgid_index = gid_index } };
	NEED(ibv_create_ah(pd, &local) == NULL && errno == EINVAL);
	NEED(ibv_create_ah(pd, &far) == NULL);
	NEED(ibv_create_ah(pd, &port) == NULL && errno == EINVAL);
	return NULL;
}

static const char *
foreign_source(void)
{
	DO(open_both());
	struct ibv_sge sge = { (uintptr_t)slot(&here, 0), SMALL, here.mr->lkey ^ 0x5555 };
	struct order order = { .to = &there };
	struct ibv_send_wr *bad, wr = request(&here, 1, &order, &sge);
	NEED(post_receive(&there, 1, GRH + SMALL) == 0);
	NEED(ibv_post_send(here.qp, &wr, &bad) == 0);
	DO(ends_with(here.sent, 1, IBV_WC_LOC_PROT_ERR));
	NEED(to_state(here.qp, IBV_QPS_RESET) == 0);
	DO(to_rts(here.qp));
	NEED(post_send(&here, 2, (struct order){ .to = &there }) == 0);
	DO(is_sent(&here, 2));
	DO(arrives(&there, 1, &here, 2, SMALL));
	return close_both();
}

static const char *
foreign_target(void)
{
	struct ibv_wc wc;
	DO(open_both());
	struct ibv_sge sge = { (uintptr_t)slot(&there, 1), GRH + SMALL, there.mr->lkey ^ 0x5555 };
	struct ibv_recv_wr *bad, wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 };
	memset(slot(&there, 1), GUARD, SLOT);
	NEED(ibv_post_recv(there.qp, &wr, &bad) == 0);
	NEED(post_send(&here, 1, (struct order){ .to = &there }) == 0);
	DO(is_sent(&here, 1)); // the sender does not learn it
	NEED(next(there.received, &wc) && wc.wr_id == 1 && wc.status != IBV_WC_SUCCESS);
	NEED(is_untouched(slot(&there, 1), SLOT));
	return close_both();
}

static const struct {
	const char *name;
	const char *(*run)(void);
} tests[] = {
	{ "payload of 0 bytes", payload_none },
	{ "payload of 1 byte", payload_one },
	{ "payload of an odd number of bytes", payload_odd },
	{ "payload of the port's MTU", payload_mtu },
	{ "receive without a spare byte", exact_receive },
	{ "more than the port's MTU: the send succeeds", too_long_succeeds },
	{ "more than the port's MTU: nothing is sent", too_long_is_not_sent },
	{ "immediate data", immediate_data },
	{ "inline data", inline_data },
	{ "pieces that cross the GRH", pieces },
	{ "unsignaled sends, and a signaled one", unsignaled },
	{ "order of sends", order_of_sends },
	{ "event", event },
	{ "solicited event", solicited },
	{ "another Q_Key is dropped", foreign_key },
	{ "the Q_Key of the sender's queue pair", own_key },
	{ "no receive: dropped", no_receive },
	{ "receive that is too short: dropped", receive_too_short },
	{ "receive that is too short for the GRH: dropped", no_receive_for_grh },
	{ "shared receive that is too short: dropped", shared_too_short },
	{ "to a queue pair that is gone", gone_receiver },
	{ "to itself", itself },
	{ "address handle from a completion", reply },
	{ "two senders, one receiver", two_senders },
	{ "shared receive queue of two queue pairs", shared_receives },
	{ "no sends before RTS", sends_before_rts },
	{ "receives in INIT and RTR", receives_in_init },
	{ "ERR flushes both queues in order", flushes },
	{ "ERR flushes unsignaled sends", flushes_unsignaled },
	{ "ERR flushes receives that are posted later", flushes_late_receives },
	{ "RESET, and used again", reset },
	{ "ERR, RESET, and used again", reset_after_error },
	{ "another Q_Key in RTS", other_key },
	{ "ibv_query_qp", query },
	{ "RDMA WRITE is refused", refuses_write },
	{ "RDMA READ is refused", refuses_read },
	{ "atomics are refused", refuses_atomics },
	{ "address handles that are refused", refuses_handles },
	{ "send from memory with another key", foreign_source },
	{ "receive to memory with another key", foreign_target },
};

static struct ibv_context *
open_named(const char *name)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	for (int i = 0; devices != NULL && devices[i] != NULL; ++i) {
		if (strcmp(ibv_get_device_name(devices[i]), name) == 0)
			return ibv_open_device(devices[i]);
	}
	return NULL;
}

int
main(int argc, char **argv)
{
	struct ibv_port_attr port;
	if (argc != 3)
		return 2;
	gid_index = (uint8_t)atoi(argv[2]);
	device = open_named(argv[1]);
	pd = device != NULL ? ibv_alloc_pd(device) : NULL;
	if (pd == NULL || ibv_query_port(device, 1, &port) != 0 ||
		ibv_query_gid(device, 1, gid_index, &gid) != 0) {
		fputs("no device, or no such GID\n", stderr);
		return 1;
	}
	mtu = 128u << port.active_mtu;
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); ++i) {
		const char *wrong = tests[i].run();
		printf("%s | %s%s\n", tests[i].name,
			wrong == NULL ? "pass" : "fail: ", wrong == NULL ? "" : wrong);
		fflush(stdout);
	}
	return 0;
}
