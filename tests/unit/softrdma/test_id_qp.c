/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_id_qp.c -- the queue pair of an id, also when a program moves it to another id */

#include "connected.h"

static void
test_create_qp(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	struct ibv_qp_init_attr_ex attr = qp_attr();

	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), -1); /* it has no device yet */
	assert_int_equal(errno, EINVAL);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&l.addr, 0), 0);
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	attr.comp_mask = 0;
	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), -1); /* it has no protection domain */
	assert_int_equal(errno, EINVAL);
	id->pd = the_pd; /* the default of rdma_create_qp() */
	attr.qp_type = IBV_QPT_UD;
	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	softrdma_rdma_destroy_qp(id); /* it has none */
	attr.qp_type = IBV_QPT_RC;
	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), 0);
	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), -1);
	assert_int_equal(errno, EINVAL);

	/* a second queue pair is possible only until the peer has been told the first one's number */
	softrdma_rdma_destroy_qp(id);
	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), 0);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	softrdma_rdma_destroy_qp(id);
	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), -1);
	assert_int_equal(errno, EINVAL);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
	listener_fini(&l);
}

/* --- queue pairs that the program moves to another id, by the public member --- */

static void
move_qp(struct rdma_cm_id *from, struct rdma_cm_id *to)
{
	to->qp = from->qp;
	from->qp = NULL;
}

/* a write of no bytes succeeds */
static void
expect_works(struct rdma_cm_id *id)
{
	static uint64_t number;
	struct ibv_send_wr wr = { .wr_id = ++number,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	assert_int_equal(ibv_post_send(id->qp, &wr, &bad), 0);
	struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wr_id, number);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.qp_num, id->qp->qp_num);
}

static void
expect_refused(int result, int errnum)
{
	assert_int_equal(result, -1);
	assert_int_equal(errno, errnum);
}

/*
 * The queue pairs of both sides were made with other ids. These neither end the connection, nor take the queue pair with
 * them: before the connection is made (0), while it exists (1), or after it (2).
 */
