/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conn_req.h -- a connection before it is made */

#ifndef RPMAI_CONN_REQ_H
#define RPMAI_CONN_REQ_H

#include "conn.h"

struct rpma_conn_req {
	struct rpma_conn *conn; /* outgoing: without events of its own; incoming: at first without queues */
	bool is_passive;        /* an incoming request: it is accepted or rejected */
	struct conn_params params; /* as the configuration was when the request was made */
};

/*
 * Makes a request of the id of a CONNECT_REQUEST event, already acknowledged, and of the private data copied
 * from it. Takes both over, also when it fails: then the client is rejected. RPMA_E_INVAL, RPMA_E_NOMEM,
 * RPMA_E_PROVIDER
 */
int rpmai_conn_req_new_passive(struct rpma_peer *peer, struct rdma_cm_id *id,
	struct rpma_conn_private_data *pdata, const struct rpma_conn_cfg *cfg,
	struct rpma_conn_req **req_ptr);

#endif /* RPMAI_CONN_REQ_H */
