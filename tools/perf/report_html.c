/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* report_html.c -- the results as one self-contained page: no external script, font or image */

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "numbers.h"
#include "op.h"
#include "result.h"
#include "svg.h"

static const char style[] =
	"body{font:15px/1.5 sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#222}"
	"table{border-collapse:collapse}td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}"
	"td:first-child,th:first-child{text-align:left}"
	".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(26em,1fr));gap:1em}"
	"svg{font:12px sans-serif;border:1px solid #ddd}.grid{stroke:#e4e4e4}.wrong{color:#b00}";

static void
size_mark(double x, char *text, size_t len)
{
	char size[SIZE_TEXT_MAX];
	size_text((uint64_t)llround(x), size);
	snprintf(text, len, "%s", size);
}

/* the logarithmic axis of quantiles shows 1 / (1 - part): 2 is 50 %, 10 is 90 %, 1000 is 99.9 % */
static void
quantile_mark(double x, char *text, size_t len)
{
	snprintf(text, len, "%.6g%%", 100 * (1 - 1 / x));
}

/* ---- machine and load ---- */

static void
print_pair(FILE *out, const char *name, const char *text)
{
	fprintf(out, "<tr><td>%s</td><td>", name);
	svg_text(out, text);
	fputs("</td></tr>\n", out);
}

static void
print_conditions(FILE *out, const struct results *results)
{
	const struct load *l = &results->options->load;
	char text[512];
	fputs("<h2>Conditions</h2>\n<table>\n", out);
	snprintf(text, sizeof(text), "%ld cores of %s", results->machine.cores, results->machine.processor);
	print_pair(out, "Machine", text);
	print_pair(out, "Kernel", results->machine.kernel);
	print_pair(out, "Date", results->machine.date);
	snprintf(text, sizeof(text), "%s%s", results->device,
		results->is_soft ? " (the software device: RDMA over TCP)" : "");
	print_pair(out, "Device", text);
	print_pair(out, "Target memory", results->memory);
	snprintf(text, sizeof(text),
		"%u connections, %u threads, %u in flight each, batches of %u, every %u. operation completes, inline up "
		"to %u bytes, %u pieces%s",
		l->connections, l->threads, l->depth, l->batch, l->signal_every, l->inline_size, l->pieces,
		l->verify ? ", data verified (which takes time)" : "");
	print_pair(out, "Load", text);
	if (l->rate > 0) {
		snprintf(text, sizeof(text), "%.9g operations per second due on each connection", l->rate);
		print_pair(out, "Pace", text);
	}
	result_waits_text(results, text);
	print_pair(out, "Waiting", text);
	fputs("</table>\n", out);
}

static void
print_table(FILE *out, const struct results *results)
{
	fputs("<h2>Figures</h2>\n<table>\n<tr><th>operation</th><th>size</th><th>ops/s</th><th>MB/s</th><th>p50 us</th>"
	      "<th>p90 us</th><th>p99 us</th><th>p99.9 us</th><th>max us</th><th>CPU us/op</th>"
	      "<th>target CPU us/op</th></tr>\n",
		out);
	for (int i = 0; i < results->count; i++) {
		const struct result *r = &results->list[i];
		char op[CONTROL_TEXT_MAX], size[SIZE_TEXT_MAX];
		result_op_text(&r->load, op);
		size_text(r->load.size, size);
		fprintf(out,
			"<tr><td>%s%s</td><td>%s</td><td>%.0f</td><td>%.2f</td><td>%.2f</td><td>%.2f</td><td>%.2f</td>"
			"<td>%.2f</td><td>%.2f</td><td>%.2f</td><td>%.2f</td></tr>\n",
			op, r->wrong ? " <b class=\"wrong\">wrong data</b>" : "", size,
			result_ops_per_second(r), result_mb_per_second(r), result_quantile_us(r, 0.5),
			result_quantile_us(r, 0.9), result_quantile_us(r, 0.99), result_quantile_us(r, 0.999),
			result_quantile_us(r, 1), result_cpu_us(r, r->cpu), result_cpu_us(r, r->target_cpu));
	}
	fputs("</table>\n", out);
}

/* ---- charts ---- */

struct curves {
	double x[OP_COUNT][OPTIONS_SIZES_MAX];
	double y[OP_COUNT][OPTIONS_SIZES_MAX];
};

