/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* result.c -- the results of a measurement */

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "op.h"
#include "result.h"
#include "waits.h"

double
result_ops_per_second(const struct result *result)
{
	return result->seconds > 0 ? (double)result->ops / result->seconds : 0;
}

double
result_mb_per_second(const struct result *result)
{
	return result_ops_per_second(result) * (double)result->load.size / 1e6;
}

double
result_cpu_us(const struct result *result, struct cpu_time cpu)
{
	return result->ops ? (double)(cpu.user_us + cpu.system_us) / (double)result->ops : 0;
}

double
result_target_cpu_us(const struct result *result)
{
	return result->target_clients == 1 ? result_cpu_us(result, result->target_cpu) : NAN;
}

double
result_quantile_us(const struct result *result, double part)
{
	if (!histogram_supports(&result->latency, part))
		return NAN;
	return (double)histogram_quantile(&result->latency, part) / 1e3;
}

void
result_op_text(const struct load *load, char text[static CONTROL_TEXT_MAX])
{
	const struct op_kind *kind = &op_kinds[load->op];
	snprintf(text, CONTROL_TEXT_MAX, "%s%s%s", kind->name, kind->flushes ? " " : "",
		kind->flushes ? load_flush_name(load->flush_type) : "");
}

static void __attribute__((format(printf, 2, 3)))
append(char text[static RESULT_LOAD_TEXT_MAX], const char *format, ...)
{
	size_t len = strlen(text);
	va_list args;
	va_start(args, format);
	vsnprintf(text + len, RESULT_LOAD_TEXT_MAX - len, format, args);
	va_end(args);
}

static const char *
plural(double number)
{
	return number == 1 ? "" : "s";
}

void
result_load_text(const struct load *l, char text[static RESULT_LOAD_TEXT_MAX])
{
	text[0] = '\0';
	append(text, "%u connection%s, %u thread%s, %u operation%s in flight on each connection",
		l->connections, plural(l->connections), l->threads, plural(l->threads), l->depth,
		plural(l->depth));
	if (l->batch > 1)
		append(text, ", posted in batches of %u", l->batch);
	if (l->signal_every > 1)
		append(text, ", one operation of %u asks for a completion", l->signal_every);
	if (l->inline_size > 0)
		append(text, ", inline up to %u byte%s", l->inline_size, plural(l->inline_size));
	if (l->pieces > 1)
		append(text, ", %u pieces of local memory each", l->pieces);
	if (l->rate > 0)
		append(text, ", %.9g operation%s per second due on each connection", l->rate,
			plural(l->rate));
	if (l->verify)
		append(text, ", data verified, which takes time: no figures to compare");
}

void
result_waits_text(const struct results *results, char text[static CONTROL_TEXT_MAX])
{
	const enum way here = results->options->load.wait;
	size_t len = (size_t)snprintf(text, CONTROL_TEXT_MAX, "initiator: %s, target: ", way_name(here));
	/* each way once: unless it is given, it depends on the operation */
	bool seen[WAY_COUNT] = { false };
	const char *separator = "";
	for (int i = 0; i < results->count; i++) {
		const enum way there = results->list[i].load.target_waits;
		if (seen[there])
			continue;
		seen[there] = true;
		len += (size_t)snprintf(text + len, CONTROL_TEXT_MAX - len, "%s%s", separator,
			way_name(there));
		separator = " or ";
	}
}

uint32_t
result_most_clients(const struct results *results)
{
	uint32_t most = 0;
	for (int i = 0; i < results->count; i++)
		if (results->list[i].target_clients > most)
			most = results->list[i].target_clients;
	return most;
}

const char result_clients_note[] =
	"The server had other clients at the same time. These figures are of this client alone: add the rates of all. "
	"The processor time of the target is that of all clients, so it is not shown.";
