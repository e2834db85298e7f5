/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* thread.c -- threads of the device */

#include <signal.h>
#include <stddef.h>

#include "softrdma/base/thread.h"

int
softrdma_thread_create(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int ret = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret == 0)
		pthread_setname_np(*thread, name);
	return ret;
}
