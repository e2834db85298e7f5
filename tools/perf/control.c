/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* control.c -- the TCP connection between client and server of a measurement: lines, deadlines and sockets */

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control.h"

#define NO_DEADLINE 0
#define LAST_WORD_MS 1000           /* for the other side to take the reason for the end */
#define SHORTAGE_PAUSE_NS 100000000 /* between two tries to accept a client without descriptors or memory */

static uint64_t
deadline_in(int timeout_ms)
{
	return timeout_ms < 0 ? NO_DEADLINE : now_ns() + (uint64_t)timeout_ms * 1000000;
}

/* waits until the socket is ready for the events; false with ETIMEDOUT after the deadline, or with another errno */
static bool
await(int fd, short events, uint64_t deadline_ns)
{
	for (;;) {
		int timeout_ms = -1;
		if (deadline_ns != NO_DEADLINE) {
			uint64_t now = now_ns();
			timeout_ms = now < deadline_ns ? (int)((deadline_ns - now) / 1000000) + 1 : 0;
		}
		struct pollfd pfd = { .fd = fd, .events = events };
		int ready = poll(&pfd, 1, timeout_ms);
		if (ready > 0)
			return true;
		if (ready == 0)
			errno = ETIMEDOUT;
		if (errno != EINTR)
			return false;
	}
}

/* ---- lines ---- */

static bool
send_bytes(int fd, const char *bytes, size_t len, char why[static WHY_MAX])
{
	const uint64_t deadline_ns = deadline_in(CONTROL_PATIENCE_MS);
	while (len > 0) {
		ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN && await(fd, POLLOUT, deadline_ns))
			continue;
		if (n < 0 && errno == ETIMEDOUT)
			return why_say(why, "the other side has taken no message for %d seconds",
				CONTROL_PATIENCE_MS / 1000);
		if (n < 0 && errno != EINTR)
			return why_say(why, "the control connection is broken: %m");
		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
		}
	}
	return true;
}

bool
control_send(int fd, const struct control_message *msg, char why[static WHY_MAX])
{
	char *line = control_encode(msg);
	bool good = line ? send_bytes(fd, line, strlen(line), why) : why_say(why, "out of memory");
	free(line);
	return good;
}

/* takes the bytes that have come, up to the end of a line: those after it stay in the socket, where poll(2) finds them */
static ssize_t
take_part(int fd, char *bytes, size_t room)
{
	ssize_t n = recv(fd, bytes, room, MSG_PEEK | MSG_DONTWAIT);
	if (n <= 0)
		return n;
	const char *end = memchr(bytes, '\n', (size_t)n);
	return recv(fd, bytes, end ? (size_t)(end - bytes) + 1 : (size_t)n, MSG_DONTWAIT);
}

/* waits for bytes, and takes them up to the end of a line. Returns their number; 0 with the reason after a failure. */
static size_t
receive_part(int fd, char *bytes, size_t room, uint64_t deadline_ns, bool *is_closed,
	char why[static WHY_MAX])
{
	for (;;) {
		if (!await(fd, POLLIN, deadline_ns)) {
			if (errno == ETIMEDOUT)
				why_say(why, "the other side has not answered in time; is it an rpma-perf?");
			else
				why_say(why, "the control connection: %m");
			return 0;
		}
		ssize_t n = take_part(fd, bytes, room);
		if (n > 0)
			return (size_t)n;
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		*is_closed = n == 0 || errno == ECONNRESET;
		if (n < 0)
			why_say(why, "the other side has gone: %m");
		else
			why_say(why, "the other side has gone: it closed the control connection");
		return 0;
	}
}

/* receives a line, and takes off its newline; what begins no message needs none */
static bool
receive_line(int fd, char line[static CONTROL_LINE_MAX], size_t *len, uint64_t deadline_ns, bool *is_closed,
	char why[static WHY_MAX])
{
	*len = 0;
	for (;;) {
		bool is_end = false;
		size_t n = receive_part(fd, line + *len, CONTROL_LINE_MAX - *len, deadline_ns, &is_end, why);
		if (n == 0) {
			*is_closed = is_end && *len == 0;
			return false;
		}
		/* a sender that has begun a message completes it soon */
		if (*len == 0)
			deadline_ns = deadline_in(CONTROL_PATIENCE_MS);
		*len += n;
		if (line[*len - 1] == '\n') {
			(*len)--;
			return true;
		}
		if (control_is_foreign(line, *len))
			return true;
		if (*len == CONTROL_LINE_MAX)
			return why_say(why, "the other side sent a line of more than %d bytes",
				CONTROL_LINE_MAX);
	}
}

/* tells a program of an old version that this one is of another, in the form that it understands */
static void
answer_old(int fd)
{
	/* letters, version, type (error), length */
	static const char message[12] = { 'R', 'P', 'P', 'F', CONTROL_VERSION, 0, 8, 0, 0, 0, 0, 0 };
	char ignored[WHY_MAX];
	(void)send_bytes(fd, message, sizeof(message), ignored);
}

bool
control_receive(int fd, enum control_type type, int timeout_ms, struct control_message *msg, bool *is_closed,
	char why[static WHY_MAX])
{
	char line[CONTROL_LINE_MAX];
	size_t len;
	unsigned old_version;
	bool closed = false;
	bool good = receive_line(fd, line, &len, deadline_in(timeout_ms), &closed, why);
	if (is_closed)
		*is_closed = closed;
	if (!good)
		return false;
	if (control_is_old(line, len, &old_version))
		answer_old(fd);
	if (!control_decode(line, len, msg, why))
		return false;
	if (msg->type == type)
		return true;
	/* message(perf): the other side has refused; its message follows -> See that message. */
	if (msg->type == CONTROL_ERROR)
		return why_say(why, "the other side says: %s", msg->sentence);
	return why_say(why, "the other side sent \"%s\" where \"%s\" was expected",
		control_type_name(msg->type), control_type_name(type));
}