static double
p50(const struct result *r)
{
	return result_quantile_us(r, 0.5);
}

static double
p99(const struct result *r)
{
	return result_quantile_us(r, 0.99);
}

/* draws a figure against the size, one line for each operation that was measured with several sizes */
static void
draw_against_size(FILE *out, const struct results *results, const char *title, const char *unit,
	double (*figure)(const struct result *), struct curves *curves)
{
	struct svg_chart chart = {
		.title = title,
		.x_label = "bytes per operation",
		.y_label = unit,
		.x_is_log = true,
		.y_is_log = true,
		.x_text = size_mark,
	};
	for (int i = 0; i < results->options->op_count; i++) {
		enum op op = results->options->ops[i];
		int points = 0;
		for (int j = 0; j < results->count && points < OPTIONS_SIZES_MAX; j++) {
			const struct result *r = &results->list[j];
			/* sizes must increase along a line */
			if (r->load.op != op ||
				(points > 0 && (double)r->load.size <= curves->x[i][points - 1]))
				continue;
			curves->x[i][points] = (double)r->load.size;
			curves->y[i][points++] = figure(r);
		}
		if (points > 1 && chart.count < SVG_SERIES_MAX)
			chart.series[chart.count++] =
				(struct svg_series){ op_kinds[op].name, points, curves->x[i], curves->y[i] };
	}
	if (chart.count > 0)
		svg_draw(out, &chart);
}

/* draws the distribution of latencies, of the first result of each operation */
static void
draw_quantiles(FILE *out, const struct results *results)
{
	enum { POINTS = 14 }; /* up to 1 - 2^-14, which is 99.99 % */
	double x[SVG_SERIES_MAX][POINTS], y[SVG_SERIES_MAX][POINTS];
	char names[SVG_SERIES_MAX][SIZE_TEXT_MAX + CONTROL_TEXT_MAX + 2];
	struct svg_chart chart = {
		.title = "latency at which part of the operations is over",
		.x_label = "part of the operations",
		.y_label = "us",
		.x_is_log = true,
		.y_is_log = true,
		.x_text = quantile_mark,
	};
	bool has[OP_COUNT] = { false };
	for (int i = 0; i < results->count && chart.count < SVG_SERIES_MAX; i++) {
		const struct result *r = &results->list[i];
		char size[SIZE_TEXT_MAX];
		int n = chart.count;
		if (has[r->load.op])
			continue;
		has[r->load.op] = true;
		for (int j = 0; j < POINTS; j++) {
			x[n][j] = pow(2, j + 1);
			y[n][j] = result_quantile_us(r, 1 - 1 / x[n][j]);
		}
		size_text(r->load.size, size);
		snprintf(names[n], sizeof(names[n]), "%s %s", op_kinds[r->load.op].name, size);
		chart.series[chart.count++] = (struct svg_series){ names[n], POINTS, x[n], y[n] };
	}
	svg_draw(out, &chart);
}

bool
report_html(const struct results *results, const char *path, char why[static WHY_MAX])
{
	struct curves *curves = calloc(1, sizeof(*curves));
	if (curves == NULL)
		return why_say(why, "out of memory");
	FILE *out = fopen(path, "we");
	if (out == NULL) {
		why_say(why, "%s: %m", path);
		free(curves);
		return false;
	}

	fprintf(out,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>rpma-perf</title>"
		"<style>%s</style></head>\n<body>\n<h1>rpma-perf</h1>\n",
		style);
	print_conditions(out, results);
	print_table(out, results);
	fputs("<h2>Charts</h2>\n<div class=\"charts\">\n", out);
	draw_against_size(out, results, "throughput", "MB/s", result_mb_per_second, curves);
	draw_against_size(out, results, "rate", "operations per second", result_ops_per_second, curves);
	draw_against_size(out, results, "latency, median", "us", p50, curves);
	draw_against_size(out, results, "latency, 99 %", "us", p99, curves);
	draw_quantiles(out, results);
	fprintf(out, "</div>\n<p>rpma-perf %s</p>\n</body>\n</html>\n", RPMA_PERF_VERSION);
	free(curves);

	bool good = !ferror(out);
	good = fclose(out) == 0 && good;
	return good ? true : why_say(why, "writing %s: %m", path);
}
