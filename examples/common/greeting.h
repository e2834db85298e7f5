/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * greeting.h -- memory with a text in it, persistent if a file was given
 *
 * In a file, a signature before the text tells that the text is valid. It is written and made durable only
 * after the text.
 */

#ifndef GREETING_H
#define GREETING_H

#include <stddef.h>

#include "persistent.h"

/* the client writes at most this many bytes, and the server has room for them */
#define GREETING_SIZE 1024

struct greeting_memory {
	void *ptr;
	size_t size;
	size_t text_offset;     /* offset of the text (GREETING_SIZE bytes) in the memory */
	struct persistent file; /* file.map is NULL if the memory is volatile */
};

/*
 * Opens the GREETING_SIZE bytes of the file from the offset on (after the signature), or volatile memory if
 * path is NULL. If there is no text yet, it writes initial. Returns 0, or -1 after it has told the user the
 * reason.
 */
int greeting_open(const char *path, size_t offset, const char *initial, struct greeting_memory *mem);

void greeting_close(struct greeting_memory *mem);

/* the text; it always has a terminating zero, whatever the other side wrote */
char *greeting_text(struct greeting_memory *mem);

/* prints the text on stdout after a label, as one line, whatever the other side wrote */
void greeting_print(const char *label, struct greeting_memory *mem);

/* replaces the text, durably if the memory is persistent */
void greeting_replace(struct greeting_memory *mem, const char *text);

/* makes the text durable if the memory is persistent and the device has written it */
void greeting_persist(struct greeting_memory *mem);

/*
 * The client's last step, after the server has the text: replaces it by the other of two texts, and prints
 * that. A client begins with the first of them.
 */
#define GREETING_FIRST "Hello world!"
void greeting_translate(struct greeting_memory *mem);

#endif /* GREETING_H */
