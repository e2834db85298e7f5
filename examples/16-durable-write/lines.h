/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* lines.h -- lines of stdin, for a program that also waits for other events */

#ifndef LINES_H
#define LINES_H

#include <stdbool.h>
#include <stddef.h>

#define LINE_MAX_SIZE 256 /* in bytes, with the terminating zero; a longer line comes in parts */

struct lines {
	char buf[LINE_MAX_SIZE];
	size_t len; /* bytes read but not taken yet */
	bool at_end;
};

/*
 * Reads what there is; call it when stdin is readable. Returns 0, or -1 after it has told the user the reason
 */
int lines_read(struct lines *lines);

/* true if there is a line to take */
bool lines_ready(const struct lines *lines);

/* takes the line, without its newline */
void lines_take(struct lines *lines, char line[static LINE_MAX_SIZE]);

#endif /* LINES_H */
