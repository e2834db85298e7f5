/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * stream_memory.h -- registered memory of the stream's target, and which bytes of it may change
 *
 * Frames contain addresses and keys, so both are the same in every process. The bytes between the regions
 * belong to no region, and the pages around the mappings cannot be accessed.
 */

#ifndef TEST_FUZZ_STREAM_MEMORY_H
#define TEST_FUZZ_STREAM_MEMORY_H

#include "fuzz.h"
#include "softrdma/core/memory.h"

enum region_id {
	REGION_ALL,      /* every right; mapped from a memory file, so stores go through the kernel */
	REGION_READ,     /* remote read only, in pages that cannot be written either */
	REGION_LOCAL,    /* for receives and responses: no remote right */
	REGION_FOREIGN,  /* every right, in another protection domain */
	REGION_WRITE,    /* remote write only */
	REGION_FLEETING, /* every right except persistent flushes, until it is deregistered */
	REGION_COUNT,
};

/* The keys share a slot in the device's table, so the device must compare the whole key. */
#define MEMORY_KEYS_APART 4096u
/* added to a region's key, it gives a key of no region with the same low half */
#define MEMORY_OTHER_KEY 0x10000u

struct region {
	uint64_t addr;
	size_t size;
	int access;
	uint32_t key;
	struct softrdma_mr *mr; /* NULL if it is deregistered */
};

extern struct region regions[REGION_COUNT];
extern struct ibv_pd *stream_pd;

/* once in a process */
void memory_init(void);
/* before each input: all regions are registered, all bytes have their initial value, and none may change */
void memory_reset(void);
/* fails if a byte has changed that may not change */
void memory_check(void);

/*
 * Permits changes of the memory that a posted request names, in regions with the right to store. Of an SGE
 * that is longer than its region, the part within the region is permitted.
 */
void memory_allow(uint64_t addr, uint64_t len);
/* the same for a frame, if its key, range and right are valid */
void memory_allow_remote(uint32_t key, uint64_t addr, uint64_t len, int access);
/* true if the peer may read these bytes */
bool memory_is_readable(const void *at, size_t len);

/*
 * Takes the fleeting region out of the table: its content must no longer change. The caller deletes the
 * returned object.
 */
struct softrdma_mr *memory_revoke(void);

#endif /* TEST_FUZZ_STREAM_MEMORY_H */
