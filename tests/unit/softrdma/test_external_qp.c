/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_external_qp.c -- queue pairs that the application makes and the connection manager connects */

#include "by_hand.h"

/* --- the application's part --- */

static void
move_as_told(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask = 0;
	assert_int_equal(softrdma_rdma_init_qp_attr(id, &attr, &mask), 0);
	assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, mask), 0);
}

static void
make_ready(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	move_as_told(id, qp, IBV_QPS_INIT);
	move_as_told(id, qp, IBV_QPS_RTR);
	move_as_told(id, qp, IBV_QPS_RTS);
}

static struct rdma_conn_param
param_of(const struct ibv_qp *qp)
{
	return (struct rdma_conn_param){ .responder_resources = 4,
		.initiator_depth = 4,
		.rnr_retry_count = 7,
		.qp_num = qp ? qp->qp_num : 0 };
}

/* one side of a connection; qp is set if it is the application's own */
struct side {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_qp *own;
};

struct sides {
	struct listener listener;
	struct side active, passive;
};

static struct ibv_qp *
qp_of(const struct side *side)
{
	return side->own ? side->own : side->id->qp;
}

static struct rdma_cm_id *
resolved_id(struct rdma_event_channel *channel, struct sockaddr_in *addr)
{
	struct rdma_cm_id *id = new_id(channel);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)addr, 1000), 0);
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(softrdma_rdma_resolve_route(id, 1000), 0);
	expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return id;
}

