/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * raw_tls.h -- TLS of attackers that have credentials: those of SOFTRDMA_TLS_CERT, _KEY and _CA
 *
 * By OpenSSL (raw_tls_openssl.c), and again without the product's code; raw_tls_none.c is for builds that
 * have none. A socket that has begun to speak TLS does so until it is forgotten, before it is closed.
 */

#ifndef RAW_TLS_H
#define RAW_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* does the environment ask for it? */
bool raw_tls_is_wanted(void);

/* shakes hands; false: not in time, or the server does not want to */
bool raw_tls_begin(int fd, int timeout_ms);
bool raw_tls_is_on(int fd);
void raw_tls_forget(int fd);

/* as send() and recv() on a socket that does not block; *events: what to wait for at EAGAIN */
ssize_t raw_tls_send(int fd, const void *bytes, size_t len, short *events);
ssize_t raw_tls_recv(int fd, void *bytes, size_t len, short *events);

#endif /* RAW_TLS_H */
