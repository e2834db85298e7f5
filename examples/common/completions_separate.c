/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <stddef.h>

#include "completions.h"
#include "connection.h"

int
completions_configure(struct rpma_conn_cfg *cfg)
{
	return checked("rpma_conn_cfg_set_compl_channel", rpma_conn_cfg_set_compl_channel(cfg, false));
}

int
completions_fd(const struct rpma_conn *conn, int *fd)
{
	struct rpma_cq *cq;

	int ret = rpma_conn_get_cq(conn, &cq);
	if (ret == 0)
		ret = rpma_cq_get_fd(cq, fd);

	return checked("rpma_cq_get_fd", ret);
}

int
completions_notified(struct rpma_conn *conn, struct ibv_wc *wc, bool *found)
{
	struct rpma_cq *cq;

	int ret = rpma_conn_get_cq(conn, &cq);
	if (ret == 0)
		ret = rpma_cq_wait(cq);
	if (ret == 0)
		ret = rpma_cq_get_wc(cq, 1, wc, NULL);
	*found = ret == 0;

	return ret == RPMA_E_NO_COMPLETION ? 0 : checked("collecting a completion", ret);
}

int
completions_next(struct rpma_conn *conn, enum completions_of of, struct ibv_wc *wc)
{
	struct rpma_cq *cq;

	int ret = of == COMPLETIONS_MAIN ? rpma_conn_get_cq(conn, &cq) : rpma_conn_get_rcq(conn, &cq);

	return ret ? checked("rpma_conn_get_cq", ret) : cq_next(cq, wc);
}
