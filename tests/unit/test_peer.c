/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_peer.c -- a device in use: capabilities and protection domain */

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "mock.h"

static void
arguments(void **state)
{
	(void)state;
	struct rpma_peer *peer = NULL;
	assert_fails(RPMA_E_INVAL, rpma_peer_new(NULL, &peer));
	assert_fails(RPMA_E_INVAL, rpma_peer_new(&mock.ctx, NULL));
	assert_fails(RPMA_E_INVAL, rpma_peer_delete(NULL));
	assert_ok(rpma_peer_delete(&peer));
	assert_null(peer);
}

static void
capabilities(void **state)
{
	(void)state;
	static const struct {
		uint64_t general_odp, rc_odp, flags;
		enum ibv_atomic_cap atomic_cap;
		uint32_t caps;
	} table[] = {
		{ 0, 0, 0, IBV_ATOMIC_NONE, 0 },
		{ IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_READ, 0, IBV_ATOMIC_NONE, 0 },
		{ IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_WRITE, 0, IBV_ATOMIC_NONE, 0 },
		{ 0, IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ, 0, IBV_ATOMIC_NONE, 0 },
		{ IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ, 0, IBV_ATOMIC_NONE,
			RPMA_CAP_ODP },
		{ 0, 0, RPMAI_CAP_FLUSH_GLOBAL, IBV_ATOMIC_NONE, 0 },
		{ 0, 0, RPMAI_CAP_FLUSH_PERSISTENT, IBV_ATOMIC_NONE, 0 },
		{ 0, 0, RPMAI_CAP_FLUSH_GLOBAL | RPMAI_CAP_FLUSH_PERSISTENT, IBV_ATOMIC_NONE,
			RPMA_CAP_NATIVE_FLUSH },
		{ 0, 0, RPMAI_CAP_ATOMIC_WRITE, IBV_ATOMIC_NONE, RPMA_CAP_NATIVE_ATOMIC_WRITE },
		{ 0, 0, 0, IBV_ATOMIC_HCA, RPMA_CAP_ATOMICS },
		{ 0, 0, 0, IBV_ATOMIC_GLOB, RPMA_CAP_ATOMICS },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		mock.attr.odp_caps.general_caps = table[i].general_odp;
		mock.attr.odp_caps.per_transport_caps.rc_odp_caps = (uint32_t)table[i].rc_odp;
		mock.attr.device_cap_flags_ex = table[i].flags;
		mock.attr.orig_attr.atomic_cap = table[i].atomic_cap;
		struct rpma_peer *peer = mock_peer();
		uint32_t caps = 0xFFFF;
		assert_ok(rpma_peer_get_caps(peer, &caps));
		assert_int_equal(caps, table[i].caps);
		assert_int_equal(peer->caps, table[i].caps);
		assert_ok(rpma_peer_delete(&peer));
		assert_null(peer);
	}

	mock_rdma.is_soft = true;
	mock.device.transport_type = IBV_TRANSPORT_IWARP;
	struct rpma_peer *peer = mock_peer();
	assert_true(peer->caps & RPMA_CAP_SOFT);
	assert_true(peer->is_iwarp);
	assert_ok(rpma_peer_delete(&peer));
}

