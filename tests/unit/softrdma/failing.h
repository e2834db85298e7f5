/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * failing.h -- calls of the C library that fail on a test's request
 *
 * The linker puts failing.c between the program and the C library. One fault is armed at a time; all other
 * calls are made. Calls that the C library makes internally are not intercepted.
 */

#ifndef TEST_SOFTRDMA_FAILING_H
#define TEST_SOFTRDMA_FAILING_H

#include <stdbool.h>

/* which calls: those of the test's own thread (the one that arms), those of the device's threads, or both */
enum fail_whose { FAIL_MINE, FAIL_THEIRS, FAIL_ANY };

#define FAIL_FOR_EVER 0x7fffffff

/* instead of an errno value, for send, recv and recvmsg */
#define FAIL_SHORT (-1) /* one byte, or a part of the data, was transferred */
#define FAIL_END (-2)   /* the end of the stream */
/* the call blocks until fail_nothing() or another fail_call(), and is made then */
#define FAIL_WAIT (-10000)
/*
 * for fstat: the file is a block device, a character device without a sysfs entry, or one with such an entry
 */
#define FAIL_BLOCK_DEVICE (-10001)
#define FAIL_LOST_DEVICE (-10002)
#define FAIL_DEVICE (-10003)
/* for getsockopt: the value is the bytes of the longest packet on Ethernet, 1500 */
#define FAIL_ETHERNET (-10004)
/* for getaddrinfo: it finds one address, of an unknown family */
#define FAIL_STRANGE (-30000)

/*
 * After `skip` successful calls of this name, `times` of them fail with the errno value. For getaddrinfo,
 * getnameinfo and pthread_create the value is the result; malloc, calloc, realloc and tsearch return NULL; glob finds
 * a file that does not exist.
 */
void fail_call(enum fail_whose whose, const char *call, unsigned skip, unsigned times, int error);

/* disarms the fault; returns how many calls have failed */
unsigned fail_nothing(void);

/* the next fopen() of this thread opens a file with this text instead */
void fail_file(const char *text);

/* true if this number of calls has failed; for a test that waits for a call of another thread */
bool has_failed(unsigned times);

#endif /* TEST_SOFTRDMA_FAILING_H */
