/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_records.c -- the byte stream in records: its data, in parts of any size, and damaged records */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "failing.h"
#include "softrdma/wire/crc.h"
#include "softrdma/wire/records.h"

#define HEADER SOFTRDMA_RECORD_HEADER

struct ends {
	int fd[2];
	struct softrdma_stream *stream[2];
};

static void
open_ends(struct ends *e)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, e->fd), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(softrdma_records_new(e->fd[i], &e->stream[i]), 0);
}

static void
close_ends(struct ends *e)
{
	for (int i = 0; i < 2; i++) {
		e->stream[i]->ops->delete (e->stream[i]);
		close(e->fd[i]);
	}
}

static uint8_t
byte_at(size_t at)
{
	return (uint8_t)(at * 7 + at / 251);
}

/* sends this number of bytes of the pattern, which begin at `at` */
static void
send_record(struct softrdma_stream *stream, size_t at, size_t len)
{
	uint8_t *room = stream->ops->record(stream);
	assert_non_null(room);
	for (size_t i = 0; i < len; i++)
		room[i] = byte_at(at + i);
	stream->ops->seal(stream, len);
}

/*
 * Receives everything available, at most `piece` bytes at a time. Returns the number of bytes; *error says
 * why the stream has ended (0: its end).
 */
static size_t
receive_all(struct softrdma_stream *stream, size_t at, size_t piece, int *error)
{
	size_t have = 0;
	for (;;) {
		const uint8_t *bytes;
		ssize_t n = stream->ops->look(stream, &bytes);
		if (n < 0 && errno == EINTR)
			continue;
		*error = n < 0 ? errno : 0;
		if (n <= 0)
			return have;
		size_t len = (size_t)n < piece ? (size_t)n : piece;
		for (size_t i = 0; i < len; i++)
			assert_int_equal(bytes[i], byte_at(at + have + i));
		stream->ops->take(stream, len);
		have += len;
	}
}

/* builds the bytes of a record, independently of the sender */
static size_t
make_record(uint8_t *at, uint64_t number, uint32_t length, const void *bytes)
{
	struct {
		uint64_t number;
		uint32_t length;
	} front = { number, length };
	uint32_t sum = softrdma_crc32c(0, &front, 12);
	memcpy(at, &length, 4);
	memcpy(at + 4, &sum, 4);
	sum = softrdma_crc32c(sum, bytes, length);
	memcpy(at + 8, &sum, 4);
	memcpy(at + HEADER, bytes, length);
	return HEADER + length;
}

static void
raw_write(int fd, const uint8_t *bytes, size_t len)
{
	assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* the bytes are those that the protocol describes */
static void
test_bytes(void **state)
{
	(void)state;
	struct ends e;
	uint8_t got[64], wanted[64];
	open_ends(&e);
	for (uint64_t number = 0; number < 3; number++) {
		uint8_t *room = e.stream[0]->ops->record(e.stream[0]);
		memcpy(room, "some bytes", 10);
		e.stream[0]->ops->seal(e.stream[0], 10);
		size_t len = make_record(wanted, number, 10, "some bytes");
		assert_int_equal(recv(e.fd[1], got, sizeof(got), 0), len);
		assert_memory_equal(got, wanted, len);
	}
	close_ends(&e);
}

/* the longest valid record is longer than those that this side sends */
static void
test_longest(void **state)
{
	(void)state;
	static uint8_t bytes[SOFTRDMA_RECORD_MAX], record[HEADER + SOFTRDMA_RECORD_MAX];
	struct ends e;
	int error;
	open_ends(&e);
	assert_true(e.stream[0]->ops->record_size < SOFTRDMA_RECORD_MAX);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = byte_at(i);
	raw_write(e.fd[0], record, make_record(record, 0, sizeof(bytes), bytes));
	assert_int_equal(receive_all(e.stream[1], 0, sizeof(bytes), &error), sizeof(bytes));
	assert_int_equal(error, EAGAIN);
	close_ends(&e);
}

/* records of all sizes, received in parts of all sizes */
static void
test_sizes(void **state)
{
	(void)state;
	static const size_t sizes[] = { 1, 2, 11, 12, 13, 4096, 16384, SOFTRDMA_RECORD_SENT - 1,
		SOFTRDMA_RECORD_SENT };
	struct ends e;
	int error;
	open_ends(&e);
	for (int way = 0; way < 2; way++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			for (size_t piece = 1; piece < 100000; piece = piece * 31 + 1) {
				send_record(e.stream[way], i, sizes[i]);
				assert_int_equal(receive_all(e.stream[!way], i, piece, &error), sizes[i]);
				assert_int_equal(error, EAGAIN);
				assert_false(e.stream[!way]->ops->has_input(e.stream[!way]));
			}
		}
	}
	close_ends(&e);
}

