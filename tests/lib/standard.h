/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* standard.h -- a part of a test runs without standard input, output and error */

#ifndef TEST_STANDARD_H
#define TEST_STANDARD_H

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define STANDARD_FDS 3
#define STANDARD_KEPT 100   /* where they are meanwhile */
#define STANDARD_LOOKS 5000 /* a millisecond apart, before a descriptor counts as one that stays */

static FILE *standard_stderr; /* stderr meanwhile is another stream, so that what fails is said */

static inline void
standard_close(void)
{
	fflush(NULL);
	standard_stderr = stderr;
	stderr = fdopen(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STANDARD_KEPT + STANDARD_FDS), "w");
	setvbuf(stderr, NULL, _IONBF, 0);
	for (int fd = 0; fd < STANDARD_FDS; fd++) {
		dup3(fd, STANDARD_KEPT + fd, O_CLOEXEC);
		close(fd);
	}
}

static inline int
standard_count(void)
{
	int count = 0;
	for (int fd = 0; fd < STANDARD_FDS; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* how many of them have been opened again and stay so: another thread has one for a moment until it has moved it */
static inline int
standard_taken(void)
{
	for (int looks = 0; looks < STANDARD_LOOKS && standard_count() > 0; looks++)
		usleep(1000);
	return standard_count();
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
	if (standard_stderr) {
		fclose(stderr);
		stderr = standard_stderr;
		standard_stderr = NULL;
	}
}

#endif /* TEST_STANDARD_H */
