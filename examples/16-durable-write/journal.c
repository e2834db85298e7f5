/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "counter.h"
#include "journal.h"
#include "text.h"

#define TEXT_OFFSET COUNTER_SIZE
#define CRC_OFFSET (TEXT_OFFSET + RECORD_TEXT_SIZE)

_Static_assert(CRC_OFFSET + COUNTER_SIZE == RECORD_SIZE, "a record is its number, its text and its CRC");

static uint64_t
crc_of(const uint8_t record[static RECORD_SIZE])
{
	return crc32(0, record, CRC_OFFSET);
}

void
record_encode(uint8_t record[static RECORD_SIZE], uint64_t number, const char *text)
{
	memset(record, 0, RECORD_SIZE);
	counter_put(record, number);
	snprintf((char *)record + TEXT_OFFSET, RECORD_TEXT_SIZE, "%s", text);
	counter_put(record + CRC_OFFSET, crc_of(record));
}

bool
record_is_good(const uint8_t record[static RECORD_SIZE], uint64_t number)
{
	return counter_get(record) == number && counter_get(record + CRC_OFFSET) == crc_of(record);
}

char *
record_text(const uint8_t record[static RECORD_SIZE], char text[static RECORD_TEXT_SIZE])
{
	return text_copy(text, RECORD_TEXT_SIZE, record + TEXT_OFFSET, RECORD_TEXT_SIZE);
}

size_t
journal_count(const uint8_t journal[static JOURNAL_SIZE])
{
	size_t count = 0;

	while (count < JOURNAL_RECORDS && record_is_good(journal + count * RECORD_SIZE, count + 1))
		count++;

	return count;
}
