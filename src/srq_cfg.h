/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* srq_cfg.h -- how a shared receive queue is to be made */

#ifndef RPMAI_SRQ_CFG_H
#define RPMAI_SRQ_CFG_H

#include "public.h"

/* the values of a configuration at one moment, ready for the verbs calls */
struct srq_params {
	uint32_t rq_size;
	int rcqe; /* 0: no completion queue of its own */
};

/* cfg NULL: the defaults */
struct srq_params rpmai_srq_cfg_params(const struct rpma_srq_cfg *cfg);

#endif /* RPMAI_SRQ_CFG_H */
