/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * faults.h -- faults that a user asks for: what the words of SOFTRDMA_FAULTS mean, and when each strikes
 *
 * The manual softrdma(7) has the grammar. Whether a fault strikes is a function of the seed, the fault, the
 * connection and a number, and of nothing that came before: it depends on no thread and on no clock, and the
 * same questions have the same answers in whichever order they are asked.
 *
 * Pure: no state, no allocation, no input or output.
 */

#ifndef SOFTRDMA_FAULTS_H
#define SOFTRDMA_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* the words; the comment says what the value is */
enum softrdma_fault_word {
	SOFTRDMA_FAULT_DROP_AFTER,       /* frames */
	SOFTRDMA_FAULT_RETRY_TIMEOUT,    /* ns; part of DROP_AFTER */
	SOFTRDMA_FAULT_DELAY,            /* ns; strikes frames */
	SOFTRDMA_FAULT_WC_ERROR,         /* enum ibv_wc_status; strikes work requests */
	SOFTRDMA_FAULT_DISCONNECT,       /* ns */
	SOFTRDMA_FAULT_DISCONNECT_AFTER, /* work requests */
	SOFTRDMA_FAULT_REJECT,           /* none; strikes connection requests */
	SOFTRDMA_FAULT_SLOW_FLUSH,       /* ns; strikes flushes */
	SOFTRDMA_FAULT_FLUSH_ERROR,      /* none; strikes flushes */
	SOFTRDMA_FAULT_CONNECTION,       /* the only one to have faults, from 1 */
	SOFTRDMA_FAULT_SEED,             /* any number */
	SOFTRDMA_FAULT_WORDS
};

/* how a word was told; one that was not has its default value and strikes nothing */
struct softrdma_fault {
	bool told;
	uint64_t value;
	uint64_t nth;       /* strikes this one alone, from 1; 0: by chance */
	uint32_t parts_ppm; /* of a million, by chance */
};

struct softrdma_faults {
	struct softrdma_fault word[SOFTRDMA_FAULT_WORDS];
};

/* as much of a wrong word as a log line shows */
#define SOFTRDMA_FAULT_SHOWN_MAX 48

struct softrdma_fault_error {
	unsigned line; /* from 1; 0: it is the text as a whole */
	const char *why;
	char word[SOFTRDMA_FAULT_SHOWN_MAX + 1]; /* printable, cut if it is long */
};

/*
 * Reads a text, which need not end with a zero: words that commas or the ends of lines separate; a # begins a
 * comment. False: *error tells the first word that is wrong, and *faults is nothing to be used.
 */
bool softrdma_faults_parse(const char *text, size_t len, struct softrdma_faults *faults,
	struct softrdma_fault_error *error);

/* is there a word among them that does something to connections, or to requests for one? */
bool softrdma_faults_any(const struct softrdma_faults *faults);
/* may something be done to the connection of this number? */
bool softrdma_faults_concern(const struct softrdma_faults *faults, uint64_t connection);

/*
 * Does the fault strike the n-th (from 1) of what it strikes? Streams are independent of each other: a
 * connection, or a direction of one.
 */
bool softrdma_faults_strike(const struct softrdma_faults *faults, enum softrdma_fault_word word,
	uint64_t stream, uint64_t n);

#endif /* SOFTRDMA_FAULTS_H */
