/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_address.c -- name resolution, binding, and address resolution */

#include "connected.h"

#include <netdb.h>

static struct sockaddr_in6
loopback6(void)
{
	return (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
}

static void
test_names(void **state)
{
	(void)state;
	struct rdma_addrinfo *res = NULL;
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST };

	assert_int_equal(softrdma_rdma_getaddrinfo("127.0.0.1", "7", NULL, &res), 0);
	assert_int_equal(res->ai_family, AF_INET);
	assert_int_equal(res->ai_qp_type, IBV_QPT_RC);
	assert_int_equal(res->ai_port_space, RDMA_PS_TCP);
	assert_int_equal(res->ai_dst_len, sizeof(struct sockaddr_in));
	assert_int_equal(((struct sockaddr_in *)res->ai_dst_addr)->sin_port, htons(7));
	assert_null(res->ai_src_addr);
	softrdma_rdma_freeaddrinfo(res);

	assert_int_equal(softrdma_rdma_getaddrinfo("::1", "7", &hints, &res), 0);
	assert_int_equal(res->ai_dst_len, sizeof(struct sockaddr_in6));
	softrdma_rdma_freeaddrinfo(res);

	struct sockaddr_in src = loopback(0);
	hints.ai_src_addr = (struct sockaddr *)&src;
	hints.ai_src_len = sizeof(src);
	assert_int_equal(softrdma_rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), 0);
	assert_ptr_not_equal(res->ai_src_addr, hints.ai_src_addr);
	assert_memory_equal(res->ai_src_addr, &src, sizeof(src));
	softrdma_rdma_freeaddrinfo(res);

	/* passive: any address, of both families, then of one */
	hints = (struct rdma_addrinfo){ .ai_flags = RAI_PASSIVE };
	assert_int_equal(softrdma_rdma_getaddrinfo(NULL, "7", &hints, &res), 0);
	for (struct rdma_addrinfo *at = res; at; at = at->ai_next) {
		assert_non_null(at->ai_src_addr);
		assert_null(at->ai_dst_addr);
	}
	softrdma_rdma_freeaddrinfo(res);
	hints = (struct rdma_addrinfo){ .ai_flags = RAI_PASSIVE | RAI_FAMILY, .ai_family = AF_INET6 };
	assert_int_equal(softrdma_rdma_getaddrinfo(NULL, "7", &hints, &res), 0);
	assert_int_equal(res->ai_family, AF_INET6);
	assert_null(res->ai_next);
	softrdma_rdma_freeaddrinfo(res);
	softrdma_rdma_freeaddrinfo(NULL);
}

/* the type and the port space are those of the hints; what the hints lack follows, as in librdmacm */
static void
test_kinds(void **state)
{
	(void)state;
	static const struct {
		int type, space, type_found, space_found;
	} table[] = {
		{ 0, 0, IBV_QPT_RC, RDMA_PS_TCP },
		{ 0, RDMA_PS_TCP, IBV_QPT_RC, RDMA_PS_TCP },
		{ 0, RDMA_PS_UDP, IBV_QPT_UD, RDMA_PS_UDP },
		{ 0, RDMA_PS_IPOIB, IBV_QPT_UD, RDMA_PS_IPOIB },
		{ 0, RDMA_PS_IB, IBV_QPT_RC, RDMA_PS_IB },
		{ IBV_QPT_UD, 0, IBV_QPT_UD, RDMA_PS_UDP },
		{ IBV_QPT_UC, 0, IBV_QPT_UC, RDMA_PS_TCP },
		{ IBV_QPT_RC, RDMA_PS_UDP, IBV_QPT_RC, RDMA_PS_UDP },
		{ IBV_QPT_XRC_RECV, RDMA_PS_IB, IBV_QPT_XRC_RECV, RDMA_PS_IB },
	};
	assert_int_equal(RDMA_PS_UDP, 0x111);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct rdma_addrinfo hints = { .ai_qp_type = table[i].type,
			.ai_port_space = table[i].space };
		struct rdma_addrinfo *res = NULL;
		assert_int_equal(softrdma_rdma_getaddrinfo("127.0.0.1", "7", &hints, &res), 0);
		assert_int_equal(res->ai_qp_type, table[i].type_found);
		assert_int_equal(res->ai_port_space, table[i].space_found);
		assert_int_equal(((struct sockaddr_in *)res->ai_dst_addr)->sin_port, htons(7));
		softrdma_rdma_freeaddrinfo(res);
	}
}

