// SPDX-License-Identifier: BSD-3-Clause
// Copyright the librpma authors

// calls.c -- calls of programs that are not packaged. One test is a loopback of two queue pairs connected by
// hand, as in the tests of the Rust binding. Another follows the backend of libevpl: a parent domain, 31
// SGEs, a shared receive queue that is refilled, depths taken from the connection event. Both sides are in
// this process, with one thread each. The tests of datagrams do what the Rust binding and libevpl's backend of
// datagrams do: to oneself, to a peer, replies to the sender, lists, events, shared receive queues, and a listening id
// whose queue pair answers all requests. Those of endpoints follow rdma_create_ep(3).
//
//	calls <address>		writes "<test> | pass", or "skip: <reason>", "fail: <reason>"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PIECES = 31, PIECE = 64, MESSAGE = PIECES * PIECE, BUFFERS = 8, ROUNDS = 100, RIGHTS = 7 };

static const char *address;
static struct ibv_context *device;

#define NEED(condition) \
	do { \
		if (!(condition)) \
			return #condition; \
	} while (0)

static void
fill(unsigned char *bytes, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; ++i)
		bytes[i] = (unsigned char)(i * 7 + i / 251 + seed);
}

static bool
is_filled(const unsigned char *bytes, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; ++i) {
		if (bytes[i] != (unsigned char)(i * 7 + i / 251 + seed))
			return false;
	}
	return true;
}

// gets the next completion; false if its work request failed, or if none comes within 20 seconds
static bool
completes(struct ibv_cq *cq, struct ibv_wc *wc)
{
	time_t end = time(NULL) + 20;
	while (time(NULL) < end) {
		int n = ibv_poll_cq(cq, 1, wc);
		if (n != 0)
			return n == 1 && wc->status == IBV_WC_SUCCESS;
	}
	return false;
}

// --- queue pairs by hand ---

struct loopback {
	struct ibv_pd *pd;
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	unsigned char memory[2][4096];
	struct ibv_mr *mr[2];
	union ibv_gid gid;
};

