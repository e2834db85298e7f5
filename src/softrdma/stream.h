/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * stream.h -- the byte stream of a connection: the one place where its socket is read and written
 *
 * It is plain (tls is NULL), or goes through TLS. All calls are non-blocking, and give what the calls of the
 * same names give. Inline, so that the plain way to the kernel is as short as without it.
 */

#ifndef SOFTRDMA_STREAM_H
#define SOFTRDMA_STREAM_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tls.h"

/*
 * What is one piece goes by the call that takes less. TLS fills one piece, which must be our own: that of
 * others may vanish under it.
 */
static inline ssize_t
softrdma_stream_recvmsg(int fd, struct softrdma_tls *tls, struct msghdr *msg)
{
	if (tls)
		return softrdma_tls_recv(tls, msg->msg_iov->iov_base, msg->msg_iov->iov_len);
	if (msg->msg_iovlen == 1)
		return recv(fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len, MSG_DONTWAIT);
	return recvmsg(fd, msg, MSG_DONTWAIT);
}

/* what is sent by TLS goes by softrdma_tls_record() instead, for somebody must gather it */
static inline ssize_t
softrdma_stream_sendmsg(int fd, const struct msghdr *msg)
{
	if (msg->msg_iovlen == 1)
		return send(fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sendmsg(fd, msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/*
 * A call that a signal interrupts is made again at once: the socket has told of what is there, and by an edge
 * only. Those above are made again by who takes turns.
 */
static inline ssize_t
softrdma_stream_recv(int fd, struct softrdma_tls *tls, void *buf, size_t len)
{
	ssize_t n;
	do {
		n = tls ? softrdma_tls_recv(tls, buf, len) : recv(fd, buf, len, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n;
}

static inline ssize_t
softrdma_stream_send(int fd, struct softrdma_tls *tls, const void *buf, size_t len)
{
	ssize_t n;
	do {
		n = tls ? softrdma_tls_send(tls, buf, len) : send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n;
}

/* the next byte, which stays */
static inline ssize_t
softrdma_stream_peek(int fd, struct softrdma_tls *tls, void *byte)
{
	ssize_t n;
	do {
		n = tls ? softrdma_tls_peek(tls, byte, 1) : recv(fd, byte, 1, MSG_PEEK | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n;
}

/* may there be something to receive that the socket does not tell of? */
static inline bool
softrdma_stream_has_input(const struct softrdma_tls *tls)
{
	return tls && softrdma_tls_has_input(tls);
}

/* true if the last call stopped at a bound before the socket was empty: no edge tells of what is left */
static inline bool
softrdma_stream_is_unread(const struct softrdma_tls *tls)
{
	return tls && softrdma_tls_is_unread(tls);
}

/* is something to be sent, or to be read, as soon as the socket has room? */
static inline bool
softrdma_stream_wants_space(const struct softrdma_tls *tls)
{
	return tls && softrdma_tls_wants_space(tls);
}

/* nothing more is sent; false: that must be said when the socket has room */
static inline bool
softrdma_stream_end(int fd, struct softrdma_tls *tls)
{
	if (tls && !softrdma_tls_end(tls))
		return false;
	shutdown(fd, SHUT_WR);
	return true;
}

/* its owner gives the stream up, and the socket after it: that is said if there is room, as a courtesy */
static inline void
softrdma_stream_leave(struct softrdma_tls **tls)
{
	if (*tls)
		softrdma_tls_end(*tls);
	softrdma_tls_delete(*tls);
	*tls = NULL;
}

#endif /* SOFTRDMA_STREAM_H */
