/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* cm_msg.c -- sending and receiving the handshake messages with which a connection begins */

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softrdma/base/env.h"
#include "softrdma/base/sockaddr.h"
#include "softrdma/base/variables.h"
#include "softrdma/wire/cm_msg.h"
#include "softrdma/wire/crc.h"
#include "softrdma/wire/stream.h"
#include "usdt.h"

/* the first byte of a record of the TLS handshake (RFC 8446, 5.1) */
#define FIRST_OF_TLS 22

void
softrdma_cm_msg_encode(struct softrdma_cm_msg *msg, struct softrdma_handshake *hs, const void *private_data,
	uint8_t private_len)
{
	/* as librdmacm has it */
	if (private_data == NULL)
		private_len = 0;
	hs->version = SOFTRDMA_WIRE_VERSION;
	hs->private_len = private_len;
	hs->private_crc = softrdma_crc32c(0, private_data, private_len);
	softrdma_handshake_encode(hs, msg->bytes);
	if (private_len)
		memcpy(msg->bytes + SOFTRDMA_HANDSHAKE_SIZE, private_data, private_len);
	msg->length = SOFTRDMA_HANDSHAKE_SIZE + (size_t)private_len;
}

int
softrdma_cm_msg_send(int fd, struct softrdma_tls *tls, const struct softrdma_cm_msg *msg)
{
	ssize_t n = softrdma_stream_send(fd, tls, msg->bytes, msg->length);
	if (n == (ssize_t)msg->length)
		return 0;
	return n < 0 ? errno : EIO;
}

void
softrdma_cm_msg_set_records(struct softrdma_cm_msg *msg, uint8_t records)
{
	struct softrdma_handshake hs;
	enum softrdma_handshake_result result = softrdma_handshake_decode(msg->bytes, &hs);
	assert(result == SOFTRDMA_HANDSHAKE_OK); /* softrdma_cm_msg_encode() made it */
	(void)result;
	hs.records = records;
	softrdma_handshake_encode(&hs, msg->bytes);
}

int
softrdma_cm_msg_send_request(int fd, struct softrdma_tls *tls, struct softrdma_cm_msg *msg)
{
	softrdma_cm_msg_set_records(msg, softrdma_cm_msg_wish(fd, tls));
	return softrdma_cm_msg_send(fd, tls, msg);
}

void
softrdma_cm_msg_reject(int fd, struct softrdma_tls *tls, enum softrdma_reject_reason reason,
	const void *private_data, uint8_t private_len)
{
	struct softrdma_cm_msg msg;
	struct softrdma_handshake hs = { .type = SOFTRDMA_HANDSHAKE_REJECT, .reason = (uint16_t)reason };
	USDT(softrdma, reject, fd, (int)reason);
	softrdma_cm_msg_encode(&msg, &hs, private_data, private_len);
	softrdma_cm_msg_send(fd, tls, &msg);
}

void
softrdma_cm_msg_read_away(int fd)
{
	uint8_t bytes[SOFTRDMA_READ_AWAY_SIZE];
	for (int turn = 0; turn < SOFTRDMA_READ_AWAY_TURNS; turn++) {
		if (softrdma_stream_recv(fd, NULL, bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes))
			return; /* nothing is left, or the stream has ended */
	}
}

static enum softrdma_cm_msg_reading
look_at_private_data(const struct softrdma_cm_msg *msg)
{
	uint32_t crc = softrdma_crc32c(0, msg->bytes + SOFTRDMA_HANDSHAKE_SIZE, msg->peer.private_len);
	return crc == msg->peer.private_crc ? SOFTRDMA_CM_MSG_COMPLETE : SOFTRDMA_CM_MSG_DAMAGED;
}