static void
test_queue_pair_moves_before_it_connects(void **state)
{
	(void)state;
	for (int when = 0; when < 3; when++) {
		struct pair_of_ids p;
		struct rdma_cm_id *donors[2], *other = NULL;
		struct rdma_conn_param param = { .rnr_retry_count = 7 };
		listener_init(&p.listener);
		p.channel = new_channel();
		for (int i = 0; i < 2; i++)
			donors[i] = new_active(p.channel, &p.listener.addr);
		p.active = new_resolved(p.channel, &p.listener.addr);
		move_qp(donors[0], p.active);
		if (when == 0)
			destroy(donors[0]);
		const uint32_t numbers[] = { p.active->qp->qp_num, donors[1]->qp->qp_num };
		assert_int_equal(softrdma_rdma_connect(p.active, &param), 0);
		struct rdma_cm_event *event = take_event(p.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		p.passive = event->id;
		assert_int_equal(event->param.conn.qp_num, numbers[0]);
		assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
		if (when == 1) { /* back and forth, and with a queue pair of its own before */
			give_qp(p.passive);
			other = new_id(p.channel);
			move_qp(p.passive, other);
			expect_refused(softrdma_rdma_accept(p.passive, &param), EINVAL);
		}
		move_qp(donors[1], p.passive);
		if (when == 0)
			destroy(donors[1]);
		assert_int_equal(softrdma_rdma_accept(p.passive, &param), 0);
		event = take_event(p.channel, RDMA_CM_EVENT_ESTABLISHED);
		assert_int_equal(event->param.conn.qp_num, numbers[1]);
		assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
		expect_event(p.listener.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
		expect_works(p.active);
		expect_works(p.passive);
		for (int i = 0; i < 2 && when > 0; i++) {
			expect_refused(softrdma_rdma_disconnect(donors[i]), EINVAL);
			softrdma_rdma_destroy_qp(donors[i]);
			if (when == 1)
				destroy(donors[i]);
		}
		expect_works(p.active);
		expect_works(p.passive);
		expect_no_event(p.channel);
		expect_no_event(p.listener.channel);
		assert_int_equal(softrdma_rdma_disconnect(p.passive), 0);
		assert_ptr_equal(expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0), p.active);
		assert_ptr_equal(expect_event(p.listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0), p.passive);
		for (int i = 0; i < 2 && when == 2; i++)
			destroy(donors[i]);
		if (other)
			destroy(other);
		pair_fini(&p);
	}
}

/* an id whose queue pair was taken away can get another one, or none: the one that it lost is not connected by it */
static void
test_queue_pair_is_exchanged(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	listener_init(&p.listener);
	p.channel = new_channel();
	p.active = new_active(p.channel, &p.listener.addr);
	struct rdma_cm_id *other = new_id(p.channel);
	move_qp(p.active, other);
	expect_refused(softrdma_rdma_connect(p.active, &param), EINVAL);
	expect_refused(softrdma_rdma_connect(p.active, NULL), EINVAL);
	give_qp(p.active);
	assert_int_equal(softrdma_rdma_connect(p.active, &param), 0);
	p.passive = expect_event(p.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	move_qp(other, p.passive);
	assert_int_equal(softrdma_rdma_accept(p.passive, &param), 0);
	expect_event(p.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_event(p.listener.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_works(p.active);
	expect_works(p.passive);
	destroy(other);
	pair_fini(&p);
}

/* a queue pair that is connected cannot be connected by another id, and goes on */
static void
test_connected_queue_pair_moves(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	pair_init(&p);
	struct rdma_cm_id *active = new_active(p.channel, &p.listener.addr);
	/* the connection does not depend on what else the program stores in its id, and destroys there */
	struct rdma_cm_id *holder = new_id(p.channel);
	move_qp(p.passive, holder);
	move_qp(active, p.passive);
	softrdma_rdma_destroy_qp(p.passive);
	move_qp(holder, p.passive);
	destroy(holder);
	assert_non_null(softrdma_id_of(p.passive)->link);
	expect_works(p.active);
	give_qp(active);
	assert_int_equal(softrdma_rdma_connect(active, &param), 0);
	struct rdma_cm_id *request = expect_event(p.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *third = new_resolved(p.channel, &p.listener.addr);
	request->qp = third->qp = p.passive->qp; /* of all three now */
	expect_refused(softrdma_rdma_accept(request, &param), EINVAL);
	expect_refused(softrdma_rdma_connect(third, &param), EINVAL);
	expect_works(p.active);
	request->qp = third->qp = NULL;
	assert_int_equal(softrdma_rdma_destroy_id(third), 0);
	expect_works(p.passive);

	/* destroyed by way of another id: the connection ends, and its own id hears of it */
	move_qp(p.passive, request);
	softrdma_rdma_destroy_qp(request);
	assert_null(request->qp);
	assert_ptr_equal(expect_event(p.listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0), p.passive);
	assert_ptr_equal(expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0), p.active);
	assert_int_equal(softrdma_rdma_disconnect(p.passive), 0);

	give_qp(request);
	assert_int_equal(softrdma_rdma_accept(request, &param), 0);
	expect_event(p.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_event(p.listener.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_works(active);
	destroy(active);
	destroy(request);
	pair_fini(&p);
}

/* a queue pair that is destroyed by way of another id while its own one connects is not connected */
static void
test_queue_pair_ends_while_its_id_connects(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	listener_init(&p.listener);
	p.channel = new_channel();
	p.active = new_active(p.channel, &p.listener.addr);
	assert_int_equal(softrdma_rdma_connect(p.active, &param), 0);
	p.passive = expect_event(p.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_qp(p.passive);
	struct rdma_cm_id *other = new_id(p.channel);
	move_qp(p.active, other);
	destroy(other);
	assert_int_equal(softrdma_rdma_accept(p.passive, &param), 0);
	expect_event(p.channel, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNABORTED);
	expect_event(p.listener.channel, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET);
	pair_fini(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_create_qp),
		device_test(test_queue_pair_moves_before_it_connects),
		device_test(test_queue_pair_is_exchanged),
		device_test(test_connected_queue_pair_moves),
		device_test(test_queue_pair_ends_while_its_id_connects),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
