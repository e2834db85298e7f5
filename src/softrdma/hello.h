/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* hello.h -- the messages that a connection begins with, on their way through a socket */

#ifndef SOFTRDMA_HELLO_H
#define SOFTRDMA_HELLO_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "bounds.h"
#include "tls.h"
#include "wire.h"

#define SOFTRDMA_HELLO_MAX (SOFTRDMA_HANDSHAKE_SIZE + SOFTRDMA_PRIVATE_DATA_MAX)

/* room for the name of an address in a log line */
#define SOFTRDMA_NAME_SIZE (NI_MAXHOST + NI_MAXSERV + 4)

/* a message, received so far or to be sent */
struct softrdma_hello {
	uint8_t message[SOFTRDMA_HELLO_MAX];
	size_t length;
	struct softrdma_handshake peer; /* decoded from the message's header, once that is there */
};

enum softrdma_hello_reading {
	SOFTRDMA_HELLO_COMPLETE,
	SOFTRDMA_HELLO_INCOMPLETE,
	SOFTRDMA_HELLO_ENDED, /* the stream, or an error of it */
	SOFTRDMA_HELLO_NOT_OURS,
	SOFTRDMA_HELLO_OTHER_VERSION,
	SOFTRDMA_HELLO_DAMAGED, /* on its way: nothing of it is to be believed */
};

/* writes the message; version, length and check sum of the private data are filled in */
void softrdma_hello_encode(struct softrdma_hello *hello, struct softrdma_handshake *hs,
	const void *private_data, uint8_t private_len);

/* 0 or an errno value; the first bytes of a connection always fit its buffer, so a short write is an error */
int softrdma_hello_send(int fd, struct softrdma_tls *tls, const struct softrdma_hello *hello);

/*
 * What this side wants of a connected stream: records with check sums, unless SOFTRDMA_CRC says otherwise or
 * the stream never leaves this machine. None inside TLS (NULL: plain), which has something better.
 */
uint8_t softrdma_hello_wish(int fd, const struct softrdma_tls *tls);
/* what two wishes make: what is set weighs more than a default, and in doubt the stream is protected */
bool softrdma_hello_agree(uint8_t wish, uint8_t other);
/* a message that is written says so about records */
void softrdma_hello_set_records(struct softrdma_hello *hello, uint8_t records);
/* sends CONNECT or JOIN, with what this side wants; 0 or an errno value */
int softrdma_hello_ask(int fd, struct softrdma_tls *tls, struct softrdma_hello *hello);

/* says no; whoever is not there any more need not know */
void softrdma_hello_reject(int fd, struct softrdma_tls *tls, enum softrdma_reject_reason reason,
	const void *private_data, uint8_t private_len);

/* never reads behind the message: what follows it is for the link */
enum softrdma_hello_reading softrdma_hello_read(int fd, struct softrdma_tls *tls,
	struct softrdma_hello *hello);

/*
 * Goes on with the agreement on TLS, before any message; a plain stream (NULL) needs none. NOT_OURS: the
 * other side has sent a message of ours without; ENDED: see softrdma_tls_why().
 */
enum softrdma_hello_reading softrdma_hello_secure(struct softrdma_tls *tls);

/* what has been read is the beginning of TLS */
bool softrdma_hello_is_tls(const struct softrdma_hello *hello);

/*
 * Reads what has come after a message that is refused, before the socket is closed: close(2) with unread
 * bytes makes the kernel reset the connection, which may overtake the REJECT. It reads a bounded amount. A
 * peer that has sent more, or goes on sending, may lose the reason.
 */
void softrdma_hello_read_away(int fd);

/*
 * a WARNING that what ("listening") is done there without TLS, unless only this machine has the address:
 * whoever can reach it can be a peer, and whoever sees the traffic has the keys. Was it said?
 */
bool softrdma_hello_warn_if_open(const struct sockaddr *addr, const char *what);

/* HOST:PORT for log lines; buf has SOFTRDMA_NAME_SIZE bytes */
const char *softrdma_hello_name(const struct sockaddr *addr, char *buf, size_t size);
const char *softrdma_hello_peer_name(int fd, char *buf, size_t size);

#endif /* SOFTRDMA_HELLO_H */
