/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* control.c -- the control protocol between client and server of a measurement: bytes and sockets */

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control.h"
#include "op.h"

#define MAGIC 0x46505052u /* "RPPF" */
#define HEADER_LEN 12

static_assert(LOAD_CONNECTIONS_MAX * sizeof(uint64_t) + sizeof(uint32_t) <= CONTROL_PAYLOAD_MAX,
	"all counts fit");

/* ---- writing: our own messages always fit ---- */

void
control_begin(struct control_message *msg, enum control_type type)
{
	msg->type = type;
	msg->len = 0;
	msg->at = 0;
	msg->is_bad = false;
}

static void
put(struct control_message *msg, const void *bytes, uint32_t len)
{
	assert(len <= CONTROL_PAYLOAD_MAX - msg->len);
	memcpy(msg->payload + msg->len, bytes, len);
	msg->len += len;
}

static void
put_u16(struct control_message *msg, uint16_t value)
{
	value = htole16(value);
	put(msg, &value, sizeof(value));
}

static void
put_u32(struct control_message *msg, uint32_t value)
{
	value = htole32(value);
	put(msg, &value, sizeof(value));
}

static void
put_u64(struct control_message *msg, uint64_t value)
{
	value = htole64(value);
	put(msg, &value, sizeof(value));
}

static void
put_text(struct control_message *msg, const char *text)
{
	size_t len = strnlen(text, CONTROL_TEXT_MAX - 1);
	put_u16(msg, (uint16_t)len);
	put(msg, text, (uint32_t)len);
}

void
control_put_load(struct control_message *msg, const struct load *load)
{
	put_u32(msg, (uint32_t)load->op);
	put_u32(msg, (uint32_t)load->flush_type);
	put_u64(msg, load->size);
	put_u32(msg, load->depth);
	put_u32(msg, load->signal_every);
	put_u32(msg, load->connections);
	put_u32(msg, load->threads);
	put_u32(msg, (uint32_t)load->target_waits);
	put_u32(msg, load->verify);
}

void
control_put_ready(struct control_message *msg, const struct control_ready *ready)
{
	put_u64(msg, ready->token);
	put_u16(msg, ready->port);
	put_text(msg, ready->memory);
}

void
control_put_counts(struct control_message *msg, const uint64_t *counts, uint32_t count)
{
	put_u32(msg, count);
	for (uint32_t i = 0; i < count; i++)
		put_u64(msg, counts[i]);
}

void
control_put_result(struct control_message *msg, const struct control_result *result)
{
	put_u64(msg, result->cpu.user_us);
	put_u64(msg, result->cpu.system_us);
	put_u64(msg, result->wrong);
	put_text(msg, result->first_wrong);
}

void
control_put_sentence(struct control_message *msg, const char *sentence)
{
	put_text(msg, sentence);
}

/* ---- reading: the other side may send anything ---- */

static bool
get(struct control_message *msg, void *bytes, uint32_t len)
{
	if (msg->is_bad || len > msg->len - msg->at) {
		msg->is_bad = true;
		memset(bytes, 0, len);
		return false;
	}
	memcpy(bytes, msg->payload + msg->at, len);
	msg->at += len;
	return true;
}

static uint16_t
get_u16(struct control_message *msg)
{
	uint16_t value;
	get(msg, &value, sizeof(value));
	return le16toh(value);
}

/* a value above max makes the message bad */
static uint32_t
get_u32(struct control_message *msg, uint32_t max)
{
	uint32_t value;
	get(msg, &value, sizeof(value));
	value = le32toh(value);
	if (value > max)
		msg->is_bad = true;
	return value;
}

static uint64_t
get_u64(struct control_message *msg)
{
	uint64_t value;
	get(msg, &value, sizeof(value));
	return le64toh(value);
}

static void
get_text(struct control_message *msg, char text[static CONTROL_TEXT_MAX])
{
	uint16_t len = get_u16(msg);
	text[0] = '\0';
	if (len >= CONTROL_TEXT_MAX) {
		msg->is_bad = true;
		return;
	}
	if (!get(msg, text, len))
		return;
	text[len] = '\0';
	/* the text will be shown on a user's terminal */
	for (uint16_t i = 0; i < len; i++)
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
}

static bool
is_all(const struct control_message *msg)
{
	return !msg->is_bad && msg->at == msg->len;
}

