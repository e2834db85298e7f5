/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * conf_dereg.c -- a device does not touch deregistered memory
 *
 * Memory is deregistered in the middle of traffic and made inaccessible at once (PROT_NONE). A device that
 * still writes to it or reads from it ends the process by SIGSEGV, or causes a failed system call that shows
 * as a wrong completion.
 */

#include <string.h>
#include <sys/mman.h>

#include "deadline.h"
#include "groups.h"
#include "role.h"

#define LEN ((size_t)8 << 20)
#define PIECE ((size_t)512 << 10)
#define IN_FLIGHT 8
#define ALWAYS RPMA_F_COMPLETION_ALWAYS

static void
take_away(struct mem *m)
{
	mem_dereg(m);
	CHECK_EQ(mprotect(m->base, m->mapped, PROT_NONE), 0);
}

/* ---- the target deregisters its region while the initiator's operations use it ---- */

static void
region_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC);
	desc_put(r, &m);
	ctl_expect(r, "running");
	take_away(&m);
	ctl_put(r, "taken");
	ctl_expect(r, "failed");
	expect_end(r->conn);
	ctl_sync(r);
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

static void
post(struct role *r, struct mem *m, struct rpma_mr_remote *remote, uint64_t i)
{
	size_t at = GUARD + (size_t)(i * PIECE % LEN);

	/* scenario->arg: not NULL for writes, NULL for reads */
	if (r->scenario->arg)
		CHECK_OK(rpma_write(r->conn, remote, at, m->mr, at, PIECE, ALWAYS, CTX(i)));
	else
		CHECK_OK(rpma_read(r->conn, m->mr, at, remote, at, PIECE, ALWAYS, CTX(i)));
}

/*
 * A read may be refused after its response has begun. SoftRoCE of kernel 6.1 drops that refusal: it carries
 * the sequence number of the read's first packet, so it is taken for an old acknowledgement. The target's
 * queue pair is in the error state by then and sends nothing further. So the read fails only when all retries
 * are used up, which took 18 s.
 */
static int
patience(const struct role *r)
{
	return r->soft ? WAIT_MS : 3 * WAIT_MS;
}

/* keeps operations in flight until one fails; tells the target once they run */
static uint64_t
run_until_error(struct role *r, struct mem *m, struct rpma_mr_remote *remote, struct ibv_wc *wc)
{
	uint64_t posted = 0;

	for (uint64_t done = 0;; done++) {
		while (posted < done + IN_FLIGHT)
			post(r, m, remote, posted++);
		if (done == 2 * IN_FLIGHT)
			ctl_put(r, "running");
		CHECK_OK(wait_wc(r->cq, wc, patience(r)));
		CHECK_EQ(wc->wr_id, done);
		if (wc->status != IBV_WC_SUCCESS)
			return posted;
	}
}

static void
region_initiator(struct role *r)
{
	struct rpma_mr_remote *remote;
	struct ibv_wc wc;
	uint64_t posted;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST);
	remote = remote_take(r);
	posted = run_until_error(r, &m, remote, &wc);
	ctl_put(r, "failed");
	/*
	 * In the middle of an operation a device may report a remote operation error. The software device
	 * ends the connection if part of a response has left and the rest of its memory is gone.
	 */
	CHECK(wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_OP_ERR ||
		wc.status == IBV_WC_RETRY_EXC_ERR);
	for (uint64_t i = wc.wr_id + 1; i < posted; i++)
		expect_wc(r->cq, i, IBV_WC_WR_FLUSH_ERR);
	expect_none(r->cq);
	ctl_expect(r, "taken");
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	ctl_sync(r);
	CHECK_OK(rpma_mr_remote_delete(&remote));
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

/* ---- the initiator deregisters its own memory while its operations use it ---- */

static void
local_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC);
	desc_put(r, &m);
	expect_end(r->conn);
	ctl_sync(r);
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

/*
 * Each operation completes once, in order: successes, one error, then flushed ones. Flushed are also
 * operations that were under way before the failing one and had not been acknowledged.
 */
