/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* replicated_log_format.c -- the pure parts of the replicated log: its format and its input */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "input.h"
#include "log_format.h"

#define SIZE 65536

static uint8_t file[SIZE];

static void
put_u64(uint8_t *dst, uint64_t value, size_t len)
{
	for (size_t i = 0; i < len; i++)
		dst[i] = (uint8_t)(value >> (8 * i));
}

/* makes a log with this number of records, whose lengths are 0, 1, 2, ...; returns its tail */
static size_t
fill(uint64_t count)
{
	uint8_t payload[256];
	size_t tail = LOG_HEADER_SIZE;

	assert_true(count <= sizeof(payload));
	log_header_encode(file, SIZE, 7);
	for (uint64_t i = 0; i < count; i++) {
		memset(payload, (int)(i + 1), sizeof(payload));
		struct log_record record = { .sequence = i,
			.epoch = 1 + i / 10,
			.payload = payload,
			.length = i };
		size_t size = log_record_encode(file + tail, SIZE - tail, &record);
		assert_int_equal(size, log_record_size(i));
		tail += size;
	}
	log_word_encode(file + LOG_WORD_TAIL, LOG_WORD_TAIL, tail);

	return tail;
}

static void
new_header_is_good(void **state)
{
	struct log_header header;

	(void)state;
	log_header_encode(file, SIZE, 7);
	assert_int_equal(log_header_decode(file, SIZE, SIZE, &header), LOG_OK);
	assert_int_equal(header.size, SIZE);
	assert_int_equal(header.tail, LOG_HEADER_SIZE);
	assert_int_equal(header.epoch, 0);
	assert_int_equal(header.promised, 0);
	assert_int_equal(header.log_id, 0);
	assert_int_equal(header.members, 0);
	assert_int_equal(header.replica_id, 7);
	assert_int_equal(header.lease, 0);
}

static void
header_has_this_layout(void **state)
{
	(void)state;
	log_header_encode(file, SIZE, 7);
	assert_memory_equal(file, "rpma-log\x02\x00\x00\x00\x00\x10\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00",
		24);
	/* the tail: 4096 and its check */
	assert_memory_equal(file + 320, "\x00\x10\x00\x00\x00\x00", 6);
}

