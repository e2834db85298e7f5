/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* figure.c -- measured numbers as text, with the digits that a measurement supports */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "figure.h"

#define DIGITS 3
#define DECIMALS_MAX 12 /* smaller values become 0.000000000000 */

void
figure_text(double value, char text[static FIGURE_TEXT_MAX])
{
	char rounded[FIGURE_TEXT_MAX];
	if (!isfinite(value)) {
		snprintf(text, FIGURE_TEXT_MAX, "-");
		return;
	}
	if (value == 0) {
		snprintf(text, FIGURE_TEXT_MAX, "0");
		return;
	}

	/* "8.13e+03": rounded first, since 9.999 becomes 10.0 and has one decimal less */
	snprintf(rounded, sizeof(rounded), "%.*e", DIGITS - 1, value);
	long exponent = strtol(strchr(rounded, 'e') + 1, NULL, 10);
	int decimals = 0;
	if (exponent < DIGITS - 1)
		decimals = exponent < DIGITS - 1 - DECIMALS_MAX ? DECIMALS_MAX : (int)(DIGITS - 1 - exponent);
	/* cut only if it has more digits than any time or rate */
	snprintf(text, FIGURE_TEXT_MAX, "%.*f", decimals, strtod(rounded, NULL));
}

void
figure_quantile_text(const struct histogram *h, double part, char text[static FIGURE_TEXT_MAX])
{
	figure_text(histogram_supports(h, part) ? (double)histogram_quantile(h, part) / 1e3 : NAN, text);
}