static void
local_initiator(struct role *r)
{
	struct rpma_mr_remote *remote;
	unsigned errors = 0;
	bool failed = false;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST);
	remote = remote_take(r);
	for (uint64_t i = 0; i < DEPTH; i++)
		post(r, &m, remote, i);
	take_away(&m);
	for (uint64_t i = 0; i < DEPTH; i++) {
		struct ibv_wc wc = next_wc(r->cq);

		CHECK_EQ(wc.wr_id, i);
		CHECK(!failed || wc.status != IBV_WC_SUCCESS);
		failed = wc.status != IBV_WC_SUCCESS;
		errors += failed && wc.status != IBV_WC_WR_FLUSH_ERR;
	}
	/* SoftRoCE may enter the error state before it has completed the operation that caused it */
	CHECK(errors == failed || (!r->soft && errors == 0));
	expect_none(r->cq);
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	ctl_sync(r);
	CHECK_OK(rpma_mr_remote_delete(&remote));
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

/* ---- a receive whose memory is gone when the message comes ---- */

static void
recv_target(struct role *r)
{
	struct ibv_wc wc;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, PIECE, RPMA_MR_USAGE_RECV);
	CHECK_OK(rpma_recv(r->conn, m.mr, GUARD, PIECE, CTX(1)));
	take_away(&m);
	ctl_put(r, "taken");
	wc = next_wc(r->cq);
	CHECK_EQ(wc.wr_id, 1);
	CHECK(is_local_error(r, wc.status, IBV_WC_LOC_PROT_ERR));
	ctl_sync(r);
	expect_end(r->conn);
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

static void
recv_initiator(struct role *r)
{
	struct ibv_wc wc;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, PIECE, RPMA_MR_USAGE_SEND);
	ctl_expect(r, "taken");
	CHECK_OK(rpma_send(r->conn, m.mr, GUARD, PIECE, ALWAYS, CTX(1)));
	wc = next_wc(r->cq);
	CHECK_EQ(wc.wr_id, 1);
	CHECK(wc.status == IBV_WC_REM_OP_ERR || wc.status == IBV_WC_REM_INV_REQ_ERR);
	ctl_sync(r);
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

/* ---- a send that waits for a receive, from memory that is gone when the receive comes ---- */

static void
waiting_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, PIECE, RPMA_MR_USAGE_RECV);
	ctl_expect(r, "taken");
	CHECK_OK(rpma_recv(r->conn, m.mr, GUARD, PIECE, CTX(1)));
	/* the message may have left before its memory was deregistered; then it is complete */
	if (ctl_get_u64(r) == IBV_WC_SUCCESS) {
		expect_recv(r->cq, 1, PIECE);
		mem_check(&m, 3);
	}
	ctl_put(r, "seen");
	expect_end(r->conn);
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

static void
waiting_initiator(struct role *r)
{
	struct ibv_wc wc;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, PIECE, RPMA_MR_USAGE_SEND);
	mem_fill(&m, 3);
	CHECK_OK(rpma_send(r->conn, m.mr, GUARD, PIECE, ALWAYS, CTX(1)));
	take_away(&m);
	ctl_put(r, "taken");
	wc = next_wc(r->cq);
	CHECK_EQ(wc.wr_id, 1);
	CHECK(wc.status == IBV_WC_SUCCESS || is_local_error(r, wc.status, IBV_WC_LOC_PROT_ERR));
	ctl_put_u64(r, wc.status);
	ctl_expect(r, "seen");
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

static const struct scenario list[] = {
	{ "smoke-dereg-under-writes", region_target, region_initiator, PIECE, 0, "writes" },
	{ "dereg-under-reads", region_target, region_initiator, PIECE, 0, NULL },
	{ "dereg-local-under-writes", local_target, local_initiator, PIECE, 0, "writes" },
	{ "dereg-local-under-reads", local_target, local_initiator, PIECE, 0, NULL },
	{ "dereg-under-recv", recv_target, recv_initiator, PIECE, 0, NULL },
	{ "dereg-under-waiting-send", waiting_target, waiting_initiator, PIECE, 0, NULL },
};

const struct scenario_group group_dereg = { list, sizeof(list) / sizeof(list[0]) };
