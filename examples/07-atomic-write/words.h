/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * words.h -- a log of words in memory that clients write to, persistent if a file was given
 *
 *	offset  size
 *	     0    16  signature: the rest is valid
 *	    16     8  used: number of bytes of data in the log, little-endian
 *	    24  1024  data: words, each with a terminating zero
 *
 * Only used decides what is in the log. It is written atomically after the data, so each word is in the log
 * as a whole or not at all, whatever happens.
 */

#ifndef WORDS_H
#define WORDS_H

#include <stdint.h>

#include "persistent.h"

#define WORDS_USED_OFFSET 16
#define WORDS_USED_SIZE 8
#define WORDS_DATA_SIZE 1024
#define WORDS_SIZE (WORDS_USED_OFFSET + WORDS_USED_SIZE + WORDS_DATA_SIZE)

struct words {
	uint8_t *ptr;           /* WORDS_SIZE bytes */
	struct persistent file; /* file.map is NULL if the memory is volatile */
};

/*
 * Opens the log in the file, or in volatile memory if path is NULL. Returns 0, or -1 after it has told the
 * user the reason.
 */
int words_open(const char *path, struct words *words);
void words_close(struct words *words);

/* prints the log on stdout, one word per line */
void words_print(const struct words *words);

#endif /* WORDS_H */
