/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* persist_description.h -- an open file description of the device's own, through which it syncs a file */

#ifndef SOFTRDMA_PERSIST_DESCRIPTION_H
#define SOFTRDMA_PERSIST_DESCRIPTION_H

#include <stddef.h>
#include <stdint.h>

struct softrdma_description {
	uint8_t *base; /* a mapping of the file from its beginning, with PROT_NONE; NULL: none */
	size_t len;
};

/*
 * Opens the file that path_fd (of O_PATH) refers to again, for reading and writing, and maps its first len
 * bytes. The application's record locks on the file stay. 0; EACCES, EPERM or EROFS if this process may not
 * open the file for writing; or another errno value.
 */
int softrdma_description_open(int path_fd, size_t len, struct softrdma_description *description);

/* extends the mapping to len bytes; 0, or an errno value and no change. No sync may run meanwhile. */
int softrdma_description_grow(struct softrdma_description *description, size_t len);

/*
 * Writes len mapped bytes of the file at offset to its medium. 0 or an errno value, also for an earlier
 * write-back of the file that has failed since the description was opened and was not reported to it.
 */
int softrdma_description_sync(const struct softrdma_description *description, uint64_t offset, size_t len);

/* releases the mapping, if there is one */
void softrdma_description_close(struct softrdma_description *description);

#endif /* SOFTRDMA_PERSIST_DESCRIPTION_H */
