/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_rdma_core.c -- the table of libibverbs and librdmacm has no hole */

#include "mock.h"

static void
it_is_complete(void **state)
{
	(void)state;
	/* all members from getaddrinfo on are pointers to functions */
	const size_t first = offsetof(struct rdma_api, getaddrinfo);
	for (size_t pos = first; pos < sizeof(struct rdma_api); pos += sizeof(void (*)(void))) {
		void (*function)(void);
		memcpy(&function, (const char *)&rpmai_rdma_core + pos, sizeof(function));
		assert_true(function != NULL);
	}
	assert_false(rpmai_rdma_core.is_soft);
	assert_true(rpmai_rdma_core.read_flushes);
	assert_int_equal(rpmai_rdma_core.connect_data_max, 56);
}

static struct {
	struct verbs_context vctx;
	uint64_t caps;
} fake;

static int query_errnum;

static int
query(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
	struct ibv_device_attr_ex *attr, size_t size)
{
	(void)context;
	(void)input;
	memset(attr, 0, size);
	attr->device_cap_flags_ex = fake.caps;
	return query_errnum;
}

static void
capabilities_that_cannot_be_used_are_not_told(void **state)
{
	(void)state;
	struct ibv_device_attr_ex attr;
	fake.vctx.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	fake.vctx.sz = sizeof(fake.vctx);
	fake.vctx.query_device_ex = query;
	fake.caps = UINT64_MAX;
	assert_int_equal(rpmai_rdma_core.query_device_ex(&fake.vctx.context, NULL, &attr), 0);
	assert_true(attr.device_cap_flags_ex == rpmai_rdma_core_usable_caps);
	assert_true(rpmai_rdma_core_usable_caps & RPMAI_CAP_ATOMIC_WRITE);
	query_errnum = EIO;
	assert_int_equal(rpmai_rdma_core.query_device_ex(&fake.vctx.context, NULL, &attr), EIO);
	query_errnum = 0;
}

/* an older header has no call for it: then it is not told, and refused should somebody try */
static void
a_flush_without_the_call_is_refused(void **state)
{
	(void)state;
	struct ibv_qp_ex qp = { 0 };
	if (rpmai_rdma_core_usable_caps & RPMAI_CAP_FLUSH_GLOBAL)
		skip();
	assert_int_equal(rpmai_rdma_core.post_flush(&qp, 1, 0, 2, 3, 4, 1), EOPNOTSUPP);
}

/* an atomic write as a provider sees it */
static struct {
	char order[8];
	int calls;
	uint64_t wr_id, remote_addr;
	unsigned int wr_flags;
	uint32_t rkey;
	uint8_t data[8];
} wr;

static void
wr_start(struct ibv_qp_ex *qp)
{
	(void)qp;
	wr.order[wr.calls++] = 's';
}

static void
wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, const void *src)
{
	wr.order[wr.calls++] = 'w';
	wr.wr_id = qp->wr_id;
	wr.wr_flags = qp->wr_flags;
	wr.rkey = rkey;
	wr.remote_addr = remote_addr;
	memcpy(wr.data, src, sizeof(wr.data));
}

static int
wr_complete(struct ibv_qp_ex *qp)
{
	(void)qp;
	wr.order[wr.calls++] = 'c';
	return ENOMEM;
}

static void
an_atomic_write_is_posted(void **state)
{
	(void)state;
	struct ibv_qp_ex qp = { .wr_start = wr_start,
		.wr_complete = wr_complete,
		.wr_atomic_write = wr_atomic_write };
	assert_int_equal(rpmai_rdma_core.post_atomic_write(&qp, 1, IBV_SEND_FENCE, 2, 3, "12345678"), ENOMEM);
	assert_string_equal(wr.order, "swc");
	assert_true(wr.wr_id == 1 && wr.wr_flags == IBV_SEND_FENCE && wr.rkey == 2 && wr.remote_addr == 3);
	assert_memory_equal(wr.data, "12345678", 8);
}

static int
query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr, size_t len)
{
	(void)context;
	memset(attr, 0, len);
	attr->max_msg_sz = port_num;
	return 0;
}

static int
advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sge,
	uint32_t num_sge)
{
	(void)pd;
	(void)advice;
	(void)flags;
	(void)sge;
	return (int)num_sge;
}

static void
extended_calls_reach_the_context(void **state)
{
	(void)state;
	struct ibv_port_attr attr;
	struct ibv_pd pd = { .context = &fake.vctx.context };
	fake.vctx.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	fake.vctx.sz = sizeof(fake.vctx);
	fake.vctx.query_port = query_port;
	fake.vctx.advise_mr = advise;
	assert_int_equal(rpmai_rdma_core.query_port(&fake.vctx.context, 5, &attr), 0);
	assert_int_equal(attr.max_msg_sz, 5);
	assert_int_equal(rpmai_rdma_core.advise_mr(&pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 3), 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_complete),
		cmocka_unit_test(capabilities_that_cannot_be_used_are_not_told),
		cmocka_unit_test(a_flush_without_the_call_is_refused),
		cmocka_unit_test(an_atomic_write_is_posted),
		cmocka_unit_test(extended_calls_reach_the_context),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
