/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* raw_tls_openssl.c -- TLS of attackers, by OpenSSL */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "deadline.h"
#include "raw_tls.h"

/* more descriptors than an attacker opens */
#define FDS_MAX 4096

static SSL *streams[FDS_MAX]; /* by descriptor; NULL: plain */

bool
raw_tls_is_wanted(void)
{
	return getenv("SOFTRDMA_TLS_CERT") != NULL;
}

static const char *
file_of(const char *variable)
{
	const char *path = getenv(variable);

	if (path == NULL) {
		fprintf(stderr, "attackers want %s as well\n", variable);
		exit(1);
	}
	return path;
}

static SSL_CTX *
context(void)
{
	static SSL_CTX *ctx;

	if (ctx)
		return ctx;
	signal(SIGPIPE, SIG_IGN); /* OpenSSL writes as it likes */
	ctx = SSL_CTX_new(TLS_client_method());
	if (ctx == NULL || SSL_CTX_use_certificate_chain_file(ctx, file_of("SOFTRDMA_TLS_CERT")) != 1 ||
		SSL_CTX_use_PrivateKey_file(ctx, file_of("SOFTRDMA_TLS_KEY"), SSL_FILETYPE_PEM) != 1 ||
		SSL_CTX_load_verify_file(ctx, file_of("SOFTRDMA_TLS_CA")) != 1) {
		ERR_print_errors_fp(stderr);
		exit(1);
	}
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	return ctx;
}

/* what a call that has not succeeded means, as errno; *events: what it waits for */
static ssize_t
failed(SSL *ssl, int ret, short *events)
{
	int error = errno;

	switch (SSL_get_error(ssl, ret)) {
	case SSL_ERROR_WANT_READ:
		*events = POLLIN;
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_WANT_WRITE:
		*events = POLLOUT;
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		errno = error ? error : ECONNRESET;
		return -1;
	default:
		errno = ECONNRESET;
		return -1;
	}
}

bool
raw_tls_begin(int fd, int timeout_ms)
{
	const int64_t end = now_ms() + timeout_ms;
	struct pollfd pfd = { .fd = fd };
	SSL *ssl = fd < FDS_MAX ? SSL_new(context()) : NULL;
	int ret;

	if (ssl == NULL || SSL_set_fd(ssl, fd) != 1 || fcntl(fd, F_SETFL, O_NONBLOCK)) {
		SSL_free(ssl);
		return false;
	}
	do {
		ERR_clear_error();
		ret = SSL_connect(ssl);
		if (ret != 1 && (failed(ssl, ret, &pfd.events) == 0 || errno != EAGAIN))
			break;
	} while (ret != 1 && poll(&pfd, 1, left_ms(end)) == 1);
	if (ret != 1) {
		SSL_free(ssl);
		return false;
	}
	streams[fd] = ssl;
	return true;
}

bool
raw_tls_is_on(int fd)
{
	return fd < FDS_MAX && streams[fd];
}

void
raw_tls_forget(int fd)
{
	if (!raw_tls_is_on(fd))
		return;
	SSL_free(streams[fd]);
	streams[fd] = NULL;
}

ssize_t
raw_tls_send(int fd, const void *bytes, size_t len, short *events)
{
	ERR_clear_error();
	errno = 0;
	int n = SSL_write(streams[fd], bytes, len < INT_MAX ? (int)len : INT_MAX);

	return n > 0 ? n : failed(streams[fd], n, events);
}

ssize_t
raw_tls_recv(int fd, void *bytes, size_t len, short *events)
{
	ERR_clear_error();
	errno = 0;
	int n = SSL_read(streams[fd], bytes, len < INT_MAX ? (int)len : INT_MAX);

	return n > 0 ? n : failed(streams[fd], n, events);
}
