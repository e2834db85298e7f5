/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_cm.c -- ids, and queue pairs that come and go with them: in which order these may be destroyed */

#include "connected.h"

/* --- ids --- */

static void
test_create_id(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *const untouched = (void *)the_mem;
	struct rdma_cm_id *id = untouched;

	assert_int_equal(softrdma_rdma_create_id(channel, &id, NULL, RDMA_PS_IPOIB), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_int_equal(softrdma_rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), -1);
	assert_int_equal(errno, ENOMEM);
	for (unsigned skip = 0; skip < 2; skip++) { /* a synchronous id has its own channel */
		fail_call(FAIL_MINE, "calloc", skip, 1, ENOMEM);
		assert_int_equal(softrdma_rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), -1);
		assert_int_equal(errno, ENOMEM);
	}
	fail_nothing();
	assert_ptr_equal(id, untouched);

	assert_int_equal(softrdma_rdma_create_id(channel, &id, the_mem, RDMA_PS_IB), 0);
	assert_ptr_equal(id->channel, channel);
	assert_ptr_equal(id->context, the_mem);
	assert_int_equal(id->ps, RDMA_PS_IB);
	assert_int_equal(id->qp_type, IBV_QPT_RC);
	destroy(id);
	assert_int_equal(softrdma_rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(id->ps, RDMA_PS_UDP);
	assert_int_equal(id->qp_type, IBV_QPT_UD);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

static void
test_wrong_state(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	assert_int_equal(softrdma_rdma_listen(l.id, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(softrdma_rdma_connect(l.id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(softrdma_rdma_accept(l.id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(softrdma_rdma_reject(l.id, NULL, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(softrdma_rdma_disconnect(l.id), -1);
	assert_int_equal(errno, EINVAL);

	struct rdma_cm_id *id = new_id(l.channel);
	assert_int_equal(softrdma_rdma_accept(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	destroy(id);
	id = new_active(l.channel, &l.addr);
	assert_int_equal(softrdma_rdma_disconnect(id), -1); /* it is not connected */
	assert_int_equal(errno, EINVAL);
	destroy(id);
	listener_fini(&l);
}

/* without a progress thread there is no connection; the next attempt works */
static void
test_engine_does_not_start(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	struct sockaddr_in addr = loopback(0);
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&addr), 0);
	fail_call(FAIL_MINE, "pthread_create", 0, FAIL_FOR_EVER, EAGAIN);
	assert_int_equal(softrdma_rdma_listen(id, 0), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(softrdma_rdma_connect(id, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(softrdma_rdma_accept(id, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	fail_nothing();
	assert_int_equal(softrdma_rdma_listen(id, 0), 0);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

/* --- connections --- */

static void
test_disconnect(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	assert_int_equal(softrdma_rdma_disconnect(p.active), 0);
	expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_event(p.listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	assert_int_equal(softrdma_rdma_disconnect(p.active), 0); /* harmless */
	assert_int_equal(softrdma_rdma_disconnect(p.passive), 0);
	assert_int_equal(softrdma_rdma_accept(p.passive, NULL), -1);
	assert_int_equal(errno, EINVAL);
	expect_no_event(p.channel);
	expect_no_event(p.listener.channel);
	pair_fini(&p);
}

/* an id may be destroyed before its queue pair, as some programs do; the peer sees the end at once */
static void
test_id_before_queue_pair(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct ibv_qp *qp = p.active->qp;
	assert_int_equal(softrdma_rdma_destroy_id(p.active), 0);
	expect_event(p.listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_state(qp, IBV_QPS_ERR);
	softrdma_qp_delete(softrdma_qp_of(qp));
	destroy(p.passive);
	softrdma_rdma_destroy_event_channel(p.channel);
	listener_fini(&p.listener);
}

/*
 * All ids are destroyed before their queue pairs, and the device's thread ends with them. Later posts fail. A
 * new id may start the thread again. Objects still in use cannot be destroyed.
 */
static void
test_all_ids_before_their_queue_pairs(void **state)
{
	(void)state;
	for (int restart = 0; restart < 2; restart++) {
		struct pair_of_ids p;
		pair_init(&p);
		struct ibv_qp *qps[] = { p.active->qp, p.passive->qp };
		struct ibv_sge sge = { .addr = (uintptr_t)the_mem,
			.length = MEM_SIZE / 2,
			.lkey = the_mr->lkey };
		struct ibv_send_wr *bad,
			wr = {
				.opcode = IBV_WR_RDMA_WRITE,
				.send_flags = IBV_SEND_SIGNALED,
				.sg_list = &sge,
				.num_sge = 1,
				.wr.rdma = { .remote_addr = (uintptr_t)the_mem + MEM_SIZE / 2,
					.rkey = the_mr->rkey },
			};
		for (int i = 0; i < 8; i++)
			assert_int_equal(ibv_post_send(qps[0], &wr, &bad), 0);
		assert_int_equal(softrdma_rdma_destroy_id(p.active), 0);
		assert_int_equal(softrdma_rdma_destroy_id(p.passive), 0);
		softrdma_rdma_destroy_event_channel(p.channel);
		listener_fini(&p.listener);
		for (int i = 0; i < 8; i++)
			(void)next_wc();

		struct pair_of_ids other = { 0 };
		if (restart)
			pair_init(&other);
		assert_int_equal(ibv_post_send(qps[0], &wr, &bad), 0);
		assert_int_equal(next_wc().status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(softrdma_ibv_dealloc_pd(the_pd), EBUSY);
		assert_int_equal(softrdma_ibv_destroy_cq(the_cq), EBUSY);
		for (int i = 0; i < 2; i++) {
			expect_state(qps[i], IBV_QPS_ERR);
			assert_int_equal(softrdma_ibv_destroy_qp(qps[i]), 0);
		}
		if (restart)
			pair_fini(&other);
	}
}

/* the listener is destroyed, its accepted connection stays */
static void
test_listener_goes_first(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct rdma_event_channel *channel = new_channel();
	assert_int_equal(softrdma_rdma_migrate_id(p.passive, channel), 0);
	listener_fini(&p.listener);
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
	assert_int_equal(next_wc().status, IBV_WC_SUCCESS);
	destroy(p.active);
	expect_event(channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	destroy(p.passive);
	softrdma_rdma_destroy_event_channel(p.channel);
	softrdma_rdma_destroy_event_channel(channel);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_create_id),
		device_test(test_wrong_state),
		device_test(test_engine_does_not_start),
		device_test(test_disconnect),
		device_test(test_id_before_queue_pair),
		device_test(test_all_ids_before_their_queue_pairs),
		device_test(test_listener_goes_first),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
