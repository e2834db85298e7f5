/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* tenants.h -- the tenants of the server: tenant 0 uses the port, tenant 1 the next port */

#ifndef TENANTS_H
#define TENANTS_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "numbers.h"

#define TENANTS 2
#define WORD_SIZE 64 /* size of the text that the server keeps for each */

#define PORT_SIZE 6

/* writes the tenant's port; false if first is not a port, or has no next one */
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
