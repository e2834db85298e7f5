/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input.h"
#include "log_format.h"

#define CAPACITY_MIN ((size_t)1 << 20)

bool
input_init(struct input *in, int fd, size_t record_size)
{
	size_t capacity = record_size > CAPACITY_MIN ? record_size : CAPACITY_MIN;

	*in = (struct input){ .fd = fd,
		.record_size = record_size,
		.read_max = SIZE_MAX,
		.capacity = capacity };
	in->buf = malloc(capacity);
	return in->buf != NULL;
}

void
input_fini(struct input *in)
{
	free(in->buf);
	in->buf = NULL;
}

/*
 * Moves the rest to the front. If it fills the buffer, it is part of one long record, and the buffer grows.
 */
static int
make_room(struct input *in)
{
	size_t left = in->end - in->begin;

	if (left && in->begin)
		memmove(in->buf, in->buf + in->begin, left);
	in->searched -= in->begin;
	in->begin = 0;
	in->end = left;
	if (left < in->capacity)
		return 0;

	assert(left <= LOG_PAYLOAD_MAX);
	/* one byte more than the longest record: the end of the input may follow it */
	size_t capacity = in->capacity < LOG_PAYLOAD_MAX / 2 ? 2 * in->capacity : LOG_PAYLOAD_MAX + 1;
	uint8_t *buf = realloc(in->buf, capacity);
	if (buf == NULL) {
		fprintf(stderr, "no memory for a line of more than %zu bytes\n", in->capacity);
		return -1;
	}
	in->buf = buf;
	in->capacity = capacity;

	return 0;
}

/* true if the first line is longer than a record may be */
static bool
is_too_long(const struct input *in)
{
	return in->end - in->begin > LOG_PAYLOAD_MAX &&
		memchr(in->buf + in->begin, '\n', LOG_PAYLOAD_MAX) == NULL;
}

int
input_fill(struct input *in)
{
	if (make_room(in))
		return -1;

	size_t room = in->capacity - in->end;
	ssize_t n = read(in->fd, in->buf + in->end, room < in->read_max ? room : in->read_max);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n < 0) {
		perror("standard input");
		return -1;
	}
	in->end += (size_t)n;
	in->eof = n == 0;
	if (is_too_long(in)) {
		fprintf(stderr, "the input has a line of more than %u bytes: use -b\n", LOG_PAYLOAD_MAX);
		return -1;
	}

	return 0;
}

static size_t
find_end_of_line(struct input *in)
{
	const uint8_t *newline = memchr(in->buf + in->searched, '\n', in->end - in->searched);

	if (newline)
		return (size_t)(newline - in->buf) + 1 - in->begin;
	in->searched = in->end;
	return 0;
}

bool
input_next(struct input *in, const uint8_t **record, size_t *length)
{
	size_t left = in->end - in->begin;
	size_t len = in->record_size;

	if (len == 0)
		len = find_end_of_line(in);
	else if (left < len)
		len = 0;
	if (len == 0 && in->eof)
		len = left;
	if (len == 0)
		return false;

	*record = in->buf + in->begin;
	*length = len;
	in->begin += len;
	in->searched = in->begin;
	return true;
}
