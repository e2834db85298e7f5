/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * peer_deleted_first.c -- the objects of a peer may be used and deleted after rpma_peer_delete()
 *
 * Each call for such an object was a use after free. Here a server's six objects are deleted in every
 * order, and by several threads at once. No call may crash, each must have the result that the order
 * requires, and nothing may leak (the leak sanitizer checks that).
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librpma.h>

#include "deadline.h"
#include "pair.h"
#include "wait.h"

#define DEADLINE_S 100
#define ADDR "127.0.0.1"
#define ROUNDS_OF_THREADS 60

#define CHECK(true_expr) \
	do { \
		if (!(true_expr)) { \
			fprintf(stderr, "%s:%d: order %s: %s: %s\n", __FILE__, __LINE__, order, #true_expr, \
				rpma_errormsg()); \
			exit(1); \
		} \
	} while (0)
#define CHECK_IS(expected, expr) \
	do { \
		const int want_ = (expected), got_ = (expr); \
		if (want_ != got_) { \
			fprintf(stderr, "%s:%d: order %s: %s: %d, not %d: %s\n", __FILE__, __LINE__, order, \
				#expr, got_, want_, rpma_errormsg()); \
			exit(1); \
		} \
	} while (0)

/* the server's objects; an order is printed as their letters */
enum object { PEER, REGION, SHARED_QUEUE, ENDPOINT, REQUEST, CONNECTION, OBJECTS };
static const char letters[] = "pmserc";
static char order[OBJECTS + 2]; /* the order being tried, for messages */

/*
 * The request and the connection take receives from the shared queue. The client has a peer of its own, two
 * connections, and a request that is not sent.
 */
struct world {
	struct rpma_peer *peer;
	struct rpma_mr_local *mr;
	struct rpma_srq *srq;
	struct rpma_ep *ep;
	struct rpma_conn_req *req;
	struct rpma_conn *conn;
	char memory[64];

	struct rpma_peer *client;
	struct rpma_conn *established, *asking;
	struct rpma_conn_req *unsent;
};

static struct ibv_context *dev;

static void
expect_established(struct rpma_conn *conn)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	CHECK_IS(0, wait_event(conn, &event, WAIT_MS));
	CHECK_IS(RPMA_CONN_ESTABLISHED, event);
}

static void
make(struct world *w)
{
	char port[NET_PORT_LEN];
	struct rpma_conn_cfg *cfg;
	struct rpma_conn_req *req;
	memset(w, 0, sizeof(*w));
	CHECK_IS(0, rpma_peer_new(dev, &w->peer));
	CHECK_IS(0, rpma_peer_new(dev, &w->client));
	CHECK_IS(0, rpma_mr_reg(w->peer, w->memory, sizeof(w->memory), RPMA_MR_USAGE_RECV, &w->mr));
	CHECK_IS(0, rpma_srq_new(w->peer, NULL, &w->srq));
	CHECK_IS(0, rpma_srq_recv(w->srq, w->mr, 0, sizeof(w->memory), w));
	CHECK_IS(0, rpma_conn_cfg_new(&cfg));
	CHECK_IS(0, rpma_conn_cfg_set_srq(cfg, w->srq));
	CHECK_IS(0, pair_listen(w->peer, ADDR, port, &w->ep));

	CHECK_IS(0, rpma_conn_req_new(w->client, ADDR, port, NULL, &req));
	CHECK_IS(0, rpma_conn_req_connect(&req, NULL, &w->established));
	CHECK_IS(0, wait_conn_req(w->ep, cfg, &req, WAIT_MS));
	CHECK_IS(0, rpma_conn_req_connect(&req, NULL, &w->conn));
	expect_established(w->conn);
	expect_established(w->established);

	CHECK_IS(0, rpma_conn_req_new(w->client, ADDR, port, NULL, &req));
	CHECK_IS(0, rpma_conn_req_connect(&req, NULL, &w->asking));
	CHECK_IS(0, wait_conn_req(w->ep, cfg, &w->req, WAIT_MS));
	CHECK_IS(0, rpma_conn_req_new(w->client, ADDR, port, NULL, &w->unsent));
	CHECK_IS(0, rpma_conn_cfg_delete(&cfg));
}

