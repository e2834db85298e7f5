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

/* the call must succeed, or fail for want of memory or descriptors and succeed at a later try */
#define MAKE(what, call) \
	do { \
		errno = 0; \
		(what) = (call); \
		SIM_CHECK((what) != NULL || errno == ENOMEM || errno == EMFILE, "%s: %s", #call, \
			strerror(errno)); \
	} while ((what) == NULL)

#endif /* TEST_SIMULATION_ALLOC_H */
