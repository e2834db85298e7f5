/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* proxy.c -- forwards and cuts the TCP connections of the software device, in one thread */

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deadline.h"
#include "fault.h"
#include "proxy.h"
#include "torture.h"

#define WIRES_MAX 64
#define BUF_SIZE 65536

/* one direction of a connection */
struct flow {
	uint8_t buf[BUF_SIZE];
	size_t begin, end; /* received and not forwarded yet */
	bool counted;      /* true if the bytes of this direction are counted */
	bool cut_due;      /* true if the cut follows once the buffer is empty */
	bool finished;     /* true if nothing more is forwarded */
	bool discards;     /* true if what is received is dropped */
};

/* a connection; fd[0] is the client's side of it, and flow[0] goes to the server */
struct wire {
	int listener; /* until the client has connected, then -1 */
	int fd[2];
	struct flow flow[2];
	int64_t silent_until; /* a now_ms() value; 0: until the end */
	bool silent;
};

static struct {
	pthread_mutex_t lock; /* guards `wires` and `count`: connect() of the product adds wires */
	pthread_t thread;
	int wake;
	bool stopping;
	struct cut cut;
	struct wire *wires[WIRES_MAX];
	unsigned count;
} proxy = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = -1 };

static struct wire memory[WIRES_MAX];

/* ---- one connection ---- */

static void
close_by_reset(int fd)
{
	const struct linger reset = { .l_onoff = 1, .l_linger = 0 };

	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
}

static void
wire_reset(struct wire *w)
{
	if (w->listener >= 0)
		close(w->listener);
	close_by_reset(w->fd[0]);
	close_by_reset(w->fd[1]);
	w->listener = w->fd[0] = w->fd[1] = -1;
}

/* both sides have ended the connection, so no reset is needed */
static void
wire_close(struct wire *w)
{
	close(w->fd[0]);
	close(w->fd[1]);
	w->fd[0] = w->fd[1] = -1;
}

static bool
wire_is_over(const struct wire *w)
{
	return w->fd[1] < 0;
}

static void
finish(struct wire *w, int to)
{
	w->flow[to].finished = true;
	shutdown(w->fd[!to], SHUT_WR); /* flow[0] ends at fd[1] */
}

static void
cut_now(struct wire *w, int to)
{
	w->flow[to].cut_due = false;
	switch (proxy.cut.kind) {
	case CUT_RESET:
		wire_reset(w);
		break;
	case CUT_STALL:
		w->silent = true;
		w->silent_until = proxy.cut.stall_ms ? now_ms() + proxy.cut.stall_ms : 0;
		break;
	default:
		w->flow[to].discards = true;
		finish(w, to);
		break;
	}
}

/* the number of bytes that pass; *cut is true if the cut follows them */
static size_t
count_bytes(size_t len, bool *cut)
{
	static const int broken[] = { ECONNRESET, 0 };

	*cut = false;
	for (size_t i = 0; i < len; i++) {
		if (fault_hits(FAULT_STREAM, "the stream", broken)) {
			*cut = true;
			return i + 1;
		}
	}
	return len;
}

static void
receive(struct wire *w, int to)
{
	struct flow *f = &w->flow[to];
	ssize_t n = recv(w->fd[to], f->buf, sizeof(f->buf), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		wire_reset(w);
		return;
	}
	if (n == 0) {
		if (f->finished)
			f->discards = false; /* both sides have seen the end */
		else
			finish(w, to);
		return;
	}
	if (f->discards)
		return;
	f->begin = 0;
	f->end = f->counted ? count_bytes((size_t)n, &f->cut_due) : (size_t)n;
}

static void
send_on(struct wire *w, int to)
{
	struct flow *f = &w->flow[to];
	/* the FIN goes into the segment of the last bytes, so that the receiver sees both at once */
	int more = f->cut_due && proxy.cut.kind == CUT_FIN ? MSG_MORE : 0;
	ssize_t n =
		send(w->fd[!to], f->buf + f->begin, f->end - f->begin, MSG_DONTWAIT | MSG_NOSIGNAL | more);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		/* that side is gone: without a proxy, too, the sender would get a reset */
		wire_reset(w);
		return;
	}
	f->begin += (size_t)n;
	if (f->begin == f->end && f->cut_due)
		cut_now(w, to);
}

