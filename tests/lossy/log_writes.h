/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * log_writes.h -- the log of dm-log-writes
 *
 * The log is a block with a head, followed by the entries. Each entry is a block with a head of its own, and the number of
 * data blocks that this head says. A write appears in the log when the flush after it has completed; a write that
 * bypasses the cache (FUA) appears when it has completed itself.
 */

#ifndef TEST_LOG_WRITES_H
#define TEST_LOG_WRITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_WRITES_BLOCK_MIN 512
#define LOG_WRITES_BLOCK_MAX 4096
/* the kernel thread that writes the log may be busy with other work for some seconds */
#define LOG_WRITES_WAIT_MS 20000

enum log_writes_flag {
	LOG_WRITES_DISCARD = 4, /* without data blocks, although it has a size */
	LOG_WRITES_MARK = 8,
};

struct log_writes_entry {
	uint64_t to;   /* where the data belongs on the logged device, in bytes */
	uint64_t from; /* where the data is in the log, in bytes */
	uint64_t len;  /* bytes of data */
	uint64_t flags;
	char mark[LOG_WRITES_BLOCK_MAX]; /* the text of a mark; else not specified */
};

/* the size of a block of the log, from its head; 0 with errno set if the head is not valid */
size_t log_writes_block(int fd);

/*
 * Reads the entry at *position, in bytes, and advances *position to the next one. Returns false, without advancing, if
 * nothing has been written there yet.
 */
bool log_writes_next(int fd, size_t block, uint64_t *position, struct log_writes_entry *entry);

#endif /* TEST_LOG_WRITES_H */
