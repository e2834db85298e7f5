/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * medium.h -- the memory of a replica, and what a power cut leaves of it
 *
 * The memory is what RDMA operations read and write. It survives the replica's process, as the page cache and
 * the caches of processors do. Beside it is an image of the durable bytes. A flush brings a range to the
 * medium, in whole units: pages of a file, or lines of persistent memory. Each unit that was not flushed may
 * reach the medium by itself, at any time; on a power cut it may reach it in part.
 */

#ifndef TEST_SIMULATION_LOG_MEDIUM_H
#define TEST_SIMULATION_LOG_MEDIUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEDIUM_SIZE_MAX ((size_t)64 << 10)
#define MEDIUM_PIECE 8 /* bytes that are never torn */

struct medium {
	size_t size;
	size_t unit; /* of a flush */
	size_t tear; /* a power cut keeps or loses as many bytes as a whole */
	uint8_t memory[MEDIUM_SIZE_MAX];
	uint8_t durable[MEDIUM_SIZE_MAX];
	bool failed; /* every flush fails, until the medium is mounted again */
};

/* the state of a flush between its beginning and its end */
struct writeback {
	bool active;
	size_t offset;
	size_t len;
	uint8_t *bytes;
};

/* a control of the test: flushes have no effect */
extern bool medium_is_lying;

/* the bytes are those of the file, and durable */
void medium_fill(struct medium *m, const uint8_t *bytes, size_t len);

void medium_flush_begin(struct medium *m, size_t offset, size_t len, struct writeback *wb);
/* per_mille: in a thousand pieces, those that reach the medium; 1000 if the flush succeeds */
void medium_flush_end(struct medium *m, struct writeback *wb, unsigned per_mille);

/* some of what was not flushed reaches the medium by itself */
void medium_write_back_some(struct medium *m);

/* the memory is what the medium has kept */
void medium_cut_power(struct medium *m);
/* the same, for a medium that has failed: nothing else reaches it */
void medium_mount_again(struct medium *m);

#endif /* TEST_SIMULATION_LOG_MEDIUM_H */
