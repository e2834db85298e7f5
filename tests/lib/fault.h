/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fault.h -- the k-th fallible call fails
 *
 * fault.c holds a stand-in for each call of the product that may fail. They get there by the linker's --wrap,
 * applied to the product's objects alone (tests/torture/CMakeLists.txt): what a test calls is never counted
 * and never fails. All threads of the product count together, its progress thread too.
 *
 * Beside the faults it keeps account of what the product has taken and not given back yet.
 */

#ifndef TEST_FAULT_H
#define TEST_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fault_mode {
	FAULT_ONCE, /* the k-th call only */
	/* the k-th call and all that follow; a signal interrupts a call, but not its repetition */
	FAULT_FROM,
};

/* which calls count */
enum fault_domain {
	FAULT_SYSTEM = 1 << 0, /* libc and the kernel */
	FAULT_VERBS = 1 << 1,  /* what a test gives to fault_hits() itself, as a table of verbs */
	FAULT_STREAM = 1 << 2, /* bytes on their way, by a test that stands in between */
};

/*
 * From now on calls are counted, and the k-th fails; 0: none. variant chooses among the ways in which it may
 * fail.
 */
void fault_arm(unsigned long k, enum fault_mode mode, unsigned domains, unsigned variant);
/* the k-th call fails too, once; to be said right after fault_arm() */
void fault_also(unsigned long k);
/* nothing fails any more; what was counted can still be asked for */
void fault_disarm(void);

/* calls since fault_arm() */
unsigned long fault_calls(void);
/* has one failed? */
bool fault_used(void);
/* the first call that failed, how it did, and from where it was called, as words; "none" */
const char *fault_call(void);
int fault_errno(void);

#define FAULT_FRAMES 16
/* return addresses of the call that failed first, innermost first; their number */
int fault_frames(void *frames[static FAULT_FRAMES]);

/* is it this call's turn? Then the errno value to fail with, one of the 0-terminated list; else 0 */
int fault_hits(enum fault_domain domain, const char *call, const int *errnos);

/*
 * The product's monotonic clock is ahead by so much more. What waits for a deadline of minutes gets there at
 * once.
 */
void fault_skip_time(unsigned ms);

/*
 * The product's connect() of a stream socket asks this function where to connect instead; false: it goes
 * where it wanted. NULL: nobody is asked any more. Any thread of the product calls it.
 */
struct sockaddr;
struct sockaddr_storage;
typedef bool fault_redirection(const struct sockaddr *to, struct sockaddr_storage *via);
void fault_redirect(fault_redirection *redirection);

/* what the product holds: memory, address lists, streams, directories */
struct fault_held {
	const char *call; /* that took it */
	size_t size;
	void *frames[FAULT_FRAMES];
	int frame_count;
};

/* the number of them, and the first max of them */
size_t fault_held(struct fault_held *list, size_t max);

#endif /* TEST_FAULT_H */
