/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * tls.h -- TLS 1.3 on the socket of a connection
 *
 * tls_openssl.c does it, by OpenSSL; tls_none.c is for builds without, where no context can be had.
 *
 * Both sides show who they are: whoever is not trusted never gets beyond the handshake. Nothing is resumed,
 * and there is no other version to fall back to. What is to be sent is gathered in records: one is encrypted
 * and leaves as far as the socket takes it, and counts as sent, as in the buffer of a socket; before the next
 * one its rest must have left.
 *
 * One thread at a time: the lock of whoever owns the socket is held.
 */

#ifndef SOFTRDMA_TLS_H
#define SOFTRDMA_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bounds.h"

struct softrdma_tls; /* of one connection */
struct softrdma_stream;
struct softrdma_tls_context; /* what connections with the same credentials share; any thread */

/* a key that both sides have been given, and its name */
struct softrdma_tls_psk {
	char identity[SOFTRDMA_TLS_IDENTITY_MAX + 1];
	uint8_t key[SOFTRDMA_TLS_PSK_MAX];
	size_t len;
};

/* 0, or an errno value and the log says why */
int softrdma_tls_context_of_files(const char *cert_file, const char *key_file, const char *ca_file,
	struct softrdma_tls_context **context);
int softrdma_tls_context_of_psk(const struct softrdma_tls_psk *psk, struct softrdma_tls_context **context);
void softrdma_tls_context_delete(struct softrdma_tls_context *context);

/* on a connected socket, which stays its owner's; 0 or an errno value */
int softrdma_tls_new(struct softrdma_tls_context *context, int fd, bool active, struct softrdma_tls **tls);
/* NULL is let through */
void softrdma_tls_delete(struct softrdma_tls *tls);

/*
 * Goes on with the handshake, if there is more to it: 0: both sides are trusted; EAGAIN: when the socket has
 * more to read or to write; EPROTONOSUPPORT: the other side has sent a message of the device without TLS,
 * which is still there; another errno value: it has failed, see softrdma_tls_why().
 */
int softrdma_tls_handshake(struct softrdma_tls *tls);

/* what has gone wrong, in words for a log line; an empty string if the stream has just ended */
const char *softrdma_tls_why(const struct softrdma_tls *tls);

/*
 * As recv(2) on a non-blocking socket. 0 is an end that the other side has announced; one that it has not is
 * ECONNRESET, as what is not from it, and a flood of records without data.
 */
ssize_t softrdma_tls_recv(struct softrdma_tls *tls, void *buf, size_t len);
ssize_t softrdma_tls_peek(struct softrdma_tls *tls, void *buf, size_t len);
/* may there be something to receive that the socket does not tell of? */
bool softrdma_tls_has_input(const struct softrdma_tls *tls);
/*
 * True if the last call of the three above ended with EAGAIN at a bound (bounds.h: bytes of a call, a record
 * without data) and not at an empty socket: no edge tells, so it must be called again, after others had their
 * turn.
 */
bool softrdma_tls_is_unread(const struct softrdma_tls *tls);

/*
 * room for the next record, SOFTRDMA_TLS_RECORD bytes; NULL with errno: EAGAIN if the last one has not left
 */
uint8_t *softrdma_tls_record(struct softrdma_tls *tls);
/* so many bytes of it are there: they leave now or by softrdma_tls_flush() */
void softrdma_tls_seal(struct softrdma_tls *tls, size_t len);
/* a rest leaves, if the socket has room again; false: nothing can leave any more */
bool softrdma_tls_flush(struct softrdma_tls *tls);
/* is something to be done when the socket has room? */
bool softrdma_tls_wants_space(const struct softrdma_tls *tls);

/* as send(2), of less than a record, at once or not at all */
ssize_t softrdma_tls_send(struct softrdma_tls *tls, const void *buf, size_t len);

/* as the stream of a link, which deletes it */
struct softrdma_stream *softrdma_tls_stream(struct softrdma_tls *tls);

/* announces the end of what this side sends; false: when the socket has room again */
bool softrdma_tls_end(struct softrdma_tls *tls);

#endif /* SOFTRDMA_TLS_H */
