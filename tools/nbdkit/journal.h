/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * journal.h -- what was written and is not known to be durable, in the order in which it was written
 *
 * The keeper's machine may lose what was written to it and not flushed, also what the keeper has acknowledged.
 * So the data stays here until a flush has covered it, and is written again after the connection was lost.
 * The data lies in one buffer of fixed size, from which the device sends it. A full journal is not an error:
 * a flush makes room.
 *
 * Zeros lie nowhere, but count like data: so a flush of what is in the journal, and writing it again, have
 * bounded durations.
 *
 * Entries have sequence numbers. Those from first up to, but not including, end are in the journal. This file
 * only keeps account: it does not touch the buffer.
 */

#ifndef NBDKIT_RPMA_JOURNAL_H
#define NBDKIT_RPMA_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct journal_entry {
	uint64_t offset; /* on the disk, in bytes */
	size_t len;
	bool zeros;         /* the data is zeros, and is not in the buffer */
	size_t at;          /* where the data is in the buffer */
	uint64_t space_end; /* for freeing: the space in use ends here, counted from the beginning of time */
};

struct journal {
	uint64_t first, end;
	struct journal_entry *entries; /* a ring of entries_max */
	size_t entries_max;
	size_t size;                     /* of the buffer in bytes */
	uint64_t space_begin, space_end; /* the space in use, counted from the beginning of time */
};

/* size: of the buffer in bytes. false: out of memory */
bool journal_init(struct journal *journal, size_t size, size_t entries_max);
void journal_fini(struct journal *journal);

/*
 * Adds an entry; the data goes to the place that the entry names. Returns NULL, and changes nothing, if there
 * is no room. An empty journal has room for any len up to its size. The pointer is valid until the entry is
 * dropped.
 */
const struct journal_entry *journal_append(struct journal *journal, uint64_t offset, size_t len, bool zeros);

/* the entry with this number, which must be in the journal */
const struct journal_entry *journal_get(const struct journal *journal, uint64_t number);

/* drops the entries before number, which is at most end */
void journal_drop(struct journal *journal, uint64_t number);

#endif /* NBDKIT_RPMA_JOURNAL_H */
