/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_conn_cfg.c -- the configuration of a connection */

#include <limits.h>

#include "conn_cfg.h"
#include "mock.h"

typedef int setter(struct rpma_conn_cfg *cfg, uint32_t size);
typedef int getter(const struct rpma_conn_cfg *cfg, uint32_t *size);

static void
sizes(void **state)
{
	(void)state;
	const struct {
		setter *set;
		getter *get;
		uint32_t def;
	} table[] = {
		{ rpma_conn_cfg_set_cq_size, rpma_conn_cfg_get_cq_size, 10 },
		{ rpma_conn_cfg_set_rcq_size, rpma_conn_cfg_get_rcq_size, 0 },
		{ rpma_conn_cfg_set_sq_size, rpma_conn_cfg_get_sq_size, 10 },
		{ rpma_conn_cfg_set_rq_size, rpma_conn_cfg_get_rq_size, 10 },
		{ rpma_conn_cfg_set_inline_size, rpma_conn_cfg_get_inline_size, 8 },
	};
	struct rpma_conn_cfg *cfg = NULL;
	assert_ok(rpma_conn_cfg_new(&cfg));
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		static const uint32_t values[] = { 0, 1, 77, UINT32_MAX };
		uint32_t got = 5;
		assert_ok(table[i].get(cfg, &got));
		assert_int_equal(got, table[i].def);
		for (size_t v = 0; v < 4; v++) {
			assert_ok(table[i].set(cfg, values[v]));
			assert_ok(table[i].get(cfg, &got));
			assert_int_equal(got, values[v]);
		}
		assert_fails(RPMA_E_INVAL, table[i].set(NULL, 1));
		assert_fails(RPMA_E_INVAL, table[i].get(NULL, &got));
		assert_fails(RPMA_E_INVAL, table[i].get(cfg, NULL));
	}
	assert_ok(rpma_conn_cfg_delete(&cfg));
	assert_null(cfg);
}

static void
life(void **state)
{
	(void)state;
	struct rpma_conn_cfg *cfg = NULL;
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_new(NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_delete(NULL));
	assert_ok(rpma_conn_cfg_delete(&cfg));
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpma_conn_cfg_new(&cfg));
	assert_null(cfg);
}

static void
the_rest(void **state)
{
	(void)state;
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_srq srq, *got_srq = &srq;
	bool shared = true;
	int timeout_ms = 0;

	assert_ok(rpma_conn_cfg_new(&cfg));
	assert_ok(rpma_conn_cfg_get_timeout(cfg, &timeout_ms));
	assert_int_equal(timeout_ms, RPMA_DEFAULT_TIMEOUT_MS);
	assert_ok(rpma_conn_cfg_set_timeout(cfg, 0));
	assert_ok(rpma_conn_cfg_get_timeout(cfg, &timeout_ms));
	assert_int_equal(timeout_ms, 0);
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_set_timeout(cfg, -1));
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_set_timeout(NULL, 1));
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_get_timeout(NULL, &timeout_ms));
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_get_timeout(cfg, NULL));

	assert_ok(rpma_conn_cfg_get_connect_timeout(cfg, &timeout_ms));
	assert_int_equal(timeout_ms, -1);
	static const int timeouts[] = { 0, 1, INT_MAX, -1 };
	for (size_t i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++) {
		assert_ok(rpma_conn_cfg_set_connect_timeout(cfg, timeouts[i]));
		assert_ok(rpma_conn_cfg_get_connect_timeout(cfg, &timeout_ms));
		assert_int_equal(timeout_ms, timeouts[i]);
	}
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_set_connect_timeout(cfg, -2));
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_set_connect_timeout(cfg, INT_MIN));
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_set_connect_timeout(NULL, 1));
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_get_connect_timeout(NULL, &timeout_ms));
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_get_connect_timeout(cfg, NULL));

	/* an operation has at least one SGE */
	uint32_t max_sge = 0;
	assert_ok(rpma_conn_cfg_get_max_sge(cfg, &max_sge));
	assert_int_equal(max_sge, 1);
	assert_ok(rpma_conn_cfg_set_max_sge(cfg, UINT32_MAX));
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_set_max_sge(cfg, 0));
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_set_max_sge(NULL, 1));
	assert_ok(rpma_conn_cfg_get_max_sge(cfg, &max_sge));
	assert_true(max_sge == UINT32_MAX);
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_get_max_sge(NULL, &max_sge));
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_get_max_sge(cfg, NULL));

	assert_ok(rpma_conn_cfg_get_compl_channel(cfg, &shared));
	assert_false(shared);
	assert_ok(rpma_conn_cfg_set_compl_channel(cfg, true));
	assert_ok(rpma_conn_cfg_get_compl_channel(cfg, &shared));
	assert_true(shared);
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_set_compl_channel(NULL, true));
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_get_compl_channel(NULL, &shared));
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_get_compl_channel(cfg, NULL));

	assert_ok(rpma_conn_cfg_get_srq(cfg, &got_srq));
	assert_null(got_srq);
	assert_ok(rpma_conn_cfg_set_srq(cfg, &srq));
	assert_ok(rpma_conn_cfg_get_srq(cfg, &got_srq));
	assert_ptr_equal(got_srq, &srq);
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_set_srq(cfg, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_set_srq(NULL, &srq));
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_get_srq(NULL, &got_srq));
	assert_fails(RPMA_E_INVAL, rpma_conn_cfg_get_srq(cfg, NULL));
	assert_ok(rpma_conn_cfg_delete(&cfg));
}

static void
params(void **state)
{
	(void)state;
	struct rpma_conn_cfg *cfg = NULL;
	struct conn_params p = rpmai_conn_cfg_params(NULL);
	assert_int_equal(p.timeout_ms, RPMA_DEFAULT_TIMEOUT_MS);
	assert_int_equal(p.cqe, 10);
	assert_int_equal(p.rcqe, 0);
	assert_int_equal(p.sq_size, 10);
	assert_int_equal(p.rq_size, 10);
	assert_int_equal(p.max_sge, 1);
	assert_int_equal(p.inline_size, 8);
	assert_int_equal(p.connect_timeout_ms, -1);
	assert_false(p.shared_channel);
	assert_null(p.srq);

	assert_ok(rpma_conn_cfg_new(&cfg));
	assert_ok(rpma_conn_cfg_set_cq_size(cfg, UINT32_MAX));
	assert_ok(rpma_conn_cfg_set_rcq_size(cfg, (uint32_t)INT_MAX + 1));
	assert_ok(rpma_conn_cfg_set_sq_size(cfg, UINT32_MAX));
	assert_ok(rpma_conn_cfg_set_max_sge(cfg, 5));
	assert_ok(rpma_conn_cfg_set_inline_size(cfg, 6));
	assert_ok(rpma_conn_cfg_set_connect_timeout(cfg, 7));
	p = rpmai_conn_cfg_params(cfg);
	assert_int_equal(p.max_sge, 5);
	assert_int_equal(p.inline_size, 6);
	assert_int_equal(p.connect_timeout_ms, 7);
	assert_int_equal(p.cqe, INT_MAX);
	assert_int_equal(p.rcqe, INT_MAX);
	assert_true(p.sq_size == UINT32_MAX);
	assert_ok(rpma_conn_cfg_delete(&cfg));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(sizes),
		rpma_test(life),
		rpma_test(the_rest),
		rpma_test(params),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
