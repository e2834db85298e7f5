/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* raw_tls_none.c -- built without OpenSSL, as the server then is */

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
