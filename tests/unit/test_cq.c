/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_cq.c -- completion queues */

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cq.h"
#include "mock.h"

static void
arguments(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_cq *cq = NULL;
	struct ibv_wc wc[2];
	int fd = -1, got = -1;
	assert_ok(rpmai_cq_new(peer, &mock.ctx, 12, NULL, &cq));
	assert_int_equal(mock.cqe[0], 12);

	assert_fails(RPMA_E_INVAL, rpma_cq_get_fd(NULL, &fd));
	assert_fails(RPMA_E_INVAL, rpma_cq_get_fd(cq, NULL));
	assert_fails(RPMA_E_INVAL, rpma_cq_wait(NULL));
	assert_fails(RPMA_E_INVAL, rpma_cq_get_wc(NULL, 1, wc, &got));
	assert_fails(RPMA_E_INVAL, rpma_cq_get_wc(cq, 1, NULL, &got));
	assert_fails(RPMA_E_INVAL, rpma_cq_get_wc(cq, 0, wc, &got));
	assert_fails(RPMA_E_INVAL, rpma_cq_get_wc(cq, -1, wc, &got));
	assert_fails(RPMA_E_INVAL, rpma_cq_get_wc(cq, 2, wc, NULL));
	assert_ok(rpma_cq_get_fd(cq, &fd));
	assert_int_equal(fd, 2000);
	assert_int_equal(got, -1);

	assert_ok(rpmai_cq_delete(&cq));
	assert_null(cq);
	assert_ok(rpmai_cq_delete(&cq));
	rpma_peer_delete(&peer);
}

static void
collecting(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_cq *cq = NULL;
	struct ibv_wc wc[3];
	assert_ok(rpmai_cq_new(peer, &mock.ctx, 10, NULL, &cq));

	static const struct {
		int polled, asked, ret, got;
	} table[] = {
		{ 0, 1, RPMA_E_NO_COMPLETION, -1 },
		{ 1, 1, 0, 1 },
		{ 2, 3, 0, 2 },
		{ 3, 3, 0, 3 },
		{ -1, 3, RPMA_E_PROVIDER, -1 },
		{ 4, 3, RPMA_E_UNKNOWN, -1 },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		int got = -1;
		mock.wcs = table[i].polled;
		assert_int_equal(rpma_cq_get_wc(cq, table[i].asked, wc, &got), table[i].ret);
		assert_int_equal(got, table[i].got);
	}
	mock.wcs = 1;
	mock.wc[0].wr_id = 99;
	assert_ok(rpma_cq_get_wc(cq, 1, wc, NULL));
	assert_int_equal(wc[0].wr_id, 99);
	rpmai_cq_delete(&cq);
	rpma_peer_delete(&peer);
}

static void
waiting(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_cq *cq = NULL;
	assert_ok(rpmai_cq_new(peer, &mock.ctx, 10, NULL, &cq));
	assert_int_equal(mock.notified, 1);

	assert_int_equal(rpma_cq_wait(cq), RPMA_E_NO_COMPLETION); /* EAGAIN */
	mock.fail_call = "get_cq_event";
	mock.fail_errno = EINTR;
	assert_int_equal(rpma_cq_wait(cq), RPMA_E_NO_COMPLETION);
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], 0);
	mock.fail_skip = 0;
	mock.fail_errno = EBADF;
	assert_fails(RPMA_E_PROVIDER, rpma_cq_wait(cq));
	assert_int_equal(mock.notified, 1);

	mock.cq_event = cq->ibv_cq;
	assert_ok(rpma_cq_wait(cq));
	assert_int_equal(mock.notified, 2);

	mock.fail_call = "req_notify_cq";
	mock.fail_skip = 0;
	assert_fails(RPMA_E_PROVIDER, rpma_cq_wait(cq));
	mock.fail_call = NULL;

	/*
	 * events are acknowledged in batches, and the rest before the queue is destroyed, which waits for
	 * that
	 */
	assert_int_equal(mock.cq_events_acked, 0);
	for (int i = 2; i < 64; i++)
		assert_ok(rpma_cq_wait(cq));
	assert_int_equal(mock.cq_events_acked, 64);
	assert_ok(rpma_cq_wait(cq));
	assert_int_equal(mock.cq_events_acked, 64);
	rpmai_cq_delete(&cq);
	assert_int_equal(mock.cq_events_acked, 65);
	rpma_peer_delete(&peer);
}

