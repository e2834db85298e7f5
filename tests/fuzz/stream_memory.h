/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * stream_memory.h -- registered memory of the stream's target, and who may change which byte of it
 *
 * Frames hold addresses and keys, so both are the same in every process. Between the regions lie bytes that
 * belong to nobody, around the mappings pages that cannot be touched.
 */

#ifndef TEST_FUZZ_STREAM_MEMORY_H
#define TEST_FUZZ_STREAM_MEMORY_H

#include "fuzz.h"
#include "softrdma/memory.h"

enum region_id {
	REGION_ALL,      /* every right; of a file in memory, so stores go through the kernel */
	REGION_READ,     /* remote read alone, and the pages cannot be written either */
	REGION_LOCAL,    /* for receives and answers: no remote right */
	REGION_FOREIGN,  /* every right, in another protection domain */
	REGION_WRITE,    /* remote write alone */
	REGION_FLEETING, /* every right but persistent flushes, until it is deregistered */
	REGION_COUNT,
};

/* keys fall together in the device's table, so that it must look at all of a key */
#define MEMORY_KEYS_APART 4096u
/* so far from a region's key is none, and the low halves are the same */
#define MEMORY_OTHER_KEY 0x10000u

struct region {
	uint64_t addr;
	size_t size;
	int access;
	uint32_t key;
	struct softrdma_mr *mr; /* NULL: deregistered */
};

extern struct region regions[REGION_COUNT];
extern struct ibv_pd *stream_pd;

/* once */
void memory_init(void);
/* each time: all registered, all bytes as at the beginning, none of them may be changed */
void memory_reset(void);
/* has a byte changed that may not? */
void memory_check(void);

/*
 * what a posted request names may change, as far as it is of a region that may be stored to: of a piece that
 * is longer, its beginning can be used
 */
void memory_allow(uint64_t addr, uint64_t len);
/* the same for what a frame asks for: key, range and right must be good */
void memory_allow_remote(uint32_t key, uint64_t addr, uint64_t len, int access);
/* may these bytes be read by the peer? */
bool memory_is_readable(const void *at, size_t len);

/* the fleeting region leaves the table; what it holds now must stay. Its mr is the caller's to delete */
struct softrdma_mr *memory_revoke(void);

#endif /* TEST_FUZZ_STREAM_MEMORY_H */
