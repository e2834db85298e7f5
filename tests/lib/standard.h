/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* standard.h -- a part of a test runs without standard input, output and error */

#ifndef TEST_STANDARD_H
#define TEST_STANDARD_H

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define STANDARD_FDS 3
#define STANDARD_KEPT 100 /* where they are meanwhile */

static inline void
standard_close(void)
{
	fflush(NULL);
	for (int fd = 0; fd < STANDARD_FDS; fd++) {
		dup3(fd, STANDARD_KEPT + fd, O_CLOEXEC);
		close(fd);
	}
}

/* how many of them have been opened again */
static inline int
standard_taken(void)
{
	int taken = 0;
	for (int fd = 0; fd < STANDARD_FDS; fd++)
		taken += fcntl(fd, F_GETFD) >= 0;
	return taken;
}

static inline void
standard_open(void)
{
	for (int fd = 0; fd < STANDARD_FDS; fd++) {
		if (fcntl(STANDARD_KEPT + fd, F_GETFD) < 0)
			continue; /* they are open */
		dup2(STANDARD_KEPT + fd, fd);
		close(STANDARD_KEPT + fd);
	}
}

#endif /* TEST_STANDARD_H */
