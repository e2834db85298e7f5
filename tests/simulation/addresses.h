/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* addresses.h -- the addresses of the simulated machine */

#ifndef TEST_SIMULATION_ADDRESSES_H
#define TEST_SIMULATION_ADDRESSES_H

#include <netinet/in.h>
#include <stdbool.h>

/* false: the machine has no IPv6 */
extern bool addresses_have_v6;

/* true if the machine has this address; those of IPv4 are mapped */
bool addresses_have(const struct in6_addr *mapped);

#endif /* TEST_SIMULATION_ADDRESSES_H */