static void
credentials(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	assert_fails(RPMA_E_INVAL, rpma_peer_set_tls(NULL, "cert", "key", "ca"));
	assert_fails(RPMA_E_INVAL, rpma_peer_set_tls(peer, NULL, "key", "ca"));
	assert_fails(RPMA_E_INVAL, rpma_peer_set_tls(peer, "cert", NULL, "ca"));
	assert_fails(RPMA_E_INVAL, rpma_peer_set_tls(peer, "cert", "key", NULL));

	static const struct {
		int errnum, ret;
	} table[] = { { EACCES, RPMA_E_PROVIDER }, { ENOMEM, RPMA_E_NOMEM }, { EOPNOTSUPP, RPMA_E_NOSUPP } };
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		mock.fail_call = "credentials_load";
		mock.fail_skip = 0;
		mock.fail_errno = table[i].errnum;
		assert_fails(table[i].ret, rpma_peer_set_tls(peer, "cert", "key", "ca"));
		assert_null(peer->credentials);
	}
	mock.fail_call = NULL;

	/* credentials for objects made from the peer; a second call replaces what they are */
	struct rpma_ep *ep = NULL;
	struct rpma_conn_req *req = NULL;
	assert_ok(rpma_peer_set_tls(peer, "cert", "key", "ca"));
	assert_ok(rpma_peer_set_tls(peer, "cert", "key", "ca"));
	assert_ok(rpma_ep_listen(peer, "0.0.0.0", "7204", &ep));
	assert_ok(rpma_conn_req_new(peer, "127.0.0.1", "7204", NULL, &req));
	assert_int_equal(mock_count("set_credentials"), 2);
	assert_ok(rpma_conn_req_delete(&req));
	assert_ok(rpma_ep_shutdown(&ep));
	assert_ok(rpma_peer_delete(&peer));
	assert_int_equal(mock_count("credentials_load"), 5);
	assert_int_equal(mock_count("credentials_put"), 1);

	/* a device without TLS */
	mock_rdma.credentials_load = NULL;
	peer = mock_peer();
	assert_fails(RPMA_E_NOSUPP, rpma_peer_set_tls(peer, "cert", "key", "ca"));
	assert_ok(rpma_peer_delete(&peer));
}

static void
arguments_of_questions(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = NULL;
	uint32_t caps = 7;
	assert_fails(RPMA_E_INVAL, rpma_peer_get_caps(NULL, &caps));
	assert_fails(RPMA_E_INVAL, rpma_peer_get_caps(peer, NULL));
	assert_fails(RPMA_E_INVAL, rpma_peer_find_conn(NULL, MOCK_QP_NUM, &conn));
	assert_fails(RPMA_E_INVAL, rpma_peer_find_conn(peer, MOCK_QP_NUM, NULL));
	assert_int_equal(caps, 7);
	rpma_peer_delete(&peer);
}

/* a connection can be found from the time when its request is sent or accepted until it is deleted */
static void
finding_a_connection(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer(), *other = mock_peer();
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL, *found = NULL;
	const int errors = mock.logged[RPMA_LOG_LEVEL_ERROR];
	assert_int_equal(rpma_peer_find_conn(peer, MOCK_QP_NUM, &found), RPMA_E_INVAL);
	assert_ok(rpma_conn_req_new(peer, "192.0.2.1", "7204", NULL, &req));
	assert_int_equal(rpma_peer_find_conn(peer, MOCK_QP_NUM, &found), RPMA_E_INVAL);
	assert_null(found);
	assert_ok(rpma_conn_req_connect(&req, NULL, &conn));
	assert_ok(rpma_peer_find_conn(peer, MOCK_QP_NUM, &found));
	assert_ptr_equal(found, conn);
	found = NULL;
	assert_int_equal(rpma_peer_find_conn(peer, MOCK_QP_NUM + 1, &found), RPMA_E_INVAL);
	assert_int_equal(rpma_peer_find_conn(other, MOCK_QP_NUM, &found), RPMA_E_INVAL);
	assert_ok(rpma_conn_delete(&conn));
	assert_int_equal(rpma_peer_find_conn(peer, MOCK_QP_NUM, &found), RPMA_E_INVAL);
	assert_null(found);
	/* this is a query, not an error: nothing is logged, but there is a sentence */
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], errors);
	assert_non_null(strstr(rpma_errormsg(), "no connection"));

	/* a connection whose request failed cannot be found either */
	assert_ok(rpma_conn_req_new(peer, "192.0.2.1", "7204", NULL, &req));
	mock.fail_call = "connect";
	assert_fails(RPMA_E_PROVIDER, rpma_conn_req_connect(&req, NULL, &conn));
	assert_int_equal(rpma_peer_find_conn(peer, MOCK_QP_NUM, &found), RPMA_E_INVAL);
	rpma_peer_delete(&other);
	rpma_peer_delete(&peer);
}

