/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fault_spec.h -- injected faults: what the words of SOFTRDMA_FAULTS mean, and when each fault strikes
 *
 * The manual softrdma(7) has the grammar. Whether a fault strikes is a function of the seed, the fault, the
 * connection and a number only. It depends on no thread, no clock and no earlier call, so the result is the
 * same in any order of calls.
 *
 * Pure: no state, no allocation, no input or output.
 */

#ifndef SOFTRDMA_FAULT_SPEC_H
#define SOFTRDMA_FAULT_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* the words; each comment gives the meaning of the value */
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
	SOFTRDMA_FAULT_LOSE,             /* none; strikes datagrams, as the next three */
	SOFTRDMA_FAULT_DUPLICATE,        /* none */
	SOFTRDMA_FAULT_REORDER,          /* none */
	SOFTRDMA_FAULT_CORRUPT,          /* none */
	SOFTRDMA_FAULT_CONNECTION,       /* number of the only connection with faults, from 1 */
	SOFTRDMA_FAULT_SEED,             /* any number */
	SOFTRDMA_FAULT_WORDS
};

/* a word as the user gave it; if told is false, it has its default value and strikes nothing */
struct softrdma_fault {
	bool told;
	uint64_t value;
	uint64_t nth;       /* strikes only this event, from 1; 0: by chance */
	uint32_t parts_ppm; /* the chance, in parts per million */
};

struct softrdma_fault_spec {
	struct softrdma_fault word[SOFTRDMA_FAULT_WORDS];
};

/* characters of a wrong word that a log line shows */
#define SOFTRDMA_FAULT_SHOWN_MAX 48

struct softrdma_fault_error {
	unsigned line; /* from 1; 0: the error concerns the whole text */
	const char *why;
	char word[SOFTRDMA_FAULT_SHOWN_MAX + 1]; /* printable, cut if it is long */
};

/*
 * Parses a text, which need not be terminated by a zero. Commas or ends of lines separate the words, and a #
 * begins a comment. False: *error describes the first wrong word, and *spec must not be used.
 */
bool softrdma_fault_spec_parse(const char *text, size_t len, struct softrdma_fault_spec *spec,
	struct softrdma_fault_error *error);

/* true if at least one word affects connections or connection requests */
bool softrdma_fault_spec_any(const struct softrdma_fault_spec *spec);
/* true if a fault may strike the connection of this number */
bool softrdma_fault_spec_concern(const struct softrdma_fault_spec *spec, uint64_t connection);

/*
 * True if the fault strikes the n-th event (from 1) of a stream. A stream is a connection, or a direction of
 * one, and streams are independent of each other.
 */
bool softrdma_fault_spec_strike(const struct softrdma_fault_spec *spec, enum softrdma_fault_word word,
	uint64_t stream, uint64_t n);

#endif /* SOFTRDMA_FAULT_SPEC_H */
