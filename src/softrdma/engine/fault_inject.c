/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* fault_inject.c -- what injected faults do to one connection */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "softrdma/base/env.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/fault_inject.h"
#include "softrdma/engine/links.h"

#define NS_PER_S 1000000000u

int
softrdma_fault_inject_new(struct softrdma_fault_inject **inject_ptr)
{
	struct softrdma_fault_plan *plan = softrdma_fault_plan_get();
	*inject_ptr = NULL;
	if (plan == NULL)
		return 0;
	int ret = 0;
	uint64_t connection = atomic_fetch_add(&plan->connections, 1) + 1;
	if (!softrdma_fault_spec_concern(&plan->spec, connection))
		goto put_plan;
	struct softrdma_fault_inject *inject = calloc(1, sizeof(*inject));
	if (inject == NULL) {
		ret = ENOMEM;
		goto put_plan;
	}
	inject->plan = plan;
	inject->connection = connection;
	*inject_ptr = inject;
	return 0;

put_plan:
	softrdma_fault_plan_put(plan);
	return ret;
}

void
softrdma_fault_inject_delete(struct softrdma_fault_inject *inject)
{
	if (inject)
		softrdma_fault_plan_put(inject->plan);
	free(inject);
}

static const struct softrdma_fault *
fault_of(const struct softrdma_fault_inject *inject, enum softrdma_fault_word word)
{
	return &inject->plan->spec.word[word];
}

static bool
strikes(const struct softrdma_fault_inject *inject, enum softrdma_fault_word word, uint64_t n)
{
	return softrdma_fault_spec_strike(&inject->plan->spec, word, inject->connection, n);
}

enum softrdma_datagram_fate
softrdma_fault_inject_datagram(const struct softrdma_fault_inject *inject)
{
	static const struct {
		enum softrdma_fault_word word;
		enum softrdma_datagram_fate fate;
	} fates[] = {
		{ SOFTRDMA_FAULT_LOSE, SOFTRDMA_DATAGRAM_IS_LOST },
		{ SOFTRDMA_FAULT_DUPLICATE, SOFTRDMA_DATAGRAM_LEAVES_TWICE },
		{ SOFTRDMA_FAULT_REORDER, SOFTRDMA_DATAGRAM_LEAVES_LATER },
		{ SOFTRDMA_FAULT_CORRUPT, SOFTRDMA_DATAGRAM_IS_CORRUPT },
	};
	for (size_t i = 0; i < sizeof(fates) / sizeof(fates[0]); i++) {
		if (strikes(inject, fates[i].word, inject->datagrams + 1))
			return fates[i].fate;
	}
	return SOFTRDMA_DATAGRAM_LEAVES;
}

/* --- time --- */

static void
set_alarm(const struct softrdma_fault_inject *inject)
{
	const uint64_t times[] = { inject->held_until, inject->disconnect_at, inject->give_up_at };
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		if (times[i])
			softrdma_engine_alarm(times[i]);
	}
}