static void
failures(void **state)
{
	(void)state;
	static const struct {
		const char *call;
		int errnum;
		int ret;
	} table[] = {
		{ "query_device_ex", EIO, RPMA_E_PROVIDER },
		{ "alloc_pd", ENOMEM, RPMA_E_NOMEM },
		{ "alloc_pd", EPERM, RPMA_E_PROVIDER },
		{ "alloc_pd", -1, RPMA_E_UNKNOWN },
	};
	struct rpma_peer *peer = NULL;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		mock.fail_call = table[i].call;
		mock.fail_skip = 0;
		mock.fail_errno = table[i].errnum;
		assert_fails(table[i].ret, rpmai_peer_new(&mock_rdma, &mock.ctx, &peer));
	}
	for (int skip = 0; skip < 2; skip++) {
		mock.malloc_skip = skip;
		assert_fails(RPMA_E_NOMEM, rpmai_peer_new(&mock_rdma, &mock.ctx, &peer));
	}
	assert_null(peer);

	peer = mock_peer();
	mock.fail_call = "dealloc_pd";
	mock.fail_skip = 0;
	mock.fail_errno = EBUSY;
	assert_fails(RPMA_E_PROVIDER, rpma_peer_delete(&peer));
	assert_null(peer);
}

/*
 * Deletes one object after its peer. Only the deletion of the last object releases the protection domain, and
 * it is the last call of the device.
 */
#define assert_domain_ends_with(expr) \
	do { \
		assert_int_equal(mock_count("dealloc_pd"), domains); \
		assert_ok(expr); \
		assert_int_equal(mock_count("dealloc_pd"), ++domains); \
		assert_int_equal(mock_last("dealloc_pd"), mock.traced - 1); \
	} while (0)

/* registers one byte of memory */
static struct rpma_mr_local *
some_region(struct rpma_peer *peer)
{
	static char byte;
	struct rpma_mr_local *mr = NULL;
	assert_ok(rpma_mr_reg(peer, &byte, 1, RPMA_MR_USAGE_READ_SRC, &mr));
	return mr;
}

static void
deleted_before_an_object_in_its_domain(void **state)
{
	(void)state;
	struct rpma_conn_req *req = NULL;
	struct rpma_srq *srq = NULL;
	int domains = 0;

	struct rpma_peer *peer = mock_peer();
	struct rpma_mr_local *mr = some_region(peer);
	assert_fails(RPMA_E_PROVIDER, rpma_peer_delete(&peer));
	assert_null(peer);
	assert_non_null(strstr(rpma_errormsg(), "delete them before it"));
	char desc[64];
	assert_ok(rpma_mr_get_descriptor(mr, desc));
	assert_domain_ends_with(rpma_mr_dereg(&mr));

	peer = mock_peer();
	assert_ok(rpma_srq_new(peer, NULL, &srq));
	assert_fails(RPMA_E_PROVIDER, rpma_peer_delete(&peer));
	assert_domain_ends_with(rpma_srq_delete(&srq));

	peer = mock_peer();
	assert_ok(rpma_conn_req_new(peer, "192.0.2.1", "7204", NULL, &req));
	assert_fails(RPMA_E_PROVIDER, rpma_peer_delete(&peer));
	assert_domain_ends_with(rpma_conn_req_delete(&req));

	peer = mock_peer();
	struct rpma_conn *conn = mock_conn(peer, NULL);
	assert_fails(RPMA_E_PROVIDER, rpma_peer_delete(&peer));
	assert_ok(rpma_conn_disconnect(conn));
	assert_domain_ends_with(rpma_conn_delete(&conn));
}

/* a request of a deleted peer can be sent or accepted: its protection domain still exists */
static void
deleted_before_a_request_is_answered(void **state)
{
	(void)state;
	struct rpma_conn *conn = NULL;
	struct rpma_conn_req *req = NULL;
	struct rpma_ep *ep = NULL;
	int domains = 0;

	struct rpma_peer *peer = mock_peer();
	assert_ok(rpma_conn_req_new(peer, "192.0.2.1", "7204", NULL, &req));
	assert_fails(RPMA_E_PROVIDER, rpma_peer_delete(&peer));
	assert_ok(rpma_conn_req_connect(&req, NULL, &conn));
	assert_domain_ends_with(rpma_conn_delete(&conn));

	peer = mock_peer();
	mock_rdma.read_flushes = true; /* then the connection registers memory of its own */
	assert_ok(rpma_ep_listen(peer, "0.0.0.0", "7204", &ep));
	mock_queue_event(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, NULL, 0);
	assert_ok(rpma_ep_next_conn_req(ep, NULL, &req));
	assert_fails(RPMA_E_PROVIDER, rpma_peer_delete(&peer));
	assert_ok(rpma_conn_req_connect(&req, NULL, &conn));
	assert_ok(rpma_ep_shutdown(&ep));
	assert_domain_ends_with(rpma_conn_delete(&conn));
}

