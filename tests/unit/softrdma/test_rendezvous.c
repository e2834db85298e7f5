/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_rendezvous.c -- queue pairs that are connected by hand find each other */

#include "by_hand.h"

#include <sys/epoll.h>

/* --- each other --- */

static void
test_meet(void **state)
{
	(void)state;
	for (int v6 = 0; v6 < 2; v6++) {
		struct hands h;
		hands_init(&h, v6 ? AF_INET6 : AF_INET);
		hands_meet(&h);
		expect_write(h.a);
		expect_write(h.b);
		assert_int_equal(h.a->state, IBV_QPS_RTS);
		hands_fini(&h);
	}
	assert_int_equal(log_worst, 0);
}

/* one that is only in RTR serves; whichever of the two it is */
static void
test_one_way(void **state)
{
	(void)state;
	for (int turn = 0; turn < 2; turn++) {
		struct hands h;
		hands_init(&h, AF_INET);
		struct ibv_qp *client = turn ? h.a : h.b, *server = turn ? h.b : h.a;
		uint32_t client_psn = turn ? PSN_A : PSN_B, server_psn = turn ? PSN_B : PSN_A;
		to_rtr(server, &h.gid, client->qp_num, client_psn);
		to_rtr(client, &h.gid, server->qp_num, server_psn);
		to_rts(client, client_psn);
		expect_write(client);
		assert_int_equal(server->state, IBV_QPS_RTR);
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
		assert_int_equal(ibv_post_send(server, &wr, &bad), EINVAL);
		/* later it goes on to RTS, and can ask as well */
		to_rts(server, server_psn);
		expect_write(server);
		expect_write(client);
		hands_fini(&h);
	}
}

/* who is ready first waits: for a side that is in INIT, or not even that far */
static void
test_late(void **state)
{
	(void)state;
	struct hands h;
	hands_init(&h, AF_INET);
	to_rtr(h.a, &h.gid, h.b->qp_num, PSN_B);
	to_rts(h.a, PSN_A);
	post_write(h.a, 7);
	struct ibv_wc wc;
	assert_false(readable(-1, 60)); /* time for some calls */
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	to_rtr(h.b, &h.gid, h.a->qp_num, PSN_A);
	expect_wc(7, IBV_WC_SUCCESS);
	hands_fini(&h);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_meet),
		device_test(test_one_way),
		device_test(test_late),
	};
	return cmocka_run_group_tests(tests, setup_by_hand, teardown_by_hand);
}
