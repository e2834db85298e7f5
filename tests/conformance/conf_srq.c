/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conf_srq.c -- shared receive queues: several connections take their receives from one */

#include <arpa/inet.h>
#include <string.h>

#include "groups.h"
#include "pattern.h"
#include "role.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define CONNS 3
#define PER_CONN 20
#define TOTAL (CONNS * PER_CONN)
#define MSG_LEN ((size_t)128)
#define SRQ_SIZE 16

/* where receives complete: in the SRQ's CQ, in each connection's RCQ, or in each connection's main CQ */
enum cq_place { IN_SRQ, IN_RCQ, IN_CQ };

struct srq_target {
	enum cq_place place;
	struct rpma_srq *srq;
	struct rpma_conn *conns[CONNS];
	struct mem m;
	uint64_t posted;     /* receives */
	uint64_t got[CONNS]; /* messages per connection */
};

static struct rpma_srq *
srq_new(struct role *r, uint32_t rq_size, uint32_t rcq_size)
{
	struct rpma_srq_cfg *cfg = NULL;
	struct rpma_srq *srq = NULL;

	CHECK_OK(rpma_srq_cfg_new(&cfg));
	CHECK_OK(rpma_srq_cfg_set_rq_size(cfg, rq_size));
	CHECK_OK(rpma_srq_cfg_set_rcq_size(cfg, rcq_size));
	CHECK_OK(rpma_srq_new(r->peer, cfg, &srq));
	CHECK_OK(rpma_srq_cfg_delete(&cfg));
	return srq;
}

static struct rpma_cq *
srq_cq(struct rpma_srq *srq)
{
	struct rpma_cq *cq = NULL;

	CHECK_OK(rpma_srq_get_rcq(srq, &cq));
	return cq;
}

static void
post_one(struct srq_target *t)
{
	size_t at = GUARD + (size_t)(t->posted % SRQ_SIZE) * MSG_LEN;

	CHECK_OK(rpma_srq_recv(t->srq, t->m.mr, at, MSG_LEN, CTX(t->posted)));
	t->posted++;
}

static void
srq_target_open(struct role *r, struct srq_target *t, enum cq_place place)
{
	struct conn_opts opts = { .rcq = place == IN_RCQ ? DEPTH : 0 };

	memset(t, 0, sizeof(*t));
	t->place = place;
	role_open(r);
	role_listen(r);
	t->srq = srq_new(r, SRQ_SIZE, place == IN_SRQ ? SRQ_SIZE : 0);
	CHECK((srq_cq(t->srq) != NULL) == (place == IN_SRQ));
	mem_new(r, &t->m, SRQ_SIZE * MSG_LEN, RPMA_MR_USAGE_RECV);
	opts.srq = t->srq;
	for (int i = 0; i < CONNS; i++)
		t->conns[i] = conn_accept(r, &opts);
}

static void
srq_target_close(struct role *r, struct srq_target *t)
{
	for (int i = 0; i < CONNS; i++) {
		expect_end(t->conns[i]);
		conn_delete(&t->conns[i]);
	}
	mem_delete(&t->m);
	CHECK_OK(rpma_srq_delete(&t->srq));
	CHECK(t->srq == NULL);
	role_delete(r);
}

/* the CQ in which the next message of this connection completes */
static struct rpma_cq *
cq_of(struct srq_target *t, int conn)
{
	if (t->place == IN_SRQ)
		return srq_cq(t->srq);
	return t->place == IN_RCQ ? conn_rcq(t->conns[conn]) : conn_cq(t->conns[conn]);
}

static int
conn_of(const struct srq_target *t, uint32_t qp_num)
{
	for (int i = 0; i < CONNS; i++) {
		if (conn_qp_num(t->conns[i]) == qp_num)
			return i;
	}
	check_failed(__FILE__, __LINE__, "a completion of no connection");
}

