/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* attacks_by_hand.c -- attacks on the port of queue pairs that are connected by hand */

#include <stdlib.h>
#include <string.h>

#include "attacking.h"
#include "hostile.h"
#include "raw.h"

/* more than the server has descriptors, from one address */
#define CALLERS (2 * HAND_FILES + 88)
#define HOST 130
#define POURERS 4
/* offsets in the header of a handshake message */
#define TYPE_AT 6
#define LENGTH_AT 7
#define RESERVED_AT 22
#define HANDSHAKE_CONNECT 1
#define HANDSHAKE_ACCEPT 2

/* the JOIN of a stranger, which has to guess the random part of the GID */
static struct raw_join
guess(const struct target *target)
{
	struct raw_join join = { .dst_qp_num = (uint32_t)random() & 0xffffff,
		.expected = (uint32_t)random() & 0xffffff,
		.src_qp_num = (uint32_t)random() & 0xffffff,
		.seq = (uint32_t)random() & 0xffffff };

	memcpy(join.dst_gid, target->gid, sizeof(join.dst_gid));
	memcpy(join.src_gid, target->gid, sizeof(join.src_gid));
	for (size_t i = RAW_GID_SIZE - 6; i < RAW_GID_SIZE; i++) {
		join.dst_gid[i] = (uint8_t)random();
		join.src_gid[i] = (uint8_t)random();
	}
	return join;
}

int
silent_callers(const struct target *target, int64_t end_ms)
{
	const struct crowd how = { .count = CALLERS, .host = HOST, .hosts = 1 };

	return crowd(&how, target, end_ms);
}

int
half_joins(const struct target *target, int64_t end_ms)
{
	const struct raw_join join = guess(target);
	uint8_t message[RAW_JOIN_SIZE];
	const struct crowd how = { .count = CALLERS,
		.host = HOST,
		.hosts = 1,
		.bytes = message,
		.len = sizeof(message) / 2 };

	raw_join_message(&join, message);
	return crowd(&how, target, end_ms);
}

int
joins_of_lorises(const struct target *target, int64_t end_ms)
{
	const struct raw_join join = guess(target);
	uint8_t message[RAW_JOIN_SIZE];
	const struct crowd how = { .count = CALLERS,
		.host = HOST,
		.hosts = 2,
		.bytes = message,
		.len = sizeof(message) };

	raw_join_message(&join, message);
	return crowd_of_lorises(&how, target, end_ms);
}

/* ways in which a JOIN can be wrong; the later ones know more than a stranger can */
enum wrong {
	WRONG_RANDOM,
	WRONG_TYPE,
	WRONG_LENGTH,
	WRONG_RESERVED,
	WRONG_SUM,
	WRONG_GID,
	WRONG_QP,
	WRONG_PEER,
	WRONGS,
};

static size_t
wrong_join(const struct target *target, enum wrong wrong, uint8_t bytes[static RAW_MESSAGE_MAX])
{
	struct raw_join join = guess(target);
	const bool knows = wrong == WRONG_QP || wrong == WRONG_PEER;

	memset(bytes, 0, RAW_MESSAGE_MAX);
	if (knows)
		memcpy(join.dst_gid, target->gid, sizeof(join.dst_gid));
	if (wrong == WRONG_GID || wrong == WRONG_PEER)
		join.dst_qp_num = target->qp_num;
	raw_join_message(&join, bytes);
	if (wrong == WRONG_TYPE)
		bytes[TYPE_AT] = HANDSHAKE_CONNECT;
	if (wrong == WRONG_LENGTH)
		bytes[LENGTH_AT] = (uint8_t)random();
	if (wrong == WRONG_RESERVED)
		bytes[RESERVED_AT] = 1;
	raw_sum(bytes);
	bytes[RAW_JOIN_SIZE - 1] ^= wrong == WRONG_SUM;
	return RAW_HEADER + (size_t)bytes[LENGTH_AT];
}

/* the server must close the connection, with or without a response, and never accept it */
int
wrong_joins(const struct target *target, int64_t end_ms)
{
	uint8_t bytes[RAW_MESSAGE_MAX];
	int ret = 0;

	for (unsigned n = 0; !over(end_ms) && ret == 0; n++) {
		const size_t len = wrong_join(target, n % WRONGS, bytes);
		int fd = raw_connect_ready(HOST + 2 + n % 2, target->port);
		if (fd < 0)
			continue;
		(void)raw_send(fd, bytes, len);
		memset(bytes, 0, RAW_HEADER);
		if (raw_recv(fd, bytes, RAW_HEADER, PATIENCE_MS) && bytes[TYPE_AT] == HANDSHAKE_ACCEPT)
			ret = let_pass("a caller whom nobody has named");
		else if (!raw_ends(fd, PATIENCE_MS))
			ret = let_pass("a stream that goes on after it was refused");
		raw_close(fd);
	}
	return ret;
}

static int
pour_on(const struct target *target, int64_t end_ms, unsigned number, void *arg)
{
	uint8_t bytes[RAW_MESSAGE_MAX];
	int ret = 0;

	(void)arg;
	for (unsigned n = number; !over(end_ms) && ret == 0; n++) {
		const size_t len = wrong_join(target, n % WRONGS, bytes);
		int fd = raw_connect_ready(HOST + 4 + number, target->port);
		if (fd < 0)
			continue;
		if (pour(fd, bytes, len, (struct filler){ .frames = false }, end_ms) > TAKEN_MAX)
			ret = let_pass("more behind a refusal than sockets hold");
		raw_close(fd);
	}
	return ret;
}

int
after_wrong_join(const struct target *target, int64_t end_ms)
{
	return in_parallel(POURERS, pour_on, target, end_ms, NULL);
}