static const char *
connect_by_hand(struct loopback *l)
{
	for (int i = 0; i < 2; ++i) {
		struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
			.port_num = 1,
			.qp_access_flags = RIGHTS };
		NEED(ibv_modify_qp(l->qp[i], &init,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	}
	for (int i = 0; i < 2; ++i) {
		struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR,
			.path_mtu = IBV_MTU_1024,
			.dest_qp_num = l->qp[1 - i]->qp_num,
			.max_dest_rd_atomic = 4,
			.min_rnr_timer = 12,
			.ah_attr = { .is_global = 1,
				.port_num = 1,
				.grh = { .dgid = l->gid, .hop_limit = 64 } } };
		NEED(ibv_modify_qp(l->qp[i], &rtr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
		struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
			.timeout = 14,
			.retry_cnt = 7,
			.rnr_retry = 7,
			.max_rd_atomic = 4 };
		NEED(ibv_modify_qp(l->qp[i], &rts,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
	}
	return NULL;
}

static const char *
one_sided(struct loopback *l, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { (uintptr_t)l->memory[0], 4096, l->mr[0]->lkey };
	struct ibv_send_wr *bad,
		wr = { .wr_id = 7,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = opcode,
			.send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;
	wr.wr.rdma.remote_addr = (uintptr_t)l->memory[1];
	wr.wr.rdma.rkey = l->mr[1]->rkey;
	NEED(ibv_post_send(l->qp[0], &wr, &bad) == 0);
	NEED(completes(l->cq[0], &wc) && wc.wr_id == 7);
	return NULL;
}

static const char *
loopback_moves(struct loopback *l)
{
	fill(l->memory[0], 4096, 1);
	memset(l->memory[1], 0, 4096);
	const char *wrong = one_sided(l, IBV_WR_RDMA_WRITE);
	NEED(wrong == NULL);
	NEED(is_filled(l->memory[1], 4096, 1));
	fill(l->memory[1], 4096, 2);
	wrong = one_sided(l, IBV_WR_RDMA_READ);
	NEED(wrong == NULL);
	NEED(is_filled(l->memory[0], 4096, 2));
	return NULL;
}

static const char *
loopback_messages(struct loopback *l)
{
	for (unsigned int round = 0; round < ROUNDS; ++round) {
		struct ibv_sge to = { (uintptr_t)l->memory[1], 4096, l->mr[1]->lkey };
		struct ibv_sge from = { (uintptr_t)l->memory[0], 1000, l->mr[0]->lkey };
		struct ibv_recv_wr *bad_recv, recv = { .wr_id = round, .sg_list = &to, .num_sge = 1 };
		struct ibv_send_wr *bad,
			send = { .wr_id = round,
				.sg_list = &from,
				.num_sge = 1,
				.opcode = IBV_WR_SEND_WITH_IMM,
				.send_flags = IBV_SEND_SIGNALED,
				.imm_data = htonl(round) };
		struct ibv_wc wc;
		fill(l->memory[0], 1000, round);
		NEED(ibv_post_recv(l->qp[1], &recv, &bad_recv) == 0);
		NEED(ibv_post_send(l->qp[0], &send, &bad) == 0);
		NEED(completes(l->cq[0], &wc) && wc.wr_id == round);
		NEED(completes(l->cq[1], &wc) && wc.wr_id == round && wc.byte_len == 1000 &&
			ntohl(wc.imm_data) == round);
		NEED(is_filled(l->memory[1], 1000, round));
	}
	return NULL;
}

static const char *
loopback(void)
{
	static struct loopback l;
	l.pd = ibv_alloc_pd(device);
	NEED(l.pd != NULL);
	NEED(ibv_query_gid(device, 1, 0, &l.gid) == 0);
	for (int i = 0; i < 2; ++i) {
		l.cq[i] = ibv_create_cq(device, 64, NULL, NULL, 0);
		NEED(l.cq[i] != NULL);
		struct ibv_qp_init_attr attr = { .send_cq = l.cq[i],
			.recv_cq = l.cq[i],
			.qp_type = IBV_QPT_RC,
			.cap = { 16, 16, 4, 4, 0 } };
		l.qp[i] = ibv_create_qp(l.pd, &attr);
		NEED(l.qp[i] != NULL);
		l.mr[i] = ibv_reg_mr(l.pd, l.memory[i], 4096, RIGHTS);
		NEED(l.mr[i] != NULL);
	}
	const char *wrong = connect_by_hand(&l);
	wrong = wrong != NULL ? wrong : loopback_moves(&l);
	wrong = wrong != NULL ? wrong : loopback_messages(&l);
	for (int i = 0; i < 2; ++i) {
		NEED(ibv_destroy_qp(l.qp[i]) == 0);
		NEED(ibv_dereg_mr(l.mr[i]) == 0);
		NEED(ibv_destroy_cq(l.cq[i]) == 0);
	}
	NEED(ibv_dealloc_pd(l.pd) == 0);
	return wrong;
}

static const char *
mapped_gid(void)
{
	union ibv_gid wanted = { .raw = { [10] = 0xff, [11] = 0xff } }, gid;
	NEED(inet_pton(AF_INET, address, wanted.raw + 12) == 1);
	for (int i = 0; ibv_query_gid(device, 1, i, &gid) == 0; ++i) {
		if (memcmp(&gid, &wanted, sizeof(gid)) == 0)
			return NULL;
	}
	return "no GID is this machine's IPv4 address";
}

// --- datagrams ---

enum { GRH = 40, LENGTH = 1000, LONGEST = 4096, SLOT = GRH + LONGEST, SLOTS = 32, QKEY = 0x11111111 };

// a queue pair of datagrams with what it needs; receives go to slots, sends come from one of them
struct party {
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel; // NULL: the completions are polled
	struct ibv_cq *cq;
	struct ibv_srq *srq; // NULL: the queue pair has its own receives
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_ah *ah; // to the device's own GID
	unsigned char memory[SLOTS * SLOT];
};

enum equipment { POLLED = 0, WITH_EVENTS = 1, WITH_SRQ = 2 };

static unsigned char *
slot(struct party *p, unsigned int i)
{
	return p->memory + (size_t)i * SLOT;
}

static const char *
ready(struct party *p)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY },
			   rtr = { .qp_state = IBV_QPS_RTR }, rts = { .qp_state = IBV_QPS_RTS };
	NEED(ibv_modify_qp(p->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	NEED(ibv_modify_qp(p->qp, &rtr, IBV_QP_STATE) == 0);
	NEED(ibv_modify_qp(p->qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
	return NULL;
}

static const char *
open_party(struct party *p, enum equipment with)
{
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 64 } };
	memset(p, 0, sizeof(*p));
	p->pd = ibv_alloc_pd(device);
	NEED(p->pd != NULL);
	if (with & WITH_EVENTS) {
		p->channel = ibv_create_comp_channel(device);
		NEED(p->channel != NULL);
	}
	p->cq = ibv_create_cq(device, 4 * SLOTS, NULL, p->channel, 0);
	NEED(p->cq != NULL);
	if (with & WITH_SRQ) {
		struct ibv_srq_init_attr srq = { .attr = { .max_wr = SLOTS, .max_sge = 2 } };
		p->srq = ibv_create_srq(p->pd, &srq);
		NEED(p->srq != NULL);
	}
	struct ibv_qp_init_attr attr = { .send_cq = p->cq,
		.recv_cq = p->cq,
		.srq = p->srq,
		.qp_type = IBV_QPT_UD,
		.cap = { SLOTS, SLOTS, 2, 2, 64 } };
	p->qp = ibv_create_qp(p->pd, &attr);
	NEED(p->qp != NULL);
	p->mr = ibv_reg_mr(p->pd, p->memory, sizeof(p->memory), IBV_ACCESS_LOCAL_WRITE);
	NEED(p->mr != NULL);
	NEED(ibv_query_gid(device, 1, 0, &to.grh.dgid) == 0);
	p->ah = ibv_create_ah(p->pd, &to);
	NEED(p->ah != NULL);
	return ready(p);
}

static const char *
close_party(struct party *p)
{
	NEED(ibv_destroy_ah(p->ah) == 0);
	NEED(ibv_destroy_qp(p->qp) == 0);
	NEED(p->srq == NULL || ibv_destroy_srq(p->srq) == 0);
	NEED(ibv_destroy_cq(p->cq) == 0);
	NEED(p->channel == NULL || ibv_destroy_comp_channel(p->channel) == 0);
	NEED(ibv_dereg_mr(p->mr) == 0);
	NEED(ibv_dealloc_pd(p->pd) == 0);
	return NULL;
}

// the receives of a list of slots, in one call
static const char *
post_receives(struct party *p, unsigned int first, unsigned int count)
{
	struct ibv_sge sges[SLOTS];
	struct ibv_recv_wr *bad, wrs[SLOTS];
	for (unsigned int i = 0; i < count; ++i) {
		memset(slot(p, first + i), 0, SLOT);
		sges[i] = (struct ibv_sge){ (uintptr_t)slot(p, first + i), SLOT, p->mr->lkey };
		wrs[i] = (struct ibv_recv_wr){ .wr_id = first + i,
			.next = i + 1 < count ? &wrs[i + 1] : NULL,
			.sg_list = &sges[i],
			.num_sge = 1 };
	}
	NEED((p->srq != NULL ? ibv_post_srq_recv(p->srq, wrs, &bad) : ibv_post_recv(p->qp, wrs, &bad)) == 0);
	return NULL;
}

// one datagram of LENGTH bytes from a slot, in two pieces; its immediate data are the seed of its content
static const char *
send_datagram(struct party *p, unsigned int from, struct ibv_ah *ah, uint32_t to, uint32_t qkey,
	unsigned int seed)
{
	struct ibv_sge sges[2] = { { (uintptr_t)slot(p, from), 300, p->mr->lkey },
		{ (uintptr_t)slot(p, from) + 300, LENGTH - 300, p->mr->lkey } };
	struct ibv_send_wr *bad,
		wr = { .wr_id = 100 + seed,
			.sg_list = sges,
			.num_sge = 2,
			.opcode = IBV_WR_SEND_WITH_IMM,
			.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED,
			.imm_data = htonl(seed),
			.wr = { .ud = { .ah = ah, .remote_qpn = to, .remote_qkey = qkey } } };
	fill(slot(p, from), LENGTH, seed);
	NEED(ibv_post_send(p->qp, &wr, &bad) == 0);
	return NULL;
}

// a datagram that send_datagram() sent is in this slot
static const char *
has_come(struct party *p, const struct ibv_wc *wc, unsigned int in, const struct party *from,
	unsigned int seed)
{
	NEED(wc->opcode == IBV_WC_RECV && wc->wr_id == in && wc->qp_num == p->qp->qp_num);
	NEED(wc->byte_len == GRH + LENGTH && (wc->wc_flags & IBV_WC_GRH));
	NEED((wc->wc_flags & IBV_WC_WITH_IMM) && ntohl(wc->imm_data) == seed);
	NEED(wc->src_qp == from->qp->qp_num);
	NEED(is_filled(slot(p, in) + GRH, LENGTH, seed));
	return NULL;
}

// the completion of a send, and that of its receive, come to the same queue in any order
static const char *
to_oneself(void)
{
	static struct party p;
	const char *wrong = open_party(&p, POLLED);
	NEED(wrong == NULL);
	for (unsigned int round = 0; round < ROUNDS; ++round) {
		NEED(post_receives(&p, 1, 1) == NULL);
		NEED(send_datagram(&p, 0, p.ah, p.qp->qp_num, QKEY, round) == NULL);
		for (int i = 0; i < 2; ++i) {
			struct ibv_wc wc;
			NEED(completes(p.cq, &wc));
			if (wc.opcode == IBV_WC_SEND)
				NEED(wc.wr_id == 100 + round);
			else
				wrong = has_come(&p, &wc, 1, &p, round);
			NEED(wrong == NULL);
		}
	}
	return close_party(&p);
}

static struct party here, there;

static const char *
open_both(enum equipment with)
{
	const char *wrong = open_party(&here, with);
	return wrong != NULL ? wrong : open_party(&there, with);
}

static const char *
close_both(void)
{
	const char *wrong = close_party(&here);
	return wrong != NULL ? wrong : close_party(&there);
}

// the reply goes where the completion and the GRH of the request say
static const char *
reply(unsigned int round)
{
	struct ibv_wc wc;
	NEED(completes(there.cq, &wc));
	const char *wrong = has_come(&there, &wc, 1, &here, round);
	NEED(wrong == NULL);
	struct ibv_ah *back =
		ibv_create_ah_from_wc(there.pd, &wc, (struct ibv_grh *)(void *)slot(&there, 1), 1);
	NEED(back != NULL);
	NEED(send_datagram(&there, 0, back, wc.src_qp, QKEY, round + 1) == NULL);
	NEED(completes(there.cq, &wc) && wc.opcode == IBV_WC_SEND);
	NEED(ibv_destroy_ah(back) == 0);
	return NULL;
}

static const char *
to_a_peer(void)
{
	const char *wrong = open_both(POLLED);
	NEED(wrong == NULL);
	for (unsigned int round = 0; round < ROUNDS; ++round) {
		struct ibv_wc wc;
		NEED(post_receives(&here, 1, 1) == NULL && post_receives(&there, 1, 1) == NULL);
		NEED(send_datagram(&here, 0, here.ah, there.qp->qp_num, QKEY, round) == NULL);
		NEED(completes(here.cq, &wc) && wc.opcode == IBV_WC_SEND);
		wrong = reply(round);
		NEED(wrong == NULL);
		NEED(completes(here.cq, &wc));
		wrong = has_come(&here, &wc, 1, &there, round + 1);
		NEED(wrong == NULL);
	}
	return close_both();
}

// one call sends datagrams of all lengths to both, in turn; only the last one has a completion
static const char *
send_list(unsigned int count)
{
	struct ibv_sge sges[SLOTS];
	struct ibv_send_wr *bad, wrs[SLOTS];
	struct ibv_wc wc;
	for (unsigned int i = 0; i < count; ++i) {
		const uint32_t length = i * LONGEST / (count - 1); // 0 to LONGEST
		fill(slot(&here, i), length, i);
		sges[i] = (struct ibv_sge){ (uintptr_t)slot(&here, i), length, here.mr->lkey };
		wrs[i] = (struct ibv_send_wr){ .wr_id = i,
			.next = i + 1 < count ? &wrs[i + 1] : NULL,
			.sg_list = &sges[i],
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = i + 1 < count ? 0 : IBV_SEND_SIGNALED,
			.wr = { .ud = { .ah = here.ah,
					.remote_qpn = (i % 2 ? &there : &here)->qp->qp_num,
					.remote_qkey = QKEY } } };
	}
	NEED(ibv_post_send(here.qp, wrs, &bad) == 0);
	bool sent = false;
	// the even ones come back; their slots follow those of the sends
	for (unsigned int come = 0; come < count / 2 || !sent;) {
		NEED(completes(here.cq, &wc));
		if (wc.opcode == IBV_WC_SEND) {
			NEED(wc.wr_id == count - 1 && !sent);
			sent = true;
			continue;
		}
		const unsigned int length = 2 * come * LONGEST / (count - 1);
		NEED(wc.wr_id == count + come && wc.byte_len == GRH + length);
		NEED(!(wc.wc_flags & IBV_WC_WITH_IMM) && wc.src_qp == here.qp->qp_num);
		NEED(is_filled(slot(&here, count + come) + GRH, length, 2 * come));
		++come;
	}
	return NULL;
}

static const char no_long_datagrams[] = "the port has no datagrams of 4096 bytes";

static const char *
lists(void)
{
	enum { COUNT = 16 };
	struct ibv_port_attr port;
	NEED(ibv_query_port(device, 1, &port) == 0);
	if (port.active_mtu < IBV_MTU_4096)
		return no_long_datagrams;
	const char *wrong = open_both(POLLED);
	NEED(wrong == NULL);
	for (unsigned int round = 0; round < ROUNDS; ++round) {
		NEED(post_receives(&here, COUNT, COUNT / 2) == NULL);
		NEED(post_receives(&there, COUNT, COUNT / 2) == NULL);
		wrong = send_list(COUNT);
		NEED(wrong == NULL);
		for (unsigned int i = 0; i < COUNT / 2; ++i) {
			struct ibv_wc wc;
			const unsigned int sent = 2 * i + 1, length = sent * LONGEST / (COUNT - 1);
			NEED(completes(there.cq, &wc) && wc.wr_id == COUNT + i);
			NEED(wc.byte_len == GRH + length && wc.src_qp == here.qp->qp_num);
			NEED(is_filled(slot(&there, COUNT + i) + GRH, length, sent));
		}
	}
	return close_both();
}

// the datagram with another Q_Key takes no receive, and the next one gets it
static const char *
foreign_key(void)
{
	struct ibv_wc wc;
	const char *wrong = open_both(POLLED);
	NEED(wrong == NULL);
	NEED(post_receives(&there, 1, 1) == NULL);
	NEED(send_datagram(&here, 0, here.ah, there.qp->qp_num, QKEY + 1, 1) == NULL);
	NEED(send_datagram(&here, 1, here.ah, there.qp->qp_num, QKEY, 2) == NULL);
	NEED(completes(here.cq, &wc) && completes(here.cq, &wc)); // neither send fails
	NEED(completes(there.cq, &wc));
	wrong = has_come(&there, &wc, 1, &here, 2);
	NEED(wrong == NULL);
	return close_both();
}

// waits for the next completion by its event
static const char *
get_event(struct party *p, struct ibv_wc *wc)
{
	struct ibv_cq *cq;
	void *context;
	NEED(ibv_get_cq_event(p->channel, &cq, &context) == 0 && cq == p->cq);
	ibv_ack_cq_events(cq, 1);
	NEED(completes(cq, wc));
	return NULL;
}

static const char *
datagram_events(void)
{
	const char *wrong = open_both(WITH_EVENTS);
	NEED(wrong == NULL);
	for (unsigned int round = 0; round < ROUNDS; ++round) {
		struct ibv_wc wc;
		NEED(ibv_req_notify_cq(there.cq, 1) == 0);
		NEED(ibv_req_notify_cq(here.cq, 0) == 0);
		NEED(post_receives(&there, 1, 1) == NULL);
		NEED(send_datagram(&here, 0, here.ah, there.qp->qp_num, QKEY, round) == NULL);
		wrong = get_event(&here, &wc);
		NEED(wrong == NULL && wc.opcode == IBV_WC_SEND);
		wrong = get_event(&there, &wc);
		NEED(wrong == NULL);
		wrong = has_come(&there, &wc, 1, &here, round);
		NEED(wrong == NULL);
	}
	return close_both();
}

// UCX asks for an event and sleeps, without a look at the queue in between. ConnectX gives the event at once if a
// completion waits already
static const char *
event_of_the_past(void)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;
	const char *wrong = open_both(WITH_EVENTS);
	NEED(wrong == NULL);
	NEED(ibv_req_notify_cq(there.cq, 0) == 0);
	NEED(post_receives(&there, 1, 1) == NULL);
	NEED(send_datagram(&here, 0, here.ah, there.qp->qp_num, QKEY, 1) == NULL);
	NEED(completes(here.cq, &wc));
	NEED(ibv_get_cq_event(there.channel, &cq, &context) == 0);
	ibv_ack_cq_events(cq, 1);
	// the completion is there, and is not taken
	struct pollfd waits = { .fd = there.channel->fd, .events = POLLIN };
	NEED(ibv_req_notify_cq(there.cq, 0) == 0);
	const bool comes = poll(&waits, 1, 0) == 1;
	if (comes) {
		NEED(ibv_get_cq_event(there.channel, &cq, &context) == 0);
		ibv_ack_cq_events(cq, 1);
	}
	NEED(completes(there.cq, &wc));
	wrong = close_both();
	return wrong != NULL || comes ? wrong : "no event";
}

static const char *
shared_receives(void)
{
	const char *wrong = open_both(WITH_SRQ);
	NEED(wrong == NULL);
	NEED(post_receives(&there, 1, 8) == NULL);
	for (unsigned int round = 0; round < ROUNDS; ++round) {
		struct ibv_wc wc;
		const unsigned int next = 1 + round % 8;
		NEED(send_datagram(&here, 0, here.ah, there.qp->qp_num, QKEY, round) == NULL);
		NEED(completes(here.cq, &wc) && wc.opcode == IBV_WC_SEND);
		NEED(completes(there.cq, &wc));
		wrong = has_come(&there, &wc, next, &here, round);
		NEED(wrong == NULL);
		NEED(post_receives(&there, next, 1) == NULL);
	}
	return close_both();
}

// UCX asks for the events of each context of its own; OpenMPI has two of them
static const char *
two_contexts(void)
{
	struct ibv_context *other = ibv_open_device(device->device);
	NEED(other != NULL);
	const bool own_events = other->async_fd != device->async_fd;
	NEED(ibv_close_device(other) == 0);
	NEED(own_events);
	return NULL;
}

// --- the connection manager: one side listens, the other connects ---

struct domain {
	struct ibv_td *td;
	struct ibv_pd *pd, *parent;
};

// if the device has no thread domains, a protection domain replaces the parent domain
static const char *
make_domain(struct ibv_context *verbs, struct domain *d)
{
	struct ibv_td_init_attr td_attr = { 0 };
	d->pd = ibv_alloc_pd(verbs);
	NEED(d->pd != NULL);
	errno = 0;
	d->td = ibv_alloc_td(verbs, &td_attr);
	if (d->td == NULL && errno == EOPNOTSUPP) {
		d->parent = d->pd;
		return NULL;
	}
	NEED(d->td != NULL);
	struct ibv_parent_domain_init_attr attr = { .pd = d->pd, .td = d->td };
	d->parent = ibv_alloc_parent_domain(verbs, &attr);
	NEED(d->parent != NULL);
	return NULL;
}

static const char *
free_domain(struct domain *d)
{
	if (d->td != NULL)
		NEED(ibv_dealloc_pd(d->parent) == 0);
	NEED(ibv_dealloc_pd(d->pd) == 0);
	if (d->td != NULL)
		NEED(ibv_dealloc_td(d->td) == 0);
	return NULL;
}

static const char no_domains[] = "the device has no thread domains";

static const char *
domains(void)
{
	struct domain d = { 0 };
	const char *wrong = make_domain(device, &d);
	bool have = d.td != NULL;
	wrong = wrong != NULL ? wrong : free_domain(&d);
	return wrong != NULL || have ? wrong : no_domains;
}

struct side {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct domain domain;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	unsigned char *memory; // BUFFERS of MESSAGE bytes
};

static bool
event(struct side *s, enum rdma_cm_event_type type, struct rdma_cm_event *copy)
{
	struct rdma_cm_event *event;
	if (rdma_get_cm_event(s->channel, &event) != 0)
		return false;
	bool good = event->event == type;
	*copy = *event;
	rdma_ack_cm_event(event);
	return good;
}

static const char *
post_to_srq(struct side *s, unsigned int buffer)
{
	struct ibv_sge pieces[PIECES];
	for (unsigned int i = 0; i < PIECES; ++i)
		pieces[i] = (struct ibv_sge){ (uintptr_t)(s->memory + buffer * MESSAGE + i * PIECE), PIECE,
			s->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = buffer, .sg_list = pieces, .num_sge = PIECES };
	NEED(ibv_post_srq_recv(s->srq, &wr, &bad) == 0);
	return NULL;
}

// makes everything that a queue pair needs, in a parent domain, without asking how many SGEs are allowed
static const char *
equip(struct side *s)
{
	const char *wrong = make_domain(s->id->verbs, &s->domain);
	NEED(wrong == NULL);
	s->memory = calloc(BUFFERS, MESSAGE);
	NEED(s->memory != NULL);
	s->mr = ibv_reg_mr(s->domain.parent, s->memory, (size_t)BUFFERS * MESSAGE, RIGHTS);
	NEED(s->mr != NULL);
	s->cq = ibv_create_cq(s->id->verbs, 64, NULL, NULL, 0);
	NEED(s->cq != NULL);
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = BUFFERS, .max_sge = PIECES } };
	s->srq = ibv_create_srq(s->domain.parent, &srq);
	NEED(s->srq != NULL);
	struct ibv_qp_init_attr attr = { .send_cq = s->cq,
		.recv_cq = s->cq,
		.srq = s->srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_send_sge = PIECES } };
	NEED(rdma_create_qp(s->id, s->domain.parent, &attr) == 0);
	return NULL;
}

