/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* tls_none.c -- no TLS, for builds without OpenSSL */

#include <errno.h>
#include <stdlib.h>

#include "softrdma/base/env.h"
#include "softrdma/wire/tls.h"

/* if TLS is configured, the result is an error and never a plain stream */
static int
refuse(void)
{
	/* message(built-without-tls) */
	SOFTRDMA_LOG(ERROR, "TLS: not there, because this library was built without OpenSSL");
	return EOPNOTSUPP;
}

int
softrdma_tls_context_of_files(const char *cert_file, const char *key_file, const char *ca_file,
	struct softrdma_tls_context **context)
{
	(void)cert_file;
	(void)key_file;
	(void)ca_file;
	(void)context;
	return refuse();
}

int
softrdma_tls_context_of_psk(const struct softrdma_tls_psk *psk, struct softrdma_tls_context **context)
{
	(void)psk;
	(void)context;
	return refuse();
}

void
softrdma_tls_context_delete(struct softrdma_tls_context *context)
{
	(void)context;
}

void
softrdma_tls_delete(struct softrdma_tls *tls)
{
	(void)tls;
}

/* --- never called, because without a context there is no struct softrdma_tls --- */

int
softrdma_tls_new(struct softrdma_tls_context *context, int fd, bool active, struct softrdma_tls **tls)
{
	(void)context;
	(void)fd;
	(void)active;
	(void)tls;
	abort();
}

int
softrdma_tls_handshake(struct softrdma_tls *tls)
{
	(void)tls;
	abort();
}

const char *
softrdma_tls_why(const struct softrdma_tls *tls)
{
	(void)tls;
	abort();
}

ssize_t
softrdma_tls_recv(struct softrdma_tls *tls, void *buf, size_t len)
{
	(void)tls;
	(void)buf;
	(void)len;
	abort();
}

ssize_t
softrdma_tls_peek(struct softrdma_tls *tls, void *buf, size_t len)
{
	(void)tls;
	(void)buf;
	(void)len;
	abort();
}

bool
softrdma_tls_has_input(const struct softrdma_tls *tls)
{
	(void)tls;
	abort();
}

bool
softrdma_tls_is_unread(const struct softrdma_tls *tls)
{
	(void)tls;
	abort();
}

uint8_t *
softrdma_tls_record(struct softrdma_tls *tls)
{
	(void)tls;
	abort();
}

void
softrdma_tls_seal(struct softrdma_tls *tls, size_t len)
{
	(void)tls;
	(void)len;
	abort();
}

bool
softrdma_tls_flush(struct softrdma_tls *tls)
{
	(void)tls;
	abort();
}

bool
softrdma_tls_wants_space(const struct softrdma_tls *tls)
{
	(void)tls;
	abort();
}

ssize_t
softrdma_tls_send(struct softrdma_tls *tls, const void *buf, size_t len)
{
	(void)tls;
	(void)buf;
	(void)len;
	abort();
}

bool
softrdma_tls_end(struct softrdma_tls *tls)
{
	(void)tls;
	abort();
}

int
softrdma_tls_fd(const struct softrdma_tls *tls)
{
	(void)tls;
	abort();
}

struct softrdma_stream *
softrdma_tls_stream(struct softrdma_tls *tls)
{
	(void)tls;
	abort();
}
