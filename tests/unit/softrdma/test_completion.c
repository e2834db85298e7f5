/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_completion.c -- completion queues and channels: order, overrun, and which completion raises an event
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "failing.h"
#include "fixture.h"
#include "softrdma/verbs/completion.h"
#include "softrdma/engine/connection.h"

static struct ibv_comp_channel *channel;

static int
setup(void **state)
{
	(void)state;
	quieten();
	channel = softrdma_ibv_create_comp_channel(softrdma_context());
	return channel == NULL || fcntl(channel->fd, F_SETFL, O_NONBLOCK);
}

static int
teardown(void **state)
{
	(void)state;
	return softrdma_ibv_destroy_comp_channel(channel);
}

static struct softrdma_cq *
channel_cq(void *context)
{
	struct ibv_cq *cq = softrdma_ibv_create_cq(softrdma_context(), 4, context, channel, 0);
	assert_non_null(cq);
	return softrdma_cq_of(cq);
}

static bool
push(struct softrdma_cq *cq, uint64_t wr_id, bool solicited)
{
	const struct ibv_wc wc = { .wr_id = wr_id };
	return softrdma_cq_push(cq, &wc, solicited);
}

static int
events_waiting(void)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	return poll(&fd, 1, 0);
}

/* the next event must be this queue's */
static void
expect_event(struct softrdma_cq *cq, void *context)
{
	struct ibv_cq *got;
	void *got_context;
	assert_int_equal(softrdma_ibv_get_cq_event(channel, &got, &got_context), 0);
	assert_ptr_equal(got, &cq->cq);
	assert_ptr_equal(got_context, context);
	softrdma_ibv_ack_cq_events(got, 1);
}

static void
expect_no_event(void)
{
	struct ibv_cq *got;
	void *context;
	assert_int_equal(events_waiting(), 0);
	errno = 0;
	assert_int_equal(softrdma_ibv_get_cq_event(channel, &got, &context), -1);
	assert_int_equal(errno, EAGAIN);
}

static void
test_bad_arguments(void **state)
{
	(void)state;
	static const int bad[] = { 0, -1, SOFTRDMA_CQE_MAX + 1 };
	for (size_t i = 0; i < 3; i++) {
		errno = 0;
		assert_null(softrdma_ibv_create_cq(softrdma_context(), bad[i], NULL, NULL, 0));
		assert_int_equal(errno, EINVAL);
	}
	errno = 0;
	assert_null(softrdma_ibv_create_cq(softrdma_context(), 1, NULL, NULL, 1));
	assert_int_equal(errno, EINVAL);
}

static void
test_order_round_the_ring(void **state)
{
	(void)state;
	struct softrdma_cq *cq = new_cq(3);
	struct ibv_wc wc[8];
	uint64_t in = 0, out = 0;
	for (int round = 0; round < 50; round++) {
		while (in - out < 3)
			assert_true(push(cq, in++, false));
		int wanted = 1 + round % 4;
		int got = softrdma_poll_cq(&cq->cq, wanted, wc);
		assert_int_equal(got, wanted < 3 ? wanted : 3);
		for (int i = 0; i < got; i++)
			assert_int_equal(wc[i].wr_id, out++);
	}
	assert_int_equal(softrdma_cq_pop(cq, 8, wc), in - out);
	assert_int_equal(softrdma_cq_pop(cq, 8, wc), 0);
	assert_int_equal(softrdma_poll_cq(&cq->cq, 8, wc), 0);
	assert_int_equal(softrdma_ibv_destroy_cq(&cq->cq), 0);
}

/*
 * After an overrun the queue keeps its completions and refuses new ones. A poller that has taken them all gets
 * an error.
 */
