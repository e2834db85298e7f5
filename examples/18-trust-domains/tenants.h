/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* tenants.h -- who uses the server: tenant 0 at the port, tenant 1 at the one behind it */

#ifndef TENANTS_H
#define TENANTS_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "numbers.h"

#define TENANTS 2
#define WORD_SIZE 64 /* what the server keeps for each: a text */

#define PORT_SIZE 6

/* the tenant's own port; false: the first one is none, or the last one */
static inline bool
port_of(const char *first, unsigned tenant, char port[static PORT_SIZE])
{
	uint64_t number;

	if (!parse_number(first, UINT16_MAX - TENANTS + 1, &number) || number == 0)
		return false;
	snprintf(port, PORT_SIZE, "%u", (unsigned)number + tenant);

	return true;
}

#endif /* TENANTS_H */
