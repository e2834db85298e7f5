/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* device.h -- finding the device of an address */

#ifndef RPMAI_DEVICE_H
#define RPMAI_DEVICE_H

#include "public.h"
#include "rdma.h"

enum device_choice {
	DEVICE_AUTO, /* an RDMA device if one has the address, else the software device */
	DEVICE_RDMA,
	DEVICE_SOFT,
};

/* parses the value of RPMA_DEVICE; NULL or "" means auto. Returns false if the value is not valid */
bool rpmai_device_parse_choice(const char *text, enum device_choice *choice);

/* finds the context for an address. RPMA_E_PROVIDER (no device) */
int rpmai_device_find(const struct rdma_api *core, const struct rdma_api *soft, enum device_choice choice,
	const char *addr, enum rpma_util_ibv_context_type type, struct ibv_context **ctx_ptr);

#endif /* RPMAI_DEVICE_H */
