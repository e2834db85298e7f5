/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lines.h"

/* length in bytes of the next line, or of all bytes if it has no end yet */
static size_t
line_len(const struct lines *lines)
{
	const char *end = memchr(lines->buf, '\n', lines->len);

	return end ? (size_t)(end - lines->buf) : lines->len;
}

bool
lines_ready(const struct lines *lines)
{
	/* keeps one byte free for the terminating zero */
	return line_len(lines) < lines->len || lines->len == LINE_MAX_SIZE - 1 ||
		(lines->at_end && lines->len > 0);
}

int
lines_read(struct lines *lines)
{
	assert(!lines_ready(lines));

	ssize_t n = read(STDIN_FILENO, lines->buf + lines->len, LINE_MAX_SIZE - 1 - lines->len);
	if (n < 0 && errno != EINTR) {
		perror("stdin");
		return -1;
	}
	if (n == 0)
		lines->at_end = true;
	if (n > 0)
		lines->len += (size_t)n;

	return 0;
}

void
lines_take(struct lines *lines, char line[static LINE_MAX_SIZE])
{
	assert(lines_ready(lines));

	size_t len = line_len(lines);
	size_t used = len < lines->len ? len + 1 : len;
	memcpy(line, lines->buf, len);
	line[len] = '\0';
	lines->len -= used;
	memmove(lines->buf, lines->buf + used, lines->len);
}
