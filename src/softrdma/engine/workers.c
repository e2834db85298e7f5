/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* workers.c -- the flush workers: threads that wait for a medium on behalf of a FLUSH */

#include <assert.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "softrdma/base/fork.h"
#include "softrdma/base/thread.h"
#include "softrdma/engine/workers.h"

static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

struct jobs {
	struct softrdma_connection *first, *last; /* linked by job_next */
};

/* those that wait for a worker, and those of the one address that has all the workers that it may have */
static struct jobs queue, deferred;
static void (*job)(struct softrdma_connection *conn);
static pthread_t threads[SOFTRDMA_FLUSH_THREADS_MAX];
static struct softrdma_connection *at_work[SOFTRDMA_FLUSH_THREADS_MAX]; /* NULL: the thread has none */
static unsigned thread_count, idle_count, queued;
static bool stopping;

static_assert(2 * SOFTRDMA_FLUSH_THREADS_OF_ADDRESS > SOFTRDMA_FLUSH_THREADS_MAX,
	"deferred is one address's");

static void
after_fork(void)
{
	softrdma_fork_keep(queue.first);
	softrdma_fork_keep(deferred.first);
	queue = deferred = (struct jobs){ NULL, NULL };
	memset(at_work, 0, sizeof(at_work));
	thread_count = idle_count = queued = 0;
	stopping = false;
	jobs_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	cond = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

static void
append(struct jobs *jobs, struct softrdma_connection *conn)
{
	conn->job_next = NULL;
	if (jobs->first)
		jobs->last->job_next = conn;
	else
		jobs->first = conn;
	jobs->last = conn;
}

static struct softrdma_connection *
take_first(struct jobs *jobs)
{
	struct softrdma_connection *conn = jobs->first;
	jobs->first = conn->job_next;
	return conn;
}

/* true if another worker may be busy for the address: one is left for others, whatever this one asks for */
static bool
may_have_worker(const struct softrdma_connection *conn)
{
	unsigned count = 0;
	for (unsigned i = 0; i < SOFTRDMA_FLUSH_THREADS_MAX; i++)
		count += at_work[i] && softrdma_source_equal(&at_work[i]->job_source, &conn->job_source);
	return count < SOFTRDMA_FLUSH_THREADS_OF_ADDRESS;
}

/* NULL: no job may be done now. Deferred ones came first; the worker that makes room for one takes it. */
static struct softrdma_connection *
take_job(void)
{
	if (deferred.first && may_have_worker(deferred.first))
		return take_first(&deferred);
	while (queue.first) {
		struct softrdma_connection *conn = take_first(&queue);
		queued--;
		if (may_have_worker(conn))
			return conn;
		append(&deferred, conn);
	}
	return NULL;
}

static void *
run_worker(void *arg)
{
	struct softrdma_connection **mine = arg;
	pthread_mutex_lock(&jobs_lock);
	for (;;) {
		struct softrdma_connection *conn;
		while ((conn = take_job()) == NULL && !stopping) {
			idle_count++;
			pthread_cond_wait(&cond, &jobs_lock);
			idle_count--;
		}
		if (conn == NULL)
			break;
		*mine = conn;
		void (*work)(struct softrdma_connection * link) = job;
		pthread_mutex_unlock(&jobs_lock);
		work(conn);
		pthread_mutex_lock(&jobs_lock);
		*mine = NULL;
		pthread_mutex_unlock(&jobs_lock);
		softrdma_link_put(&conn->link);
		pthread_mutex_lock(&jobs_lock);
	}
	pthread_mutex_unlock(&jobs_lock);
	return NULL;
}

static int
start_worker(void)
{
	int ret = softrdma_thread_create(&threads[thread_count], "softrdma-flush", run_worker,
		&at_work[thread_count]);
	if (ret == 0)
		thread_count++;
	return thread_count > 0 ? 0 : ret; /* one of the existing threads will do it */
}

int
softrdma_workers_submit(struct softrdma_connection *conn, void (*work)(struct softrdma_connection *conn))
{
	int ret = 0;
	pthread_mutex_lock(&jobs_lock);
	conn->job_source = softrdma_source_of(&conn->peer.any);
	const bool may = may_have_worker(conn);
	if (may && queued >= idle_count && thread_count < SOFTRDMA_FLUSH_THREADS_MAX)
		ret = start_worker();
	if (ret == 0) {
		softrdma_link_get(&conn->link);
		job = work;
		append(may ? &queue : &deferred, conn);
		queued += may;
		pthread_cond_signal(&cond);
	}
	pthread_mutex_unlock(&jobs_lock);
	return ret;
}

bool
softrdma_workers_are_short(void)
{
	pthread_mutex_lock(&jobs_lock);
	bool are_short = queued > idle_count || deferred.first;
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