bool
control_get_load(struct control_message *msg, struct load *load)
{
	*load = (struct load){
		.op = (enum op)get_u32(msg, OP_COUNT - 1),
		.flush_type = (enum rpma_flush_type)get_u32(msg, RPMA_FLUSH_TYPE_VISIBILITY),
		.size = get_u64(msg),
		.depth = get_u32(msg, LOAD_DEPTH_MAX),
		.signal_every = get_u32(msg, LOAD_DEPTH_MAX),
		.connections = get_u32(msg, LOAD_CONNECTIONS_MAX),
		.threads = get_u32(msg, LOAD_THREADS_MAX),
		.target_waits = (enum way)get_u32(msg, WAY_COUNT - 1),
		.verify = get_u32(msg, 1) != 0,
		/* these matter only to the initiator */
		.batch = 1,
		.pieces = 1,
	};
	if (!is_all(msg))
		return false;
	if (load->size == 0 || load->size > LOAD_SIZE_MAX || load->depth == 0 || load->signal_every == 0 ||
		load->connections == 0 || load->threads == 0)
		return false;
	if (load->target_waits == WAY_PAUSE && op_kinds[load->op].needs_receives)
		return false;
	return load->threads <= load->connections &&
		(!op_kinds[load->op].is_word || load->size == sizeof(uint64_t));
}

bool
control_get_ready(struct control_message *msg, struct control_ready *ready)
{
	ready->token = get_u64(msg);
	ready->port = get_u16(msg);
	get_text(msg, ready->memory);
	return is_all(msg) && ready->port != 0;
}

bool
control_get_counts(struct control_message *msg, uint64_t *counts, uint32_t count)
{
	if (get_u32(msg, LOAD_CONNECTIONS_MAX) != count)
		return false;
	for (uint32_t i = 0; i < count; i++)
		counts[i] = get_u64(msg);
	return is_all(msg);
}

bool
control_get_result(struct control_message *msg, struct control_result *result)
{
	result->cpu.user_us = get_u64(msg);
	result->cpu.system_us = get_u64(msg);
	result->wrong = get_u64(msg);
	get_text(msg, result->first_wrong);
	return is_all(msg);
}

bool
control_get_sentence(struct control_message *msg, char sentence[static CONTROL_TEXT_MAX])
{
	get_text(msg, sentence);
	return is_all(msg);
}

/* ---- sockets ---- */

bool
control_send(int fd, const struct control_message *msg, char why[static WHY_MAX])
{
	uint8_t bytes[HEADER_LEN + CONTROL_PAYLOAD_MAX];
	const uint32_t magic = htole32(MAGIC), len = htole32(msg->len);
	const uint16_t version = htole16(CONTROL_VERSION), type = htole16((uint16_t)msg->type);
	memcpy(bytes, &magic, 4);
	memcpy(bytes + 4, &version, 2);
	memcpy(bytes + 6, &type, 2);
	memcpy(bytes + 8, &len, 4);
	memcpy(bytes + HEADER_LEN, msg->payload, msg->len);

	for (size_t sent = 0; sent < HEADER_LEN + msg->len;) {
		ssize_t n = send(fd, bytes + sent, HEADER_LEN + msg->len - sent, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return why_say(why, "the control connection is broken: %m");
		if (n > 0)
			sent += (size_t)n;
	}
	return true;
}

/* reads len bytes until the deadline (0: none); *got is the number that came before the end of the stream */
static bool
receive_bytes(int fd, void *bytes, size_t len, uint64_t deadline_ns, size_t *got, char why[static WHY_MAX])
{
	*got = 0;
	while (*got < len) {
		int timeout_ms = -1;
		if (deadline_ns) {
			uint64_t now = now_ns();
			timeout_ms = now < deadline_ns ? (int)((deadline_ns - now) / 1000000) + 1 : 0;
		}
		struct pollfd pfd = { .fd = fd, .events = POLLIN };
		int ready = poll(&pfd, 1, timeout_ms);
		if (ready == 0)
			return why_say(why,
				"the other side does not answer; is it an rpma-perf, and not busy?");
		if (ready < 0 && errno != EINTR)
			return why_say(why, "the control connection: %m");
		if (ready < 0)
			continue;

		ssize_t n = recv(fd, (uint8_t *)bytes + *got, len - *got, 0);
		if (n < 0 && errno != EINTR)
			return why_say(why, "the other side has gone: %m");
		if (n == 0)
			return why_say(why, "the other side has gone: it closed the control connection");
		if (n > 0)
			*got += (size_t)n;
	}
	return true;
}

/* reads the header; the payload has not been received yet */
static bool
parse_header(const uint8_t header[static HEADER_LEN], struct control_message *msg, char why[static WHY_MAX])
{
	uint32_t magic, len;
	uint16_t version, type;
	memcpy(&magic, header, 4);
	memcpy(&version, header + 4, 2);
	memcpy(&type, header + 6, 2);
	memcpy(&len, header + 8, 4);

	if (le32toh(magic) != MAGIC)
		return why_say(why,
			"the other side is no rpma-perf: its bytes are not the control protocol's");
	if (le16toh(version) != CONTROL_VERSION)
		return why_say(why,
			"the other side speaks version %u of the control protocol, and this is %u",
			le16toh(version), CONTROL_VERSION);
	if (le32toh(len) > CONTROL_PAYLOAD_MAX)
		return why_say(why, "the other side sent a message of %u bytes: at most %u are allowed",
			le32toh(len), CONTROL_PAYLOAD_MAX);
	control_begin(msg, (enum control_type)le16toh(type));
	msg->len = le32toh(len);
	return true;
}

bool
control_receive(int fd, enum control_type type, int timeout_ms, struct control_message *msg, bool *is_closed,
	char why[static WHY_MAX])
{
	uint64_t deadline_ns = timeout_ms < 0 ? 0 : now_ns() + (uint64_t)timeout_ms * 1000000;
	uint8_t header[HEADER_LEN];
	size_t got;

	if (is_closed)
		*is_closed = false;
	if (!receive_bytes(fd, header, sizeof(header), deadline_ns, &got, why)) {
		if (is_closed)
			*is_closed = got == 0;
		return false;
	}
	if (!parse_header(header, msg, why))
		return false;
	/* a sender that has begun a message completes it soon */
	deadline_ns = now_ns() + (uint64_t)CONTROL_PATIENCE_MS * 1000000;
	if (!receive_bytes(fd, msg->payload, msg->len, deadline_ns, &got, why))
		return false;

	if (msg->type == type)
		return true;
	char sentence[CONTROL_TEXT_MAX];
	if (msg->type == CONTROL_ERROR && control_get_sentence(msg, sentence))
		return why_say(why, "the other side says: %s", sentence);
	return why_say(why, "the other side sent a message of type %u where type %u was expected",
		(unsigned int)msg->type, (unsigned int)type);
}

/* sends small messages at once; detects a dead machine within 20 seconds */
static void
prepare(int fd)
{
	const int on = 1, idle_s = 5, count = 3;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

static bool
resolve(const char *addr, const char *port, int flags, struct addrinfo **info, char why[static WHY_MAX])
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags };
	int ret = getaddrinfo(addr, port, &hints, info);
	return ret ? why_say(why, "%s port %s: %s", addr, port, gai_strerror(ret)) : true;
}

