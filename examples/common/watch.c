/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "watch.h"

static int
add(struct watch *watch, int fd, struct watched what)
{
	struct epoll_event event = {
		.events = EPOLLIN,
		.data.u32 = (uint32_t)what.kind << 16 | what.index,
	};

	if (epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
		perror("epoll_ctl");
		return -1;
	}

	return 0;
}

int
watch_open(struct watch *watch, struct watched stop)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &signals, NULL)) {
		perror("sigprocmask");
		return -1;
	}

	watch->stop = stop;
	watch->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (watch->epoll_fd < 0) {
		perror("epoll_create1");
		return -1;
	}
	watch->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (watch->signal_fd < 0) {
		perror("signalfd");
		close(watch->epoll_fd);
		return -1;
	}
	if (add(watch, watch->signal_fd, stop)) {
		watch_close(watch);
		return -1;
	}

	return 0;
}

void
watch_close(struct watch *watch)
{
	close(watch->signal_fd);
	close(watch->epoll_fd);
}

int
watch_add(struct watch *watch, int fd, struct watched what)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK)) {
		perror("fcntl");
		return -1;
	}

	return add(watch, fd, what);
}

void
watch_remove(struct watch *watch, int fd)
{
	(void)epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int
watch_next(struct watch *watch, int timeout_ms, struct watched *what, bool *found)
{
	struct epoll_event event;

	/* one event at a time: handling it may remove the sources of the next ones */
	int n = epoll_wait(watch->epoll_fd, &event, 1, timeout_ms);
	if (n < 0 && errno != EINTR) {
		perror("epoll_wait");
		return -1;
	}
	*found = n == 1;
	if (!*found)
		return 0;

	*what = (struct watched){ (uint16_t)(event.data.u32 >> 16), (uint16_t)event.data.u32 };
	/* a signal is reported once */
	if (what->kind == watch->stop.kind) {
		struct signalfd_siginfo signal;
		*found = read(watch->signal_fd, &signal, sizeof(signal)) == sizeof(signal);
	}

	return 0;
}

int64_t
watch_now_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
