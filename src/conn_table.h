/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conn_table.h -- the connections of a peer, by the numbers of their queue pairs */

#ifndef RPMAI_CONN_TABLE_H
#define RPMAI_CONN_TABLE_H

#include <stdint.h>

#include "public.h"

struct conn_table;

/* all calls: any thread */

/* RPMA_E_NOMEM */
int rpmai_conn_table_new(struct conn_table **table_ptr);
void rpmai_conn_table_delete(struct conn_table *table);

/* enters a connection whose queue pair exists, for as long as it does. RPMA_E_NOMEM */
int rpmai_conn_table_add(struct conn_table *table, struct rpma_conn *conn);
/* strikes it out; one that was not entered is none of its business */
void rpmai_conn_table_remove(struct conn_table *table, const struct rpma_conn *conn);

/* NULL: there is none */
struct rpma_conn *rpmai_conn_table_find(struct conn_table *table, uint32_t qp_num);

#endif /* RPMAI_CONN_TABLE_H */
