/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* faulty.c -- what injected faults do to one connection */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "softrdma/base/env.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/faulty.h"
#include "softrdma/engine/links.h"

#define NS_PER_S 1000000000u

int
softrdma_faulty_new(struct softrdma_faulty **faulty_ptr)
{
	struct softrdma_fault_plan *plan = softrdma_fault_plan_get();
	*faulty_ptr = NULL;
	if (plan == NULL)
		return 0;
	int ret = 0;
	uint64_t connection = atomic_fetch_add(&plan->connections, 1) + 1;
	if (!softrdma_faults_concern(&plan->faults, connection))
		goto put_plan;
	struct softrdma_faulty *faulty = calloc(1, sizeof(*faulty));
	if (faulty == NULL) {
		ret = ENOMEM;
		goto put_plan;
	}
	faulty->plan = plan;
	faulty->connection = connection;
	*faulty_ptr = faulty;
	return 0;

put_plan:
	softrdma_fault_plan_put(plan);
	return ret;
}

void
softrdma_faulty_delete(struct softrdma_faulty *faulty)
{
	if (faulty)
		softrdma_fault_plan_put(faulty->plan);
	free(faulty);
}

static const struct softrdma_fault *
fault_of(const struct softrdma_faulty *faulty, enum softrdma_fault_word word)
{
	return &faulty->plan->faults.word[word];
}

static bool
strikes(const struct softrdma_faulty *faulty, enum softrdma_fault_word word, uint64_t n)
{
	return softrdma_faults_strike(&faulty->plan->faults, word, faulty->connection, n);
}

/* --- time --- */

static void
set_alarm(const struct softrdma_faulty *faulty)
{
	const uint64_t times[] = { faulty->held_until, faulty->disconnect_at, faulty->give_up_at };
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		if (times[i])
			softrdma_engine_alarm(times[i]);
	}
}

void
softrdma_faulty_attached(struct softrdma_connection *conn)
{
	struct softrdma_faulty *faulty = conn->faulty;
	const struct softrdma_fault *disconnect = fault_of(faulty, SOFTRDMA_FAULT_DISCONNECT);
	if (disconnect->told)
		faulty->disconnect_at = softrdma_now_ns() + disconnect->value;
	set_alarm(faulty);
}

/* does what rdma_disconnect() of this side does; the next fill puts DISCONNECT into the batch */
static void
end_connection(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	softrdma_link_close(link);
	softrdma_connection_deadline(link, SOFTRDMA_PEER_TIMEOUT_MS);
}

void
softrdma_faulty_look(struct softrdma_connection *conn, uint64_t now_ns)
{
	struct softrdma_link *link = &conn->link;
	struct softrdma_faulty *faulty = conn->faulty;
	if (conn->fd < 0)
		return; /* it is over */
	if (faulty->give_up_at && now_ns >= faulty->give_up_at) {
		softrdma_link_lost(link);
		softrdma_connection_detach(link);
		return;
	}
	if (faulty->disconnect_at && now_ns >= faulty->disconnect_at) {
		faulty->disconnect_at = 0;
		if (link->state == SOFTRDMA_LINK_UP) {
			SOFTRDMA_LOG(NOTICE, "injected fault: connection %" PRIu64 " ends, its time is over",
				faulty->connection);
			end_connection(conn);
		}
	}
	softrdma_connection_send(link);
	set_alarm(faulty);
}

/* --- requests and frames --- */

/*
 * Looks at the work request that would leave next. If it is to fail, or to find the connection ended, it is held (posted,
 * but not sent) until all requests before it have their responses.
 */
static void
strike_request(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	struct softrdma_faulty *faulty = conn->faulty;
	struct softrdma_requester *req = &link->requester;
	const struct softrdma_fault *end = fault_of(faulty, SOFTRDMA_FAULT_DISCONNECT_AFTER);
	if (link->state != SOFTRDMA_LINK_UP || req->failed)
		return;
	const uint64_t sent = req->tx - link->seq, answered = req->tail - link->seq;
	const bool ends = end->told && sent >= end->value;
	const bool fails =
		!ends && req->tx != req->head && strikes(faulty, SOFTRDMA_FAULT_WC_ERROR, sent + 1);
	req->held = ends || fails;
	if (!req->held || answered != sent)
		return;
	if (ends) {
		SOFTRDMA_LOG(NOTICE,
			"injected fault: connection %" PRIu64 " ends after work request %" PRIu64,
			faulty->connection, sent);
		end_connection(conn);
	} else {
		SOFTRDMA_LOG(NOTICE,
			"injected fault: an error for work request %" PRIu64 " of connection %" PRIu64,
			sent + 1, faulty->connection);
		softrdma_requester_fail_at(req, req->tx,
			(enum ibv_wc_status)fault_of(faulty, SOFTRDMA_FAULT_WC_ERROR)->value);
		softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
	}
}

