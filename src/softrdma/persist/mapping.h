/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* mapping.h -- the mapped areas of this process, as the kernel shows them */

#ifndef SOFTRDMA_MAPPING_H
#define SOFTRDMA_MAPPING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* an area as the kernel lists it, not limited to the range of the query */
struct softrdma_area {
	uintptr_t start;
	uintptr_t end;
	uint64_t offset; /* of start in the file */
	dev_t dev;       /* as the kernel shows it for mappings; stat() may give another number */
	uint64_t inode;  /* 0: no file */
	bool readable;
	bool writable;
	bool shared;
};

/*
 * What the kernel shows of this process, kept open, so that a process that has run out of descriptors can still ask. It
 * refers to the address space of the process that opened it: a forked child must not use it. Where an emulator shows it,
 * each look opens it.
 */
struct softrdma_maps;

/* NULL with errno */
struct softrdma_maps *softrdma_maps_open(void);
/* NULL does no harm */
void softrdma_maps_close(struct softrdma_maps *maps);

/*
 * Calls each() for all areas of [start, end), in order, until it returns non-zero, and returns that value.
 * EFAULT if a part of the range is not mapped; ENOMEM, EMFILE or ENFILE if that cannot be read now; or another errno
 * value. name is the file's path or what the kernel shows instead, "" if it shows nothing. It is set only
 * if want_name is true, and valid during the call. maps is NULL for a single look, which opens what it needs. Any thread.
 */
int softrdma_mapping_each(struct softrdma_maps *maps, uintptr_t start, uintptr_t end, bool want_name,
	int (*each)(const struct softrdma_area *area, const char *name, void *arg), void *arg);

/* parses a line of /proc/self/maps; *name_ptr points into the line; false if it is not such a line */
bool softrdma_mapping_parse(char *line, struct softrdma_area *area, char **name_ptr);

/* true if the area that starts there is a mapping with MAP_SYNC; false also if the kernel does not show it */
bool softrdma_mapping_is_sync(uintptr_t start);

#endif /* SOFTRDMA_MAPPING_H */
