/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* completion.h -- the calls that poll and arm a completion queue */

#ifndef SOFTRDMA_COMPLETION_H
#define SOFTRDMA_COMPLETION_H

#include "softrdma/core/cq.h"

/* the implementations of ibv_poll_cq() and ibv_req_notify_cq() */
int softrdma_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int softrdma_req_notify_cq(struct ibv_cq *cq, int solicited_only);

#endif /* SOFTRDMA_COMPLETION_H */
