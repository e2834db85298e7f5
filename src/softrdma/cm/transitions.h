/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* transitions.h -- the states of a queue pair, and what ibv_modify_qp(3) must and may set on the way from one to another */

#ifndef SOFTRDMA_TRANSITIONS_H
#define SOFTRDMA_TRANSITIONS_H

#include <infiniband/verbs.h>

/*
 * 0 if a queue pair of this type may go there, with these attributes (enum ibv_qp_attr_mask). EINVAL: not by the specification;
 * EOPNOTSUPP, and a line: not with this device.
 */
int softrdma_transition_check(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
	const struct ibv_qp_attr *attr, int mask);

#endif /* SOFTRDMA_TRANSITIONS_H */
