/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * raw_tls.h -- TLS of attackers that have credentials: those of SOFTRDMA_TLS_CERT, _KEY and _CA, or of _PSK
 *
 * By OpenSSL (raw_tls_openssl.c), and again without the product's code; raw_tls_none.c is for builds that
 * have none. A socket that has begun to speak TLS does so until it is forgotten, before it is closed.
 */

#ifndef RAW_TLS_H
#define RAW_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* does the environment ask for it? */
bool raw_tls_is_wanted(void);

/* shakes hands; false: not in time, or the server does not want to */
bool raw_tls_begin(int fd, int timeout_ms);
/* the same of one that shows no certificate; from then on the socket is as if it were plain */
bool raw_tls_begin_without_certificate(int fd, int timeout_ms);
bool raw_tls_is_on(int fd);
void raw_tls_forget(int fd);

/* as send() and recv() on a socket that does not block; *events: what to wait for at EAGAIN */
ssize_t raw_tls_send(int fd, const void *bytes, size_t len, short *events);
ssize_t raw_tls_recv(int fd, void *bytes, size_t len, short *events);

/*
 * A handshake whose bytes leave one by one. Begin: false: it cannot. Creep sends the next one, if there is
 * one now; false: it is complete, or the stream has ended.
 */
bool raw_tls_creep_begin(int fd);
bool raw_tls_creep(int fd);

/*
 * What a client says first, with a key of this group ("X25519"), which anybody can send again and again; its
 * length, 0: it cannot be made.
 */
#define RAW_TLS_HELLO_MAX 4096
size_t raw_tls_hello(const char *group, uint8_t bytes[static RAW_TLS_HELLO_MAX]);

/*
 * Records by hand: what OpenSSL would not send, and as many as are wanted in memory before the first one
 * leaves. The stream is taken over behind what was sent on it; from then on the socket is as if it were
 * plain.
 */
struct raw_tls_sealer;

enum raw_tls_content {
	RAW_TLS_HANDSHAKE = 22,
	RAW_TLS_DATA = 23,
};

#define RAW_TLS_OVERHEAD 22 /* what a record is longer than its content */
#define RAW_TLS_KEY_UPDATE_SIZE (5 + RAW_TLS_OVERHEAD)

struct raw_tls_sealer *raw_tls_take_over(int fd);
void raw_tls_sealer_delete(struct raw_tls_sealer *sealer);
/* the next record; its length */
size_t raw_tls_seal(struct raw_tls_sealer *sealer, enum raw_tls_content kind, const void *content, size_t len,
	uint8_t *record);
/* the same of a KeyUpdate; answer: one is asked for */
size_t raw_tls_seal_key_update(struct raw_tls_sealer *sealer, bool answer,
	uint8_t record[static RAW_TLS_KEY_UPDATE_SIZE]);

#endif /* RAW_TLS_H */
