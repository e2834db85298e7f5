/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* by_hand_qp.h -- queue pairs of reliable connections that the application connects, without a connection manager */

#ifndef SOFTRDMA_BY_HAND_QP_H
#define SOFTRDMA_BY_HAND_QP_H

#include <infiniband/verbs.h>

/* makes one in the RESET state; 0 or an errno value. No lock held. */
int softrdma_by_hand_qp_new(struct ibv_qp_init_attr_ex *attr, struct ibv_qp **qp);

#endif /* SOFTRDMA_BY_HAND_QP_H */