static void
accept_client(struct wire *w)
{
	const int one = 1;

	w->fd[0] = accept4(w->listener, NULL, NULL, SOCK_CLOEXEC);
	close(w->listener);
	w->listener = -1;
	if (w->fd[0] < 0)
		wire_reset(w);
	else
		setsockopt(w->fd[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* ---- the thread ---- */

/* fills in what the connection waits for, its listener or its two sockets; the number of entries */
static nfds_t
wanted(const struct wire *w, struct pollfd pfd[2])
{
	if (w->listener >= 0) {
		pfd[0] = (struct pollfd){ .fd = w->listener, .events = POLLIN };
		return 1;
	}
	if (w->silent || wire_is_over(w))
		return 0;
	for (int side = 0; side < 2; side++) {
		const struct flow *in = &w->flow[side], *out = &w->flow[!side];
		bool reads = in->begin == in->end && (!in->finished || in->discards);

		pfd[side] = (struct pollfd){ .fd = w->fd[side],
			.events = (short)((reads ? POLLIN : 0) | (out->begin < out->end ? POLLOUT : 0)) };
		/* poll() would report a socket in error again and again */
		if (pfd[side].events == 0)
			pfd[side].fd = -1;
	}
	return 2;
}

static void
serve(struct wire *w, const struct pollfd *pfd)
{
	if (w->listener >= 0) {
		if (pfd[0].revents)
			accept_client(w);
		return;
	}
	for (int to = 0; to < 2; to++) {
		struct flow *f = &w->flow[to];

		if (!wire_is_over(w) && !w->silent && f->begin == f->end && (pfd[to].events & POLLIN) &&
			pfd[to].revents)
			receive(w, to);
		if (!wire_is_over(w) && !w->silent && f->begin < f->end)
			send_on(w, to);
	}
	if (!wire_is_over(w) && w->flow[0].finished && w->flow[1].finished && !w->flow[0].discards &&
		!w->flow[1].discards)
		wire_close(w);
}

/* resets connections whose silence is over; ms until the next one is due, or -1 */
static int
end_silence(unsigned count)
{
	int next = -1;

	for (unsigned i = 0; i < count; i++) {
		struct wire *w = proxy.wires[i];
		int64_t left = w->silent_until - now_ms();

		if (w->silent_until == 0)
			continue;
		if (left <= 0) {
			w->silent_until = 0;
			wire_reset(w);
		} else if (next < 0 || left < next) {
			next = (int)left;
		}
	}
	return next;
}

static void *
proxy_main(void *arg)
{
	struct pollfd pfd[1 + 2 * WIRES_MAX];
	nfds_t at[WIRES_MAX + 1];

	(void)arg;
	for (;;) {
		pthread_mutex_lock(&proxy.lock);
		unsigned count = proxy.count;
		bool stopping = proxy.stopping;
		pthread_mutex_unlock(&proxy.lock);
		if (stopping)
			return NULL;

		nfds_t n = 1;
		uint64_t wakes;
		int timeout_ms = end_silence(count);
		pfd[0] = (struct pollfd){ .fd = proxy.wake, .events = POLLIN };
		for (unsigned i = 0; i < count; i++) {
			at[i] = n;
			n += wanted(proxy.wires[i], &pfd[n]);
		}
		at[count] = n;
		poll(pfd, n, timeout_ms);
		if (pfd[0].revents && read(proxy.wake, &wakes, sizeof(wakes)) < 0)
			wrong("the proxy cannot be woken");
		for (unsigned i = 0; i < count; i++) {
			if (at[i + 1] > at[i])
				serve(proxy.wires[i], &pfd[at[i]]);
		}
	}
}

static void
wake(void)
{
	const uint64_t one = 1;

	if (write(proxy.wake, &one, sizeof(one)) < 0)
		wrong("the proxy cannot be woken");
}

/* ---- connect() of the product ---- */

static socklen_t
length_of(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

/* connects to the address that the product wants; -1 if no one listens: then the product may find out itself */
static int
connect_on(const struct sockaddr *to)
{
	const int one = 1;
	int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, to, length_of(to))) {
		close(fd);
		return -1;
	}
	if (fd >= 0)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* listens on any port of the same address */
static int
listen_for(const struct sockaddr *to, struct sockaddr_storage *via)
{
	socklen_t len = length_of(to);
	int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memset(via, 0, sizeof(*via));
	memcpy(via, to, len);
	if (to->sa_family == AF_INET6)
		((struct sockaddr_in6 *)via)->sin6_port = 0;
	else
		((struct sockaddr_in *)via)->sin_port = 0;
	if (fd < 0 || bind(fd, (struct sockaddr *)via, len) || listen(fd, 1) ||
		getsockname(fd, (struct sockaddr *)via, &len))
		wrong("the proxy cannot listen: %s", strerror(errno));
	return fd;
}

static bool
redirect(const struct sockaddr *to, struct sockaddr_storage *via)
{
	int upstream = connect_on(to);
	bool taken = false;

	if (upstream < 0)
		return false;
	pthread_mutex_lock(&proxy.lock);
	if (proxy.count < WIRES_MAX) {
		struct wire *w = &memory[proxy.count];

		memset(w, 0, sizeof(*w));
		w->listener = listen_for(to, via);
		w->fd[0] = -1;
		w->fd[1] = upstream;
		w->flow[proxy.cut.to_client].counted = true;
		proxy.wires[proxy.count++] = w;
		taken = true;
	}
	pthread_mutex_unlock(&proxy.lock);
	if (taken)
		wake();
	else
		close(upstream);
	return taken;
}

void
proxy_start(const struct cut *cut)
{
	proxy.cut = *cut;
	proxy.count = 0;
	proxy.stopping = false;
	proxy.wake = eventfd(0, EFD_CLOEXEC);
	if (proxy.wake < 0 || pthread_create(&proxy.thread, NULL, proxy_main, NULL))
		wrong("no proxy: %s", strerror(errno));
	fault_redirect(redirect);
}

void
proxy_stop(void)
{
	fault_redirect(NULL);
	pthread_mutex_lock(&proxy.lock);
	proxy.stopping = true;
	pthread_mutex_unlock(&proxy.lock);
	wake();
	pthread_join(proxy.thread, NULL);
	for (unsigned i = 0; i < proxy.count; i++)
		wire_reset(proxy.wires[i]);
	close(proxy.wake);
	proxy.wake = -1;
}
