/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_missing.c -- what the device refuses is said once, with the way out */

#include "connected.h"

#include "softrdma/base/missing.h"
#include "softrdma/core/memory.h"

static unsigned
count_lines(const char *text)
{
	unsigned count = 0;
	pthread_mutex_lock(&log_lock);
	for (const char *at = log_text; (at = strstr(at, text)) != NULL; at++)
		count++;
	pthread_mutex_unlock(&log_lock);
	return count;
}

static void
test_once_for_each_kind(void **state)
{
	(void)state;
	static const char part[] = " of this kind";
	for (int i = 0; i < 2; i++) {
		assert_int_equal(softrdma_missing("first", "", "do this"), EOPNOTSUPP);
		assert_int_equal(softrdma_missing("first", part, "do that"), EOPNOTSUPP);
		assert_int_equal(softrdma_missing("second", part, "do that"), EOPNOTSUPP);
	}
	assert_string_equal(log_text,
		"first() is not supported by the software device: do this\n"
		"first() of this kind is not supported by the software device: do that\n"
		"second() of this kind is not supported by the software device: do that\n");
	assert_int_equal(log_worst, SOFTRDMA_LOG_WARNING);
}

static int
create_qp(int type)
{
	struct ibv_qp_init_attr attr = { .qp_type = (enum ibv_qp_type)type,
		.send_cq = the_cq,
		.recv_cq = the_cq,
		.cap = { 1, 1, 1, 1, 0 } };
	errno = 0;
	assert_null(softrdma_ibv_create_qp(the_pd, &attr));
	return errno;
}

static int
create_id(int space)
{
	struct rdma_cm_id *id;
	errno = 0;
	assert_int_equal(softrdma_rdma_create_id(NULL, &id, NULL, (enum rdma_port_space)space), -1);
	return errno;
}

static int
register_with(int access)
{
	errno = 0;
	assert_null(softrdma_ibv_reg_mr(the_pd, the_mem, MEM_SIZE, access));
	return errno;
}

static int
create_cq_with(int flags)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 1,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = (uint32_t)flags };
	errno = 0;
	assert_null(softrdma_ibv_create_cq_ex(softrdma_context(), &attr));
	return errno;
}

/* each kind of what programs ask for: the call with its argument, the error, and what the line says */
static void
test_refusals(void **state)
{
	(void)state;
	static const struct {
		int (*call)(int argument);
		int argument, error;
		const char *line;
	} table[] = {
		{ create_qp, IBV_QPT_UC, EOPNOTSUPP,
			"ibv_create_qp() of an unreliable connection (UC) is not supported by the software device: use a reliable" },
		{ create_qp, IBV_QPT_UD, EOPNOTSUPP,
			"ibv_create_qp() of unreliable datagrams (UD) is not supported by the software device: SOFTRDMA_UD is 0" },
		{ create_qp, IBV_QPT_XRC_SEND, EOPNOTSUPP,
			"ibv_create_qp() of an extended reliable connection (XRC) is not" },
		{ create_qp, IBV_QPT_RAW_PACKET, EOPNOTSUPP,
			"ibv_create_qp() of another type than IBV_QPT_RC is not" },
		{ create_id, RDMA_PS_UDP, EOPNOTSUPP,
			"rdma_create_id() of unreliable datagrams (UD) is not supported by the software device: SOFTRDMA_UD is 0" },
		{ create_id, RDMA_PS_IPOIB, EOPNOTSUPP,
			"rdma_create_id() with RDMA_PS_IPOIB (datagrams of IPoIB) is not supported by the software device: use RDMA_PS_UDP" },
		{ create_id, 0x777, EINVAL, "rdma_create_id() with another port space is not" },
		{ register_with, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP,
			"ibv_reg_mr() with IBV_ACCESS_ON_DEMAND is not" },
		{ register_with, IBV_ACCESS_MW_BIND, EOPNOTSUPP,
			"ibv_reg_mr() with IBV_ACCESS_MW_BIND is not" },
		{ register_with, IBV_ACCESS_ZERO_BASED, EINVAL,
			"ibv_reg_mr() with one of these access flags is not" },
		{ create_cq_with, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN, EOPNOTSUPP,
			"ibv_create_cq_ex() with these flags is not" },
	};
	setenv("SOFTRDMA_UD", "0", 1);
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
			assert_int_equal(table[i].call(table[i].argument), table[i].error);
			assert_int_equal(count_lines(table[i].line), 1);
		}
	}
	unsetenv("SOFTRDMA_UD");
	assert_int_equal(count_lines("\n"), sizeof(table) / sizeof(table[0]));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_once_for_each_kind),
		device_test(test_refusals),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
