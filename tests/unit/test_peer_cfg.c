/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_peer_cfg.c -- peer configurations and their descriptors */

#include "mock.h"

static void
arguments(void **state)
{
	(void)state;
	struct rpma_peer_cfg *cfg = NULL, *none = NULL;
	bool direct;
	size_t size;
	uint8_t desc[1] = { 0 };

	assert_ok(rpma_peer_cfg_new(&cfg));
	assert_fails(RPMA_E_INVAL, rpma_peer_cfg_new(NULL));
	assert_fails(RPMA_E_INVAL, rpma_peer_cfg_set_direct_write_to_pmem(NULL, true));
	assert_fails(RPMA_E_INVAL, rpma_peer_cfg_get_direct_write_to_pmem(NULL, &direct));
	assert_fails(RPMA_E_INVAL, rpma_peer_cfg_get_direct_write_to_pmem(cfg, NULL));
	assert_fails(RPMA_E_INVAL, rpma_peer_cfg_get_descriptor(NULL, desc));
	assert_fails(RPMA_E_INVAL, rpma_peer_cfg_get_descriptor(cfg, NULL));
	assert_fails(RPMA_E_INVAL, rpma_peer_cfg_get_descriptor_size(NULL, &size));
	assert_fails(RPMA_E_INVAL, rpma_peer_cfg_get_descriptor_size(cfg, NULL));
	assert_fails(RPMA_E_INVAL, rpma_peer_cfg_from_descriptor(NULL, 1, &none));
	assert_fails(RPMA_E_INVAL, rpma_peer_cfg_from_descriptor(desc, 1, NULL));
	assert_fails(RPMA_E_INVAL, rpma_peer_cfg_from_descriptor(desc, 0, &none));
	assert_fails(RPMA_E_INVAL, rpma_peer_cfg_delete(NULL));
	assert_null(none);
	assert_ok(rpma_peer_cfg_delete(&none));
	assert_ok(rpma_peer_cfg_delete(&cfg));
	assert_null(cfg);
}

static void
it_travels(void **state)
{
	(void)state;
	for (int direct = 0; direct < 2; direct++) {
		struct rpma_peer_cfg *cfg = NULL, *copy = NULL;
		bool got = true;
		size_t size = 0;
		uint8_t desc[1] = { 0xEE };

		assert_ok(rpma_peer_cfg_new(&cfg));
		assert_ok(rpma_peer_cfg_get_direct_write_to_pmem(cfg, &got));
		assert_false(got);
		assert_ok(rpma_peer_cfg_set_direct_write_to_pmem(cfg, direct));
		assert_ok(rpma_peer_cfg_get_descriptor_size(cfg, &size));
		assert_int_equal(size, 1);
		assert_ok(rpma_peer_cfg_get_descriptor(cfg, desc));
		assert_int_equal(desc[0], direct);
		assert_ok(rpma_peer_cfg_from_descriptor(desc, sizeof(desc), &copy));
		assert_ok(rpma_peer_cfg_get_direct_write_to_pmem(copy, &got));
		assert_int_equal(got, direct);
		rpma_peer_cfg_delete(&cfg);
		rpma_peer_cfg_delete(&copy);
	}
}

static void
no_memory(void **state)
{
	(void)state;
	struct rpma_peer_cfg *cfg = NULL;
	const uint8_t desc[1] = { 1 };
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpma_peer_cfg_new(&cfg));
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpma_peer_cfg_from_descriptor(desc, 1, &cfg));
	assert_null(cfg);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(arguments),
		rpma_test(it_travels),
		rpma_test(no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
