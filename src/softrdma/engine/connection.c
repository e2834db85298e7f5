/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* connection.c -- the socket of a link: receives for it, sends for it, and sets its deadlines */

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/source.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/deadlines.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/fault_inject.h"
#include "softrdma/engine/flush_worker.h"
#include "softrdma/engine/gather.h"
#include "softrdma/engine/reader.h"
#include "softrdma/samehost/shm_path.h"
#include "softrdma/wire/records.h"
#include "softrdma/wire/stream.h"
#include "usdt.h"

/* batches that one connection sends before others get their turn; fewer if they are copied, and encrypted or summed */
#define TX_BATCHES 16
#define TX_SEALED_BATCHES 8

/* min_rnr_timer 0, which the connection manager sets, stands for 655.36 ms (IBTA vol. 1, table 45) */
#define RNR_TIMER_NS 655360000u
#define RNR_RETRY_FOR_EVER 7

static struct softrdma_connection *
connection_of_watched(struct softrdma_watched *watched)
{
	return (struct softrdma_connection *)((char *)watched -
		offsetof(struct softrdma_connection, watched));
}

/* --- receiving --- */

int
softrdma_connection_watch_again(struct softrdma_connection *conn)
{
	uint32_t events = EPOLLET;
	if (conn->reader == SOFTRDMA_READER_ENGINE)
		events |= EPOLLIN | EPOLLRDHUP;
	if (conn->reader != SOFTRDMA_READER_POLLER && conn->wants_space)
		events |= EPOLLOUT;
	return softrdma_engine_watch_again(&conn->watched, conn->fd, events);
}

/*
 * Counts a remote access violation against the peer's address, and logs it. A peer that guesses keys may end the
 * connection together with its request: that counts all the same.
 */
static void
note_offender(struct softrdma_connection *conn)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	if (!conn->link.responder.access_violation || conn->offence_noted)
		return;
	conn->offence_noted = true;
	char host[NI_MAXHOST] = "an unknown address";
	getnameinfo(&conn->peer.any, softrdma_address_length(&conn->peer.any), host, sizeof(host), NULL, 0,
		NI_NUMERICHOST);
	const struct softrdma_source source = softrdma_source_of(&conn->peer.any);
	unsigned times = softrdma_source_add_violation(&source, softrdma_now_ns());
	/*
	 * message(connected): at the owner of the memory: an operation of that address was refused -> A
	 * program error there, or an attack. The memory was not registered for the operation, was
	 * deregistered, or belongs to another peer than the connection's. The other side's operation
	 * completes with *remote access error*.
	 */
	SOFTRDMA_LOG_FEW(&limit, WARNING,
		"%s has reached for memory that it may not have (wrong key, range or right): connection closed, "
		"number %u from there",
		host, times);
}

void
softrdma_connection_stream_ended(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	softrdma_link_lost(link);
	softrdma_connection_detach(link);
}

static void
protocol_broken(struct softrdma_connection *conn)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	/* message(breaks-protocol) */
	SOFTRDMA_LOG_FEW(&limit, ERROR, "a peer sent %s: connection closed", conn->link.breach);
	softrdma_connection_stream_ended(conn);
}

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

bool
softrdma_connection_after_receive(struct softrdma_connection *conn, bool ok)
{
	struct softrdma_link *link = &conn->link;
	while (ok && softrdma_responder_is_flushing(&link->responder) && !conn->flush_running) {
		softrdma_flush_start(conn);
		if (!softrdma_responder_is_flushing(&link->responder))
			ok = softrdma_link_rx_go_on(link);
	}
	note_offender(conn);
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
	const char *why = conn->stream->ops->why(conn->stream);
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
	ssize_t n = stream->ops->look(stream, &bytes);
	if (n <= 0)
		return nothing_received(conn, n);
	*progress = true;
	ssize_t used = softrdma_link_rx_take(link, bytes, (size_t)n);
	if (used >= 0)
		stream->ops->take(stream, (size_t)used);
	return softrdma_connection_after_receive(conn, used >= 0) &&
		(conn->hung_up || stream->ops->has_input(stream));
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
		bool alive = softrdma_connection_after_receive(conn, softrdma_link_rx_done(link, (size_t)n));
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

/* --- sending --- */

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

/* the socket is full (back-pressure): an edge of epoll reports the room, or a poller finds it */
static void
wait_for_space(struct softrdma_connection *conn)
{
	if (conn->wants_space)
		return;
	conn->wants_space = true;
	if (conn->reader != SOFTRDMA_READER_POLLER)
		softrdma_connection_watch_again(conn);
}

bool
softrdma_connection_is_full(const struct softrdma_connection *conn)
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
	if (softrdma_stream_copies(stream))
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
	if (softrdma_stream_copies(conn->stream) && !flush_stream(conn))
		softrdma_link_break(link); /* a record is lost that counted as sent */
	if (link->fin_due && !conn->fin_sent && link->tx.first == link->tx.count)
		conn->fin_sent = end_stream(conn);
	if (softrdma_stream_wants_space(conn->stream))
		wait_for_space(conn);
}