/* the header is refused after a change of any of its bits */
static void
every_flipped_bit_of_the_header_is_found(void **state)
{
	struct log_header header;

	(void)state;
	fill(20);
	for (size_t bit = 0; bit < LOG_HEADER_SIZE * 8; bit++) {
		file[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_not_equal(log_header_decode(file, SIZE, SIZE, &header), LOG_OK);
		file[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(log_header_decode(file, SIZE, SIZE, &header), LOG_OK);
}

static void
wrong_headers_are_told_apart(void **state)
{
	struct log_header header = { .size = 77 };

	(void)state;
	log_header_encode(file, SIZE, 7);
	assert_int_equal(log_header_decode(file, 0, 0, &header), LOG_SHORT);
	assert_int_equal(log_header_decode(file, LOG_HEADER_SIZE - 1, LOG_HEADER_SIZE - 1, &header),
		LOG_SHORT);
	assert_int_equal(log_header_decode(file, SIZE, SIZE - 4096, &header), LOG_WRONG_SIZE);
	assert_int_equal(log_header_decode(file, SIZE, SIZE + 4096, &header), LOG_WRONG_SIZE);
	memcpy(file, "#!/bin/b", 8);
	assert_int_equal(log_header_decode(file, SIZE, SIZE, &header), LOG_FOREIGN);
	assert_int_equal(log_header_decode(file, 8, 8, &header), LOG_FOREIGN);
	memset(file, 0, SIZE);
	assert_int_equal(log_header_decode(file, SIZE, SIZE, &header), LOG_FOREIGN);
	/* nothing was written */
	assert_int_equal(header.size, 77);
}

/* a file of format 1 is no damaged one: its fixed part is sound, and has the same check */
static void
the_old_format_is_refused_by_name(void **state)
{
	struct log_header header;

	(void)state;
	log_header_encode(file, SIZE, 7);
	file[8] = 1;
	put_u64(file + 24, crc32(0, file, 24), 4);
	assert_int_equal(log_header_decode(file, SIZE, SIZE, &header), LOG_UNKNOWN_VERSION);
	assert_non_null(strstr(log_status_2str(LOG_UNKNOWN_VERSION), "another version"));
}

/* words whose check is right, but which contradict each other */
static void
impossible_words_are_refused(void **state)
{
	static const uint64_t tails[] = { 0, LOG_HEADER_SIZE - 8, LOG_HEADER_SIZE + 4, SIZE + 8,
		LOG_WORD_MAX };
	struct log_header header;

	(void)state;
	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		log_header_encode(file, SIZE, 7);
		log_word_encode(file + LOG_WORD_TAIL, LOG_WORD_TAIL, tails[i]);
		assert_int_equal(log_header_decode(file, SIZE, SIZE, &header), LOG_DAMAGED_HEADER);
	}
	log_header_encode(file, SIZE, 7);
	log_word_encode(file + LOG_WORD_EPOCH, LOG_WORD_EPOCH, 3);
	log_word_encode(file + LOG_WORD_PROMISED, LOG_WORD_PROMISED, 2);
	assert_int_equal(log_header_decode(file, SIZE, SIZE, &header), LOG_DAMAGED_HEADER);
	/* a replica without an id would be taken for any other */
	log_header_encode(file, SIZE, 7);
	log_word_encode(file + LOG_WORD_REPLICA_ID, LOG_WORD_REPLICA_ID, 0);
	assert_int_equal(log_header_decode(file, SIZE, SIZE, &header), LOG_DAMAGED_HEADER);
}

static void
word_round_trip(void **state)
{
	static const uint64_t values[] = { 0, 1, 4096, 0x123456789abc, LOG_WORD_MAX };
	uint8_t buf[LOG_WORD_SIZE];
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		log_word_encode(buf, LOG_WORD_EPOCH, values[i]);
		assert_true(log_word_decode(buf, LOG_WORD_EPOCH, &value));
		assert_int_equal(value, values[i]);
		/* it is not valid in the place of another word */
		assert_false(log_word_decode(buf, LOG_WORD_TAIL, &value));
	}
	memset(buf, 0, sizeof(buf));
	assert_false(log_word_decode(buf, LOG_WORD_EPOCH, &value));
}

static void
record_has_this_layout(void **state)
{
	const struct log_record record = { .sequence = 5,
		.epoch = 7,
		.payload = (const uint8_t *)"abc",
		.length = 3 };
	uint8_t buf[32];

	(void)state;
	memset(buf, 0xff, sizeof(buf));
	assert_int_equal(log_record_encode(buf, 31, &record), 0);
	assert_int_equal(log_record_encode(buf, 32, &record), 32);
	assert_memory_equal(buf, "\x03\x00\x00\x00", 4);
	assert_memory_equal(buf + 8, "\x05\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0abc\0\0\0\0\0", 24);
}

static void
scan_finds_all_records(void **state)
{
	const size_t tail = fill(100);
	struct log_scan scan;
	struct log_record record;

	(void)state;
	log_scan_init(&scan, file, tail);
	for (size_t i = 0; i < 100; i++) {
		assert_int_equal(log_scan_next(&scan, &record), LOG_OK);
		assert_int_equal(record.sequence, i);
		assert_int_equal(record.epoch, 1 + i / 10);
		assert_int_equal(record.length, i);
		for (size_t j = 0; j < i; j++)
			assert_int_equal(record.payload[j], i + 1);
	}
	assert_int_equal(log_scan_next(&scan, &record), LOG_END);
	assert_int_equal(scan.records, 100);
	assert_int_equal(scan.payload_bytes, 99 * 100 / 2);
	assert_int_equal(scan.offset, tail);
	log_scan_init(&scan, file, tail);
	assert_int_equal(log_scan_all(&scan), LOG_OK);
	log_scan_init(&scan, file, LOG_HEADER_SIZE);
	assert_int_equal(log_scan_all(&scan), LOG_OK);
}

/* the scan stops exactly before the damaged record */
static void
every_flipped_bit_of_a_record_is_found(void **state)
{
	const size_t tail = fill(24);
	struct log_scan scan;

	(void)state;
	for (size_t bit = LOG_HEADER_SIZE * 8; bit < tail * 8; bit++) {
		file[bit / 8] ^= (uint8_t)(1 << bit % 8);
		log_scan_init(&scan, file, tail);
		assert_int_equal(log_scan_all(&scan), LOG_DAMAGED_RECORD);
		assert_true(scan.offset <= bit / 8);
		file[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

/* a tail in the middle of a record: the scan reports it */
static void
every_wrong_tail_is_found(void **state)
{
	const size_t tail = fill(30);
	struct log_scan scan;
	size_t good = 0;

	(void)state;
	for (size_t end = LOG_HEADER_SIZE; end <= tail; end += LOG_RECORD_ALIGNMENT) {
		log_scan_init(&scan, file, end);
		bool is_good = log_scan_all(&scan) == LOG_OK;
		assert_true(is_good == (log_boundary_before(file, end, tail) == end));
		good += is_good;
	}
	assert_int_equal(good, 31);
}

static void
records_in_the_wrong_order_are_refused(void **state)
{
	uint8_t *second = file + LOG_HEADER_SIZE + 24;
	struct log_record record = { .sequence = 0, .epoch = 5 };
	struct log_scan scan;

	(void)state;
	log_header_encode(file, SIZE, 7);
	log_record_encode(file + LOG_HEADER_SIZE, 24, &record);
	/* the same sequence number again */
	log_record_encode(second, 24, &record);
	log_scan_init(&scan, file, LOG_HEADER_SIZE + 48);
	assert_int_equal(log_scan_all(&scan), LOG_DAMAGED_RECORD);
	assert_int_equal(scan.records, 1);
	/* the epoch of an older writer */
	record = (struct log_record){ .sequence = 1, .epoch = 4 };
	log_record_encode(second, 24, &record);
	log_scan_init(&scan, file, LOG_HEADER_SIZE + 48);
	assert_int_equal(log_scan_all(&scan), LOG_DAMAGED_RECORD);
	record.epoch = 5;
	log_record_encode(second, 24, &record);
	log_scan_init(&scan, file, LOG_HEADER_SIZE + 48);
	assert_int_equal(log_scan_all(&scan), LOG_OK);
}

/* wrong lengths, with unreadable memory after the buffer */
static void
lengths_are_not_trusted(void **state)
{
	static const uint64_t lengths[] = { 1, 7, 8, 9, 4096, LOG_PAYLOAD_MAX, LOG_PAYLOAD_MAX + 1, INT32_MAX,
		UINT32_MAX };
	struct log_record record;

	(void)state;
	for (size_t len = 0; len <= 32; len++) {
		uint8_t *buf = malloc(len ? len : 1);
		assert_non_null(buf);
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			memset(buf, 0, len);
			if (len >= 4)
				put_u64(buf, lengths[i], 4);
			assert_int_equal(log_record_decode(buf, len, &record), LOG_DAMAGED_RECORD);
		}
		free(buf);
	}
}

static void
boundaries(void **state)
{
	const size_t tail = fill(10);
	const size_t first = LOG_HEADER_SIZE + log_record_size(0);

	(void)state;
	assert_int_equal(log_boundary(file, LOG_HEADER_SIZE, 0, tail), first);
	assert_int_equal(log_boundary(file, LOG_HEADER_SIZE, first, tail), first);
	assert_int_equal(log_boundary(file, LOG_HEADER_SIZE, first + 31, tail), first);
	assert_int_equal(log_boundary(file, LOG_HEADER_SIZE, first + 32, tail), first + 32);
	assert_int_equal(log_boundary(file, LOG_HEADER_SIZE, SIZE_MAX, tail), tail);
	assert_int_equal(log_boundary_before(file, LOG_HEADER_SIZE, tail), LOG_HEADER_SIZE);
	assert_int_equal(log_boundary_before(file, first - 1, tail), LOG_HEADER_SIZE);
	assert_int_equal(log_boundary_before(file, first, tail), first);
	assert_int_equal(log_boundary_before(file, SIZE, tail), tail);
}

/* the input gives the same records, whatever the size of the pieces in which it arrives */
static void
check_input(const char *text, size_t record_size, size_t piece, const char *const *expected)
{
	struct input in;
	const uint8_t *record;
	size_t length;
	size_t left = strlen(text);
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_true(input_init(&in, fds[0], record_size));
	while (!in.eof) {
		size_t n = left < piece ? left : piece;
		assert_int_equal(write(fds[1], text, n), n);
		text += n;
		left -= n;
		if (n == 0)
			close(fds[1]);
		assert_int_equal(input_fill(&in), 0);
		while (input_next(&in, &record, &length)) {
			assert_non_null(*expected);
			assert_int_equal(length, strlen(*expected));
			assert_memory_equal(record, *expected, length);
			expected++;
		}
	}
	assert_null(*expected);
	assert_true(input_is_over(&in));
	input_fini(&in);
	close(fds[0]);
}

static void
input_is_cut_into_records(void **state)
{
	static const char *const lines[] = { "one\n", "\n", "three\n", "rest", NULL };
	static const char *const pieces[] = { "one\n", "\nthr", "ee\nr", "est", NULL };
	static const char *const none[] = { NULL };

	(void)state;
	for (size_t piece = 1; piece < 20; piece++) {
		check_input("one\n\nthree\nrest", 0, piece, lines);
		check_input("one\n\nthree\nrest", 4, piece, pieces);
		check_input("", 0, piece, none);
	}
}

/* each read brings one record, because its limit leaves no room for a second one */
static void
reads_are_bounded(void **state)
{
	struct input in;
	const uint8_t *record;
	size_t length;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], "aabbcc", 6), 6);
	assert_true(input_init(&in, fds[0], 2));
	in.read_max = 2;
	for (char letter = 'a'; letter <= 'c'; letter++) {
		assert_int_equal(input_fill(&in), 0);
		assert_true(input_next(&in, &record, &length));
		assert_int_equal(length, 2);
		assert_int_equal(record[0], letter);
		assert_false(input_next(&in, &record, &length));
	}
	input_fini(&in);
	close(fds[0]);
	close(fds[1]);
}

