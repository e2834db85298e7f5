/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * input.h -- splits a stream into records: lines (with their newline), or blocks of a fixed size
 *
 * The last record may lack its newline, or be shorter. The records together are the stream, byte for byte.
 */

#ifndef INPUT_H
#define INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input {
	int fd;
	size_t record_size; /* 0: records are lines */
	size_t read_max;    /* most bytes of one read; input_init() sets no limit */
	uint8_t *buf;
	size_t capacity;
	size_t begin; /* the bytes read but not returned yet are [begin, end) */
	size_t end;
	size_t searched; /* there is no newline before this offset */
	bool eof;
};

bool input_init(struct input *in, int fd, size_t record_size);
void input_fini(struct input *in);

/* reads once: 0, or -1 after it has told the user the reason; sets eof at the end */
int input_fill(struct input *in);

/* the next record, if all of it was read; valid until the next input_fill() */
bool input_next(struct input *in, const uint8_t **record, size_t *length);

/* true if all records were returned */
static inline bool
input_is_over(const struct input *in)
{
	return in->eof && in->begin == in->end;
}

#endif /* INPUT_H */