static void
deleted_before_its_endpoints(void **state)
{
	(void)state;
	struct rpma_conn_req *req = NULL;
	struct rpma_ep *ep = NULL, *other = NULL;

	struct rpma_peer *peer = mock_peer();
	assert_ok(rpma_peer_set_tls(peer, "cert", "key", "ca"));
	assert_ok(rpma_ep_listen(peer, "0.0.0.0", "7204", &ep));
	assert_ok(rpma_ep_listen(peer, "0.0.0.0", "7205", &other));
	assert_ok(rpma_peer_delete(&peer));
	assert_int_equal(mock_count("dealloc_pd"), 1);
	assert_ok(rpma_ep_shutdown(&other));

	/* the endpoint neither waits nor takes a client's request */
	assert_fails(RPMA_E_PROVIDER, rpma_ep_next_conn_req(ep, NULL, &req));
	assert_non_null(strstr(rpma_errormsg(), "the peer of the endpoint is deleted"));
	assert_fails(RPMA_E_PROVIDER, rpma_ep_next_conn_req_timed(ep, NULL, 0, &req));
	assert_null(req);
	assert_int_equal(mock_count("get_cm_event"), 0);

	assert_int_equal(mock_count("credentials_put"), 0);
	assert_ok(rpma_ep_shutdown(&ep));
	assert_int_equal(mock_count("credentials_put"), 1);
}

static struct rpma_peer *peer_to_delete;
static int (*get_cm_event)(struct rdma_event_channel *channel, struct rdma_cm_event **event);

static int
delete_peer_and_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	assert_ok(rpma_peer_delete(&peer_to_delete));
	return get_cm_event(channel, event);
}

/* the client whose request ends the wait is rejected */
static void
deleted_while_its_endpoint_waits(void **state)
{
	(void)state;
	struct rpma_conn_req *req = NULL;
	struct rpma_ep *ep = NULL;

	peer_to_delete = mock_peer();
	assert_ok(rpma_ep_listen(peer_to_delete, "0.0.0.0", "7204", &ep));
	mock_queue_event(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, "hello", 5);
	get_cm_event = mock_rdma.get_cm_event;
	mock_rdma.get_cm_event = delete_peer_and_get_cm_event;
	assert_fails(RPMA_E_PROVIDER, rpma_ep_next_conn_req(ep, NULL, &req));
	assert_null(req);
	assert_int_equal(mock_count("reject"), 1);
	assert_ok(rpma_ep_shutdown(&ep));
}

/* if the protection domain cannot be released, the call that tries to reports it */
static void
domain_that_does_not_end(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_mr_local *first = some_region(peer), *last = some_region(peer);
	assert_fails(RPMA_E_PROVIDER, rpma_peer_delete(&peer));
	mock.fail_call = "dealloc_pd";
	mock.fail_skip = 0;
	mock.fail_errno = EBUSY;
	assert_ok(rpma_mr_dereg(&first));
	assert_fails(RPMA_E_PROVIDER, rpma_mr_dereg(&last));
	assert_null(last);
}

enum { DELETERS = 4, REGIONS = 16, ROUNDS = 50 };

static struct rpma_mr_local *regions[DELETERS][REGIONS];
static pthread_barrier_t at_once;

static void *
delete_regions(void *arg)
{
	struct rpma_mr_local **own = arg;
	pthread_barrier_wait(&at_once);
	for (int i = 0; i < REGIONS; i++)
		assert(rpma_mr_dereg(&own[i]) == 0);
	return NULL;
}

/* these two device calls only count, from any thread */
static atomic_int domains_ended, regions_ended;

static int
count_domain(struct ibv_pd *pd)
{
	(void)pd;
	atomic_fetch_add(&domains_ended, 1);
	return atomic_load(&regions_ended) == DELETERS * REGIONS ? 0 : EBUSY;
}

