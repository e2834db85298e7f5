/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* attacks_floods.c -- a storm of connections from many addresses, and floods of flushes by peers that leave */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "attacking.h"
#include "attacks.h"
#include "deadline.h"
#include "hostile.h"
#include "raw.h"

/* --- a storm --- */

#define STORM_PER_MS 5
#define STORM_BURST 50
#define STORM_HOST 256 /* 127.0.1.0 */
#define STORM_HOSTS 100
#define STORM_KEPT 1000 /* each lives until this many others have come: 0.2 s */

/* one that says nothing, one that sends half of a request, and one that sends all of it and READY, in turn */
static int
one_of_storm(unsigned n, const struct target *target)
{
	static const struct raw_frame ready = { .opcode = RAW_READY };
	uint8_t bytes[2 * RAW_HEADER];
	const size_t lengths[] = { 0, RAW_HEADER / 2, 2 * RAW_HEADER };
	const size_t len = lengths[n % 3];
	int fd = raw_connect_at_once(STORM_HOST + n % STORM_HOSTS, target->port);

	raw_connect_message(bytes);
	raw_encode(&ready, bytes + RAW_HEADER);
	if (fd >= 0 && len)
		(void)send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	return fd;
}

/* opens 5,000 connections a second; the ones for which a busy machine had no time follow in bursts of a limited size */
int
storm(const struct target *target, int64_t end_ms)
{
	static int fds[STORM_KEPT];
	const int64_t begin_ms = now_ms();
	unsigned n = 0, opened = 0;

	memset(fds, -1, sizeof(fds));
	while (!over(end_ms)) {
		const unsigned due = (unsigned)(now_ms() - begin_ms) * STORM_PER_MS;
		for (unsigned i = 0; i < STORM_BURST && n < due; i++, n++) {
			int *fd = &fds[n % STORM_KEPT];
			if (*fd >= 0)
				raw_close(*fd);
			*fd = one_of_storm(n, target);
			opened += *fd >= 0;
		}
		if (n >= due)
			pause_ms(1);
	}
	for (unsigned i = 0; i < STORM_KEPT; i++)
		if (fds[i] >= 0)
			raw_close(fds[i]);
	printf("%-24s %u connections in %d ms\n", "storm:", opened, (int)(now_ms() - begin_ms));
	fflush(stdout);
	return 0;
}

/* --- flushes of peers that leave --- */

#define FLUSHERS 40
#define FLUSHES \
	900 /* sent by each that leaves, and not made yet; all fit into the buffer of a socket, and the FIN after them */
#define PAGE 4096

/* writes a byte anywhere and asks for the whole file to be flushed, many times */
static size_t
fill_with_flushes(uint8_t *bytes, uint32_t seq, const struct raw_memory *m)
{
	uint8_t *at = bytes;

	for (uint32_t i = 0; i < FLUSHES; i++) {
		const uint64_t page = SLOT_SIZE / PAGE + (uint64_t)random() % ((m->size - SLOT_SIZE) / PAGE);
		const struct raw_frame write = { .opcode = RAW_WRITE,
			.flags = RAW_WHOLE,
			.seq = seq + 2 * i,
			.length = 1,
			.key = m->key,
			.addr = m->addr + page * PAGE };
		const struct raw_frame flush = { .opcode = RAW_FLUSH,
			.code = 2,
			.seq = seq + 2 * i + 1,
			.key = m->key,
			.addr = m->addr,
			.arg = m->size };
		raw_encode(&write, at);
		at[RAW_HEADER] = (uint8_t)i;
		raw_encode(&flush, at + RAW_HEADER + 1);
		at += 2 * RAW_HEADER + 1;
	}
	return (size_t)(at - bytes);
}

/* the server must end each stream soon, and not serve the flushes first: all of them take minutes on a disk */
static int
leave_all(const int fds[FLUSHERS], bool by_reset)
{
	const struct linger reset = { .l_onoff = 1 };
	int ret = 0;

	for (unsigned i = 0; i < FLUSHERS; i++) {
		if (fds[i] < 0)
			continue;
		if (!by_reset) {
			(void)shutdown(fds[i], SHUT_WR);
			continue;
		}
		(void)setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		raw_close(fds[i]);
	}
	for (unsigned i = 0; i < FLUSHERS && !by_reset; i++) {
		if (fds[i] >= 0 && !raw_ends(fds[i], PATIENCE_MS))
			ret = let_pass("flushes of a peer that has left");
		if (fds[i] >= 0)
			raw_close(fds[i]);
	}
	return ret;
}

static int
flushes_until(const struct target *target, int64_t end_ms, bool by_reset)
{
	static uint8_t bytes[FLUSHES * (2 * RAW_HEADER + 1)];
	int fds[FLUSHERS];
	unsigned flooding = 0;

	for (unsigned i = 0; i < FLUSHERS; i++) {
		struct raw_memory m;
		fds[i] = raw_establish_with(110, target->port, REQUEST_TO_FLUSH, &m);
		if (fds[i] >= 0 && raw_send(fds[i], bytes, fill_with_flushes(bytes, RAW_SEQ, &m)))
			flooding++;
	}
	if (flooding == 0)
		return let_pass("nothing: no connection could flush");
	while (!over(end_ms))
		pause_ms(10);
	return leave_all(fds, by_reset);
}

int
flushes_and_fin(const struct target *target, int64_t end_ms)
{
	return flushes_until(target, end_ms, false);
}

int
flushes_and_reset(const struct target *target, int64_t end_ms)
{
	return flushes_until(target, end_ms, true);
}
