/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <assert.h>
#include <string.h>

#include <zlib.h>

#include "log_format.h"

static const uint8_t log_magic[8] = { 'r', 'p', 'm', 'a', '-', 'l', 'o', 'g' };

#define OFFSET_CRC 24
#define FIXED_SIZE 28 /* magic to CRC, which never change after creation */

static const enum log_word log_words[] = {
	LOG_WORD_LOG_ID,
	LOG_WORD_MEMBERS,
	LOG_WORD_PROMISED,
	LOG_WORD_EPOCH,
	LOG_WORD_TAIL,
	LOG_WORD_REPLICA_ID,
	LOG_WORD_LEASE,
};

#define LOG_WORDS (sizeof(log_words) / sizeof(log_words[0]))

/* the unread part of a buffer: reading beyond its end fails */
struct cursor {
	const uint8_t *pos;
	size_t left;
};

static bool
get_bytes(struct cursor *c, size_t len, const uint8_t **bytes)
{
	if (len > c->left)
		return false;

	*bytes = c->pos;
	c->pos += len;
	c->left -= len;
	return true;
}

static bool
get_number(struct cursor *c, size_t len, uint64_t *value)
{
	const uint8_t *bytes;

	assert(len <= sizeof(*value));
	if (!get_bytes(c, len, &bytes))
		return false;

	*value = 0;
	for (size_t i = 0; i < len; i++)
		*value |= (uint64_t)bytes[i] << (8 * i);
	return true;
}