static int
count_region(struct ibv_mr *mr)
{
	(void)mr;
	atomic_fetch_add(&regions_ended, 1);
	return 0;
}

/* the protection domain is released once, after all regions, by any of the threads */
static void
deleted_by_several_threads(void **state)
{
	(void)state;
	int (*const dealloc_pd)(struct ibv_pd *) = mock_rdma.dealloc_pd;
	int (*const dereg_mr)(struct ibv_mr *) = mock_rdma.dereg_mr;
	assert_int_equal(pthread_barrier_init(&at_once, NULL, DELETERS + 1), 0);
	for (int round = 0; round < ROUNDS; round++) {
		struct ibv_mr *mrs[DELETERS * REGIONS];
		pthread_t threads[DELETERS];
		struct rpma_peer *peer = mock_peer();
		struct ibv_pd *pd = peer->pd;
		for (int i = 0; i < DELETERS * REGIONS; i++) {
			struct rpma_mr_local *mr = some_region(peer);
			regions[i / REGIONS][i % REGIONS] = mr;
			mrs[i] = mr->ibv_mr;
		}
		atomic_store(&domains_ended, 0);
		atomic_store(&regions_ended, 0);
		mock_rdma.dealloc_pd = count_domain;
		mock_rdma.dereg_mr = count_region;
		for (int i = 0; i < DELETERS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, delete_regions, regions[i]), 0);
		pthread_barrier_wait(&at_once);
		const int ret = rpma_peer_delete(&peer);
		for (int i = 0; i < DELETERS; i++)
			assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_true(ret == 0 || ret == RPMA_E_PROVIDER);
		assert_int_equal(atomic_load(&domains_ended), 1);

		for (int i = 0; i < DELETERS * REGIONS; i++)
			assert_int_equal(dereg_mr(mrs[i]), 0);
		assert_int_equal(dealloc_pd(pd), 0);
		mock_rdma.dealloc_pd = dealloc_pd;
		mock_rdma.dereg_mr = dereg_mr;
	}
	pthread_barrier_destroy(&at_once);
}

static int query_errnum, pd_errnum;

static int
query(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
	struct ibv_device_attr_ex *attr, size_t size)
{
	(void)context;
	(void)input;
	memset(attr, 0, size);
	return query_errnum;
}

/* libibverbs' own function would read data in front of the context */
struct ibv_pd *__wrap_ibv_alloc_pd(struct ibv_context *context);

struct ibv_pd *
__wrap_ibv_alloc_pd(struct ibv_context *context)
{
	(void)context;
	errno = pd_errnum;
	return NULL;
}

/* the code that chooses between the devices has the same failures */
static void
a_device_of_libibverbs_fails(void **state)
{
	(void)state;
	static struct verbs_context vctx;
	static const struct {
		int query_errnum, pd_errnum, malloc_skip, ret;
	} table[] = {
		{ EIO, 0, -1, RPMA_E_PROVIDER },
		{ 0, 0, 0, RPMA_E_NOMEM },
		{ 0, ENOMEM, -1, RPMA_E_NOMEM },
		{ 0, EPERM, -1, RPMA_E_PROVIDER },
		{ 0, 0, -1, RPMA_E_UNKNOWN },
	};
	struct rpma_peer *peer = NULL;
	vctx.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	vctx.sz = sizeof(vctx);
	vctx.query_device_ex = query;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		query_errnum = table[i].query_errnum;
		pd_errnum = table[i].pd_errnum;
		mock.malloc_skip = table[i].malloc_skip;
		assert_fails(table[i].ret, rpma_peer_new(&vctx.context, &peer));
		assert_null(peer);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(arguments),
		rpma_test(capabilities),
		rpma_test(credentials),
		rpma_test(arguments_of_questions),
		rpma_test(finding_a_connection),
		rpma_test(failures),
		rpma_test(deleted_before_an_object_in_its_domain),
		rpma_test(deleted_before_a_request_is_answered),
		rpma_test(deleted_before_its_endpoints),
		rpma_test(deleted_while_its_endpoint_waits),
		rpma_test(domain_that_does_not_end),
		rpma_test(deleted_by_several_threads),
		rpma_test(a_device_of_libibverbs_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
