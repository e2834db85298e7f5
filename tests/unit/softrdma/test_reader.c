/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_reader.c -- which thread reads a socket: it goes from the progress thread to another, and back; and epoll fails */

#include "waiting.h"

#include <sys/epoll.h>

#include "softrdma/engine/reader.h"

struct one {
	struct pair_of_ids pair;
	struct softrdma_link *link;
	struct softrdma_connection *conn;
	struct softrdma_lead lead; /* not that of the queue, so that no other thread uses it */
};

static void
one_init(struct one *o)
{
	pair_init(&o->pair);
	o->link = link_of(o->pair.active);
	o->conn = softrdma_connection_of(o->link);
	softrdma_lead_init(&o->lead, NULL);
	o->lead.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	/* until then the connection may still be busy with its beginning */
	post_write(o->pair.active->qp, the_mr, 8, 1);
	assert_int_equal(next_wc().status, IBV_WC_SUCCESS);
}

static void
one_fini(struct one *o)
{
	pair_fini(&o->pair);
	close(o->lead.epoll_fd);
	softrdma_lead_fini(&o->lead);
}

static void
expect_served_by_the_engine(struct one *o)
{
	assert_int_equal(locked(o->link, o->conn->reader), SOFTRDMA_READER_ENGINE);
	post_write(o->pair.active->qp, the_mr, 8, 2);
	wait_until(atomic_load(&softrdma_cq_of(the_cq)->count) == 1);
	assert_int_equal(next_wc().wr_id, 2);
}

static void
test_worker(void **state)
{
	(void)state;
	struct one o;
	one_init(&o);
	fail_call(FAIL_MINE, "epoll_ctl", 0, 1, ENOMEM);
	assert_false(locked(o.link, softrdma_reader_borrow(o.conn)));
	assert_int_equal(fail_nothing(), 1);
	expect_served_by_the_engine(&o);
	assert_true(locked(o.link, softrdma_reader_borrow(o.conn)));
	assert_false(locked(o.link, softrdma_reader_borrow(o.conn)));
	assert_false(locked(o.link, softrdma_reader_hand_over(o.conn, &o.lead)));
	pthread_mutex_lock(&o.link->lock);
	softrdma_reader_return(o.conn);
	pthread_mutex_unlock(&o.link->lock);
	expect_served_by_the_engine(&o);
	one_fini(&o);
}

static void
test_lead(void **state)
{
	(void)state;
	struct one o;
	struct epoll_event event;
	one_init(&o);
	for (unsigned skip = 0; skip < 2; skip++) { /* the lead's epoll refuses it, or the engine's */
		fail_call(FAIL_MINE, "epoll_ctl", skip, 1, ENOMEM);
		assert_false(locked(o.link, softrdma_reader_hand_over(o.conn, &o.lead)));
		assert_int_equal(fail_nothing(), 1);
		expect_served_by_the_engine(&o);
	}
	assert_true(locked(o.link, softrdma_reader_hand_over(o.conn, &o.lead)));
	assert_false(locked(o.link, softrdma_reader_hand_over(o.conn, &o.lead)));
	assert_false(locked(o.link, softrdma_reader_borrow(o.conn)));
	post_write(o.pair.passive->qp, the_mr, 8, 3);
	assert_int_equal(epoll_wait(o.lead.epoll_fd, &event, 1, PATIENCE_MS), 1);
	assert_ptr_equal(event.data.ptr, o.link);
	/* another lead, and none, do not have it */
	pthread_mutex_lock(&o.link->lock);
	softrdma_reader_give_back(o.conn, NULL);
	softrdma_reader_give_back(o.conn, softrdma_cq_of(the_cq)->lead);
	assert_int_equal(o.conn->reader, SOFTRDMA_READER_LEAD);
	softrdma_reader_give_back(o.conn, &o.lead);
	pthread_mutex_unlock(&o.link->lock);
	wait_until(atomic_load(&softrdma_cq_of(the_cq)->count) ==
		1); /* what has come meanwhile is reported again */
	assert_int_equal(next_wc().wr_id, 3);
	expect_served_by_the_engine(&o);
	assert_int_equal(epoll_wait(o.lead.epoll_fd, &event, 1, 0), 0);

	/* the connection ends in the lead */
	assert_true(locked(o.link, softrdma_reader_hand_over(o.conn, &o.lead)));
	one_fini(&o);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_worker),
		device_test(test_lead),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