/* deletes the client's objects after its peer, or before it */
static void
delete_client(struct world *w, bool peer_first)
{
	if (peer_first) {
		CHECK_IS(RPMA_E_PROVIDER, rpma_peer_delete(&w->client));
		CHECK(w->client == NULL);
	}
	CHECK_IS(0, rpma_conn_req_delete(&w->unsent));
	CHECK_IS(0, rpma_conn_disconnect(w->established));
	CHECK_IS(0, rpma_conn_delete(&w->established));
	CHECK_IS(0, rpma_conn_delete(&w->asking));
	CHECK_IS(0, rpma_peer_delete(&w->client));
}

static void
delete_peer(struct world *w)
{
	const bool is_busy = w->mr || w->srq || w->req || w->conn;
	CHECK_IS(is_busy ? RPMA_E_PROVIDER : 0, rpma_peer_delete(&w->peer));
	CHECK(w->peer == NULL);
}

/* the objects that still exist may be used */
static void
delete_region(struct world *w)
{
	void *ptr = NULL;
	char desc[64];
	size_t size = 0;
	CHECK_IS(0, rpma_mr_get_ptr(w->mr, &ptr));
	CHECK(ptr == w->memory);
	CHECK_IS(0, rpma_mr_get_descriptor_size(w->mr, &size));
	CHECK(size <= sizeof(desc));
	CHECK_IS(0, rpma_mr_get_descriptor(w->mr, desc));
	CHECK_IS(0, rpma_mr_advise(w->mr, 0, sizeof(w->memory), IBV_ADVISE_MR_ADVICE_PREFETCH, 0));
	if (w->srq)
		CHECK_IS(0, rpma_srq_recv(w->srq, w->mr, 0, sizeof(w->memory), w));
	CHECK_IS(0, rpma_mr_dereg(&w->mr));
}

static void
delete_shared_queue(struct world *w)
{
	CHECK_IS(w->req || w->conn ? RPMA_E_PROVIDER : 0, rpma_srq_delete(&w->srq));
	CHECK(w->srq == NULL);
}

static void
delete_endpoint(struct world *w)
{
	struct rpma_conn_req *none = NULL;
	CHECK_IS(w->peer ? RPMA_E_NO_EVENT : RPMA_E_PROVIDER,
		rpma_ep_next_conn_req_timed(w->ep, NULL, 0, &none));
	CHECK(none == NULL);
	CHECK_IS(0, rpma_ep_shutdown(&w->ep));
}

/* the request is deleted, or accepted and its connection is deleted */
static void
delete_request(struct world *w, bool accept)
{
	struct rpma_conn_private_data pdata;
	struct rpma_conn *conn = NULL;
	CHECK_IS(0, rpma_conn_req_get_private_data(w->req, &pdata));
	if (!accept) {
		CHECK_IS(0, rpma_conn_req_delete(&w->req));
		return;
	}
	struct rpma_cq *rcq = NULL;
	CHECK_IS(0, rpma_conn_req_connect(&w->req, NULL, &conn));
	CHECK_IS(0, rpma_conn_get_rcq(conn, &rcq));
	struct ibv_wc wc;
	CHECK_IS(RPMA_E_NO_COMPLETION, rpma_cq_get_wc(rcq, 1, &wc, NULL));
	CHECK_IS(0, rpma_conn_delete(&conn));
}

static void
delete_connection(struct world *w)
{
	uint32_t qp_num;
	CHECK_IS(0, rpma_conn_get_qp_num(w->conn, &qp_num));
	CHECK_IS(0, rpma_conn_disconnect(w->conn));
	CHECK_IS(0, rpma_conn_delete(&w->conn));
}

