/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* pattern.c -- bytes that depend on where and when they were written, to detect wrong data */

#include <endian.h>
#include <string.h>

#include "pattern.h"

#define WORD sizeof(uint64_t)

/* splitmix64: every bit of the input reaches every bit of the output */
static uint64_t
mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

uint64_t
pattern_key(uint32_t conn, uint64_t sequence)
{
	return mix(mix(conn) + sequence);
}

uint64_t
pattern_answer_key(uint32_t conn, uint64_t sequence)
{
	return mix(pattern_key(conn, sequence));
}

/* copies the bytes of the word at position, from position on; returns how many */
static size_t
piece_at(uint64_t key, uint64_t position, uint8_t piece[static WORD])
{
	uint64_t word = htole64(mix(key + position / WORD));
	size_t skip = (size_t)(position % WORD);
	memcpy(piece, (const uint8_t *)&word + skip, WORD - skip);
	return WORD - skip;
}

void
pattern_fill(void *mem, size_t len, uint64_t key, uint64_t position)
{
	uint8_t *bytes = mem;
	uint8_t piece[WORD];
	for (size_t done = 0; done < len;) {
		size_t n = piece_at(key, position + done, piece);
		n = n < len - done ? n : len - done;
		memcpy(bytes + done, piece, n);
		done += n;
	}
}

bool
pattern_check(const void *mem, size_t len, uint64_t key, uint64_t position, uint64_t *wrong)
{
	const uint8_t *bytes = mem;
	uint8_t piece[WORD];
	for (size_t done = 0; done < len;) {
		size_t n = piece_at(key, position + done, piece);
		n = n < len - done ? n : len - done;
		if (memcmp(bytes + done, piece, n) != 0) {
			size_t i = 0;
			while (bytes[done + i] == piece[i])
				i++;
			*wrong = position + done + i;
			return false;
		}
		done += n;
	}
	return true;
}
