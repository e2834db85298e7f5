/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * plain.c -- the byte stream of a connection as TCP carries it: without encryption, and without check sums of its own
 *
 * Bytes go between the socket and the memory of the application directly. One iovec goes by recv() and send(), which cost
 * less than recvmsg() and sendmsg().
 */

#include <assert.h>
#include <stddef.h>
#include <sys/socket.h>

#include "softrdma/wire/plain.h"

static_assert(offsetof(struct softrdma_plain, stream) == 0, "of() casts it");

static const struct softrdma_plain *
of(const struct softrdma_stream *stream)
{
	return (const struct softrdma_plain *)stream;
}

static ssize_t
plain_recv(struct softrdma_stream *stream, struct iovec *iov, size_t count)
{
	if (count == 1)
		return recv(of(stream)->fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT);
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = count };
	return recvmsg(of(stream)->fd, &msg, MSG_DONTWAIT);
}

static ssize_t
plain_send(struct softrdma_stream *stream, struct iovec *iov, size_t count)
{
	if (count == 1)
		return send(of(stream)->fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = count };
	return sendmsg(of(stream)->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool
plain_has_input(const struct softrdma_stream *stream)
{
	(void)stream;
	return false; /* the socket reports all */
}

static bool
plain_wants_space(const struct softrdma_stream *stream)
{
	(void)stream;
	return false;
}

static bool
plain_end(struct softrdma_stream *stream)
{
	shutdown(of(stream)->fd, SHUT_WR);
	return true;
}

static void
plain_delete(struct softrdma_stream *stream)
{
	(void)stream;
}

struct softrdma_stream *
softrdma_plain_init(struct softrdma_plain *plain, int fd)
{
	static const struct softrdma_stream_ops ops = {
		.recv = plain_recv,
		.has_input = plain_has_input,
		.send = plain_send,
		.wants_space = plain_wants_space,
		.end = plain_end,
		.delete = plain_delete,
	};
	*plain = (struct softrdma_plain){ .stream.ops = &ops, .fd = fd };
	return &plain->stream;
}
