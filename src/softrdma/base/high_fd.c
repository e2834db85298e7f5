/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* high_fd.c -- no descriptor of ours is 0, 1 or 2 */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "softrdma/base/high_fd.h"

#define FIRST_FD 3

int
softrdma_high_fd(int fd)
{
	if (fd < 0 || fd >= FIRST_FD)
		return fd;
	const int high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
	const int error = errno;
	close(fd);
	errno = error;
	return high;
}

int
softrdma_high_pipe(int ends[2], int flags)
{
	int low[2];
	if (pipe2(low, flags) != 0)
		return -1;
	const int reading = softrdma_high_fd(low[0]);
	int error = errno;
	const int writing = softrdma_high_fd(low[1]);
	if (reading >= 0 && writing >= 0) {
		ends[0] = reading;
		ends[1] = writing;
		return 0;
	}
	if (reading >= 0)
		error = errno;
	close(reading >= 0 ? reading : writing); /* EBADF if neither is left */
	errno = error;
	return -1;
}

FILE *
softrdma_high_stream(FILE *low)
{
	if (low == NULL || fileno(low) < 0 || fileno(low) >= FIRST_FD)
		return low;
	const int fd = fcntl(fileno(low), F_DUPFD_CLOEXEC, FIRST_FD);
	FILE *high = fd < 0 ? NULL : fdopen(fd, "r");
	const int error = errno;
	fclose(low);
	if (high == NULL)
		close(fd); /* EBADF without one */
	errno = error;
	return high;
}
