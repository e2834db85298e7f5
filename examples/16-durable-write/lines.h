/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* lines.h -- lines of stdin, for a program that has other things to wait for as well */

#ifndef LINES_H
#define LINES_H

#include <stdbool.h>
#include <stddef.h>

#define LINE_MAX_SIZE 256 /* bytes with the end; a longer line comes in pieces */

struct lines {
	char buf[LINE_MAX_SIZE];
	size_t len; /* of what was read and not taken yet */
	bool at_end;
};

/* stdin is readable: read what there is. Returns 0, or -1 after it has told the user why */
int lines_read(struct lines *lines);

/* is there a line to take? */
bool lines_ready(const struct lines *lines);

/* take it, without its newline */
void lines_take(struct lines *lines, char line[static LINE_MAX_SIZE]);

#endif /* LINES_H */
