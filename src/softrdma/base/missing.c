/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* missing.c -- what programs of others ask for, and the device does not have */

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "softrdma/base/env.h"
#include "softrdma/base/missing.h"

/* more than there are kinds; what finds no place is refused without a line */
#define KINDS_MAX 128

int
softrdma_missing(const char *call, const char *part, const char *way_out)
{
	static atomic_uintptr_t told[KINDS_MAX];
	const uintptr_t kind = 31 * (uintptr_t)call + (uintptr_t)part;
	for (size_t i = 0; i < KINDS_MAX; i++) {
		uintptr_t other = 0;
		if (atomic_compare_exchange_strong(&told[i], &other, kind)) {
			/*
			 * message(preload): the first time for each kind: the program calls a function that
			 * the device lacks, or asks for a kind of queue pair, a port space, an option or an
			 * access flag that it lacks -> The line says what to do instead. PROGRAMS OF OTHERS
			 * in softrdma(7) says what the device has.
			 */
			SOFTRDMA_LOG(WARNING, "%s()%s is not supported by the software device: %s", call,
				part, way_out);
			break;
		}
		if (other == kind)
			break;
	}
	return EOPNOTSUPP;
}
