/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* datagram_qp.h -- queue pairs of unreliable datagrams (UD) */

#ifndef SOFTRDMA_DATAGRAM_QP_H
#define SOFTRDMA_DATAGRAM_QP_H

#include <infiniband/verbs.h>

/* makes one in the RESET state, with a number whose port is that of its socket; 0 or an errno value. No lock held. */
int softrdma_datagram_qp_new(struct ibv_qp_init_attr_ex *attr, struct ibv_qp **qp);

/* moves a new one to RTS, with the Q_Key of RDMA_PS_UDP; 0 or an errno value. No lock held. */
int softrdma_datagram_qp_make_ready(struct ibv_qp *qp);

#endif /* SOFTRDMA_DATAGRAM_QP_H */
