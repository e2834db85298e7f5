/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* workers.c -- the flush workers: threads that wait for a medium on behalf of a FLUSH */

#include <pthread.h>
#include <stddef.h>

#include "softrdma/base/fork.h"
#include "softrdma/base/thread.h"
#include "softrdma/engine/workers.h"

static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static struct softrdma_connection *first, *last; /* linked by job_next */
static void (*job)(struct softrdma_connection *conn);
static pthread_t threads[SOFTRDMA_FLUSH_THREADS_MAX];
static unsigned thread_count, idle_count, queued;
static bool stopping;

static void
after_fork(void)
{
	softrdma_fork_keep(first);
	first = last = NULL;
	thread_count = idle_count = queued = 0;
	stopping = false;
	jobs_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	cond = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

static void *
run_worker(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&jobs_lock);
	for (;;) {
		while (first == NULL && !stopping) {
			idle_count++;
			pthread_cond_wait(&cond, &jobs_lock);
			idle_count--;
		}
		struct softrdma_connection *conn = first;
		if (conn == NULL)
			break;
		first = conn->job_next;
		queued--;
		void (*work)(struct softrdma_connection * link) = job;
		pthread_mutex_unlock(&jobs_lock);
		work(conn);
		softrdma_link_put(&conn->link);
		pthread_mutex_lock(&jobs_lock);
	}
	pthread_mutex_unlock(&jobs_lock);
	return NULL;
}

int
softrdma_workers_submit(struct softrdma_connection *conn, void (*work)(struct softrdma_connection *conn))
{
	int ret = 0;
	pthread_mutex_lock(&jobs_lock);
	if (queued >= idle_count && thread_count < SOFTRDMA_FLUSH_THREADS_MAX) {
		ret = softrdma_thread_create(&threads[thread_count], "softrdma-flush", run_worker, NULL);
		if (ret == 0)
			thread_count++;
		else if (thread_count > 0)
			ret = 0; /* one of the existing threads will take it */
	}
	if (ret == 0) {
		softrdma_link_get(&conn->link);
		job = work;
		conn->job_next = NULL;
		if (first)
			last->job_next = conn;
		else
			first = conn;
		last = conn;
		queued++;
		pthread_cond_signal(&cond);
	}
	pthread_mutex_unlock(&jobs_lock);
	return ret;
}

bool
softrdma_workers_are_short(void)
{
	pthread_mutex_lock(&jobs_lock);
	bool are_short = queued > idle_count;
	pthread_mutex_unlock(&jobs_lock);
	return are_short;
}

void
softrdma_workers_stop(void)
{
	pthread_mutex_lock(&jobs_lock);
	unsigned count = thread_count;
	stopping = true;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&jobs_lock);
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	pthread_mutex_lock(&jobs_lock);
	thread_count = 0;
	stopping = false;
	pthread_mutex_unlock(&jobs_lock);
}