static const char *
strip(struct side *s)
{
	rdma_destroy_qp(s->id);
	NEED(ibv_destroy_srq(s->srq) == 0);
	NEED(ibv_destroy_cq(s->cq) == 0);
	NEED(ibv_dereg_mr(s->mr) == 0);
	free(s->memory);
	NEED(free_domain(&s->domain) == NULL);
	NEED(rdma_destroy_id(s->id) == 0);
	rdma_destroy_event_channel(s->channel);
	return NULL;
}

static struct side passive, active;
static struct rdma_cm_id *listener;

// the event has the numbers of reads that may be in flight: 3 that this side answers, 16 that it may send
static const char *
answer(void)
{
	struct rdma_cm_event request;
	NEED(event(&passive, RDMA_CM_EVENT_CONNECT_REQUEST, &request));
	passive.id = request.id;
	NEED(request.param.conn.responder_resources == 3 && request.param.conn.initiator_depth == 16);
	const char *wrong = equip(&passive);
	if (wrong != NULL)
		return wrong;
	for (unsigned int i = 0; i < BUFFERS; ++i)
		NEED(post_to_srq(&passive, i) == NULL);
	struct rdma_conn_param param = { .responder_resources = 2,
		.initiator_depth = 9,
		.rnr_retry_count = 7 };
	NEED(rdma_accept(passive.id, &param) == 0);
	NEED(event(&passive, RDMA_CM_EVENT_ESTABLISHED, &request));
	for (unsigned int round = 0; round < ROUNDS; ++round) {
		struct ibv_wc wc;
		NEED(completes(passive.cq, &wc) && wc.opcode == IBV_WC_RECV && wc.byte_len == MESSAGE);
		NEED(is_filled(passive.memory + wc.wr_id * MESSAGE, MESSAGE, round));
		memset(passive.memory + wc.wr_id * MESSAGE, 0, MESSAGE);
		NEED(post_to_srq(&passive, (unsigned int)wc.wr_id) == NULL);
	}
	NEED(event(&passive, RDMA_CM_EVENT_DISCONNECTED, &request));
	return NULL;
}