/* a message carries the pattern of its connection and number; qp_num tells which connection it is */
static void
take_message(struct srq_target *t, struct rpma_cq *cq)
{
	struct ibv_wc wc = next_wc(cq);
	int conn = conn_of(t, wc.qp_num);
	size_t at = (size_t)(wc.wr_id % SRQ_SIZE) * MSG_LEN;
	uint64_t number;

	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, MSG_LEN);
	CHECK(wc.wc_flags & IBV_WC_WITH_IMM);
	number = ntohl(wc.imm_data);
	CHECK_EQ(number, t->got[conn]);
	CHECK_EQ(pattern_check(t->m.data + at, MSG_LEN, (uint64_t)conn * 1000 + number, 0), -1);
	t->got[conn]++;
}

static void
messages_target(struct role *r)
{
	struct srq_target t;

	srq_target_open(r, &t, *(const enum cq_place *)r->scenario->arg);
	for (int i = 0; i < SRQ_SIZE; i++)
		post_one(&t);
	for (int i = 0; i < TOTAL; i++) {
		take_message(&t, cq_of(&t, i % CONNS));
		post_one(&t);
		/* one at a time, because otherwise several CQs would have to be watched */
		ctl_put(r, "got");
	}
	srq_target_close(r, &t);
}

static void
open_conns(struct role *r, struct rpma_conn *conns[CONNS], struct mem *m)
{
	role_open(r);
	role_listen(r);
	mem_new(r, m, MSG_LEN, RPMA_MR_USAGE_SEND);
	for (int i = 0; i < CONNS; i++)
		conns[i] = conn_connect(r, NULL);
}

static void
close_conns(struct role *r, struct rpma_conn *conns[CONNS], struct mem *m)
{
	for (int i = 0; i < CONNS; i++) {
		CHECK_OK(rpma_conn_disconnect(conns[i]));
		expect_end(conns[i]);
		conn_delete(&conns[i]);
	}
	mem_delete(m);
	role_delete(r);
}

static void
messages_initiator(struct role *r)
{
	struct rpma_conn *conns[CONNS];
	struct mem m;

	open_conns(r, conns, &m);
	for (uint32_t i = 0; i < TOTAL; i++) {
		uint32_t conn = i % CONNS;
		uint32_t number = i / CONNS;

		pattern_fill(m.data, MSG_LEN, conn * 1000 + number, 0);
		CHECK_OK(rpma_send_with_imm(conns[conn], m.mr, GUARD, MSG_LEN, ALWAYS, number, CTX(i)));
		expect_ok(conn_cq(conns[conn]), i);
		ctl_expect(r, "got");
	}
	close_conns(r, conns, &m);
}

/* ---- an empty SRQ: all connections wait, and continue as receives are posted ---- */

static void
empty_target(struct role *r)
{
	struct srq_target t;

	srq_target_open(r, &t, IN_SRQ);
	ctl_expect(r, "sent");
	expect_none(srq_cq(t.srq));
	for (int i = 0; i < TOTAL; i++) {
		post_one(&t);
		take_message(&t, srq_cq(t.srq));
	}
	expect_none(srq_cq(t.srq));
	for (int i = 0; i < CONNS; i++)
		CHECK_EQ(t.got[i], PER_CONN);
	ctl_put(r, "all");
	srq_target_close(r, &t);
}

static void
empty_initiator(struct role *r)
{
	struct rpma_conn *conns[CONNS];
	struct mem unused, m;

	open_conns(r, conns, &unused);
	mem_new(r, &m, TOTAL * MSG_LEN, RPMA_MR_USAGE_SEND);
	for (uint32_t i = 0; i < TOTAL; i++) {
		uint32_t conn = i % CONNS;

		pattern_fill(m.data + i * MSG_LEN, MSG_LEN, conn * 1000 + i / CONNS, 0);
		CHECK_OK(rpma_send_with_imm(conns[conn], m.mr, GUARD + i * MSG_LEN, MSG_LEN, ALWAYS,
			i / CONNS, CTX(i)));
	}
	ctl_put(r, "sent");
	for (uint32_t i = 0; i < TOTAL; i++)
		expect_ok(conn_cq(conns[i % CONNS]), i);
	ctl_expect(r, "all");
	mem_delete(&m);
	close_conns(r, conns, &unused);
}

