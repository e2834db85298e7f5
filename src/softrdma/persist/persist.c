/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * persist.c -- what kind of memory a region is, and how a range of it is made durable
 *
 * A 0 from msync() proves nothing: it also returns 0 for anonymous memory, for private mappings, and for
 * anything that was mapped over the range since. So the device notes the areas of a region when it is
 * registered (which file, at which offset). Each flush compares what the kernel shows with that, after
 * msync(): a mapping that is unchanged after msync() was unchanged during it. DAX memory is checked before the
 * flush as well, because writing back cache lines touches it.
 *
 * The check cannot see a mapping that was replaced and put back in between. An application that does this to
 * registered memory breaks the first rule of registered memory.
 */

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "softrdma/base/env.h"
#include "softrdma/persist/mapping.h"
#include "softrdma/persist/persist.h"
#include "softrdma/persist/persist_file.h"

/* usually one file is one area, unless it is mapped in parts; each flush goes through all areas */
#define PIECES_MAX 64

/* a part of the region that maps one contiguous range of one file */
struct piece {
	uintptr_t start;
	uintptr_t end;
	uint64_t offset; /* of start in the file */
	dev_t dev;
	uint64_t inode;
	struct softrdma_file *file;
};

struct softrdma_persist {
	uintptr_t start;
	uintptr_t end;
	struct softrdma_maps *maps;
	atomic_bool failed;
	int piece_count;
	struct piece pieces[PIECES_MAX];
};

/* the part of an area inside [start, end) */
static struct piece
cut(const struct softrdma_area *area, uintptr_t start, uintptr_t end)
{
	struct piece piece = {
		.start = area->start > start ? area->start : start,
		.end = area->end < end ? area->end : end,
		.dev = area->dev,
		.inode = area->inode,
	};
	piece.offset = area->offset + (piece.start - area->start);
	return piece;
}

/* true if piece continues last in the same file: mprotect() splits such areas */
static bool
continues(const struct piece *last, const struct piece *piece)
{
	return last->dev == piece->dev && last->inode == piece->inode &&
		last->offset + (last->end - last->start) == piece->offset;
}

static int
add_area(const struct softrdma_area *area, const char *name, void *arg)
{
	struct softrdma_persist *persist = arg;

	if (!area->shared || !area->writable || area->inode == 0) {
		SOFTRDMA_LOG(INFO,
			"memory that is no writable shared mapping of a file cannot be made durable");
		return EOPNOTSUPP;
	}
	if (persist->piece_count == PIECES_MAX) {
		/*
		 * message(memory, why-not-found): why memory is not durable; *bytes cannot be made durable*
		 * follows -> Map the file in one piece, as long as it is; mount `/proc`.
		 */
		SOFTRDMA_LOG(WARNING, "a region of more than %d mappings cannot be made durable", PIECES_MAX);
		return EOPNOTSUPP;
	}
	struct piece piece = cut(area, persist->start, persist->end);
	const uint64_t end_offset = piece.offset + (piece.end - piece.start);
	int ret = softrdma_file_get(area, name, end_offset, &piece.file);
	if (ret)
		return ret;
	persist->pieces[persist->piece_count++] = piece;

	if (softrdma_file_reaches(piece.file, end_offset)) {
		/* message(why-not-found) */
		SOFTRDMA_LOG(WARNING, "a region that reaches past the end of %s cannot be made durable",
			name);
		return EOPNOTSUPP;
	}
	if (persist->piece_count > 1) {
		struct piece *last = &persist->pieces[persist->piece_count - 2];
		if (last->file == piece.file && continues(last, &piece)) {
			last->end = piece.end;
			persist->piece_count--;
			softrdma_file_put(piece.file);
		}
	}
	return 0;
}

int
softrdma_persist_new(void *addr, size_t len, struct softrdma_persist **persist_ptr)
{
	assert(len > 0 && (uintptr_t)addr <= UINTPTR_MAX - len);

	struct softrdma_persist *persist = malloc(sizeof(*persist));
	if (persist == NULL)
		return ENOMEM;
	persist->start = (uintptr_t)addr;
	persist->end = (uintptr_t)addr + len;
	persist->piece_count = 0;
	atomic_init(&persist->failed, false);
	persist->maps = softrdma_maps_open();

	int ret = persist->maps
		? softrdma_mapping_each(persist->maps, persist->start, persist->end, true, add_area, persist)
		: errno;
	if (ret) {
		if (ret == ENOENT || ret == EACCES) {
			/* message(why-not-found) */
			SOFTRDMA_LOG(WARNING, "without /proc no memory is known to be durable");
			ret = EOPNOTSUPP;
		}
		softrdma_persist_delete(persist);
		return ret;
	}
	assert(persist->piece_count > 0);
	*persist_ptr = persist;
	return 0;
}

