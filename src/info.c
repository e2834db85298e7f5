/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* info.c -- translating an address and a port for a device */

#include <errno.h>
#include <netdb.h>
#include <stdio.h>

#include "info.h"

bool
rpmai_info_get(const struct rdma_api *rdma, const char *addr, const char *port, enum info_side side,
	struct rdma_addrinfo **rai_ptr, char reason[static INFO_REASON_MAX])
{
	const struct rdma_addrinfo hints = {
		.ai_flags = side == INFO_PASSIVE ? RAI_PASSIVE : 0,
		.ai_qp_type = IBV_QPT_RC,
		.ai_port_space = RDMA_PS_TCP,
	};

	errno = 0; /* rdma_getaddrinfo returns what getaddrinfo returned, which sets no errno */
	int ret = rdma->getaddrinfo(addr, port, &hints, rai_ptr);
	if (ret == 0)
		return true;

	if (errno)
		snprintf(reason, INFO_REASON_MAX, "rdma_getaddrinfo() failed: %m");
	else
		snprintf(reason, INFO_REASON_MAX, "rdma_getaddrinfo() failed: %s", gai_strerror(ret));
	return false;
}
