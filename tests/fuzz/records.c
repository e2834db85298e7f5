/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * records.c -- the records that carry a stream with check sums
 *
 * An input is a sequence of pieces. Each is one byte for its kind, two bytes for a number, and data. A piece
 * becomes a record with correct sums, a record with one bit flipped, or its bytes as they are. However the
 * stream is cut, the receiver must get the data of all records before the first wrong one, and nothing after
 * them.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "softrdma/wire/crc.h"
#include "softrdma/wire/records.h"

#define STREAM_MAX 4096

enum piece {
	GOOD = 0,
	FLIPPED = 1, /* the number says which bit */
	BARE = 2,    /* these bytes, without a header */
	PIECES = 4,  /* the kind is the byte modulo this */
	RECEIVE = 1 << 7,
};

static struct {
	struct softrdma_stream *stream;
	int fd[2];
	uint64_t number;
	uint8_t wanted[STREAM_MAX]; /* must arrive */
	size_t wanted_len, got;
	bool bare;     /* bytes that are no record of ours were sent; a fuzzer may find right sums for them */
	bool open_end; /* wrong bytes were sent: nothing after them may arrive */
	bool over;     /* the receiver has reported the end or an error */
} f;

static void
put_le(uint8_t *at, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

static size_t
make_record(uint8_t *at, const uint8_t *bytes, uint32_t len)
{
	uint8_t front[12];
	put_le(front, f.number++, 8);
	put_le(front + 8, len, 4);
	uint32_t sum = softrdma_crc32c(0, front, sizeof(front));
	put_le(at, len, 4);
	put_le(at + 4, sum, 4);
	put_le(at + 8, softrdma_crc32c(sum, bytes, len), 4);
	memcpy(at + SOFTRDMA_RECORD_HEADER, bytes, len);
	return SOFTRDMA_RECORD_HEADER + len;
}

static void
receive(size_t most)
{
	while (!f.over) {
		const uint8_t *bytes;
		ssize_t n = f.stream->ops->look(f.stream, &bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			FUZZ_CHECK(n == 0 || errno == EBADMSG || errno == EPROTO);
			FUZZ_CHECK(f.open_end);
			f.over = true;
			return;
		}
		size_t len = (size_t)n < most ? (size_t)n : most;
		if (f.bare && f.got == f.wanted_len) {
			f.stream->ops->take(f.stream, len);
			continue;
		}
		FUZZ_CHECK(len <= f.wanted_len - f.got && memcmp(bytes, f.wanted + f.got, len) == 0);
		f.got += len;
		f.stream->ops->take(f.stream, len);
	}
}

static void
send_piece(struct fuzz_input *in)
{
	uint8_t buf[SOFTRDMA_RECORD_HEADER + 256];
	const unsigned what = fuzz_u8(in);
	const unsigned number = fuzz_u16(in);
	const enum piece kind = what % PIECES;
	size_t len = number % 256 < in->left ? number % 256 : in->left;
	if (kind == BARE) {
		memcpy(buf, in->at, len);
		f.bare = f.bare || len > 0;
		f.open_end = f.open_end || len > 0;
	} else if (len > 0 && f.wanted_len + len <= STREAM_MAX) {
		if (!f.open_end && kind != FLIPPED) {
			memcpy(f.wanted + f.wanted_len, in->at, len);
			f.wanted_len += len;
		}
		size_t record = make_record(buf, in->at, (uint32_t)len);
		in->at += len;
		in->left -= len;
		len = record;
		if (kind == FLIPPED) {
			buf[number / 8 % len] ^= (uint8_t)(1u << number % 8);
			f.open_end = true;
		}
	} else {
		return;
	}
	if (kind == BARE) {
		in->at += len;
		in->left -= len;
	}
	FUZZ_CHECK(len == 0 || send(f.fd[0], buf, len, MSG_NOSIGNAL) == (ssize_t)len);
	if (what & RECEIVE)
		receive(1 + number / 256);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };

	memset(&f, 0, sizeof(f));
	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, f.fd) == 0);
	FUZZ_CHECK(softrdma_records_new(f.fd[1], &f.stream) == 0);
	while (in.left > 0)
		send_piece(&in);
	receive(SIZE_MAX);
	/* all good records have arrived; after them, nothing else may */
	FUZZ_CHECK(f.got == f.wanted_len);
	f.open_end = true;
	shutdown(f.fd[0], SHUT_WR);
	receive(SIZE_MAX);
	FUZZ_CHECK(f.over && f.got == f.wanted_len);
	f.stream->ops->delete (f.stream);
	close(f.fd[0]);
	close(f.fd[1]);
	return 0;
}
