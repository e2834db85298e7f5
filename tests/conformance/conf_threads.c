/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conf_threads.c -- several threads: on one connection, and on connections of one peer */

#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "groups.h"
#include "role.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define POSTERS 2
#define PER_POSTER 2000
#define CONNS 8
#define PIECE ((size_t)64)
#define SLOTS (DEPTH / POSTERS)
#define STRIPE (SLOTS * PIECE)
#define CTX_OF(thread, number) ((uint64_t)(thread) << 32 | (number))

static void
start(pthread_t *thread, void *(*function)(void *), void *arg)
{
	CHECK_EQ(pthread_create(thread, NULL, function, arg), 0);
}

static void
join(pthread_t thread)
{
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* ---- two threads post on one connection, a third one collects the completions ---- */

struct poster {
	struct role *r;
	struct mem *m;
	struct rpma_mr_remote *dst;
	unsigned index;
	sem_t slots;        /* this thread's places in the send queue */
	uint32_t completed; /* completions collected by the third thread */
};

static void *
post_stripe(void *arg)
{
	struct poster *p = arg;

	for (uint32_t i = 0; i < PER_POSTER; i++) {
		size_t at = GUARD + p->index * STRIPE + i % SLOTS * PIECE;

		CHECK_EQ(sem_wait(&p->slots), 0);
		CHECK_OK(rpma_write(p->r->conn, p->dst, at, p->m->mr, at, PIECE, ALWAYS,
			CTX(CTX_OF(p->index, i))));
	}
	return NULL;
}

/* completions of one thread's operations come in the order of its posts */
static void
take_completions(struct role *r, struct poster posters[POSTERS])
{
	for (uint32_t i = 0; i < POSTERS * PER_POSTER; i++) {
		struct ibv_wc wc = next_wc(r->cq);
		uint64_t index = wc.wr_id >> 32;

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK(index < POSTERS);
		CHECK_EQ((uint32_t)wc.wr_id, posters[index].completed);
		posters[index].completed++;
		CHECK_EQ(sem_post(&posters[index].slots), 0);
	}
	expect_none(r->cq);
}

static void
one_conn_initiator(struct role *r)
{
	struct poster posters[POSTERS];
	pthread_t threads[POSTERS];
	struct rpma_mr_remote *dst;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, POSTERS * STRIPE, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(&m, 5);
	dst = remote_take(r);
	for (unsigned i = 0; i < POSTERS; i++) {
		posters[i] = (struct poster){ .r = r, .m = &m, .dst = dst, .index = i };
		CHECK_EQ(sem_init(&posters[i].slots, 0, SLOTS), 0);
	}
	for (unsigned i = 0; i < POSTERS; i++)
		start(&threads[i], post_stripe, &posters[i]);
	take_completions(r, posters);
	for (unsigned i = 0; i < POSTERS; i++)
		join(threads[i]);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

static void
one_conn_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, POSTERS * STRIPE, RPMA_MR_USAGE_WRITE_DST);
	desc_put(r, &m);
	ctl_expect(r, "done");
	mem_check(&m, 5);
	mem_delete(&m);
	role_close(r);
}

/* ---- eight connections of one peer, each in a thread, on both sides ---- */

struct worker {
	struct role *r;
	struct rpma_conn *conn;
	struct rpma_cq *cq;
	struct mem m;
	struct rpma_mr_remote *remote;
	uint64_t seed;
};

#define WORKER_LEN ((size_t)64 << 10)
#define WORKER_ROUNDS 100

/* writes, reads back, and signals the thread of the other side */
static void *
work_initiator(void *arg)
{
	struct worker *w = arg;
	struct mem back;

	mem_new(w->r, &back, WORKER_LEN, RPMA_MR_USAGE_READ_DST);
	for (uint64_t i = 0; i < WORKER_ROUNDS; i++) {
		mem_fill(&w->m, w->seed + i);
		CHECK_OK(rpma_write(w->conn, w->remote, GUARD, w->m.mr, GUARD, WORKER_LEN, ALWAYS, CTX(1)));
		CHECK_OK(rpma_read(w->conn, back.mr, GUARD, w->remote, GUARD, WORKER_LEN, ALWAYS, CTX(2)));
		CHECK_OK(rpma_send(w->conn, NULL, 0, 0, ALWAYS, CTX(3)));
		for (uint64_t ctx = 1; ctx <= 3; ctx++)
			expect_ok(w->cq, ctx);
		mem_check(&back, w->seed + i);
	}
	mem_delete(&back);
	CHECK_OK(rpma_conn_disconnect(w->conn));
	expect_end(w->conn);
	return NULL;
}

