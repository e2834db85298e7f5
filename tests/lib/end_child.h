/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* end_child.h -- the end of a forked child that runs a part of a test */

#ifndef TEST_END_CHILD_H
#define TEST_END_CHILD_H

#include <stdlib.h>
#include <unistd.h>

#if defined(__has_feature)
#define HAS_LEAK_CHECKER __has_feature(address_sanitizer)
#else
#define HAS_LEAK_CHECKER 0
#endif

/*
 * exit() makes a coverage build record the lines that the child has executed. A leak checker would run then
 * as well, and would not see pointers on the stacks of the parent's threads.
 */
static inline _Noreturn void
end_child(int status)
{
	if (HAS_LEAK_CHECKER)
		_exit(status);
	exit(status);
}

#endif /* TEST_END_CHILD_H */
