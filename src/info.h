/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* info.h -- an address and a port, translated for a device */

#ifndef RPMAI_INFO_H
#define RPMAI_INFO_H

#include "rdma.h"

#define INFO_REASON_MAX 160

enum info_side { INFO_ACTIVE, INFO_PASSIVE };

/*
 * Translates an address and an optional port. Free the result with rdma->freeaddrinfo. If it fails, it
 * returns false and writes to reason what is wrong with the port, or the failed call and its error. It logs
 * nothing, since the caller may try another device.
 */
bool rpmai_info_get(const struct rdma_api *rdma, const char *addr, const char *port, enum info_side side,
	struct rdma_addrinfo **rai_ptr, char reason[static INFO_REASON_MAX]);

/*
 * Returns what a user can do if a device refuses an address with this errno value, as a static string; NULL: nothing
 * is known
 */
const char *rpmai_info_way_out(int errnum);

/* the same if a device refuses to listen or to connect: the software device may be unable to use its settings */
const char *rpmai_info_way_out_of_start(const struct rdma_api *rdma, int errnum);

#endif /* RPMAI_INFO_H */