static void
who_arms_it(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_cq *cq = NULL;
	assert_fails(RPMA_E_INVAL, rpma_cq_set_auto_arm(NULL, true));
	assert_fails(RPMA_E_INVAL, rpma_cq_arm(NULL));
	assert_ok(rpmai_cq_new(peer, &mock.ctx, 10, NULL, &cq));
	mock.cq_event = cq->ibv_cq;
	mock.notified = 0;
	assert_ok(rpma_cq_wait(cq));
	assert_int_equal(mock.notified, 1);

	assert_ok(rpma_cq_set_auto_arm(cq, false));
	assert_int_equal(mock.notified, 1);
	assert_ok(rpma_cq_wait(cq));
	assert_int_equal(mock.notified, 1);
	assert_ok(rpma_cq_arm(cq));
	assert_int_equal(mock.notified, 2);
	mock.fail_call = "req_notify_cq";
	assert_fails(RPMA_E_PROVIDER, rpma_cq_arm(cq));

	assert_ok(rpma_cq_set_auto_arm(cq, true));
	mock.notified = 0;
	assert_ok(rpma_cq_wait(cq));
	assert_int_equal(mock.notified, 1);
	assert_ok(rpma_cq_arm(cq)); /* harmless */
	assert_ok(rpmai_cq_delete(&cq));
	rpma_peer_delete(&peer);
}

static void
waiting_for_a_time(void **state)
{
	(void)state;
	int channel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	mock.channel_fd = channel;
	struct rpma_peer *peer = mock_peer();
	struct rpma_cq *cq = NULL;
	assert_ok(rpmai_cq_new(peer, &mock.ctx, 10, NULL, &cq));
	mock.cq_event = cq->ibv_cq;
	mock.notified = 0;
	assert_fails(RPMA_E_INVAL, rpma_cq_wait_timed(NULL, 0));
	assert_fails(RPMA_E_INVAL, rpma_cq_wait_timed(cq, -2));
	assert_fails(RPMA_E_INVAL, rpma_cq_wait_timed(cq, INT_MIN));

	/* no completion is there: the channel, which would block, is not read */
	assert_int_equal(rpma_cq_wait_timed(cq, 0), RPMA_E_NO_COMPLETION);
	assert_int_equal(rpma_cq_wait_timed(cq, 1), RPMA_E_NO_COMPLETION);
	assert_int_equal(mock_count("get_cq_event"), 0);
	assert_int_equal(mock.notified, 0);

	assert_int_equal(eventfd_write(channel, 1), 0);
	static const int timeouts[] = { -1, 0, 1, INT_MAX };
	for (int i = 0; i < 4; i++) {
		assert_ok(rpma_cq_wait_timed(cq, timeouts[i]));
		assert_int_equal(mock.notified, i + 1);
	}
	assert_ok(rpma_cq_set_auto_arm(cq, false));
	assert_ok(rpma_cq_wait_timed(cq, -1));
	assert_int_equal(mock.notified, 4);

	mock.fail_call = "get_cq_event";
	mock.fail_errno = EBADF;
	assert_fails(RPMA_E_PROVIDER, rpma_cq_wait_timed(cq, -1));
	mock.fail_skip = 0;
	mock.fail_errno = EINTR;
	assert_int_equal(rpma_cq_wait_timed(cq, -1), RPMA_E_NO_COMPLETION);

	/* another thread is waiting, for longer */
	assert_true(rpmai_turn_take(&cq->timed, DEADLINE_NEVER));
	assert_int_equal(rpma_cq_wait_timed(cq, 0), RPMA_E_NO_COMPLETION);
	assert_int_equal(rpma_cq_wait_timed(cq, 1), RPMA_E_NO_COMPLETION);
	rpmai_turn_give(&cq->timed);
	assert_ok(rpma_cq_wait_timed(cq, 0)); /* its turn has been given back */

	assert_ok(rpmai_cq_delete(&cq));
	rpma_peer_delete(&peer);
	close(channel);
}

/* each event of several threads is acknowledged and counted once */
#define THREADS 4
#define WAITS 1000

static struct {
	struct rpma_cq *cq;
	atomic_int acked;
} busy;

static void
count_acked(struct ibv_cq *cq, unsigned int nevents)
{
	(void)cq;
	busy.acked += (int)nevents;
}

static void *
ack_many(void *arg)
{
	(void)arg;
	for (int i = 0; i < WAITS; i++)
		rpmai_cq_ack(busy.cq);
	return NULL;
}

static void
threads_take_events(void **state)
{
	(void)state;
	pthread_t threads[THREADS];
	struct rpma_peer *peer = mock_peer();
	mock_rdma.ack_cq_events = count_acked;
	assert_ok(rpmai_cq_new(peer, &mock.ctx, 10, NULL, &busy.cq));
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ack_many, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_in_range(busy.acked, 1, THREADS * WAITS);
	assert_int_equal(rpmai_stats_get(&busy.cq->stats.waits), THREADS * WAITS);
	assert_ok(rpmai_cq_delete(&busy.cq));
	assert_int_equal(busy.acked, THREADS * WAITS);
	rpma_peer_delete(&peer);
}

