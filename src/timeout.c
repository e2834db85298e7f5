/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* timeout.c -- waiting for a descriptor, with a time limit */

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <time.h>

#include "err.h"
#include "timeout.h"

#define NS_PER_MS ((uint64_t)1000000)

uint64_t
rpmai_timeout_now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 * NS_PER_MS + (uint64_t)ts.tv_nsec;
}

uint64_t
rpmai_timeout_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? DEADLINE_NEVER : rpmai_timeout_now() + (uint64_t)timeout_ms * NS_PER_MS;
}

int
rpmai_timeout_left(uint64_t deadline)
{
	if (deadline == DEADLINE_NEVER)
		return -1;
	const uint64_t now = rpmai_timeout_now();
	if (now >= deadline)
		return 0;
	const uint64_t ms = (deadline - now + NS_PER_MS - 1) / NS_PER_MS;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

int
rpmai_timeout_check(int timeout_ms)
{
	/* message(negative-time) */
	if (timeout_ms < -1)
		return RPMAI_FAIL(RPMA_E_INVAL, "a timeout of %d ms: give 0 or more; -1 waits for ever",
			timeout_ms);
	return 0;
}

int
rpmai_timeout_readable(int fd, uint64_t deadline)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	const int left = rpmai_timeout_left(deadline);
	int count;
	do
		count = poll(&pfd, 1, left);
	while (count < 0 && errno == EINTR && left == 0); /* a signal ends a wait, but this is only a look */
	/* message(waiting) */
	if (count < 0 && errno != EINTR)
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "poll()");
	return count > 0;
}

/* ---- turns ---- */

void
rpmai_turn_init(struct turn *turn)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&turn->free, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&turn->lock, NULL);
	turn->is_taken = false;
}

void
rpmai_turn_fini(struct turn *turn)
{
	pthread_mutex_destroy(&turn->lock);
	pthread_cond_destroy(&turn->free);
}

/* also for a thread that is cancelled while it waits for its turn */
static void
unlock(void *lock)
{
	pthread_mutex_unlock(lock);
}

bool
rpmai_turn_take(struct turn *turn, uint64_t deadline)
{
	const struct timespec until = {
		.tv_sec = (time_t)(deadline / (1000 * NS_PER_MS)),
		.tv_nsec = (long)(deadline % (1000 * NS_PER_MS)),
	};
	int errnum = 0;
	bool taken;

	pthread_mutex_lock(&turn->lock);
	pthread_cleanup_push(unlock, &turn->lock);
	while (turn->is_taken && errnum == 0) {
		if (deadline == DEADLINE_NEVER)
			pthread_cond_wait(&turn->free, &turn->lock);
		else
			errnum = pthread_cond_timedwait(&turn->free, &turn->lock, &until);
	}
	taken = !turn->is_taken;
	if (taken)
		turn->is_taken = true;
	pthread_cleanup_pop(1);
	return taken;
}

void
rpmai_turn_give(void *arg)
{
	struct turn *turn = arg;
	pthread_mutex_lock(&turn->lock);
	turn->is_taken = false;
	pthread_cond_signal(&turn->free);
	pthread_mutex_unlock(&turn->lock);
}
