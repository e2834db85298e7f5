/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_missing.c -- functions that the device lacks: each call fails, and the first one of each name is
 * logged
 */

#include "two_sides.h"

int rsocket(int domain, int type, int protocol);

static char lines[16384];

static void
keep_line(enum softrdma_log_level level, const char *file, int line, const char *func, const char *text)
{
	(void)file;
	(void)line;
	(void)func;
	assert_int_equal(level, SOFTRDMA_LOG_WARNING);
	size_t used = strlen(lines);
	assert_true(used + strlen(text) + 2 < sizeof(lines));
	strcat(strcpy(lines + used, text), "\n");
}

/* the line with this name is in the log, once */
static void
told(const char *name)
{
	char line[256];
	snprintf(line, sizeof(line),
		"\n%s() is not supported by the software device: PROGRAMS OF OTHERS in softrdma(7) says what it has\n",
		name);
	const char *first = strstr(lines, line);
	assert_non_null(first);
	assert_null(strstr(first + 1, line));
}

static struct ibv_context context;
static struct ibv_pd pd;
static struct ibv_mr mr;
static struct ibv_qp qp;
static struct ibv_cq cq;
static struct ibv_srq srq;
static struct ibv_ece ece;
static struct ibv_ah_attr ah_attr;
static struct rdma_cm_id id;
static struct sockaddr addr;

/* errno is set, and the object is unchanged */
static void
null_with_errno(const void *result, const char *name)
{
	assert_null(result);
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	told(name);
}

static void
minus_one(int result, const char *name)
{
	assert_int_equal(result, -1);
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	told(name);
}

static void
errnum(int result, const char *name)
{
	assert_int_equal(result, EOPNOTSUPP);
	told(name);
}

static void
test_all(void **state)
{
	(void)state;
	static const struct softrdma_env env = { .log = keep_line };
	softrdma_set_env(&env);
	strcpy(lines, "\n");
	for (int i = 0; i < 2; i++) {
		null_with_errno(ibv_import_device(-1), "ibv_import_device");
		null_with_errno(ibv_import_pd(&context, 0), "ibv_import_pd");
		ibv_unimport_pd(&pd);
		told("ibv_unimport_pd");
		null_with_errno(ibv_import_mr(&pd, 0), "ibv_import_mr");
		ibv_unimport_mr(&mr);
		told("ibv_unimport_mr");
		null_with_errno(ibv_import_dm(&context, 0), "ibv_import_dm");
		ibv_unimport_dm(NULL);
		told("ibv_unimport_dm");
		null_with_errno(ibv_reg_dmabuf_mr(&pd, 0, 1, 0, -1, 0), "ibv_reg_dmabuf_mr");
		assert_int_equal(ibv_rereg_mr(&mr, 0, &pd, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
		told("ibv_rereg_mr");
		errnum(ibv_resize_cq(&cq, 1), "ibv_resize_cq");
		errnum(ibv_modify_srq(&srq, NULL, 0), "ibv_modify_srq");
		errnum(ibv_attach_mcast(&qp, NULL, 0), "ibv_attach_mcast");
		errnum(ibv_detach_mcast(&qp, NULL, 0), "ibv_detach_mcast");
		errnum(ibv_resolve_eth_l2_from_gid(&context, &ah_attr, NULL, NULL),
			"ibv_resolve_eth_l2_from_gid");
		errnum(ibv_set_ece(&qp, &ece), "ibv_set_ece");
		errnum(ibv_query_ece(&qp, &ece), "ibv_query_ece");
		minus_one(rdma_join_multicast(&id, &addr, NULL), "rdma_join_multicast");
		minus_one(rdma_join_multicast_ex(&id, NULL, NULL), "rdma_join_multicast_ex");
		minus_one(rdma_leave_multicast(&id, &addr), "rdma_leave_multicast");
		minus_one(rdma_set_local_ece(&id, &ece), "rdma_set_local_ece");
		minus_one(rdma_get_remote_ece(&id, &ece), "rdma_get_remote_ece");
		minus_one(rdma_reject_ece(&id, NULL, 0), "rdma_reject_ece");
		minus_one(rsocket(AF_INET, SOCK_STREAM, 0), "rsocket");
	}
}

/* when the table of names is full, further names are refused without a line */
static void
test_many_names(void **state)
{
	(void)state;
	static char names[256][8];
	for (size_t i = 0; i < 256; i++) {
		snprintf(names[i], sizeof(names[i]), "n%zu", i);
		assert_int_equal(softrdma_preload_missing(names[i]), EOPNOTSUPP);
	}
	told("n0");
	assert_null(strstr(lines, "n255("));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_many_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
