/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* alloc.h -- memory that is not there when the seed says so, and what has not been given back */

#ifndef TEST_SIMULATION_ALLOC_H
#define TEST_SIMULATION_ALLOC_H

#include <stddef.h>

/* so often of a thousand calls there is none, from now on */
void alloc_begin(unsigned per_mille);
/* pieces that have been asked for and not given back */
size_t alloc_count(void);

#endif /* TEST_SIMULATION_ALLOC_H */
