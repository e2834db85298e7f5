/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_gather.c -- small requests wait for a response, and leave together */

#include "connected.h"
#include "softrdma/bounds.h"
#include "softrdma/engine/connection.h"

static struct softrdma_connection *
connection_of(const struct rdma_cm_id *id)
{
	return softrdma_connection_of(softrdma_qp_of(id->qp)->link);
}

static void
post_writes(const struct rdma_cm_id *id, unsigned count)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)the_mem + 64;
	wr.wr.rdma.rkey = the_mr->rkey;
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(ibv_post_send(id->qp, &wr, &bad), 0);
}

/* the number of requests that are posted and have not left */
static unsigned
waiting(struct softrdma_connection *conn)
{
	return locked(&conn->link, conn->link.requester.ring.head - conn->link.requester.tx);
}

/* all requests complete */
static void
expect_completions(unsigned count)
{
	struct ibv_wc wc;
	wait_until(atomic_load(&softrdma_cq_of(the_cq)->count) == count);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(softrdma_cq_pop(softrdma_cq_of(the_cq), 1, &wc), 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
}

/* the peer does not respond: its lock is held */
static void
test_waits_not_for_long(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct softrdma_connection *conn = connection_of(p.active);
	pthread_mutex_t *peer = &connection_of(p.passive)->link.lock;
	/* a late turn for what came with the connection's beginning would send the requests */
	await_sleep_of_other_threads();
	pthread_mutex_lock(peer);
	clock_stop();
	post_writes(p.active, SOFTRDMA_GATHER_FROM + 1);
	assert_int_equal(waiting(conn), 1);

	/* no response has come for long: all leave, and the next one may wait only after some time */
	clock_forward_ms(1);
	post_writes(p.active, 1);
	assert_int_equal(waiting(conn), 0);
	clock_forward_ms(1000);
	post_writes(p.active, 1);
	assert_int_equal(waiting(conn), 1);

	/* the same if another thread sends them; a request that follows leaves at once */
	clock_forward_ms(1);
	locked(&conn->link, (softrdma_connection_send(&conn->link), 0));
	assert_int_equal(waiting(conn), 0);
	post_writes(p.active, 1);
	assert_int_equal(waiting(conn), 0);
	clock_go_on();
	pthread_mutex_unlock(peer);
	expect_completions(SOFTRDMA_GATHER_FROM + 4);
	pair_fini(&p);
}

/* a wait that was not long has no consequences */
static void
test_goes_on_after_a_short_wait(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct softrdma_connection *conn = connection_of(p.active);
	pthread_mutex_t *peer = &connection_of(p.passive)->link.lock;
	/* a late turn for what came with the connection's beginning would send the requests */
	await_sleep_of_other_threads();
	pthread_mutex_lock(peer);
	clock_stop();
	for (int i = 0; i < 3; i++) {
		post_writes(p.active, i == 0 ? SOFTRDMA_GATHER_FROM + 1 : 1);
		assert_int_equal(waiting(conn), 1);
		clock_offset_ns += SOFTRDMA_GATHER_NS / 2;
		locked(&conn->link, (softrdma_connection_send(&conn->link), 0));
		assert_int_equal(waiting(conn), 0);
	}
	clock_go_on();
	pthread_mutex_unlock(peer);
	expect_completions(SOFTRDMA_GATHER_FROM + 3);
	pair_fini(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_waits_not_for_long),
		device_test(test_goes_on_after_a_short_wait),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