void
softrdma_fault_inject_attached(struct softrdma_connection *conn)
{
	struct softrdma_fault_inject *inject = conn->fault_inject;
	const struct softrdma_fault *disconnect = fault_of(inject, SOFTRDMA_FAULT_DISCONNECT);
	if (disconnect->told)
		inject->disconnect_at = softrdma_now_ns() + disconnect->value;
	set_alarm(inject);
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
softrdma_fault_inject_look(struct softrdma_connection *conn, uint64_t now_ns)
{
	struct softrdma_link *link = &conn->link;
	struct softrdma_fault_inject *inject = conn->fault_inject;
	if (conn->fd < 0)
		return; /* it is over */
	if (inject->give_up_at && now_ns >= inject->give_up_at) {
		softrdma_link_lost(link);
		softrdma_connection_detach(link);
		return;
	}
	if (inject->disconnect_at && now_ns >= inject->disconnect_at) {
		inject->disconnect_at = 0;
		if (link->state == SOFTRDMA_LINK_UP) {
			SOFTRDMA_LOG(NOTICE, "injected fault: connection %" PRIu64 " ends, its time is over",
				inject->connection);
			end_connection(conn);
		}
	}
	softrdma_connection_send(link);
	set_alarm(inject);
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
	struct softrdma_fault_inject *inject = conn->fault_inject;
	struct softrdma_requester *req = &link->requester;
	const struct softrdma_fault *end = fault_of(inject, SOFTRDMA_FAULT_DISCONNECT_AFTER);
	if (link->state != SOFTRDMA_LINK_UP || req->failed)
		return;
	const uint64_t sent = req->tx - link->seq, responded = req->ring.tail - link->seq;
	const bool ends = end->told && sent >= end->value;
	const bool fails =
		!ends && req->tx != req->ring.head && strikes(inject, SOFTRDMA_FAULT_WC_ERROR, sent + 1);
	req->paused = ends || fails;
	if (!req->paused || responded != sent)
		return;
	if (ends) {
		SOFTRDMA_LOG(NOTICE,
			"injected fault: connection %" PRIu64 " ends after work request %" PRIu64,
			inject->connection, sent);
		end_connection(conn);
	} else {
		SOFTRDMA_LOG(NOTICE,
			"injected fault: an error for work request %" PRIu64 " of connection %" PRIu64,
			sent + 1, inject->connection);
		softrdma_requester_fail_at(req, req->tx,
			(enum ibv_wc_status)fault_of(inject, SOFTRDMA_FAULT_WC_ERROR)->value);
		softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
	}
}

/* nothing leaves from here on; after a time this side gives up, so that the fault is noticed */
static void
fall_silent(struct softrdma_fault_inject *inject)
{
	SOFTRDMA_LOG(NOTICE, "injected fault: connection %" PRIu64 " is silent after %" PRIu64 " frames",
		inject->connection, inject->requests + inject->responses - 1);
	inject->silent = true;
	inject->give_up_at = softrdma_now_ns() + fault_of(inject, SOFTRDMA_FAULT_RETRY_TIMEOUT)->value;
	set_alarm(inject);
}

/* true if the frame in the batch is to be discarded */
static bool
is_dropped(struct softrdma_fault_inject *inject)
{
	const struct softrdma_fault *drop = fault_of(inject, SOFTRDMA_FAULT_DROP_AFTER);
	if (drop->told && !inject->silent && inject->requests + inject->responses > drop->value)
		fall_silent(inject);
	return inject->silent;
}

/* decides about the frame in the batch; false: it must wait. READY and DISCONNECT are not counted. */
static bool
may_go(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	struct softrdma_fault_inject *inject = conn->fault_inject;
	struct softrdma_tx *tx = &link->tx;
	const uint8_t opcode = tx->opcode[tx->first];
	const bool request = softrdma_opcode_is_request(opcode);
	const bool counts = opcode != SOFTRDMA_OP_READY && opcode != SOFTRDMA_OP_DISCONNECT;
	if (counts)
		*(request ? &inject->requests : &inject->responses) += 1;
	if (is_dropped(inject)) {
		tx->first = tx->count = 0;
		link->fin_due = false; /* the end of the stream would be a sign of life */
		return true;
	}
	/* requests and responses have random streams of their own: when a response leaves depends on the timing of threads */
	const uint64_t n = request ? inject->requests : inject->responses;
	const uint64_t stream = 2 * inject->connection + request;
	if (!counts || link->qp == NULL ||
		!softrdma_fault_spec_strike(&inject->plan->spec, SOFTRDMA_FAULT_DELAY, stream, n))
		return true;
	inject->held_until = softrdma_now_ns() + fault_of(inject, SOFTRDMA_FAULT_DELAY)->value;
	set_alarm(inject);
	return false;
}

/* true if the frame in the batch must wait. A queue pair being destroyed does not wait: it still owes acknowledgements. */
static bool
is_held(const struct softrdma_connection *conn)
{
	const struct softrdma_link *link = &conn->link;
	const struct softrdma_fault_inject *inject = conn->fault_inject;
	return inject->held_until && link->qp && softrdma_now_ns() < inject->held_until;
}

bool
softrdma_fault_inject_fill(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	if (is_held(conn))
		return false;
	conn->fault_inject->held_until = 0;
	while (link->tx.first == link->tx.count) {
		strike_request(conn);
		if (!softrdma_link_tx_fill(link) || !may_go(conn))
			return false;
	}
	return true; /* the frame in the batch may leave */
}

/* --- flushes --- */

void
softrdma_fault_inject_flush_begins(struct softrdma_fault_inject *inject)
{
	const uint64_t n = ++inject->flushes;
	const bool slow = strikes(inject, SOFTRDMA_FAULT_SLOW_FLUSH, n);
	inject->flush_delay_ns = slow ? fault_of(inject, SOFTRDMA_FAULT_SLOW_FLUSH)->value : 0;
	inject->flush_fails = strikes(inject, SOFTRDMA_FAULT_FLUSH_ERROR, n);
	if (slow || inject->flush_fails)
		SOFTRDMA_LOG(NOTICE, "injected fault: flush %" PRIu64 " of connection %" PRIu64 " %s", n,
			inject->connection, inject->flush_fails ? "fails" : "takes its time");
}

void
softrdma_fault_inject_flush_waits(const struct softrdma_fault_inject *inject)
{
	const uint64_t ns = inject->flush_delay_ns;
	struct timespec left = { .tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S) };
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		;
}

/* --- the alarm --- */

static void
look_at(struct softrdma_connection *conn, const void *arg)
{
	if (conn->fault_inject)
		softrdma_fault_inject_look(conn, *(const uint64_t *)arg);
}

void
softrdma_fault_inject_alarm(uint64_t now_ns)
{
	softrdma_links_for_each(look_at, &now_ns);
}
