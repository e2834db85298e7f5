/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* alloc.c -- allocations that fail as the seed decides, and a count of those that were not freed */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "alloc.h"
#include "sim.h"

/* a power of two, larger than the number of allocations that the device has at a time here */
#define PIECES_MAX 1024

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __real_free(void *p);
void __wrap_free(void *p);

static struct {
	unsigned per_mille;
	size_t count;
	const void *pieces[PIECES_MAX]; /* unordered */
} heap;

void
alloc_begin(unsigned per_mille)
{
	heap.per_mille = per_mille;
}

size_t
alloc_count(void)
{
	return heap.count;
}

static void *
got(void *p)
{
	if (p) {
		SIM_CHECK(heap.count < PIECES_MAX, "memory is asked for again and again");
		heap.pieces[heap.count++] = p;
	}
	return p;
}

/* memory that the C library allocated by itself (getline) is not in the list */
static void
lost(const void *p)
{
	for (size_t i = heap.count; p && i > 0; i--) {
		if (heap.pieces[i - 1] == p) {
			heap.pieces[i - 1] = heap.pieces[--heap.count];
			return;
		}
	}
}

static bool
is_refused(void)
{
	if (!sim_chance(heap.per_mille))
		return false;
	SIM_TRACE("no memory");
	errno = ENOMEM;
	return true;
}

void *
__wrap_malloc(size_t size)
{
	return is_refused() ? NULL : got(__real_malloc(size));
}

void *
__wrap_calloc(size_t n, size_t size)
{
	return is_refused() ? NULL : got(__real_calloc(n, size));
}

void *
__wrap_realloc(void *p, size_t size)
{
	if (is_refused())
		return NULL;
	lost(p);
	return got(__real_realloc(p, size));
}

void
__wrap_free(void *p)
{
	lost(p);
	__real_free(p);
}
