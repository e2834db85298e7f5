/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * failing.h -- calls of the C library that fail when a test says so
 *
 * The linker puts failing.c between the program and the C library. One fault is armed at a time; all else
 * goes through. A call of the C library that another one makes inside is not seen.
 */

#ifndef TEST_SOFTRDMA_FAILING_H
#define TEST_SOFTRDMA_FAILING_H

#include <stdbool.h>

/* whose calls: the test's own thread (the one that arms), the device's threads, or either */
enum fail_whose { FAIL_MINE, FAIL_THEIRS, FAIL_ANY };

#define FAIL_FOR_EVER 0x7fffffff

/* instead of an errno value, for send, recv and recvmsg */
#define FAIL_SHORT (-1) /* one byte, or a part of it, has gone */
#define FAIL_END (-2)   /* the end of the stream */
/* the call waits for fail_nothing() or another fail_call(), and goes through then */
#define FAIL_WAIT (-10000)
/* for fstat: the file is a block device, a character device without an entry in sysfs, or one with it */
#define FAIL_BLOCK_DEVICE (-10001)
#define FAIL_LOST_DEVICE (-10002)
#define FAIL_DEVICE (-10003)
/* for getaddrinfo: it finds one address, of a family that nobody knows here */
#define FAIL_STRANGE (-30000)

/*
 * After `skip` calls of this name that go through, `times` of them fail with the errno value (getaddrinfo,
 * getnameinfo and pthread_create: the result; malloc, calloc and realloc: NULL; glob: finds what is not
 * there).
 */
void fail_call(enum fail_whose whose, const char *call, unsigned skip, unsigned times, int error);

/* nothing fails any more; the result is how often it has */
unsigned fail_nothing(void);

/* the next fopen() of this thread opens a file with this text instead */
void fail_file(const char *text);

/* has it failed that often? For a test that waits for a call of another thread. */
bool has_failed(unsigned times);

#endif /* TEST_SOFTRDMA_FAILING_H */