/* ---- limits, and invalid uses ---- */

static void
limits_target(struct role *r)
{
	struct conn_opts both = { .shared = true };
	struct rpma_conn_cfg *cfg;
	struct rpma_conn_req *req = NULL;
	struct srq_target t;
	int ret = 0;

	srq_target_open(r, &t, IN_SRQ);
	for (int i = 0; i < SRQ_SIZE; i++)
		post_one(&t);
	if (r->soft)
		ret = rpma_srq_recv(t.srq, NULL, 0, 0, NULL);
	CHECK_RET(ret, r->soft ? RPMA_E_PROVIDER : 0);
	CHECK_RET(rpma_recv(t.conns[0], NULL, 0, 0, NULL), RPMA_E_INVAL);
	/* an SRQ with its own CQ cannot share the connection's channel */
	both.srq = t.srq;
	cfg = cfg_new(&both);
	CHECK_RET(rpma_conn_req_new(r->peer, r->addr, r->port, cfg, &req), RPMA_E_INVAL);
	CHECK(req == NULL);
	CHECK_OK(rpma_conn_cfg_delete(&cfg));
	ctl_put(r, "done");
	srq_target_close(r, &t);
}

static void
limits_initiator(struct role *r)
{
	struct rpma_conn *conns[CONNS];
	struct mem m;

	open_conns(r, conns, &m);
	ctl_expect(r, "done");
	close_conns(r, conns, &m);
}

/* ---- the end of one connection takes no receive away from the others ---- */

static void
leaving_target(struct role *r)
{
	struct srq_target t;

	srq_target_open(r, &t, IN_SRQ);
	for (int i = 0; i < CONNS - 1; i++)
		post_one(&t);
	expect_end(t.conns[0]);
	CHECK_OK(rpma_conn_disconnect(t.conns[0]));
	expect_none(srq_cq(t.srq));
	ctl_put(r, "left");
	for (int i = 1; i < CONNS; i++)
		take_message(&t, srq_cq(t.srq));
	for (int i = 1; i < CONNS; i++)
		CHECK_EQ(t.got[i], 1);
	conn_delete(&t.conns[0]);
	/* in the order in which the other side ends them, since it waits for our response to each */
	for (int i = 1; i < CONNS; i++) {
		expect_end(t.conns[i]);
		conn_delete(&t.conns[i]);
	}
	mem_delete(&t.m);
	CHECK_OK(rpma_srq_delete(&t.srq));
	role_delete(r);
}

static void
leaving_initiator(struct role *r)
{
	struct rpma_conn *conns[CONNS];
	struct mem m;

	open_conns(r, conns, &m);
	CHECK_OK(rpma_conn_disconnect(conns[0]));
	ctl_expect(r, "left");
	for (uint32_t i = 1; i < CONNS; i++) {
		pattern_fill(m.data, MSG_LEN, i * 1000, 0);
		CHECK_OK(rpma_send_with_imm(conns[i], m.mr, GUARD, MSG_LEN, ALWAYS, 0, CTX(i)));
		expect_ok(conn_cq(conns[i]), i);
	}
	close_conns(r, conns, &m);
}

/* ---- what was not collected of a connection goes with it: the software device removes it, others may ---- */

