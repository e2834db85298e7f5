/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_cq.c -- the ring of a completion queue: order, overrun, purging, and which completion raises an event */

#include "completions.h"
#include "softrdma/engine/connection.h"

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

static void
test_links_keep_it_busy(void **state)
{
	(void)state;
	struct softrdma_cq *cq = new_cq(1);
	struct softrdma_link *links[9];
	for (int i = 0; i < 9; i++) {
		links[i] = softrdma_connection_new();
		assert_int_equal(softrdma_cq_attach(cq, cq, links[i]), 0);
	}
	static const int order[] = { 3, 8, 0, 1, 2, 7, 4, 6, 5 };
	for (int i = 0; i < 9; i++) {
		assert_int_equal(softrdma_ibv_destroy_cq(&cq->cq), EBUSY);
		softrdma_cq_detach(cq, cq, links[order[i]]);
		softrdma_link_put(links[order[i]]);
	}
	assert_int_equal(softrdma_ibv_destroy_cq(&cq->cq), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_order_round_the_ring),
		TEST(test_overrun),
		TEST(test_purge),
		TEST(test_purge_and_events),
		TEST(test_one_event_for_each_arming),
		TEST(test_solicited_only),
		TEST(test_overrun_raises_the_event_too),
		TEST(test_links_keep_it_busy),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
