/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* waiter.c -- a thread that waits for a completion (CQE) serves its connections itself, and borrows their sockets */

#include <errno.h>
#include <poll.h>
#include <signal.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/notify.h"
#include "softrdma/base/spin.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/reader.h"
#include "softrdma/engine/waiter.h"

/* if a channel has more connections, borrowing and returning their sockets would cost more than a thread switch */
#define LINKS_MAX 4

/* looks between two at the signals of the application, which are held meanwhile so that none is lost */
#define LOOKS_PER_SIGNAL 64
/* one that finds input counts for this many, because to serve it takes longer */
#define LOOKS_OF_INPUT 16

#define CHANNEL_AT 0
#define LINKS_AT 1

struct waiter {
	struct softrdma_comp_channel *channel;
	struct softrdma_spin *spin; /* the thread's experience with waiting */
	bool has_input;             /* true if it has received something */
	sigset_t signals;           /* that the application blocks */
	int cancel_state;           /* of the application */
	struct softrdma_link *links[LINKS_MAX];
	unsigned count;
	struct pollfd pfds[LINKS_AT + LINKS_MAX]; /* fd is -1 for a link whose socket is not borrowed */
};

/* true if it has borrowed a socket */
static bool
borrow_links(struct waiter *waiter)
{
	bool any = false;
	waiter->pfds[CHANNEL_AT] = (struct pollfd){ .fd = waiter->channel->channel.fd, .events = POLLIN };
	waiter->count = softrdma_comp_channel_links(waiter->channel, waiter->links, LINKS_MAX);
	for (unsigned i = 0; i < waiter->count; i++) {
		int fd = softrdma_reader_borrow(waiter->links[i]);
		any |= fd >= 0;
		waiter->pfds[LINKS_AT + i] = (struct pollfd){ .fd = fd, .events = POLLIN | POLLRDHUP };
	}
	return any;
}

/* gives the socket back, or keeps it for the next wait, which is expected soon */
static void
return_link(struct waiter *waiter, unsigned i, bool keeps)
{
	if (waiter->pfds[LINKS_AT + i].fd < 0)
		return;
	waiter->pfds[LINKS_AT + i].fd = -1;
	if (keeps)
		softrdma_reader_keep(waiter->links[i]);
	else
		softrdma_reader_return(waiter->links[i]);
}

static void
return_links(struct waiter *waiter, bool keeps)
{
	for (unsigned i = 0; i < waiter->count; i++) {
		return_link(waiter, i, keeps);
		softrdma_link_put(waiter->links[i]);
	}
}

/*
 * A socket may be readable although nothing can be received: a FLUSH runs, or the stream has ended. It would keep the
 * waiter busy, so it goes back to the progress thread, which waits for edges. True if something came.
 */
static bool
serve_links(struct waiter *waiter)
{
	bool progress = false;
	softrdma_comp_channel_serve(waiter->channel);
	for (unsigned i = 0; i < waiter->count; i++) {
		const struct pollfd *pfd = &waiter->pfds[LINKS_AT + i];
		if (pfd->fd < 0 || !pfd->revents)
			continue;
		if (softrdma_reader_serve_borrowed(waiter->links[i], pfd->revents))
			progress = true;
		else
			return_link(waiter, i, false);
	}
	softrdma_comp_channel_serve(NULL);
	return progress;
}

static void
note_input(struct waiter *waiter)
{
	softrdma_spin_input(waiter->spin, softrdma_engine_spin_ns());
	waiter->has_input = true;
}

/* looks once at all borrowed sockets, without asking the kernel which of them has input; true if something came */
static bool
look_at_links(struct waiter *waiter)
{
	bool progress = false;
	softrdma_comp_channel_serve(waiter->channel);
	for (unsigned i = 0; i < waiter->count; i++) {
		if (waiter->pfds[LINKS_AT + i].fd >= 0)
			progress |= softrdma_reader_serve_borrowed(waiter->links[i], 0);
	}
	softrdma_comp_channel_serve(NULL);
	return progress;
}

/* the thread is cancelled while it waits */
static void
give_up(void *arg)
{
	struct waiter *waiter = arg;
	return_links(waiter, false);
	pthread_sigmask(SIG_SETMASK, &waiter->signals, NULL);
}

/* as ppoll(2): the one place where the application's signals come, and where the thread can be cancelled */
static int
wait_in_kernel(struct waiter *waiter, struct pollfd *pfds, unsigned count, const struct timespec *limit)
{
	int ready;
	pthread_cleanup_push(give_up, waiter);
	softrdma_cancel_back(&waiter->cancel_state);
	ready = ppoll(pfds, count, limit, &waiter->signals);
	softrdma_cancel_off();
	pthread_cleanup_pop(0);
	return ready;
}

/* waits for the channel or a borrowed socket; 0 or an errno value */
static int
wait_for_input(struct waiter *waiter)
{
	for (unsigned i = 0; i < waiter->count; i++) {
		if (waiter->pfds[LINKS_AT + i].fd >= 0)
			softrdma_reader_sleeps(waiter->links[i]);
	}
	int ready = wait_in_kernel(waiter, waiter->pfds, LINKS_AT + waiter->count, NULL);
	if (ready < 0)
		return errno;
	if (ready > 0 && !waiter->pfds[CHANNEL_AT].revents && serve_links(waiter))
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
	unsigned looks = 0;
	int ret = 0;
	while (ret == 0 && !softrdma_comp_channel_has_event(waiter->channel)) {
		if (looks++ >= LOOKS_PER_SIGNAL) {
			looks = 0;
			ret = let_signals_in(waiter);
		} else if (!softrdma_spin_is_on(waiter->spin)) {
			ret = wait_for_input(waiter);
		} else if (look_at_links(waiter)) {
			looks += LOOKS_OF_INPUT;
			note_input(waiter);
		} else if (softrdma_spin_goes_on(waiter->spin)) {
			softrdma_spin_give_way(waiter->spin);
		}
	}
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
	if (ret)
		return ret;

	struct waiter waiter = {
		.channel = channel,
		.spin = softrdma_spin_mine(),
		.cancel_state = cancel_state,
	};
	hold_signals(&waiter);
	if (borrow_links(&waiter))
		softrdma_spin_begin(waiter.spin, softrdma_engine_spin_ns());
	else
		softrdma_spin_end(waiter.spin); /* the progress thread needs the processor to serve them */
	ret = wait_for_event(&waiter);
	return_links(&waiter, ret == 0 && softrdma_spin_is_on(waiter.spin));
	pthread_sigmask(SIG_SETMASK, &waiter.signals, NULL);
	return ret;
}
