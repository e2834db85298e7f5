/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* device.h -- the one device of the process */

#ifndef SOFTRDMA_DEVICE_H
#define SOFTRDMA_DEVICE_H

#include "softrdma.h"

/* its one context: static, so that it outlives every object and is nobody's to free */
struct ibv_context *softrdma_context(void);

#endif /* SOFTRDMA_DEVICE_H */
