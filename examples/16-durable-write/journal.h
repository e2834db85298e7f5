/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * journal.h -- records in the server's memory, one for each slot, from the first slot on
 *
 *	offset  size
 *	     0     8  number of the record, from 1 on, little-endian
 *	     8    48  text with its end, zeros behind it
 *	    56     8  CRC-32 of all before it, little-endian
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

/* text is cut to what fits */
void record_encode(uint8_t record[static RECORD_SIZE], uint64_t number, const char *text);

/* is it there as a whole? */
bool record_is_good(const uint8_t record[static RECORD_SIZE], uint64_t number);

/* its text, fit to be printed */
char *record_text(const uint8_t record[static RECORD_SIZE], char text[static RECORD_TEXT_SIZE]);

/* how many records there are, up to the first that is not good; any bytes may be at journal */
size_t journal_count(const uint8_t journal[static JOURNAL_SIZE]);

#endif /* JOURNAL_H */
