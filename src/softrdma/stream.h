/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * stream.h -- the byte stream of a connection: the one place where its socket is read and written
 *
 * All calls are non-blocking, and give what the calls of the same names give. Inline, so that the way to the
 * kernel is as short as without it.
 */

#ifndef SOFTRDMA_STREAM_H
#define SOFTRDMA_STREAM_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

static inline ssize_t
softrdma_stream_recvmsg(int fd, struct msghdr *msg)
{
	return recvmsg(fd, msg, MSG_DONTWAIT);
}

static inline ssize_t
softrdma_stream_sendmsg(int fd, const struct msghdr *msg)
{
	return sendmsg(fd, msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static inline ssize_t
softrdma_stream_recv(int fd, void *buf, size_t len)
{
	return recv(fd, buf, len, MSG_DONTWAIT);
}

static inline ssize_t
softrdma_stream_send(int fd, const void *buf, size_t len)
{
	return send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* is there anything, or the end? What is there stays. */
static inline ssize_t
softrdma_stream_peek(int fd)
{
	char byte;
	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
}

/* nothing more is sent */
static inline void
softrdma_stream_end(int fd)
{
	shutdown(fd, SHUT_WR);
}

#endif /* SOFTRDMA_STREAM_H */
