/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* memory.c -- the memory of the target: of this process, a file, or persistent memory */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory.h"

static bool
open_dram(struct memory *memory, size_t size, char why[static WHY_MAX])
{
	void *ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ptr == MAP_FAILED)
		return why_say(why, "%zu bytes of memory: %m", size);
	memory->ptr = ptr;
	memory->size = size;
	return true;
}

/* creates an empty file of our own: where itself, or a file in that directory */
static bool
create_file(struct memory *memory, const char *where, bool is_directory, char why[static WHY_MAX])
{
	if (asprintf(&memory->created, is_directory ? "%s/rpma-perf-XXXXXX" : "%s", where) < 0) {
		memory->created = NULL;
		return why_say(why, "out of memory");
	}
	if (is_directory)
		memory->fd = mkostemp(memory->created, O_CLOEXEC);
	else
		memory->fd = open(memory->created, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (memory->fd < 0) {
		why_say(why, "making %s: %m", memory->created);
		free(memory->created);
		memory->created = NULL;
		return false;
	}
	return true;
}

static bool
open_file(struct memory *memory, const char *where, bool overwrite, size_t size, char why[static WHY_MAX])
{
	struct stat st;
	bool is_there = stat(where, &st) == 0;
	if (!is_there && errno != ENOENT)
		return why_say(why, "%s: %m", where);

	if (is_there && !S_ISDIR(st.st_mode)) {
		if (!overwrite)
			return why_say(why,
				"%s exists, and its content would be lost: --overwrite allows that", where);
		memory->fd = open(where, O_RDWR | O_CLOEXEC);
		return memory->fd >= 0 ? true : why_say(why, "%s: %m", where);
	}
	if (!create_file(memory, where, is_there, why))
		return false;
	/* allocates the blocks now: then a full disk is an error here, and not a signal later */
	int errnum = posix_fallocate(memory->fd, 0, (off_t)size);
	return errnum == 0 ? true
			   : why_say(why, "%zu bytes of %s: %s", size, memory->created, strerror(errnum));
}

static bool
map_file(struct memory *memory, const char *where, size_t size, char why[static WHY_MAX])
{
	static const char *const names[] = {
		[FILE_GRANULARITY_BYTE] = "byte",
		[FILE_GRANULARITY_CACHE_LINE] = "cache line",
		[FILE_GRANULARITY_PAGE] = "page",
	};
	char reason[WHY_MAX];
	if (!file_map_open(&memory->map, memory->fd, size, reason, sizeof(reason)))
		return why_say(why, "mapping %s: %s", where, reason);
	memory->ptr = memory->map.ptr;
	memory->size = size;
	memory->is_file = true;
	memory->granularity = names[memory->map.granularity];
	return true;
}

bool
memory_open(struct memory *memory, const char *where, bool overwrite, size_t size, char why[static WHY_MAX])
{
	*memory = (struct memory){ .fd = -1 };
	bool good;
	if (strcmp(where, MEMORY_DRAM) == 0)
		good = open_dram(memory, size, why);
	else
		good = open_file(memory, where, overwrite, size, why) && map_file(memory, where, size, why);
	if (!good) {
		memory_close(memory);
		return false;
	}
	memset(memory->ptr, 0, size); /* touches the pages before the clock runs */
	return true;
}

void
memory_close(struct memory *memory)
{
	if (memory->map.ptr)
		file_map_close(&memory->map);
	else if (memory->ptr)
		munmap(memory->ptr, memory->size);
	if (memory->fd >= 0)
		close(memory->fd);
	if (memory->created) {
		(void)unlink(memory->created);
		free(memory->created);
	}
	*memory = (struct memory){ .fd = -1 };
}

bool
memory_can_be_shared(const char *where)
{
	struct stat st;
	return strcmp(where, MEMORY_DRAM) == 0 || (stat(where, &st) == 0 && S_ISDIR(st.st_mode));
}

bool
memory_check(const char *where, bool overwrite, char why[static WHY_MAX])
{
	struct memory memory = { .fd = -1 };
	bool good = strcmp(where, MEMORY_DRAM) == 0 || open_file(&memory, where, overwrite, 1, why);
	memory_close(&memory);
	return good;
}