bool
control_connect(const char *addr, const char *port, int *fd_ptr, char why[static WHY_MAX])
{
	struct addrinfo *info = NULL;
	if (!resolve(addr, port, 0, &info, why))
		return false;
	int fd = -1, errnum = 0;
	for (const struct addrinfo *ai = info; ai && fd < 0; ai = ai->ai_next) {
		fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && connect(fd, ai->ai_addr, ai->ai_addrlen) == 0)
			break;
		errnum = errno;
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	freeaddrinfo(info);
	if (fd < 0)
		return why_say(why, "no server can be reached at %s port %s: %s", addr, port,
			strerror(errnum));
	prepare(fd);
	*fd_ptr = fd;
	return true;
}

bool
control_listen(const char *addr, const char *port, int *fd_ptr, uint16_t *port_got, char why[static WHY_MAX])
{
	struct addrinfo *info = NULL;
	if (!resolve(addr, port, AI_PASSIVE, &info, why))
		return false;

	const int on = 1;
	struct sockaddr_storage name = { 0 };
	socklen_t len = sizeof(name);
	int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
		bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, 16) == 0 &&
		getsockname(fd, (struct sockaddr *)&name, &len) == 0;
	freeaddrinfo(info);
	if (!good) {
		why_say(why, "listening on %s port %s: %m", addr, port);
		if (fd >= 0)
			close(fd);
		return false;
	}
	assert(name.ss_family == AF_INET || name.ss_family == AF_INET6);
	*port_got = ntohs(name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
						     : ((struct sockaddr_in *)&name)->sin_port);
	*fd_ptr = fd;
	return true;
}

bool
control_accept(int listener, int *fd_ptr, char client[static CONTROL_TEXT_MAX], char why[static WHY_MAX])
{
	struct sockaddr_storage name = { 0 };
	socklen_t len = sizeof(name);
	int fd;
	do
		fd = accept4(listener, (struct sockaddr *)&name, &len, SOCK_CLOEXEC);
	while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
	if (fd < 0)
		return why_say(why, "accepting a client: %m");

	if (getnameinfo((struct sockaddr *)&name, len, client, CONTROL_TEXT_MAX, NULL, 0, NI_NUMERICHOST))
		snprintf(client, CONTROL_TEXT_MAX, "a client");
	prepare(fd);
	*fd_ptr = fd;
	return true;
}