/* up to the connection request */
static void
sides_ask(struct sides *s, bool active_owns)
{
	memset(s, 0, sizeof(*s));
	listener_init(&s->listener);
	s->active.channel = new_channel();
	s->passive.channel = s->listener.channel;
	s->active.id = resolved_id(s->active.channel, &s->listener.addr);
	if (active_owns)
		s->active.own = new_qp();
	else
		give_qp(s->active.id);
	struct rdma_conn_param param = param_of(s->active.own);
	assert_int_equal(softrdma_rdma_connect(s->active.id, &param), 0);
	s->passive.id = expect_event(s->listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
}

/* up to CONNECT_RESPONSE, or up to ESTABLISHED if the active side has no queue pair of its own */
static void
sides_accept(struct sides *s, bool passive_owns)
{
	if (passive_owns) {
		s->passive.own = new_qp();
		make_ready(s->passive.id, s->passive.own);
	} else {
		give_qp(s->passive.id);
	}
	struct rdma_conn_param param = param_of(s->passive.own);
	assert_int_equal(softrdma_rdma_accept(s->passive.id, &param), 0);
	expect_event(s->active.channel,
		s->active.own ? RDMA_CM_EVENT_CONNECT_RESPONSE : RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void
sides_establish(struct sides *s)
{
	if (s->active.own) {
		make_ready(s->active.id, s->active.own);
		assert_int_equal(softrdma_rdma_establish(s->active.id), 0);
	}
	expect_event(s->passive.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void
sides_connect(struct sides *s, bool active_owns, bool passive_owns)
{
	sides_ask(s, active_owns);
	sides_accept(s, passive_owns);
	sides_establish(s);
}

static void
side_fini(struct side *side)
{
	if (side->own)
		assert_int_equal(softrdma_ibv_destroy_qp(side->own), 0);
	destroy(side->id);
}

static void
sides_fini(struct sides *s)
{
	side_fini(&s->active);
	if (s->passive.id)
		side_fini(&s->passive);
	softrdma_rdma_destroy_event_channel(s->active.channel);
	listener_fini(&s->listener);
}

/* --- operations --- */

static void
expect_message(struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	struct ibv_sge there = { .addr = (uintptr_t)the_mem + 64, .length = 8, .lkey = the_mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 11, .sg_list = &there, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = { .wr_id = 12,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = 0x1234,
		.send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad_send;
	assert_int_equal(ibv_post_recv(to, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(from, &send, &bad_send), 0);
	unsigned seen = 0;
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = next_wc();
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id == 11)
			assert_int_equal(wc.imm_data, 0x1234);
		seen |= 1u << (wc.wr_id - 11);
	}
	assert_int_equal(seen, 3);
}

static void
expect_one_sided(struct ibv_qp *qp, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 13,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	uint64_t *far = (uint64_t *)(void *)(the_mem + MEM_SIZE / 2);
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)far;
		wr.wr.atomic.rkey = the_mr->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)far;
		wr.wr.rdma.rkey = the_mr->rkey;
	}
	uint64_t near = 42, before = 41;
	memcpy(the_mem, &near, 8);
	memcpy(far, &before, 8);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	expect_wc(13, IBV_WC_SUCCESS);
	memcpy(&near, the_mem, 8);
	memcpy(&before, far, 8);
	assert_int_equal(before, opcode == IBV_WR_RDMA_READ ? 41 : 42);
	assert_int_equal(near, opcode == IBV_WR_RDMA_WRITE ? 42 : 41);
}

static void
expect_all_operations(struct ibv_qp *from, struct ibv_qp *to)
{
	expect_message(from, to);
	expect_one_sided(from, IBV_WR_RDMA_WRITE);
	expect_one_sided(from, IBV_WR_RDMA_READ);
	expect_one_sided(from, IBV_WR_ATOMIC_FETCH_AND_ADD);
}

/* --- tests --- */

/* the application's queue pairs are on one side, or on both */
static void
test_connection(void **state)
{
	(void)state;
	for (int owners = 1; owners < 4; owners++) {
		struct sides s;
		sides_connect(&s, owners & 1, owners & 2);
		expect_all_operations(qp_of(&s.active), qp_of(&s.passive));
		expect_all_operations(qp_of(&s.passive), qp_of(&s.active));
		struct side *first = owners & 1 ? &s.active : &s.passive;
		assert_int_equal(softrdma_rdma_disconnect(first->id), 0);
		expect_event(s.active.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		expect_event(s.passive.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		sides_fini(&s);
	}
	assert_int_equal(log_worst, 0);
}

/* the first sequence numbers and the resources are those that both sides have sent */
static void
test_attributes(void **state)
{
	(void)state;
	struct sides s;
	sides_ask(&s, true);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR }, peer = { .qp_state = IBV_QPS_RTS };
	int mask = 0;
	/* not before the peer has responded */
	assert_int_equal(softrdma_rdma_init_qp_attr(s.active.id, &attr, &mask), -1);
	assert_int_equal(errno, EINVAL);
	sides_accept(&s, true);
	assert_int_equal(softrdma_rdma_init_qp_attr(s.active.id, &attr, &mask), 0);
	assert_int_equal(mask, RTR_MASK);
	assert_int_equal(attr.dest_qp_num, s.passive.own->qp_num);
	assert_int_equal(attr.max_dest_rd_atomic, 4);
	assert_int_equal(softrdma_rdma_init_qp_attr(s.passive.id, &peer, &mask), 0);
	assert_int_equal(mask, RTS_MASK);
	assert_int_equal(attr.rq_psn, peer.sq_psn);
	assert_int_equal(peer.timeout, 14);
	assert_int_equal(peer.rnr_retry, 7);
	assert_int_equal(peer.max_rd_atomic, 4);
	assert_int_equal(softrdma_rdma_set_ack_timeout(s.passive.id, 9), 0);
	assert_int_equal(softrdma_rdma_init_qp_attr(s.passive.id, &peer, &mask), 0);
	assert_int_equal(peer.timeout, 9);
	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(softrdma_rdma_init_qp_attr(s.active.id, &attr, &mask), 0);
	assert_int_equal(mask, INIT_MASK);
	assert_int_equal(attr.port_num, 1);
	attr.qp_state = IBV_QPS_SQD;
	assert_int_equal(softrdma_rdma_init_qp_attr(s.active.id, &attr, &mask), -1);
	sides_establish(&s);
	expect_all_operations(s.active.own, s.passive.own);
	sides_fini(&s);
}

/* A queue pair in RTR serves requests. Requests posted before the peer is connected are sent once it is. */
static void
test_before_the_stream(void **state)
{
	(void)state;
	struct sides s;
	sides_ask(&s, true);
	s.passive.own = new_qp();
	move_as_told(s.passive.id, s.passive.own, IBV_QPS_INIT);
	move_as_told(s.passive.id, s.passive.own, IBV_QPS_RTR);
	struct rdma_conn_param param = param_of(s.passive.own);
	assert_int_equal(softrdma_rdma_accept(s.passive.id, &param), 0);
	expect_event(s.active.channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	make_ready(s.active.id, s.active.own);
	post_write(s.active.own, 5);
	assert_int_equal(softrdma_rdma_establish(s.active.id), 0);
	expect_wc(5, IBV_WC_SUCCESS);
	expect_event(s.passive.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	move_as_told(s.passive.id, s.passive.own, IBV_QPS_RTS);
	expect_all_operations(s.passive.own, s.active.own);
	sides_fini(&s);
}

static void
refuse_establish(struct rdma_cm_id *id)
{
	errno = 0;
	assert_int_equal(softrdma_rdma_establish(id), -1);
	assert_int_equal(errno, EINVAL);
}

static void
test_wrong_order(void **state)
{
	(void)state;
	struct sides s;
	struct ibv_qp *other = new_qp();
	sides_ask(&s, true);
	refuse_establish(s.active.id);  /* the peer has not responded */
	refuse_establish(s.passive.id); /* the call is not for this side */

	/* unknown queue pair numbers, and a queue pair that is not ready */
	struct rdma_conn_param param = param_of(NULL);
	assert_int_equal(softrdma_rdma_accept(s.passive.id, &param), -1);
	assert_int_equal(errno, EINVAL);
	param = param_of(other);
	assert_int_equal(softrdma_rdma_accept(s.passive.id, &param), -1);
	assert_int_equal(errno, EINVAL);
	/* in RTS, but with another first sequence number than the peer is told */
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	int mask;
	move_as_told(s.passive.id, other, IBV_QPS_INIT);
	move_as_told(s.passive.id, other, IBV_QPS_RTR);
	assert_int_equal(softrdma_rdma_init_qp_attr(s.passive.id, &attr, &mask), 0);
	attr.sq_psn ^= 1;
	assert_int_equal(softrdma_ibv_modify_qp(other, &attr, mask), 0);
	assert_int_equal(softrdma_rdma_accept(s.passive.id, &param), -1);
	assert_int_equal(errno, EINVAL);

	sides_accept(&s, true);
	refuse_establish(s.active.id); /* its queue pair is not in RTS */
	move_as_told(s.active.id, s.active.own, IBV_QPS_INIT);
	move_as_told(s.active.id, s.active.own, IBV_QPS_RTR);
	refuse_establish(s.active.id);
	move_as_told(s.active.id, s.active.own, IBV_QPS_RTS);
	assert_int_equal(softrdma_rdma_establish(s.active.id), 0);
	refuse_establish(s.active.id); /* only once */
	expect_event(s.passive.channel, RDMA_CM_EVENT_ESTABLISHED, 0);

	/* a connected queue pair cannot be connected again */
	struct rdma_cm_id *id = resolved_id(s.active.channel, &s.listener.addr);
	param = param_of(s.active.own);
	assert_int_equal(softrdma_rdma_connect(id, &param), -1);
	assert_int_equal(errno, EINVAL);
	destroy(id);
	sides_fini(&s);
	assert_int_equal(softrdma_ibv_destroy_qp(other), 0);
}

/* the queue pair was promised to the connection manager, and is connected by hand to another address instead */
static void
test_by_hand_instead(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(AF_INET);
	struct sides s;
	sides_ask(&s, true);
	sides_accept(&s, false);
	move_as_told(s.active.id, s.active.own, IBV_QPS_INIT);
	to_rtr(s.active.own, &gid, s.active.own->qp_num, 0);
	/* with the first sequence number that the peer was told */
	move_as_told(s.active.id, s.active.own, IBV_QPS_RTS);
	refuse_establish(s.active.id);
	sides_fini(&s);
}

/* a queue pair made by the connection manager needs no rdma_establish() */
static void
test_managed(void **state)
{
	(void)state;
	struct sides s;
	sides_connect(&s, false, true);
	refuse_establish(s.active.id);
	refuse_establish(s.passive.id);
	sides_fini(&s);
}

/* the active side gives up, by a call or by destroying its id */
static void
test_given_up(void **state)
{
	(void)state;
	for (int by_reject = 0; by_reject < 2; by_reject++) {
		struct sides s;
		sides_ask(&s, true);
		sides_accept(&s, false);
		struct rdma_cm_id *id = s.active.id;
		if (by_reject)
			assert_int_equal(softrdma_rdma_reject(id, NULL, 0), 0);
		else
			destroy(id);
		expect_event(s.passive.channel, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET);
		if (by_reject)
			destroy(id);
		destroy(s.passive.id);
		/* another id connects the same queue pair */
		s.active.id = resolved_id(s.active.channel, &s.listener.addr);
		struct rdma_conn_param param = param_of(s.active.own);
		assert_int_equal(softrdma_rdma_connect(s.active.id, &param), 0);
		s.passive.id = expect_event(s.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		sides_accept(&s, false);
		sides_establish(&s);
		expect_one_sided(s.active.own, IBV_WR_RDMA_READ);
		sides_fini(&s);
	}
}

/* the passive side is destroyed before the active queue pair is ready */
static void
test_peer_leaves(void **state)
{
	(void)state;
	struct sides s;
	sides_ask(&s, true);
	sides_accept(&s, false);
	destroy(s.passive.id);
	s.passive.id = NULL;
	make_ready(s.active.id, s.active.own);
	assert_int_equal(softrdma_rdma_establish(s.active.id), 0);
	expect_event(s.active.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	sides_fini(&s);
}

/* the active side has destroyed its channel, so it can never establish the connection: the attempt ends */
static void
test_nobody_to_tell(void **state)
{
	(void)state;
	struct sides s;
	sides_ask(&s, true);
	softrdma_rdma_destroy_event_channel(s.active.channel);
	give_qp(s.passive.id);
	struct rdma_conn_param param = param_of(NULL);
	assert_int_equal(softrdma_rdma_accept(s.passive.id, &param), 0);
	expect_event(s.passive.channel, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET);
	refuse_establish(s.active.id);
	side_fini(&s.active);
	side_fini(&s.passive);
	listener_fini(&s.listener);
}

/* the queue pair is destroyed first: that of a connection, and one that is not established yet */
static void
test_queue_pair_goes_first(void **state)
{
	(void)state;
	struct sides s;
	sides_connect(&s, true, true);
	assert_int_equal(softrdma_ibv_destroy_qp(s.active.own), 0);
	s.active.own = NULL;
	expect_event(s.active.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_event(s.passive.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	sides_fini(&s);

	sides_ask(&s, true);
	sides_accept(&s, false);
	assert_int_equal(softrdma_ibv_destroy_qp(s.active.own), 0);
	s.active.own = NULL;
	refuse_establish(s.active.id);
	sides_fini(&s);
}

static void *
accept_it(void *arg)
{
	struct side *side = arg;
	struct rdma_conn_param param = param_of(side->own);
	return softrdma_rdma_accept(side->id, &param) ? (void *)(intptr_t)errno : NULL;
}

/* the queue pair was ready when rdma_accept() looked, and a request of another thread, too long, fails it then */
static void
test_queue_pair_fails_meanwhile(void **state)
{
	(void)state;
	struct sides s;
	sides_ask(&s, false);
	s.passive.own = new_qp();
	make_ready(s.passive.id, s.passive.own);
	fail_call(FAIL_ANY, "send", 0, 1, FAIL_WAIT);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, accept_it, &s.passive), 0);
	while (!has_failed(1))
		usleep(1000);
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = UINT32_MAX, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 41, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	assert_int_equal(ibv_post_send(s.passive.own, &wr, &bad), 0);
	expect_wc(41, IBV_WC_LOC_LEN_ERR);
	fail_nothing();
	void *error;
	pthread_join(thread, &error);
	assert_int_equal((intptr_t)error, ECONNABORTED);
	/* the answer has left; the end of the stream follows it */
	expect_event(s.active.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_event(s.active.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	sides_fini(&s);
}

/* the id is destroyed first: the peer is told, and the queue pair's requests are flushed */
static void
test_id_goes_first(void **state)
{
	(void)state;
	struct sides s;
	sides_connect(&s, true, true);
	destroy(s.active.id);
	expect_event(s.passive.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	wait_until(link_state(s.active.own) == SOFTRDMA_LINK_DOWN);
	assert_int_equal(ibv_post_send(s.active.own, &wr, &bad), 0);
	expect_wc(7, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(softrdma_ibv_destroy_qp(s.active.own), 0);
	side_fini(&s.passive);
	softrdma_rdma_destroy_event_channel(s.active.channel);
	listener_fini(&s.listener);
}

static void
test_rejected(void **state)
{
	(void)state;
	struct sides s;
	sides_ask(&s, true);
	assert_int_equal(softrdma_rdma_reject(s.passive.id, NULL, 0), 0);
	expect_event(s.active.channel, RDMA_CM_EVENT_REJECTED, SOFTRDMA_REJECT_CONSUMER);
	refuse_establish(s.active.id);
	sides_fini(&s);
}

/* a program may store it in the id, and have the id destroy it: before it connects, and after that */
static void
test_stored_in_its_id(void **state)
{
	(void)state;
	struct sides s;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	id->qp = new_qp();
	const uint32_t qp_num = id->qp->qp_num;
	softrdma_rdma_destroy_qp(id);
	assert_null(id->qp);
	softrdma_cm_lock();
	assert_null(softrdma_qp_connect_find(qp_num));
	softrdma_cm_unlock();
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);

	sides_connect(&s, true, false);
	s.active.id->qp = s.active.own;
	s.active.own = NULL;
	softrdma_rdma_destroy_qp(s.active.id);
	assert_null(s.active.id->qp);
	expect_event(s.active.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_event(s.passive.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	sides_fini(&s);
}

static void
test_no_number(void **state)
{
	(void)state;
	struct ibv_qp *qp = new_qp();
	struct rdma_event_channel *channel = new_channel();
	struct sockaddr_in addr = loopback(1);
	struct rdma_cm_id *id = resolved_id(channel, &addr);
	struct rdma_conn_param param = param_of(qp);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask;
	random_error = EIO;
	assert_int_equal(softrdma_rdma_connect(id, &param), -1);
	assert_int_equal(errno, EIO);
	assert_int_equal(softrdma_rdma_init_qp_attr(id, &attr, &mask), -1);
	assert_int_equal(errno, EIO);
	random_error = 0;
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_connection),
		device_test(test_attributes),
		device_test(test_before_the_stream),
		device_test(test_wrong_order),
		device_test(test_by_hand_instead),
		device_test(test_managed),
		device_test(test_given_up),
		device_test(test_peer_leaves),
		device_test(test_nobody_to_tell),
		device_test(test_queue_pair_goes_first),
		device_test(test_queue_pair_fails_meanwhile),
		device_test(test_id_goes_first),
		device_test(test_rejected),
		device_test(test_stored_in_its_id),
		device_test(test_no_number),
	};
	return cmocka_run_group_tests(tests, setup_by_hand, teardown_by_hand);
}