static void *
run_passive(void *unused)
{
	(void)unused;
	return (void *)answer();
}

static const char *
send_all(void)
{
	for (unsigned int round = 0; round < ROUNDS; ++round) {
		struct ibv_sge pieces[PIECES];
		struct ibv_wc wc;
		fill(active.memory, MESSAGE, round);
		for (unsigned int i = 0; i < PIECES; ++i)
			pieces[i] = (struct ibv_sge){ (uintptr_t)(active.memory + i * PIECE), PIECE,
				active.mr->lkey };
		struct ibv_send_wr *bad,
			wr = { .wr_id = round,
				.sg_list = pieces,
				.num_sge = PIECES,
				.opcode = IBV_WR_SEND,
				.send_flags = IBV_SEND_SIGNALED };
		NEED(ibv_post_send(active.id->qp, &wr, &bad) == 0);
		NEED(completes(active.cq, &wc) && wc.wr_id == round);
	}
	return NULL;
}

static const char *
call(struct sockaddr *to)
{
	struct rdma_cm_event seen;
	active.channel = rdma_create_event_channel();
	NEED(active.channel != NULL);
	NEED(rdma_create_id(active.channel, &active.id, NULL, RDMA_PS_TCP) == 0);
	NEED(rdma_resolve_addr(active.id, NULL, to, 2000) == 0);
	NEED(event(&active, RDMA_CM_EVENT_ADDR_RESOLVED, &seen));
	NEED(rdma_resolve_route(active.id, 2000) == 0);
	NEED(event(&active, RDMA_CM_EVENT_ROUTE_RESOLVED, &seen));
	const char *wrong = equip(&active);
	if (wrong != NULL)
		return wrong;
	struct rdma_conn_param param = { .responder_resources = 16,
		.initiator_depth = 3,
		.retry_count = 7,
		.rnr_retry_count = 7 };
	NEED(rdma_connect(active.id, &param) == 0);
	NEED(event(&active, RDMA_CM_EVENT_ESTABLISHED, &seen));
	NEED(seen.param.conn.responder_resources == 9 && seen.param.conn.initiator_depth == 2);
	wrong = send_all();
	if (wrong != NULL)
		return wrong;
	NEED(rdma_disconnect(active.id) == 0);
	return NULL;
}

