/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* figures.h -- how long the operations of an honest client take */

#ifndef FIGURES_H
#define FIGURES_H

#include <stdint.h>

int64_t now_us(void);

/* records the time of one connection or operation, in microseconds */
void figures_connect(int64_t us);
void figures_operation(int64_t us);

/* FIGURES_FORMAT, on standard output */
void figures_print(void);

#define FIGURES_FORMAT \
	"connects %lu p99_us %u longest_us %u operations %lu p50_us %u p99_us %u longest_us %u\n"

#endif /* FIGURES_H */
