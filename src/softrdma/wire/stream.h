/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * stream.h -- the byte stream of a connection: the one place where its socket is read and written
 *
 * The stream of a link is plain TCP (plain.h), TLS (tls.h), or records with check sums (records.h). All calls are
 * non-blocking and return what the system calls of the same names return. The caller holds the lock of the link.
 */

#ifndef SOFTRDMA_STREAM_H
#define SOFTRDMA_STREAM_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "softrdma/wire/tls.h"

/* --- the stream of a link --- */

struct softrdma_stream;

/* Some may be NULL, as each says. The caller goes by that, and not by the kind of the stream. */
struct softrdma_stream_ops {
	/*
	 * As recvmsg(2); after EINTR call it again at once. The caller gives a stream that has record one iovec only,
	 * which is the device's own memory: the application's may be unmapped meanwhile. NULL: the stream has look and
	 * take instead.
	 */
	ssize_t (*recv)(struct softrdma_stream *stream, struct iovec *iov, size_t count);
	/*
	 * The same without copying: look gives the bytes that are there, and take consumes len of them. The
	 * next look gives the rest again.
	 */
	ssize_t (*look)(struct softrdma_stream *stream, const uint8_t **bytes);
	void (*take)(struct softrdma_stream *stream, size_t len);
	/* true if there may be input that the socket does not report */
	bool (*has_input)(const struct softrdma_stream *stream);
	/* as sendmsg(2). NULL: the stream has record, seal and flush instead. */
	ssize_t (*send)(struct softrdma_stream *stream, struct iovec *iov, size_t count);
	/*
	 * Output is gathered in records. record gives room for record_size bytes, or NULL with errno: EAGAIN
	 * if the previous record has not left. seal sends the len bytes that the caller has put there. They
	 * count as sent; what the socket has no room for leaves by flush.
	 */
	size_t record_size;
	uint8_t *(*record)(struct softrdma_stream *stream);
	void (*seal)(struct softrdma_stream *stream, size_t len);
	/* sends the rest, as far as the socket has room; false: nothing can be sent from now on */
	bool (*flush)(struct softrdma_stream *stream);
	/* true if there is something to do as soon as the socket has room */
	bool (*wants_space)(const struct softrdma_stream *stream);
	/* sends what must precede the end of the output, and that; false: call again when the socket has room */
	bool (*end)(struct softrdma_stream *stream);
	/* what went wrong, for a log line; an empty string if the stream just ended. May be NULL. */
	const char *(*why)(const struct softrdma_stream *stream);
	void (*delete)(struct softrdma_stream *stream);
};

struct softrdma_stream {
	const struct softrdma_stream_ops *ops;
	bool came; /* look has taken bytes from the socket, also if they make no record yet; the caller clears it */
};

/* a connection without a socket has no stream */
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

/* true if payload is copied on its way: it must not change while it is encrypted or summed */
static inline bool
softrdma_stream_copies(const struct softrdma_stream *stream)
{
	return stream->ops->record != NULL;
}

/* --- plain (NULL) or TLS: for handshakes, and beneath the streams above --- */

/*
 * These repeat a call that a signal interrupted, because an edge-triggered event does not come again. Callers
 * of the functions above repeat the call themselves, and limit how often.
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

/* gives the next byte without consuming it */
static inline ssize_t
softrdma_stream_peek(int fd, struct softrdma_tls *tls, void *byte)
{
	ssize_t n;
	do {
		n = tls ? softrdma_tls_peek(tls, byte, 1) : recv(fd, byte, 1, MSG_PEEK | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n;
}

/* true if the last call stopped at a limit before the socket was empty: no event will report the rest */
static inline bool
softrdma_stream_is_unread(const struct softrdma_tls *tls)
{
	return tls && softrdma_tls_is_unread(tls);
}

/* releases TLS before the owner closes the socket; sends close_notify if the socket has room, as a courtesy */
static inline void
softrdma_stream_leave(struct softrdma_tls **tls)
{
	if (*tls)
		softrdma_tls_end(*tls);
	softrdma_tls_delete(*tls);
	*tls = NULL;
}

#endif /* SOFTRDMA_STREAM_H */
