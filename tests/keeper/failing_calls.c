/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* failing_calls.c -- an rpma-keeper in which a call fails for as long as the file that the environment names exists */

#include <librpma.h>
#include <stdlib.h>
#include <unistd.h>

int __real_rpma_mr_dereg(struct rpma_mr_local **mr_ptr);
int __wrap_rpma_mr_dereg(struct rpma_mr_local **mr_ptr);

/* as a device that does not let the region go: it stays registered */
int
__wrap_rpma_mr_dereg(struct rpma_mr_local **mr_ptr)
{
	const char *file = getenv("TEST_DEREG_FAILS");

	if (file == NULL || access(file, F_OK))
		return __real_rpma_mr_dereg(mr_ptr);
	*mr_ptr = NULL;
	return RPMA_E_PROVIDER;
}
