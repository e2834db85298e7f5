/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_links.c -- the list of all connections: one is found by its number, and one leaves while the list is walked */

#include "serving.h"

#include "softrdma/engine/links.h"

static void *
register_and_back(void *arg)
{
	(void)arg;
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, the_mem, 8, 0);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	return NULL;
}

/* a connection is removed while a deregistration visits all of them */
static void
test_leaves_during_a_visit(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct softrdma_link *link = softrdma_qp_of(p.active->qp)->link;
	pthread_mutex_lock(&link->lock);
	unsigned refs = atomic_load(&link->refs);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, register_and_back, NULL), 0);
	wait_until(atomic_load(&link->refs) > refs);
	softrdma_links_remove(link);
	pthread_mutex_unlock(&link->lock);
	pthread_join(thread, NULL);
	softrdma_links_add(link);
	assert_true(write_works(p.active->qp));
	pair_fini(&p);
}

/* numbers whose lower bits are the same are found apart, whichever of them is given back */
static void
test_numbers_alike(void **state)
{
	(void)state;
	enum { ALIKE = 3 };
	struct ibv_qp_init_attr_ex attr = qp_attr();
	struct softrdma_qp *qps[ALIKE];
	for (int gone = 0; gone < ALIKE; gone++) {
		for (unsigned i = 0; i < ALIKE; i++) {
			qps[i] = softrdma_qp_new(the_pd, &attr, &softrdma_managed_qp, i << 20 | 5);
			assert_non_null(qps[i]);
		}
		assert_false(softrdma_links_have_qp_num(ALIKE << 20 | 5));
		softrdma_qp_delete(qps[gone]);
		for (int i = 0; i < ALIKE; i++)
			assert_int_equal(softrdma_links_have_qp_num((uint32_t)i << 20 | 5), i != gone);
		for (int i = 0; i < ALIKE; i++)
			if (i != gone)
				softrdma_qp_delete(qps[i]);
		for (uint32_t i = 0; i < ALIKE; i++)
			assert_false(softrdma_links_have_qp_num(i << 20 | 5));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_leaves_during_a_visit),
		device_test(test_numbers_alike),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
