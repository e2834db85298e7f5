/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* check.c -- reports and the end of a role's process */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "control.h"

static _Thread_local struct role *current;
/* threads that a scenario starts itself report for the role that was bound last */
static struct role *last_bound;

void
check_bind(struct role *r)
{
	current = r;
	__atomic_store_n(&last_bound, r, __ATOMIC_RELAXED);
}

struct role *
check_role(void)
{
	return current ? current : __atomic_load_n(&last_bound, __ATOMIC_RELAXED);
}

static void
report(const char *text)
{
	ssize_t n = write(check_role()->report, text, strlen(text));

	(void)n; /* if this fails, the exit code still reports it */
}

static const char *
role_name(void)
{
	if (!current)
		return "thread";
	return current->is_target ? "target" : "initiator";
}

void
check_failed(const char *file, int line, const char *format, ...)
{
	const char *slash = strrchr(file, '/');
	char why[512];
	char text[768];
	va_list ap;

	va_start(ap, format);
	vsnprintf(why, sizeof(why), format, ap);
	va_end(ap);
	snprintf(text, sizeof(text), "%s: %s:%d: %s\n", role_name(), slash ? slash + 1 : file, line, why);
	report(text);
	_exit(CHECK_EXIT_FAILED);
}

void
check_ret(const char *file, int line, const char *text, int ret, int expected)
{
	if (ret != expected)
		check_failed(file, line, "%s: \"%s\" (%d), not \"%s\"", text, rpma_err_2str(ret), ret,
			rpma_err_2str(expected));
}

void
check_eq(const char *file, int line, const char *text, intmax_t value, intmax_t expected)
{
	if (value != expected)
		check_failed(file, line, "%s is %jd, not %jd", text, value, expected);
}

void
check_orphaned(void)
{
	_exit(CHECK_EXIT_ORPHANED);
}

void
check_skip(struct role *r, const char *format, ...)
{
	char why[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(why, sizeof(why), format, ap);
	va_end(ap);
	ctl_put_skip(r, why);
	check_skipped_by_other(why);
}

void
check_skipped_by_other(const char *why)
{
	report(why);
	report("\n");
	_exit(CHECK_EXIT_SKIPPED);
}