static void
uncollected_target(struct role *r)
{
	struct srq_target t;
	bool gone_shows = false;

	srq_target_open(r, &t, IN_SRQ);
	for (int i = 0; i < CONNS; i++)
		post_one(&t);
	const uint32_t gone = conn_qp_num(t.conns[0]);
	expect_end(t.conns[0]);
	conn_delete(&t.conns[0]);
	for (int i = 1; i < CONNS; i++) {
		struct ibv_wc wc = next_wc(srq_cq(t.srq));
		while (wc.qp_num == gone) {
			CHECK(!r->soft && !gone_shows);
			gone_shows = true;
			wc = next_wc(srq_cq(t.srq));
		}
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.qp_num, conn_qp_num(t.conns[i]));
		CHECK_EQ(wc.wr_id, i);
	}
	expect_none(srq_cq(t.srq));
	for (int i = 1; i < CONNS; i++) {
		expect_end(t.conns[i]);
		conn_delete(&t.conns[i]);
	}
	mem_delete(&t.m);
	CHECK_OK(rpma_srq_delete(&t.srq));
	role_delete(r);
}

static void
uncollected_initiator(struct role *r)
{
	struct rpma_conn *conns[CONNS];
	struct mem m;

	open_conns(r, conns, &m);
	for (uint32_t i = 0; i < CONNS; i++) {
		pattern_fill(m.data, MSG_LEN, i * 1000, 0);
		CHECK_OK(rpma_send_with_imm(conns[i], m.mr, GUARD, MSG_LEN, ALWAYS, 0, CTX(i)));
		expect_ok(conn_cq(conns[i]), i);
	}
	close_conns(r, conns, &m);
}

/* ---- writes with immediate use receives of an SRQ too ---- */

static void
imm_target(struct role *r)
{
	struct srq_target t;
	struct mem region;

	srq_target_open(r, &t, IN_SRQ);
	mem_new(r, &region, CONNS * MSG_LEN, RPMA_MR_USAGE_WRITE_DST);
	for (int i = 0; i < CONNS; i++)
		CHECK_OK(rpma_srq_recv(t.srq, NULL, 0, 0, CTX(i)));
	desc_put(r, &region);
	for (uint32_t i = 0; i < CONNS; i++) {
		struct ibv_wc wc = expect_recv(srq_cq(t.srq), i, MSG_LEN);

		CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		CHECK_EQ(wc.qp_num, conn_qp_num(t.conns[i]));
		CHECK_EQ(ntohl(wc.imm_data), i);
		ctl_put(r, "got");
	}
	mem_check(&region, 5);
	mem_delete(&region);
	srq_target_close(r, &t);
}

static void
imm_initiator(struct role *r)
{
	struct rpma_conn *conns[CONNS];
	struct rpma_mr_remote *dst;
	struct mem m;

	open_conns(r, conns, &m);
	dst = remote_take(r);
	for (uint32_t i = 0; i < CONNS; i++) {
		pattern_fill(m.data, MSG_LEN, 5, i * MSG_LEN);
		CHECK_OK(rpma_write_with_imm(conns[i], dst, GUARD + i * MSG_LEN, m.mr, GUARD, MSG_LEN, ALWAYS,
			i, CTX(i)));
		expect_ok(conn_cq(conns[i]), i);
		ctl_expect(r, "got");
	}
	CHECK_OK(rpma_mr_remote_delete(&dst));
	close_conns(r, conns, &m);
}

static const enum cq_place in_srq = IN_SRQ;
static const enum cq_place in_rcq = IN_RCQ;
static const enum cq_place in_cq = IN_CQ;

static const struct scenario list[] = {
	{ "smoke-srq-with-own-cq", messages_target, messages_initiator, 0, 0, &in_srq },
	{ "srq-with-rcq-of-connection", messages_target, messages_initiator, 0, 0, &in_rcq },
	{ "srq-with-main-cq", messages_target, messages_initiator, 0, 0, &in_cq },
	{ "srq-empty", empty_target, empty_initiator, 0, 0, NULL },
	{ "srq-limits", limits_target, limits_initiator, 0, 0, NULL },
	{ "srq-connection-leaves", leaving_target, leaving_initiator, 0, 0, NULL },
	{ "srq-uncollected-completions", uncollected_target, uncollected_initiator, 0, 0, NULL },
	{ "srq-write-imm", imm_target, imm_initiator, 0, 0, NULL },
};

const struct scenario_group group_srq = { list, sizeof(list) / sizeof(list[0]) };
