/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* svg.h -- a line chart as an SVG element of a page */

#ifndef PERF_SVG_H
#define PERF_SVG_H

#include <stdbool.h>
#include <stdio.h>

#define SVG_SERIES_MAX 8

struct svg_series {
	const char *name;
	int count;
	const double *x; /* ascending */
	const double *y;
};

/* axes cover the range of the data; logarithmic ones end at powers of 2 (x) and 10 (y) */
struct svg_chart {
	const char *title;
	const char *x_label;
	const char *y_label;
	bool x_is_log;
	bool y_is_log;
	/* writes the text of a mark of the x axis */
	void (*x_text)(double x, char *text, size_t len);
	int count;
	struct svg_series series[SVG_SERIES_MAX];
};

void svg_draw(FILE *out, const struct svg_chart *chart);
/* writes text with the special characters of HTML replaced */
void svg_text(FILE *out, const char *text);

#endif /* PERF_SVG_H */
