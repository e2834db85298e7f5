/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * preload.h -- libsoftrdma.so: the software device under the names of libibverbs and librdmacm
 *
 * If it is loaded before these libraries, it replaces them for the program and for every library in it. Most
 * names are simply the device's functions. What librdmacm builds on its own calls (default protection domains
 * and completion queues, endpoints) is here. Every call that takes an id, a channel or another object is
 * exported, because the real libraries read private data behind such objects. Calls that the device does not
 * have fail with EOPNOTSUPP, and each logs this once.
 */

#ifndef SOFTRDMA_PRELOAD_H
#define SOFTRDMA_PRELOAD_H

#include <stddef.h>

#include "softrdma/cm/cm.h"
#include "softrdma/softrdma.h"

/* the extended attributes of a queue pair begin with the plain ones; without the padding of those */
#define SOFTRDMA_PLAIN_QP_ATTR_SIZE offsetof(struct ibv_qp_init_attr_ex, comp_mask)

/* exported by libibverbs, but in none of its installed headers; type is an enumeration there */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, unsigned int *type);

/* the only context, with a descriptor for its asynchronous events; any thread. NULL with errno. */
struct ibv_context *softrdma_preload_context(void);

/* gives an id that has its device the protection domain that all such ids share; 0 or ENOMEM */
int softrdma_preload_use_device(struct rdma_cm_id *id);

/* in a child: the ids of a child share a new domain */
void softrdma_preload_after_fork(void);

/* logs once per name that the device does not have it; returns EOPNOTSUPP; name must live for ever */
int softrdma_preload_missing(const char *name);

#endif /* SOFTRDMA_PRELOAD_H */
