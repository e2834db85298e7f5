/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <stddef.h>

#include "completions.h"
#include "connection.h"

int
completions_configure(struct rpma_conn_cfg *cfg)
{
	return checked("rpma_conn_cfg_set_compl_channel", rpma_conn_cfg_set_compl_channel(cfg, true));
}

int
completions_fd(const struct rpma_conn *conn, int *fd)
{
	return checked("rpma_conn_get_compl_fd", rpma_conn_get_compl_fd(conn, fd));
}

int
completions_notified(struct rpma_conn *conn, struct ibv_wc *wc, bool *found)
{
	struct rpma_cq *cq;

	int ret = rpma_conn_wait(conn, 0, &cq, NULL);
	if (ret == 0)
		ret = rpma_cq_get_wc(cq, 1, wc, NULL);
	*found = ret == 0;

	return ret == RPMA_E_NO_COMPLETION ? 0 : checked("collecting a completion", ret);
}

int
completions_next(struct rpma_conn *conn, enum completions_of of, struct ibv_wc *wc)
{
	struct rpma_cq *wanted;
	struct rpma_cq *notified;

	int ret = of == COMPLETIONS_MAIN ? rpma_conn_get_cq(conn, &wanted) : rpma_conn_get_rcq(conn, &wanted);
	/*
	 * The channel may notify of the other queue. Its completions stay there. They are found later,
	 * because the loop collects before it waits.
	 */
	while (ret == 0 && (ret = rpma_cq_get_wc(wanted, 1, wc, NULL)) == RPMA_E_NO_COMPLETION)
		ret = rpma_conn_wait(conn, 0, &notified, NULL);

	return ret ? checked("waiting for a completion", ret) : wc_checked(wc);
}
