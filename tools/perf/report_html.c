/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* report_html.c -- the results as one self-contained page: no external script, font or image */

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "figure.h"
#include "numbers.h"
#include "op.h"
#include "output.h"
#include "result.h"
#include "svg.h"

static const char style[] =
	"body{font:15px/1.5 sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#222}"
	"table{border-collapse:collapse}td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}"
	"td:first-child,th:first-child{text-align:left}"
	".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26em,100%),1fr));gap:1em}"
	"svg{font:12px sans-serif;border:1px solid #ddd}.grid{stroke:#e4e4e4}.wrong{color:#b00}"
	".wide{overflow-x:auto}pre{white-space:pre-wrap;overflow-wrap:anywhere}"
	".conditions td{text-align:left}";

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
	char text[RESULT_LOAD_TEXT_MAX];
	fputs("<pre>", out);
	svg_text(out, results->options->command);
	fputs("</pre>\n<h2>Conditions</h2>\n<table class=\"conditions\">\n", out);
	snprintf(text, sizeof(text), "%ld core%s of %s", results->machine.cores,
		results->machine.cores == 1 ? "" : "s", results->machine.processor);
	print_pair(out, "Machine", text);
	print_pair(out, "Kernel", results->machine.kernel);
	print_pair(out, "Date", results->machine.date);
	snprintf(text, sizeof(text), "%s%s", results->device,
		results->is_soft ? " (the software device: RDMA over TCP)" : "");
	print_pair(out, "Device", text);
	print_pair(out, "Target memory", results->memory);
	result_load_text(&results->options->load, text);
	print_pair(out, "Load", text);
	result_waits_text(results, text);
	print_pair(out, "Waiting", text);
	fputs("</table>\n", out);
}

static void
print_figure(FILE *out, double value)
{
	char text[FIGURE_TEXT_MAX];
	figure_text(value, text);
	fprintf(out, "<td>%s</td>", text);
}

static void
print_table(FILE *out, const struct results *results)
{
	fputs("<h2>Figures</h2>\n<div class=\"wide\"><table>\n<tr><th>operation</th><th>size</th><th>ops/s</th><th>MB/s</th>"
	      "<th>p50 us</th><th>p90 us</th><th>p99 us</th><th>p99.9 us</th><th>max us</th><th>latencies</th>"
	      "<th>CPU us/op</th><th>target CPU us/op</th></tr>\n",
		out);
	for (int i = 0; i < results->count; i++) {
		const struct result *r = &results->list[i];
		char op[CONTROL_TEXT_MAX], size[SIZE_TEXT_MAX];
		result_op_text(&r->load, op);
		size_text(r->load.size, size);
		fprintf(out, "<tr><td>%s%s</td><td>%s</td>", op,
			r->wrong ? " <b class=\"wrong\">wrong data</b>" : "", size);
		print_figure(out, result_ops_per_second(r));
		print_figure(out, result_mb_per_second(r));
		print_figure(out, result_quantile_us(r, 0.5));
		print_figure(out, result_quantile_us(r, 0.9));
		print_figure(out, result_quantile_us(r, 0.99));
		print_figure(out, result_quantile_us(r, 0.999));
		print_figure(out, result_quantile_us(r, 1));
		fprintf(out, "<td>%" PRIu64 "</td>", r->latency.count);
		print_figure(out, result_cpu_us(r, r->cpu));
		print_figure(out, result_target_cpu_us(r));
		fputs("</tr>\n", out);
	}
	fputs("</table></div>\n<p>p99 is the latency that 99 % of the operations do not exceed, and likewise the others. It is "
	      "at most 1.6 % above the true value. The largest latency is exact. A percentile is shown if a larger latency is "
	      "expected: p50 needs 2 latencies, p90 10, p99 100, and p99.9 1,000. MB are 10^6 bytes of payload.</p>\n",
		out);
	if (result_most_clients(results) > 1)
		fprintf(out, "<p>%s</p>\n", result_clients_note);
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
			/* a percentile is left out if there are too few latencies for it */
			if (isnan(figure(r)))
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

/* draws the distribution of latencies, of the first size of each operation, as far as the latencies support it */
static void
draw_quantiles(FILE *out, const struct results *results)
{
	enum { POINTS = 14 }; /* up to 1 - 2^-14, which is 99.99 % */
	double x[SVG_SERIES_MAX][POINTS], y[SVG_SERIES_MAX][POINTS];
	char names[SVG_SERIES_MAX][SIZE_TEXT_MAX + CONTROL_TEXT_MAX + 2];
	struct svg_chart chart = {
		.title = "Latency that a share of the operations does not exceed",
		.x_label = "share of the operations",
		.y_label = "latency in us",
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
		int points = 0;
		for (; points < POINTS; points++) {
			x[n][points] = pow(2, points + 1);
			y[n][points] = result_quantile_us(r, 1 - 1 / x[n][points]);
			if (isnan(y[n][points]))
				break;
		}
		if (points < 2)
			continue;
		size_text(r->load.size, size);
		snprintf(names[n], sizeof(names[n]), "%s %s", op_kinds[r->load.op].name, size);
		chart.series[chart.count++] = (struct svg_series){ names[n], points, x[n], y[n] };
	}
	if (chart.count > 0)
		svg_draw(out, &chart);
}

static void
print_page(FILE *out, const struct results *results, struct curves *curves)
{
	fprintf(out,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" "
		"content=\"width=device-width\"><title>rpma-perf</title><style>%s</style></head>\n<body>\n"
		"<h1>rpma-perf</h1>\n",
		style);
	print_conditions(out, results);
	print_table(out, results);
	fputs("<h2>Charts</h2>\n<div class=\"charts\">\n", out);
	draw_against_size(out, results, "Throughput for each size of operation", "MB/s", result_mb_per_second,
		curves);
	draw_against_size(out, results, "Operations per second for each size of operation",
		"operations per second", result_ops_per_second, curves);
	draw_against_size(out, results, "Median latency (p50) for each size of operation", "latency in us",
		p50, curves);
	draw_against_size(out, results, "Latency that 99 % do not exceed (p99), for each size of operation",
		"latency in us", p99, curves);
	draw_quantiles(out, results);
	fprintf(out, "</div>\n<p>rpma-perf %s</p>\n</body>\n</html>\n", RPMA_PERF_VERSION);
}

bool
report_html(const struct results *results, const char *path, char why[static WHY_MAX])
{
	char *page = NULL;
	size_t len = 0;
	struct curves *curves = calloc(1, sizeof(*curves));
	FILE *out = curves ? open_memstream(&page, &len) : NULL;
	bool good = out != NULL;
	if (good) {
		print_page(out, results, curves);
		good = !ferror(out);
		good = fclose(out) == 0 && good;
	}
	good = good ? output_write(path, page, len, why) : why_say(why, "out of memory");
	free(page);
	free(curves);
	return good;
}
