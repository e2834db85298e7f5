/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* records.c -- the byte stream of a connection in records, each with checksums */

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "softrdma/wire/crc.h"
#include "softrdma/wire/records.h"

struct softrdma_records {
	struct softrdma_stream stream; /* first */
	int fd;
	bool drained;            /* the last look has emptied the socket */
	bool waiting;            /* in holds the beginning of a record whose rest has not arrived */
	bool broken;             /* nothing can be sent from now on */
	int bad;                 /* errno value because of which receiving has ended; 0: it has not */
	uint64_t sent, received; /* the numbers of the next records */
	uint32_t out_begin, out_end;
	uint32_t in_begin, in_end;
	uint32_t verified; /* number of verified bytes in in, from in_begin on, that may be taken */
	uint8_t out[SOFTRDMA_RECORD_HEADER + SOFTRDMA_RECORD_SENT];
	uint8_t in[SOFTRDMA_RECORDS_ROOM];
};
static_assert(offsetof(struct softrdma_records, stream) == 0, "of() casts it");

_Static_assert(SOFTRDMA_RECORDS_ROOM >= SOFTRDMA_RECORD_HEADER + SOFTRDMA_RECORD_MAX, "a record fits");

static struct softrdma_records *
of(struct softrdma_stream *stream)
{
	return (struct softrdma_records *)stream;
}

static const struct softrdma_records *
of_const(const struct softrdma_stream *stream)
{
	return (const struct softrdma_records *)stream;
}

static void
put32(uint8_t *at, uint32_t value)
{
	value = htole32(value);
	memcpy(at, &value, sizeof(value));
}

static uint32_t
get32(const uint8_t *at)
{
	uint32_t value;
	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

static uint32_t
sum_of_length(uint64_t number, uint32_t len)
{
	uint8_t bytes[12];
	put32(bytes, (uint32_t)number);
	put32(bytes + 4, (uint32_t)(number >> 32));
	put32(bytes + 8, len);
	return softrdma_crc32c(0, bytes, sizeof(bytes));
}

/* --- receiving --- */

/* 0: the next record is intact; EAGAIN: a part of it has not arrived; EBADMSG or EPROTO: it is bad */
static int
look_at_record(struct softrdma_records *records)
{
	const uint8_t *header = records->in + records->in_begin;
	const uint32_t there = records->in_end - records->in_begin;
	if (there < SOFTRDMA_RECORD_HEADER)
		return EAGAIN;
	const uint32_t len = get32(header);
	const uint32_t sum = sum_of_length(records->received, len);
	if (sum != get32(header + 4))
		return EBADMSG;
	if (len == 0 || len > SOFTRDMA_RECORD_MAX)
		return EPROTO;
	if (there - SOFTRDMA_RECORD_HEADER < len)
		return EAGAIN;
	if (softrdma_crc32c(sum, header + SOFTRDMA_RECORD_HEADER, len) != get32(header + 8))
		return EBADMSG;
	records->received++;
	records->in_begin += SOFTRDMA_RECORD_HEADER;
	records->verified = len;
	return 0;
}

/* verifies the next record, unless verified bytes are left; 0 or an errno value as above */
static int
verify(struct softrdma_records *records)
{
	if (records->verified > 0 || records->bad)
		return records->bad;
	int error = look_at_record(records);
	records->waiting = error == EAGAIN;
	if (!records->waiting)
		records->bad = error;
	return error;
}

/* as recv(2); only one call, so that a peer that sends in small amounts does not delay other connections */
static ssize_t
receive(struct softrdma_records *records)
{
	/* moves an incomplete record to the beginning, where all of it has room */
	const uint32_t there = records->in_end - records->in_begin;
	if (there > 0 && records->in_begin > 0)
		memmove(records->in, records->in + records->in_begin, there);
	records->in_begin = 0;
	records->in_end = there;
	const size_t room = sizeof(records->in) - there;
	ssize_t n = recv(records->fd, records->in + there, room, MSG_DONTWAIT);
	if (n > 0) {
		records->in_end += (uint32_t)n;
		records->stream.came = true;
	}
	records->drained = n < 0 ? errno == EAGAIN : (size_t)n < room;
	return n;
}

static ssize_t
look(struct softrdma_stream *stream, const uint8_t **bytes)
{
	struct softrdma_records *records = of(stream);
	/* the socket's event may have been skipped while a FLUSH was in progress: only a read shows what is there */
	records->drained = false;
	int error = verify(records);
	if (error == EAGAIN) {
		ssize_t n = receive(records);
		if (n <= 0)
			return n;
		error = verify(records);
	}
	if (error) {
		/* the rest of the record may have arrived meanwhile without another event: the caller looks again */
		errno = error == EAGAIN ? EINTR : error;
		return -1;
	}
	*bytes = records->in + records->in_begin;
	return records->verified;
}

static void
take(struct softrdma_stream *stream, size_t len)
{
	struct softrdma_records *records = of(stream);
	assert(len <= records->verified);
	records->in_begin += (uint32_t)len;
	records->verified -= (uint32_t)len;
}

static bool
has_input(const struct softrdma_stream *stream)
{
	const struct softrdma_records *records = of_const(stream);
	/* a header not verified yet counts as input: it may be damaged, and nothing may follow it */
	return !records->drained || (records->in_begin < records->in_end && !records->waiting);
}

/* --- sending --- */

static bool
flush(struct softrdma_stream *stream)
{
	struct softrdma_records *records = of(stream);
	while (records->out_begin < records->out_end) {
		ssize_t n = softrdma_stream_send(records->fd, NULL, records->out + records->out_begin,
			records->out_end - records->out_begin);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			records->out_begin = records->out_end; /* the peer cannot receive it */
			records->broken = true;
		} else {
			records->out_begin += (uint32_t)n;
		}
	}
	return !records->broken;
}

