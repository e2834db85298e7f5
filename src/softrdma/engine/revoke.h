/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* revoke.h -- takes a region away from all connections */

#ifndef SOFTRDMA_REVOKE_H
#define SOFTRDMA_REVOKE_H

#include "softrdma/core/memory.h"

/*
 * The region has left the table. After this call no thread of the device touches it, except for flushes that run on
 * a worker. No lock held.
 */
void softrdma_revoke(const struct softrdma_mr *mr);

#endif /* SOFTRDMA_REVOKE_H */
