/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * signal_ends_a_wait.c -- each signal handler ends a wait, also with SA_RESTART
 *
 * librpma(7) wrongly said that only handlers without SA_RESTART end a wait. Waiting is poll(2), which is
 * never restarted: with the software device, and in the forms with a timeout, every handler ends it.
 */

#include <pthread.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <librpma.h>

#include "deadline.h"
#include "pair.h"
#include "wait.h"

#define DEADLINE_S 60
#define ADDR "127.0.0.1"
#define SIGNAL SIGUSR1

#define CHECK(true_expr) \
	do { \
		if (!(true_expr)) { \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #true_expr, rpma_errormsg()); \
			exit(1); \
		} \
	} while (0)

static struct pair pair; /* the client's queues share a channel, the server's have their own */

static int
wait_for_request(int timeout_ms)
{
	struct rpma_conn_req *req;
	return timeout_ms < 0 ? rpma_ep_next_conn_req(pair.ep, NULL, &req)
			      : rpma_ep_next_conn_req_timed(pair.ep, NULL, timeout_ms, &req);
}

static int
wait_for_event(int timeout_ms)
{
	enum rpma_conn_event event;
	return timeout_ms < 0 ? rpma_conn_next_event(pair.client.conn, &event)
			      : rpma_conn_next_event_timed(pair.client.conn, timeout_ms, &event);
}

static int
wait_for_completion(int timeout_ms)
{
	return timeout_ms < 0 ? rpma_cq_wait(pair.server.cq) : rpma_cq_wait_timed(pair.server.cq, timeout_ms);
}

static int
wait_for_either(int timeout_ms)
{
	struct rpma_cq *cq;
	return timeout_ms < 0 ? rpma_conn_wait(pair.client.conn, 0, &cq, NULL)
			      : rpma_conn_wait_timed(pair.client.conn, 0, timeout_ms, &cq, NULL);
}

static const struct {
	const char *name;
	int (*wait)(int timeout_ms); /* negative: the form without a timeout */
	int ret;                     /* the result after a signal */
} waits[] = {
	{ "rpma_ep_next_conn_req", wait_for_request, RPMA_E_NO_EVENT },
	{ "rpma_conn_next_event", wait_for_event, RPMA_E_NO_EVENT },
	{ "rpma_cq_wait", wait_for_completion, RPMA_E_NO_COMPLETION },
	{ "rpma_conn_wait", wait_for_either, RPMA_E_NO_COMPLETION },
};
#define WAITS (sizeof(waits) / sizeof(waits[0]))

static atomic_uint handled;

static void
handler(int signal)
{
	(void)signal;
	atomic_fetch_add(&handled, 1);
}

struct waiter {
	size_t which;
	int timeout_ms;
	int ret;
	atomic_bool is_over;
};

static void *
run_waiter(void *arg)
{
	struct waiter *waiter = arg;
	waiter->ret = waits[waiter->which].wait(waiter->timeout_ms);
	atomic_store(&waiter->is_over, true);
	return NULL;
}

/* sends signals until the wait is over, because one that comes before the wait begins does not end it */
static void
try_one(size_t which, int timeout_ms)
{
	struct waiter waiter = { .which = which, .timeout_ms = timeout_ms };
	const int64_t start = now_ms();
	pthread_t thread;
	atomic_init(&waiter.is_over, false);
	atomic_store(&handled, 0);
	CHECK(pthread_create(&thread, NULL, run_waiter, &waiter) == 0);
	while (!atomic_load(&waiter.is_over)) {
		CHECK(pthread_kill(thread, SIGNAL) == 0);
		poll(NULL, 0, 1);
	}
	CHECK(pthread_join(thread, NULL) == 0);
	if (waiter.ret != waits[which].ret || atomic_load(&handled) == 0 || now_ms() - start >= WAIT_MS) {
		fprintf(stderr, "%s, timeout %d ms: %d after %u signals\n", waits[which].name, timeout_ms,
			waiter.ret, atomic_load(&handled));
		exit(1);
	}
}

int
main(void)
{
	static const int flags[] = { 0, SA_RESTART };
	struct rpma_conn_cfg *cfg;
	deadline_start("signal_ends_a_wait", DEADLINE_S);
	CHECK(rpma_conn_cfg_new(&cfg) == 0);
	CHECK(rpma_conn_cfg_set_compl_channel(cfg, true) == 0);
	CHECK(pair_open(&pair, ADDR, cfg, NULL) == 0);
	CHECK(rpma_conn_cfg_delete(&cfg) == 0);

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		const struct sigaction action = { .sa_handler = handler, .sa_flags = flags[i] };
		CHECK(sigaction(SIGNAL, &action, NULL) == 0);
		for (size_t which = 0; which < WAITS; which++) {
			try_one(which, -1);
			try_one(which, WAIT_MS);
		}
	}
	pair_close(&pair);
	return 0;
}
