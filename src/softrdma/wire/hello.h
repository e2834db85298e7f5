/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* hello.h -- sending and receiving the handshake messages with which a connection begins */

#ifndef SOFTRDMA_HELLO_H
#define SOFTRDMA_HELLO_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "softrdma/bounds.h"
#include "softrdma/wire/tls.h"
#include "softrdma/wire/wire.h"

#define SOFTRDMA_HELLO_MAX (SOFTRDMA_HANDSHAKE_SIZE + SOFTRDMA_PRIVATE_DATA_MAX)

/* bytes for the name of an address in a log line */
#define SOFTRDMA_NAME_SIZE (NI_MAXHOST + NI_MAXSERV + 4)

/* a message to send, or the part received so far */
struct softrdma_hello {
	uint8_t message[SOFTRDMA_HELLO_MAX];
	size_t length;
	struct softrdma_handshake peer; /* decoded from the message's header as soon as that is complete */
};

enum softrdma_hello_reading {
	SOFTRDMA_HELLO_COMPLETE,
	SOFTRDMA_HELLO_INCOMPLETE,
	SOFTRDMA_HELLO_ENDED, /* the stream has ended or failed */
	SOFTRDMA_HELLO_NOT_OURS,
	SOFTRDMA_HELLO_OTHER_VERSION,
	SOFTRDMA_HELLO_DAMAGED, /* in transit, so none of its fields can be trusted */
};

/* writes the message; sets version, length and checksum of the private data */
void softrdma_hello_encode(struct softrdma_hello *hello, struct softrdma_handshake *hs,
	const void *private_data, uint8_t private_len);

/* 0 or an errno value; the first bytes of a connection always fit its buffer, so a short write is an error */
int softrdma_hello_send(int fd, struct softrdma_tls *tls, const struct softrdma_hello *hello);

/*
 * What this side wants for a connected stream (enum softrdma_records_wish): records with checksums, unless
 * SOFTRDMA_CRC disables them or the stream never leaves this machine. Inside TLS (NULL: plain) it wants none,
 * because TLS protects its records better.
 */
uint8_t softrdma_hello_wish(int fd, const struct softrdma_tls *tls);
/* true if two wishes give records: a set wish has precedence over a default, and in doubt records are used */
bool softrdma_hello_agree(uint8_t wish, uint8_t other);
/* sets the field records of a message that is already written */
void softrdma_hello_set_records(struct softrdma_hello *hello, uint8_t records);
/* sends CONNECT or JOIN, with this side's wish for records; 0 or an errno value */
int softrdma_hello_ask(int fd, struct softrdma_tls *tls, struct softrdma_hello *hello);

/* sends REJECT; ignores errors, because a peer that is gone need not know */
void softrdma_hello_reject(int fd, struct softrdma_tls *tls, enum softrdma_reject_reason reason,
	const void *private_data, uint8_t private_len);

/* never reads past the message: what follows it is for the link */
enum softrdma_hello_reading softrdma_hello_read(int fd, struct softrdma_tls *tls,
	struct softrdma_hello *hello);

/*
 * Continues the TLS handshake, which precedes all messages; a plain stream (NULL) needs none. NOT_OURS: the
 * peer has sent a message of this protocol without TLS. ENDED: see softrdma_tls_why().
 */
enum softrdma_hello_reading softrdma_hello_secure(struct softrdma_tls *tls);

/* true if the bytes read so far are the beginning of a TLS handshake */
bool softrdma_hello_is_tls(const struct softrdma_hello *hello);

/*
 * Reads what the peer has sent after a refused message, before the socket is closed. With unread bytes close(2)
 * makes the kernel reset the connection, which may overtake the REJECT. The amount is bounded: a peer that has
 * sent more, or continues to send, may not receive the reason.
 */
void softrdma_hello_read_away(int fd);

/*
 * Logs a WARNING that what ("listening") is done at this address without TLS, unless it is a loopback address:
 * any host that reaches the address can be a peer, and any host that sees the traffic learns the keys. True if
 * it was logged.
 */
bool softrdma_hello_warn_if_open(const struct sockaddr *addr, const char *what);

/* HOST:PORT for log lines; buf has SOFTRDMA_NAME_SIZE bytes */
const char *softrdma_hello_name(const struct sockaddr *addr, char *buf, size_t size);
const char *softrdma_hello_peer_name(int fd, char *buf, size_t size);

#endif /* SOFTRDMA_HELLO_H */
