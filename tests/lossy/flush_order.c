/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * flush_order.c -- does the medium under this folder keep what a flush has covered, while others flush?
 *
 *	flush_order LOG ROUNDS
 *
 * In each round it writes a number into block A, flushes, writes the number into block B, and flushes. Other threads write
 * and flush files of their own all the time. LOG is the file under the log device of dm-log-writes: where it has a number
 * in B, it must have had the number in A before. This is a test of the medium on which tests of durability run: a
 * log in which flushes overtake each other would accuse the library of a loss that no disk has.
 *
 * Exit status: 0, 1 if a flushed block is missing, 2 if the test cannot run.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "deadline.h"
#include "log_writes.h"

#define BLOCK 4096
#define OTHERS 3
#define DEADLINE_S 300

enum name { A = 0, B = 1, NAMES };

/* what a block begins with; the magic is in no other block of the medium */
struct content {
	char magic[16];
	uint64_t name; /* an enum name */
	uint64_t number;
};
static const char magic[16] = "flush_order.c 1";

static atomic_bool ends;

static _Noreturn void
cannot(const char *what)
{
	perror(what);
	exit(2);
}

/* a file of blocks that ext4 has allocated: to overwrite them changes nothing in the journal, so a flush is only the disk's */
static int
make_file(const char *path, int blocks, uint8_t *block)
{
	int fd = open(path, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
	if (fd < 0)
		cannot(path);
	memset(block, 0, BLOCK);
	for (int i = 0; i < blocks; i++)
		if (pwrite(fd, block, BLOCK, (off_t)i * BLOCK) != BLOCK)
			cannot(path);
	if (fsync(fd))
		cannot(path);
	return fd;
}

static void
write_flushed(int fd, const uint8_t *block, int at)
{
	if (pwrite(fd, block, BLOCK, (off_t)at * BLOCK) != BLOCK || fdatasync(fd))
		cannot("writing");
}

static void *
flush_beside(void *path)
{
	uint8_t *block = aligned_alloc(BLOCK, BLOCK);
	if (!block)
		cannot("aligned_alloc");
	int fd = make_file(path, 1, block);
	while (!ends)
		write_flushed(fd, block, 0);
	close(fd);
	free(block);
	return NULL;
}

static void
write_rounds(uint64_t rounds)
{
	uint8_t *block = aligned_alloc(BLOCK, BLOCK);
	if (!block)
		cannot("aligned_alloc");
	int fd = make_file("order", NAMES, block);
	struct content content = { .number = 0 };
	memcpy(content.magic, magic, sizeof(magic));
	while (content.number < rounds) {
		content.number++;
		for (content.name = A; content.name < NAMES; content.name++) {
			memcpy(block, &content, sizeof(content));
			write_flushed(fd, block, (int)content.name);
		}
	}
	close(fd);
	free(block);
}

/* walks over all entries; returns how often B was ahead of A, and in last the newest number of each */
static unsigned long
walk(int log, size_t block, uint64_t last[NAMES])
{
	uint64_t position = block; /* the head is before the entries */
	unsigned long missing = 0;
	struct log_writes_entry entry;
	struct content content;

	last[A] = last[B] = 0;
	while (log_writes_next(log, block, &position, &entry)) {
		if (entry.len != BLOCK ||
			pread(log, &content, sizeof(content), (off_t)entry.from) != sizeof(content) ||
			memcmp(content.magic, magic, sizeof(magic)) || content.name >= NAMES)
			continue;
		last[content.name] = content.number;
		missing += last[A] < last[B];
	}
	return missing;
}

/* The thread that writes the log may be late: what is not there yet is awaited. */
static int
check(const char *path, uint64_t rounds)
{
	const struct timespec pause = { .tv_nsec = 2000000 };
	const int64_t end = now_ms() + (int64_t)deadline_scaled(1) * LOG_WRITES_WAIT_MS;
	uint64_t last[NAMES];
	unsigned long missing;
	size_t block;
	int log = open(path, O_RDONLY | O_CLOEXEC);
	if (log < 0 || (block = log_writes_block(log)) == 0)
		cannot(path);
	do {
		missing = walk(log, block, last);
		nanosleep(&pause, NULL);
	} while ((missing || last[A] < rounds || last[B] < rounds) && now_ms() < end);
	close(log);
	printf("%" PRIu64 " rounds; the log has %" PRIu64 " of block A and %" PRIu64
	       " of block B; a flushed block was missing %lu times\n",
		rounds, last[A], last[B], missing);
	return missing || last[A] < rounds || last[B] < rounds;
}

int
main(int argc, char *argv[])
{
	static char paths[OTHERS][16];
	pthread_t others[OTHERS];
	if (argc != 3) {
		fputs("usage: flush_order LOG ROUNDS\n", stderr);
		return 2;
	}
	const uint64_t rounds = strtoull(argv[2], NULL, 10);

	deadline_start("flush_order", DEADLINE_S);
	for (int i = 0; i < OTHERS; i++) {
		snprintf(paths[i], sizeof(paths[i]), "other%d", i);
		if (pthread_create(&others[i], NULL, flush_beside, paths[i]))
			cannot("pthread_create");
	}
	write_rounds(rounds);
	ends = true;
	for (int i = 0; i < OTHERS; i++)
		pthread_join(others[i], NULL);
	return check(argv[1], rounds);
}
