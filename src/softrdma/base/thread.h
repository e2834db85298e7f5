/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* thread.h -- threads of the device */

#ifndef SOFTRDMA_THREAD_H
#define SOFTRDMA_THREAD_H

#include <pthread.h>

/*
 * Starts a thread with all signals blocked, because signals belong to the application. Returns 0 or an errno
 * value. Any thread.
 */
int softrdma_thread_create(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg);

#endif /* SOFTRDMA_THREAD_H */
