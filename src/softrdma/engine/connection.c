/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* connection.c -- the socket of a link: from the time when the link gets it until it is closed */

#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/deadlines.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/fault_inject.h"
#include "softrdma/engine/lead.h"
#include "softrdma/engine/offender.h"
#include "softrdma/engine/receive.h"
#include "softrdma/engine/send.h"
#include "softrdma/samehost/shm_path.h"
#include "softrdma/wire/records.h"
#include "softrdma/wire/stream.h"
#include "usdt.h"

static struct softrdma_connection *
connection_of_watched(struct softrdma_watched *watched)
{
	return (struct softrdma_connection *)((char *)watched -
		offsetof(struct softrdma_connection, watched));
}

/* --- what its progress thread waits for, and does --- */

static uint32_t
awaited_events(const struct softrdma_connection *conn)
{
	uint32_t events = EPOLLET;
	if (conn->reader == SOFTRDMA_READER_ENGINE)
		events |= EPOLLIN | EPOLLRDHUP;
	if (conn->wants_space)
		events |= EPOLLOUT;
	return events;
}

int
softrdma_connection_watch_again(struct softrdma_connection *conn)
{
	return softrdma_engine_watch_again(&conn->watched, conn->fd, awaited_events(conn));
}

void
softrdma_connection_stream_ended(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	softrdma_link_lost(link);
	softrdma_connection_detach(link);
}

/* what is left for the progress thread; the epoll of a lead reports what is left in the socket, but not what the stream holds */
static void
leave_the_rest(struct softrdma_connection *conn, bool more)
{
	if (conn->fd >= 0 && more &&
		(conn->reader != SOFTRDMA_READER_LEAD || conn->transport->has_input(conn)))
		softrdma_engine_queue(&conn->watched);
}

/* replies: the calling thread takes the completions next */
static bool
serve(struct softrdma_connection *conn, bool replies)
{
	bool progress = false;
	const bool more = conn->transport->receive(conn, &progress);
	softrdma_offender_close(conn);
	if (replies && progress && softrdma_link_expects_reply(&conn->link)) {
		conn->awaits_reply = true;
		softrdma_deadline_limit_ack(conn);
	} else {
		conn->transport->send(conn);
	}
	leave_the_rest(conn, more);
	return progress;
}

bool
softrdma_connection_serve(struct softrdma_connection *conn)
{
	return serve(conn, false);
}

bool
softrdma_connection_serve_replier(struct softrdma_connection *conn)
{
	return serve(conn, true);
}

void
softrdma_connection_no_reply(struct softrdma_connection *conn)
{
	if (!conn->awaits_reply)
		return;
	softrdma_link_reply_is_late(&conn->link);
	conn->transport->send(conn);
}

void
softrdma_connection_flushed(struct softrdma_connection *conn)
{
	softrdma_lead_receives(conn);
	if (softrdma_receive_behind_flush(conn))
		softrdma_connection_serve(conn);
	softrdma_lead_receives(conn);
}

void
softrdma_connection_collect(struct softrdma_link *link)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	bool progress = false;
	if (link->state != SOFTRDMA_LINK_UP || link->requester.ring.tail == link->requester.tx)
		return;
	softrdma_lead_receives(conn);
	leave_the_rest(conn, softrdma_receive(conn, &progress));
	if (progress)
		softrdma_lead_receives(conn);
}

void
softrdma_connection_send(struct softrdma_link *link)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	conn->transport->send(conn);
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
	bool posted = conn->posts_handled != link->requester.ring.head;
	conn->posts_handled = link->requester.ring.head;
	return conn->fd >= 0 && conn->reader == SOFTRDMA_READER_ENGINE && !posted;
}

/*
 * True if a lead reads the socket, which was reported for room or before the lead had it: then the turn only sends. What the
 * stream holds no epoll reports.
 */
static bool
leaves_input(struct softrdma_connection *conn)
{
	if (conn->reader != SOFTRDMA_READER_LEAD || conn->transport->has_input(conn))
		return false;
	conn->transport->send(conn);
	return true;
}

/* for threads that are none of a lead's; true if something was received */
static bool
receive(struct softrdma_connection *conn)
{
	softrdma_lead_receives(conn);
	const bool progress = softrdma_connection_serve(conn);
	if (progress) {
		softrdma_lead_receives(conn);
		softrdma_lead_received(conn);
	}
	return progress;
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
	turn.progress = conn->fd >= 0 && !leaves_input(conn) && receive(conn);
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
	(void)beat; /* connections have that of deadlines only */
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
softrdma_connection_watch(struct softrdma_connection *conn, int fd)
{
	conn->fd = fd;
	softrdma_link_get(&conn->link);
	softrdma_engine_join(&conn->watched);
	const int ret = softrdma_engine_watch(&conn->watched, fd, awaited_events(conn));
	if (ret) {
		softrdma_engine_part(&conn->watched);
		conn->fd = -1;
		softrdma_fork_close(fd);
		atomic_fetch_sub(&conn->link.refs, 1); /* not the last one: the caller's */
	}
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
	conn->wants_space = true; /* the kernel reports it only after a send that found none */
	ret = softrdma_connection_watch(conn, fd);
	if (ret) {
		drop_stream(conn);
		return ret;
	}
	SOFTRDMA_COUNT(&link->responder.counters, connections, 1);
	USDT(softrdma, connect, link->requester.ring.qp_num, fd, conn->encrypted);
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
	softrdma_lead_lose(conn);
	softrdma_shm_path_end(link);
	int fd = conn->fd;
	if (conn->stream)
		SOFTRDMA_COUNT(&link->responder.counters, connections_ended, 1);
	USDT(softrdma, disconnect, link->requester.ring.qp_num, fd);
	conn->fd = -1;
	drop_stream(conn);
	link->tx.first = link->tx.count = 0;
	/* close() does not end the connection while a worker polls the socket */
	if (conn->reader == SOFTRDMA_READER_WORKER)
		shutdown(fd, SHUT_RDWR);
	softrdma_engine_unwatch(&conn->watched, fd);
	softrdma_engine_part(&conn->watched);
	softrdma_engine_retire(&conn->watched);
	softrdma_fork_close(fd);
}

void
softrdma_connection_stop_leading(struct softrdma_link *link)
{
	pthread_mutex_lock(&link->lock);
	softrdma_lead_lose(softrdma_connection_of(link));
	pthread_mutex_unlock(&link->lock);
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

/* --- streams --- */

static bool
stream_has_input(const struct softrdma_connection *conn)
{
	return softrdma_stream_has_input(conn->stream);
}

static const struct softrdma_transport by_stream = {
	.receive = softrdma_receive,
	.send = softrdma_send,
	.has_input = stream_has_input,
	.is_full = softrdma_send_is_full,
};

/* --- beginning and end --- */

static void
delete_connection(struct softrdma_link *link)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	assert(conn->fd == -1);
	softrdma_fault_inject_delete(conn->fault_inject);
	free(conn->datagram_socket);
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
	conn->transport = &by_stream;
	conn->watched.turn = take_turn;
	conn->watched.beat = beat;
	conn->watched.get = get;
	conn->watched.put = put;
	conn->fd = -1;
	return &conn->link;
}
