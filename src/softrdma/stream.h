/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * stream.h -- the byte stream of a connection: the one place where its socket is read and written
 *
 * It is plain, or goes through TLS; that of a link can also go in records with check sums (records.h). All
 * calls are non-blocking, and give what the calls of the same names give. Inline, so that the plain way to
 * the kernel is as short as without the others.
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

/* --- of a link: what is not plain, as tls_openssl.c and records.c do it --- */

struct softrdma_stream;

struct softrdma_stream_ops {
	size_t record_size;
	/* as recv(2), EINTR: to be called again at once; NULL: by look and take */
	ssize_t (*recv)(struct softrdma_stream *stream, void *buf, size_t len);
	/* the same without copying: what there is, and how many bytes of it were used; more is seen again */
	ssize_t (*look)(struct softrdma_stream *stream, const uint8_t **bytes);
	void (*take)(struct softrdma_stream *stream, size_t len);
	/* may there be something to receive that the socket does not tell of? */
	bool (*has_input)(const struct softrdma_stream *stream);
	/*
	 * What is to be sent is gathered in records: room for record_size bytes, or NULL with errno, EAGAIN
	 * if the last one has not left. Then so many bytes are there: they leave now or by flush, and count
	 * as sent.
	 */
	uint8_t *(*record)(struct softrdma_stream *stream);
	void (*seal)(struct softrdma_stream *stream, size_t len);
	/* a rest leaves, if the socket has room again; false: nothing can leave any more */
	bool (*flush)(struct softrdma_stream *stream);
	/* is something to be done when the socket has room? */
	bool (*wants_space)(const struct softrdma_stream *stream);
	/* what is to be said in front of the end of what is sent; false: when the socket has room again */
	bool (*end)(struct softrdma_stream *stream);
	/* what has gone wrong, in words for a log line; an empty string if the stream has just ended. NULL:
	 * none
	 */
	const char *(*why)(const struct softrdma_stream *stream);
	void (*delete)(struct softrdma_stream *stream);
};

struct softrdma_stream {
	const struct softrdma_stream_ops *ops;
};

/*
 * What is one piece goes by the call that takes less. A stream that is not plain (NULL) fills one piece,
 * which must be our own: that of others may vanish under it.
 */
static inline ssize_t
softrdma_stream_recvmsg(int fd, struct softrdma_stream *stream, struct msghdr *msg)
{
	if (stream)
		return stream->ops->recv(stream, msg->msg_iov->iov_base, msg->msg_iov->iov_len);
	if (msg->msg_iovlen == 1)
		return recv(fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len, MSG_DONTWAIT);
	return recvmsg(fd, msg, MSG_DONTWAIT);
}

/* for a plain stream; what others send somebody must gather */
static inline ssize_t
softrdma_stream_sendmsg(int fd, const struct msghdr *msg)
{
	if (msg->msg_iovlen == 1)
		return send(fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sendmsg(fd, msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static inline bool
softrdma_stream_has_input(const struct softrdma_stream *stream)
{
	return stream && stream->ops->has_input(stream);
}

static inline bool
softrdma_stream_wants_space(const struct softrdma_stream *stream)
{
	return stream && stream->ops->wants_space(stream);
}

/* nothing more is sent; false: that must be said when the socket has room */
static inline bool
softrdma_stream_end(int fd, struct softrdma_stream *stream)
{
	if (stream && !stream->ops->end(stream))
		return false;
	shutdown(fd, SHUT_WR);
	return true;
}

/* --- while both sides agree: plain (NULL) or TLS --- */

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

/* true if the last call stopped at a bound before the socket was empty: no edge tells of what is left */
static inline bool
softrdma_stream_is_unread(const struct softrdma_tls *tls)
{
	return tls && softrdma_tls_is_unread(tls);
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
