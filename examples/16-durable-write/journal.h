/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * journal.h -- records in the server's memory, one per slot, from the first slot on
 *
 *	offset  size
 *	     0     8  number of the record, from 1 on, little-endian
 *	     8    48  text, padded with at least one zero
 *	    56     8  CRC-32 of the bytes before it, little-endian
 *
 * A record that was never acknowledged may be there as a whole, in part, or not at all: the CRC tells.
 */

#ifndef JOURNAL_H
#define JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_SIZE 64
#define RECORD_TEXT_SIZE 48

#define JOURNAL_RECORDS 1000
#define JOURNAL_SIZE (JOURNAL_RECORDS * RECORD_SIZE)

/* text is truncated if it is too long */
void record_encode(uint8_t record[static RECORD_SIZE], uint64_t number, const char *text);

/* true if the record is there as a whole */
bool record_is_good(const uint8_t record[static RECORD_SIZE], uint64_t number);

/* its text, safe to print */
char *record_text(const uint8_t record[static RECORD_SIZE], char text[static RECORD_TEXT_SIZE]);

/* number of records, up to the first that is not good; journal may contain any bytes */
size_t journal_count(const uint8_t journal[static JOURNAL_SIZE]);

#endif /* JOURNAL_H */
