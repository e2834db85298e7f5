/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* failing_wrap.h -- what the files of stand-ins share: see failing.h */

#ifndef TEST_SOFTRDMA_FAILING_WRAP_H
#define TEST_SOFTRDMA_FAILING_WRAP_H

/* Returns 0 if the call must be made. Otherwise the call fails with this value, which is in errno too. */
int strikes(const char *call);

/* for the calls with a simple wrapper: prototypes, and the results of a failure */
#define WRAP(type, name, failed, params, args) \
	type __real_##name params; \
	type __wrap_##name params; \
	type __wrap_##name params \
	{ \
		int error = strikes(#name); \
		(void)error; \
		return error ? (failed) : __real_##name args; \
	}

#endif /* TEST_SOFTRDMA_FAILING_WRAP_H */
