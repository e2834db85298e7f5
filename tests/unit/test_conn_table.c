/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_conn_table.c -- the connections of a peer, by the numbers of their queue pairs */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "conn_table.h"
#include "mock.h"

#define CONNS 200

static void
found_while_they_are_there(void **state)
{
	(void)state;
	/* numbers in no order, including both ends of their range */
	struct rpma_conn *conns = calloc(CONNS, sizeof(*conns));
	struct conn_table *table = NULL;
	assert_non_null(conns);
	assert_ok(rpmai_conn_table_new(&table));
	for (uint32_t i = 0; i < CONNS; i++)
		conns[i].qp_num = i == 0 ? 0 : i == 1 ? UINT32_MAX : i * 2654435761u;

	for (int i = 0; i < CONNS; i++) {
		assert_null(rpmai_conn_table_find(table, conns[i].qp_num));
		assert_ok(rpmai_conn_table_add(table, &conns[i]));
		for (int j = 0; j <= i; j++)
			assert_ptr_equal(rpmai_conn_table_find(table, conns[j].qp_num), &conns[j]);
	}
	assert_null(rpmai_conn_table_find(table, 1));
	for (int i = CONNS - 1; i >= 0; i -= 2)
		rpmai_conn_table_remove(table, &conns[i]);
	for (int i = 0; i < CONNS; i++)
		assert_ptr_equal(rpmai_conn_table_find(table, conns[i].qp_num), i % 2 ? NULL : &conns[i]);
	rpmai_conn_table_delete(table); /* with the remaining entries */
	free(conns);
}

/* a reused number belongs to the newer connection; removing the older one does not affect it */
static void
a_number_used_again(void **state)
{
	(void)state;
	struct rpma_conn *conns = calloc(3, sizeof(*conns));
	struct conn_table *table = NULL;
	assert_non_null(conns);
	assert_ok(rpmai_conn_table_new(&table));
	conns[0].qp_num = conns[1].qp_num = conns[2].qp_num = 5;
	assert_ok(rpmai_conn_table_add(table, &conns[0]));
	assert_ok(rpmai_conn_table_add(table, &conns[1]));
	assert_ptr_equal(rpmai_conn_table_find(table, 5), &conns[1]);
	rpmai_conn_table_remove(table, &conns[0]);
	rpmai_conn_table_remove(table, &conns[2]); /* it was never inserted */
	assert_ptr_equal(rpmai_conn_table_find(table, 5), &conns[1]);
	rpmai_conn_table_remove(table, &conns[1]);
	assert_null(rpmai_conn_table_find(table, 5));
	rpmai_conn_table_remove(table, &conns[1]);
	rpmai_conn_table_delete(table);
	free(conns);
}

static void
no_memory(void **state)
{
	(void)state;
	struct rpma_conn *conn = calloc(1, sizeof(*conn));
	struct conn_table *table = NULL;
	assert_non_null(conn);
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpmai_conn_table_new(&table));
	assert_null(table);
	assert_ok(rpmai_conn_table_new(&table));
	mock.fail_call = "tsearch";
	assert_fails(RPMA_E_NOMEM, rpmai_conn_table_add(table, conn));
	assert_null(rpmai_conn_table_find(table, 0));
	rpmai_conn_table_delete(table);
	free(conn);
}

/* ---- several threads ---- */

#define THREADS 4
#define ROUNDS 500

static struct {
	struct conn_table *table;
	struct rpma_conn *conns;
	atomic_int wrong;
} shared;

/* inserts and removes its own connection, and looks for all of them */
static void *
come_and_go(void *arg)
{
	struct rpma_conn *own = &shared.conns[(uintptr_t)arg];
	for (int i = 0; i < ROUNDS; i++) {
		bool right = rpmai_conn_table_add(shared.table, own) == 0;
		right &= rpmai_conn_table_find(shared.table, own->qp_num) == own;
		for (int other = 0; other < THREADS; other++) {
			struct rpma_conn *found =
				rpmai_conn_table_find(shared.table, shared.conns[other].qp_num);
			right &= found == NULL || found == &shared.conns[other];
		}
		rpmai_conn_table_remove(shared.table, own);
		right &= rpmai_conn_table_find(shared.table, own->qp_num) == NULL;
		shared.wrong += !right;
	}
	return NULL;
}

static void
threads_come_and_go(void **state)
{
	(void)state;
	pthread_t threads[THREADS];
	shared.conns = calloc(THREADS, sizeof(*shared.conns));
	assert_non_null(shared.conns);
	assert_ok(rpmai_conn_table_new(&shared.table));
	for (uint32_t i = 0; i < THREADS; i++)
		shared.conns[i].qp_num = 100 - i;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(shared.wrong, 0);
	rpmai_conn_table_delete(shared.table);
	free(shared.conns);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(found_while_they_are_there),
		rpma_test(a_number_used_again),
		rpma_test(no_memory),
		rpma_test(threads_come_and_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