/* nothing leaves from here on; after a time this side gives up, so that the fault is noticed */
static void
fall_silent(struct softrdma_faulty *faulty)
{
	SOFTRDMA_LOG(NOTICE, "injected fault: connection %" PRIu64 " is silent after %" PRIu64 " frames",
		faulty->connection, faulty->requests + faulty->answers - 1);
	faulty->silent = true;
	faulty->give_up_at = softrdma_now_ns() + fault_of(faulty, SOFTRDMA_FAULT_RETRY_TIMEOUT)->value;
	set_alarm(faulty);
}

/* true if the frame in the batch is to be discarded */
static bool
is_dropped(struct softrdma_faulty *faulty)
{
	const struct softrdma_fault *drop = fault_of(faulty, SOFTRDMA_FAULT_DROP_AFTER);
	if (drop->told && !faulty->silent && faulty->requests + faulty->answers > drop->value)
		fall_silent(faulty);
	return faulty->silent;
}

/* decides about the frame in the batch; false: it must wait. READY and DISCONNECT are not counted. */
static bool
may_go(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	struct softrdma_faulty *faulty = conn->faulty;
	struct softrdma_tx *tx = &link->tx;
	const uint8_t opcode = tx->opcode[tx->first];
	const bool request = softrdma_opcode_is_request(opcode);
	const bool counts = opcode != SOFTRDMA_OP_READY && opcode != SOFTRDMA_OP_DISCONNECT;
	if (counts)
		*(request ? &faulty->requests : &faulty->answers) += 1;
	if (is_dropped(faulty)) {
		tx->first = tx->count = 0;
		link->fin_due = false; /* the end of the stream would be a sign of life */
		return true;
	}
	/* requests and responses have random streams of their own: when a response leaves depends on the timing of threads */
	const uint64_t n = request ? faulty->requests : faulty->answers;
	const uint64_t stream = 2 * faulty->connection + request;
	if (!counts || link->qp == NULL ||
		!softrdma_faults_strike(&faulty->plan->faults, SOFTRDMA_FAULT_DELAY, stream, n))
		return true;
	faulty->held_until = softrdma_now_ns() + fault_of(faulty, SOFTRDMA_FAULT_DELAY)->value;
	set_alarm(faulty);
	return false;
}

/* true if the frame in the batch must wait. A queue pair being destroyed does not wait: it still owes acknowledgements. */
static bool
is_held(const struct softrdma_connection *conn)
{
	const struct softrdma_link *link = &conn->link;
	const struct softrdma_faulty *faulty = conn->faulty;
	return faulty->held_until && link->qp && softrdma_now_ns() < faulty->held_until;
}

bool
softrdma_faulty_fill(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	if (is_held(conn))
		return false;
	conn->faulty->held_until = 0;
	while (link->tx.first == link->tx.count) {
		strike_request(conn);
		if (!softrdma_link_tx_fill(link) || !may_go(conn))
			return false;
	}
	return true; /* the frame in the batch may leave */
}

/* --- flushes --- */

void
softrdma_faulty_flush_begins(struct softrdma_faulty *faulty)
{
	const uint64_t n = ++faulty->flushes;
	const bool slow = strikes(faulty, SOFTRDMA_FAULT_SLOW_FLUSH, n);
	faulty->flush_delay_ns = slow ? fault_of(faulty, SOFTRDMA_FAULT_SLOW_FLUSH)->value : 0;
	faulty->flush_fails = strikes(faulty, SOFTRDMA_FAULT_FLUSH_ERROR, n);
	if (slow || faulty->flush_fails)
		SOFTRDMA_LOG(NOTICE, "injected fault: flush %" PRIu64 " of connection %" PRIu64 " %s", n,
			faulty->connection, faulty->flush_fails ? "fails" : "takes its time");
}

void
softrdma_faulty_flush_waits(const struct softrdma_faulty *faulty)
{
	const uint64_t ns = faulty->flush_delay_ns;
	struct timespec left = { .tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S) };
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		;
}

/* --- the alarm --- */

static void
look_at(struct softrdma_connection *conn, const void *arg)
{
	if (conn->faulty)
		softrdma_faulty_look(conn, *(const uint64_t *)arg);
}

void
softrdma_faulty_ring(uint64_t now_ns)
{
	softrdma_links_for_each(look_at, &now_ns);
}
