/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* report_table.c -- the results as a table of text */

#include <stdio.h>

#include "numbers.h"
#include "op.h"
#include "result.h"

static void
print_head(const struct results *results)
{
	const struct load *load = &results->options->load;
	printf("%s%s, target memory: %s; %u connection%s, %u thread%s, %u in flight", results->device,
		results->is_soft ? " (the software device: RDMA over TCP)" : "", results->memory,
		load->connections, load->connections > 1 ? "s" : "", load->threads,
		load->threads > 1 ? "s" : "", load->depth);
	if (load->batch > 1)
		printf(", batches of %u", load->batch);
	if (load->signal_every > 1)
		printf(", every %uth completes", load->signal_every);
	if (load->inline_size > 0)
		printf(", inline up to %u bytes", load->inline_size);
	if (load->pieces > 1)
		printf(", %u pieces", load->pieces);
	if (load->rate > 0)
		printf(", %.9g operations/s due on each connection", load->rate);
	char waits[CONTROL_TEXT_MAX];
	result_waits_text(results, waits);
	printf("; %s%s\n", waits,
		load->verify ? "; data verified, which takes time: no figures to compare" : "");
}

void
report_table(const struct results *results)
{
	print_head(results);
	printf("%-24s %6s %12s %10s | %-46s | %s\n", "", "", "", "", "latency in us", "CPU us/op");
	printf("%-24s %6s %12s %10s | %8s %8s %8s %9s %9s | %8s %8s\n", "operation", "size", "ops/s", "MB/s",
		"p50", "p90", "p99", "p99.9", "max", "here", "target");
	for (int i = 0; i < results->count; i++) {
		const struct result *r = &results->list[i];
		char op[CONTROL_TEXT_MAX], size[SIZE_TEXT_MAX];
		result_op_text(&r->load, op);
		size_text(r->load.size, size);
		printf("%-24s %6s %12.0f %10.2f | %8.2f %8.2f %8.2f %9.2f %9.2f | %8.2f %8.2f\n", op, size,
			result_ops_per_second(r), result_mb_per_second(r), result_quantile_us(r, 0.5),
			result_quantile_us(r, 0.9), result_quantile_us(r, 0.99), result_quantile_us(r, 0.999),
			result_quantile_us(r, 1), result_cpu_us(r, r->cpu), result_cpu_us(r, r->target_cpu));
	}
}
