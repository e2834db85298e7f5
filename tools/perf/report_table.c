/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* report_table.c -- the results as a table of text */

#include <inttypes.h>
#include <stdio.h>

#include "figure.h"
#include "numbers.h"
#include "op.h"
#include "result.h"

static void
print_head(const struct results *results)
{
	char load[RESULT_LOAD_TEXT_MAX], waits[CONTROL_TEXT_MAX];
	result_load_text(&results->options->load, load);
	result_waits_text(results, waits);
	printf("%s\n", results->options->command);
	printf("%s%s, target memory: %s; %s; %s\n", results->device,
		results->is_soft ? " (the software device: RDMA over TCP)" : "", results->memory, load,
		waits);
}

static void
print_figure(int width, double value)
{
	char text[FIGURE_TEXT_MAX];
	figure_text(value, text);
	printf(" %*s", width, text);
}

void
report_table(const struct results *results)
{
	print_head(results);
	printf("%-24s %6s %11s %8s | %-58s | %s\n", "", "", "", "", "latency in us", "CPU us/op");
	printf("%-24s %6s %11s %8s | %9s %8s %8s %8s %9s %11s | %8s %8s\n", "operation", "size", "ops/s",
		"MB/s", "p50", "p90", "p99", "p99.9", "max", "latencies", "here", "target");
	for (int i = 0; i < results->count; i++) {
		const struct result *r = &results->list[i];
		char op[CONTROL_TEXT_MAX], size[SIZE_TEXT_MAX];
		result_op_text(&r->load, op);
		size_text(r->load.size, size);
		printf("%-24s %6s", op, size);
		print_figure(11, result_ops_per_second(r));
		print_figure(8, result_mb_per_second(r));
		printf(" |");
		print_figure(9, result_quantile_us(r, 0.5));
		print_figure(8, result_quantile_us(r, 0.9));
		print_figure(8, result_quantile_us(r, 0.99));
		print_figure(8, result_quantile_us(r, 0.999));
		print_figure(9, result_quantile_us(r, 1));
		printf(" %11" PRIu64 " |", r->latency.count);
		print_figure(8, result_cpu_us(r, r->cpu));
		print_figure(8, result_target_cpu_us(r));
		putchar('\n');
	}
	if (result_most_clients(results) > 1)
		printf("%s\n", result_clients_note);
}
