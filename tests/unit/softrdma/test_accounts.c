/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_accounts.c -- what the connections of each listener have counted, and whom it has refused */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <string.h>

#include "softrdma/base/fork.h"
#include "softrdma/bounds.h"
#include "softrdma/engine/accounts.h"

static unsigned
account_of_port(uint16_t port)
{
	const struct sockaddr_in addr = { .sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	return softrdma_account_of((const struct sockaddr *)&addr);
}

static int
forget(void **state)
{
	(void)state;
	softrdma_fork_forget();
	return 0;
}

/* a listener that is closed and opened again goes on with its account */
static void
test_one_for_each_address(void **state)
{
	(void)state;
	struct softrdma_account account;
	assert_int_equal(softrdma_accounts_count(), 1);
	softrdma_account_get(SOFTRDMA_ACCOUNT_OF_NO_LISTENER, &account);
	assert_string_equal(account.listener, "");
	const unsigned first = account_of_port(7204), second = account_of_port(7205);
	assert_int_not_equal(first, SOFTRDMA_ACCOUNT_OF_NO_LISTENER);
	assert_int_not_equal(first, second);
	assert_int_equal(account_of_port(7204), first);
	assert_int_equal(account_of_port(7205), second);
	assert_int_equal(softrdma_accounts_count(), 3);
	softrdma_account_get(first, &account);
	assert_string_equal(account.listener, "127.0.0.1:7204");
}

/* what one gets, no other one has */
static void
test_sums(void **state)
{
	(void)state;
	struct softrdma_account account;
	struct softrdma_stats stats;
	memset(&stats, 0, sizeof(stats));
	stats.connections = 1;
	stats.flush_times[SOFTRDMA_STATS_FLUSH_TIMES - 1] = 3; /* the last member */
	const unsigned first = account_of_port(7204), second = account_of_port(7205);
	for (int i = 0; i < 2; i++)
		softrdma_account_add(second, &stats);
	softrdma_account_refuse(second, SOFTRDMA_REFUSED_SHUT_OUT);
	softrdma_account_get(second, &account);
	assert_int_equal(account.past.connections, 2);
	assert_int_equal(account.past.flush_times[SOFTRDMA_STATS_FLUSH_TIMES - 1], 6);
	assert_int_equal(account.refused[SOFTRDMA_REFUSED_SHUT_OUT], 1);
	assert_int_equal(account.refused[SOFTRDMA_REFUSED_SILENT], 0);
	softrdma_account_get(first, &account);
	assert_int_equal(account.past.connections, 0);
	assert_int_equal(account.refused[SOFTRDMA_REFUSED_SHUT_OUT], 0);
}

/* a program that listens at ever new addresses takes no ever more memory */
static void
test_too_many_addresses(void **state)
{
	(void)state;
	struct softrdma_account account;
	for (unsigned i = 0; i < 3 * SOFTRDMA_ACCOUNTS_MAX; i++) {
		const unsigned got = account_of_port((uint16_t)(1000 + i));
		const unsigned last = SOFTRDMA_ACCOUNTS_MAX - 1;
		assert_int_equal(got, i + 1 < last ? i + 1 : last);
		softrdma_account_refuse(got, SOFTRDMA_REFUSED_BUSY);
	}
	assert_int_equal(softrdma_accounts_count(), SOFTRDMA_ACCOUNTS_MAX);
	softrdma_account_get(SOFTRDMA_ACCOUNTS_MAX - 1, &account);
	assert_string_equal(account.listener, "others");
	assert_int_equal(account.refused[SOFTRDMA_REFUSED_BUSY], 2 * SOFTRDMA_ACCOUNTS_MAX + 2);
	softrdma_account_get(SOFTRDMA_ACCOUNTS_MAX - 2, &account);
	assert_int_equal(account.refused[SOFTRDMA_REFUSED_BUSY], 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_one_for_each_address, forget),
		cmocka_unit_test_setup(test_sums, forget),
		cmocka_unit_test_setup(test_too_many_addresses, forget),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