static void
a_shared_channel_is_not_the_queues(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct ibv_comp_channel *channel = mock_rdma.create_comp_channel(&mock.ctx);
	struct rpma_cq *cq = NULL;
	assert_ok(rpmai_cq_new(peer, &mock.ctx, 10, channel, &cq));
	assert_int_equal(rpma_cq_wait(cq), RPMA_E_SHARED_CHANNEL);
	assert_int_equal(rpma_cq_wait_timed(cq, -1), RPMA_E_SHARED_CHANNEL);
	assert_ok(rpmai_cq_delete(&cq));
	assert_int_equal(mock_rdma.destroy_comp_channel(channel), 0);
	rpma_peer_delete(&peer);
}

static void
failures(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct ibv_comp_channel *channel = mock_rdma.create_comp_channel(&mock.ctx);
	const int live = mock.live;
	struct rpma_cq *cq = NULL;
	static const char *const calls[] = { "create_comp_channel", "create_cq", "req_notify_cq" };
	for (size_t i = 0; i < 3; i++) {
		mock.fail_call = calls[i];
		mock.fail_skip = 0;
		mock.fail_errno = EINVAL;
		assert_fails(RPMA_E_PROVIDER, rpmai_cq_new(peer, &mock.ctx, 10, NULL, &cq));
		assert_int_equal(mock.live, live);
	}
	mock.fail_skip = 0;
	assert_fails(RPMA_E_PROVIDER, rpmai_cq_new(peer, &mock.ctx, 10, channel, &cq));
	assert_int_equal(mock.live, live);
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpmai_cq_new(peer, &mock.ctx, 10, NULL, &cq));
	assert_null(cq);

	static const char *const destroy[] = { "destroy_cq", "destroy_comp_channel" };
	for (size_t i = 0; i < 2; i++) {
		assert_ok(rpmai_cq_new(peer, &mock.ctx, 10, NULL, &cq));
		mock.fail_call = destroy[i];
		mock.fail_skip = 0;
		assert_fails(RPMA_E_PROVIDER, rpmai_cq_delete(&cq));
		assert_null(cq);
		assert_int_equal(mock.live, live);
	}
	assert_int_equal(mock_rdma.destroy_comp_channel(channel), 0);
	rpma_peer_delete(&peer);
}

/* ---- the order of collecting ---- */

static atomic_bool is_polling, may_leave, is_ordered;

static int
poll_slowly(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	(void)cq;
	(void)num_entries;
	memset(wc, 0, sizeof(*wc));
	is_polling = true;
	while (!may_leave)
		sched_yield();
	return 1;
}

static void *
collect_slowly(void *arg)
{
	struct ibv_wc wc;
	int ret = rpma_cq_get_wc(arg, 1, &wc, NULL);

	return (void *)(intptr_t)ret;
}

static void *
keep_order(void *arg)
{
	rpmai_cq_keep_order(arg);
	is_ordered = true;
	return NULL;
}

/*
 * A thread that collects without the lock may hold the first part of a durable write, so the writer waits for
 * it.
 */
static void
order_begins_when_all_have_left(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_cq *cq = NULL;
	pthread_t collector, writer, other;
	void *ret;
	assert_ok(rpmai_cq_new(peer, &mock.ctx, 10, NULL, &cq));
	mock.ctx.ops.poll_cq = poll_slowly;
	is_polling = may_leave = is_ordered = false;

	assert_int_equal(pthread_create(&collector, NULL, collect_slowly, cq), 0);
	while (!is_polling)
		sched_yield();
	assert_int_equal(pthread_create(&writer, NULL, keep_order, cq), 0);
	while (atomic_load(&cq->collectors) == 1)
		sched_yield();
	/* from here on other collecting threads take the lock, and the writers still wait, a second one too */
	assert_int_equal(pthread_create(&other, NULL, keep_order, cq), 0);
	for (int i = 0; i < 1000; i++) {
		assert_false(is_ordered);
		sched_yield();
	}
	may_leave = true;
	assert_int_equal(pthread_join(collector, &ret), 0);
	assert_null(ret);
	assert_int_equal(pthread_join(writer, NULL), 0);
	assert_int_equal(pthread_join(other, NULL), 0);
	assert_true(is_ordered);
	rpmai_cq_keep_order(cq); /* a second call has no effect */

	assert_ok(rpmai_cq_delete(&cq));
	rpma_peer_delete(&peer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(arguments),
		rpma_test(collecting),
		rpma_test(waiting),
		rpma_test(who_arms_it),
		rpma_test(waiting_for_a_time),
		rpma_test(threads_take_events),
		rpma_test(a_shared_channel_is_not_the_queues),
		rpma_test(failures),
		rpma_test(order_begins_when_all_have_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
