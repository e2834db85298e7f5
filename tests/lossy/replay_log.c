/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * replay_log.c -- what a disk with a cache of its own keeps when its power is cut
 *
 *	replay_log LOG IN_FLIGHT IMAGE POSITION MARK
 *
 * LOG is the file under the log device of dm-log-writes. IN_FLIGHT is the file in which the kernel counts the
 * requests to that device. Entries before the MARK are written into IMAGE. POSITION is a file with the position
 * that earlier calls have reached; the log's blocks before it are freed.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "deadline.h"
#include "log_writes.h"

struct log {
	int fd;
	int image;
	size_t block;
	uint64_t position; /* of the next entry, in bytes */
};

static _Noreturn void
fail(const char *what)
{
	fprintf(stderr, "replay_log: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int
open_or_fail(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd < 0)
		fail(path);
	return fd;
}

static void
copy_data(const struct log *log, const struct log_writes_entry *entry)
{
	uint8_t block[LOG_WRITES_BLOCK_MAX];

	for (uint64_t at = 0; at < entry->len; at += log->block) {
		if (pread(log->fd, block, log->block, (off_t)(entry->from + at)) != (ssize_t)log->block ||
			pwrite(log->image, block, log->block, (off_t)(entry->to + at)) != (ssize_t)log->block)
			fail("the data of an entry");
	}
}

/*
 * Walks over all entries up to the mark, and writes them into the image if writes is true. Returns false if
 * the mark is not in the log yet.
 */
static bool
walk(struct log *log, const char *mark, bool writes)
{
	uint64_t position = log->position;
	struct log_writes_entry entry;

	while (log_writes_next(log->fd, log->block, &position, &entry)) {
		if (entry.flags & LOG_WRITES_MARK && !strcmp(entry.mark, mark)) {
			if (writes)
				log->position = position;
			return true;
		}
		if (writes)
			copy_data(log, &entry);
	}
	return false;
}

static bool
is_idle(const char *in_flight)
{
	unsigned long reads = 1, writes = 1;
	FILE *f = fopen(in_flight, "r");

	if (!f)
		fail(in_flight);
	if (fscanf(f, "%lu %lu", &reads, &writes) != 2)
		fail(in_flight);
	fclose(f);
	return !reads && !writes;
}

/*
 * Waits for the mark first. Everything before it is in transit by then, and has arrived when the device is
 * idle.
 */
static void
await_mark(struct log *log, const char *mark, const char *in_flight)
{
	const struct timespec pause = { .tv_nsec = 2000000 };
	const int64_t end = now_ms() + (int64_t)deadline_scaled(1) * LOG_WRITES_WAIT_MS;

	while (!walk(log, mark, false) || !is_idle(in_flight)) {
		if (now_ms() > end) {
			errno = ETIMEDOUT;
			fail("the mark does not appear in the log");
		}
		nanosleep(&pause, NULL);
	}
}

int
main(int argc, char **argv)
{
	struct log log = { .fd = -1, .image = -1 };

	if (argc != 6) {
		fputs("usage: replay_log LOG IN_FLIGHT IMAGE POSITION MARK\n", stderr);
		return 2;
	}
	log.fd = open_or_fail(argv[1], O_RDWR);
	log.image = open_or_fail(argv[3], O_WRONLY);
	int state = open_or_fail(argv[4], O_RDWR | O_CREAT);

	log.block = log_writes_block(log.fd);
	if (log.block == 0)
		fail("the head of the log");
	if (pread(state, &log.position, sizeof(log.position), 0) != (ssize_t)sizeof(log.position))
		log.position = log.block;
	await_mark(&log, argv[5], argv[2]);
	if (!walk(&log, argv[5], true))
		fail("the mark is gone");
	if (pwrite(state, &log.position, sizeof(log.position), 0) != (ssize_t)sizeof(log.position))
		fail(argv[4]);
	if (fallocate(log.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)log.block,
		    (off_t)(log.position - log.block)))
		fail("the log cannot be cut");
	close(state);
	close(log.image);
	close(log.fd);
	return 0;
}
