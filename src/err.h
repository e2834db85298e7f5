/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* err.h -- how an error is decided: one line in the log where it happens, then passed on in silence */

#ifndef RPMAI_ERR_H
#define RPMAI_ERR_H

#include "public.h"

/*
 * Says in the log, and to rpma_errormsg(), why the call fails, and returns ret. Whoever decides an error
 * calls one of these, exactly once. rpmai_fail_errno adds the text of errnum and, unless NULL, what can be
 * done about it.
 */
int rpmai_fail(int ret, const char *file, int line, const char *func, const char *fmt, ...)
	__attribute__((cold, format(printf, 5, 6)));
int rpmai_fail_errno(int ret, int errnum, const char *file, int line, const char *func, const char *way_out,
	const char *fmt, ...) __attribute__((cold, format(printf, 7, 8)));

/* the same for what a program may well try without harm: only rpma_errormsg() tells it */
int rpmai_refuse(int ret, const char *sentence);

#define RPMAI_FAIL(ret, ...) rpmai_fail((ret), __FILE__, __LINE__, __func__, __VA_ARGS__)
#define RPMAI_FAIL_ERRNO(ret, errnum, way_out, ...) \
	rpmai_fail_errno((ret), (errnum), __FILE__, __LINE__, __func__, (way_out), __VA_ARGS__)

/* the two reasons that nearly every call has */
#define RPMAI_FAIL_NULL() RPMAI_FAIL(RPMA_E_INVAL, "an argument is NULL that must not be")
#define RPMAI_FAIL_NOMEM() RPMAI_FAIL(RPMA_E_NOMEM, "out of memory")

/* the first error of a cleanup that goes on in spite of errors */
static inline int
rpmai_first_error(int ret, int next)
{
	return ret ? ret : next;
}

#endif /* RPMAI_ERR_H */