static void
test_overrun(void **state)
{
	(void)state;
	struct softrdma_cq *cq = new_cq(2);
	assert_true(push(cq, 1, false));
	assert_true(push(cq, 2, false));
	assert_false(push(cq, 3, false));
	struct ibv_wc wc;
	assert_int_equal(softrdma_poll_cq(&cq->cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 1);
	assert_false(push(cq, 4, false)); /* there is room again, but one completion is lost already */
	assert_int_equal(softrdma_poll_cq(&cq->cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(softrdma_poll_cq(&cq->cq, 1, &wc), -1);
	assert_int_equal(softrdma_ibv_destroy_cq(&cq->cq), 0);
}

static bool
push_of(struct softrdma_cq *cq, uint32_t qp_num, uint64_t wr_id)
{
	const struct ibv_wc wc = { .wr_id = wr_id, .qp_num = qp_num };
	return softrdma_cq_push(cq, &wc, false);
}

/* wherever the ring begins, what is left of other queue pairs stays in order, and there is room for others */
static void
test_purge(void **state)
{
	(void)state;
	struct softrdma_cq *cq = new_cq(5);
	struct ibv_wc wc[8];
	for (unsigned mine = 0; mine < 1u << 5; mine++) {
		uint64_t expected[5], kept = 0;
		for (uint64_t i = 0; i < 5; i++) {
			assert_true(push_of(cq, mine >> i & 1 ? 7 : 8 + (uint32_t)i, i));
			if (!(mine >> i & 1))
				expected[kept++] = i;
		}
		softrdma_cq_purge(cq, 7);
		assert_int_equal(atomic_load(&cq->count), kept);
		while (kept < 5) {
			assert_true(push_of(cq, 7, 10 + kept));
			expected[kept] = 10 + kept;
			kept++;
		}
		assert_int_equal(softrdma_cq_pop(cq, 8, wc), 5);
		for (int i = 0; i < 5; i++)
			assert_int_equal(wc[i].wr_id, expected[i]);
		/* the next round begins at another place */
		assert_true(push_of(cq, 9, 0));
		softrdma_cq_purge(cq, 7);
		assert_int_equal(softrdma_cq_pop(cq, 8, wc), 1);
	}
	assert_int_equal(softrdma_ibv_destroy_cq(&cq->cq), 0);
}

/*
 * Purging raises no event and takes none back: the program may wake up for a completion that is no longer there. An
 * armed queue stays armed, and an overrun one stays overrun.
 */
static void
test_purge_and_events(void **state)
{
	(void)state;
	struct softrdma_cq *cq = channel_cq(&channel);
	struct ibv_wc wc;
	assert_int_equal(softrdma_req_notify_cq(&cq->cq, 0), 0);
	assert_true(push_of(cq, 7, 1));
	softrdma_cq_purge(cq, 7);
	expect_event(cq, &channel);
	assert_int_equal(softrdma_poll_cq(&cq->cq, 1, &wc), 0);

	assert_true(push_of(cq, 7, 2));
	assert_int_equal(softrdma_req_notify_cq(&cq->cq, 0), 0);
	softrdma_cq_purge(cq, 7);
	expect_no_event();
	assert_true(push_of(cq, 8, 3));
	expect_event(cq, &channel);

	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(push_of(cq, 7, i), i < 3);
	softrdma_cq_purge(cq, 7);
	assert_false(push_of(cq, 8, 4));
	assert_int_equal(softrdma_poll_cq(&cq->cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 3);
	assert_int_equal(softrdma_poll_cq(&cq->cq, 1, &wc), -1);
	assert_int_equal(softrdma_ibv_destroy_cq(&cq->cq), 0);
}

static void
test_one_event_for_each_arming(void **state)
{
	(void)state;
	struct softrdma_cq *cq = channel_cq(&channel);
	assert_true(push(cq, 1, true));
	expect_no_event(); /* not armed */
	assert_int_equal(softrdma_req_notify_cq(&cq->cq, 0), 0);
	expect_no_event(); /* a completion that was there before raises no event */
	assert_true(push(cq, 2, false));
	assert_true(push(cq, 3, false));
	expect_event(cq, &channel);
	expect_no_event();
	assert_int_equal(softrdma_ibv_destroy_cq(&cq->cq), 0);
}

static void
test_solicited_only(void **state)
{
	(void)state;
	struct softrdma_cq *cq = channel_cq(NULL);
	softrdma_req_notify_cq(&cq->cq, 1);
	assert_true(push(cq, 1, false));
	expect_no_event();
	assert_true(push(cq, 2, true));
	expect_event(cq, NULL);
	/* a weaker request does not replace a stronger one */
	softrdma_req_notify_cq(&cq->cq, 0);
	softrdma_req_notify_cq(&cq->cq, 1);
	assert_true(push(cq, 3, false));
	expect_event(cq, NULL);
	/* but a stronger request replaces a weaker one */
	softrdma_req_notify_cq(&cq->cq, 1);
	softrdma_req_notify_cq(&cq->cq, 0);
	assert_true(push(cq, 4, false));
	expect_event(cq, NULL);
	assert_int_equal(softrdma_ibv_destroy_cq(&cq->cq), 0);
}

/* a thread that sleeps until a completion comes must be woken by the loss of one too */
static void
test_overrun_raises_the_event_too(void **state)
{
	(void)state;
	struct softrdma_cq *cq = channel_cq(NULL);
	for (uint64_t i = 0; i < 4; i++)
		assert_true(push(cq, i, false));
	softrdma_req_notify_cq(&cq->cq, 0);
	assert_false(push(cq, 4, false));
	expect_event(cq, NULL);
	assert_int_equal(softrdma_ibv_destroy_cq(&cq->cq), 0);
}

/* the queues of a channel are served in turn */
static void
test_shared_channel(void **state)
{
	(void)state;
	int a, b;
	struct softrdma_cq *first = channel_cq(&a), *second = channel_cq(&b);
	for (int i = 0; i < 2; i++) {
		softrdma_req_notify_cq(&first->cq, 0);
		assert_true(push(first, 1, false));
	}
	softrdma_req_notify_cq(&second->cq, 0);
	assert_true(push(second, 1, false));
	assert_int_equal(events_waiting(), 1);
	expect_event(first, &a);
	expect_event(second, &b);
	expect_event(first, &a);
	expect_no_event();
	assert_int_equal(softrdma_ibv_destroy_comp_channel(channel), EBUSY);
	assert_int_equal(softrdma_ibv_destroy_cq(&first->cq), 0);
	assert_int_equal(softrdma_ibv_destroy_comp_channel(channel), EBUSY);
	assert_int_equal(softrdma_ibv_destroy_cq(&second->cq), 0);
}

/* events not yet fetched are removed with their queue; those of other queues stay */
static void
test_destroying_with_events(void **state)
{
	(void)state;
	for (int order = 0; order < 3; order++) {
		struct softrdma_cq *cq[3];
		for (int i = 0; i < 3; i++) {
			cq[i] = channel_cq(&cq[i]);
			softrdma_req_notify_cq(&cq[i]->cq, 0);
			assert_true(push(cq[i], 1, false));
		}
		assert_int_equal(softrdma_ibv_destroy_cq(&cq[order]->cq), 0);
		for (int i = 0; i < 3; i++) {
			if (i != order)
				expect_event(cq[i], &cq[i]);
		}
		expect_no_event();
		for (int i = 0; i < 3; i++) {
			if (i != order)
				assert_int_equal(softrdma_ibv_destroy_cq(&cq[i]->cq), 0);
		}
	}
}

static atomic_bool acknowledged;

static void *
acknowledge_later(void *arg)
{
	usleep(50000);
	atomic_store(&acknowledged, true);
	softrdma_ibv_ack_cq_events(arg, 1);
	return NULL;
}

static void
test_destroying_waits_for_acknowledgements(void **state)
{
	(void)state;
	struct softrdma_cq *cq = channel_cq(NULL);
	softrdma_req_notify_cq(&cq->cq, 0);
	assert_true(push(cq, 1, false));
	struct ibv_cq *got;
	void *context;
	assert_int_equal(softrdma_ibv_get_cq_event(channel, &got, &context), 0);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, acknowledge_later, got), 0);
	assert_int_equal(softrdma_ibv_destroy_cq(&cq->cq), 0);
	assert_true(atomic_load(&acknowledged));
	pthread_join(thread, NULL);

	/* acknowledging more events than were fetched is harmless */
	cq = channel_cq(NULL);
	softrdma_ibv_ack_cq_events(&cq->cq, 3);
	assert_int_equal(softrdma_ibv_destroy_cq(&cq->cq), 0);
}

static void
test_links_keep_it_busy(void **state)
{
	(void)state;
	struct softrdma_cq *cq = new_cq(1);
	struct softrdma_link *links[9];
	for (int i = 0; i < 9; i++) {
		links[i] = softrdma_connection_new();
		assert_int_equal(softrdma_cq_attach(cq, links[i]), 0);
	}
	static const int order[] = { 3, 8, 0, 1, 2, 7, 4, 6, 5 };
	for (int i = 0; i < 9; i++) {
		assert_int_equal(softrdma_ibv_destroy_cq(&cq->cq), EBUSY);
		softrdma_cq_detach(cq, links[order[i]]);
		softrdma_link_put(links[order[i]]);
	}
	assert_int_equal(softrdma_ibv_destroy_cq(&cq->cq), 0);
}

static void
test_nothing_left(void **state)
{
	(void)state;
	struct ibv_context *ctx = softrdma_context();
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_null(softrdma_ibv_create_comp_channel(ctx));
	assert_int_equal(errno, ENOMEM);
	fail_call(FAIL_MINE, "eventfd", 0, 1, EMFILE);
	assert_null(softrdma_ibv_create_comp_channel(ctx));
	assert_int_equal(errno, EMFILE);
	for (unsigned skip = 0; skip < 2; skip++) {
		fail_call(FAIL_MINE, "calloc", skip, 1, ENOMEM);
		assert_null(softrdma_ibv_create_cq(ctx, 4, NULL, NULL, 0));
		assert_int_equal(errno, ENOMEM);
	}
	fail_nothing();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_bad_arguments),
		TEST(test_order_round_the_ring),
		TEST(test_overrun),
		TEST(test_purge),
		TEST(test_purge_and_events),
		TEST(test_one_event_for_each_arming),
		TEST(test_solicited_only),
		TEST(test_overrun_raises_the_event_too),
		TEST(test_shared_channel),
		TEST(test_destroying_with_events),
		TEST(test_destroying_waits_for_acknowledgements),
		TEST(test_links_keep_it_busy),
		TEST(test_nothing_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
