/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* pattern.c -- patterns of bytes that depend on their position */

#include <string.h>

#include "pattern.h"

/*
 * The other process orders these accesses and those of a device on its behalf, by a message to it and one
 * from it. A thread sanitizer sees only one process, and would report each of them as a race.
 */
#define ORDERED_ELSEWHERE __attribute__((no_sanitize("thread")))

/* the finalizer of splitmix64: adjacent offsets or seeds give unrelated values */
static uint64_t
word_at(uint64_t seed, uint64_t index)
{
	uint64_t z = seed * 0x9e3779b97f4a7c15ULL + (index + 1) * 0xd1342543de82ef95ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static uint8_t
byte_at(uint64_t seed, uint64_t offset)
{
	return (uint8_t)(word_at(seed, offset / 8) >> (8 * (offset % 8)));
}

/* number of bytes before the next multiple of 8, at most len */
static size_t
head_len(size_t len, uint64_t offset)
{
	size_t head = (size_t)((8 - offset % 8) % 8);

	return head < len ? head : len;
}

ORDERED_ELSEWHERE static void
fill_bytes(uint8_t *buf, size_t len, uint64_t seed, uint64_t offset)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = byte_at(seed, offset + i);
}

ORDERED_ELSEWHERE void
pattern_fill(void *buf, size_t len, uint64_t seed, uint64_t offset)
{
	uint8_t *p = buf;
	size_t i = head_len(len, offset);

	fill_bytes(p, i, seed, offset);
	/* x86-64 and arm64 are little-endian, like byte_at() */
	for (; len - i >= 8; i += 8) {
		uint64_t word = word_at(seed, (offset + i) / 8);

		memcpy(p + i, &word, 8);
	}
	fill_bytes(p + i, len - i, seed, offset + i);
}

ORDERED_ELSEWHERE static ptrdiff_t
check_bytes(const uint8_t *buf, size_t from, size_t to, uint64_t seed, uint64_t offset)
{
	for (size_t i = from; i < to; i++) {
		if (buf[i] != byte_at(seed, offset + i))
			return (ptrdiff_t)i;
	}
	return -1;
}

ORDERED_ELSEWHERE ptrdiff_t
pattern_check(const void *buf, size_t len, uint64_t seed, uint64_t offset)
{
	const uint8_t *p = buf;
	size_t i = head_len(len, offset);
	ptrdiff_t bad = check_bytes(p, 0, i, seed, offset);

	if (bad >= 0)
		return bad;
	for (; len - i >= 8; i += 8) {
		uint64_t word;

		memcpy(&word, p + i, 8);
		if (word != word_at(seed, (offset + i) / 8))
			return check_bytes(p, i, i + 8, seed, offset);
	}
	return check_bytes(p, i, len, seed, offset);
}

ORDERED_ELSEWHERE ptrdiff_t
pattern_check_byte(const void *buf, size_t len, uint8_t value)
{
	const uint8_t *p = buf;

	for (size_t i = 0; i < len; i++) {
		if (p[i] != value)
			return (ptrdiff_t)i;
	}
	return -1;
}