static uint8_t *
record(struct softrdma_stream *stream)
{
	struct softrdma_records *records = of(stream);
	if (!flush(stream))
		errno = EPIPE;
	else if (records->out_begin < records->out_end)
		errno = EAGAIN;
	else
		return records->out + SOFTRDMA_RECORD_HEADER;
	return NULL;
}

static void
seal(struct softrdma_stream *stream, size_t len)
{
	struct softrdma_records *records = of(stream);
	assert(records->out_begin == records->out_end && len > 0 && len <= SOFTRDMA_RECORD_SENT);
	const uint32_t sum = sum_of_length(records->sent++, (uint32_t)len);
	put32(records->out, (uint32_t)len);
	put32(records->out + 4, sum);
	put32(records->out + 8, softrdma_crc32c(sum, records->out + SOFTRDMA_RECORD_HEADER, len));
	records->out_begin = 0;
	records->out_end = SOFTRDMA_RECORD_HEADER + (uint32_t)len;
	flush(stream);
}

static bool
wants_space(const struct softrdma_stream *stream)
{
	const struct softrdma_records *records = of_const(stream);
	return records->out_begin < records->out_end;
}

/* nothing precedes the end of the output but the rest of the last record */
static bool
end(struct softrdma_stream *stream)
{
	flush(stream);
	if (wants_space(stream))
		return false;
	shutdown(of(stream)->fd, SHUT_WR);
	return true;
}

static void delete (struct softrdma_stream *stream)
{
	free(of(stream));
}

int
softrdma_records_new(int fd, struct softrdma_stream **stream)
{
	static const struct softrdma_stream_ops ops = {
		.look = look,
		.take = take,
		.has_input = has_input,
		.record_size = SOFTRDMA_RECORD_SENT,
		.record = record,
		.seal = seal,
		.flush = flush,
		.wants_space = wants_space,
		.end = end,
		.delete = delete,
	};
	/* calloc leaves the pages of the buffers unallocated until their first use */
	struct softrdma_records *records = calloc(1, sizeof(*records));
	if (records == NULL)
		return ENOMEM;
	records->stream.ops = &ops;
	records->fd = fd;
	records->drained = true;
	*stream = &records->stream;
	return 0;
}
