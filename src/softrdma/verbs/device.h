/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* device.h -- the one device of the process */

#ifndef SOFTRDMA_DEVICE_H
#define SOFTRDMA_DEVICE_H

#include "softrdma/softrdma.h"

/* locally administered, and the same on every machine: the GID distinguishes machines */
#define SOFTRDMA_NODE_GUID 0x02736f66747264ffu

/* a locally administered OUI, so no vendor owns it; SoftRoCE's is 0xffffff */
#define SOFTRDMA_VENDOR_ID 0x027372u

struct ibv_device *softrdma_device(void);

/*
 * The device's only context in this process. It outlives every object and is never freed. Only in a child of a
 * process that has used the device, calls may give NULL (ENOMEM) until one succeeds. Any thread.
 */
struct ibv_context *softrdma_context(void);

/*
 * Queue pairs are made in cm/, because their states need connections. The connection manager says how, for the tables of
 * the contexts: called by its constructor only.
 */
typedef struct ibv_qp *softrdma_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
void softrdma_device_makes_qps(softrdma_create_qp_ex *create);

#endif /* SOFTRDMA_DEVICE_H */
