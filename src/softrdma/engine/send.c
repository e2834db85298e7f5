/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* send.c -- sends for a link to its socket, in bounded turns, and waits for room there */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "softrdma/base/cancel.h"
#include "softrdma/engine/deadlines.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/fault_inject.h"
#include "softrdma/engine/gather.h"
#include "softrdma/engine/send.h"
#include "softrdma/samehost/shm_path.h"
#include "softrdma/wire/stream.h"

/* batches that one connection sends before others get their turn; fewer if they are copied, and encrypted or summed */
#define TX_BATCHES 16
#define TX_SEALED_BATCHES 8

/* min_rnr_timer 0, which the connection manager sets, stands for 655.36 ms (IBTA vol. 1, table 45) */
#define RNR_TIMER_NS 655360000u
#define RNR_RETRY_FOR_EVER 7

static void
update_rnr_timer(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	bool had = softrdma_deadline_is_set(&conn->rnr_timer);
	bool waits = link->requester.waiting && conn->rnr_retry < RNR_RETRY_FOR_EVER;
	if (waits == had && (!waits || conn->rnr_refusals == link->requester.refusals))
		return;
	conn->rnr_refusals = link->requester.refusals;
	if (waits)
		softrdma_deadline_set(conn, &conn->rnr_timer,
			(conn->rnr_retry + 1u) * (uint64_t)RNR_TIMER_NS);
	else
		softrdma_deadline_clear(conn, &conn->rnr_timer);
}

/*
 * A peer does not read while it makes memory durable. If more has been sent after the FLUSH than buffers take, its
 * window closes. That is no sign of death.
 */
static void
update_patience(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	bool patient = link->requester.behind_flush;
	if (patient == conn->patient)
		return;
	conn->patient = patient;
	const unsigned timeout_ms = patient ? SOFTRDMA_FLUSH_TIMEOUT_MS : SOFTRDMA_PEER_TIMEOUT_MS;
	setsockopt(conn->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

void
softrdma_send_wait_for_space(struct softrdma_connection *conn)
{
	if (conn->wants_space)
		return;
	conn->wants_space = true;
	softrdma_connection_watch_again(conn);
}

bool
softrdma_send_is_full(const struct softrdma_connection *conn)
{
	const struct softrdma_link *link = &conn->link;
	return link->tx.first != link->tx.count || softrdma_stream_wants_space(conn->stream);
}

static bool
fill_batch(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	return conn->fault_inject ? softrdma_fault_inject_fill(conn) : softrdma_link_tx_fill(link);
}

/* sends a record from a copy: bytes must not change while they are encrypted or summed, and missing memory must not fault */
static ssize_t
send_sealed(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	struct softrdma_stream *stream = conn->stream;
	uint8_t *record = stream->ops->record(stream);
	if (record == NULL)
		return -1;
	ssize_t len = softrdma_link_tx_copy(link, record, stream->ops->record_size);
	if (len < 0)
		errno = EFAULT;
	else
		stream->ops->seal(stream, (size_t)len);
	return len;
}

static ssize_t
send_batch(struct softrdma_connection *conn)
{
	SOFTRDMA_NO_CANCEL;
	struct softrdma_tx *tx = &conn->link.tx;
	struct softrdma_stream *stream = conn->stream;
	if (conn->link.by_copy)
		return send_sealed(conn);
	return stream->ops->send(stream, tx->iov + tx->first, tx->count - tx->first);
}

/* sends what the stream had no room for before */
static bool
flush_stream(struct softrdma_connection *conn)
{
	SOFTRDMA_NO_CANCEL;
	return conn->stream->ops->flush(conn->stream);
}

static bool
end_stream(struct softrdma_connection *conn)
{
	SOFTRDMA_NO_CANCEL;
	return conn->stream->ops->end(conn->stream);
}

/* sends what the stream had no room for before, and then the end of the stream if it is due */
static void
send_rest(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	if (link->by_copy && !flush_stream(conn))
		softrdma_link_break(link); /* a record is lost that counted as sent */
	if (link->fin_due && !conn->fin_sent && link->tx.first == link->tx.count)
		conn->fin_sent = end_stream(conn);
	if (softrdma_stream_wants_space(conn->stream))
		softrdma_send_wait_for_space(conn);
}

/* completes requests locally, in the memory of a peer on the same host; the rest follows in another turn */
static void
complete_locally(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	bool more = softrdma_shm_path_run(link);
	link->requester.paused = more;
	if (link->requester.ring.overrun && !link->failed)
		softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
	else if (more)
		softrdma_engine_queue(&conn->watched);
}

void
softrdma_send(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	conn->awaits_reply = false;
	softrdma_gather_ends(conn);
	if (link->shm_path)
		complete_locally(conn);
	softrdma_deadline_limit_end(conn);
	softrdma_deadline_limit_absence(conn);
	update_rnr_timer(conn); /* here too: a full socket must not keep a timer that is not needed */
	int batches = link->by_copy ? TX_SEALED_BATCHES : TX_BATCHES;
	while (conn->fd >= 0 && fill_batch(conn)) {
		update_patience(conn);
		/* counts whole batches: one may leave in many records */
		if (link->tx.first == 0 && batches-- == 0) {
			softrdma_engine_queue(&conn->watched);
			return;
		}
		ssize_t n = send_batch(conn);
		if (n >= 0) {
			softrdma_link_tx_done(link, (size_t)n);
		} else if (errno == EAGAIN) {
			softrdma_send_wait_for_space(conn);
			return;
		} else if (errno == EFAULT) {
			softrdma_link_tx_fault(link);
			softrdma_connection_stream_ended(conn);
		} else if (errno != EINTR) {
			softrdma_link_break(link);
		}
	}
	if (conn->fd >= 0)
		send_rest(conn);
	softrdma_deadline_limit_ack(conn);
	update_rnr_timer(conn);
}
