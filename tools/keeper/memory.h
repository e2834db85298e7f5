/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* memory.h -- the memory that the keeper lends: a file, a device DAX, or memory of the process for tests */

#ifndef KEEPER_MEMORY_H
#define KEEPER_MEMORY_H

#include "identity.h"

/* sizes are multiples of this, so that all of the last page belongs to the file */
#define MEMORY_ALIGNMENT 4096

struct pmem2_map;
struct pmem2_source;
struct warm;

/* how to get the memory */
struct memory_source {
	const char *path;          /* NULL: anonymous memory of the process, which is volatile */
	uint64_t size;             /* in bytes; 0: that of the existing file or device */
	const char *identity_path; /* NULL: that of the file, after all symbolic links, and ".identity" */
	bool read_only;
	bool vouched; /* the operator says that the file system is on a disk, where that cannot be seen */
	bool no_new_record; /* memory without a record of its identity gets one that is not kept */
};

struct memory {
	uint8_t *ptr;
	size_t size;
	enum keeper_persistence persistence;
	uint8_t block_shift;
	bool created; /* the file did not exist before */
	bool renewed; /* the memory has a new identity although it existed before */
	struct identity identity;
	bool unrecorded; /* the record may differ from identity, because it could not be written */
	/* for closing it and for recording the writer */
	char *identity_path; /* NULL: the memory is anonymous */
	int fd;
	struct pmem2_source *source;
	struct pmem2_map *map;
	struct warm *warm; /* NULL: nothing reads the file */
};

/*
 * Opens the memory. A file that does not exist is created with all its blocks, zeroed, and its name is made
 * durable. The file is locked (flock), so that no other keeper lends it meanwhile; for reading only, others
 * may lend it for reading. A file that is lent for writing must have one name, because the record of its identity
 * belongs to the name. After a failure nothing is left open.
 */
bool memory_open(struct memory *memory, const struct memory_source *source, char why[static WHY_MAX]);

/* the path of the record of memory that has one; the caller frees it. NULL: no memory */
char *memory_identity_path(const struct memory_source *source);

/*
 * Records the client that is about to get the memory for writing; it is on record when the call returns. After false the
 * identity names the writer before. If the record may name either then, unrecorded is true: memory_record_again before
 * that one gets the memory.
 */
bool memory_record_writer(struct memory *memory, uint64_t client, char why[static WHY_MAX]);

/*
 * Makes an earlier client the last writer again, because the one after it has never had the memory. After false that is not
 * on record: memory_record_again before that client gets the memory.
 */
bool memory_restore_writer(struct memory *memory, uint64_t client, char why[static WHY_MAX]);

/* keeps in mind that the medium has failed, and records it; after true it is on record */
bool memory_record_failure(struct memory *memory, char why[static WHY_MAX]);

/* writes the record if that has failed before; true if it is what the identity says */
bool memory_record_again(struct memory *memory, char why[static WHY_MAX]);

/*
 * Takes a failure of the medium out of the record of memory that no keeper lends; *was_failed tells if there was one.
 * The file or device must exist.
 */
bool memory_clear_failure(const struct memory_source *source, bool *was_failed, char why[static WHY_MAX]);

/* makes all that was written durable; true at once for memory that is volatile */
bool memory_flush(struct memory *memory, char why[static WHY_MAX]);

void memory_close(struct memory *memory);

#endif /* KEEPER_MEMORY_H */
