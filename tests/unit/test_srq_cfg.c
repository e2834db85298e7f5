/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_srq_cfg.c -- the configuration of a shared receive queue */

#include <limits.h>

#include "srq_cfg.h"
#include "mock.h"

typedef int setter(struct rpma_srq_cfg *cfg, uint32_t size);
typedef int getter(const struct rpma_srq_cfg *cfg, uint32_t *size);

static void
sizes(void **state)
{
	(void)state;
	const struct {
		setter *set;
		getter *get;
		uint32_t def;
	} table[] = {
		{ rpma_srq_cfg_set_rq_size, rpma_srq_cfg_get_rq_size, 20 },
		{ rpma_srq_cfg_set_rcq_size, rpma_srq_cfg_get_rcq_size, 20 },
	};
	struct rpma_srq_cfg *cfg = NULL;
	assert_ok(rpma_srq_cfg_new(&cfg));
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
	assert_ok(rpma_srq_cfg_delete(&cfg));
	assert_null(cfg);
}

static void
life(void **state)
{
	(void)state;
	struct rpma_srq_cfg *cfg = NULL;
	assert_fails(RPMA_E_INVAL, rpma_srq_cfg_new(NULL));
	assert_fails(RPMA_E_INVAL, rpma_srq_cfg_delete(NULL));
	assert_ok(rpma_srq_cfg_delete(&cfg));
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpma_srq_cfg_new(&cfg));
	assert_null(cfg);
}

static void
params(void **state)
{
	(void)state;
	struct rpma_srq_cfg *cfg = NULL;
	struct srq_params p = rpmai_srq_cfg_params(NULL);
	assert_int_equal(p.rq_size, 20);
	assert_int_equal(p.rcqe, 20);

	assert_ok(rpma_srq_cfg_new(&cfg));
	assert_ok(rpma_srq_cfg_set_rcq_size(cfg, UINT32_MAX));
	p = rpmai_srq_cfg_params(cfg);
	assert_int_equal(p.rcqe, INT_MAX);
	assert_ok(rpma_srq_cfg_delete(&cfg));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(sizes),
		rpma_test(life),
		rpma_test(params),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
