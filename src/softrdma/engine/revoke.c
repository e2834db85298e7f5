/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* revoke.c -- takes a region that is deregistered away from all connections */

#include "softrdma/engine/connection.h"
#include "softrdma/engine/links.h"
#include "softrdma/engine/revoke.h"
#include "softrdma/samehost/shm_path.h"

static void
revoke_from(struct softrdma_connection *conn, const void *arg)
{
	if (conn->link.qp == NULL)
		return;
	if (softrdma_link_revoke(&conn->link, arg))
		softrdma_connection_stream_ended(conn);
	else
		softrdma_connection_send(&conn->link);
}

void
softrdma_revoke(const struct softrdma_mr *mr)
{
	softrdma_links_for_each(revoke_from, mr);
	softrdma_shm_path_wait();
}
