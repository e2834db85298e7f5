/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* failing_calls.c -- an rpma-keeper in which calls fail, each while the file exists that the environment names */

#include <errno.h>
#include <librpma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int __real_rpma_mr_dereg(struct rpma_mr_local **mr_ptr);
int __wrap_rpma_mr_dereg(struct rpma_mr_local **mr_ptr);
int __real_fsync(int fd);
int __wrap_fsync(int fd);

static bool
is_time_for(const char *variable)
{
	const char *file = getenv(variable);

	return file && access(file, F_OK) == 0;
}

/* as a device that does not let the region go: it stays registered */
int
__wrap_rpma_mr_dereg(struct rpma_mr_local **mr_ptr)
{
	if (!is_time_for("TEST_DEREG_FAILS"))
		return __real_rpma_mr_dereg(mr_ptr);
	*mr_ptr = NULL;
	return RPMA_E_PROVIDER;
}

/* as a disk that does not make names durable */
int
__wrap_fsync(int fd)
{
	struct stat st;

	if (!is_time_for("TEST_NAMES_FAIL") || fstat(fd, &st) || !S_ISDIR(st.st_mode))
		return __real_fsync(fd);
	errno = EIO;
	return -1;
}