void
control_refuse(int fd, const char *sentence)
{
	struct control_message msg = { .type = CONTROL_ERROR };
	char ignored[WHY_MAX], bytes[4096];
	snprintf(msg.sentence, sizeof(msg.sentence), "%.*s", CONTROL_TEXT_MAX - 1, sentence);
	if (!control_send(fd, &msg, ignored) || shutdown(fd, SHUT_WR))
		return;
	/* if bytes were left unread in the socket, its end would take the message with it */
	const uint64_t deadline_ns = deadline_in(LAST_WORD_MS);
	while (now_ns() < deadline_ns && await(fd, POLLIN, deadline_ns) &&
		recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

/* ---- sockets ---- */

/* sends small messages at once; detects a dead machine within 20 seconds */
static void
prepare(int fd)
{
	const int on = 1, idle_s = 5, count = 3;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

static bool
resolve(const char *addr, const char *port, int flags, struct addrinfo **info, char why[static WHY_MAX])
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags };
	int ret = getaddrinfo(addr, port, &hints, info);
	return ret ? why_say(why, "%s port %s: %s", addr, port, gai_strerror(ret)) : true;
}

/* connects to one address, by a socket that does not block; -1 with errno after a failure */
static int
connect_to(const struct addrinfo *ai, uint64_t deadline_ns)
{
	int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	int errnum = connect(fd, ai->ai_addr, ai->ai_addrlen) ? errno : 0;
	/* after a signal it goes on as well */
	if (errnum == EINPROGRESS || errnum == EINTR) {
		socklen_t len = sizeof(errnum);
		if (!await(fd, POLLOUT, deadline_ns) || getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &len))
			errnum = errno;
	}
	if (errnum == 0)
		return fd;
	close(fd);
	errno = errnum;
	return -1;
}

bool
control_connect(const char *addr, const char *port, int timeout_ms, int *fd_ptr, char why[static WHY_MAX])
{
	struct addrinfo *info = NULL;
	if (!resolve(addr, port, 0, &info, why))
		return false;
	int fd = -1, count = 0;
	for (const struct addrinfo *ai = info; ai; ai = ai->ai_next)
		count++;
	errno = EADDRNOTAVAIL;
	/* an address that does not answer leaves time for the others: each has its part of what is left */
	const uint64_t end_ns = deadline_in(timeout_ms);
	for (const struct addrinfo *ai = info; ai && fd < 0; ai = ai->ai_next, count--) {
		const uint64_t now = now_ns();
		fd = connect_to(ai, now + (end_ns > now ? (end_ns - now) / (uint64_t)count : 1));
	}
	const int errnum = errno;
	freeaddrinfo(info);
	if (fd < 0 && errnum == ETIMEDOUT)
		return why_say(why,
			"no server can be reached at %s port %s: no answer within %.3g seconds; does a firewall drop what "
			"is sent to this port?",
			addr, port, timeout_ms / 1e3);
	/*
	 * message(perf): the control connection -> Start `rpma-perf server ADDRESS` on the other machine;
	 * open the port (7471) in its firewall.
	 */
	if (fd < 0)
		return why_say(why, "no server can be reached at %s port %s: %s", addr, port,
			strerror(errnum));
	prepare(fd);
	*fd_ptr = fd;
	return true;
}

bool
control_listen(const char *addr, const char *port, int *fd_ptr, uint16_t *port_got, char why[static WHY_MAX])
{
	struct addrinfo *info = NULL;
	if (!resolve(addr, port, AI_PASSIVE, &info, why))
		return false;

	const int on = 1;
	struct sockaddr_storage name = { 0 };
	socklen_t len = sizeof(name);
	int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
		bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, 16) == 0 &&
		getsockname(fd, (struct sockaddr *)&name, &len) == 0;
	freeaddrinfo(info);
	if (!good) {
		/* message(perf): another program has the control port -> `--port N` */
		why_say(why, "listening on %s port %s: %m", addr, port);
		if (fd >= 0)
			close(fd);
		return false;
	}
	assert(name.ss_family == AF_INET || name.ss_family == AF_INET6);
	*port_got = ntohs(name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
						     : ((struct sockaddr_in *)&name)->sin_port);
	*fd_ptr = fd;
	return true;
}

bool
control_accept(int listener, int *fd_ptr, char client[static CONTROL_TEXT_MAX], char why[static WHY_MAX])
{
	struct sockaddr_storage name = { 0 };
	socklen_t len = sizeof(name);
	int fd;
	while ((fd = accept4(listener, (struct sockaddr *)&name, &len, SOCK_CLOEXEC)) < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			sleep_until(now_ns() + SHORTAGE_PAUSE_NS); /* the clients that are there free some */
		else if (errno != EINTR && errno != ECONNABORTED)
			break;
	}
	if (fd < 0)
		return why_say(why, "accepting a client: %m");

	if (getnameinfo((struct sockaddr *)&name, len, client, CONTROL_TEXT_MAX, NULL, 0, NI_NUMERICHOST))
		snprintf(client, CONTROL_TEXT_MAX, "a client");
	prepare(fd);
	*fd_ptr = fd;
	return true;
}
