/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_rdma_cm.c -- ids with a channel under librdmacm's names: domains, options, ports, rejection */

#include "two_sides.h"

#include <sys/wait.h>

static struct rdma_cm_event *
next(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = NULL;
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_int_equal(event->event, type);
	return event;
}

/* a request's id has a protection domain before the program sees it */
static void
test_request_and_rejection(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listen = NULL, *id = NULL;
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	assert_int_equal(rdma_create_id(channel, &listen, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_get_src_port(listen), 0);
	assert_int_equal(rdma_bind_addr(listen, (struct sockaddr *)&any), 0);
	assert_non_null(listen->pd);
	struct ibv_pd *pd = listen->pd;
	assert_int_equal(softrdma_preload_use_device(listen), 0); /* it has one */
	assert_ptr_equal(listen->pd, pd);
	assert_int_equal(rdma_listen(listen, 8), 0);
	assert_true(rdma_get_src_port(listen) != 0);

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	any.sin6_port = rdma_get_src_port(listen);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&any, 1000), 0);
	rdma_ack_cm_event(next(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	rdma_ack_cm_event(next(channel, RDMA_CM_EVENT_ROUTE_RESOLVED));
	assert_int_equal(rdma_get_dst_port(id), any.sin6_port);
	struct ibv_qp_init_attr attr = small_qp();
	attr.qp_type = IBV_QPT_RC;
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_int_equal(rdma_connect(id, NULL), 0);
	struct rdma_cm_event *event = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *request = event->id;
	assert_ptr_equal(request->pd, listen->pd);
	assert_int_equal(rdma_reject(request, "no", 2), 0);
	rdma_ack_cm_event(event);
	event = next(channel, RDMA_CM_EVENT_REJECTED);
	assert_memory_equal(event->param.conn.private_data, "no", 2);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_destroy_id(request), 0);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_migrate_id(id, channel), 0);
	assert_int_equal(rdma_disconnect(id), -1); /* it was never connected */
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(listen), 0);
	fail_call(FAIL_MINE, "poll", 0, 1, EINTR);
	assert_int_equal(rdma_get_cm_event(channel, &event), -1);
	fail_nothing();
	rdma_destroy_event_channel(channel);
}

/* hints are accepted, and what makes a listener one of its family only */
static void
test_options(void **state)
{
	(void)state;
	struct rdma_cm_id *id = NULL;
	uint8_t byte = 0x20;
	int flag = 1;
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	const struct {
		int level, name;
		void *value;
		size_t len;
		int error;
	} cases[] = {
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1, 0 },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1, 0 },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &flag, sizeof(flag), 0 },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &flag, sizeof(flag), EINVAL },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1, EINVAL },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &flag, sizeof(flag), 0 },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &byte, 1, EINVAL },
		{ RDMA_OPTION_ID, 99, &flag, sizeof(flag), EINVAL },
		{ RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &flag, sizeof(flag), EOPNOTSUPP },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		errno = 0;
		int ret = rdma_set_option(id, cases[i].level, cases[i].name, cases[i].value, cases[i].len);
		assert_int_equal(ret, cases[i].error ? -1 : 0);
		assert_int_equal(errno, cases[i].error);
	}
	/*
	 * a query of its queue pair shows the timeout, whether it was set before or after the queue pair was
	 * made
	 */
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_qp_attr attr;
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&addr), 0);
	assert_int_equal(rdma_create_qp(id, NULL, &init), 0);
	assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_TIMEOUT, &init), 0);
	assert_int_equal(attr.timeout, 0x20);
	byte = 9;
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1), 0);
	assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_TIMEOUT, &init), 0);
	assert_int_equal(attr.timeout, 9);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_notify(id, IBV_EVENT_COMM_EST), 0);
	assert_int_equal(rdma_notify(id, IBV_EVENT_QP_FATAL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* first, because the shared protection domain is made only once */
static void
test_no_domain(void **state)
{
	(void)state;
	struct rdma_cm_id *id = NULL;
	struct sockaddr_in any = { .sin_family = AF_INET };
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	fail_call(FAIL_MINE, "calloc", 0, FAIL_FOR_EVER, ENOMEM);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&any), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&any, 0), -1);
	assert_int_equal(errno, ENOMEM);
	fail_nothing();
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* a child can tell that an id is its parent's, and has its own device and protection domain */
static void
test_forked(void **state)
{
	(void)state;
	struct rdma_cm_id *id = NULL;
	struct sockaddr_in any = { .sin_family = AF_INET };
	int status = -1;
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct rdma_cm_id *own = NULL;
		bool refused = rdma_destroy_id(id) == -1 && errno == ESTALE;
		bool works = rdma_create_id(NULL, &own, NULL, RDMA_PS_TCP) == 0 &&
			rdma_bind_addr(own, (struct sockaddr *)&any) == 0 && own->pd != id->pd &&
			rdma_destroy_id(own) == 0;
		exit(refused && works ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_domain),
		cmocka_unit_test(test_request_and_rejection),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_forked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