static const char *
connection(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	pthread_t thread;
	void *wrong_there;
	NEED(inet_pton(AF_INET, address, &at.sin_addr) == 1);
	passive.channel = rdma_create_event_channel();
	NEED(passive.channel != NULL);
	NEED(rdma_create_id(passive.channel, &listener, NULL, RDMA_PS_TCP) == 0);
	NEED(rdma_bind_addr(listener, (struct sockaddr *)&at) == 0);
	NEED(rdma_listen(listener, 4) == 0);
	at.sin_port = rdma_get_src_port(listener);
	NEED(pthread_create(&thread, NULL, run_passive, NULL) == 0);
	const char *wrong = call((struct sockaddr *)&at);
	if (wrong != NULL)
		return wrong; // the other side may wait for ever: the end of the process ends its thread
	NEED(pthread_join(thread, &wrong_there) == 0);
	if (wrong_there != NULL)
		return wrong_there;
	NEED(strip(&active) == NULL);
	NEED(rdma_destroy_id(listener) == 0);
	NEED(strip(&passive) == NULL);
	return NULL;
}

// --- ids of datagrams ---

struct endpoint {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	unsigned char received[GRH + LENGTH], sent[LENGTH];
	struct ibv_mr *sent_mr;
};

// of either side; it makes its own completion queues
static const struct ibv_qp_init_attr endpoint_attr = { .qp_type = IBV_QPT_UD,
	.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	.sq_sig_all = 1 };

