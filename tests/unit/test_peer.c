/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_peer.c -- a device in use: capabilities and protection domain */

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
		mock.fail_call = "credentials_new";
		mock.fail_skip = 0;
		mock.fail_errno = table[i].errnum;
		assert_fails(table[i].ret, rpma_peer_set_tls(peer, "cert", "key", "ca"));
		assert_null(peer->credentials);
	}
	mock.fail_call = NULL;

	/* of what is made from the peer, and given back once for each time */
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
	assert_int_equal(mock_count("credentials_put"), 2);

	/* a device that has none */
	mock_rdma.credentials_new = NULL;
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

/* from the request being sent or accepted until it is deleted */
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
	/* a question, not a mistake: no line in the log, but a sentence */
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], errors);
	assert_non_null(strstr(rpma_errormsg(), "no connection"));

	/* nor is there one that was not sent off */
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

/* that of libibverbs would look into what it keeps in front of a context */
struct ibv_pd *__wrap_ibv_alloc_pd(struct ibv_context *context);

struct ibv_pd *
__wrap_ibv_alloc_pd(struct ibv_context *context)
{
	(void)context;
	errno = pd_errnum;
	return NULL;
}

/* what decides between the devices has the same failures */
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
		rpma_test(a_device_of_libibverbs_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