static void *
work_target(void *arg)
{
	struct worker *w = arg;

	for (uint64_t i = 0; i < WORKER_ROUNDS; i++) {
		struct ibv_wc wc = next_wc(w->cq);

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, i);
		if (i + DEPTH < WORKER_ROUNDS)
			CHECK_OK(rpma_recv(w->conn, NULL, 0, 0, CTX(i + DEPTH)));
	}
	expect_end(w->conn);
	mem_check(&w->m, w->seed + WORKER_ROUNDS - 1);
	return NULL;
}

static void
worker_open(struct role *r, struct worker *w, uint64_t seed)
{
	w->r = r;
	w->seed = seed;
	w->conn = r->is_target ? conn_accept(r, NULL) : conn_connect(r, NULL);
	w->cq = conn_cq(w->conn);
	mem_new(r, &w->m, WORKER_LEN,
		RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_SRC);
	w->remote = NULL;
	if (!r->is_target) {
		w->remote = remote_take(r);
		return;
	}
	for (uint64_t i = 0; i < DEPTH; i++)
		CHECK_OK(rpma_recv(w->conn, NULL, 0, 0, CTX(i)));
	desc_put(r, &w->m);
}

static void
worker_close(struct worker *w)
{
	if (w->remote)
		CHECK_OK(rpma_mr_remote_delete(&w->remote));
	mem_delete(&w->m);
	conn_delete(&w->conn);
}

static void
many_conns(struct role *r)
{
	struct worker workers[CONNS];
	pthread_t threads[CONNS];

	role_open(r);
	role_listen(r);
	for (unsigned i = 0; i < CONNS; i++)
		worker_open(r, &workers[i], 10000 * (i + 1));
	for (unsigned i = 0; i < CONNS; i++)
		start(&threads[i], r->is_target ? work_target : work_initiator, &workers[i]);
	for (unsigned i = 0; i < CONNS; i++)
		join(threads[i]);
	ctl_sync(r);
	for (unsigned i = 0; i < CONNS; i++)
		worker_close(&workers[i]);
	role_delete(r);
}

/* ---- a thread disconnects while another one posts ---- */

struct racer {
	struct role *r;
	struct rpma_mr_remote *dst;
	struct mem *m;
	sem_t running;
};

static void *
race_disconnect(void *arg)
{
	struct racer *racer = arg;

	CHECK_EQ(sem_wait(&racer->running), 0);
	CHECK_OK(rpma_conn_disconnect(racer->r->conn));
	return NULL;
}

static void
race_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, WORKER_LEN, RPMA_MR_USAGE_WRITE_DST);
	desc_put(r, &m);
	expect_end(r->conn);
	conn_delete(&r->conn);
	mem_delete(&m);
	role_delete(r);
}

/* every accepted operation completes, in order, at whatever moment the disconnect comes */
static void
race_initiator(struct role *r)
{
	struct racer racer = { .r = r };
	uint64_t posted = 0;
	uint64_t completed = 0;
	bool failed = false;
	pthread_t thread;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, WORKER_LEN, RPMA_MR_USAGE_WRITE_SRC);
	racer.dst = remote_take(r);
	CHECK_EQ(sem_init(&racer.running, 0, 0), 0);
	start(&thread, race_disconnect, &racer);
	while (!failed) {
		struct ibv_wc wc;

		while (posted - completed < DEPTH &&
			!rpma_write(r->conn, racer.dst, GUARD, m.mr, GUARD, WORKER_LEN, ALWAYS, CTX(posted)))
			posted++;
		if (posted == completed)
			break; /* posts are refused from now on */
		wc = next_wc(r->cq);
		CHECK_EQ(wc.wr_id, completed);
		failed = wc.status != IBV_WC_SUCCESS;
		if (++completed == 100)
			CHECK_EQ(sem_post(&racer.running), 0);
	}
	while (completed < posted)
		expect_wc(r->cq, completed++, IBV_WC_WR_FLUSH_ERR);
	join(thread);
	expect_none(r->cq);
	expect_end(r->conn);
	CHECK_OK(rpma_mr_remote_delete(&racer.dst));
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

static const struct scenario list[] = {
	{ "smoke-threads-two-on-one-connection", one_conn_target, one_conn_initiator, POSTERS *STRIPE, 0,
		NULL },
	{ "threads-eight-connections-of-one-peer", many_conns, many_conns, WORKER_LEN, 0, NULL },
	{ "threads-disconnect-against-posts", race_target, race_initiator, WORKER_LEN, 0, NULL },
};

const struct scenario_group group_threads = { list, sizeof(list) / sizeof(list[0]) };
