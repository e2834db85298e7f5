/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* collector.h -- how an application learns of its completions: it polls, or waits at a channel, or does neither */

#ifndef TEST_SIMULATION_COLLECTOR_H
#define TEST_SIMULATION_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

enum collecting {
	COLLECT_POLL, /* ibv_poll_cq, which also does the device's work */
	COLLECT_WAIT, /* a completion channel */
	COLLECT_IDLE, /* neither: the progress thread must do all the work */
	COLLECT_WAYS,
};

struct collector_plan {
	enum collecting collecting;
	bool two_cqs;
	uint64_t pause_ns; /* between two actions */
	bool dense;        /* waits and polls densely, as it has done before: its lead begins */
	bool event_loop;   /* waits for the channel's descriptor itself */
	bool nonblocking;  /* that descriptor */
};

struct collector {
	struct collector_plan plan;
	const char *name;
	/* gets each completion */
	void (*completed)(void *arg, const struct ibv_wc *wc);
	void *arg;

	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	uint64_t progress_ns; /* time of the last completion */
};

/* makes the channel and the queues, each with this number of entries; retries while allocations fail */
void collector_open(struct collector *collector, int entries);
void collector_close(struct collector *collector);

/* a dense application has had earlier events, or none for long */
void collector_begin_densely(struct collector *collector);

/* takes the completions that are there, up to a few of each queue, with or without the device's work; returns their number */
unsigned collector_take(struct collector *collector);
/* the same of one queue */
unsigned collector_take_from(struct collector *collector, struct ibv_cq *cq);
/* takes from both; without a completion it waits, at the channel only if it may */
void collector_take_or_wait(struct collector *collector, bool may_wait_at_channel);

#endif /* TEST_SIMULATION_COLLECTOR_H */
