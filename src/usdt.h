/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * usdt.h -- probes for bpftrace, perf, gdb and SystemTap (user statically-defined tracing)
 *
 *	USDT(provider, name, arguments...)
 *
 * A probe is one nop, and a note in the library that says where it is and where its arguments are at that time. As long as
 * no tracer has replaced the nop, nothing more happens. So the arguments must be there already: a variable or a member, no
 * call. Integers only. Each has its row in doc/tracing.md, and tests/surface/probes.sh compares the two.
 *
 * Without sys/sdt.h (WITH_USDT) there are none.
 */

#ifndef USDT_H
#define USDT_H

/* the analyzer of clang takes what the macros ask the compiler for uses of the arguments */
#if defined(HAVE_SDT) && !defined(__clang_analyzer__)

#define SDT_USE_VARIADIC
#include <sys/sdt.h>

#define USDT(provider, name, ...) STAP_PROBEV(provider, name, __VA_ARGS__)

#else

/* never called: the arguments count as used */
static inline void
usdt_unused(int first, ...)
{
	(void)first;
}

#define USDT(provider, name, ...) \
	do { \
		if (0) \
			usdt_unused(0, __VA_ARGS__); \
	} while (0)

#endif

#endif /* USDT_H */
