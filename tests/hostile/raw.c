/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* raw.c -- a hand-written implementation of the software device's protocol */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deadline.h"
#include "raw.h"
#include "raw_tls.h"

#define TIME_MS 20000
#define PAYLOAD_MAX 262144

static int
connect_socket(unsigned host, uint16_t port, int flags)
{
	const int one = 1;
	struct sockaddr_in from = { .sin_family = AF_INET };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

	from.sin_addr.s_addr = htonl((INADDR_LOOPBACK & 0xffffff00) | host);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0)
		return -1;
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) ||
		(connect(fd, (struct sockaddr *)&to, sizeof(to)) && errno != EINPROGRESS)) {
		close(fd);
		return -1;
	}
	return fd;
}

int
raw_connect(unsigned host, uint16_t port)
{
	return connect_socket(host, port, 0);
}

int
raw_connect_at_once(unsigned host, uint16_t port)
{
	return connect_socket(host, port, SOCK_NONBLOCK);
}

static uint8_t *
put(uint8_t *at, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> (8 * i));
	return at + bytes;
}

static uint64_t
get(const uint8_t *at, size_t bytes)
{
	uint64_t value = 0;

	for (size_t i = 0; i < bytes; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

void
raw_encode(const struct raw_frame *frame, uint8_t bytes[static RAW_HEADER])
{
	bytes[0] = frame->opcode;
	bytes[1] = frame->flags;
	uint8_t *at = put(bytes + 2, frame->code, 2);
	at = put(at, frame->seq, 4);
	at = put(at, frame->length, 4);
	at = put(at, frame->key, 4);
	at = put(at, frame->addr, 8);
	put(at, frame->arg, 8);
}

void
raw_decode(const uint8_t bytes[static RAW_HEADER], struct raw_frame *frame)
{
	frame->opcode = bytes[0];
	frame->flags = bytes[1];
	frame->code = (uint16_t)get(bytes + 2, 2);
	frame->seq = (uint32_t)get(bytes + 4, 4);
	frame->length = (uint32_t)get(bytes + 8, 4);
	frame->key = (uint32_t)get(bytes + 12, 4);
	frame->addr = get(bytes + 16, 8);
	frame->arg = get(bytes + 24, 8);
}

/* bit by bit, which is fast enough for a message */
static uint32_t
crc32c(const uint8_t *bytes, size_t len)
{
	uint32_t crc = UINT32_MAX;
	for (size_t bit = 0; bit < 8 * len; bit++) {
		crc ^= bytes[bit / 8] >> bit % 8 & 1u;
		crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
	}
	return ~crc;
}

void
raw_sum(uint8_t *bytes)
{
	put(bytes + 24, crc32c(bytes + RAW_HEADER, bytes[7]), 4);
	put(bytes + 28, crc32c(bytes, 28), 4);
}

void
raw_connect_message(uint8_t bytes[static RAW_HEADER])
{
	memset(bytes, 0, RAW_HEADER);
	memcpy(bytes, "SRDM", 4);
	bytes[4] = 3;              /* version */
	bytes[6] = 1;              /* CONNECT */
	put(bytes + 8, 0x1234, 4); /* queue pair */
	put(bytes + 12, RAW_SEQ, 4);
	bytes[16] = bytes[17] = 8; /* READs and atomics each way */
	bytes[18] = 7;
	raw_sum(bytes);
}

size_t
raw_connect_message_with(uint8_t bytes[static RAW_MESSAGE_MAX], const char *text)
{
	raw_connect_message(bytes);
	bytes[7] = (uint8_t)strlen(text);
	memcpy(bytes + RAW_HEADER, text, bytes[7]);
	raw_sum(bytes);
	return RAW_HEADER + (size_t)bytes[7];
}

uint16_t
raw_reject_reason(const uint8_t bytes[static RAW_HEADER])
{
	return memcmp(bytes, "SRDM", 4) == 0 && bytes[6] == 3 ? (uint16_t)get(bytes + 20, 2) : 0;
}

void
raw_join_message(const struct raw_join *join, uint8_t bytes[static RAW_JOIN_SIZE])
{
	raw_connect_message(bytes);
	bytes[6] = 4; /* JOIN */
	bytes[7] = RAW_JOIN_SIZE - RAW_HEADER;
	put(bytes + 8, join->src_qp_num, 4);
	put(bytes + 12, join->seq, 4);
	memcpy(bytes + RAW_HEADER, join->dst_gid, RAW_GID_SIZE);
	memcpy(bytes + RAW_HEADER + RAW_GID_SIZE, join->src_gid, RAW_GID_SIZE);
	uint8_t *at = put(bytes + RAW_HEADER + 2 * RAW_GID_SIZE, join->dst_qp_num, 4);
	put(at, join->expected, 4);
	raw_sum(bytes);
}

/* sends what there is room for; *events: what to poll for if there is no room */
static ssize_t
send_some(int fd, const void *bytes, size_t len, short *events)
{
	*events = POLLOUT;
	return raw_tls_is_on(fd) ? raw_tls_send(fd, bytes, len, events)
				 : send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* receives what is there; *events: what to poll for if nothing is */
static ssize_t
recv_some(int fd, void *bytes, size_t len, short *events)
{
	*events = POLLIN;
	return raw_tls_is_on(fd) ? raw_tls_recv(fd, bytes, len, events) : recv(fd, bytes, len, MSG_DONTWAIT);
}

bool
raw_send_until(int fd, const void *bytes, size_t len, int64_t end_ms)
{
	size_t done = 0;

	while (done < len) {
		struct pollfd pfd = { .fd = fd };
		ssize_t n = send_some(fd, (const char *)bytes + done, len - done, &pfd.events);
		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		if (errno == EAGAIN ? poll(&pfd, 1, left_ms(end_ms)) != 1 : errno != EINTR)
			return false;
	}
	return true;
}

bool
raw_send(int fd, const void *bytes, size_t len)
{
	return raw_send_until(fd, bytes, len, now_ms() + TIME_MS);
}

bool
raw_recv(int fd, void *bytes, size_t len, int timeout_ms)
{
	const int64_t end = now_ms() + timeout_ms;
	size_t done = 0;

	while (done < len) {
		struct pollfd pfd = { .fd = fd };
		ssize_t n = recv_some(fd, (char *)bytes + done, len - done, &pfd.events);
		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		if (n == 0 || (errno == EAGAIN ? poll(&pfd, 1, left_ms(end)) != 1 : errno != EINTR))
			return false;
	}
	return true;
}

void
raw_drain(int fd)
{
	uint8_t bytes[65536];
	short events;

	while (recv_some(fd, bytes, sizeof(bytes), &events) > 0)
		;
}

bool
raw_ends(int fd, int timeout_ms)
{
	const int64_t end = now_ms() + timeout_ms;
	uint8_t byte;

	while (raw_recv(fd, &byte, 1, left_ms(end)))
		raw_drain(fd);
	return left_ms(end) > 0;
}

void
raw_close(int fd)
{
	raw_tls_forget(fd);
	close(fd);
}

bool
raw_send_frame(int fd, const struct raw_frame *frame, const void *payload)
{
	uint8_t bytes[RAW_HEADER];

	raw_encode(frame, bytes);
	return raw_send(fd, bytes, sizeof(bytes)) &&
		(payload == NULL || raw_send(fd, payload, frame->length));
}

int
raw_connect_ready(unsigned host, uint16_t port)
{
	int fd = raw_connect(host, port);

	if (fd < 0 || !raw_tls_is_wanted() || raw_tls_begin(fd, TIME_MS))
		return fd;
	raw_close(fd);
	return -1;
}

int
raw_establish_with(unsigned host, uint16_t port, const char *text, struct raw_memory *memory)
{
	static const struct raw_frame ready = { .opcode = RAW_READY };
	uint8_t message[RAW_MESSAGE_MAX];
	int fd = raw_connect_ready(host, port);

	if (fd < 0)
		return -1;
	const size_t len = raw_connect_message_with(message, text);
	if (!raw_send(fd, message, len) || !raw_recv(fd, message, RAW_HEADER, TIME_MS) || message[6] != 2 ||
		!raw_recv(fd, message + RAW_HEADER, message[7], TIME_MS) ||
		!raw_send_frame(fd, &ready, NULL)) {
		raw_close(fd);
		return -1;
	}
	memory->addr = get(message + RAW_HEADER, 8);
	memory->size = get(message + RAW_HEADER + 8, 8);
	memory->key = (uint32_t)get(message + RAW_HEADER + 16, 4);
	return fd;
}

int
raw_establish(unsigned host, uint16_t port, struct raw_memory *memory)
{
	return raw_establish_with(host, port, "", memory);
}

enum raw_end
raw_expect_end(int fd, int timeout_ms, uint64_t *opcodes, uint16_t *nak)
{
	static uint8_t payload[PAYLOAD_MAX];
	const int64_t end = now_ms() + timeout_ms;
	uint8_t bytes[RAW_HEADER];
	struct raw_frame frame;

	while (raw_recv(fd, bytes, sizeof(bytes), left_ms(end))) {
		raw_decode(bytes, &frame);
		if (opcodes && frame.opcode < 64)
			*opcodes |= UINT64_C(1) << frame.opcode;
		if (nak && frame.opcode == RAW_NAK)
			*nak = frame.code;
		if (frame.length > sizeof(payload) || !raw_recv(fd, payload, frame.length, left_ms(end)))
			break;
	}
	return left_ms(end) > 0 ? RAW_ENDED : RAW_STILL_THERE;
}
