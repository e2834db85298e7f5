/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* result.h -- the results of a measurement */

#ifndef PERF_RESULT_H
#define PERF_RESULT_H

#include "control.h"
#include "histogram.h"
#include "load.h"
#include "machine.h"
#include "options.h"

#define RESULT_LOAD_TEXT_MAX 512

/* the result of one step */
struct result {
	struct load load;
	uint64_t ops;
	double seconds;
	struct histogram latency;   /* in ns, of the signaled operations */
	struct cpu_time cpu;        /* processor time of this side */
	struct cpu_time target_cpu; /* of its process, which other clients may use as well */
	uint32_t target_clients;    /* the most clients that the target had at once, with this one */
	uint64_t wrong; /* operations or slots with wrong data; always 0 if nothing was verified */
	char first_wrong[CONTROL_TEXT_MAX];
};

/* the results of a run */
struct results {
	const struct options *options;
	struct machine machine;
	char device[CONTROL_TEXT_MAX];
	bool is_soft;
	char memory[CONTROL_TEXT_MAX]; /* the target's memory */
	int count;
	struct result *list;
};

double result_ops_per_second(const struct result *result);
/* 10^6 bytes of payload per second */
double result_mb_per_second(const struct result *result);
/* microseconds of processor time per operation, for all threads of the process */
double result_cpu_us(const struct result *result, struct cpu_time cpu);
/* the same of the target; NAN if it also served other clients */
double result_target_cpu_us(const struct result *result);
/* microseconds; NAN if there are too few latencies for this part (histogram_supports) */
double result_quantile_us(const struct result *result, double part);
/* "write", or "write_flush persistent" */
void result_op_text(const struct load *load, char text[static CONTROL_TEXT_MAX]);

/* "2 connections, 1 thread, 1 operation in flight on each connection", and the options that are not the default */
void result_load_text(const struct load *load, char text[static RESULT_LOAD_TEXT_MAX]);
/* how both sides wait: "initiator: poll, target: pause" */
void result_waits_text(const struct results *results, char text[static CONTROL_TEXT_MAX]);

/* the most clients that the target had at once in any step, and what follows for the figures if there were several */
uint32_t result_most_clients(const struct results *results);
extern const char result_clients_note[];

void report_table(const struct results *results);
bool report_json(const struct results *results);
void report_csv(const struct results *results);
bool report_html(const struct results *results, const char *path, char why[static WHY_MAX]);

#endif /* PERF_RESULT_H */
