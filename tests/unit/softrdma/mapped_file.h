/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * mapped_file.h -- shared by the tests of the files behind mappings: a page of a file
 *
 * Each test includes it once.
 */

#ifndef TEST_SOFTRDMA_MAPPED_FILE_H
#define TEST_SOFTRDMA_MAPPED_FILE_H

#include "connected.h"

#include <sys/mman.h>

#include "softrdma/persist/persist.h"

#define PAGE ((size_t)4096)

static inline int
map_file(int fd, void **mem)
{
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)PAGE), 0);
	*mem = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(*mem, MAP_FAILED);
	return fd;
}

/* in the working directory, which is the build's */
static inline int
named_file(char path[static 32], void **mem)
{
	strcpy(path, "mapped_file.XXXXXX");
	return map_file(mkstemp(path), mem);
}

static inline void
expect_new(void *mem, int error)
{
	struct softrdma_persist *persist = NULL;
	assert_int_equal(softrdma_persist_new(mem, PAGE, &persist), error);
	softrdma_persist_delete(persist);
}

#endif /* TEST_SOFTRDMA_MAPPED_FILE_H */
