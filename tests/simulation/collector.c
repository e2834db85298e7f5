/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* collector.c -- how an application learns of its completions */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

#include "alloc.h"
#include "collector.h"
#include "fds.h"
#include "fiber.h"
#include "sim.h"
#include "softrdma/core/cq.h"
#include "softrdma/engine/lead.h"
#include "softrdma/verbs/device.h"

/* events and polls after which a lead begins */
#define DENSE_EVENTS 9
#define DENSE_POLLS 64
/* a dense application does not sleep so soon after something has happened */
#define DENSE_NS SIM_MS

static struct ibv_cq *
new_cq(const struct collector *collector, int entries)
{
	return softrdma_ibv_create_cq(softrdma_context(), entries, NULL, collector->channel, 0);
}

void
collector_open(struct collector *collector, int entries)
{
	if (collector->plan.collecting == COLLECT_WAIT)
		MAKE(collector->channel, softrdma_ibv_create_comp_channel(softrdma_context()));
	if (collector->channel && collector->plan.nonblocking)
		fcntl(collector->channel->fd, F_SETFL, O_NONBLOCK);
	MAKE(collector->send_cq, new_cq(collector, entries));
	if (collector->plan.two_cqs)
		MAKE(collector->recv_cq, new_cq(collector, entries));
	else
		collector->recv_cq = collector->send_cq;
}

void
collector_close(struct collector *collector)
{
	if (collector->recv_cq != collector->send_cq)
		SIM_CHECK(softrdma_ibv_destroy_cq(collector->recv_cq) == 0, "a queue is still in use");
	SIM_CHECK(softrdma_ibv_destroy_cq(collector->send_cq) == 0, "a queue is still in use");
	SIM_CHECK(collector->channel == NULL || softrdma_ibv_destroy_comp_channel(collector->channel) == 0,
		"a channel is still in use");
}

void
collector_begin_densely(struct collector *collector)
{
	struct softrdma_lead *lead = softrdma_cq_of(collector->send_cq)->lead;

	for (unsigned i = 0; collector->channel && i < DENSE_EVENTS; i++)
		softrdma_lead_took_event(lead, !collector->plan.event_loop);
	for (unsigned i = 0; collector->plan.collecting == COLLECT_POLL && i < DENSE_POLLS; i++)
		softrdma_lead_poll(lead);
}

unsigned
collector_take_from(struct collector *collector, struct ibv_cq *cq)
{
	struct ibv_wc wc[4];
	int max = 1 + (int)sim_below(4);
	int n = collector->plan.collecting == COLLECT_IDLE ? softrdma_cq_pop(softrdma_cq_of(cq), max, wc)
							   : ibv_poll_cq(cq, max, wc);

	SIM_CHECK(n >= 0, "a completion queue of %s is overrun", collector->name);
	for (int i = 0; i < n; i++)
		collector->completed(collector->arg, &wc[i]);
	if (n > 0)
		collector->progress_ns = sim.now_ns;
	return (unsigned)n;
}

unsigned
collector_take(struct collector *collector)
{
	unsigned n = collector_take_from(collector, collector->send_cq);

	if (collector->recv_cq != collector->send_cq)
		n += collector_take_from(collector, collector->recv_cq);
	return n;
}

static void
check_armed(const struct collector *collector, struct ibv_cq *ibv_cq)
{
	const struct softrdma_cq *cq = softrdma_cq_of(ibv_cq);

	SIM_CHECK(cq->armed == SOFTRDMA_NOT_ARMED || cq->count == 0, "%s: a completion has raised no event",
		collector->name);
}

/* the descriptor tells what the application would find, unless another thread is about to change that */
static void
check_descriptor(const struct collector *collector)
{
	struct softrdma_comp_channel *channel = softrdma_comp_channel_of(collector->channel);

	if (pthread_mutex_trylock(&channel->lead.lock) != 0)
		return;
	if (pthread_mutex_trylock(&channel->lock) == 0) {
		const bool readable = fds_events(fds_get(collector->channel->fd)) & EPOLLIN;
		const bool has_event = channel->first != NULL;
		pthread_mutex_unlock(&channel->lock);
		SIM_CHECK(readable || !has_event, "%s: an event waits, and the descriptor does not tell",
			collector->name);
		const bool reports_sockets = softrdma_lead_is_on(&channel->lead) && !channel->lead.is_hidden;
		SIM_CHECK(!readable || has_event || reports_sockets,
			"%s: the descriptor is readable without an event", collector->name);
	}
	pthread_mutex_unlock(&channel->lead.lock);
}

/* arms the queues, polls once more, and waits */
static void
wait_for_event(struct collector *collector)
{
	struct pollfd pfd = { .fd = collector->channel->fd, .events = POLLIN };
	const bool event_loop = collector->plan.event_loop;
	struct ibv_cq *cq;
	void *context;

	ibv_req_notify_cq(collector->send_cq, 0);
	if (collector->recv_cq != collector->send_cq)
		ibv_req_notify_cq(collector->recv_cq, 0);
	if (collector_take(collector) > 0)
		return;
	check_descriptor(collector);
	if (event_loop && poll(&pfd, 1, -1) < 0) {
		SIM_CHECK(errno == EINTR, "waiting for a descriptor fails: %s", strerror(errno));
	} else if (softrdma_ibv_get_cq_event(collector->channel, &cq, &context) == 0) {
		softrdma_ibv_ack_cq_events(cq, 1);
		return;
	} else {
		SIM_CHECK(!event_loop, "the descriptor was readable, and the call found no event: %s",
			strerror(errno));
		SIM_CHECK(errno == EINTR, "waiting for an event fails: %s", strerror(errno));
	}
	check_descriptor(collector);
	check_armed(collector, collector->send_cq);
	check_armed(collector, collector->recv_cq);
}

void
collector_take_or_wait(struct collector *collector, bool may_wait_at_channel)
{
	const struct collector_plan *plan = &collector->plan;

	if (collector_take(collector) > 0)
		return;
	const uint64_t idle_ns = sim.now_ns - collector->progress_ns;
	if (collector->channel && may_wait_at_channel && sim_chance(plan->dense ? 990 : 700))
		wait_for_event(collector);
	else if (plan->dense && idle_ns < DENSE_NS)
		fiber_yield();
	else /* waits grow longer while nothing happens */
		fiber_sleep_ns(sim_delay_ns(sim_chance(100) ? SIM_S : plan->pause_ns) + idle_ns / 32);
}
