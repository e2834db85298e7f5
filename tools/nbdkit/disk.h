/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * disk.h -- memory of a keeper as a disk
 *
 * Any number of threads may read, write, zero and flush at once. All of them share one connection. So a flush
 * makes durable what any thread had written before it, and whose write had returned. What earlier clients have written
 * is durable when the disk has started, unless it is read-only: it was flushed then.
 *
 * Each call returns false if it failed; the request then counts as not done, and the reason was told
 * (disk_config.say). If the connection is lost, calls wait until it is back, for at most the timeout.
 *
 * With disk_config.write_back a write that need not be durable returns when it is on its way to the keeper. Writes
 * arrive in their order, and a call that begins later finds them done. Only the process can lose them, by its end.
 */

#ifndef NBDKIT_RPMA_DISK_H
#define NBDKIT_RPMA_DISK_H

#include "keeper/client.h"

#define DISK_TIMEOUT_DEFAULT_S 60
#define DISK_TIMEOUT_MAX_S 86400
#define DISK_JOURNAL_DEFAULT (UINT64_C(64) << 20)
#define DISK_JOURNAL_MIN (UINT64_C(1) << 20)
#define DISK_JOURNAL_MAX (UINT64_C(1) << 40)

struct disk_config {
	const char *host;
	const char *port;
	const char *name;
	int timeout_ms;      /* that a request waits without progress */
	size_t journal_size; /* bytes of written data that may wait for a flush */
	bool takeover;       /* take the memory also from another client that has it */
	bool read_only;
	bool write_back;               /* a write returns when it is on its way */
	bool volatile_allowed;         /* accept memory for which a flush does not mean durable */
	void (*say)(const char *text); /* tells what happened to the connection; any thread calls it */
};

/* what is known about the memory */
struct disk_facts {
	uint64_t size;
	uint32_t block_size;
	enum keeper_persistence persistence;
};

struct disk;

/*
 * Asks the keeper about the memory, without taking it, and checks that it may be used. Nothing is left behind,
 * so the process may fork afterwards.
 */
bool disk_probe(const struct disk_config *config, struct disk_facts *facts, char why[static WHY_MAX]);

/*
 * Connects, starts the thread that connects again when that is needed, and flushes what earlier clients have written.
 * facts are those that disk_probe gave: if the memory has changed since, the call fails. config must outlive the disk.
 */
bool disk_start(const struct disk_config *config, const struct disk_facts *facts, struct disk **disk_ptr,
	char why[static WHY_MAX]);
/*
 * No call may be running. Does not flush, but waits until the keeper has what was written back, and until a replay that has
 * begun has ended, for at most the timeout.
 * *disk_ptr may be NULL.
 */
void disk_stop(struct disk **disk_ptr);

bool disk_read(struct disk *disk, void *buf, size_t len, uint64_t offset);
/* durable is true if the data must be durable when the call returns */
bool disk_write(struct disk *disk, const void *buf, size_t len, uint64_t offset, bool durable);
bool disk_zero(struct disk *disk, uint64_t len, uint64_t offset, bool durable);
bool disk_flush(struct disk *disk);

#endif /* NBDKIT_RPMA_DISK_H */
