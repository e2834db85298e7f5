/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* notify.c -- descriptors that applications poll: event channels and completion channels */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/high_fd.h"
#include "softrdma/base/notify.h"

int
softrdma_notify_open(void)
{
	return softrdma_high_fd(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC));
}

void
softrdma_notify_raise(int fd)
{
	SOFTRDMA_NO_CANCEL;
	const uint64_t one = 1;
	ssize_t n;
	do {
		n = write(fd, &one, sizeof(one));
	} while (n < 0 && errno == EINTR);
	/* this fails only if the application has closed the descriptor; the event stays in the queue then */
}

void
softrdma_notify_take(int fd)
{
	SOFTRDMA_NO_CANCEL;
	uint64_t one;
	ssize_t n;
	do {
		n = read(fd, &one, sizeof(one));
	} while (n < 0 && errno == EINTR);
}

int
softrdma_notify_may_wait(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0)
		return errno;
	return flags & O_NONBLOCK ? EAGAIN : 0;
}

int
softrdma_notify_wait(int fd)
{
	int ret = softrdma_notify_may_wait(fd);
	if (ret)
		return ret;

	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	return poll(&pfd, 1, -1) < 0 ? errno : 0;
}
