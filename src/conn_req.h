/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conn_req.h -- a connection before it is established */

#ifndef RPMAI_CONN_REQ_H
#define RPMAI_CONN_REQ_H

#include "conn.h"

struct rpma_conn_req {
	struct rpma_conn *conn; /* outgoing: has no events of its own yet; incoming: has no queues at first */
	bool is_passive;        /* true for an incoming request, which is accepted or rejected */
	struct conn_params params; /* copied from the configuration when the request was made */
};

/*
 * Makes a request from the id of a CONNECT_REQUEST event and from a copy of its private data. The event is
 * already acknowledged. The call takes over both; if it fails, it rejects the client. RPMA_E_INVAL,
 * RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpmai_conn_req_new_passive(struct rpma_peer *peer, struct rdma_cm_id *id,
	struct rpma_conn_private_data *pdata, const struct rpma_conn_cfg *cfg,
	struct rpma_conn_req **req_ptr);

#endif /* RPMAI_CONN_REQ_H */
