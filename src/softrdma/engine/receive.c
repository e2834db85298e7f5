/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* receive.c -- receives for a link from its socket, in bounded turns */

#include <errno.h>

#include "softrdma/base/env.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/flush_worker.h"
#include "softrdma/engine/offender.h"
#include "softrdma/engine/receive.h"
#include "softrdma/wire/stream.h"

/* the record and all that came after it are discarded */
static void
record_damaged(struct softrdma_connection *conn)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	atomic_fetch_add(&conn->crc_errors, 1);
	/*
	 * message(connected): the check sum of data is wrong; nothing of it was stored -> Connect again,
	 * and look for the faulty part: `ethtool -S` counts errors of a card.
	 */
	SOFTRDMA_LOG_FEW(&limit, ERROR,
		"what a peer has sent was damaged on its way (CRC32C): connection closed; look for a faulty "
		"network card, cable, switch or memory");
	SOFTRDMA_COUNT(&conn->link.responder.counters, crc_errors, 1);
	softrdma_connection_stream_ended(conn);
}

static void
protocol_broken(struct softrdma_connection *conn)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	/* message(breaks-protocol) */
	SOFTRDMA_LOG_FEW(&limit, ERROR, "a peer sent %s: connection closed", conn->link.breach);
	softrdma_connection_stream_ended(conn);
}

/* after each receive: starts a flush that is due; ok is false if the peer broke the protocol. False: the stream is over. */
static bool
after_receive(struct softrdma_connection *conn, bool ok)
{
	struct softrdma_link *link = &conn->link;
	while (ok && softrdma_responder_is_flushing(&link->responder) && !conn->flush_running) {
		softrdma_flush_start(conn);
		if (!softrdma_responder_is_flushing(&link->responder))
			ok = softrdma_link_rx_go_on(link);
	}
	softrdma_offender_note(conn);
	if (!ok)
		protocol_broken(conn);
	return ok;
}

static size_t
iov_length(const struct iovec *iov, int count)
{
	size_t len = 0;
	for (int i = 0; i < count; i++)
		len += iov[i].iov_len;
	return len;
}

/* writes to the log why TLS has failed; a stream that just ends needs no line */
static void
tell_why(const struct softrdma_connection *conn)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	const struct softrdma_stream *stream = conn->stream;
	const char *why = stream->ops->why ? stream->ops->why(stream) : "";
	/*
	 * message(tls): an established connection; the text is OpenSSL's -> If the peer was killed,
	 * nothing. *decryption failed or bad record mac*: the stream was changed on its way.
	 */
	if (*why)
		SOFTRDMA_LOG_FEW(&limit, WARNING, "a connection over TLS has failed, and is closed: %s", why);
}

/* handles a receive without bytes; true: try again at once. False: there is no input now, or the stream is over. */
static bool
nothing_received(struct softrdma_connection *conn, ssize_t n)
{
	const int error = n < 0 ? errno : 0;
	if (error == EAGAIN || error == EINTR)
		return error == EINTR;
	if (error == EBADMSG) {
		record_damaged(conn);
	} else if (error == EPROTO) {
		protocol_broken(conn);
	} else {
		tell_why(conn);
		softrdma_connection_stream_ended(conn);
	}
	return false;
}

/* as receive_once(), for records: the link copies bytes that the stream has checked */
static bool
receive_good(struct softrdma_connection *conn, bool *progress)
{
	struct softrdma_link *link = &conn->link;
	struct softrdma_stream *stream = conn->stream;
	const uint8_t *bytes;
	if (softrdma_responder_is_flushing(&link->responder))
		return false;
	stream->came = false;
	ssize_t n = stream->ops->look(stream, &bytes);
	*progress |= n > 0 || stream->came;
	if (n <= 0)
		return nothing_received(conn, n);
	ssize_t used = softrdma_link_rx_take(link, bytes, (size_t)n);
	if (used >= 0)
		stream->ops->take(stream, (size_t)used);
	return after_receive(conn, used >= 0) && (conn->hung_up || stream->ops->has_input(stream));
}

/* receives once; a plain stream puts payload straight into registered memory (zero-copy). True if more may be there. */
static bool
receive_once(struct softrdma_connection *conn, bool *progress)
{
	struct softrdma_link *link = &conn->link;
	if (conn->stream->ops->look)
		return receive_good(conn, progress);
	struct iovec iov[SOFTRDMA_SGE_MAX + 1];
	int count = softrdma_link_rx_iov(link, iov);
	if (count == 0)
		return false;
	size_t wanted = iov_length(iov, count);
	ssize_t n = conn->stream->ops->recv(conn->stream, iov, (size_t)count);
	if (n > 0) {
		*progress = true;
		bool alive = after_receive(conn, softrdma_link_rx_done(link, (size_t)n));
		/*
		 * A short read has emptied the socket, unless the stream holds more, or memory was not there, which
		 * the next read tells. Of what follows, only the end of the stream may come without an edge.
		 */
		return alive &&
			((size_t)n == wanted || conn->hung_up || softrdma_stream_has_input(conn->stream) ||
				softrdma_link_rx_may_fault(link));
	}
	if (n < 0 && errno == EFAULT) {
		softrdma_link_rx_fault(link);
		return link->rx.state == SOFTRDMA_RX_DISCARDING;
	}
	return nothing_received(conn, n);
}

/* bounds frames too: those without payload cost time and no bytes. Work of other connections may wait unseen. */
static bool
is_turn_over(const struct softrdma_connection *conn, uint32_t frames)
{
	return frames >= SOFTRDMA_RX_FRAMES_MAX ||
		(frames >= SOFTRDMA_RX_FRAMES &&
			softrdma_engine_has_queued(softrdma_engine_of(&conn->watched)));
}

bool
softrdma_receive(struct softrdma_connection *conn, bool *progress)
{
	struct softrdma_link *link = &conn->link;
	bool more = conn->fd >= 0;
	const uint32_t frames = link->frames_received;
	conn->flushed_in_turn = 0;
	softrdma_offender_shut_out(conn);
	for (int turn = 0; more && turn < SOFTRDMA_RX_TURNS; turn++) {
		more = receive_once(conn, progress);
		if (is_turn_over(conn, link->frames_received - frames))
			break;
	}
	return more;
}

bool
softrdma_receive_behind_flush(struct softrdma_connection *conn)
{
	softrdma_offender_shut_out(conn); /* requests that came with the FLUSH are in the stage */
	return conn->fd >= 0 && after_receive(conn, softrdma_link_rx_go_on(&conn->link));
}
