/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* waiter.c -- a thread that waits for an event of a completion channel; while the channel's lead is on, it serves its connections */

#include <errno.h>
#include <poll.h>
#include <signal.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/env.h"
#include "softrdma/base/notify.h"
#include "softrdma/base/spin.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/lead.h"
#include "softrdma/engine/pace.h"
#include "softrdma/engine/waiter.h"

/* looks between two at the signals of the application, which are held meanwhile so that none is lost */
#define LOOKS_PER_SIGNAL 64

struct waiter {
	struct softrdma_comp_channel *channel;
	struct softrdma_spin *spin; /* the thread's experience with waiting */
	bool has_input;             /* true if it has received something */
	sigset_t signals;           /* that the application blocks */
	int cancel_state;           /* of the application */
};

static void
note_input(struct waiter *waiter)
{
	softrdma_spin_input(waiter->spin, softrdma_engine_spin_ns());
	waiter->has_input = true;
}

/* the thread is cancelled while it waits */
static void
give_up(void *arg)
{
	const struct waiter *waiter = arg;
	pthread_sigmask(SIG_SETMASK, &waiter->signals, NULL);
}

/* as ppoll(2): the one place where the application's signals come, and where the thread can be cancelled */
static int
wait_in_kernel(struct waiter *waiter, struct pollfd *pfds, nfds_t count, const struct timespec *limit)
{
	int ready;
	pthread_cleanup_push(give_up, waiter);
	softrdma_cancel_back(&waiter->cancel_state);
	ready = ppoll(pfds, count, limit, &waiter->signals);
	softrdma_cancel_off();
	pthread_cleanup_pop(0);
	return ready;
}

/* Waits for an event, or for bytes of the connections, which it receives. 0 or an errno value. */
static int
wait_for_input(struct waiter *waiter)
{
	struct softrdma_lead *lead = &waiter->channel->lead;
	struct pollfd pfds[] = {
		{ .fd = waiter->channel->channel.fd, .events = POLLIN },
		{ .fd = softrdma_lead_hidden_fd(lead), .events = POLLIN },
	};
	softrdma_lead_no_replies(lead);
	if (wait_in_kernel(waiter, pfds, 2, NULL) < 0)
		return errno;
	if (!softrdma_lead_is_on(lead) || softrdma_comp_channel_has_event(waiter->channel))
		return 0;
	if (softrdma_lead_look_at_reported(lead))
		note_input(waiter);
	return 0;
}

/* lets the application handle signals that have come; EINTR if there were any. ppoll(2) does not if a descriptor is ready. */
static int
let_signals_in(struct waiter *waiter)
{
	static const struct timespec no_time;
	return wait_in_kernel(waiter, NULL, 0, &no_time) < 0 ? errno : 0;
}

/* waits until the channel has an event: looks for input while that pays (busy polling), and sleeps after that */
static int
wait_for_event(struct waiter *waiter)
{
	struct softrdma_lead *lead = &waiter->channel->lead;
	const uint64_t begun_ns = softrdma_spin_is_on(waiter->spin) ? softrdma_now_ns() : 0;
	uint64_t sleeps_ns = 0;
	unsigned looks = 0;
	int ret = 0;
	while (ret == 0 && !softrdma_comp_channel_has_event(waiter->channel)) {
		if (looks++ >= LOOKS_PER_SIGNAL) {
			looks = 0;
			ret = let_signals_in(waiter);
		} else if (!softrdma_spin_is_on(waiter->spin)) {
			if (begun_ns && sleeps_ns == 0)
				sleeps_ns = softrdma_now_ns();
			ret = wait_for_input(waiter);
		} else if (softrdma_lead_look(lead)) {
			note_input(waiter);
		} else if (softrdma_spin_goes_on(waiter->spin)) {
			softrdma_spin_give_way(waiter->spin);
		}
	}
	if (begun_ns)
		softrdma_pace_mine()->spun_ns += (sleeps_ns ? sleeps_ns : softrdma_now_ns()) - begun_ns;
	/* another thread has raised the event */
	if (ret == 0 && !waiter->has_input)
		note_input(waiter);
	return ret;
}

/* Signals that a fault of the program raises cannot be put off. */
static void
hold_signals(struct waiter *waiter)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };
	sigset_t held;
	sigfillset(&held);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&held, faults[i]);
	pthread_sigmask(SIG_BLOCK, &held, &waiter->signals);
}

int
softrdma_waiter_wait(struct softrdma_comp_channel *channel, int cancel_state)
{
	int ret = softrdma_notify_may_wait(channel->channel.fd);
	if (ret == EAGAIN)
		softrdma_lead_show(&channel->lead);
	if (ret)
		return ret;

	struct waiter waiter = {
		.channel = channel,
		.spin = softrdma_spin_mine(),
		.cancel_state = cancel_state,
	};
	hold_signals(&waiter);
	if (softrdma_lead_is_on(&channel->lead))
		softrdma_spin_begin(waiter.spin, softrdma_engine_spin_ns());
	else
		softrdma_spin_end(waiter.spin); /* the progress thread needs the processor to serve them */
	ret = wait_for_event(&waiter);
	pthread_sigmask(SIG_SETMASK, &waiter.signals, NULL);
	return ret;
}
