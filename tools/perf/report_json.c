/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* report_json.c -- the results as JSON */

#include <math.h>

#include <jansson.h>

#include "op.h"
#include "result.h"
#include "waits.h"

static json_t *
machine_object(const struct results *results)
{
	const struct machine *m = &results->machine;
	return json_pack("{s:I, s:s, s:s, s:s}", "cores", (json_int_t)m->cores, "processor", m->processor,
		"kernel", m->kernel, "date", m->date);
}

static json_t *
load_object(const struct load *l)
{
	const struct op_kind *kind = &op_kinds[l->op];
	json_t *rate = l->rate > 0 ? json_real(l->rate) : json_null();
	return json_pack("{s:s, s:s?, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:s, s:s, s:b}", "op",
		kind->name, "flush_type", kind->flushes ? load_flush_name(l->flush_type) : NULL, "size",
		(json_int_t)l->size, "connections", (json_int_t)l->connections, "threads",
		(json_int_t)l->threads, "depth", (json_int_t)l->depth, "batch", (json_int_t)l->batch,
		"signal_every", (json_int_t)l->signal_every, "inline", (json_int_t)l->inline_size, "pieces",
		(json_int_t)l->pieces, "rate", rate, "wait", way_name(l->wait), "target_waits",
		way_name(l->target_waits), "verify", l->verify);
}

/* null if the value is not known */
static json_t *
real(double value)
{
	return isnan(value) ? json_null() : json_real(value);
}

static json_t *
latency_object(const struct result *r)
{
	return json_pack("{s:I, s:f, s:o, s:o, s:o, s:o, s:o}", "count", (json_int_t)r->latency.count, "mean",
		histogram_mean(&r->latency) / 1e3, "p50", real(result_quantile_us(r, 0.5)), "p90",
		real(result_quantile_us(r, 0.9)), "p99", real(result_quantile_us(r, 0.99)), "p99.9",
		real(result_quantile_us(r, 0.999)), "max", real(result_quantile_us(r, 1)));
}

static json_t *
result_object(const struct result *r)
{
	return json_pack("{s:o, s:I, s:f, s:f, s:f, s:o, s:f, s:o, s:I, s:I}", "load", load_object(&r->load),
		"ops", (json_int_t)r->ops, "seconds", r->seconds, "ops_per_s", result_ops_per_second(r),
		"mb_per_s", result_mb_per_second(r), "latency_us", latency_object(r), "cpu_us_per_op",
		result_cpu_us(r, r->cpu), "target_cpu_us_per_op", real(result_target_cpu_us(r)),
		"target_clients", (json_int_t)r->target_clients, "wrong", (json_int_t)r->wrong);
}

bool
report_json(const struct results *results)
{
	json_t *list = json_array();
	for (int i = 0; list && i < results->count; i++) {
		if (json_array_append_new(list, result_object(&results->list[i]))) {
			json_decref(list);
			list = NULL;
		}
	}
	if (list == NULL)
		return false;
	json_t *root = json_pack("{s:s, s:s, s:s, s:o, s:s, s:b, s:s, s:o}", "program", "rpma-perf",
		"version", RPMA_PERF_VERSION, "command", results->options->command, "machine",
		machine_object(results), "device", results->device, "is_software_device", results->is_soft,
		"target_memory", results->memory, "results", list);
	if (root == NULL)
		return false;
	bool good = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0;
	putchar('\n');
	json_decref(root);
	return good;
}
