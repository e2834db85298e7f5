/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * tls.h -- TLS 1.3 on the socket of a connection
 *
 * tls_openssl.c implements it with OpenSSL. tls_none.c is for builds without OpenSSL, where no context can be
 * made.
 *
 * Both sides authenticate: an untrusted peer never gets beyond the handshake. Sessions are not resumed, and
 * there is no other version to fall back to. Output is gathered in records. A record is encrypted, leaves as far
 * as the socket has room, and counts as sent, like bytes in the buffer of a socket. The rest of it must leave
 * before the next record.
 *
 * One thread at a time: the caller holds the lock of the socket's owner.
 */

#ifndef SOFTRDMA_TLS_H
#define SOFTRDMA_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "softrdma/bounds.h"

struct softrdma_tls; /* of one connection */
struct softrdma_stream;
struct softrdma_tls_context; /* shared by connections with the same credentials, which keep it; any thread */

/* a pre-shared key and its name */
struct softrdma_tls_psk {
	char identity[SOFTRDMA_TLS_IDENTITY_MAX + 1];
	uint8_t key[SOFTRDMA_TLS_PSK_MAX];
	size_t len;
};

/* 0, or an errno value; a log line gives the reason */
int softrdma_tls_context_of_files(const char *cert_file, const char *key_file, const char *ca_file,
	struct softrdma_tls_context **context);
int softrdma_tls_context_of_psk(const struct softrdma_tls_psk *psk, struct softrdma_tls_context **context);
void softrdma_tls_context_delete(struct softrdma_tls_context *context);

/* starts TLS on a connected socket, which the caller still owns; 0 or an errno value */
int softrdma_tls_new(struct softrdma_tls_context *context, int fd, bool active, struct softrdma_tls **tls);
/* tls may be NULL */
void softrdma_tls_delete(struct softrdma_tls *tls);

/*
 * Continues the handshake. 0: it is complete, and both sides are trusted. EAGAIN: call again when the socket
 * has input or room. EPROTONOSUPPORT: the peer has sent a message of the device without TLS, which is still
 * unread. Another errno value: it has failed, see softrdma_tls_why().
 */
int softrdma_tls_handshake(struct softrdma_tls *tls);

/* what went wrong, for a log line; an empty string if the stream just ended */
const char *softrdma_tls_why(const struct softrdma_tls *tls);

/*
 * As recv(2) on a non-blocking socket. 0: the peer has announced the end of its output. ECONNRESET: the stream
 * ended without that, it contained bytes that the peer has not sent, or it was a flood of records without data.
 */
ssize_t softrdma_tls_recv(struct softrdma_tls *tls, void *buf, size_t len);
ssize_t softrdma_tls_peek(struct softrdma_tls *tls, void *buf, size_t len);
/* true if there may be input that the socket does not report */
bool softrdma_tls_has_input(const struct softrdma_tls *tls);
/*
 * True if the last handshake, recv or peek gave EAGAIN although the socket was not empty: it reached a limit
 * (SOFTRDMA_TLS_READ_MAX, or a record without data). No event will report the rest, so the caller must call again,
 * after other connections had their turn.
 */
bool softrdma_tls_is_unread(const struct softrdma_tls *tls);

/*
 * room for the next record, SOFTRDMA_TLS_RECORD bytes; NULL with errno: EAGAIN if the previous one has not left
 */
uint8_t *softrdma_tls_record(struct softrdma_tls *tls);
/* sends the len bytes in that room, now or by softrdma_tls_flush() */
void softrdma_tls_seal(struct softrdma_tls *tls, size_t len);
/* sends the rest, as far as the socket has room; false: nothing can be sent from now on */
bool softrdma_tls_flush(struct softrdma_tls *tls);
/* true if there is something to do as soon as the socket has room */
bool softrdma_tls_wants_space(const struct softrdma_tls *tls);

/* as send(2), of at most one record; -1 if not all of it leaves at once */
ssize_t softrdma_tls_send(struct softrdma_tls *tls, const void *buf, size_t len);

/* the same object as the stream of a link, which then deletes it */
struct softrdma_stream *softrdma_tls_stream(struct softrdma_tls *tls);
/* the socket, which the caller of softrdma_tls_new() owns */
int softrdma_tls_fd(const struct softrdma_tls *tls);

/* announces the end of this side's output; false: call again when the socket has room */
bool softrdma_tls_end(struct softrdma_tls *tls);

#endif /* SOFTRDMA_TLS_H */
