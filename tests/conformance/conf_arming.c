/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conf_arming.c -- which call arms a completion queue, and what becomes of its events */

#include <string.h>

#include "groups.h"
#include "role.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
/* how long to look for an event that must not come; one that comes later goes unnoticed */
#define LOOK_MS 50

/* the initiator sends an empty message each time it is told to */
static void
sending_initiator(struct role *r)
{
	char word[8];

	role_connect(r, NULL);
	for (uint64_t i = 0; ctl_recv(r, word, sizeof(word)) && word[0] == 's'; i++) {
		CHECK_OK(rpma_send(r->conn, NULL, 0, 0, ALWAYS, CTX(i)));
		expect_ok(r->cq, i);
		ctl_put(r, "sent");
	}
	role_close(r);
}

/* the message has been received when this returns; its completion is in the queue, or will be at once */
static void
get_message(struct role *r)
{
	CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(1)));
	ctl_put(r, "send");
	ctl_expect(r, "sent");
}

static void
collect(struct role *r)
{
	struct ibv_wc wc = { 0 };

	CHECK_OK(poll_wc(r->cq, &wc, WAIT_MS));
	CHECK_EQ(wc.wr_id, 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	expect_none(r->cq);
}

/* ---- a queue with its own channel ---- */

static void
by_hand_target(struct role *r)
{
	int fd = -1;

	role_connect(r, NULL);
	CHECK_OK(rpma_cq_get_fd(r->cq, &fd));
	CHECK_OK(rpma_cq_set_auto_arm(r->cq, false));
	/* a new queue is armed */
	get_message(r);
	CHECK_OK(rpma_cq_wait_timed(r->cq, WAIT_MS));
	collect(r);
	/* after that it is not: completions come, events do not */
	for (int i = 0; i < 3; i++) {
		get_message(r);
		collect(r);
	}
	CHECK(!wait_readable(fd, LOOK_MS));
	CHECK_RET(rpma_cq_wait_timed(r->cq, 0), RPMA_E_NO_COMPLETION);
	/* armed once: one event */
	for (int i = 0; i < 3; i++) {
		CHECK_OK(rpma_cq_arm(r->cq));
		get_message(r);
		CHECK_OK(rpma_cq_wait_timed(r->cq, WAIT_MS));
		collect(r);
		get_message(r);
		collect(r);
		CHECK(!wait_readable(fd, LOOK_MS));
	}
	/* and back to the wait that arms */
	CHECK_OK(rpma_cq_set_auto_arm(r->cq, true));
	CHECK_OK(rpma_cq_arm(r->cq));
	for (int i = 0; i < 3; i++) {
		get_message(r);
		CHECK_OK(rpma_cq_wait_timed(r->cq, WAIT_MS));
		collect(r);
	}
	ctl_put(r, "end");
	role_close(r);
}

/*
 * arming raises no event for a completion that is already there, so the caller must poll once more after
 * arming
 */
static void
look_again_target(struct role *r)
{
	role_connect(r, NULL);
	CHECK_OK(rpma_cq_set_auto_arm(r->cq, false));
	get_message(r);
	CHECK_OK(rpma_cq_wait_timed(r->cq, WAIT_MS));
	collect(r);
	for (int i = 0; i < 3; i++) {
		struct ibv_wc wc;

		get_message(r);
		get_message(r);
		CHECK_OK(poll_wc(r->cq, &wc, WAIT_MS)); /* the first is there; the second may be */
		CHECK_OK(poll_wc(r->cq, &wc, WAIT_MS));
		get_message(r);
		/*
		 * at whatever moment it is armed, either the event or the poll after arming finds the message
		 */
		CHECK_OK(rpma_cq_arm(r->cq));
		while (rpma_cq_get_wc(r->cq, 1, &wc, NULL) == RPMA_E_NO_COMPLETION) {
			CHECK_OK(rpma_cq_wait_timed(r->cq, WAIT_MS));
			CHECK_OK(rpma_cq_arm(r->cq));
		}
		expect_none(r->cq);
	}
	CHECK_RET(rpma_cq_arm(NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_cq_set_auto_arm(NULL, true), RPMA_E_INVAL);
	ctl_put(r, "end");
	role_close(r);
}

/* ---- a shared channel: each wait says whether it arms ---- */

static void
no_arm_target(struct role *r)
{
	const struct conn_opts opts = { .shared = true };
	struct rpma_cq *cq = NULL;
	int fd = -1;

	role_connect(r, &opts);
	CHECK_OK(rpma_conn_get_compl_fd(r->conn, &fd));
	for (int i = 0; i < 3; i++) {
		get_message(r);
		CHECK_OK(rpma_conn_wait_timed(r->conn, RPMA_W_NO_ARM, WAIT_MS, &cq, NULL));
		CHECK(cq == r->cq);
		collect(r);
		get_message(r);
		collect(r);
		CHECK(!wait_readable(fd, LOOK_MS));
		CHECK_OK(rpma_cq_arm(cq));
		get_message(r);
		CHECK(wait_readable(fd, WAIT_MS));
		CHECK_OK(rpma_conn_wait(r->conn, 0, &cq, NULL)); /* this one arms */
		collect(r);
	}
	get_message(r);
	CHECK(wait_readable(fd, WAIT_MS));
	CHECK_OK(rpma_conn_wait(r->conn, RPMA_W_NO_ARM, &cq, NULL));
	collect(r);
	CHECK_RET(rpma_conn_wait(r->conn, 1 << 2, &cq, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_conn_wait_timed(r->conn, 1 << 2, 0, &cq, NULL), RPMA_E_INVAL);
	/* with auto-arm off, a wait without the flag does not arm the queue either */
	CHECK_OK(rpma_cq_set_auto_arm(r->cq, false));
	CHECK_OK(rpma_cq_arm(r->cq));
	get_message(r);
	CHECK(wait_readable(fd, WAIT_MS));
	CHECK_OK(rpma_conn_wait(r->conn, 0, &cq, NULL));
	collect(r);
	get_message(r);
	collect(r);
	CHECK(!wait_readable(fd, LOOK_MS));
	ctl_put(r, "end");
	role_close(r);
}

/* ---- events are acknowledged in batches; deleting does not wait for events that were taken ---- */

static void
batches_target(struct role *r)
{
	const int count = *(const int *)r->scenario->arg;
	struct rpma_conn_stats stats = { .size = sizeof(stats) };

	role_connect(r, NULL);
	for (int i = 0; i < count; i++) {
		get_message(r);
		CHECK_OK(rpma_cq_wait_timed(r->cq, WAIT_MS));
		collect(r);
	}
	/* an event that was not taken is still in the channel when all is deleted */
	get_message(r);
	CHECK_OK(rpma_conn_get_stats(r->conn, &stats));
	CHECK_EQ(stats.waits, count);
	ctl_put(r, "end");
	role_close(r);
}

static const int none = 0;
static const int one = 1;
static const int almost = 63;
static const int a_batch = 64;
static const int more = 65;
static const int many = 1000;

static const struct scenario list[] = {
	{ "arming-by-hand", by_hand_target, sending_initiator, 0, 0, NULL },
	{ "arming-and-looking-again", look_again_target, sending_initiator, 0, 0, NULL },
	{ "arming-not-by-the-wait", no_arm_target, sending_initiator, 0, 0, NULL },
	{ "events-taken-0", batches_target, sending_initiator, 0, 0, &none },
	{ "events-taken-1", batches_target, sending_initiator, 0, 0, &one },
	{ "events-taken-63", batches_target, sending_initiator, 0, 0, &almost },
	{ "events-taken-64", batches_target, sending_initiator, 0, 0, &a_batch },
	{ "events-taken-65", batches_target, sending_initiator, 0, 0, &more },
	{ "events-taken-1000", batches_target, sending_initiator, 0, 0, &many },
};

const struct scenario_group group_arming = { list, sizeof(list) / sizeof(list[0]) };
