/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* figure.h -- measured numbers as text, with the digits that a measurement supports */

#ifndef EXAMPLES_FIGURE_H
#define EXAMPLES_FIGURE_H

#include "histogram.h"

#define FIGURE_TEXT_MAX 32

/* three significant digits, without an exponent: "0.0123", "1.20", "8130"; "-" if the value is not a number */
void figure_text(double value, char text[static FIGURE_TEXT_MAX]);
/* a quantile of times in ns, in microseconds; "-" if the histogram does not support it */
void figure_quantile_text(const struct histogram *h, double part, char text[static FIGURE_TEXT_MAX]);

#endif /* EXAMPLES_FIGURE_H */
