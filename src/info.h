/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* info.h -- an address and a port, translated for a device */

#ifndef RPMAI_INFO_H
#define RPMAI_INFO_H

#include "rdma.h"

#define INFO_REASON_MAX 160

enum info_side { INFO_ACTIVE, INFO_PASSIVE };

/*
 * Translates; port is optional. The result is for rdma->freeaddrinfo. False: reason says which call failed
 * and why, and nothing is logged, since the caller may go on to another device.
 */
bool rpmai_info_get(const struct rdma_api *rdma, const char *addr, const char *port, enum info_side side,
	struct rdma_addrinfo **rai_ptr, char reason[static INFO_REASON_MAX]);

#endif /* RPMAI_INFO_H */
