/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* connect_timer.c -- the limit on how long a connection may take to be established */

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "connect_timer.h"
#include "err.h"
#include "softrdma/base/high_fd.h"
#include "timeout.h"

struct connect_timer {
	int channel_fd;
	int timer_fd;
	int epoll_fd;
	int timeout_ms;
};

static int
watch(const struct connect_timer *timer, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	/*
	 * message(system, time-to-connect): a limit on the time to connect
	 * (rpma_conn_cfg_set_connect_timeout(3)) -> The system's text says why.
	 */
	if (epoll_ctl(timer->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "epoll_ctl()");
	return 0;
}

int
rpmai_connect_timer_new(int channel_fd, int timeout_ms, struct connect_timer **timer_ptr)
{
	int ret;
	struct connect_timer *timer = malloc(sizeof(*timer));
	if (timer == NULL)
		return RPMAI_FAIL_NOMEM();

	timer->channel_fd = channel_fd;
	timer->timeout_ms = timeout_ms;
	timer->timer_fd = softrdma_high_fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (timer->timer_fd < 0) {
		/* message(time-to-connect) */
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "timerfd_create()");
		goto err_free;
	}
	timer->epoll_fd = softrdma_high_fd(epoll_create1(EPOLL_CLOEXEC));
	if (timer->epoll_fd < 0) {
		/* message(time-to-connect) */
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "epoll_create1()");
		goto err_close_timer;
	}
	ret = watch(timer, timer->timer_fd);
	if (ret == 0)
		ret = watch(timer, channel_fd);
	if (ret)
		goto err_close_epoll;

	*timer_ptr = timer;
	return 0;

err_close_epoll:
	close(timer->epoll_fd);
err_close_timer:
	close(timer->timer_fd);
err_free:
	free(timer);
	return ret;
}

void
rpmai_connect_timer_delete(struct connect_timer *timer)
{
	if (timer == NULL)
		return;
	close(timer->epoll_fd);
	close(timer->timer_fd);
	free(timer);
}

/* sets the timer to ms milliseconds; 0 becomes 1 ns, since an it_value of 0 would stop it */
static int
set(struct connect_timer *timer, int ms)
{
	const struct itimerspec when = {
		.it_value = { .tv_sec = ms / 1000, .tv_nsec = ms > 0 ? ms % 1000 * 1000000L : 1 },
	};
	return timerfd_settime(timer->timer_fd, 0, &when, NULL);
}

int
rpmai_connect_timer_start(struct connect_timer *timer)
{
	/* message(time-to-connect) */
	if (set(timer, timer->timeout_ms))
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "timerfd_settime()");
	return 0;
}

void
rpmai_connect_timer_stop(struct connect_timer *timer)
{
	const struct itimerspec never = { 0 };
	(void)timerfd_settime(timer->timer_fd, 0, &never, NULL);
}

int
rpmai_connect_timer_fd(const struct connect_timer *timer)
{
	return timer->epoll_fd;
}

/* if an event has come, it counts even if the time is over as well */
enum connect_timer_end
rpmai_connect_timer_wait(struct connect_timer *timer, uint64_t deadline)
{
	int ret = rpmai_timeout_readable(timer->epoll_fd, deadline);
	if (ret <= 0)
		return ret ? CONNECT_TIMER_FAILED : CONNECT_TIMER_NOTHING;
	ret = rpmai_timeout_readable(timer->channel_fd, 0);
	if (ret)
		return ret < 0 ? CONNECT_TIMER_FAILED : CONNECT_TIMER_CHANNEL;

	uint64_t fired;
	return read(timer->timer_fd, &fired, sizeof(fired)) == sizeof(fired) ? CONNECT_TIMER_OVER
									     : CONNECT_TIMER_NOTHING;
}
