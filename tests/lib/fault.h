/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fault.h -- the k-th fallible call fails
 *
 * fault.c has a stand-in for each call of the product that may fail. The linker's --wrap puts them in, for
 * the product's objects alone (tests/torture/CMakeLists.txt): calls of the test itself are never counted and
 * never fail. The calls of all threads of the product count together, including its progress thread.
 *
 * It also keeps account of what the product has allocated and not freed yet.
 */

#ifndef TEST_FAULT_H
#define TEST_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fault_mode {
	FAULT_ONCE, /* the k-th call only */
	/* the k-th call and all later ones; a signal interrupts a call, but not its repetition */
	FAULT_FROM,
};

/* which calls count */
enum fault_domain {
	FAULT_SYSTEM = 1 << 0, /* libc and the kernel */
	FAULT_VERBS = 1 << 1,  /* calls that a test passes to fault_hits() itself, such as a table of verbs */
	FAULT_STREAM = 1 << 2, /* bytes in transit, counted by a test that stands in between */
};

/*
 * Starts counting calls, and makes the k-th one fail (0: none). variant selects one of the ways in which it
 * may fail.
 */
void fault_arm(unsigned long k, enum fault_mode mode, unsigned domains, unsigned variant);
/* makes the k-th call fail too, once; call it right after fault_arm() */
void fault_also(unsigned long k);
/* no call fails after this; the counts can still be read */
void fault_disarm(void);

/* number of calls since fault_arm() */
unsigned long fault_calls(void);
/* true if a call has failed */
bool fault_used(void);
/* name and errno value of the call that failed first, and below its callers; "none" and 0 if none failed */
const char *fault_call(void);
int fault_errno(void);

#define FAULT_FRAMES 16
/* return addresses of the call that failed first, innermost first; returns their number */
int fault_frames(void *frames[static FAULT_FRAMES]);

/* If this call is the one to fail, returns an errno value from the 0-terminated list; otherwise 0. */
int fault_hits(enum fault_domain domain, const char *call, const int *errnos);

/*
 * Moves the product's monotonic clock ahead by this number of milliseconds, so that a wait of minutes ends at
 * once.
 */
void fault_skip_time(unsigned ms);

/*
 * The product's connect() of a stream socket calls this function to learn where to connect instead; if it
 * returns false, the address is not changed. NULL removes the function. Any thread of the product may call
 * it.
 */
struct sockaddr;
struct sockaddr_storage;
typedef bool fault_redirection(const struct sockaddr *to, struct sockaddr_storage *via);
void fault_redirect(fault_redirection *redirection);

/* what the product holds: memory, address lists, streams, directories */
struct fault_held {
	const char *call; /* that allocated it */
	size_t size;
	void *frames[FAULT_FRAMES];
	int frame_count;
};

/* returns the number of them, and stores the first max of them */
size_t fault_held(struct fault_held *list, size_t max);

#endif /* TEST_FAULT_H */
