/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* two_sides.h -- endpoints of both sides in one process, made as in librdmacm's own examples */

#ifndef TEST_PRELOAD_TWO_SIDES_H
#define TEST_PRELOAD_TWO_SIDES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_verbs.h>

#include "failing.h"
#include "softrdma_preload/preload.h"

static inline struct rdma_addrinfo *
resolve(const char *node, uint16_t port, int flags)
{
	char service[8];
	snprintf(service, sizeof(service), "%u", port);
	const struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *res = NULL;
	assert_int_equal(rdma_getaddrinfo(node, service, &hints, &res), 0);
	return res;
}

static inline struct ibv_qp_init_attr
small_qp(void)
{
	return (struct ibv_qp_init_attr){
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
}

/* listens on a port that the kernel chooses */
static inline struct rdma_cm_id *
passive_ep(const char *node, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct rdma_addrinfo *res = resolve(node, 0, RAI_PASSIVE);
	struct rdma_cm_id *id = NULL;
	assert_int_equal(rdma_create_ep(&id, res, pd, attr), 0);
	rdma_freeaddrinfo(res);
	assert_int_equal(rdma_listen(id, 0), 0);
	return id;
}

static inline struct rdma_cm_id *
active_ep(const char *node, struct rdma_cm_id *listen, struct ibv_qp_init_attr *attr)
{
	struct rdma_addrinfo *res = resolve(node, ntohs(rdma_get_src_port(listen)), 0);
	struct rdma_cm_id *id = NULL;
	assert_int_equal(rdma_create_ep(&id, res, NULL, attr), 0);
	rdma_freeaddrinfo(res);
	return id;
}

/*
 * The passive side's thread: takes one request and accepts it. Returns NULL if that failed; the id is
 * destroyed then.
 */
static inline void *
accept_one(void *arg)
{
	struct rdma_cm_id *id = NULL;
	if (rdma_get_request(arg, &id))
		return NULL;
	if (rdma_accept(id, NULL) == 0)
		return id;
	rdma_destroy_ep(id);
	return NULL;
}

#endif /* TEST_PRELOAD_TWO_SIDES_H */