/* length bytes, the last one a newline or not, as one record; false if the input is refused */
static bool
takes_line(size_t length, bool newline)
{
	FILE *f = tmpfile();
	char *text = malloc(length);
	struct input in;
	const uint8_t *record;
	size_t taken = 0;
	int ret = 0;

	assert_non_null(f);
	assert_non_null(text);
	memset(text, 'x', length);
	if (newline)
		text[length - 1] = '\n';
	assert_int_equal(fwrite(text, 1, length, f), length);
	rewind(f);
	assert_true(input_init(&in, fileno(f), 0));
	while (ret == 0 && !input_is_over(&in)) {
		ret = input_fill(&in);
		while (ret == 0 && input_next(&in, &record, &taken)) {
			assert_int_equal(taken, length);
			assert_memory_equal(record, text, length);
		}
	}
	input_fini(&in);
	free(text);
	fclose(f);

	return ret == 0 && taken == length;
}

/* the longest line that fits into a record, in the middle of the input and at its end */
static void
the_longest_line(void **state)
{
	(void)state;
	assert_true(takes_line(LOG_PAYLOAD_MAX - 1, true));
	assert_true(takes_line(LOG_PAYLOAD_MAX, true));
	assert_false(takes_line(LOG_PAYLOAD_MAX + 1, true));
	assert_true(takes_line(LOG_PAYLOAD_MAX - 1, false));
	assert_true(takes_line(LOG_PAYLOAD_MAX, false));
	assert_false(takes_line(LOG_PAYLOAD_MAX + 1, false));
	assert_false(takes_line(LOG_PAYLOAD_MAX + 2, false));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_header_is_good),
		cmocka_unit_test(header_has_this_layout),
		cmocka_unit_test(every_flipped_bit_of_the_header_is_found),
		cmocka_unit_test(wrong_headers_are_told_apart),
		cmocka_unit_test(the_old_format_is_refused_by_name),
		cmocka_unit_test(impossible_words_are_refused),
		cmocka_unit_test(word_round_trip),
		cmocka_unit_test(record_has_this_layout),
		cmocka_unit_test(scan_finds_all_records),
		cmocka_unit_test(every_flipped_bit_of_a_record_is_found),
		cmocka_unit_test(every_wrong_tail_is_found),
		cmocka_unit_test(records_in_the_wrong_order_are_refused),
		cmocka_unit_test(lengths_are_not_trusted),
		cmocka_unit_test(boundaries),
		cmocka_unit_test(input_is_cut_into_records),
		cmocka_unit_test(reads_are_bounded),
		cmocka_unit_test(the_longest_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
