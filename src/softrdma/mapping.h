/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* mapping.h -- what the kernel says about the mapped areas of this process */

#ifndef SOFTRDMA_MAPPING_H
#define SOFTRDMA_MAPPING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* one area as the kernel lists it, not cut to the range that was asked for */
struct softrdma_area {
	uintptr_t start;
	uintptr_t end;
	uint64_t offset; /* of start in the file */
	dev_t dev;       /* as the kernel shows it for mappings, which need not be what stat() says */
	uint64_t inode;  /* 0: no file */
	bool readable;
	bool writable;
	bool shared;
};

/*
 * A descriptor for softrdma_mapping_each() that makes it fast (kernel 6.11 and later), or -1. It belongs to
 * the address space of the process that opened it: a forked child must not use it.
 */
int softrdma_mapping_open(void);

/*
 * Calls each() for all areas of [start, end), in order, until it returns non-zero, which is returned. EFAULT
 * where a piece of the range is not mapped, or another errno value. name is the file's path or what the
 * kernel has instead, "" without one; it is only there when want_name is set, and valid during the call.
 */
int softrdma_mapping_each(int maps_fd, uintptr_t start, uintptr_t end, bool want_name,
	int (*each)(const struct softrdma_area *area, const char *name, void *arg), void *arg);

/* reads one line of /proc/self/maps; *name_ptr points into the line; false if it is none */
bool softrdma_mapping_parse(char *line, struct softrdma_area *area, char **name_ptr);

/* is the area that starts there a mapping with MAP_SYNC? false also when nobody can tell */
bool softrdma_mapping_is_sync(uintptr_t start);

#endif /* SOFTRDMA_MAPPING_H */
