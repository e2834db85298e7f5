/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* alloc.h -- allocations that fail as the seed decides, and a count of those that were not freed */

#ifndef TEST_SIMULATION_ALLOC_H
#define TEST_SIMULATION_ALLOC_H

#include <stddef.h>

/* from now on, allocations fail this number of times in a thousand */
void alloc_begin(unsigned per_mille);
/* allocations that have not been freed */
size_t alloc_count(void);

#endif /* TEST_SIMULATION_ALLOC_H */
