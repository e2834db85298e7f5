/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * writer.h -- the processes that write the log, and what they have acknowledged
 *
 * A writer does as writer.c of the application: it recovers the log, appends records, takes notice of what is
 * acknowledged, lets replicas catch up, and ends. Each acknowledgement is compared with all others, and each
 * recovered log with all acknowledgements.
 */

#ifndef TEST_SIMULATION_LOG_WRITER_H
#define TEST_SIMULATION_LOG_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster.h"

#define RECORDS_MAX 1024
/* in a seed; each has a group of fibers */
#define WRITERS_MAX 60

struct writer_plan {
	bool trust_empty;
	int timeout_ms;     /* to find a majority */
	unsigned records;   /* to append */
	unsigned batch_max; /* records that are published at a time */
	size_t payload_max;
	unsigned window;      /* records that may wait for their acknowledgement */
	uint64_t pause_ns;    /* longest time between two batches */
	uint64_t patience_ns; /* it ends if it has not acknowledged everything after this time */
	bool only_recovers;   /* it waits to be killed then */
};

enum writer_result {
	WRITER_AT_WORK,
	WRITER_REFUSED, /* it could not recover the log */
	WRITER_IS_OVER, /* it has recovered the log, and ended */
};

struct writer {
	unsigned group;
	struct writer_plan plan;
	struct cluster *cluster; /* NULL after its process has ended */
	bool is_hanging;
	uint64_t hangs_until_ns;
	enum writer_result result;
	bool has_recovered;
	uint64_t epoch;
	unsigned appended;
	unsigned records; /* in its log */
	unsigned acknowledged;
	uint64_t hashes[RECORDS_MAX];
	size_t ends[RECORDS_MAX];
};

extern struct writer *writers[WRITERS_MAX];
extern unsigned writer_count;

void writers_begin(void);
void writers_end(void);

/* starts a process */
struct writer *writer_start(const struct writer_plan *plan);
/* kill -9 */
void writer_kill(struct writer *w);
/* it does not run until this time; writers_go_on() lets those run again whose time is over */
void writer_hang(struct writer *w, uint64_t ns);
void writers_go_on(void);

/* records that any writer has acknowledged */
unsigned acknowledged_count(void);
/* checks that the log in these bytes begins with all that was acknowledged in lower epochs than this */
void acknowledged_check(const uint8_t *log, size_t end, uint64_t epoch, const char *whose);

#endif /* TEST_SIMULATION_LOG_WRITER_H */
