/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_sockaddr.c -- addresses of sockets: lengths, which are the same, and their names in log lines */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "softrdma/base/sockaddr.h"

static union softrdma_address
v4(const char *host, uint16_t port)
{
	union softrdma_address addr = { 0 };
	addr.in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
	assert_int_equal(inet_pton(AF_INET, host, &addr.in.sin_addr), 1);
	return addr;
}

static union softrdma_address
v6(const char *host, uint16_t port)
{
	union softrdma_address addr = { 0 };
	addr.in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(port) };
	assert_int_equal(inet_pton(AF_INET6, host, &addr.in6.sin6_addr), 1);
	return addr;
}

static void
test_length(void **state)
{
	(void)state;
	const union softrdma_address four = v4("1.2.3.4", 5), six = v6("::1", 5);
	assert_int_equal(softrdma_address_length(&four.any), sizeof(struct sockaddr_in));
	assert_int_equal(softrdma_address_length(&six.any), sizeof(struct sockaddr_in6));
	static const sa_family_t others[] = { AF_UNSPEC, AF_UNIX, AF_IB, AF_PACKET };
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		const struct sockaddr other = { .sa_family = others[i] };
		assert_int_equal(softrdma_address_length(&other), 0);
	}
}

/* hosts are compared in each of their bytes; ports and families too, where they count */
static void
test_equal(void **state)
{
	(void)state;
	const struct {
		union softrdma_address left, right;
		bool host, endpoint;
	} cases[] = {
		{ v4("1.2.3.4", 5), v4("1.2.3.4", 5), true, true },
		{ v4("1.2.3.4", 5), v4("1.2.3.4", 6), true, false },
		{ v4("1.2.3.4", 5), v4("1.2.3.5", 5), false, false },
		{ v4("1.2.3.4", 5), v4("2.2.3.4", 5), false, false },
		{ v6("fe80::1", 5), v6("fe80::1", 5), true, true },
		{ v6("fe80::1", 5), v6("fe80::1", 0x500), true, false },
		{ v6("fe80::1", 5), v6("fe80::2", 5), false, false },
		{ v6("fe80::1", 5), v6("fe81::1", 5), false, false },
		{ v4("1.2.3.4", 5), v6("::ffff:1.2.3.4", 5), false, false },
		{ v4("0.0.0.0", 5), v6("::", 5), false, false },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const union softrdma_address *left = &cases[i].left, *right = &cases[i].right;
		assert_int_equal(softrdma_address_equal(left, right), cases[i].host);
		assert_int_equal(softrdma_address_equal(right, left), cases[i].host);
		assert_int_equal(softrdma_endpoint_equal(left, right), cases[i].endpoint);
		assert_int_equal(softrdma_endpoint_equal(right, left), cases[i].endpoint);
	}
}

static void
test_map(void **state)
{
	(void)state;
	const union softrdma_address of_v4 = v4("1.2.3.4", 5), of_v6 = v6("2001:db8::1", 5),
				     wanted = v6("::ffff:1.2.3.4", 5);
	struct sockaddr_in6 mapped = softrdma_address_map(&of_v4);
	assert_memory_equal(&mapped, &wanted.in6, sizeof(mapped));
	mapped = softrdma_address_map(&of_v6);
	assert_memory_equal(&mapped, &of_v6.in6, sizeof(mapped));
}

static void
test_unmap(void **state)
{
	(void)state;
	const union softrdma_address wanted = v4("1.2.3.4", 5);
	union softrdma_address addr = v6("::ffff:1.2.3.4", 5);
	softrdma_address_unmap(&addr);
	assert_memory_equal(&addr, &wanted, sizeof(addr));
	softrdma_address_unmap(&addr);
	assert_memory_equal(&addr, &wanted, sizeof(addr));

	static const char *const others[] = { "::1", "::1.2.3.4", "::fffe:1.2.3.4", "fe80::ffff:1.2.3.4" };
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		const union softrdma_address before = v6(others[i], 5);
		addr = before;
		softrdma_address_unmap(&addr);
		assert_memory_equal(&addr, &before, sizeof(addr));
	}
	/* IPv4, whatever the bytes after it look like */
	union softrdma_address before = v6("::ffff:1.2.3.4", 5);
	before.any.sa_family = AF_INET;
	addr = before;
	softrdma_address_unmap(&addr);
	assert_memory_equal(&addr, &before, sizeof(addr));
}

static void
test_names(void **state)
{
	(void)state;
	char buf[SOFTRDMA_NAME_SIZE];
	const union softrdma_address four = v4("1.2.3.4", 65535), six = v6("2001:db8::1", 7);
	assert_ptr_equal(softrdma_address_name(&four.any, buf, sizeof(buf)), buf);
	assert_string_equal(buf, "1.2.3.4:65535");
	/* brackets separate the port from the address */
	assert_ptr_equal(softrdma_address_name(&six.any, buf, sizeof(buf)), buf);
	assert_string_equal(buf, "[2001:db8::1]:7");
	/* a longer name than there is room for is cut */
	char small[8] = "1234567";
	assert_string_equal(softrdma_address_name(&four.any, small, sizeof(small) - 1), "1.2.3.");
	assert_int_equal(small[7], '\0');

	const struct sockaddr other = { .sa_family = AF_UNIX };
	assert_string_equal(softrdma_address_name(&other, buf, sizeof(buf)), "an unknown address");
}

/* the name of a connected socket's peer, and not of its own end */
static void
test_peer_name(void **state)
{
	(void)state;
	char buf[SOFTRDMA_NAME_SIZE], wanted[SOFTRDMA_NAME_SIZE];
	const union softrdma_address hosts[] = { v4("127.0.0.1", 0), v6("::1", 0) };
	for (size_t i = 0; i < 2; i++) {
		union softrdma_address addr = hosts[i];
		socklen_t len = softrdma_address_length(&addr.any);
		const int family = addr.any.sa_family;
		int listening = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (listening < 0 || bind(listening, &addr.any, len) != 0) {
			assert_int_equal(family, AF_INET6); /* a machine without IPv6 */
			close(listening);
			continue;
		}
		assert_int_equal(listen(listening, 1), 0);
		assert_int_equal(getsockname(listening, &addr.any, &len), 0);
		int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_string_equal(softrdma_peer_name(fd, buf, sizeof(buf)), "an unknown address");
		assert_int_equal(connect(fd, &addr.any, len), 0);
		snprintf(wanted, sizeof(wanted), i == 0 ? "127.0.0.1:%u" : "[::1]:%u",
			ntohs(i == 0 ? addr.in.sin_port : addr.in6.sin6_port));
		assert_string_equal(softrdma_peer_name(fd, buf, sizeof(buf)), wanted);
		close(fd);
		close(listening);
	}
	assert_string_equal(softrdma_peer_name(-1, buf, sizeof(buf)), "an unknown address");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_length),
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_map),
		cmocka_unit_test(test_unmap),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_peer_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
