/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conn_table.c -- the connections of a peer, by queue pair number: a tree of tsearch(3) */

#include <pthread.h>
#include <search.h>
#include <stdlib.h>

#include "conn.h"
#include "conn_table.h"
#include "err.h"

struct conn_table {
	pthread_rwlock_t lock;
	void *root;
	struct rpma_peer_stats past; /* of connections that were removed, but for those that are there now */
};

static int
compare(const void *a, const void *b)
{
	const uint32_t x = ((const struct rpma_conn *)a)->qp_num;
	const uint32_t y = ((const struct rpma_conn *)b)->qp_num;
	return x < y ? -1 : x > y;
}

int
rpmai_conn_table_new(struct conn_table **table_ptr)
{
	struct conn_table *table = malloc(sizeof(*table));
	if (table == NULL)
		return RPMAI_FAIL_NOMEM();

	pthread_rwlock_init(&table->lock, NULL);
	table->root = NULL;
	table->past = (struct rpma_peer_stats){ 0 };
	*table_ptr = table;
	return 0;
}

static void
keep(void *conn)
{
	(void)conn; /* the table does not own it: the connection is deleted after its peer */
}

void
rpmai_conn_table_delete(struct conn_table *table)
{
	tdestroy(table->root, keep);
	pthread_rwlock_destroy(&table->lock);
	free(table);
}

int
rpmai_conn_table_add(struct conn_table *table, struct rpma_conn *conn)
{
	pthread_rwlock_wrlock(&table->lock);
	struct rpma_conn **entry = tsearch(conn, &table->root, compare);
	if (entry)
		*entry = conn;
	pthread_rwlock_unlock(&table->lock);
	return entry ? 0 : RPMAI_FAIL_NOMEM();
}

void
rpmai_conn_table_remove(struct conn_table *table, const struct rpma_conn *conn)
{
	pthread_rwlock_wrlock(&table->lock);
	struct rpma_conn **entry = tfind(conn, &table->root, compare);
	if (entry && *entry == conn) {
		(void)tdelete(conn, &table->root, compare);
		rpmai_stats_add_conn(conn, &table->past);
		table->past.connections_now = 0;
	}
	pthread_rwlock_unlock(&table->lock);
}

static void
add_node(const void *node, VISIT visit, void *sum)
{
	const struct rpma_conn *const *entry = node;
	if (visit == preorder || visit == leaf) /* once for each */
		rpmai_stats_add_conn(*entry, sum);
}

void
rpmai_conn_table_sum(struct conn_table *table, struct rpma_peer_stats *sum)
{
	pthread_rwlock_rdlock(&table->lock);
	const uint64_t size = sum->size;
	*sum = table->past;
	sum->size = size;
	twalk_r(table->root, add_node, sum);
	pthread_rwlock_unlock(&table->lock);
}

struct rpma_conn *
rpmai_conn_table_find(struct conn_table *table, uint32_t qp_num)
{
	const struct rpma_conn key = { .qp_num = qp_num };
	pthread_rwlock_rdlock(&table->lock);
	struct rpma_conn **entry = tfind(&key, &table->root, compare);
	struct rpma_conn *conn = entry ? *entry : NULL;
	pthread_rwlock_unlock(&table->lock);
	return conn;
}
