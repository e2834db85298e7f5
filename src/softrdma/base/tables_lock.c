/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* tables_lock.c -- one lock for the small tables of the process */

#include <pthread.h>

#include "softrdma/base/fork.h"
#include "softrdma/base/tables_lock.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void
after_fork(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

void
softrdma_tables_lock(void)
{
	pthread_mutex_lock(&lock);
}

void
softrdma_tables_unlock(void)
{
	pthread_mutex_unlock(&lock);
}
