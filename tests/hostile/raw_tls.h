/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * raw_tls.h -- TLS of attackers that have credentials: those of SOFTRDMA_TLS_CERT, _KEY and _CA, or of _PSK
 *
 * It uses OpenSSL (raw_tls_openssl.c), and none of the product's code; raw_tls_none.c is for builds without
 * OpenSSL. A socket that has begun to use TLS does so until raw_tls_forget(), which comes before it is
 * closed.
 */

#ifndef RAW_TLS_H
#define RAW_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* true if the environment asks for TLS */
bool raw_tls_is_wanted(void);

/* does the handshake; false if it failed or took too long */
bool raw_tls_begin(int fd, int timeout_ms);
/* the same without a certificate; after that the socket is treated as plain */
bool raw_tls_begin_without_certificate(int fd, int timeout_ms);
bool raw_tls_is_on(int fd);
void raw_tls_forget(int fd);

/* like send() and recv() on a non-blocking socket; *events: what to poll for after EAGAIN */
ssize_t raw_tls_send(int fd, const void *bytes, size_t len, short *events);
ssize_t raw_tls_recv(int fd, void *bytes, size_t len, short *events);

/*
 * A handshake that sends its bytes one by one. raw_tls_creep_begin() returns false if it fails.
 * raw_tls_creep() sends the next byte, if there is one now; it returns false if the handshake is complete or
 * the stream has ended.
 */
bool raw_tls_creep_begin(int fd);
bool raw_tls_creep(int fd);

/*
 * A ClientHello with a key share of this group ("X25519"), which a client can send again and again. Returns
 * its length, 0 if it cannot be made.
 */
#define RAW_TLS_HELLO_MAX 4096
size_t raw_tls_hello(const char *group, uint8_t bytes[static RAW_TLS_HELLO_MAX]);

/*
 * Records made by hand: OpenSSL would not send them, and many can be made in memory before the first one is
 * sent. They continue the stream after everything sent on it. After that the socket is treated as plain.
 */
struct raw_tls_sealer;

enum raw_tls_content {
	RAW_TLS_HANDSHAKE = 22,
	RAW_TLS_DATA = 23,
};

#define RAW_TLS_OVERHEAD 22 /* bytes that a record is longer than its content */
#define RAW_TLS_KEY_UPDATE_SIZE (5 + RAW_TLS_OVERHEAD)

struct raw_tls_sealer *raw_tls_take_over(int fd);
void raw_tls_sealer_delete(struct raw_tls_sealer *sealer);
/* makes the next record; returns its length */
size_t raw_tls_seal(struct raw_tls_sealer *sealer, enum raw_tls_content kind, const void *content, size_t len,
	uint8_t *record);
/* the same for a KeyUpdate; answer: true if it requests one in return */
size_t raw_tls_seal_key_update(struct raw_tls_sealer *sealer, bool answer,
	uint8_t record[static RAW_TLS_KEY_UPDATE_SIZE]);

#endif /* RAW_TLS_H */