/* many records in one call, and byte by byte */
static void
test_pieces(void **state)
{
	(void)state;
	struct ends e;
	uint8_t bytes[16 * (HEADER + 40)], pattern[40];
	size_t len = 0;
	int error;
	for (uint64_t number = 0; number < 16; number++) {
		for (size_t i = 0; i < sizeof(pattern); i++)
			pattern[i] = byte_at(number * sizeof(pattern) + i);
		len += make_record(bytes + len, number, sizeof(pattern), pattern);
	}
	open_ends(&e);
	raw_write(e.fd[0], bytes, len);
	assert_int_equal(receive_all(e.stream[1], 0, 7, &error), 16 * sizeof(pattern));
	assert_int_equal(error, EAGAIN);
	close_ends(&e);

	open_ends(&e);
	size_t have = 0;
	for (size_t i = 0; i < len; i++) {
		raw_write(e.fd[0], bytes + i, 1);
		size_t n = receive_all(e.stream[1], have, 1000, &error);
		assert_int_equal(error, EAGAIN);
		assert_int_equal(n, (i + 1) % (HEADER + 40) == 0 ? 40 : 0);
		assert_false(e.stream[1]->ops->has_input(e.stream[1]));
		have += n;
	}
	assert_int_equal(have, 16 * sizeof(pattern));
	shutdown(e.fd[0], SHUT_WR);
	assert_int_equal(receive_all(e.stream[1], 0, 1, &error), 0);
	assert_int_equal(error, 0);
	close_ends(&e);
}

/* one flipped bit, anywhere: the records before it arrive, and nothing after them */
static void
test_flipped_bits(void **state)
{
	(void)state;
	uint8_t bytes[3 * (HEADER + 20)], pattern[20];
	size_t len = 0;
	for (uint64_t number = 0; number < 3; number++) {
		for (size_t i = 0; i < sizeof(pattern); i++)
			pattern[i] = byte_at(number * sizeof(pattern) + i);
		len += make_record(bytes + len, number, sizeof(pattern), pattern);
	}
	for (size_t bit = 0; bit < 8 * len; bit++) {
		struct ends e;
		int error;
		open_ends(&e);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		raw_write(e.fd[0], bytes, len);
		size_t good = bit / 8 / (HEADER + sizeof(pattern));
		assert_int_equal(receive_all(e.stream[1], 0, 1000, &error), good * sizeof(pattern));
		assert_int_equal(error, EBADMSG);
		/* and the error is permanent */
		assert_int_equal(receive_all(e.stream[1], 0, 1000, &error), 0);
		assert_int_equal(error, EBADMSG);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		close_ends(&e);
	}
}

/* a damaged length is noticed at once, even after valid bytes; the receiver does not wait for its data */
static void
test_damaged_length(void **state)
{
	(void)state;
	struct ends e;
	uint8_t bytes[2 * (HEADER + 4)];
	int error;
	size_t len = make_record(bytes, 0, 4, (uint8_t[]){ byte_at(0), byte_at(1), byte_at(2), byte_at(3) });
	make_record(bytes + len, 1, 4, "more");
	bytes[len + 2] ^= 1; /* 65540 bytes */
	open_ends(&e);
	raw_write(e.fd[0], bytes, len + HEADER);
	const uint8_t *at;
	assert_int_equal(e.stream[1]->ops->look(e.stream[1], &at), 4);
	e.stream[1]->ops->take(e.stream[1], 4);
	assert_true(e.stream[1]->ops->has_input(e.stream[1])); /* the rest will never come */
	assert_int_equal(receive_all(e.stream[1], 4, 100, &error), 0);
	assert_int_equal(error, EBADMSG);
	close_ends(&e);
}

/* lost, repeated or swapped records, each with right sums */
static void
test_wrong_order(void **state)
{
	(void)state;
	static const uint64_t numbers[] = { 1, 2, UINT64_MAX, 1ull << 32 };
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct ends e;
		uint8_t bytes[HEADER + 4] = { 0 };
		int error;
		open_ends(&e);
		raw_write(e.fd[0], bytes, make_record(bytes, numbers[i], 4, "text"));
		assert_int_equal(receive_all(e.stream[1], 0, 100, &error), 0);
		assert_int_equal(error, EBADMSG);
		close_ends(&e);
	}
	struct ends e;
	uint8_t bytes[HEADER + 1];
	int error;
	const uint8_t first = byte_at(0);
	open_ends(&e);
	size_t len = make_record(bytes, 0, 1, &first);
	raw_write(e.fd[0], bytes, len);
	raw_write(e.fd[0], bytes, len);
	assert_int_equal(receive_all(e.stream[1], 0, 100, &error), 1);
	assert_int_equal(error, EBADMSG);
	close_ends(&e);
}

