/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * check.h -- the checks of a role
 *
 * A failed check reports where and why, and ends the process: nothing after it could be relied on. The driver
 * runs each scenario in one or two processes of its own, so only that scenario ends.
 */

#ifndef CONF_CHECK_H
#define CONF_CHECK_H

#include <inttypes.h>

#include "scenario.h"

/* exit codes of a role's process */
enum check_exit {
	CHECK_EXIT_FAILED = 2,   /* not 1, the status that sanitizers exit with */
	CHECK_EXIT_ORPHANED = 3, /* the other role ended first: its reason counts */
	CHECK_EXIT_SKIPPED = 77,
};

/* tells the checks of this thread which role they report for */
void check_bind(struct role *r);
struct role *check_role(void);

_Noreturn void check_failed(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void check_ret(const char *file, int line, const char *text, int ret, int expected);
void check_eq(const char *file, int line, const char *text, intmax_t value, intmax_t expected);

/* ends this role because the other one is gone */
_Noreturn void check_orphaned(void);
/* the scenario cannot run here; tells the other role as well */
_Noreturn void check_skip(struct role *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* ends this role because the other one has skipped the scenario */
_Noreturn void check_skipped_by_other(const char *why);

#define CHECK(expr) ((expr) ? (void)0 : check_failed(__FILE__, __LINE__, "%s", #expr))
#define CHECK_EQ(value, expected) \
	check_eq(__FILE__, __LINE__, #value, (intmax_t)(value), (intmax_t)(expected))
/* a result of librpma, printed by its name */
#define CHECK_RET(expr, expected) check_ret(__FILE__, __LINE__, #expr, (expr), (expected))
#define CHECK_OK(expr) CHECK_RET(expr, 0)

#endif /* CONF_CHECK_H */
