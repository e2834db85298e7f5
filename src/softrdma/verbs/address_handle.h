/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* address_handle.h -- address handles: where datagrams go */

#ifndef SOFTRDMA_ADDRESS_HANDLE_H
#define SOFTRDMA_ADDRESS_HANDLE_H

#include "softrdma/core/send_ring.h"

struct softrdma_address_handle {
	struct ibv_ah ah;
	struct softrdma_destination to; /* without queue pair, port and Q_Key */
};

static inline struct softrdma_address_handle *
softrdma_address_handle_of(struct ibv_ah *ah)
{
	return (struct softrdma_address_handle *)ah;
}

#endif /* SOFTRDMA_ADDRESS_HANDLE_H */