/* lengths that no sender uses, with right sums */
static void
test_lengths_of_nobody(void **state)
{
	(void)state;
	static const uint32_t lengths[] = { 0, SOFTRDMA_RECORD_MAX + 1, 1u << 31, UINT32_MAX };
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct ends e;
		struct {
			uint64_t number;
			uint32_t length;
		} front = { 0, lengths[i] };
		uint8_t header[HEADER] = { 0 };
		uint32_t sum = softrdma_crc32c(0, &front, 12);
		int error;
		memcpy(header, &lengths[i], 4);
		memcpy(header + 4, &sum, 4);
		memcpy(header + 8, &sum, 4);
		open_ends(&e);
		raw_write(e.fd[0], header, sizeof(header));
		assert_int_equal(receive_all(e.stream[1], 0, 100, &error), 0);
		assert_int_equal(error, EPROTO);
		close_ends(&e);
	}
}

/* The socket is full. The rest of a record is sent when there is room, and no other record before it. */
static void
test_full_socket(void **state)
{
	(void)state;
	struct ends e;
	size_t sent = 0, have = 0;
	int error;
	open_ends(&e);
	struct softrdma_stream *s = e.stream[0];
	assert_false(s->ops->wants_space(s));
	while (!s->ops->wants_space(s)) {
		send_record(s, sent, SOFTRDMA_RECORD_SENT);
		sent += SOFTRDMA_RECORD_SENT;
	}
	assert_null(s->ops->record(s));
	assert_int_equal(errno, EAGAIN);
	assert_false(s->ops->end(s));
	while (s->ops->wants_space(s)) {
		have += receive_all(e.stream[1], have, 1u << 20, &error);
		assert_true(s->ops->flush(s));
	}
	assert_true(s->ops->end(s));
	have += receive_all(e.stream[1], have, 1u << 20, &error);
	assert_int_equal(have, sent);
	/* the other end is closed */
	close(e.fd[1]);
	send_record(s, 0, 1);
	assert_null(s->ops->record(s));
	assert_int_equal(errno, EPIPE);
	assert_false(s->ops->flush(s));
	assert_false(s->ops->wants_space(s));
	assert_true(s->ops->end(s));
	e.fd[1] = dup(e.fd[0]);
	close_ends(&e);
}

/* the record that is looked at, which must be the one that begins at `at`, is taken */
static void
take_record(struct softrdma_stream *stream, size_t at, size_t len)
{
	const uint8_t *bytes;
	assert_int_equal(stream->ops->look(stream, &bytes), (ssize_t)len);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(bytes[i], byte_at(at + i));
	stream->ops->take(stream, len);
}

/*
 * A record that was received with an earlier one is served without a read. Bytes that have come since then may have been
 * reported while a FLUSH ran, and are not reported again. So the stream may have input until a read shows that it has none.
 */
static void
test_input_that_was_reported_before(void **state)
{
	(void)state;
	struct ends e;
	const uint8_t *bytes;
	open_ends(&e);
	send_record(e.stream[0], 0, 10);
	send_record(e.stream[0], 10, 20);
	take_record(e.stream[1], 0, 10); /* one read has emptied the socket */
	assert_true(e.stream[1]->ops->has_input(e.stream[1]));
	send_record(e.stream[0], 30, 5);
	take_record(e.stream[1], 10, 20);
	assert_true(e.stream[1]->ops->has_input(e.stream[1]));
	take_record(e.stream[1], 30, 5);
	assert_int_equal(e.stream[1]->ops->look(e.stream[1], &bytes), -1);
	assert_int_equal(errno, EAGAIN);
	assert_false(e.stream[1]->ops->has_input(e.stream[1]));
	close_ends(&e);
}

static void
test_failures(void **state)
{
	(void)state;
	struct ends e;
	struct softrdma_stream *stream = NULL;
	int error;
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_int_equal(softrdma_records_new(-1, &stream), ENOMEM);
	assert_null(stream);
	open_ends(&e);
	fail_call(FAIL_MINE, "send", 0, 1, EINTR);
	send_record(e.stream[0], 0, 5);
	fail_call(FAIL_MINE, "recv", 0, 1, ECONNRESET);
	assert_int_equal(receive_all(e.stream[1], 0, 5, &error), 0);
	assert_int_equal(error, ECONNRESET);
	assert_int_equal(receive_all(e.stream[1], 0, 5, &error), 5);
	close_ends(&e);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_longest),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_flipped_bits),
		cmocka_unit_test(test_damaged_length),
		cmocka_unit_test(test_wrong_order),
		cmocka_unit_test(test_lengths_of_nobody),
		cmocka_unit_test(test_full_socket),
		cmocka_unit_test(test_input_that_was_reported_before),
		cmocka_unit_test(test_failures),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
