/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_source.c -- which addresses count as the same offender, and how long access violations are remembered
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "softrdma/base/source.h"
#include "softrdma/bounds.h"

#define MEMORY_NS ((uint64_t)SOFTRDMA_OFFENDER_MEMORY_MS * 1000000u)

static struct softrdma_source
source(const char *text)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(1) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(2) };
	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		return softrdma_source_of((struct sockaddr *)&v4);
	assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
	return softrdma_source_of((struct sockaddr *)&v6);
}

static bool
same(const char *a, const char *b)
{
	const struct softrdma_source one = source(a), other = source(b);
	return softrdma_source_equal(&one, &other);
}

static void
test_who_is_the_same(void **state)
{
	(void)state;
	assert_true(same("192.0.2.1", "192.0.2.1"));
	assert_false(same("192.0.2.1", "192.0.2.2"));
	assert_true(same("192.0.2.1", "::ffff:192.0.2.1"));
	assert_false(same("::ffff:192.0.2.1", "::ffff:192.0.2.2"));
	/* a host may use any address of its network */
	assert_true(same("2001:db8::1", "2001:db8::ffff:0:0:2"));
	assert_false(same("2001:db8:0:1::1", "2001:db8:0:2::1"));
	/* but these prefixes are shared by all hosts */
	assert_false(same("fe80::1", "fe80::2"));
	assert_false(same("::1", "::2"));
	assert_false(same("::1", "127.0.0.1"));

	const struct sockaddr none = { .sa_family = AF_UNIX };
	static const struct softrdma_source nobody;
	const struct softrdma_source of_none = softrdma_source_of(&none);
	assert_true(softrdma_source_equal(&of_none, &nobody));
}

static void
test_what_is_known(void **state)
{
	(void)state;
	const struct softrdma_source one = source("192.0.2.1"), other = source("192.0.2.2");
	const uint64_t begin = 5 * MEMORY_NS;
	assert_int_equal(softrdma_source_violations(&one, begin), 0);
	assert_int_equal(softrdma_source_add_violation(&one, begin), 1);
	assert_int_equal(softrdma_source_add_violation(&one, begin + 10), 2);
	assert_int_equal(softrdma_source_add_violation(&other, begin + 20), 1);
	assert_int_equal(softrdma_source_violations(&one, begin + 20), 2);

	/* the time of the last violation counts */
	assert_int_equal(softrdma_source_violations(&one, begin + 10 + MEMORY_NS - 1), 2);
	assert_int_equal(softrdma_source_violations(&one, begin + 10 + MEMORY_NS), 0);
	assert_int_equal(softrdma_source_violations(&other, begin + 10 + MEMORY_NS), 1);
	assert_int_equal(softrdma_source_add_violation(&one, begin + 10 + MEMORY_NS), 1);
}

/* The newest offenders are remembered, and any number of them uses the same memory. */
static void
test_more_than_there_is_room_for(void **state)
{
	(void)state;
	const struct softrdma_source old = source("198.51.100.1"), faithful = source("198.51.100.2");
	uint64_t now = 20 * MEMORY_NS;
	assert_int_equal(softrdma_source_add_violation(&old, now++), 1);
	for (unsigned i = 0; i < 2 * SOFTRDMA_OFFENDERS_MAX; i++) {
		struct softrdma_source stranger = source("203.0.113.0");
		stranger.bytes[0] = 0x20;
		memcpy(stranger.bytes + 1, &i, sizeof(i));
		assert_int_equal(softrdma_source_add_violation(&faithful, now++), i + 1);
		assert_int_equal(softrdma_source_add_violation(&stranger, now++), 1);
		assert_int_equal(softrdma_source_violations(&stranger, now), 1);
	}
	assert_int_equal(softrdma_source_violations(&old, now), 0);
	assert_int_equal(softrdma_source_violations(&faithful, now), 2 * SOFTRDMA_OFFENDERS_MAX);
}

/* a source is shut out while it is remembered with as many violations as the limit, also if that is lowered */
static void
test_limit(void **state)
{
	(void)state;
	const struct softrdma_source one = source("192.0.2.3"), other = source("192.0.2.4");
	const uint64_t now = 40 * MEMORY_NS;
	unsigned before = softrdma_source_shut_outs();
	assert_int_equal(before, 0);
	softrdma_source_add_violation(&one, now);
	softrdma_source_add_violation(&one, now);
	assert_false(softrdma_source_is_shut_out(&one, now));
	assert_int_equal(softrdma_source_shut_outs(), before);
	softrdma_source_set_limit(3);
	before = softrdma_source_shut_outs();
	softrdma_source_set_limit(3);
	assert_false(softrdma_source_is_shut_out(&one, now));
	assert_int_equal(softrdma_source_shut_outs(), before);
	softrdma_source_add_violation(&one, now);
	assert_int_not_equal(softrdma_source_shut_outs(), before);
	assert_true(softrdma_source_is_shut_out(&one, now + MEMORY_NS - 1));
	assert_false(softrdma_source_is_shut_out(&one, now + MEMORY_NS));
	assert_false(softrdma_source_is_shut_out(&other, now));

	softrdma_source_add_violation(&other, now);
	before = softrdma_source_shut_outs();
	softrdma_source_set_limit(1);
	assert_true(softrdma_source_is_shut_out(&other, now));
	assert_int_not_equal(softrdma_source_shut_outs(), before);
	softrdma_source_set_limit(0);
	assert_false(softrdma_source_is_shut_out(&other, now));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_is_the_same),
		cmocka_unit_test(test_what_is_known),
		cmocka_unit_test(test_more_than_there_is_room_for),
		cmocka_unit_test(test_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