static const char *
create_endpoint(struct rdma_cm_id **id, const char *port, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags,
		.ai_qp_type = IBV_QPT_UD,
		.ai_port_space = RDMA_PS_UDP },
			     *found;
	struct ibv_qp_init_attr attr = endpoint_attr;
	NEED(rdma_getaddrinfo(address, port, &hints, &found) == 0);
	NEED(found->ai_port_space == RDMA_PS_UDP && found->ai_qp_type == IBV_QPT_UD);
	NEED(rdma_create_ep(id, found, NULL, &attr) == 0);
	rdma_freeaddrinfo(found);
	return NULL;
}

// memory, and a receive in it
static const char *
equip_endpoint(struct endpoint *e)
{
	NEED(e->id->qp != NULL && e->id->qp->qp_type == IBV_QPT_UD);
	e->mr = rdma_reg_msgs(e->id, e->received, sizeof(e->received));
	e->sent_mr = rdma_reg_msgs(e->id, e->sent, sizeof(e->sent));
	NEED(e->mr != NULL && e->sent_mr != NULL);
	memset(e->received, 0, sizeof(e->received));
	NEED(rdma_post_recv(e->id, NULL, e->received, sizeof(e->received), e->mr) == 0);
	return NULL;
}

static const char *
destroy_endpoint(struct endpoint *e)
{
	NEED(rdma_dereg_mr(e->mr) == 0 && rdma_dereg_mr(e->sent_mr) == 0);
	rdma_destroy_ep(e->id);
	return NULL;
}

// the connection manager of the kernel fills the private data up with zeros
static bool
says(const struct rdma_ud_param *param, const char *text)
{
	return param->private_data_len >= strlen(text) &&
		memcmp(param->private_data, text, strlen(text)) == 0;
}

static const char *
send_by_id(struct endpoint *e, struct ibv_ah *ah, uint32_t to, unsigned int seed)
{
	struct ibv_wc wc;
	fill(e->sent, LENGTH, seed);
	NEED(rdma_post_ud_send(e->id, NULL, e->sent, LENGTH, e->sent_mr, 0, ah, to) == 0);
	NEED(completes(e->id->send_cq, &wc) && wc.opcode == IBV_WC_SEND);
	return NULL;
}

