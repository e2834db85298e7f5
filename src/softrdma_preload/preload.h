/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * preload.h -- libsoftrdma.so: the software device under the names of libibverbs and librdmacm
 *
 * Loaded before these libraries it takes their place for the program and for every library in it. Most names
 * are the device's functions as they are; what librdmacm builds on top of its own calls (default protection
 * domains and completion queues, endpoints) is here. Every name that is given an id, a channel or another
 * object is exported, for the real libraries look behind such objects: what the device does not have fails
 * with EOPNOTSUPP, and says so once.
 */

#ifndef SOFTRDMA_PRELOAD_H
#define SOFTRDMA_PRELOAD_H

#include <stddef.h>

#include "softrdma/cm.h"
#include "softrdma/softrdma.h"

/* the extended attributes of a queue pair begin with the plain ones; less than these, which are padded */
#define SOFTRDMA_PLAIN_QP_ATTR_SIZE offsetof(struct ibv_qp_init_attr_ex, comp_mask)

/* exported by libibverbs, in no header that it installs; type is an enumeration there */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, unsigned int *type);

/* the one context, with a descriptor for its asynchronous events; any thread. NULL with errno. */
struct ibv_context *softrdma_preload_context(void);

/* an id that has got its device gets the protection domain that all such ids share; 0 or ENOMEM */
int softrdma_preload_use_device(struct rdma_cm_id *id);

/* a child shares another domain with its ids */
void softrdma_preload_after_fork(void);

/* says once for each name that the device does not have it, and gives EOPNOTSUPP; name lives for ever */
int softrdma_preload_missing(const char *name);

#endif /* SOFTRDMA_PRELOAD_H */
