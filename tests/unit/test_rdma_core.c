/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_rdma_core.c -- the table of libibverbs and librdmacm is complete */

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
	/* the call transfers 32 bits of the length, so longer flushes must be refused */
	assert_int_equal(rpmai_rdma_core.flush_max, UINT32_MAX);
}

static struct {
	struct verbs_context vctx;
	uint64_t caps;
	uint32_t vendor_id;
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
	attr->orig_attr.vendor_id = fake.vendor_id;
	attr->odp_caps.general_caps = IBV_ODP_SUPPORT;
	attr->odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
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

/* SoftRoCE's writes to memory that is registered on demand end up elsewhere */
static void
on_demand_paging_that_cannot_be_trusted_is_not_told(void **state)
{
	(void)state;
	int odp = -1;
	fake.vctx.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	fake.vctx.sz = sizeof(fake.vctx);
	fake.vctx.query_device_ex = query;
	assert_ok(rpma_utils_ibv_context_is_odp_capable(&fake.vctx.context, &odp));
	assert_int_equal(odp, 1);
	fake.vendor_id = 0xffffff;
	assert_ok(rpma_utils_ibv_context_is_odp_capable(&fake.vctx.context, &odp));
	assert_int_equal(odp, 0);
	fake.vendor_id = 0;
}

/* the end of the process, as far as a test can observe it */
void __wrap___assert_fail(const char *assertion, const char *file, unsigned int line, const char *function)
	__attribute__((noreturn));

static jmp_buf ended;

void
__wrap___assert_fail(const char *assertion, const char *file, unsigned int line, const char *function)
{
	(void)assertion;
	(void)line;
	(void)function;
	assert_non_null(strstr(file, "rdma_core"));
	longjmp(ended, 1);
}

/*
 * An older header has no call for it, and the capability is not reported. If it is called all the same, the
 * process must end: the flush did not happen.
 */
static void
a_flush_without_the_call_ends_the_process(void **state)
{
	(void)state;
	if (rpmai_rdma_core_usable_caps & RPMAI_CAP_FLUSH_GLOBAL)
		skip();

	static struct ibv_qp_ex qp;
	if (setjmp(ended) == 0) {
		rpmai_rdma_core.wr_flush(&qp, 2, 3, 4, RPMAI_FLUSH_PERSISTENT);
		fail_msg("it came back");
	}
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

/* libibverbs' own function would read data that only a driver sets up */
struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
	unsigned int access);

static struct ibv_mr fake_mr;

struct ibv_mr *
__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	assert_true(iova == (uintptr_t)addr);
	assert_int_equal(access, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING);
	fake_mr.pd = pd;
	fake_mr.addr = addr;
	fake_mr.length = length;
	return &fake_mr;
}

/* uses the call that drops optional flags which the kernel does not know */
static void
memory_is_registered(void **state)
{
	(void)state;
	struct ibv_pd pd = { .context = &fake.vctx.context };
	char bytes[16];
	assert_ptr_equal(rpmai_rdma_core.reg_mr(&pd, bytes, sizeof(bytes),
				 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING),
		&fake_mr);
	assert_ptr_equal(fake_mr.pd, &pd);
	assert_ptr_equal(fake_mr.addr, bytes);
	assert_int_equal(fake_mr.length, sizeof(bytes));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_complete),
		cmocka_unit_test(capabilities_that_cannot_be_used_are_not_told),
		cmocka_unit_test(on_demand_paging_that_cannot_be_trusted_is_not_told),
		cmocka_unit_test(a_flush_without_the_call_ends_the_process),
		cmocka_unit_test(extended_calls_reach_the_context),
		cmocka_unit_test(memory_is_registered),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
