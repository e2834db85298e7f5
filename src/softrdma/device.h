/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* device.h -- the one device of the process */

#ifndef SOFTRDMA_DEVICE_H
#define SOFTRDMA_DEVICE_H

#include "softrdma.h"

/* locally administered, and the same on every machine: what tells machines apart is the GID */
#define SOFTRDMA_NODE_GUID 0x02736f66747264ffu

/* a locally administered OUI, of which no maker has any; SoftRoCE's is 0xffffff */
#define SOFTRDMA_VENDOR_ID 0x027372u

struct ibv_device *softrdma_device(void);

/*
 * Its one context in this process: it outlives every object, and is nobody's to free. NULL with ENOMEM can be
 * the first call's result only, and only in a child of a process that has used the device. Any thread.
 */
struct ibv_context *softrdma_context(void);

#endif /* SOFTRDMA_DEVICE_H */