static void
put_number(uint8_t *dst, size_t len, uint64_t value)
{
	for (size_t i = 0; i < len; i++)
		dst[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t
checksum(const uint8_t *bytes, size_t len)
{
	return (uint32_t)crc32_z(crc32_z(0, NULL, 0), bytes, len);
}

/*
 * The checksum of a record covers all bytes except itself. It must include the length, since padding could
 * pass for payload.
 */
static uint32_t
record_checksum(const uint8_t *record, size_t size)
{
	return (uint32_t)crc32_z(checksum(record, 4), record + 8, size - 8);
}

const char *
log_status_2str(enum log_status status)
{
	switch (status) {
	case LOG_OK:
		return "the log is good";
	case LOG_END:
		return "the end of the log";
	case LOG_SHORT:
		return "too short for a log";
	case LOG_FOREIGN:
		return "not a log (its first bytes are not \"rpma-log\")";
	case LOG_UNKNOWN_VERSION:
		return "a log of another version of this program, which this one does not read";
	case LOG_WRONG_SIZE:
		return "not of the size that its header says: cut off or grown";
	case LOG_DAMAGED_HEADER:
		return "the header of the log is damaged";
	case LOG_DAMAGED_RECORD:
		return "a record of the log is damaged";
	}

	return "unknown status";
}

/* the check includes the offset, so a word copied to another place is not valid */
static uint16_t
word_check(uint64_t value, enum log_word word)
{
	uint8_t bytes[10];

	put_number(bytes, 8, value);
	put_number(bytes + 8, 2, (uint64_t)word);
	return (uint16_t)(checksum(bytes, sizeof(bytes)) & 0xffff);
}

void
log_word_encode(uint8_t buf[static LOG_WORD_SIZE], enum log_word word, uint64_t value)
{
	assert(value <= LOG_WORD_MAX);
	put_number(buf, LOG_WORD_SIZE, value | (uint64_t)word_check(value, word) << 48);
}

bool
log_word_decode(const uint8_t buf[static LOG_WORD_SIZE], enum log_word word, uint64_t *value)
{
	struct cursor c = { buf, LOG_WORD_SIZE };
	uint64_t raw;

	if (!get_number(&c, LOG_WORD_SIZE, &raw) || word_check(raw & LOG_WORD_MAX, word) != raw >> 48)
		return false;

	*value = raw & LOG_WORD_MAX;
	return true;
}

void
log_header_encode(uint8_t page[static LOG_HEADER_SIZE], uint64_t size, uint64_t replica_id)
{
	assert(replica_id >= 1 && replica_id <= LOG_WORD_MAX);
	assert(size >= LOG_SIZE_MIN && size <= LOG_SIZE_MAX && size % LOG_RECORD_ALIGNMENT == 0);

	memset(page, 0, LOG_HEADER_SIZE);
	memcpy(page, log_magic, sizeof(log_magic));
	put_number(page + 8, 4, LOG_VERSION);
	put_number(page + 12, 4, LOG_HEADER_SIZE);
	put_number(page + 16, 8, size);
	put_number(page + OFFSET_CRC, 4, checksum(page, OFFSET_CRC));
	for (size_t i = 0; i < LOG_WORDS; i++)
		log_word_encode(page + log_words[i], log_words[i], 0);
	log_word_encode(page + LOG_WORD_TAIL, LOG_WORD_TAIL, LOG_HEADER_SIZE);
	log_word_encode(page + LOG_WORD_REPLICA_ID, LOG_WORD_REPLICA_ID, replica_id);
}

/* checks the part that never changes */
static enum log_status
decode_fixed(const uint8_t *page, uint64_t file_size, uint64_t *size)
{
	struct cursor c = { page, LOG_HEADER_SIZE };
	const uint8_t *magic;
	uint64_t version;
	uint64_t header_size;
	uint64_t crc;

	if (!get_bytes(&c, sizeof(log_magic), &magic) || memcmp(magic, log_magic, sizeof(log_magic)) != 0)
		return LOG_FOREIGN;
	if (!get_number(&c, 4, &version) || !get_number(&c, 4, &header_size) || !get_number(&c, 8, size) ||
		!get_number(&c, 4, &crc))
		return LOG_SHORT;
	if (crc != checksum(page, OFFSET_CRC))
		return LOG_DAMAGED_HEADER;
	if (version != LOG_VERSION || header_size != LOG_HEADER_SIZE)
		return LOG_UNKNOWN_VERSION;
	if (*size != file_size)
		return LOG_WRONG_SIZE;
	if (*size < LOG_SIZE_MIN || *size > LOG_SIZE_MAX || *size % LOG_RECORD_ALIGNMENT)
		return LOG_DAMAGED_HEADER;

	return LOG_OK;
}

static bool
is_zero(const uint8_t *bytes, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (bytes[i])
			return false;
	return true;
}

/* true if there are only zeros between the fields, so that any changed byte of a header is detected */
static bool
gaps_are_zero(const uint8_t *page)
{
	size_t from = FIXED_SIZE;

	for (size_t i = 0; i < LOG_WORDS; i++) {
		if (!is_zero(page, from, log_words[i]))
			return false;
		from = log_words[i] + LOG_WORD_SIZE;
	}

	return is_zero(page, from, LOG_HEADER_SIZE);
}

static bool
decode_words(const uint8_t *page, struct log_header *header)
{
	return log_word_decode(page + LOG_WORD_LOG_ID, LOG_WORD_LOG_ID, &header->log_id) &&
		log_word_decode(page + LOG_WORD_MEMBERS, LOG_WORD_MEMBERS, &header->members) &&
		log_word_decode(page + LOG_WORD_PROMISED, LOG_WORD_PROMISED, &header->promised) &&
		log_word_decode(page + LOG_WORD_EPOCH, LOG_WORD_EPOCH, &header->epoch) &&
		log_word_decode(page + LOG_WORD_TAIL, LOG_WORD_TAIL, &header->tail) &&
		log_word_decode(page + LOG_WORD_REPLICA_ID, LOG_WORD_REPLICA_ID, &header->replica_id) &&
		log_word_decode(page + LOG_WORD_LEASE, LOG_WORD_LEASE, &header->lease);
}

enum log_status
log_header_decode(const uint8_t *buf, size_t len, uint64_t file_size, struct log_header *header)
{
	struct log_header h;

	/* a foreign file is reported as foreign even if it is short */
	if (len >= sizeof(log_magic) && memcmp(buf, log_magic, sizeof(log_magic)) != 0)
		return LOG_FOREIGN;
	if (len < LOG_HEADER_SIZE)
		return LOG_SHORT;

	enum log_status status = decode_fixed(buf, file_size, &h.size);
	if (status != LOG_OK)
		return status;
	if (!gaps_are_zero(buf) || !decode_words(buf, &h))
		return LOG_DAMAGED_HEADER;
	if (h.tail < LOG_HEADER_SIZE || h.tail > h.size || h.tail % LOG_RECORD_ALIGNMENT ||
		h.epoch > h.promised || h.replica_id == 0)
		return LOG_DAMAGED_HEADER;

	*header = h;
	return LOG_OK;
}

size_t
log_record_size(size_t length)
{
	assert(length <= LOG_PAYLOAD_MAX);
	return (LOG_RECORD_HEADER_SIZE + length + LOG_RECORD_ALIGNMENT - 1) &
		~(size_t)(LOG_RECORD_ALIGNMENT - 1);
}

size_t
log_record_encode(uint8_t *dst, size_t room, const struct log_record *record)
{
	size_t size = log_record_size(record->length);
	size_t unpadded = LOG_RECORD_HEADER_SIZE + record->length;

	if (size > room)
		return 0;

	put_number(dst, 4, record->length);
	put_number(dst + 8, 8, record->sequence);
	put_number(dst + 16, 8, record->epoch);
	if (record->length)
		memcpy(dst + LOG_RECORD_HEADER_SIZE, record->payload, record->length);
	memset(dst + unpadded, 0, size - unpadded);
	put_number(dst + 4, 4, record_checksum(dst, size));

	return size;
}

enum log_status
log_record_decode(const uint8_t *buf, size_t len, struct log_record *record)
{
	struct cursor c = { buf, len };
	struct log_record r;
	uint64_t length;
	uint64_t crc;

	if (!get_number(&c, 4, &length) || !get_number(&c, 4, &crc) || !get_number(&c, 8, &r.sequence) ||
		!get_number(&c, 8, &r.epoch) || length > LOG_PAYLOAD_MAX)
		return LOG_DAMAGED_RECORD;

	r.length = (size_t)length;
	size_t size = log_record_size(r.length);
	if (!get_bytes(&c, size - LOG_RECORD_HEADER_SIZE, &r.payload) || crc != record_checksum(buf, size))
		return LOG_DAMAGED_RECORD;

	*record = r;
	return LOG_OK;
}

void
log_scan_init(struct log_scan *scan, const uint8_t *log, size_t end)
{
	assert(end >= LOG_HEADER_SIZE);
	*scan = (struct log_scan){ .log = log, .end = end, .offset = LOG_HEADER_SIZE };
}

enum log_status
log_scan_next(struct log_scan *scan, struct log_record *record)
{
	struct log_record r;

	if (scan->offset == scan->end)
		return LOG_END;

	enum log_status status = log_record_decode(scan->log + scan->offset, scan->end - scan->offset, &r);
	if (status != LOG_OK)
		return status;
	/* a good record in the wrong place: left over from another log or an earlier writer */
	if (r.sequence != scan->records || r.epoch < scan->epoch)
		return LOG_DAMAGED_RECORD;

	scan->offset += log_record_size(r.length);
	scan->records++;
	scan->payload_bytes += r.length;
	scan->epoch = r.epoch;
	*record = r;
	return LOG_OK;
}

enum log_status
log_scan_all(struct log_scan *scan)
{
	struct log_record record;
	enum log_status status;

	while ((status = log_scan_next(scan, &record)) == LOG_OK)
		;

	return status == LOG_END ? LOG_OK : status;
}

/* the end of the good record that begins at offset */
static size_t
record_end(const uint8_t *log, size_t offset, size_t end)
{
	struct cursor c = { log + offset, end - offset };
	uint64_t length = 0;

	bool readable = get_number(&c, 4, &length) && length <= LOG_PAYLOAD_MAX;
	assert(readable);
	offset += log_record_size((size_t)length);
	assert(offset <= end);

	return offset;
}

size_t
log_boundary(const uint8_t *log, size_t from, size_t limit, size_t end)
{
	assert(from < end);

	size_t boundary = record_end(log, from, end);
	while (boundary < end) {
		size_t next = record_end(log, boundary, end);
		if (next > limit)
			break;
		boundary = next;
	}

	return boundary;
}

size_t
log_boundary_before(const uint8_t *log, size_t limit, size_t end)
{
	size_t boundary = LOG_HEADER_SIZE;

	assert(limit >= LOG_HEADER_SIZE);
	while (boundary < end) {
		size_t next = record_end(log, boundary, end);
		if (next > limit)
			break;
		boundary = next;
	}

	return boundary;
}