/* completes requests locally, in the memory of a peer on the same host; the rest follows in another turn */
static void
complete_locally(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	bool more = softrdma_shm_path_run(link);
	link->requester.paused = more;
	if (link->requester.overrun && !link->failed)
		softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
	else if (more)
		softrdma_engine_queue(&conn->watched);
}

void
softrdma_connection_send(struct softrdma_link *link)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	softrdma_gather_ends(conn);
	if (link->shm_path)
		complete_locally(conn);
	softrdma_deadline_limit_end(conn);
	softrdma_deadline_limit_absence(conn);
	update_rnr_timer(conn); /* here too: a full socket must not keep a timer that is not needed */
	int batches = conn->stream && softrdma_stream_copies(conn->stream) ? TX_SEALED_BATCHES : TX_BATCHES;
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
			wait_for_space(conn);
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

/* --- serving --- */

/*
 * A wrong key costs its connection, so an address would have as many guesses as connections. This look leaves it the
 * limit. A guess is not known before it is answered, so honest peers at that address lose theirs as well.
 */
void
softrdma_connection_shut_out(struct softrdma_connection *conn)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	struct softrdma_link *link = &conn->link;
	const unsigned shut_outs = softrdma_source_shut_outs();
	if (conn->shut_outs == shut_outs)
		return;
	conn->shut_outs = shut_outs;
	/* the NAK of its own wrong key must leave, and close_offender() ends it after that */
	if (link->state != SOFTRDMA_LINK_UP || link->responder.access_violation)
		return;
	const struct softrdma_source source = softrdma_source_of(&conn->peer.any);
	if (!softrdma_source_is_shut_out(&source, softrdma_now_ns()))
		return;
	char name[SOFTRDMA_NAME_SIZE];
	/* message(not-heard) */
	SOFTRDMA_LOG_FEW(&limit, WARNING,
		"%s is no longer heard: too many wrong keys from there, on other connections: connection closed",
		softrdma_address_name(&conn->peer.any, name, sizeof(name)));
	softrdma_link_close(link);
	softrdma_connection_deadline(link, SOFTRDMA_PEER_TIMEOUT_MS);
}

/*
 * Closes the connection after a remote access violation, unless it has ended already. One wrong key, range or right is
 * enough, because the peer may be guessing. It still gets the NAK.
 */
static void
close_offender(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	if (!link->responder.access_violation || link->state != SOFTRDMA_LINK_UP)
		return;
	softrdma_link_close_after_violation(link);
	softrdma_connection_deadline(link, SOFTRDMA_PEER_TIMEOUT_MS);
}

/* receives in bounded time; true if more may be there */
static bool
receive(struct softrdma_connection *conn, bool *progress)
{
	struct softrdma_link *link = &conn->link;
	bool more = conn->fd >= 0;
	const uint32_t frames = link->frames_received;
	conn->flushed_in_turn = 0;
	softrdma_connection_shut_out(conn);
	for (int turn = 0; more && turn < SOFTRDMA_RX_TURNS; turn++) {
		more = receive_once(conn, progress);
		const uint32_t served = link->frames_received - frames;
		/* bounds frames too: those without payload cost time and no bytes. Work of other connections may wait unseen. */
		if (served >= SOFTRDMA_RX_FRAMES_MAX ||
			(served >= SOFTRDMA_RX_FRAMES &&
				softrdma_engine_has_queued(softrdma_engine_of(&conn->watched))))
			break;
	}
	return more;
}

