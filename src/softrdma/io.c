/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* io.c -- sockets and the progress thread */

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "board.h"
#include "copy.h"
#include "direct.h"
#include "env.h"
#include "faulty.h"
#include "fork.h"
#include "io.h"
#include "newcomers.h"
#include "records.h"
#include "source.h"
#include "stream.h"
#include "thread.h"
#include "workers.h"

/* how often deadlines are looked at, while there are any */
#define TICK_MS 20

/* how long a poller may pause before the progress thread serves its sockets again */
#define CLAIM_TICK_MS 2

/* polls without success after which a poller has its sockets to itself */
#define CLAIM_AFTER 64

/*
 * after work the progress thread looks for more for so long before it sleeps: an answer often follows at once
 */
#define SPIN_US_DEFAULT 50

/* a connection for which something came so often in a row is polled before all are looked at again ... */
#define BUSY_AFTER 4
/* ... so often, and a quarter of it if each time something has come */
#define BUSY_TURNS 16

#define EVENTS_MAX 64

/* the connection manager, and those who connect without it */
#define TICKERS_MAX 2

/* batches that one connection sends before others get their turn; fewer of what is copied, and encrypted or summed */
#define TX_BATCHES 16
#define TX_SEALED_BATCHES 8

/* min_rnr_timer 0, which the connection manager sets, stands for 655.36 ms (IBTA vol. 1, table 45) */
#define RNR_TIMER_NS 655360000u
#define RNR_RETRY_FOR_EVER 7

/* guards what is not marked otherwise */
static struct {
	pthread_mutex_t lock;
	pthread_mutex_t users_lock; /* starting and stopping; taken first */
	unsigned users;             /* guarded by users_lock */

	int epoll_fd;
	int wake_fd;
	pthread_t thread;
	bool running, stopping;

	struct softrdma_link *links;
	struct softrdma_link *work, *work_last; /* links that had more to do than one turn */
	unsigned work_count;                    /* peeked at without the lock */
	struct softrdma_watched *retired;       /* to be released when the thread is through its events */
	uint64_t alarm_ns;                      /* the earliest one; 0: none */
	unsigned claimed; /* links that pollers have to themselves; peeked at without the lock */
	int timed;        /* things with a deadline */
	uint64_t spin_ns;
	void (*ticks[TICKERS_MAX])(uint64_t now_ns);
} engine = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.users_lock = PTHREAD_MUTEX_INITIALIZER,
	.epoll_fd = -1,
	.wake_fd = -1,
};

/* is it worth looking at once for what comes behind that which this thread has handled last? */
static _Thread_local bool more_may_follow;

/*
 * The connection from which this thread expects more, as long as it does not sleep: to receive right away
 * costs less than to ask where something has come, and then to receive. The kernel goes on to tell what has
 * come, so nothing is lost when this ends.
 */
static _Thread_local struct {
	struct softrdma_link *link; /* referenced; NULL: none */
	unsigned events;            /* in a row, until there are BUSY_AFTER */
	unsigned turns;             /* what is left of them */
} hot;

void
softrdma_io_after_fork(void)
{
	softrdma_fork_keep(engine.links);
	softrdma_fork_keep(engine.work);
	softrdma_fork_keep(engine.retired);
	softrdma_fork_keep(hot.link);
	memset(&engine, 0, sizeof(engine));
	memset(&hot, 0, sizeof(hot));
	engine.lock = engine.users_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	engine.epoll_fd = engine.wake_fd = -1;
}

