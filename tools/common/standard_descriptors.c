/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* standard_descriptors.c -- 0, 1 and 2 of a program that was started without some of them */

#include <fcntl.h>
#include <unistd.h>

#include "standard_descriptors.h"

bool
open_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
			open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) !=
				fd) /* no O_CLOEXEC, as those of a shell */
			return false;
	return true;
}
