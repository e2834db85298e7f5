/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * log_format.h -- the bytes of the replicated log
 *
 * A log is one file or one region of persistent memory: a header of 4096 bytes, followed by records without
 * gaps. All numbers are little-endian. The code here does no I/O: it turns bytes into values, and never
 * trusts what it reads.
 *
 * The header
 *
 *	offset  size
 *	     0     8  magic "rpma-log"; written last when a log is created
 *	     8     4  version, 2
 *	    12     4  size of the header, 4096
 *	    16     8  size of the file: header and room for records
 *	    24     4  CRC-32 of the bytes 0 to 23
 *	    64     8  word "log id": random, equal on all replicas of one log; 0 until a writer has used it
 *	   128     8  word "members": the number of replicas of the log
 *	   192     8  word "promised": the newest writer (epoch) that this replica has been promised to
 *	   256     8  word "epoch": the newest writer whose log this replica has taken over
 *	   320     8  word "tail": the offset of the end of the last record
 *	   384     8  word "replica id": random, set when the file is created: two replicas never share it
 *	   448     8  word "lease": a counter that the writer advances while it works; need not be durable
 *
 * and zeros in between. A word changes by one 8-byte atomic write, and each has its own cache line. It holds
 * a value of 48 bits and, above it, 16 check bits, so that a damaged word is detected.
 *
 * An epoch is a round in its upper 24 bits, which grows from writer to writer, and below it a random number
 * that each writer draws once. So a writer recognizes its own epoch.
 *
 * A record
 *
 *	offset  size
 *	     0     4  length of the payload
 *	     4     4  CRC-32 of all other bytes of the record, with its padding
 *	     8     8  sequence number, from 0
 *	    16     8  epoch of the writer that appended it; at least that of the previous record
 *	    24     n  payload, then zeros up to a multiple of 8 bytes
 *
 * Bytes at or after the tail are not part of the log, whatever they contain.
 */

#ifndef LOG_FORMAT_H
#define LOG_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_VERSION 2
#define LOG_HEADER_SIZE 4096
#define LOG_RECORD_HEADER_SIZE 24
#define LOG_RECORD_ALIGNMENT 8
#define LOG_WORD_SIZE 8
#define LOG_WORD_MAX ((UINT64_C(1) << 48) - 1)

#define LOG_EPOCH_ROUND_SHIFT 24
#define LOG_EPOCH_ROUND_MAX (LOG_WORD_MAX >> LOG_EPOCH_ROUND_SHIFT)
#define LOG_EPOCH_NONCE_MAX ((UINT64_C(1) << LOG_EPOCH_ROUND_SHIFT) - 1)

/* both need a limit: a record is held in memory as a whole, and the writer holds an image of the log */
#define LOG_PAYLOAD_MAX (UINT32_C(16) << 20)
#define LOG_SIZE_MIN (UINT64_C(2) * LOG_HEADER_SIZE)
#define LOG_SIZE_MAX (UINT64_C(1) << 40)

/* the words of the header, by offset */
enum log_word {
	LOG_WORD_LOG_ID = 64,
	LOG_WORD_MEMBERS = 128,
	LOG_WORD_PROMISED = 192,
	LOG_WORD_EPOCH = 256,
	LOG_WORD_TAIL = 320,
	LOG_WORD_REPLICA_ID = 384,
	LOG_WORD_LEASE = 448,
};

enum log_status {
	LOG_OK = 0,
	LOG_END, /* the scan has reached the end, which is not an error */
	LOG_SHORT,
	LOG_FOREIGN,
	LOG_UNKNOWN_VERSION,
	LOG_WRONG_SIZE,
	LOG_DAMAGED_HEADER,
	LOG_DAMAGED_RECORD,
};

struct log_header {
	uint64_t size;
	uint64_t log_id;
	uint64_t members;
	uint64_t promised;
	uint64_t epoch;
	uint64_t tail;
	uint64_t replica_id;
	uint64_t lease;
};

/* payload points into the decoded buffer */
struct log_record {
	uint64_t sequence;
	uint64_t epoch;
	const uint8_t *payload;
	size_t length;
};

/* a scan of the records of a log, which checks each record; only the totals change */
struct log_scan {
	const uint8_t *log; /* the whole log, from the header on */
	size_t end;         /* the tail */
	size_t offset;      /* the end of the last good record */
	uint64_t records;   /* good records so far, which is also the next sequence number */
	uint64_t payload_bytes;
	uint64_t epoch; /* of the last good record */
};

/* the meaning of a status, as text for the user */
const char *log_status_2str(enum log_status status);

/* encodes the header of a new, empty log of that size; replica_id: from 1 to LOG_WORD_MAX */
void log_header_encode(uint8_t page[static LOG_HEADER_SIZE], uint64_t size, uint64_t replica_id);

/*
 * log_header_decode -- reads a header from the first len bytes of a file (or region) of file_size bytes
 *
 * Returns LOG_OK or the error. It writes the header only on LOG_OK; the tail then lies within the file.
 */
enum log_status log_header_decode(const uint8_t *buf, size_t len, uint64_t file_size,
	struct log_header *header);

/* the number of an epoch for the user, who need not know the rest of it */
static inline uint64_t
log_epoch_round(uint64_t epoch)
{
	return epoch >> LOG_EPOCH_ROUND_SHIFT;
}

/* value must be at most LOG_WORD_MAX */
void log_word_encode(uint8_t buf[static LOG_WORD_SIZE], enum log_word word, uint64_t value);
bool log_word_decode(const uint8_t buf[static LOG_WORD_SIZE], enum log_word word, uint64_t *value);

/* the size of a record with this payload; length must be at most LOG_PAYLOAD_MAX */
size_t log_record_size(size_t length);

/*
 * log_record_encode -- writes the record to dst, which has room bytes
 *
 * Returns the size of the record, or 0 if there is no room for it.
 */
size_t log_record_encode(uint8_t *dst, size_t room, const struct log_record *record);

/* reads the record at the beginning of len bytes */
enum log_status log_record_decode(const uint8_t *buf, size_t len, struct log_record *record);

/* begins a scan of a log whose first end bytes are valid; end comes from a checked header */
void log_scan_init(struct log_scan *scan, const uint8_t *log, size_t end);

/* The next record: LOG_OK, LOG_END or LOG_DAMAGED_RECORD. If it is not LOG_OK, the scan does not move. */
enum log_status log_scan_next(struct log_scan *scan, struct log_record *record);

/* scans to the end: LOG_OK if every record was good, else LOG_DAMAGED_RECORD */
enum log_status log_scan_all(struct log_scan *scan);

/*
 * log_boundary -- the last record boundary in [from, limit], but at least one record after from
 *
 * The records in [from, end) are known to be good; from is a boundary before end.
 */
size_t log_boundary(const uint8_t *log, size_t from, size_t limit, size_t end);

/* the last record boundary in [LOG_HEADER_SIZE, limit] of a log that is good up to end */
size_t log_boundary_before(const uint8_t *log, size_t limit, size_t end);

#endif /* LOG_FORMAT_H */
