/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* tls_stream.c -- TLS as the stream of a link */

#include <assert.h>
#include <errno.h>

#include "softrdma/wire/tls.h"
#include "softrdma/wire/tls_stream.h"

static struct softrdma_tls *
of(struct softrdma_stream *stream)
{
	return (struct softrdma_tls *)stream;
}

static ssize_t
stream_recv(struct softrdma_stream *stream, struct iovec *iov, size_t count)
{
	struct softrdma_tls *tls = of(stream);
	assert(count == 1);
	(void)count;
	ssize_t n = softrdma_tls_recv(tls, iov->iov_base, iov->iov_len);
	if (n < 0 && errno == EAGAIN && softrdma_tls_is_unread(tls))
		errno = EINTR; /* no event will report what is left */
	return n;
}

static bool
stream_has_input(const struct softrdma_stream *stream)
{
	return softrdma_tls_has_input((const struct softrdma_tls *)stream);
}

static uint8_t *
stream_record(struct softrdma_stream *stream)
{
	return softrdma_tls_record(of(stream));
}

static void
stream_seal(struct softrdma_stream *stream, size_t len)
{
	softrdma_tls_seal(of(stream), len);
}

static bool
stream_flush(struct softrdma_stream *stream)
{
	return softrdma_tls_flush(of(stream));
}

static bool
stream_wants_space(const struct softrdma_stream *stream)
{
	return softrdma_tls_wants_space((const struct softrdma_tls *)stream);
}

static bool
stream_end(struct softrdma_stream *stream)
{
	if (!softrdma_tls_end(of(stream)))
		return false;
	shutdown(softrdma_tls_fd(of(stream)), SHUT_WR);
	return true;
}

static const char *
stream_why(const struct softrdma_stream *stream)
{
	return softrdma_tls_why((const struct softrdma_tls *)stream);
}

static void
stream_delete(struct softrdma_stream *stream)
{
	softrdma_tls_delete(of(stream));
}

const struct softrdma_stream_ops softrdma_tls_stream_ops = {
	.recv = stream_recv,
	.has_input = stream_has_input,
	.record_size = SOFTRDMA_TLS_RECORD,
	.record = stream_record,
	.seal = stream_seal,
	.flush = stream_flush,
	.wants_space = stream_wants_space,
	.end = stream_end,
	.why = stream_why,
	.delete = stream_delete,
};
