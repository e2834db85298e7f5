/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * greeting.h -- memory with a text in it, persistent if a file was given
 *
 * In a file the text has a signature before it, which says that the text is valid: it is written, and made
 * durable, only after the text was.
 */

#ifndef GREETING_H
#define GREETING_H

#include <stddef.h>

#include "persistent.h"

/* the client writes as much, and the server has room for as much */
#define GREETING_SIZE 1024

struct greeting_memory {
	void *ptr;
	size_t size;
	size_t text_offset;     /* of GREETING_SIZE bytes within the memory */
	struct persistent file; /* file.map is NULL if the memory is volatile */
};

/*
 * The GREETING_SIZE bytes of the file from the offset on (and the signature before them), or, if path is
 * NULL, volatile memory. Where no text is yet, initial is put. Returns 0, or -1 after it has told the user
 * why.
 */
int greeting_open(const char *path, size_t offset, const char *initial, struct greeting_memory *mem);

void greeting_close(struct greeting_memory *mem);

/* the text; it has an end, whatever was written there from afar */
char *greeting_text(struct greeting_memory *mem);

/* the text on stdout, behind a label; whoever wrote it, it is one line */
void greeting_print(const char *label, struct greeting_memory *mem);

/* put another text in its place, durably if the memory is persistent */
void greeting_replace(struct greeting_memory *mem, const char *text);

/* make the text durable if the memory is persistent: the device has put it there */
void greeting_persist(struct greeting_memory *mem);

/*
 * What the clients do with a text that the server has: put the other one of two in its place, and say so. The
 * first of them is where a client begins.
 */
#define GREETING_FIRST "Hello world!"
void greeting_translate(struct greeting_memory *mem);

#endif /* GREETING_H */
