/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* result.c -- the results of a measurement */

#include <stdio.h>

#include "op.h"
#include "result.h"

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
