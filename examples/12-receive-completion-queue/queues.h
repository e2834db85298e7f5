/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* queues.h -- the configuration of both sides: receives have a completion queue of their own */

#ifndef QUEUES_H
#define QUEUES_H

#include "completions.h"
#include "connection.h"

#define RCQ_SIZE 10

/* the caller deletes *cfg, also after a failure */
static inline int
configure_queues(struct rpma_conn_cfg **cfg)
{
	int ret = checked("rpma_conn_cfg_new", rpma_conn_cfg_new(cfg));
	if (ret == 0)
		ret = checked("rpma_conn_cfg_set_rcq_size", rpma_conn_cfg_set_rcq_size(*cfg, RCQ_SIZE));

	return ret ? ret : completions_configure(*cfg);
}

#endif /* QUEUES_H */
