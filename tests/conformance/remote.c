/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* remote.c -- control channels between hosts */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deadline.h"
#include "remote.h"
#include "wait.h"

#define RETRY_MS 50

static struct addrinfo *
resolve(const char *where)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
	const char *colon = strrchr(where, ':');
	struct addrinfo *ai = NULL;
	char addr[128];
	int bracket = where[0] == '[';

	errno = EINVAL;
	if (!colon || colon - where - 2 * bracket < 1)
		return NULL;
	snprintf(addr, sizeof(addr), "%.*s", (int)(colon - where) - 2 * bracket, where + bracket);
	return getaddrinfo(addr, colon + 1, &hints, &ai) ? NULL : ai;
}

static int
open_socket(const struct addrinfo *ai)
{
	return socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* messages are small, and each waits for an answer */
static int
set_up(int fd)
{
	int one = 1;

	if (fd >= 0)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

int
remote_listen(const char *where)
{
	struct addrinfo *ai = resolve(where);
	int one = 1;
	int fd;

	if (!ai)
		return -1;
	fd = open_socket(ai);
	if (fd >= 0 &&
		(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
			bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, 4))) {
		close(fd);
		fd = -1;
	}
	freeaddrinfo(ai);
	return fd;
}

int
remote_accept(int listener, int timeout_ms)
{
	errno = ETIMEDOUT;
	if (!wait_readable(listener, timeout_ms))
		return -1;
	return set_up(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
}

static int
try_connect(const struct addrinfo *ai)
{
	int fd = open_socket(ai);

	if (fd >= 0 && connect(fd, ai->ai_addr, ai->ai_addrlen)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

int
remote_connect(const char *where, int timeout_ms)
{
	struct addrinfo *ai = resolve(where);
	int64_t end = now_ms() + timeout_ms;
	int fd;

	if (!ai)
		return -1;
	fd = try_connect(ai);
	/* the other driver may not have started yet, and only an attempt to connect can tell */
	while (fd < 0 && left_ms(end) > 0) {
		poll(NULL, 0, RETRY_MS);
		fd = try_connect(ai);
	}
	freeaddrinfo(ai);
	return set_up(fd);
}
