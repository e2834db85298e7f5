/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * raw.h -- a hand-written implementation of the software device's protocol, after doc/softrdma-protocol.md
 *
 * It uses none of the product's code, because an attacker would not either. So raw.h and raw.c have the numbers
 * of the protocol once more, also its version: if the device changes one by mistake, the attacks fail. Sockets are
 * plain TCP, bound to an address of the loopback network, so that one machine can act as many. If the environment asks
 * for TLS, established connections have credentials and use TLS (raw_tls.h); strangers have none.
 */

#ifndef RAW_H
#define RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RAW_HEADER 32
#define RAW_MESSAGE_MAX (RAW_HEADER + 255)
#define RAW_SEQ 100u

enum raw_opcode {
	RAW_SEND = 1,
	RAW_WRITE = 2,
	RAW_READ = 3,
	RAW_ATOMIC_WRITE = 4,
	RAW_COMPARE_SWAP = 5,
	RAW_FETCH_ADD = 6,
	RAW_FLUSH = 7,
	RAW_ACK = 16,
	RAW_READ_RESPONSE = 17,
	RAW_NAK = 19,
	RAW_READY = 32,
	RAW_DISCONNECT = 33,
};

#define RAW_FIRST 1
#define RAW_LAST 2
#define RAW_WHOLE (RAW_FIRST | RAW_LAST)

struct raw_frame {
	uint8_t opcode;
	uint8_t flags;
	uint16_t code;
	uint32_t seq;
	uint32_t length;
	uint32_t key;
	uint64_t addr;
	uint64_t arg;
};

/* the memory that the server has granted to this connection */
struct raw_memory {
	uint64_t addr;
	uint64_t size;
	uint32_t key;
};

/*
 * a connecting socket from 127.0.0.<host>, or from 127.0.<host / 256>.<host % 256>, to the port; -1 if refused, or if no port
 * or descriptor is left
 */
int raw_connect(unsigned host, uint16_t port);
/* the same without waiting: a server with a full backlog must not slow down the attack */
int raw_connect_at_once(unsigned host, uint16_t port);

void raw_encode(const struct raw_frame *frame, uint8_t bytes[static RAW_HEADER]);
void raw_decode(const uint8_t bytes[static RAW_HEADER], struct raw_frame *frame);

/* sets the checksums of a message that was changed */
void raw_sum(uint8_t *bytes);
/* a CONNECT without private data */
void raw_connect_message(uint8_t bytes[static RAW_HEADER]);
/* the same with a text as private data; returns the length */
size_t raw_connect_message_with(uint8_t bytes[static RAW_MESSAGE_MAX], const char *text);

/* the reason if the message is a REJECT, otherwise 0 */
uint16_t raw_reject_reason(const uint8_t bytes[static RAW_HEADER]);

#define RAW_GID_SIZE 16
#define RAW_JOIN_SIZE (RAW_HEADER + 40)

/* the fields of a JOIN, which connects to a queue pair connected by hand */
struct raw_join {
	uint8_t dst_gid[RAW_GID_SIZE], src_gid[RAW_GID_SIZE];
	uint32_t dst_qp_num, expected;
	uint32_t src_qp_num, seq;
};

void raw_join_message(const struct raw_join *join, uint8_t bytes[static RAW_JOIN_SIZE]);

/* send or receive exactly len bytes; false if the stream has ended or the time is over */
bool raw_send(int fd, const void *bytes, size_t len);
bool raw_send_until(int fd, const void *bytes, size_t len, int64_t end_ms);
bool raw_recv(int fd, void *bytes, size_t len, int timeout_ms);
bool raw_send_frame(int fd, const struct raw_frame *frame, const void *payload);
/* discards everything received so far */
void raw_drain(int fd);
/* discards everything received until the stream ends; false if it has not ended in this time */
bool raw_ends(int fd, int timeout_ms);
/* to be called for each socket of this file */
void raw_close(int fd);

/*
 * connects and makes the stream ready for a message: with TLS and credentials if the server uses TLS; or -1
 */
int raw_connect_ready(unsigned host, uint16_t port);

/* connects and completes the handshake up to READY; -1 if the server was busy or too slow */
int raw_establish(unsigned host, uint16_t port, struct raw_memory *memory);
/* the same with a text as private data of the request */
int raw_establish_with(unsigned host, uint16_t port, const char *text, struct raw_memory *memory);

enum raw_end {
	RAW_ENDED,
	RAW_STILL_THERE, /* after the time */
};

/*
 * Discards everything received. *opcodes (may be NULL) gets one bit for each opcode that came, *nak (may be
 * NULL) the code of a NAK.
 */
enum raw_end raw_expect_end(int fd, int timeout_ms, uint64_t *opcodes, uint16_t *nak);

#endif /* RAW_H */
