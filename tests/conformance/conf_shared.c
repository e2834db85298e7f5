/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conf_shared.c -- a CQ for receives, and the completion channel that both CQs may share */

#include <string.h>

#include "groups.h"
#include "pattern.h"
#include "role.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define ROUNDS 100
#define LEN ((size_t)64)

/* ---- a separate RCQ with its own channel ---- */

static void
separate_target(struct role *r)
{
	const struct conn_opts opts = { .rcq = DEPTH };
	struct rpma_cq *rcq;
	struct mem m;
	int fd, rfd;

	role_connect(r, &opts);
	rcq = conn_rcq(r->conn);
	CHECK(rcq != NULL && rcq != r->cq);
	CHECK_OK(rpma_cq_get_fd(r->cq, &fd));
	CHECK_OK(rpma_cq_get_fd(rcq, &rfd));
	CHECK(fd != rfd);
	CHECK_RET(rpma_conn_get_compl_fd(r->conn, &fd), RPMA_E_NOT_SHARED_CHNL);
	CHECK_RET(rpma_conn_wait(r->conn, 0, &rcq, NULL), RPMA_E_NOT_SHARED_CHNL);
	rcq = conn_rcq(r->conn);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_RECV | RPMA_MR_USAGE_SEND);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		CHECK_OK(rpma_recv(r->conn, m.mr, GUARD, LEN, CTX(i)));
		ctl_put(r, "go");
		expect_recv(rcq, i, LEN);
		expect_none(r->cq);
		CHECK_OK(rpma_send(r->conn, m.mr, GUARD, LEN, ALWAYS, CTX(1000 + i)));
		expect_ok(r->cq, 1000 + i);
		expect_none(rcq);
	}
	mem_delete(&m);
	role_close(r);
}

/* sends a message and receives it back */
static void
echo_initiator(struct role *r)
{
	struct mem out, in;

	role_connect(r, NULL);
	mem_new(r, &out, LEN, RPMA_MR_USAGE_SEND);
	mem_new(r, &in, LEN, RPMA_MR_USAGE_RECV);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		mem_fill(&out, i);
		CHECK_OK(rpma_recv(r->conn, in.mr, GUARD, LEN, CTX(2000 + i)));
		ctl_expect(r, "go");
		CHECK_OK(rpma_send(r->conn, out.mr, GUARD, LEN, ALWAYS, CTX(i)));
		if (r->soft) {
			expect_ok(r->cq, i);
			expect_recv(r->cq, 2000 + i, LEN);
		} else {
			/* hardware defines no order between sends and receives */
			uint64_t first = next_wc(r->cq).wr_id;

			CHECK(first == i || first == 2000 + i);
			expect_ok(r->cq, first == i ? 2000 + i : i);
		}
		mem_check(&in, i);
	}
	mem_delete(&out);
	mem_delete(&in);
	role_close(r);
}

/* ---- one channel for both CQs ---- */

/*
 * waits on the shared channel until this CQ has a completion; an event may be for the other CQ, or spurious
 */
static struct ibv_wc
shared_wc(struct role *r, struct rpma_cq *wanted, bool wanted_is_rcq)
{
	struct ibv_wc wc;
	int fd;
	int ret = rpma_cq_get_wc(wanted, 1, &wc, NULL);

	CHECK_OK(rpma_conn_get_compl_fd(r->conn, &fd));
	while (ret == RPMA_E_NO_COMPLETION) {
		struct rpma_cq *cq = NULL;
		bool is_rcq = !wanted_is_rcq;

		CHECK(wait_readable(fd, WAIT_MS));
		CHECK_OK(rpma_conn_wait(r->conn, 0, &cq, &is_rcq));
		CHECK(cq == (is_rcq ? conn_rcq(r->conn) : r->cq));
		if (cq == wanted)
			CHECK_EQ(is_rcq, wanted_is_rcq);
		ret = rpma_cq_get_wc(wanted, 1, &wc, NULL);
	}
	CHECK_OK(ret);
	return wc;
}

static void
shared_target(struct role *r)
{
	/* scenario->arg: not NULL with an RCQ */
	const bool with_rcq = r->scenario->arg != NULL;
	const struct conn_opts opts = { .rcq = with_rcq ? DEPTH : 0, .shared = true };
	struct rpma_cq *rcq;
	struct ibv_wc wc;
	struct mem m;
	int fd, cq_fd;

	role_connect(r, &opts);
	rcq = with_rcq ? conn_rcq(r->conn) : r->cq;
	CHECK(rcq != NULL);
	CHECK_RET(rpma_cq_wait(r->cq), RPMA_E_SHARED_CHANNEL);
	CHECK_RET(rpma_cq_wait(rcq), RPMA_E_SHARED_CHANNEL);
	CHECK_OK(rpma_conn_get_compl_fd(r->conn, &fd));
	CHECK_OK(rpma_cq_get_fd(rcq, &cq_fd));
	CHECK_EQ(cq_fd, fd);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_RECV | RPMA_MR_USAGE_SEND);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		CHECK_OK(rpma_recv(r->conn, m.mr, GUARD, LEN, CTX(i)));
		ctl_put(r, "go");
		wc = shared_wc(r, rcq, with_rcq);
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_OK(rpma_send(r->conn, m.mr, GUARD, LEN, ALWAYS, CTX(1000 + i)));
		wc = shared_wc(r, r->cq, false);
		CHECK_EQ(wc.wr_id, 1000 + i);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	}
	mem_delete(&m);
	role_close(r);
}

/* ---- an SRQ without a CQ, and a shared channel: receives complete in the connection's RCQ ---- */

static void
shared_srq_target(struct role *r)
{
	struct conn_opts opts = { .rcq = DEPTH, .shared = true };
	struct rpma_srq_cfg *cfg = NULL;
	struct rpma_srq *srq = NULL;
	struct ibv_wc wc;

	CHECK_OK(rpma_srq_cfg_new(&cfg));
	CHECK_OK(rpma_srq_cfg_set_rcq_size(cfg, 0));
	role_open(r);
	CHECK_OK(rpma_srq_new(r->peer, cfg, &srq));
	CHECK_OK(rpma_srq_cfg_delete(&cfg));
	opts.srq = srq;
	role_listen(r);
	r->conn = conn_accept(r, &opts);
	r->cq = conn_cq(r->conn);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		CHECK_OK(rpma_srq_recv(srq, NULL, 0, 0, CTX(i)));
		ctl_put(r, "go");
		wc = shared_wc(r, conn_rcq(r->conn), true);
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(wc.qp_num, conn_qp_num(r->conn));
	}
	role_disconnect(r);
	CHECK_OK(rpma_srq_delete(&srq));
	role_delete(r);
}

static void
sending_initiator(struct role *r)
{
	role_connect(r, NULL);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		ctl_expect(r, "go");
		CHECK_OK(rpma_send(r->conn, NULL, 0, 0, ALWAYS, CTX(i)));
		expect_ok(r->cq, i);
	}
	role_close(r);
}

static const struct scenario list[] = {
	{ "rcq-with-own-channel", separate_target, echo_initiator, LEN, 0, NULL },
	{ "smoke-shared-channel-with-rcq", shared_target, echo_initiator, LEN, 0, "rcq" },
	{ "shared-channel-without-rcq", shared_target, echo_initiator, LEN, 0, NULL },
	{ "shared-channel-with-srq", shared_srq_target, sending_initiator, 0, 0, NULL },
};

const struct scenario_group group_shared = { list, sizeof(list) / sizeof(list[0]) };