enum softrdma_cm_msg_reading
softrdma_cm_msg_read(int fd, struct softrdma_tls *tls, struct softrdma_cm_msg *msg)
{
	for (;;) {
		size_t wanted = SOFTRDMA_HANDSHAKE_SIZE;
		if (msg->length >= wanted)
			wanted += msg->peer.private_len;
		if (msg->length == wanted)
			return look_at_private_data(msg);
		ssize_t n = softrdma_stream_recv(fd, tls, msg->bytes + msg->length, wanted - msg->length);
		if (n < 0 && errno == EAGAIN)
			return SOFTRDMA_CM_MSG_INCOMPLETE;
		if (n <= 0)
			return SOFTRDMA_CM_MSG_ENDED;
		msg->length += (size_t)n;
		if (softrdma_handshake_is_other_version(msg->bytes, msg->length, &msg->peer.version))
			return SOFTRDMA_CM_MSG_OTHER_VERSION;
		if (msg->length == SOFTRDMA_HANDSHAKE_SIZE) {
			switch (softrdma_handshake_decode(msg->bytes, &msg->peer)) {
			case SOFTRDMA_HANDSHAKE_OK:
				break;
			case SOFTRDMA_HANDSHAKE_DAMAGED:
				return SOFTRDMA_CM_MSG_DAMAGED;
			default:
				return SOFTRDMA_CM_MSG_NOT_OURS;
			}
		}
	}
}

enum softrdma_cm_msg_reading
softrdma_cm_msg_secure(struct softrdma_tls *tls)
{
	if (tls == NULL)
		return SOFTRDMA_CM_MSG_COMPLETE;
	switch (softrdma_tls_handshake(tls)) {
	case 0:
		return SOFTRDMA_CM_MSG_COMPLETE;
	case EAGAIN:
		return SOFTRDMA_CM_MSG_INCOMPLETE;
	case EPROTONOSUPPORT:
		return SOFTRDMA_CM_MSG_NOT_OURS;
	default:
		return SOFTRDMA_CM_MSG_ENDED;
	}
}

bool
softrdma_cm_msg_is_tls(const struct softrdma_cm_msg *msg)
{
	return msg->length > 0 && msg->bytes[0] == FIRST_OF_TLS;
}

static bool
is_loopback(const struct sockaddr *addr)
{
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)addr)->sin6_addr;
	if (addr->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == IN_LOOPBACKNET);
}

/* true if the stream stays within this machine, so no card, cable or switch can damage it */
static bool
stays_here(int fd)
{
	union softrdma_address own, peer;
	socklen_t own_len = sizeof(own), peer_len = sizeof(peer);
	memset(&own, 0, sizeof(own));
	memset(&peer, 0, sizeof(peer));
	if (getsockname(fd, &own.any, &own_len) != 0 || getpeername(fd, &peer.any, &peer_len) != 0)
		return false;
	return is_loopback(&peer.any) || softrdma_address_equal(&own, &peer);
}

uint8_t
softrdma_cm_msg_wish(int fd, const struct softrdma_tls *tls)
{
	if (tls)
		return 0;
	const bool wanted = !stays_here(fd);
	const char *text = softrdma_variable("SOFTRDMA_CRC");
	if (text == NULL)
		return wanted;
	const bool set = strcmp(text, "0") == 0 || strcmp(text, "1") == 0;
	/* softrdma_setting() warns of any other value */
	return (uint8_t)(softrdma_setting("SOFTRDMA_CRC", 0, 1, wanted) | (set ? SOFTRDMA_RECORDS_SET : 0));
}

bool
softrdma_cm_msg_agree(uint8_t wish, uint8_t other)
{
	const bool one_is_set = (wish | other) & SOFTRDMA_RECORDS_SET;
	const uint8_t needed =
		one_is_set ? SOFTRDMA_RECORDS_WANTED | SOFTRDMA_RECORDS_SET : SOFTRDMA_RECORDS_WANTED;
	return (wish & needed) == needed || (other & needed) == needed;
}

bool
softrdma_cm_msg_warn_if_open(const struct sockaddr *addr, const char *what)
{
	char name[SOFTRDMA_NAME_SIZE];
	if (is_loopback(addr))
		return false;
	/*
	 * message(connect): a listener that other machines can reach, without TLS -> Configure TLS, or
	 * listen on the loopback or in a trusted network.
	 */
	SOFTRDMA_LOG(WARNING,
		"%s at %s without TLS: nothing is encrypted, and peers need not prove who they are "
		"(softrdma(7), SOFTRDMA_TLS_CERT)",
		what, softrdma_address_name(addr, name, sizeof(name)));
	return true;
}
