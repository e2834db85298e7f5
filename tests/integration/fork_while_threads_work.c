/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fork_while_threads_work.c -- a process forks a hundred times, while its threads post and poll
 *
 * A child that used the software device used that of its parent: they shared an epoll, the table of
 * connections and the sockets. And locks that a thread of the parent had held stayed locked in the child for
 * ever.
 */

#include <librpma.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deadline.h"
#include "pair.h"
#include "pattern.h"
#include "wait.h"

#define ADDR "127.0.0.1"
#define FORKS 100
#define CONNECT_EVERY 10 /* each tenth child makes connections of its own; the others end at once */
#define WORKERS 2
#define LEN 4096
#define TEST_S 100
#define CHILD_S 60

#define USAGE \
	(RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | \
		RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)

/* a connection of the process with itself, and a thread that uses it */
struct worker {
	struct pair pair;
	struct rpma_mr_local *local, *target;
	struct rpma_mr_remote *remote;
	uint8_t src[LEN], dst[LEN];
	pthread_t thread;
	bool waits; /* true: it waits for its completions; false: it polls */
	unsigned long written;
};

static atomic_bool stop;

static void
must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "process %d: failed: %s (%s)\n", (int)getpid(), what, rpma_errormsg());
	_exit(1);
}

static void
open_worker(struct worker *worker)
{
	uint8_t desc[UINT8_MAX];
	size_t size;
	must(pair_open(&worker->pair, ADDR, NULL, NULL) == 0, "the connection");
	must(rpma_mr_reg(worker->pair.client.peer, worker->src, LEN, USAGE, &worker->local) == 0,
		"the source");
	must(rpma_mr_reg(worker->pair.server.peer, worker->dst, LEN, USAGE, &worker->target) == 0,
		"the target");
	must(rpma_mr_get_descriptor_size(worker->target, &size) == 0 && size <= sizeof(desc), "the size");
	must(rpma_mr_get_descriptor(worker->target, desc) == 0, "the descriptor");
	must(rpma_mr_remote_from_descriptor(desc, size, &worker->remote) == 0, "the remote region");
}

/* the connection is unaffected: no event came, and it can be ended in an orderly way */
static void
close_worker(struct worker *worker)
{
	enum rpma_conn_event event;
	must(rpma_conn_next_event_timed(worker->pair.client.conn, 0, &event) == RPMA_E_NO_EVENT,
		"no event at the client");
	must(rpma_conn_next_event_timed(worker->pair.server.conn, 0, &event) == RPMA_E_NO_EVENT,
		"no event at the server");
	must(rpma_mr_remote_delete(&worker->remote) == 0, "rpma_mr_remote_delete");
	must(rpma_mr_dereg(&worker->local) == 0 && rpma_mr_dereg(&worker->target) == 0, "rpma_mr_dereg");
	pair_close(&worker->pair);
}

static void
write_once(struct worker *worker)
{
	struct ibv_wc wc = { 0 };
	struct rpma_conn *conn = worker->pair.client.conn;
	const uint64_t seed = ++worker->written;
	pattern_fill(worker->src, LEN, seed, 0);
	must(rpma_write(conn, worker->remote, 0, worker->local, 0, LEN, RPMA_F_COMPLETION_ON_ERROR, NULL) ==
			0,
		"rpma_write");
	must(rpma_flush(conn, worker->remote, 0, LEN, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS,
		     NULL) == 0,
		"rpma_flush");
	int ret = worker->waits ? wait_wc(worker->pair.client.cq, &wc, WAIT_MS)
				: poll_wc(worker->pair.client.cq, &wc, WAIT_MS);
	must(ret == 0 && wc.status == IBV_WC_SUCCESS, "the completion of the flush");
	must(pattern_check(worker->dst, LEN, seed, 0) < 0, "the bytes that were flushed");
}

static void *
work(void *arg)
{
	struct worker *worker = arg;
	while (!atomic_load(&stop))
		write_once(worker);
	return NULL;
}

/* the child has only this thread, and the workers are the parent's */
static _Noreturn void
be_a_child(bool connects)
{
	static struct worker own;
	deadline_start("a child", CHILD_S);
	if (connects) {
		open_worker(&own);
		write_once(&own);
		own.waits = true;
		write_once(&own);
		close_worker(&own);
	}
	_exit(0);
}

static void
fork_and_wait(bool connects)
{
	int status;
	pid_t pid = fork();
	must(pid >= 0, "fork");
	if (pid == 0)
		be_a_child(connects);
	must(waitpid(pid, &status, 0) == pid, "waitpid");
	must(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the end of a child");
}

int
main(void)
{
	static struct worker workers[WORKERS];
	deadline_start("forks while threads work", TEST_S);
	for (int i = 0; i < WORKERS; i++) {
		workers[i].waits = i % 2;
		open_worker(&workers[i]);
	}
	for (int i = 0; i < WORKERS; i++)
		must(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "a thread");
	for (int i = 0; i < FORKS; i++)
		fork_and_wait(i % CONNECT_EVERY == 0);
	atomic_store(&stop, true);
	for (int i = 0; i < WORKERS; i++) {
		must(pthread_join(workers[i].thread, NULL) == 0, "its end");
		must(workers[i].written > 0, "some work");
		printf("worker %d: %lu writes beside %d forks\n", i, workers[i].written, FORKS);
		close_worker(&workers[i]);
	}
	return 0;
}
