/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conn_cfg.h -- how a connection is to be made */

#ifndef RPMAI_CONN_CFG_H
#define RPMAI_CONN_CFG_H

#include "public.h"

/* the values of a configuration at one moment, ready for the verbs calls */
struct conn_params {
	int timeout_ms;
	int cqe;
	int rcqe; /* 0: no completion queue for receives */
	uint32_t sq_size;
	uint32_t rq_size;
	uint32_t max_sge;
	uint32_t inline_size;
	int connect_timeout_ms; /* -1: no limit */
	bool shared_channel;
	struct rpma_srq *srq; /* NULL: the connection has its own receive queue */
};

/* cfg NULL: the defaults */
struct conn_params rpmai_conn_cfg_params(const struct rpma_conn_cfg *cfg);

#endif /* RPMAI_CONN_CFG_H */