/* what is left for the progress thread; a poller comes again, or returns the socket */
static void
leave_the_rest(struct softrdma_connection *conn, bool more)
{
	if (conn->fd >= 0 && more && conn->reader != SOFTRDMA_READER_POLLER)
		softrdma_engine_queue(&conn->watched);
}

bool
softrdma_connection_serve(struct softrdma_connection *conn)
{
	bool progress = false;
	const bool more = receive(conn, &progress);
	close_offender(conn);
	softrdma_connection_send(&conn->link);
	leave_the_rest(conn, more);
	return progress;
}

void
softrdma_connection_collect(struct softrdma_link *link)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	bool progress = false;
	if (link->state == SOFTRDMA_LINK_UP && link->requester.tail != link->requester.tx)
		leave_the_rest(conn, receive(conn, &progress));
}

/* true if a poller has served it since the last call: the poller will probably get the next input, too */
static bool
is_polled(struct softrdma_connection *conn)
{
	bool polled = conn->polls != conn->polls_handled;
	conn->polls_handled = conn->polls;
	return polled;
}

/* true if the progress thread may poll the connection: no other thread posts (needs the lock) or reads the socket */
static bool
is_left_alone(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	bool posted = conn->posts_handled != link->requester.head;
	conn->posts_handled = link->requester.head;
	return conn->fd >= 0 && conn->reader == SOFTRDMA_READER_ENGINE && !posted;
}

/* one turn of the progress thread. The link's lock is not held. */
static struct softrdma_turn
take_turn(struct softrdma_watched *watched, uint32_t events)
{
	struct softrdma_connection *conn = connection_of_watched(watched);
	struct softrdma_turn turn;
	pthread_mutex_lock(&conn->link.lock);
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		conn->hung_up = true;
	turn.progress = conn->fd >= 0 && softrdma_connection_serve(conn);
	conn->idle_polls = turn.progress ? 0 : conn->idle_polls; /* the poller would have had to be quicker */
	/* no input follows a FLUSH before it is made; its worker, or a poller, may be waiting for this processor */
	turn.may_follow = !is_polled(conn) && !conn->flush_running;
	turn.alone = is_left_alone(conn) && turn.may_follow;
	pthread_mutex_unlock(&conn->link.lock);
	return turn;
}

static void
get(struct softrdma_watched *watched)
{
	softrdma_link_get(&connection_of_watched(watched)->link);
}

static void
put(struct softrdma_watched *watched)
{
	softrdma_link_put(&connection_of_watched(watched)->link);
}

static void
beat(struct softrdma_watched *watched, enum softrdma_beat beat, uint64_t now_ns)
{
	struct softrdma_connection *conn = connection_of_watched(watched);
	if (beat == SOFTRDMA_BEAT_POLLERS)
		softrdma_reader_check(conn, now_ns);
	else
		softrdma_deadlines_check(conn, now_ns);
}

/* --- the socket --- */

/* now, because the kernel forgets the address when the peer resets the connection */
static void
remember_peer(struct softrdma_connection *conn, int fd)
{
	socklen_t len = sizeof(conn->peer);
	memset(&conn->peer, 0, sizeof(conn->peer));
	getpeername(fd, &conn->peer.any, &len);
	conn->offence_noted = false;
	conn->shut_outs = 0;
}

static void
drop_stream(struct softrdma_connection *conn)
{
	if (conn->stream)
		conn->stream->ops->delete (conn->stream);
	conn->stream = NULL;
}

/* sets the stream that both sides have agreed on; 0 or an errno value */
static int
take_stream(struct softrdma_connection *conn, int fd, struct softrdma_tls *tls, bool records)
{
	struct softrdma_link *link = &conn->link;
	int ret = 0;
	if (tls)
		conn->stream = softrdma_tls_stream(tls);
	else if (records)
		ret = softrdma_records_new(fd, &conn->stream);
	else
		conn->stream = softrdma_plain_init(&conn->plain, fd);
	conn->encrypted = tls != NULL;
	link->by_copy = ret == 0 && softrdma_stream_copies(conn->stream);
	return ret;
}

