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
 * returns false and writes the failed call and its error to reason. It logs nothing, since the caller may try
 * another device.
 */
bool rpmai_info_get(const struct rdma_api *rdma, const char *addr, const char *port, enum info_side side,
	struct rdma_addrinfo **rai_ptr, char reason[static INFO_REASON_MAX]);

#endif /* RPMAI_INFO_H */
