/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* recorder.c -- records what functions of the library return in the unit tests */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <librpma.h>

#include "recorder.h"

#define NAMED(error) \
	case error: \
		return #error
static const char *
name_of(int error)
{
	switch (error) {
		NAMED(RPMA_E_UNKNOWN);
		NAMED(RPMA_E_NOSUPP);
		NAMED(RPMA_E_PROVIDER);
		NAMED(RPMA_E_NOMEM);
		NAMED(RPMA_E_INVAL);
		NAMED(RPMA_E_NO_COMPLETION);
		NAMED(RPMA_E_NO_EVENT);
		NAMED(RPMA_E_AGAIN);
		NAMED(RPMA_E_SHARED_CHANNEL);
		NAMED(RPMA_E_NOT_SHARED_CHNL);
	default:
		return "which has no name";
	}
}

/* writes one whole line at a time, because concurrent programs append to the same file */
static void
append(const char *function, int error)
{
	const char *path = getenv("RPMA_TEST_RECORD");
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;

	if (path && (fd < 0 || dprintf(fd, "%s %s\n", function, name_of(error)) < 0)) {
		perror(path);
		abort();
	}
	if (fd >= 0)
		close(fd);
}

int
recorder_note(const char *function, int ret, unsigned *seen)
{
	/* the errors are -100000, -100001, ... */
	unsigned number = (unsigned)(RPMA_E_UNKNOWN - ret);
	unsigned bit = ret && number < 31 ? 1u << number : 1u << 31;

	if (ret && !(__atomic_fetch_or(seen, bit, __ATOMIC_RELAXED) & bit)) {
		int saved = errno;

		append(function, ret);
		errno = saved;
	}
	return ret;
}
