/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "connection.h"
#include "counter.h"
#include "text.h"
#include "words.h"

#define SIGNATURE "RPMA-WORDS-LOG1" /* 16 bytes with the terminating zero */

static_assert(sizeof(SIGNATURE) == WORDS_USED_OFFSET, "the signature is all that is before used");

/* the signature makes the log valid, so it is written after everything else */
static void
format(struct words *words)
{
	memset(words->ptr, 0, WORDS_SIZE);
	words->file.persist(words->ptr, WORDS_SIZE);
	memcpy(words->ptr, SIGNATURE, sizeof(SIGNATURE));
}

static int
open_file(const char *path, struct words *words)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		perror(path);
		return -1;
	}
	int ret = persistent_map(fd, path, true, &words->file);
	close(fd);
	if (ret)
		return -1;
	if (words->file.size < WORDS_SIZE) {
		fprintf(stderr, "%s: too small: %d bytes are needed\n", path, WORDS_SIZE);
		persistent_unmap(&words->file);
		return -1;
	}

	words->ptr = words->file.ptr;
	if (memcmp(words->ptr, SIGNATURE, sizeof(SIGNATURE)) != 0)
		format(words);
	/* also if it was there: an earlier server may have died before it was durable */
	words->file.persist(words->ptr, sizeof(SIGNATURE));

	return 0;
}

int
words_open(const char *path, struct words *words)
{
	*words = (struct words){ 0 };
	if (path)
		return open_file(path, words);

	fprintf(stderr, "no persistent memory was given: volatile memory is used\n");
	words->ptr = memory_new(WORDS_SIZE);

	return words->ptr ? 0 : -1;
}

void
words_close(struct words *words)
{
	if (words->file.map)
		persistent_unmap(&words->file);
	else
		free(words->ptr);
	words->ptr = NULL;
}

void
words_print(const struct words *words)
{
	const char *data = (const char *)words->ptr + WORDS_USED_OFFSET + WORDS_USED_SIZE;
	uint64_t used = counter_get(words->ptr + WORDS_USED_OFFSET);
	char word[WORDS_DATA_SIZE];

	/* a client wrote this, so it may be any number */
	if (used > WORDS_DATA_SIZE)
		used = WORDS_DATA_SIZE;
	printf("The log holds:\n");
	for (size_t at = 0; at < used; at += strnlen(data + at, used - at) + 1)
		printf("- %s\n", text_copy(word, sizeof(word), data + at, used - at));
}
