/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* raw_tls_none.c -- for builds without OpenSSL, in which the server has no TLS either */

#include <errno.h>

#include "raw_tls.h"

bool
raw_tls_is_wanted(void)
{
	return false;
}

bool
raw_tls_begin(int fd, int timeout_ms)
{
	(void)fd;
	(void)timeout_ms;
	return false;
}

bool
raw_tls_begin_without_certificate(int fd, int timeout_ms)
{
	return raw_tls_begin(fd, timeout_ms);
}

bool
raw_tls_creep_begin(int fd)
{
	(void)fd;
	return false;
}

bool
raw_tls_creep(int fd)
{
	(void)fd;
	return false;
}

size_t
raw_tls_hello(const char *group, uint8_t bytes[static RAW_TLS_HELLO_MAX])
{
	(void)group;
	(void)bytes;
	return 0;
}

struct raw_tls_sealer *
raw_tls_take_over(int fd)
{
	(void)fd;
	return NULL;
}

void
raw_tls_sealer_delete(struct raw_tls_sealer *sealer)
{
	(void)sealer;
}

size_t
raw_tls_seal(struct raw_tls_sealer *sealer, enum raw_tls_content kind, const void *content, size_t len,
	uint8_t *record)
{
	(void)sealer;
	(void)kind;
	(void)content;
	(void)len;
	(void)record;
	return 0;
}

size_t
raw_tls_seal_key_update(struct raw_tls_sealer *sealer, bool answer,
	uint8_t record[static RAW_TLS_KEY_UPDATE_SIZE])
{
	(void)sealer;
	(void)answer;
	(void)record;
	return 0;
}

bool
raw_tls_is_on(int fd)
{
	(void)fd;
	return false;
}

void
raw_tls_forget(int fd)
{
	(void)fd;
}

ssize_t
raw_tls_send(int fd, const void *bytes, size_t len, short *events)
{
	(void)fd;
	(void)bytes;
	(void)len;
	(void)events;
	errno = ENOTSUP;
	return -1;
}

ssize_t
raw_tls_recv(int fd, void *bytes, size_t len, short *events)
{
	(void)fd;
	(void)bytes;
	(void)len;
	(void)events;
	errno = ENOTSUP;
	return -1;
}