/* names are missing as in librdmacm's results, because its callers copy them in this way */
static void
test_no_names(void **state)
{
	(void)state;
	struct rdma_addrinfo *res = NULL;
	struct sockaddr_in src = loopback(htons(9)), dst = loopback(htons(7));
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST,
		.ai_family = AF_INET,
		.ai_qp_type = IBV_QPT_RC,
		.ai_port_space = RDMA_PS_TCP };

	assert_int_equal(softrdma_rdma_getaddrinfo(NULL, NULL, &hints, &res), 0);
	assert_null(res->ai_src_addr);
	assert_null(res->ai_dst_addr);
	softrdma_rdma_freeaddrinfo(res);

	hints.ai_src_addr = (struct sockaddr *)&src;
	hints.ai_src_len = sizeof(src);
	hints.ai_dst_addr = (struct sockaddr *)&dst;
	hints.ai_dst_len = sizeof(dst);
	assert_int_equal(softrdma_rdma_getaddrinfo(NULL, NULL, &hints, &res), 0);
	assert_int_equal(res->ai_flags, RAI_NUMERICHOST);
	assert_int_equal(res->ai_family, AF_INET);
	assert_int_equal(res->ai_qp_type, IBV_QPT_RC);
	assert_int_equal(res->ai_port_space, RDMA_PS_TCP);
	assert_int_equal(res->ai_src_len, sizeof(src));
	assert_ptr_not_equal(res->ai_src_addr, &src);
	assert_memory_equal(res->ai_src_addr, &src, sizeof(src));
	assert_int_equal(res->ai_dst_len, sizeof(dst));
	assert_ptr_not_equal(res->ai_dst_addr, &dst);
	assert_memory_equal(res->ai_dst_addr, &dst, sizeof(dst));
	assert_null(res->ai_next);
	softrdma_rdma_freeaddrinfo(res);

	res = NULL;
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_int_equal(softrdma_rdma_getaddrinfo(NULL, NULL, &hints, &res), -1);
	assert_int_equal(errno, ENOMEM);
	for (unsigned skip = 0; skip < 2; skip++) {
		fail_call(FAIL_MINE, "malloc", skip, 1, ENOMEM);
		assert_int_equal(softrdma_rdma_getaddrinfo(NULL, NULL, &hints, &res), -1);
		assert_int_equal(fail_nothing(), 1);
		assert_int_equal(errno, ENOMEM);
	}
	assert_null(res);
}

static void
test_names_fail(void **state)
{
	(void)state;
	struct rdma_addrinfo *const untouched = (void *)the_mem;
	struct rdma_addrinfo *res = untouched;
	struct sockaddr_in src = loopback(0);
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST,
		.ai_src_addr = (struct sockaddr *)&src,
		.ai_src_len = sizeof(src) };

	assert_int_equal(softrdma_rdma_getaddrinfo(NULL, NULL, NULL, &res), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(softrdma_rdma_getaddrinfo("no number", NULL, &hints, &res), EAI_NONAME);
	assert_int_equal(errno, 0);
	fail_call(FAIL_MINE, "getaddrinfo", 0, 1, EAI_SYSTEM);
	assert_int_equal(softrdma_rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), -1);
	fail_call(FAIL_MINE, "getaddrinfo", 0, 1, FAIL_STRANGE);
	assert_int_equal(softrdma_rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);

	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_int_equal(softrdma_rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), -1);
	assert_int_equal(errno, ENOMEM);
	for (unsigned skip = 0; skip < 2; skip++) {
		fail_call(FAIL_MINE, "malloc", skip, 1, ENOMEM);
		assert_int_equal(softrdma_rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), -1);
		assert_int_equal(fail_nothing(), 1);
		assert_int_equal(errno, ENOMEM);
	}
	assert_ptr_equal(res, untouched);
}

static void
test_bind(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	struct sockaddr_in addr = loopback(0);

	assert_null(id->verbs);
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&addr), 0);
	assert_int_equal(addr.sin_port, 0);
	assert_int_not_equal(rdma_get_src_port(id), 0);
	assert_ptr_equal(id->verbs, softrdma_context());
	assert_int_equal(id->port_num, 1);
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&addr), -1); /* only once */
	assert_int_equal(errno, EINVAL);

	struct rdma_cm_id *id6 = new_id(channel);
	struct sockaddr_in6 addr6 = loopback6();
	assert_int_equal(softrdma_rdma_bind_addr(id6, (struct sockaddr *)&addr6), 0);
	assert_int_not_equal(rdma_get_src_port(id6), 0);
	destroy(id6);
	expect_no_event(channel);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

