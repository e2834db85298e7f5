/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* result.c -- the results of a measurement */

#include <stdio.h>

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
result_quantile_us(const struct result *result, double part)
{
	return (double)histogram_quantile(&result->latency, part) / 1e3;
}

void
result_op_text(const struct load *load, char text[static CONTROL_TEXT_MAX])
{
	const char *type = load->flush_type == RPMA_FLUSH_TYPE_PERSISTENT ? " persistent" : " visibility";
	snprintf(text, CONTROL_TEXT_MAX, "%s%s", op_kinds[load->op].name,
		op_kinds[load->op].flushes ? type : "");
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