static void
wake_thread(void)
{
	const uint64_t one = 1;
	while (write(engine.wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* no more waited for: the thread may have an event of it in its hands, and releases it behind those */
static void
retire(struct softrdma_watched *watched)
{
	pthread_mutex_lock(&engine.lock);
	bool running = engine.running;
	if (running) {
		watched->retired_next = engine.retired;
		engine.retired = watched;
	}
	pthread_mutex_unlock(&engine.lock);
	if (!running)
		watched->release(watched);
}

/* --- one connection; its lock is held --- */

static void
queue_work(struct softrdma_link *link)
{
	pthread_mutex_lock(&engine.lock);
	bool wake = engine.work == NULL;
	if (!link->queued) {
		link->queued = true;
		link->work_next = NULL;
		softrdma_link_get(link);
		if (engine.work)
			engine.work_last->work_next = link;
		else
			engine.work = link;
		engine.work_last = link;
		__atomic_fetch_add(&engine.work_count, 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&engine.lock);
	if (wake)
		wake_thread();
}

/*
 * tells the kernel what the progress thread waits for at the socket; what is there already it reports again
 */
static int
watch_again(struct softrdma_link *link)
{
	struct epoll_event ev = { .events = EPOLLET, .data.ptr = &link->watched };
	if (!link->claimed && !link->lent)
		ev.events |= EPOLLIN | EPOLLRDHUP;
	if (!link->claimed && link->wants_space)
		ev.events |= EPOLLOUT;
	return epoll_ctl(engine.epoll_fd, EPOLL_CTL_MOD, link->fd, &ev);
}

static void
stream_ended(struct softrdma_link *link)
{
	softrdma_link_lost(link);
	softrdma_io_detach(link);
}

static void flush_on_worker(struct softrdma_link *link);

/* 0 or an errno value; a fault that is asked for leaves the range as it is, and says so */
static int
make_durable(const struct softrdma_link *link, struct softrdma_persist *persist, const void *addr, size_t len)
{
	if (link->faulty && link->faulty->flush_fails)
		return EIO;
	return softrdma_persist_flush(persist, addr, len);
}

/* makes the range durable that a FLUSH asks for: at once if that cannot block, else on a worker */
static void
start_flush(struct softrdma_link *link)
{
	struct softrdma_responder *resp = &link->responder;
	assert(resp->flushing && !link->flush_running);
	struct softrdma_persist *persist = resp->flush_mr->persist;
	const void *addr = (const void *)(uintptr_t)resp->flush_addr;
	if (link->faulty)
		softrdma_faulty_flush_begins(link->faulty);
	bool slow = link->faulty && link->faulty->flush_delay_ns > 0;
	/* many that would each be short are as long as one that is not */
	const size_t in_turn = link->flushed_in_turn + resp->flush_len;
	if (slow || softrdma_persist_may_block(persist, in_turn)) {
		link->flush_running = true;
		int ret = link->has_worker ? 0 : softrdma_workers_submit(link, flush_on_worker);
		if (ret == 0)
			return;
		link->flush_running = false;
		static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
		SOFTRDMA_LOG_FEW(&limit, WARNING,
			"no thread for a flush (%s): it holds up all other connections", strerror(ret));
	}
	link->flushed_in_turn = in_turn;
	softrdma_responder_flushed(resp, make_durable(link, persist, addr, resp->flush_len));
}

static void
protocol_broken(struct softrdma_link *link)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	SOFTRDMA_LOG_FEW(&limit, ERROR,
		"a peer sent what is no frame of the protocol, or none that fits here: connection closed");
	stream_ended(link);
}

/* nothing of it was looked at, and nothing behind it will be */
static void
record_damaged(struct softrdma_link *link)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	atomic_fetch_add(&link->crc_errors, 1);
	SOFTRDMA_LOG_FEW(&limit, ERROR,
		"what a peer has sent was damaged on its way (CRC32C): connection closed; look for a faulty "
		"network card, cable, switch or memory");
	stream_ended(link);
}

/* looks at what has been received and makes the flushes in it; false: the connection is over */
static bool
after_receive(struct softrdma_link *link, bool ok)
{
	while (ok && link->responder.flushing && !link->flush_running) {
		start_flush(link);
		if (!link->responder.flushing)
			ok = softrdma_link_rx_go_on(link);
	}
	if (!ok)
		protocol_broken(link);
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

/* TLS has failed: a stream that just ends needs no line */
static void
tell_why(const struct softrdma_link *link)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	const struct softrdma_stream *stream = link->stream;
	const char *why = stream && stream->ops->why ? stream->ops->why(stream) : "";
	if (*why)
		SOFTRDMA_LOG_FEW(&limit, WARNING, "a connection over TLS has failed, and is closed: %s", why);
}

/* nothing was received: true: to be tried again at once; else there is nothing now, or the stream is over */
static bool
nothing_received(struct softrdma_link *link, ssize_t n)
{
	const int error = n < 0 ? errno : 0;
	if (error == EAGAIN || error == EINTR)
		return error == EINTR;
	if (error == EBADMSG) {
		record_damaged(link);
	} else if (error == EPROTO) {
		protocol_broken(link);
	} else {
		tell_why(link);
		stream_ended(link);
	}
	return false;
}

/* as below, from where the stream has bytes that are good */
static bool
receive_good(struct softrdma_link *link, bool *progress)
{
	struct softrdma_stream *stream = link->stream;
	const uint8_t *bytes;
	if (link->responder.flushing)
		return false;
	ssize_t n = stream->ops->look(stream, &bytes);
	if (n <= 0)
		return nothing_received(link, n);
	*progress = true;
	ssize_t used = softrdma_link_rx_take(link, bytes, (size_t)n);
	if (used >= 0)
		stream->ops->take(stream, (size_t)used);
	return after_receive(link, used >= 0) && (link->hung_up || stream->ops->has_input(stream));
}

/* true: there may be more */
static bool
receive_once(struct softrdma_link *link, bool *progress)
{
	if (link->stream && link->stream->ops->look)
		return receive_good(link, progress);
	struct iovec iov[SOFTRDMA_SGE_MAX + 1];
	int count = softrdma_link_rx_iov(link, iov);
	if (count == 0)
		return false;
	size_t wanted = iov_length(iov, count);
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = (size_t)count };
	ssize_t n = softrdma_stream_recvmsg(link->fd, link->stream, &msg);
	if (n > 0) {
		*progress = true;
		bool alive = after_receive(link, softrdma_link_rx_done(link, (size_t)n));
		/*
		 * a short read has emptied the socket, but not what the stream holds, or memory was not
		 * there: the next read tells. Only the end of the stream may stand behind it, without an
		 * edge.
		 */
		return alive &&
			((size_t)n == wanted || link->hung_up || softrdma_stream_has_input(link->stream) ||
				softrdma_link_rx_may_fault(link));
	}
	if (n < 0 && errno == EFAULT) {
		softrdma_link_rx_fault(link);
		return link->rx.state == SOFTRDMA_RX_DISCARDING;
	}
	return nothing_received(link, n);
}

static void
update_rnr_deadline(struct softrdma_link *link)
{
	bool had = link->rnr_deadline != 0;
	bool waits = link->requester.waiting && link->rnr_retry < RNR_RETRY_FOR_EVER;
	if (waits == had && (!waits || link->rnr_refusals == link->requester.refusals))
		return;
	link->rnr_refusals = link->requester.refusals;
	link->rnr_deadline = waits ? softrdma_now_ns() + (link->rnr_retry + 1u) * (uint64_t)RNR_TIMER_NS : 0;
	softrdma_io_timed(waits - had);
}

/* requests wait for a side that has not connected yet, or has gone without having been needed */
static void
update_absence_deadline(struct softrdma_link *link)
{
	bool had = link->absence_deadline != 0;
	bool connected = link->state == SOFTRDMA_LINK_UP || link->state == SOFTRDMA_LINK_CLOSING;
	bool waits = link->absence_ms > 0 && !connected && link->requester.tail != link->requester.head;
	if (waits != had)
		link->absence_deadline =
			waits ? softrdma_now_ns() + (uint64_t)link->absence_ms * SOFTRDMA_NS_PER_MS : 0;
	softrdma_io_timed(waits - had);
}

/*
 * A peer that makes memory durable does not read meanwhile. If more has been sent behind the flush than
 * buffers take, its window closes, and that is no sign of death.
 */
static void
update_patience(struct softrdma_link *link)
{
	bool patient = link->requester.behind_flush;
	if (patient == link->patient)
		return;
	link->patient = patient;
	const unsigned timeout_ms = patient ? SOFTRDMA_FLUSH_TIMEOUT_MS : SOFTRDMA_PEER_TIMEOUT_MS;
	setsockopt(link->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

/* the edge will tell, or a poller finds out */
static void
wait_for_space(struct softrdma_link *link)
{
	if (link->wants_space)
		return;
	link->wants_space = true;
	if (!link->claimed)
		watch_again(link);
}

static bool
is_full(const struct softrdma_link *link)
{
	return link->tx.first != link->tx.count || softrdma_stream_wants_space(link->stream);
}

static bool
fill(struct softrdma_link *link)
{
	return link->faulty ? softrdma_faulty_fill(link) : softrdma_link_tx_fill(link);
}

/* a record, from a copy: what is encrypted or summed must not change, and memory that is gone must not be
 * touched */
static ssize_t
send_sealed(struct softrdma_link *link)
{
	struct softrdma_stream *stream = link->stream;
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
send_batch(struct softrdma_link *link)
{
	struct softrdma_tx *tx = &link->tx;
	if (link->stream)
		return send_sealed(link);
	struct msghdr msg = { .msg_iov = tx->iov + tx->first, .msg_iovlen = tx->count - tx->first };
	return softrdma_stream_sendmsg(link->fd, &msg);
}

/* what the stream could not send, or say, for want of room, and the end of the stream behind all */
static void
send_rest(struct softrdma_link *link)
{
	if (link->stream && !link->stream->ops->flush(link->stream))
		softrdma_link_break(link); /* a record that counted as sent */
	if (link->fin_due && !link->fin_sent && link->tx.first == link->tx.count)
		link->fin_sent = softrdma_stream_end(link->fd, link->stream);
	if (softrdma_stream_wants_space(link->stream))
		wait_for_space(link);
}

/* what the peer of this host has no part in; what is left of it goes on in another turn */
static void
make_directly(struct softrdma_link *link)
{
	bool more = softrdma_direct_run(link);
	link->requester.held = more;
	if (link->requester.overrun && !link->failed)
		softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
	else if (more)
		queue_work(link);
}

void
softrdma_io_send(struct softrdma_link *link)
{
	if (link->lane)
		make_directly(link);
	update_absence_deadline(link);
	update_rnr_deadline(link); /* here too: a full socket must not keep a timer alive that nobody needs */
	int batches = link->stream ? TX_SEALED_BATCHES : TX_BATCHES;
	while (link->fd >= 0 && fill(link)) {
		update_patience(link);
		/* a batch may leave in many records, so records are not what is counted */
		if (link->tx.first == 0 && batches-- == 0) {
			queue_work(link);
			return;
		}
		ssize_t n = send_batch(link);
		if (n >= 0) {
			softrdma_link_tx_done(link, (size_t)n);
		} else if (errno == EAGAIN) {
			wait_for_space(link);
			return;
		} else if (errno == EFAULT) {
			softrdma_link_tx_fault(link);
			stream_ended(link);
		} else if (errno != EINTR) {
			softrdma_link_break(link);
		}
	}
	if (link->fd >= 0)
		send_rest(link);
	update_rnr_deadline(link);
}

/* one wrong key, range or right is enough: there may be guessing behind it. The refusal is still told. */
static void
expel_trespasser(struct softrdma_link *link)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	if (!link->responder.trespassed || link->state != SOFTRDMA_LINK_UP)
		return;
	char host[NI_MAXHOST] = "an unknown address";
	struct sockaddr_storage addr = { 0 };
	socklen_t len = sizeof(addr);
	if (getpeername(link->fd, (struct sockaddr *)&addr, &len) == 0)
		getnameinfo((struct sockaddr *)&addr, len, host, sizeof(host), NULL, 0, NI_NUMERICHOST);
	const struct softrdma_source source = softrdma_source_of((struct sockaddr *)&addr);
	unsigned times = softrdma_source_accuse(&source, softrdma_now_ns());
	SOFTRDMA_LOG_FEW(&limit, WARNING,
		"%s has reached for memory that it may not have (wrong key, range or right): connection closed, "
		"number %u from there",
		host, times);
	softrdma_link_expel(link);
	softrdma_io_deadline(link, SOFTRDMA_PEER_TIMEOUT_MS);
}

/* do others have more to do than one turn? */
static bool
others_have_work(void)
{
	return __atomic_load_n(&engine.work_count, __ATOMIC_RELAXED) > 0;
}

/* receives and sends what there is, in bounded time; true: something was received */
static bool
serve(struct softrdma_link *link)
{
	bool progress = false;
	bool more = link->fd >= 0;
	const uint32_t frames = link->frames_received;
	link->flushed_in_turn = 0;
	for (int turn = 0; more && turn < SOFTRDMA_RX_TURNS; turn++) {
		more = receive_once(link, &progress);
		const uint32_t served = link->frames_received - frames;
		/* frames without payload cost time and no bytes; nobody has seen yet who has just come */
		if (served >= SOFTRDMA_RX_FRAMES_MAX || (served >= SOFTRDMA_RX_FRAMES && others_have_work()))
			break;
	}
	if (progress)
		softrdma_newcomers_give_way();
	expel_trespasser(link);
	softrdma_io_send(link);
	if (link->fd >= 0 && more && !link->claimed) /* a poller comes again; if not, it is given back */
		queue_work(link);
	return progress;
}

/* the progress thread does not wait for the socket any more, but for room in it */
static bool
lend(struct softrdma_link *link)
{
	if (link->fd < 0 || link->lent || link->claimed)
		return false;
	link->lent = true;
	link->wants_space = is_full(link);
	if (watch_again(link) == 0)
		return true;
	link->lent = false;
	return false;
}

static void
take_back(struct softrdma_link *link)
{
	link->lent = false;
	link->wants_space = is_full(link);
	if (link->fd >= 0)
		watch_again(link);
}

/* the lock is dropped while the medium is busy */
static void
make_flush(struct softrdma_link *link)
{
	struct softrdma_mr *mr = link->responder.flush_mr; /* held, so it stays */
	const void *addr = (const void *)(uintptr_t)link->responder.flush_addr;
	size_t len = link->responder.flush_len;
	pthread_mutex_unlock(&link->lock);
	if (link->faulty) /* its decisions stay until the next flush begins */
		softrdma_faulty_flush_waits(link->faulty);
	int error = make_durable(link, mr->persist, addr, len);
	pthread_mutex_lock(&link->lock);

	link->flush_running = false;
	softrdma_responder_flushed(&link->responder, error);
	if (link->qp) {
		if (error)
			softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
		if (link->fd >= 0 && after_receive(link, softrdma_link_rx_go_on(link)))
			serve(link);
	}
}

/* looks for the next flush for as long as the progress thread looks for more work */
static void
look_for_flush(struct softrdma_link *link)
{
	const uint64_t end_ns = softrdma_now_ns() + engine.spin_ns;
	while (link->fd >= 0 && !link->flush_running && !softrdma_workers_are_short() &&
		softrdma_now_ns() < end_ns) {
		/* without the lock, for those who post; the socket may go meanwhile */
		struct pollfd pfd = { .fd = link->fd, .events = POLLIN };
		pthread_mutex_unlock(&link->lock);
		int ready = poll(&pfd, 1, 0);
		pthread_mutex_lock(&link->lock);
		if (ready > 0 && link->fd >= 0)
			serve(link);
	}
}

/*
 * Who waits for a flush often asks for the next one as soon as it is answered. Therefore the worker keeps the
 * socket for a while: what comes then wakes neither the progress thread nor another worker.
 */
static void
flush_on_worker(struct softrdma_link *link)
{
	bool kept = false;
	pthread_mutex_lock(&link->lock);
	link->has_worker = true;
	do {
		make_flush(link);
		kept = kept || (engine.spin_ns && lend(link));
		if (kept)
			look_for_flush(link);
	} while (link->flush_running && !softrdma_workers_are_short());
	link->has_worker = false;
	if (kept)
		take_back(link);
	if (link->flush_running) /* others' come first; it cannot fail, there is a thread: this one */
		softrdma_workers_submit(link, flush_on_worker);
	pthread_mutex_unlock(&link->lock);
}

/* has somebody polled it since the last time? Then he looks for what comes next, too. */
static bool
is_polled(struct softrdma_link *link)
{
	bool polled = link->polls != link->polls_handled;
	link->polls_handled = link->polls;
	return polled;
}

/* is there nobody who would find the lock taken, or the socket empty? */
static bool
is_left_alone(struct softrdma_link *link)
{
	bool posted = link->posts_handled != link->requester.head;
	link->posts_handled = link->requester.head;
	return link->fd >= 0 && !link->claimed && !link->lent && !posted;
}

static void
end_busy_polling(void)
{
	if (hot.link)
		softrdma_link_put(hot.link);
	hot.link = NULL;
	hot.events = 0;
}

/* something has come for this link, and more may follow */
static void
expect_more_of(struct softrdma_link *link)
{
	if (link != hot.link) {
		end_busy_polling();
		softrdma_link_get(link);
		hot.link = link;
	}
	if (hot.events < BUSY_AFTER)
		hot.events++;
}

/* one turn of the progress thread; true: something was received. The link's lock is not held. */
static bool
take_turn(struct softrdma_link *link, bool hung_up)
{
	pthread_mutex_lock(&link->lock);
	if (hung_up)
		link->hung_up = true;
	bool progress = link->fd >= 0 && serve(link);
	/*
	 * Behind a flush nothing follows before it is made, and the worker that makes it may be waiting for
	 * this processor; so may a poller.
	 */
	more_may_follow = !is_polled(link) && !link->flush_running;
	bool alone = is_left_alone(link) && more_may_follow;
	pthread_mutex_unlock(&link->lock);

	if (alone && progress)
		expect_more_of(link);
	else if (!alone && link == hot.link)
		end_busy_polling(); /* the link may be gone with it */
	return progress;
}

static void
handle_link(struct softrdma_watched *watched, uint32_t events)
{
	take_turn((struct softrdma_link *)watched, events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
}

static void
release_link(struct softrdma_watched *watched)
{
	softrdma_link_put((struct softrdma_link *)watched);
}

static void
set_socket_options(int fd)
{
	const int one = 1;
	const int idle_s = SOFTRDMA_PEER_TIMEOUT_MS / 2000;
	const int interval_s = 2;
	const int probes = (SOFTRDMA_PEER_TIMEOUT_MS / 1000 - idle_s) / interval_s;
	const unsigned timeout_ms = SOFTRDMA_PEER_TIMEOUT_MS;
	/* they only make a vanished peer seen sooner; TCP_NODELAY is set since the handshake (pending.c) */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

static void
drop_stream(struct softrdma_link *link)
{
	if (link->stream)
		link->stream->ops->delete (link->stream);
	link->stream = NULL;
}

/* the stream that both sides have agreed on; 0 or an errno value */
static int
take_stream(struct softrdma_link *link, int fd, struct softrdma_tls *tls, bool records)
{
	int ret = 0;
	if (tls)
		link->stream = softrdma_tls_stream(tls);
	else if (records)
		ret = softrdma_records_new(fd, &link->stream);
	link->encrypted = tls != NULL;
	link->by_copy = link->stream != NULL;
	return ret;
}

int
softrdma_io_attach(struct softrdma_link *link, int fd, struct softrdma_tls *tls, bool records)
{
	assert(link->fd == -1 && link->stream == NULL);
	int ret = take_stream(link, fd, tls, records);
	if (ret) {
		softrdma_fork_close(fd);
		return ret;
	}
	set_socket_options(fd);
	link->watched.handle = handle_link;
	link->watched.release = release_link;
	link->fd = fd;
	link->wants_space = true; /* as all that is watched from the first */
	softrdma_link_get(link);
	struct epoll_event ev = { .events = SOFTRDMA_WATCHED_EVENTS, .data.ptr = &link->watched };
	if (epoll_ctl(engine.epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0) {
		ret = errno;
		link->fd = -1;
		drop_stream(link);
		softrdma_fork_close(fd);
		atomic_fetch_sub(&link->refs, 1); /* not the last one: the caller's */
		return ret;
	}
	if (link->faulty)
		softrdma_faulty_attached(link);
	softrdma_direct_offer(link);
	/* what has come with the last message of the handshake raises no edge any more */
	if (softrdma_stream_has_input(link->stream))
		queue_work(link);
	return 0;
}

static void
unclaim(struct softrdma_link *link)
{
	if (!link->claimed)
		return;
	link->claimed = false;
	pthread_mutex_lock(&engine.lock);
	__atomic_fetch_sub(&engine.claimed, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&engine.lock);
}

void
softrdma_io_detach(struct softrdma_link *link)
{
	softrdma_io_deadline(link, 0);
	if (link->rnr_deadline) {
		link->rnr_deadline = 0;
		softrdma_io_timed(-1);
	}
	if (link->fd < 0)
		return;
	unclaim(link);
	softrdma_direct_end(link);
	int fd = link->fd;
	link->fd = -1;
	drop_stream(link);
	link->tx.first = link->tx.count = 0;
	/* as long as the waiter polls it, closing does not end the connection */
	if (link->lent)
		shutdown(fd, SHUT_RDWR);
	epoll_ctl(engine.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	retire(&link->watched);
	softrdma_fork_close(fd);
}

void
softrdma_io_set_deadline(uint64_t *deadline, unsigned ms)
{
	bool had = *deadline != 0;
	*deadline = ms ? softrdma_now_ns() + (uint64_t)ms * SOFTRDMA_NS_PER_MS : 0;
	softrdma_io_timed((ms != 0) - had);
}

void
softrdma_io_deadline(struct softrdma_link *link, unsigned ms)
{
	softrdma_io_set_deadline(&link->deadline, ms);
}

void
softrdma_io_receive_posted(struct softrdma_link *link)
{
	pthread_mutex_lock(&link->lock);
	if (link->qp && link->fd >= 0) {
		softrdma_responder_fed(&link->responder);
		softrdma_io_send(link);
	}
	pthread_mutex_unlock(&link->lock);
}

/* --- polling --- */

/* from now on the poller serves this socket alone; the progress thread looks after it from time to time */
static void
claim(struct softrdma_link *link)
{
	link->claimed = true;
	if (watch_again(link) != 0) {
		link->claimed = false;
		return;
	}
	__atomic_store_n(&link->requester.cq->claimed, true, __ATOMIC_RELAXED);
	__atomic_store_n(&link->responder.cq->claimed, true, __ATOMIC_RELAXED);
	pthread_mutex_lock(&engine.lock);
	bool wake = __atomic_fetch_add(&engine.claimed, 1, __ATOMIC_RELAXED) == 0;
	pthread_mutex_unlock(&engine.lock);
	if (wake)
		wake_thread();
}

/* the progress thread waits for the socket again; modifying reports what has come in between */
static void
give_back(struct softrdma_link *link)
{
	if (!link->claimed)
		return;
	unclaim(link);
	link->idle_polls = 0;
	link->wants_space = is_full(link);
	watch_again(link);
}

void
softrdma_io_stop_polling(struct softrdma_cq *cq)
{
	if (!__atomic_load_n(&cq->claimed, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&cq->claimed, false, __ATOMIC_RELAXED);
	pthread_mutex_lock(&cq->links_lock);
	for (unsigned i = 0; i < cq->link_count; i++) {
		pthread_mutex_lock(&cq->links[i]->lock);
		give_back(cq->links[i]);
		pthread_mutex_unlock(&cq->links[i]->lock);
	}
	pthread_mutex_unlock(&cq->links_lock);
}

static void
poll_link(struct softrdma_link *link)
{
	if (pthread_mutex_trylock(&link->lock) != 0)
		return; /* somebody is at it */
	if (link->fd >= 0) {
		link->polls++;
		link->idle_polls = serve(link) ? 0 : link->idle_polls + 1;
		if (!link->claimed && link->fd >= 0 && link->idle_polls >= CLAIM_AFTER)
			claim(link);
	}
	pthread_mutex_unlock(&link->lock);
}

void
softrdma_io_poll(struct softrdma_cq *cq)
{
	if (pthread_mutex_trylock(&cq->links_lock) != 0)
		return;
	if (cq->link_count <= SOFTRDMA_POLLED_LINKS_MAX) {
		for (unsigned i = 0; i < cq->link_count; i++)
			poll_link(cq->links[i]);
	}
	pthread_mutex_unlock(&cq->links_lock);
}

/* --- waiting --- */

int
softrdma_io_lend(struct softrdma_link *link)
{
	int fd = -1;
	pthread_mutex_lock(&link->lock);
	/* whoever polls the socket does not see what TLS holds */
	bool has_input = softrdma_stream_has_input(link->stream);
	if (!link->flush_running && !has_input && lend(link))
		fd = link->fd;
	pthread_mutex_unlock(&link->lock);
	return fd;
}

bool
softrdma_io_serve_lent(struct softrdma_link *link, short revents)
{
	pthread_mutex_lock(&link->lock);
	if (revents & (POLLRDHUP | POLLHUP | POLLERR))
		link->hung_up = true;
	bool progress = link->fd >= 0 && serve(link);
	pthread_mutex_unlock(&link->lock);
	return progress;
}

void
softrdma_io_take_back(struct softrdma_link *link)
{
	pthread_mutex_lock(&link->lock);
	take_back(link);
	pthread_mutex_unlock(&link->lock);
}

/* --- all connections --- */

void
softrdma_io_add_link(struct softrdma_link *link)
{
	softrdma_link_get(link);
	pthread_mutex_lock(&engine.lock);
	link->prev = NULL;
	link->next = engine.links;
	if (link->next)
		link->next->prev = link;
	engine.links = link;
	link->listed = true;
	pthread_mutex_unlock(&engine.lock);
}

void
softrdma_io_remove_link(struct softrdma_link *link)
{
	pthread_mutex_lock(&engine.lock);
	if (link->prev)
		link->prev->next = link->next;
	else
		engine.links = link->next;
	if (link->next)
		link->next->prev = link->prev;
	link->listed = false;
	pthread_mutex_unlock(&engine.lock);
	softrdma_link_put(link);
}

bool
softrdma_io_qp_num_used(uint32_t qp_num)
{
	bool used = false;
	pthread_mutex_lock(&engine.lock);
	for (struct softrdma_link *link = engine.links; link && !used; link = link->next)
		used = link->requester.qp_num == qp_num;
	pthread_mutex_unlock(&engine.lock);
	return used;
}

/*
 * Calls visit() for each link, with the link's lock held and the engine's not. A link whose lock cannot be
 * taken by this call is left out. A step ahead is only taken from a link that is still listed; from one that
 * has left meanwhile the walk starts over, so visit() must bear a second call.
 */
static void
visit_links(int (*take)(pthread_mutex_t *lock), void (*visit)(struct softrdma_link *link, const void *arg),
	const void *arg)
{
	pthread_mutex_lock(&engine.lock);
	struct softrdma_link *link = engine.links;
	if (link)
		softrdma_link_get(link);
	while (link) {
		pthread_mutex_unlock(&engine.lock);
		if (take(&link->lock) == 0) {
			visit(link, arg);
			pthread_mutex_unlock(&link->lock);
		}
		pthread_mutex_lock(&engine.lock);

		struct softrdma_link *next = link->listed ? link->next : engine.links;
		if (next)
			softrdma_link_get(next);
		softrdma_link_put(link);
		link = next;
	}
	pthread_mutex_unlock(&engine.lock);
}

static void
for_each_link(void (*visit)(struct softrdma_link *link, const void *arg), const void *arg)
{
	visit_links(pthread_mutex_lock, visit, arg);
}

static void
give_back_one(struct softrdma_link *link, const void *arg)
{
	(void)arg;
	give_back(link);
}

void
softrdma_io_about_to_wait(void)
{
	if (__atomic_load_n(&engine.claimed, __ATOMIC_RELAXED) > 0)
		for_each_link(give_back_one, NULL);
}

static void
revoke_from(struct softrdma_link *link, const void *arg)
{
	if (link->qp == NULL)
		return;
	if (softrdma_link_revoke(link, arg))
		stream_ended(link);
	else
		softrdma_io_send(link);
}

void
softrdma_io_revoke(const struct softrdma_mr *mr)
{
	for_each_link(revoke_from, mr);
	softrdma_direct_wait();
}

/* --- the progress thread --- */

int
softrdma_io_watch(int fd, struct softrdma_watched *watched)
{
	return softrdma_newcomers_watch(fd, watched);
}

int
softrdma_io_look_again(int fd, struct softrdma_watched *watched)
{
	return softrdma_newcomers_look_again(fd, watched);
}

void
softrdma_io_forget(int fd, struct softrdma_watched *watched)
{
	softrdma_newcomers_forget(fd);
	retire(watched);
}

void
softrdma_io_unwatch(int fd, struct softrdma_watched *watched)
{
	softrdma_io_forget(fd, watched);
	softrdma_fork_close(fd);
}

void
softrdma_io_add_ticker(void (*tick)(uint64_t now_ns))
{
	int at = 0;
	pthread_mutex_lock(&engine.lock);
	while (engine.ticks[at] && engine.ticks[at] != tick) {
		at++;
		assert(at < TICKERS_MAX);
	}
	engine.ticks[at] = tick;
	pthread_mutex_unlock(&engine.lock);
}

void
softrdma_io_timed(int change)
{
	if (change == 0)
		return;
	pthread_mutex_lock(&engine.lock);
	engine.timed += change;
	bool wake = change > 0 && engine.timed == change;
	pthread_mutex_unlock(&engine.lock);
	if (wake)
		wake_thread();
}

static void
release_retired(void)
{
	pthread_mutex_lock(&engine.lock);
	struct softrdma_watched *watched = engine.retired;
	engine.retired = NULL;
	pthread_mutex_unlock(&engine.lock);
	while (watched) {
		struct softrdma_watched *next = watched->retired_next;
		watched->release(watched);
		watched = next;
	}
}

static struct softrdma_link *
take_work(void)
{
	pthread_mutex_lock(&engine.lock);
	struct softrdma_link *link = engine.work;
	assert(link); /* only this thread takes out, and no more than it has counted */
	engine.work = link->work_next;
	__atomic_fetch_sub(&engine.work_count, 1, __ATOMIC_RELAXED);
	link->queued = false;
	pthread_mutex_unlock(&engine.lock);
	return link;
}

/*
 * So many links that had more to do than one turn get another one; those that are queued meanwhile wait for
 * the next call. False: there was none.
 */
static bool
do_queued_work(unsigned most)
{
	pthread_mutex_lock(&engine.lock);
	unsigned count = engine.work_count < most ? engine.work_count : most;
	pthread_mutex_unlock(&engine.lock);

	for (unsigned i = 0; i < count; i++) {
		struct softrdma_link *link = take_work();
		take_turn(link, false);
		softrdma_link_put(link);
	}
	return count > 0;
}

static void
look_after_claim(struct softrdma_link *link, const void *arg)
{
	(void)arg;
	if (!link->claimed)
		return;
	if (link->polls != link->polls_seen) {
		link->polls_seen = link->polls;
		return;
	}
	give_back(link); /* the poller has stopped */
}

static void
look_at_deadline(struct softrdma_link *link, const void *arg)
{
	const uint64_t now_ns = *(const uint64_t *)arg;
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	if (link->deadline && now_ns >= link->deadline) {
		SOFTRDMA_LOG_FEW(&limit, WARNING, "a peer did not answer in time: connection closed");
		stream_ended(link);
	}
	if (link->rnr_deadline && link->requester.waiting && now_ns >= link->rnr_deadline) {
		softrdma_requester_fail(&link->requester, IBV_WC_RNR_RETRY_EXC_ERR);
		softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
		softrdma_io_send(link);
	}
	if (link->absence_deadline && now_ns >= link->absence_deadline) {
		softrdma_link_fail(link, IBV_WC_RETRY_EXC_ERR);
		softrdma_io_send(link);
	}
}

static void
look_at_faults(struct softrdma_link *link, const void *arg)
{
	if (link->faulty)
		softrdma_faulty_look(link, *(const uint64_t *)arg);
}

void
softrdma_io_alarm(uint64_t when_ns)
{
	pthread_mutex_lock(&engine.lock);
	bool earlier = engine.alarm_ns == 0 || when_ns < engine.alarm_ns;
	if (earlier)
		engine.alarm_ns = when_ns;
	pthread_mutex_unlock(&engine.lock);
	if (earlier)
		wake_thread();
}

/* those that still wait for something set the alarm again, and so wake this thread */
static void
alarm_goes_off(uint64_t now_ns)
{
	pthread_mutex_lock(&engine.lock);
	engine.alarm_ns = 0; /* before the links are looked at: what they set meanwhile is not lost */
	pthread_mutex_unlock(&engine.lock);
	for_each_link(look_at_faults, &now_ns);
}

/* ms until then, rounded up; no more than a tick, for the clock may be set forward */
static int
ms_until(uint64_t when_ns, uint64_t now_ns)
{
	uint64_t ms = (when_ns - now_ns + SOFTRDMA_NS_PER_MS - 1) / SOFTRDMA_NS_PER_MS;
	return ms < TICK_MS ? (int)ms : TICK_MS;
}

/* the sooner of both; -1 and 0 stand for never */
static int
sooner(int timeout_ms, uint64_t when_ns, uint64_t now_ns)
{
	if (when_ns == 0)
		return timeout_ms;
	int ms = ms_until(when_ns, now_ns);
	return timeout_ms >= 0 && timeout_ms < ms ? timeout_ms : ms;
}

struct schedule {
	uint64_t claims_ns, deadlines_ns; /* when to look next */
	uint64_t spin_until_ns;
};

/* looks at what is due; the result is how long epoll_wait may sleep, in ms */
static int
do_timed_work(struct schedule *schedule)
{
	pthread_mutex_lock(&engine.lock);
	bool claimed = engine.claimed > 0;
	bool timed = engine.timed > 0;
	void (*ticks[TICKERS_MAX])(uint64_t now_ns);
	memcpy(ticks, engine.ticks, sizeof(ticks));
	uint64_t alarm_ns = engine.alarm_ns;
	pthread_mutex_unlock(&engine.lock);

	uint64_t now_ns = softrdma_now_ns();
	if (claimed && now_ns >= schedule->claims_ns) {
		schedule->claims_ns = now_ns + CLAIM_TICK_MS * SOFTRDMA_NS_PER_MS;
		/* a poller has the lock nearly all the time, and is there: no need to wait for it */
		visit_links(pthread_mutex_trylock, look_after_claim, NULL);
	}
	if (timed && now_ns >= schedule->deadlines_ns) {
		schedule->deadlines_ns = now_ns + (uint64_t)TICK_MS * SOFTRDMA_NS_PER_MS;
		for_each_link(look_at_deadline, &now_ns);
		for (int i = 0; i < TICKERS_MAX && ticks[i]; i++)
			ticks[i](now_ns);
	}
	if (alarm_ns && now_ns >= alarm_ns) {
		alarm_goes_off(now_ns);
		alarm_ns = 0;
	}
	uint64_t pause_ns = softrdma_newcomers_pause(now_ns);
	if (now_ns < schedule->spin_until_ns)
		return 0;
	int timeout_ms = claimed ? CLAIM_TICK_MS : timed ? TICK_MS : -1;
	return sooner(sooner(timeout_ms, alarm_ns, now_ns), pause_ns, now_ns);
}

static void
drain_wakes(void)
{
	uint64_t count;
	while (read(engine.wake_fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

enum handled {
	HANDLED_NOTHING,
	HANDLED_ALL, /* nothing is expected behind it */
	HANDLED_SOME,
};

/* false: it is time to look at all, nothing has come for the one that is polled */
static bool
poll_busily(void)
{
	while (hot.events == BUSY_AFTER && hot.turns > 0) {
		hot.turns--;
		if (take_turn(hot.link, false)) {
			hot.turns -= hot.turns < BUSY_TURNS / 4 ? hot.turns : BUSY_TURNS / 4;
			return true;
		}
	}
	hot.turns = BUSY_TURNS;
	return false;
}

static enum handled
handle_events(int timeout_ms)
{
	if (timeout_ms != 0)
		end_busy_polling();
	else if (poll_busily())
		return more_may_follow ? HANDLED_SOME : HANDLED_ALL;

	struct epoll_event events[EVENTS_MAX];
	int count = epoll_wait(engine.epoll_fd, events, EVENTS_MAX, timeout_ms);
	enum handled handled = HANDLED_NOTHING;
	for (int i = 0; i < count; i++) {
		struct softrdma_watched *watched = events[i].data.ptr;
		if (watched) {
			more_may_follow = true;
			watched->handle(watched, events[i].events);
			if (more_may_follow)
				handled = HANDLED_SOME;
			else if (handled == HANDLED_NOTHING)
				handled = HANDLED_ALL;
		} else {
			drain_wakes();
		}
	}
	return handled;
}

static void *
run_engine(void *arg)
{
	(void)arg;
	struct schedule schedule = { 0 };
	bool stopping = false;
	softrdma_board_live();
	while (!stopping) {
		/* one: links that have little to do must not wait for all that have much */
		bool busy = do_queued_work(1);
		int timeout_ms = do_timed_work(&schedule);
		enum handled handled = handle_events(busy ? 0 : timeout_ms);
		if (handled == HANDLED_SOME && engine.spin_ns)
			schedule.spin_until_ns = softrdma_now_ns() + engine.spin_ns;
		else if (handled == HANDLED_ALL)
			schedule.spin_until_ns = 0;
		release_retired();
		pthread_mutex_lock(&engine.lock);
		stopping = engine.stopping;
		pthread_mutex_unlock(&engine.lock);
	}
	end_busy_polling();
	softrdma_board_die();
	return NULL;
}

static int
start_engine(void)
{
	int ret;
	engine.epoll_fd = softrdma_fork_owned(epoll_create1(EPOLL_CLOEXEC));
	if (engine.epoll_fd < 0)
		return errno;
	ret = softrdma_newcomers_open(engine.epoll_fd);
	if (ret)
		goto err_close_epoll;
	engine.wake_fd = softrdma_fork_owned(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (engine.wake_fd < 0) {
		ret = errno;
		goto err_close_newcomers;
	}
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = NULL };
	if (epoll_ctl(engine.epoll_fd, EPOLL_CTL_ADD, engine.wake_fd, &ev) != 0) {
		ret = errno;
		goto err_close_wake;
	}
	engine.running = true;
	engine.stopping = false;
	engine.spin_ns = 1000 * softrdma_setting("SOFTRDMA_SPIN_US", 0, 1000000, SPIN_US_DEFAULT);
	softrdma_board_open();
	ret = softrdma_thread_create(&engine.thread, "softrdma", run_engine, NULL);
	if (ret)
		goto err_not_running;
	return 0;

err_not_running:
	softrdma_board_close();
	engine.running = false;
err_close_wake:
	softrdma_fork_close(engine.wake_fd);
	engine.wake_fd = -1;
err_close_newcomers:
	softrdma_newcomers_close();
err_close_epoll:
	softrdma_fork_close(engine.epoll_fd);
	engine.epoll_fd = -1;
	return ret;
}

/* a queue pair may outlive its id, and so the engine: nobody comes to it any more but whoever destroys it */
static void
end_lane(struct softrdma_link *link, const void *arg)
{
	(void)arg;
	softrdma_direct_end(link);
}

static void
stop_engine(void)
{
	pthread_mutex_lock(&engine.lock);
	engine.stopping = true;
	pthread_mutex_unlock(&engine.lock);
	wake_thread();
	pthread_join(engine.thread, NULL);
	softrdma_workers_stop();
	do_queued_work(UINT_MAX); /* drops the references */
	pthread_mutex_lock(&engine.lock);
	engine.running = false;
	pthread_mutex_unlock(&engine.lock);
	release_retired();
	for_each_link(end_lane, NULL);
	softrdma_board_close();
	softrdma_copy_close();
	softrdma_fork_close(engine.wake_fd);
	softrdma_newcomers_close();
	softrdma_fork_close(engine.epoll_fd);
	engine.wake_fd = engine.epoll_fd = -1;
}

int
softrdma_io_start(void)
{
	pthread_mutex_lock(&engine.users_lock);
	int ret = engine.users == 0 ? start_engine() : 0;
	if (ret == 0)
		engine.users++;
	pthread_mutex_unlock(&engine.users_lock);
	return ret;
}

void
softrdma_io_stop(void)
{
	pthread_mutex_lock(&engine.users_lock);
	assert(engine.users > 0);
	if (--engine.users == 0)
		stop_engine();
	pthread_mutex_unlock(&engine.users_lock);
}
