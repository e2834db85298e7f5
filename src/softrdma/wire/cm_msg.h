/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* cm_msg.h -- sending and receiving the handshake messages with which a connection begins */

#ifndef SOFTRDMA_CM_MSG_H
#define SOFTRDMA_CM_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "softrdma/bounds.h"
#include "softrdma/wire/tls.h"
#include "softrdma/wire/wire.h"

#define SOFTRDMA_CM_MSG_MAX (SOFTRDMA_HANDSHAKE_SIZE + SOFTRDMA_PRIVATE_DATA_MAX)

/* a message to send, or the part received so far */
struct softrdma_cm_msg {
	uint8_t bytes[SOFTRDMA_CM_MSG_MAX];
	size_t length;
	struct softrdma_handshake peer; /* decoded from the message's header as soon as that is complete */
};

enum softrdma_cm_msg_reading {
	SOFTRDMA_CM_MSG_COMPLETE,
	SOFTRDMA_CM_MSG_INCOMPLETE,
	SOFTRDMA_CM_MSG_ENDED, /* the stream has ended or failed */
	SOFTRDMA_CM_MSG_NOT_OURS,
	SOFTRDMA_CM_MSG_OTHER_VERSION,
	SOFTRDMA_CM_MSG_DAMAGED, /* in transit, so none of its fields can be trusted */
};

/* writes the message; sets version, length and checksum of the private data */
void softrdma_cm_msg_encode(struct softrdma_cm_msg *msg, struct softrdma_handshake *hs,
	const void *private_data, uint8_t private_len);

/* 0 or an errno value; the first bytes of a connection always fit its buffer, so a short write is an error */
int softrdma_cm_msg_send(int fd, struct softrdma_tls *tls, const struct softrdma_cm_msg *msg);

/*
 * What this side wants for a connected stream (enum softrdma_records_wish): records with checksums, unless
 * SOFTRDMA_CRC disables them or the stream never leaves this machine. Inside TLS (NULL: plain) it wants none,
 * because TLS protects its records better.
 */
uint8_t softrdma_cm_msg_wish(int fd, const struct softrdma_tls *tls);
/* true if two wishes give records: a set wish has precedence over a default, and in doubt records are used */
bool softrdma_cm_msg_agree(uint8_t wish, uint8_t other);
/* sets the field records of a message that is already written */
void softrdma_cm_msg_set_records(struct softrdma_cm_msg *msg, uint8_t records);
/* sends CONNECT or JOIN, with this side's wish for records; 0 or an errno value */
int softrdma_cm_msg_send_request(int fd, struct softrdma_tls *tls, struct softrdma_cm_msg *msg);

/* sends REJECT; ignores errors, because a peer that is gone need not know */
void softrdma_cm_msg_reject(int fd, struct softrdma_tls *tls, enum softrdma_reject_reason reason,
	const void *private_data, uint8_t private_len);

/* never reads past the message: what follows it is for the link */
enum softrdma_cm_msg_reading softrdma_cm_msg_read(int fd, struct softrdma_tls *tls,
	struct softrdma_cm_msg *msg);

/*
 * Continues the TLS handshake, which precedes all messages; a plain stream (NULL) needs none. NOT_OURS: the
 * peer has sent a message of this protocol without TLS. ENDED: see softrdma_tls_why().
 */
enum softrdma_cm_msg_reading softrdma_cm_msg_secure(struct softrdma_tls *tls);

/* true if the bytes read so far are the beginning of a TLS handshake */
bool softrdma_cm_msg_is_tls(const struct softrdma_cm_msg *msg);

/*
 * Reads what the peer has sent after a refused message, before the socket is closed. With unread bytes
 * close(2) makes the kernel reset the connection, which may overtake the REJECT. The amount is bounded: a
 * peer that has sent more, or continues to send, may not receive the reason.
 */
void softrdma_cm_msg_read_away(int fd);

/*
 * Logs a WARNING that what ("listening") is done at this address without TLS, unless it is a loopback
 * address: any host that reaches the address can be a peer, and any host that sees the traffic learns the
 * keys. True if it was logged.
 */
bool softrdma_cm_msg_warn_if_open(const struct sockaddr *addr, const char *what);

#endif /* SOFTRDMA_CM_MSG_H */