static void
test_bind_fails(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	struct rdma_cm_id *id = new_id(l.channel);

	struct sockaddr_in addr = l.addr;
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&addr), -1);
	assert_int_equal(errno, EADDRINUSE);
	addr.sin_addr.s_addr = inet_addr("192.0.2.1"); /* reserved for documentation: no machine has it */
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&addr), -1);
	assert_int_equal(errno, ENODEV);
	addr.sin_family = AF_UNIX;
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&addr), -1);
	assert_int_equal(errno, EAFNOSUPPORT);

	static const char *const calls[] = { "socket", "setsockopt", "bind", "getsockname" };
	addr = loopback(0);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		fail_call(FAIL_MINE, calls[i], 0, 1, ENOBUFS);
		assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&addr), -1);
		assert_int_equal(errno, ENOBUFS);
		assert_int_equal(fail_nothing(), 1);
	}
	assert_null(id->verbs);
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&addr), 0);
	destroy(id);
	listener_fini(&l);
}

static void
test_resolve(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	struct sockaddr_in dst = loopback(htons(1)), src = loopback(0);
	struct sockaddr_in6 dst6 = loopback6();

	assert_int_equal(softrdma_rdma_resolve_route(id, 1000), -1); /* the destination is not known */
	assert_int_equal(errno, EINVAL);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1000), 0);
	assert_ptr_equal(expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0), id);
	assert_int_equal(id->route.addr.src_sin.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	assert_int_equal(id->route.addr.src_sin.sin_port, 0); /* the connection will get one */
	assert_ptr_equal(id->verbs, softrdma_context());
	assert_int_equal(softrdma_rdma_resolve_route(id, 1000), 0);
	assert_ptr_equal(expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0), id);
	destroy(id);

	id = new_id(channel);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst6, 1000), 0);
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(id->route.addr.src_sin6.sin6_port, 0);
	destroy(id);

	/* with a source that the application chooses */
	id = new_id(channel);
	src.sin_addr.s_addr = inet_addr("127.0.0.2");
	assert_int_equal(
		softrdma_rdma_resolve_addr(id, (struct sockaddr *)&src, (struct sockaddr *)&dst, 1000), 0);
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(id->route.addr.src_sin.sin_addr.s_addr, src.sin_addr.s_addr);
	destroy(id);

	/* bound earlier: that address stays */
	id = new_id(channel);
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&src), 0);
	uint16_t port = rdma_get_src_port(id);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1000), 0);
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(rdma_get_src_port(id), port);
	/* even if an address without a port is given */
	assert_int_equal(
		softrdma_rdma_resolve_addr(id, (struct sockaddr *)&src, (struct sockaddr *)&dst, 1000), 0);
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(rdma_get_src_port(id), port);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

static void
test_resolve_fails(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	struct sockaddr_in dst = loopback(htons(1));
	struct sockaddr_in nowhere = { .sin_family = AF_UNIX };

	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&nowhere, 1000), -1);
	assert_int_equal(errno, EAFNOSUPPORT);
	assert_int_equal(
		softrdma_rdma_resolve_addr(id, (struct sockaddr *)&nowhere, (struct sockaddr *)&dst, 1000),
		-1);
	assert_int_equal(errno, EAFNOSUPPORT);
	static const char *const calls[] = { "socket", "connect", "getsockname", "calloc" };
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		fail_call(FAIL_MINE, calls[i], 0, 1, ENOMEM);
		assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1000), -1);
		assert_int_equal(errno, ENOMEM);
		assert_int_equal(fail_nothing(), 1);
	}
	expect_no_event(channel);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

/* an id that listens or connects keeps its addresses */
static void
test_resolve_too_late(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	struct sockaddr_in other = loopback(htons(1));

	assert_int_equal(softrdma_rdma_resolve_addr(l.id, NULL, (struct sockaddr *)&other, 1000), -1);
	assert_int_equal(errno, EINVAL);
	expect_no_event(l.channel);

	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&l.addr, 1000), 0);
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(softrdma_rdma_resolve_route(id, 1000), 0);
	expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	give_qp(id);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&other, 1000), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(id->route.addr.dst_sin.sin_port, l.addr.sin_port);
	expect_no_event(channel);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
	listener_fini(&l);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_names),
		device_test(test_kinds),
		device_test(test_no_names),
		device_test(test_names_fail),
		device_test(test_bind),
		device_test(test_bind_fails),
		device_test(test_resolve),
		device_test(test_resolve_fails),
		device_test(test_resolve_too_late),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
