/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* svg.c -- a line chart as an SVG element of a page */

#include <math.h>

#include "svg.h"

#define WIDTH 640.0
#define HEIGHT 360.0
#define LEFT 80.0
#define RIGHT 20.0
#define TOP 40.0
#define BOTTOM 70.0
#define MARKS_MAX 9 /* most marks of an axis: more would not be readable */

/* colours that people with colour blindness can tell apart (Okabe and Ito) */
static const char *const colours[SVG_SERIES_MAX] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
	"#56b4e9", "#000000", "#999999" };

struct axis {
	double min, max; /* of the logarithms, if the axis has one */
	double step;     /* distance from one mark to the next */
	double base;     /* base of the logarithm; 0: linear */
	double from, to; /* positions of min and max on the page */
};

static double
scaled(const struct axis *axis, double value)
{
	if (axis->base == 0)
		return value;
	return value > 0 ? log(value) / log(axis->base) : axis->min;
}

static double
place(const struct axis *axis, double value)
{
	double part = (scaled(axis, value) - axis->min) / (axis->max - axis->min);
	return axis->from + part * (axis->to - axis->from);
}

/* rounds up to 1, 2 or 5 times a power of ten */
static double
round_step(double step)
{
	double power = pow(10, floor(log10(step)));
	double part = step / power;
	return (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10) * power;
}

/* min and max are those of the data */
static struct axis
make_axis(double min, double max, double base, double from, double to)
{
	struct axis axis = { .base = base, .from = from, .to = to };
	if (base == 0) {
		axis.step = round_step(max > 0 ? max / (MARKS_MAX - 1) : 1);
		axis.max = ceil((max > 0 ? max : 1) / axis.step) * axis.step;
		return axis;
	}
	axis.min = floor(scaled(&axis, min > 0 ? min : 1) + 1e-9);
	axis.max = ceil(scaled(&axis, max > 0 ? max : 1) - 1e-9);
	if (axis.max <= axis.min)
		axis.max = axis.min + 1;
	axis.step = ceil((axis.max - axis.min) / (MARKS_MAX - 1));
	return axis;
}

static void
find_range(const struct svg_chart *chart, bool of_x, double *min, double *max)
{
	*min = INFINITY;
	*max = 0;
	for (int i = 0; i < chart->count; i++) {
		const struct svg_series *s = &chart->series[i];
		for (int j = 0; j < s->count; j++) {
			double value = of_x ? s->x[j] : s->y[j];
			if (value > 0)
				*min = fmin(*min, value);
			*max = fmax(*max, value);
		}
	}
	if (!isfinite(*min))
		*min = 1;
}

void
svg_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc(*text, out);
		}
	}
}

static void
draw_text(FILE *out, double x, double y, const char *anchor, const char *text)
{
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
	svg_text(out, text);
	fputs("</text>\n", out);
}

static int
mark_count(const struct axis *axis)
{
	return (int)floor((axis->max - axis->min) / axis->step + 1e-9) + 1;
}

static double
mark_value(const struct axis *axis, int i)
{
	double mark = axis->min + i * axis->step;
	return axis->base != 0 ? pow(axis->base, mark) : mark;
}

static void
draw_axes(FILE *out, const struct svg_chart *chart, const struct axis *x, const struct axis *y)
{
	char text[32];
	for (int i = 0; i < mark_count(x); i++) {
		double value = mark_value(x, i), at = place(x, value);
		fprintf(out, "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", at,
			TOP, at, HEIGHT - BOTTOM);
		chart->x_text(value, text, sizeof(text));
		draw_text(out, at, HEIGHT - BOTTOM + 18, "middle", text);
	}
	for (int i = 0; i < mark_count(y); i++) {
		double value = mark_value(y, i), at = place(y, value);
		fprintf(out, "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", LEFT,
			at, WIDTH - RIGHT, at);
		snprintf(text, sizeof(text), "%.6g", value);
		draw_text(out, LEFT - 6, at + 4, "end", text);
	}
	draw_text(out, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 36, "middle", chart->x_label);
	fprintf(out, "<text transform=\"translate(16 %.1f) rotate(-90)\" text-anchor=\"middle\">",
		(TOP + HEIGHT - BOTTOM) / 2);
	svg_text(out, chart->y_label);
	fputs("</text>\n", out);
}

static void
draw_series(FILE *out, const struct svg_series *s, const char *colour, const struct axis *x,
	const struct axis *y)
{
	fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
	for (int i = 0; i < s->count; i++)
		fprintf(out, "%.1f,%.1f ", place(x, s->x[i]), place(y, s->y[i]));
	fputs("\"/>\n", out);
	for (int i = 0; i < s->count && s->count <= 64; i++)
		fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", place(x, s->x[i]),
			place(y, s->y[i]), colour);
}

void
svg_draw(FILE *out, const struct svg_chart *chart)
{
	double x_min, x_max, y_min, y_max;
	find_range(chart, true, &x_min, &x_max);
	find_range(chart, false, &y_min, &y_max);
	struct axis x = make_axis(x_min, x_max, chart->x_is_log ? 2 : 0, LEFT, WIDTH - RIGHT);
	struct axis y = make_axis(y_min, y_max, chart->y_is_log ? 10 : 0, HEIGHT - BOTTOM, TOP);

	fprintf(out, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n<title>", WIDTH, HEIGHT);
	svg_text(out, chart->title);
	fputs("</title>\n", out);
	draw_text(out, WIDTH / 2, 20, "middle", chart->title);
	draw_axes(out, chart, &x, &y);
	double legend = LEFT;
	for (int i = 0; i < chart->count; i++) {
		draw_series(out, &chart->series[i], colours[i], &x, &y);
		fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"4\" fill=\"%s\"/>\n", legend,
			HEIGHT - 18, colours[i]);
		draw_text(out, legend + 18, HEIGHT - 12, "start", chart->series[i].name);
		legend += (WIDTH - LEFT) / SVG_SERIES_MAX * (chart->count > 4 ? 1 : 2);
	}
	fputs("</svg>\n", out);
}
