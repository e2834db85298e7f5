/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_completion.c -- completion queues and channels: arguments, who gets an event, and what destroying waits for */

#include <sys/epoll.h>

#include "completions.h"
#include "count.h"

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

/* an epoll that is edge-triggered hears of each event, also of one that is raised while another waits */
static void
test_each_event_is_an_edge(void **state)
{
	(void)state;
	struct softrdma_cq *first = channel_cq(NULL), *second = channel_cq(NULL);
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	const int epoll = epoll_create1(EPOLL_CLOEXEC);
	assert_true(epoll >= 0);
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &event), 0);
	struct softrdma_cq *const cqs[] = { first, second };
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0);
		softrdma_req_notify_cq(&cqs[i]->cq, 0);
		assert_true(push(cqs[i], 1, false));
		assert_int_equal(epoll_wait(epoll, &event, 1, 0), 1);
	}
	assert_int_equal(close(epoll), 0);
	expect_event(first, NULL);
	expect_event(second, NULL);
	expect_no_event();
	assert_int_equal(softrdma_ibv_destroy_cq(&first->cq), 0);
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

#define CHANNELS_MAX 100

/* a channel without the eventfd that it would share with others, and one that would be the first to have a new one */
static void
expect_no_channel(struct ibv_context *ctx)
{
	static const struct {
		const char *call;
		unsigned skip;
		int error;
	} table[] = { { "calloc", 0, ENOMEM }, { "calloc", 1, ENOMEM }, { "eventfd", 0, EMFILE },
		{ "epoll_create1", 0, EMFILE }, { "epoll_ctl", 0, ENOSPC } };
	struct ibv_comp_channel *channels[CHANNELS_MAX];
	int count = 0, fds, added;
	do {
		assert_true(count < CHANNELS_MAX);
		fds = count_fds();
		channels[count] = softrdma_ibv_create_comp_channel(ctx);
		assert_non_null(channels[count]);
		added = count_fds() - fds;
		count++;
	} while (added == 1);
	assert_int_equal(added, 2);
	count--;
	assert_int_equal(softrdma_ibv_destroy_comp_channel(channels[count]), 0);
	assert_int_equal(count_fds(), fds);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		fail_call(FAIL_MINE, table[i].call, table[i].skip, 1, table[i].error);
		assert_null(softrdma_ibv_create_comp_channel(ctx));
		assert_int_equal(errno, table[i].error);
		assert_int_equal(fail_nothing(), 1);
		assert_int_equal(count_fds(), fds);
	}
	while (count > 0)
		assert_int_equal(softrdma_ibv_destroy_comp_channel(channels[--count]), 0);
}

static void
test_nothing_left(void **state)
{
	(void)state;
	struct ibv_context *ctx = softrdma_context();
	expect_no_channel(ctx);
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
		TEST(test_shared_channel),
		TEST(test_each_event_is_an_edge),
		TEST(test_destroying_with_events),
		TEST(test_destroying_waits_for_acknowledgements),
		TEST(test_nothing_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
