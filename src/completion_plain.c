/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* completion_plain.c -- rpma_conn_completion_get of the static library, which has no symbol versions */

#include "completion.h"

int
rpma_conn_completion_get(struct rpma_conn *conn, struct rpma_completion *cmpl)
{
	return rpmai_conn_completion_get(conn, cmpl, sizeof(*cmpl));
}