static void
delete_one(struct world *w, enum object object, bool accept)
{
	switch (object) {
	case PEER:
		delete_peer(w);
		break;
	case REGION:
		delete_region(w);
		break;
	case SHARED_QUEUE:
		delete_shared_queue(w);
		break;
	case ENDPOINT:
		delete_endpoint(w);
		break;
	case REQUEST:
		delete_request(w, accept);
		break;
	case CONNECTION:
		delete_connection(w);
		break;
	case OBJECTS:
		break;
	}
}

static void
try_order(const enum object *objects, unsigned number)
{
	struct world w;
	for (int i = 0; i < OBJECTS; i++)
		order[i] = letters[objects[i]];
	make(&w);
	for (int i = 0; i < OBJECTS; i++)
		delete_one(&w, objects[i], number % 2);
	delete_client(&w, number % 3 != 0);
}

static void
swap(enum object *a, enum object *b)
{
	const enum object kept = *a;
	*a = *b;
	*b = kept;
}

/* makes the next order by numerical size; false if this was the last one */
static bool
next_order(enum object *objects)
{
	int at = OBJECTS - 2, larger = OBJECTS - 1;
	while (at >= 0 && objects[at] > objects[at + 1])
		at--;
	if (at < 0)
		return false;
	while (objects[larger] < objects[at])
		larger--;
	swap(&objects[at], &objects[larger]);
	for (int left = at + 1, right = OBJECTS - 1; left < right; left++, right--)
		swap(&objects[left], &objects[right]);
	return true;
}

/* ---- concurrent deletion ---- */

struct deleter {
	struct world *w;
	enum object object;
	pthread_barrier_t *start;
};

static void *
delete_at_once(void *arg)
{
	const struct deleter *d = arg;
	struct world *w = d->w;
	int ret = 0;
	pthread_barrier_wait(d->start);
	switch (d->object) {
	case PEER: /* depends on whether the other threads are faster */
		ret = rpma_peer_delete(&w->peer);
		CHECK(ret == 0 || ret == RPMA_E_PROVIDER);
		break;
	case SHARED_QUEUE:
		ret = rpma_srq_delete(&w->srq);
		CHECK(ret == 0 || ret == RPMA_E_PROVIDER);
		break;
	case REGION:
		CHECK_IS(0, rpma_mr_dereg(&w->mr));
		break;
	case ENDPOINT:
		CHECK_IS(0, rpma_ep_shutdown(&w->ep));
		break;
	case REQUEST:
		CHECK_IS(0, rpma_conn_req_delete(&w->req));
		break;
	case CONNECTION:
		CHECK_IS(0, rpma_conn_delete(&w->conn));
		break;
	case OBJECTS:
		break;
	}
	return NULL;
}

static void
try_at_once(void)
{
	struct world w;
	pthread_t threads[OBJECTS];
	struct deleter deleters[OBJECTS];
	pthread_barrier_t start;
	make(&w);
	CHECK(pthread_barrier_init(&start, NULL, OBJECTS) == 0);
	for (int i = 0; i < OBJECTS; i++) {
		deleters[i] = (struct deleter){ .w = &w, .object = (enum object)i, .start = &start };
		CHECK(pthread_create(&threads[i], NULL, delete_at_once, &deleters[i]) == 0);
	}
	for (int i = 0; i < OBJECTS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	pthread_barrier_destroy(&start);
	delete_client(&w, true);
}

int
main(void)
{
	enum object objects[OBJECTS] = { PEER, REGION, SHARED_QUEUE, ENDPOINT, REQUEST, CONNECTION };
	deadline_start("peer_deleted_first", DEADLINE_S);
	CHECK_IS(0, rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED));
	CHECK_IS(0, rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED));
	CHECK_IS(0, rpma_utils_get_ibv_context(ADDR, RPMA_UTIL_IBV_CONTEXT_LOCAL, &dev));

	unsigned tried = 0;
	do
		try_order(objects, tried++);
	while (next_order(objects));
	CHECK(tried == 720); /* 6! */
	strcpy(order, "at once");
	for (int i = 0; i < ROUNDS_OF_THREADS; i++)
		try_at_once();
	printf("%u orders, %d times at once\n", tried, ROUNDS_OF_THREADS);
	return 0;
}
