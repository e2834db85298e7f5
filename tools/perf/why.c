/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* why.c -- why something failed, as a sentence for the user */

#include <librpma.h>

#include <stdarg.h>
#include <stdio.h>

#include "why.h"

bool
why_say(char why[static WHY_MAX], const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(why, WHY_MAX, format, args);
	va_end(args);
	return false;
}

bool
why_rpma(char why[static WHY_MAX], const char *doing)
{
	return why_say(why, "%s: %s", doing, rpma_errormsg());
}
