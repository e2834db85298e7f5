/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * words.h -- a log of words in memory that clients write to, persistent if a file was given
 *
 *	offset  size
 *	     0    16  signature: what follows is valid
 *	    16     8  used: that many bytes of the data are in the log, little-endian
 *	    24  1024  data: words, each with its end
 *
 * Only used decides what is in the log, and it is written in one piece after the data: whatever happens, each
 * word is in it as a whole or not at all.
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

/* the log in the file, or in volatile memory if path is NULL. Returns 0, or -1 after it has told the user
 * why. */
int words_open(const char *path, struct words *words);
void words_close(struct words *words);

/* what is in the log, a line for each word on stdout */
void words_print(const struct words *words);

#endif /* WORDS_H */