static const char *
receive_by_id(struct endpoint *e, unsigned int seed, struct ibv_wc *wc)
{
	NEED(completes(e->id->recv_cq, wc));
	NEED(wc->byte_len == GRH + LENGTH && (wc->wc_flags & IBV_WC_GRH));
	NEED(is_filled(e->received + GRH, LENGTH, seed));
	return NULL;
}

static struct rdma_cm_id *listening;

static const char *
answer_datagrams(void)
{
	static struct endpoint e;
	struct ibv_wc wc;
	NEED(rdma_get_request(listening, &e.id) == 0);
	NEED(says(&e.id->event->param.ud, "first"));
	NEED(rdma_reject(e.id, "not now", 7) == 0);
	rdma_destroy_ep(e.id);
	NEED(rdma_get_request(listening, &e.id) == 0);
	NEED(says(&e.id->event->param.ud, "second"));
	const char *wrong = equip_endpoint(&e);
	NEED(wrong == NULL);
	struct rdma_conn_param param = { .private_data = "come", .private_data_len = 4 };
	NEED(rdma_accept(e.id, &param) == 0);
	wrong = receive_by_id(&e, 1, &wc);
	NEED(wrong == NULL);
	struct ibv_ah *back = ibv_create_ah_from_wc(e.id->pd, &wc, (struct ibv_grh *)(void *)e.received, 1);
	NEED(back != NULL);
	wrong = send_by_id(&e, back, wc.src_qp, 2);
	NEED(wrong == NULL);
	NEED(ibv_destroy_ah(back) == 0);
	return destroy_endpoint(&e);
}

static void *
run_answer(void *unused)
{
	(void)unused;
	const char *wrong = answer_datagrams();
	if (wrong != NULL) { // the other side would wait for the answer for ever
		fprintf(stderr, "the answering endpoint: %s\n", wrong);
		exit(1);
	}
	return NULL;
}

static const char *
ask_in_vain(const char *port)
{
	struct rdma_conn_param param = { .private_data = "first", .private_data_len = 5 };
	struct rdma_cm_id *id;
	const char *wrong = create_endpoint(&id, port, 0);
	if (wrong != NULL)
		return wrong;
	NEED(rdma_connect(id, &param) == -1);
	// 2: the program on the other side has rejected it
	NEED(id->event != NULL && id->event->event == RDMA_CM_EVENT_UNREACHABLE && id->event->status == 2);
	NEED(says(&id->event->param.ud, "not now"));
	rdma_destroy_ep(id);
	return NULL;
}

static const char *
ask(const char *port)
{
	static struct endpoint e;
	struct rdma_conn_param param = { .private_data = "second", .private_data_len = 6 };
	struct ibv_wc wc;
	const char *wrong = create_endpoint(&e.id, port, 0);
	wrong = wrong != NULL ? wrong : equip_endpoint(&e);
	if (wrong != NULL)
		return wrong;
	NEED(rdma_connect(e.id, &param) == 0);
	NEED(e.id->event != NULL && e.id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	struct rdma_ud_param server = e.id->event->param.ud;
	NEED(says(&server, "come") && server.qkey == RDMA_UDP_QKEY);
	struct ibv_ah *ah = ibv_create_ah(e.id->pd, &server.ah_attr);
	NEED(ah != NULL);
	wrong = send_by_id(&e, ah, server.qp_num, 1);
	wrong = wrong != NULL ? wrong : receive_by_id(&e, 2, &wc);
	if (wrong != NULL)
		return wrong;
	NEED(wc.src_qp == server.qp_num);
	NEED(ibv_destroy_ah(ah) == 0);
	return destroy_endpoint(&e);
}

// calls without events, one side in a thread
static const char *
datagram_endpoints(void)
{
	char port[6];
	pthread_t thread;
	const char *wrong = create_endpoint(&listening, NULL, RAI_PASSIVE);
	if (wrong != NULL)
		return wrong;
	NEED(rdma_listen(listening, 4) == 0);
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(listening)));
	NEED(pthread_create(&thread, NULL, run_answer, NULL) == 0);
	wrong = ask_in_vain(port);
	wrong = wrong != NULL ? wrong : ask(port);
	if (wrong != NULL)
		return wrong; // the other side may wait for ever: the end of the process ends its thread
	NEED(pthread_join(thread, NULL) == 0);
	rdma_destroy_ep(listening);
	return NULL;
}

// libevpl: one id listens, has the queue pair by which all is sent and received, and lends it to the id of each request.
// Ids without a queue pair ask for addresses. All events come by one channel, to one thread
struct station {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	unsigned char memory[2][GRH + LENGTH];
};

static const char *
open_station(struct station *s, struct sockaddr_in *at)
{
	NEED(inet_pton(AF_INET, address, &at->sin_addr) == 1);
	s->channel = rdma_create_event_channel();
	NEED(s->channel != NULL);
	NEED(rdma_create_id(s->channel, &s->id, s, RDMA_PS_UDP) == 0);
	NEED(rdma_bind_addr(s->id, (struct sockaddr *)at) == 0);
	s->pd = ibv_alloc_pd(s->id->verbs);
	s->cq = ibv_create_cq(s->id->verbs, 64, NULL, NULL, 0);
	NEED(s->pd != NULL && s->cq != NULL);
	s->mr = ibv_reg_mr(s->pd, s->memory, sizeof(s->memory), IBV_ACCESS_LOCAL_WRITE);
	NEED(s->mr != NULL);
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_UD,
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.pd = s->pd,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2 },
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS };
	NEED(rdma_create_qp_ex(s->id, &attr) == 0);
	NEED(rdma_listen(s->id, 16) == 0);
	at->sin_port = rdma_get_src_port(s->id);
	return NULL;
}

