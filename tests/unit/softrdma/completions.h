/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * completions.h -- shared by the tests of completion queues: a channel, and completions that are put into a queue
 *
 * Each test includes it once.
 */

#ifndef TEST_SOFTRDMA_COMPLETIONS_H
#define TEST_SOFTRDMA_COMPLETIONS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "failing.h"
#include "fixture.h"
#include "softrdma/verbs/completion.h"

static struct ibv_comp_channel *channel;

static inline int
setup(void **state)
{
	(void)state;
	quieten();
	channel = softrdma_ibv_create_comp_channel(softrdma_context());
	return channel == NULL || fcntl(channel->fd, F_SETFL, O_NONBLOCK);
}

static inline int
teardown(void **state)
{
	(void)state;
	return softrdma_ibv_destroy_comp_channel(channel);
}

static inline struct softrdma_cq *
channel_cq(void *context)
{
	struct ibv_cq *cq = softrdma_ibv_create_cq(softrdma_context(), 4, context, channel, 0);
	assert_non_null(cq);
	return softrdma_cq_of(cq);
}

static inline bool
push(struct softrdma_cq *cq, uint64_t wr_id, bool solicited)
{
	const struct ibv_wc wc = { .wr_id = wr_id };
	return softrdma_cq_push(cq, &wc, solicited);
}

static inline int
events_waiting(void)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	return poll(&fd, 1, 0);
}

/* the next event must be this queue's */
static inline void
expect_event(struct softrdma_cq *cq, void *context)
{
	struct ibv_cq *got;
	void *got_context;
	assert_int_equal(softrdma_ibv_get_cq_event(channel, &got, &got_context), 0);
	assert_ptr_equal(got, &cq->cq);
	assert_ptr_equal(got_context, context);
	softrdma_ibv_ack_cq_events(got, 1);
}

static inline void
expect_no_event(void)
{
	struct ibv_cq *got;
	void *context;
	assert_int_equal(events_waiting(), 0);
	errno = 0;
	assert_int_equal(softrdma_ibv_get_cq_event(channel, &got, &context), -1);
	assert_int_equal(errno, EAGAIN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif /* TEST_SOFTRDMA_COMPLETIONS_H */