int
softrdma_persist_may_block(const struct softrdma_persist *persist, size_t len)
{
	for (int i = 0; i < persist->piece_count; i++)
		if (softrdma_file_may_block(persist->pieces[i].file, len))
			return 1;
	return 0;
}

/* a range that is checked */
struct look {
	const struct softrdma_persist *persist;
	uintptr_t start;
	uintptr_t end;
};

/* 0 if every byte of the area is still the same byte of the same file as at registration */
static int
compare_area(const struct softrdma_area *area, const char *name, void *arg)
{
	(void)name;
	const struct look *look = arg;
	struct piece now = cut(area, look->start, look->end);

	if (!area->shared)
		return ESTALE;
	for (int i = 0; i < look->persist->piece_count; i++) {
		const struct piece *then = &look->persist->pieces[i];
		if (then->end <= now.start || then->start >= now.end)
			continue;
		if (then->dev != now.dev || then->inode != now.inode ||
			then->offset - then->start != now.offset - now.start)
			return ESTALE;
		if (softrdma_file_touches_memory(then->file) && !area->readable)
			return EACCES;
	}
	return 0;
}

/* checks the mapping and the sizes of the files; 0 or an errno value */
static int
check(const struct softrdma_persist *persist, uintptr_t start, uintptr_t end)
{
	struct look look = { .persist = persist, .start = start, .end = end };
	int ret = softrdma_mapping_each(persist->maps, start, end, false, compare_area, &look);
	if (ret == ENOMEM || ret == EMFILE || ret == ENFILE)
		return EAGAIN;

	for (int i = 0; ret == 0 && i < persist->piece_count; i++) {
		const struct piece *piece = &persist->pieces[i];
		uintptr_t piece_end = piece->end < end ? piece->end : end;
		if (piece->end > start && piece->start < end)
			ret = softrdma_file_reaches(piece->file, piece->offset + (piece_end - piece->start));
	}
	return ret;
}

static int
flush_pieces(struct softrdma_persist *persist, uintptr_t start, uintptr_t end)
{
	int ret = 0;
	for (int i = 0; ret == 0 && i < persist->piece_count; i++) {
		const struct piece *piece = &persist->pieces[i];
		uintptr_t from = piece->start > start ? piece->start : start;
		uintptr_t to = piece->end < end ? piece->end : end;
		if (from >= to)
			continue;
		if (softrdma_file_touches_memory(piece->file))
			ret = check(persist, from, to);
		if (ret == 0)
			ret = softrdma_file_flush(piece->file, (const void *)from,
				piece->offset + (from - piece->start), to - from);
	}
	return ret;
}

static const char *
reason(int error)
{
	/*
	 * message(memory, no-longer-durable): a flush fails: the file or its mapping was changed after the
	 * registration -> Do not truncate, rename over, delete or unmap it while it is registered.
	 */
	if (error == ESTALE || error == EFAULT || error == ENOMEM)
		return "its mapping has changed";
	/* message(no-longer-durable) */
	if (error == ENXIO)
		return "its file is too short";
	/* message(no-longer-durable) */
	if (error == ENOENT)
		return "its file has lost its name";
	return strerror(error);
}

int
softrdma_persist_flush(struct softrdma_persist *persist, const void *addr, size_t len)
{
	static struct softrdma_log_limit not_asked = SOFTRDMA_LOG_LIMIT;
	uintptr_t start = (uintptr_t)addr;
	assert(start >= persist->start && start <= persist->end && len <= persist->end - start);

	if (atomic_load(&persist->failed))
		return EIO;
	if (len == 0)
		return 0;
	int ret = flush_pieces(persist, start, start + len);
	if (ret == 0)
		ret = check(persist, start, start + len);
	/*
	 * message(memory): only this flush fails, those that follow may succeed -> Give the machine more
	 * memory. Descriptors are needed where an emulator runs the program: raise `ulimit -n`.
	 */
	if (ret == EAGAIN)
		SOFTRDMA_LOG_FEW(&not_asked, WARNING,
			"a flush fails: there is no memory or no descriptor to ask the kernel for the mapping");
	else if (ret && !atomic_exchange(&persist->failed, true))
		/* message(no-longer-durable) */
		SOFTRDMA_LOG(ERROR, "a region can no longer be made durable: %s", reason(ret));
	return ret;
}

void
softrdma_persist_delete(struct softrdma_persist *persist)
{
	if (persist == NULL)
		return;
	for (int i = 0; i < persist->piece_count; i++)
		softrdma_file_put(persist->pieces[i].file);
	softrdma_maps_close(persist->maps);
	free(persist);
}
