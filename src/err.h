/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* err.h -- reporting an error: one log line where it is detected; the callers above only pass the code on */

#ifndef RPMAI_ERR_H
#define RPMAI_ERR_H

#include "public.h"

/*
 * Writes to the log why the call fails, keeps the sentence for rpma_errormsg(), and returns ret. The function
 * that detects an error calls one of these, exactly once. rpmai_fail_errno adds the text of errnum and,
 * unless way_out is NULL, what can be done about it. It knows the way out of EMFILE and ENFILE, and writes one
 * line about these in ten seconds.
 */
int rpmai_fail(int ret, const char *file, int line, const char *func, const char *fmt, ...)
	__attribute__((cold, format(printf, 5, 6)));
int rpmai_fail_errno(int ret, int errnum, const char *file, int line, const char *func, const char *way_out,
	const char *fmt, ...) __attribute__((cold, format(printf, 7, 8)));

/* the same for a call that a program may try without harm: only rpma_errormsg() tells the sentence */
int rpmai_refuse(int ret, const char *fmt, ...) __attribute__((cold, format(printf, 2, 3)));

#define RPMAI_FAIL(ret, ...) rpmai_fail((ret), __FILE__, __LINE__, __func__, __VA_ARGS__)
#define RPMAI_FAIL_ERRNO(ret, errnum, way_out, ...) \
	rpmai_fail_errno((ret), (errnum), __FILE__, __LINE__, __func__, (way_out), __VA_ARGS__)

/* the two most common reasons */
/* message(arguments): the log names the function -> Correct the program. */
#define RPMAI_FAIL_NULL() RPMAI_FAIL(RPMA_E_INVAL, "an argument is NULL that must not be")
/* message(limits): memory could not be allocated -> Give the process more memory. */
#define RPMAI_FAIL_NOMEM() RPMAI_FAIL(RPMA_E_NOMEM, "out of memory")

/* for a cleanup that continues after an error: the first error of all */
static inline int
rpmai_first_error(int ret, int next)
{
	return ret ? ret : next;
}

#endif /* RPMAI_ERR_H */
