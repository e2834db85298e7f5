/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_qp_listener.c -- the listeners of queue pairs that connect without the connection manager: one for each address */

#include "by_hand.h"

/* several listeners, opened and closed in any order */
static void
test_doors(void **state)
{
	(void)state;
	for (int round = 0; round < 2; round++) {
		struct hands four, six;
		hands_init(&six, AF_INET6);
		hands_meet(&six);
		hands_init(&four, AF_INET);
		hands_meet(&four);
		expect_write(four.a);
		expect_write(six.b);
		hands_fini(round ? &four : &six);
		expect_write(round ? six.a : four.a);
		hands_fini(round ? &six : &four);
	}
}

/* listeners of several addresses are open at once, and are closed one by one */
static void
test_several_doors(void **state)
{
	(void)state;
	static const int families[] = { AF_INET6, AF_INET, AF_INET6, AF_INET };
	struct ibv_qp *qps[4];
	for (int i = 0; i < 4; i++) {
		const union ibv_gid gid = the_gid(families[i]);
		qps[i] = new_qp();
		to_init(qps[i]);
		to_rtr(qps[i], &gid, 0x123456, 1);
		expect_state(qps[i], IBV_QPS_RTR);
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(softrdma_ibv_destroy_qp(qps[i]), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_doors),
		device_test(test_several_doors),
	};
	return cmocka_run_group_tests(tests, setup_by_hand, teardown_by_hand);
}