int
softrdma_connection_attach(struct softrdma_link *link, int fd, struct softrdma_tls *tls, bool records)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	assert(conn->fd == -1 && conn->stream == NULL);
	int ret = take_stream(conn, fd, tls, records);
	if (ret) {
		softrdma_fork_close(fd);
		return ret;
	}
	softrdma_deadlines_of_socket(fd);
	const int unsent = SOFTRDMA_UNSENT_MAX; /* if this fails, a peer that does not read only costs more */
	setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
	remember_peer(conn, fd);
	conn->fd = fd;
	conn->wants_space = true; /* SOFTRDMA_WATCHED_EVENTS includes EPOLLOUT */
	softrdma_link_get(link);
	softrdma_engine_join(&conn->watched);
	ret = softrdma_engine_watch(&conn->watched, fd, SOFTRDMA_WATCHED_EVENTS);
	if (ret) {
		softrdma_engine_part(&conn->watched);
		conn->fd = -1;
		drop_stream(conn);
		softrdma_fork_close(fd);
		atomic_fetch_sub(&link->refs, 1); /* not the last one: the caller's */
		return ret;
	}
	SOFTRDMA_COUNT(&link->responder.counters, connections, 1);
	USDT(softrdma, connect, link->requester.qp_num, fd, conn->encrypted);
	/* the shared-memory path is for peers that are trusted, so not with TLS; and faults need frames */
	if (conn->fault_inject)
		softrdma_fault_inject_attached(conn);
	else if (!conn->encrypted)
		softrdma_shm_path_offer(link, fd);
	/* no edge comes for bytes that TLS received together with the last message of the handshake */
	if (softrdma_stream_has_input(conn->stream))
		softrdma_engine_queue(&conn->watched);
	return 0;
}

void
softrdma_connection_peer_is(struct softrdma_link *link, const struct sockaddr *addr)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	if (conn->peer.any.sa_family == AF_UNSPEC)
		memcpy(&conn->peer, addr, softrdma_address_length(addr));
}

void
softrdma_connection_detach(struct softrdma_link *link)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	softrdma_deadline_clear(conn, &conn->deadline);
	softrdma_deadline_clear(conn, &conn->rnr_timer);
	softrdma_deadline_clear(conn, &conn->ack_timer);
	if (conn->fd < 0)
		return;
	softrdma_reader_leave(conn);
	softrdma_shm_path_end(link);
	int fd = conn->fd;
	SOFTRDMA_COUNT(&link->responder.counters, connections_ended, 1);
	USDT(softrdma, disconnect, link->requester.qp_num, fd);
	conn->fd = -1;
	drop_stream(conn);
	link->tx.first = link->tx.count = 0;
	/* close() does not end the connection while a waiter polls the socket */
	if (conn->reader == SOFTRDMA_READER_BORROWER)
		shutdown(fd, SHUT_RDWR);
	softrdma_engine_unwatch(&conn->watched, fd);
	softrdma_engine_part(&conn->watched);
	softrdma_engine_retire(&conn->watched);
	softrdma_fork_close(fd);
}

void
softrdma_connection_deadline(struct softrdma_link *link, unsigned ms)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	if (ms)
		softrdma_deadline_set(conn, &conn->deadline, (uint64_t)ms * SOFTRDMA_NS_PER_MS);
	else
		softrdma_deadline_clear(conn, &conn->deadline);
}

void
softrdma_connection_receive_posted(struct softrdma_link *link)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	pthread_mutex_lock(&link->lock);
	if (link->qp && conn->fd >= 0) {
		softrdma_responder_replenished(&link->responder);
		softrdma_connection_send(link);
	}
	pthread_mutex_unlock(&link->lock);
}

/* --- beginning and end --- */

static void
delete_connection(struct softrdma_link *link)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	assert(conn->fd == -1);
	softrdma_fault_inject_delete(conn->fault_inject);
	free(conn);
}

struct softrdma_link *
softrdma_connection_new(void)
{
	struct softrdma_connection *conn = malloc(sizeof(*conn));
	if (conn == NULL)
		return NULL;
	memset((char *)conn + sizeof(conn->link), 0, sizeof(*conn) - sizeof(conn->link));
	if (softrdma_fault_inject_new(&conn->fault_inject)) {
		free(conn);
		return NULL;
	}
	softrdma_link_init(&conn->link, delete_connection);
	if (conn->fault_inject)
		conn->link.tx.frames_max = 1; /* faults strike single frames */
	conn->watched.turn = take_turn;
	conn->watched.beat = beat;
	conn->watched.get = get;
	conn->watched.put = put;
	conn->fd = -1;
	return &conn->link;
}
