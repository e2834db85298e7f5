/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* threads.c -- starts and ends the threads that serve the sockets of the process, and the registry */

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#include "softrdma/base/copy.h"
#include "softrdma/base/fork.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/fault_inject.h"
#include "softrdma/engine/links.h"
#include "softrdma/engine/pending_sockets.h"
#include "softrdma/engine/stats_file.h"
#include "softrdma/engine/threads.h"
#include "softrdma/engine/workers.h"
#include "softrdma/samehost/registry.h"

/* taken before all others but poll_lock (cq.h), which the program may hold */
static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;

static void
after_fork(void)
{
	users = 0;
	users_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

static const struct softrdma_engine_calls calls = {
	.begin = softrdma_registry_live,
	.end = softrdma_registry_die,
	.ring = softrdma_fault_inject_alarm,
	.before_sleep = softrdma_pending_sockets_pause,
};

static int
start(void)
{
	int ret = softrdma_engine_open();
	if (ret)
		return ret;
	ret = softrdma_pending_sockets_open();
	if (ret)
		goto err_close_engine;
	softrdma_registry_open();
	ret = softrdma_engine_run(&calls);
	if (ret)
		goto err_close_registry;
	softrdma_stats_file_start();
	return 0;

err_close_registry:
	softrdma_registry_close();
	softrdma_pending_sockets_close();
err_close_engine:
	softrdma_engine_close();
	return ret;
}

static void
stop(void)
{
	softrdma_engine_halt();
	softrdma_workers_stop();
	softrdma_engine_drain();
	softrdma_links_end();
	softrdma_stats_file_stop();
	softrdma_registry_close();
	softrdma_copy_close();
	softrdma_pending_sockets_close();
	softrdma_engine_close();
}

int
softrdma_threads_start(void)
{
	pthread_mutex_lock(&users_lock);
	int ret = users == 0 ? start() : 0;
	if (ret == 0)
		users++;
	pthread_mutex_unlock(&users_lock);
	return ret;
}

void
softrdma_threads_stop(void)
{
	pthread_mutex_lock(&users_lock);
	assert(users > 0);
	if (--users == 0)
		stop();
	pthread_mutex_unlock(&users_lock);
}

/*
 * A program may end while it has connections: then the file gets their last counts here. If another thread starts or stops
 * the threads right now, that thread may be waiting for this one, and the file keeps what it has.
 */
__attribute__((destructor)) static void
write_last_statistics(void)
{
	const bool has_lock = pthread_mutex_trylock(&users_lock) == 0;
	if (has_lock && users > 0)
		softrdma_stats_file_stop();
	if (has_lock)
		pthread_mutex_unlock(&users_lock);
}