static const char *
lend_qp(struct station *s, struct rdma_cm_event *event)
{
	struct rdma_conn_param param = { 0 };
	NEED(event->listen_id == s->id && event->id->context == s);
	event->id->qp = s->id->qp;
	NEED(rdma_accept(event->id, &param) == 0);
	event->id->qp = NULL;
	return NULL;
}

// gives where to send; the request's id, which nothing more comes to, ends
static const char *
resolve(struct station *s, struct sockaddr_in *to, struct rdma_ud_param *found)
{
	struct rdma_conn_param param = { 0 };
	struct rdma_cm_id *asking, *answering = NULL;
	bool done = false;
	NEED(rdma_create_id(s->channel, &asking, s, RDMA_PS_UDP) == 0);
	NEED(rdma_resolve_addr(asking, NULL, (struct sockaddr *)to, 2000) == 0);
	while (!done) {
		struct rdma_cm_event *event;
		const char *wrong = NULL;
		NEED(rdma_get_cm_event(s->channel, &event) == 0);
		switch (event->event) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			NEED(event->id == asking && rdma_resolve_route(asking, 2000) == 0);
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			NEED(event->id == asking && rdma_connect(asking, &param) == 0);
			break;
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			NEED(answering == NULL);
			answering = event->id;
			wrong = lend_qp(s, event);
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			NEED(event->id == asking);
			*found = event->param.ud;
			done = true;
			break;
		default:
			wrong = rdma_event_str(event->event);
		}
		NEED(rdma_ack_cm_event(event) == 0);
		if (wrong != NULL)
			return wrong;
	}
	NEED(answering != NULL && rdma_destroy_id(answering) == 0);
	NEED(rdma_destroy_id(asking) == 0);
	return NULL;
}

static const char *
send_by_station(struct station *s, struct ibv_ah *ah, const struct rdma_ud_param *to, unsigned int seed)
{
	struct ibv_sge sge = { (uintptr_t)s->memory[1], sizeof(s->memory[1]), s->mr->lkey };
	struct ibv_recv_wr *bad, recv = { .wr_id = seed, .sg_list = &sge, .num_sge = 1 };
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(s->id->qp);
	struct ibv_wc wc;
	NEED(qp != NULL);
	memset(s->memory[1], 0, sizeof(s->memory[1]));
	fill(s->memory[0], LENGTH, seed);
	NEED(ibv_post_recv(s->id->qp, &recv, &bad) == 0);
	ibv_wr_start(qp);
	qp->wr_id = 1000 + seed;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, s->mr->lkey, (uintptr_t)s->memory[0], LENGTH);
	ibv_wr_set_ud_addr(qp, ah, to->qp_num, to->qkey);
	NEED(ibv_wr_complete(qp) == 0);
	for (int i = 0; i < 2; ++i) {
		NEED(completes(s->cq, &wc));
		NEED(wc.wr_id == (wc.opcode == IBV_WC_RECV ? seed : 1000 + seed));
		if (wc.opcode == IBV_WC_RECV)
			NEED(wc.src_qp == s->id->qp->qp_num && wc.byte_len == GRH + LENGTH);
	}
	NEED(is_filled(s->memory[1] + GRH, LENGTH, seed));
	return NULL;
}

static const char *
shared_station(void)
{
	static struct station s;
	struct sockaddr_in at = { .sin_family = AF_INET };
	const char *wrong = open_station(&s, &at);
	if (wrong != NULL)
		return wrong;
	for (unsigned int round = 0; round < 20; ++round) {
		struct rdma_ud_param found;
		wrong = resolve(&s, &at, &found);
		if (wrong != NULL)
			return wrong;
		NEED(found.qp_num == s.id->qp->qp_num);
		struct ibv_ah *ah = ibv_create_ah(s.pd, &found.ah_attr);
		NEED(ah != NULL);
		wrong = send_by_station(&s, ah, &found, round);
		if (wrong != NULL)
			return wrong;
		NEED(ibv_destroy_ah(ah) == 0);
	}
	rdma_destroy_qp(s.id);
	NEED(rdma_destroy_id(s.id) == 0);
	NEED(ibv_destroy_cq(s.cq) == 0 && ibv_dereg_mr(s.mr) == 0 && ibv_dealloc_pd(s.pd) == 0);
	rdma_destroy_event_channel(s.channel);
	return NULL;
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		const char *(*run)(void);
	} tests[] = {
		{ "loopback by hand", loopback },
		{ "a GID for the IPv4 address", mapped_gid },
		{ "thread and parent domain", domains },
		{ "connection with 31 pieces, depths, shared receive queue", connection },
		{ "datagrams to oneself", to_oneself },
		{ "datagrams to a peer, and replies to the sender", to_a_peer },
		{ "lists of datagrams of 0 to 4096 bytes", lists },
		{ "a datagram with another Q_Key", foreign_key },
		{ "events of datagrams", datagram_events },
		{ "an event for a completion that waits already", event_of_the_past },
		{ "datagrams by a shared receive queue", shared_receives },
		{ "each context has events of its own", two_contexts },
		{ "endpoints of datagrams: rejected, and answered", datagram_endpoints },
		{ "one queue pair of datagrams answers all requests", shared_station },
	};
	if (argc != 2)
		return 2;
	address = argv[1];
	struct ibv_device **devices = ibv_get_device_list(NULL);
	device = devices != NULL && devices[0] != NULL ? ibv_open_device(devices[0]) : NULL;
	if (device == NULL) {
		fputs("no device\n", stderr);
		return 1;
	}
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); ++i) {
		const char *wrong = tests[i].run();
		const bool missing = wrong == no_domains || wrong == no_long_datagrams;
		printf("%s | %s%s\n", tests[i].name,
			wrong == NULL     ? "pass"
				: missing ? "skip: "
					  : "fail: ",
			wrong == NULL ? "" : wrong);
		fflush(stdout);
	}
	return 0;
}
