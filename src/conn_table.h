/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conn_table.h -- the connections of a peer, by queue pair number */

#ifndef RPMAI_CONN_TABLE_H
#define RPMAI_CONN_TABLE_H

#include <stdint.h>

#include "public.h"

struct conn_table;

/* any thread may make these calls */

/* RPMA_E_NOMEM */
int rpmai_conn_table_new(struct conn_table **table_ptr);
void rpmai_conn_table_delete(struct conn_table *table);

/* adds a connection that has a queue pair; remove it before the queue pair is destroyed. RPMA_E_NOMEM */
int rpmai_conn_table_add(struct conn_table *table, struct rpma_conn *conn);
/* removes a connection, and keeps what it has counted; does nothing if it was never added */
void rpmai_conn_table_remove(struct conn_table *table, const struct rpma_conn *conn);

/* sets the sum to what the connections have counted, also those that were removed; only its size stays as it is */
void rpmai_conn_table_sum(struct conn_table *table, struct rpma_peer_stats *sum);

/* NULL if no connection has that number */
struct rpma_conn *rpmai_conn_table_find(struct conn_table *table, uint32_t qp_num);

#endif /* RPMAI_CONN_TABLE_H */
