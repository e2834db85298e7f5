/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* device.h -- the one device of the process */

#ifndef SOFTRDMA_DEVICE_H
#define SOFTRDMA_DEVICE_H

#include "softrdma.h"

/* locally administered, and the same on every machine: what tells machines apart is the GID */
#define SOFTRDMA_NODE_GUID 0x02736f66747264ffu

/* its one context: static, so that it outlives every object and is nobody's to free */
struct ibv_context *softrdma_context(void);

#endif /* SOFTRDMA_DEVICE_H */
