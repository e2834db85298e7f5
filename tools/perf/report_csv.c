/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* report_csv.c -- the results as CSV */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "op.h"
#include "result.h"
#include "waits.h"

/* an empty field if the value is not known */
static void
print_value(double value)
{
	if (isnan(value))
		putchar(',');
	else
		printf("%.4f,", value);
}

void
report_csv(const struct results *results)
{
	printf("op,flush_type,size,connections,threads,depth,batch,signal_every,inline,pieces,wait,ops,seconds,"
	       "ops_per_s,mb_per_s,mean_us,p50_us,p90_us,p99_us,p999_us,max_us,cpu_us_per_op,target_cpu_us_per_op,"
	       "verified,wrong,target_waits,rate,latencies,target_clients\n");
	for (int i = 0; i < results->count; i++) {
		const struct result *r = &results->list[i];
		const struct load *l = &r->load;
		const struct op_kind *kind = &op_kinds[l->op];
		printf("%s,%s,%" PRIu64 ",%u,%u,%u,%u,%u,%u,%u,%s,", kind->name,
			kind->flushes ? load_flush_name(l->flush_type) : "", l->size, l->connections,
			l->threads, l->depth, l->batch, l->signal_every, l->inline_size, l->pieces,
			way_name(l->wait));
		printf("%" PRIu64 ",%.6f,%.1f,%.3f,%.3f,", r->ops, r->seconds, result_ops_per_second(r),
			result_mb_per_second(r), histogram_mean(&r->latency) / 1e3);
		print_value(result_quantile_us(r, 0.5));
		print_value(result_quantile_us(r, 0.9));
		print_value(result_quantile_us(r, 0.99));
		print_value(result_quantile_us(r, 0.999));
		print_value(result_quantile_us(r, 1));
		print_value(result_cpu_us(r, r->cpu));
		print_value(result_target_cpu_us(r));
		printf("%d,%" PRIu64 ",%s,%.9g,%" PRIu64 ",%u\n", l->verify, r->wrong,
			way_name(l->target_waits), l->rate, r->latency.count, r->target_clients);
	}
}
