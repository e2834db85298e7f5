/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_keeper_lease.c -- which client may use a name: each request in each state */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "keeper/lease.h"

#define US 1
#define THEM 2
#define READ 0
#define WRITE KEEPER_WANT_WRITE
#define TAKE (KEEPER_WANT_WRITE | KEEPER_WANT_TAKEOVER)
#define RESUME (KEEPER_WANT_WRITE | KEEPER_WANT_RESUME)

static const struct {
	bool writable, failed, unrevoked, held, settled;
	uint64_t last_writer;
	uint8_t want;
	enum lease_verdict verdict;
	enum keeper_reason reason;
	bool changes_writer;
} cases[] = {
	/* no client has it */
	{ true, false, false, false, false, 0, READ, LEASE_GRANT, 0, false },
	{ true, false, false, false, false, 0, WRITE, LEASE_GRANT, 0, true },
	{ true, false, false, false, false, 0, TAKE, LEASE_GRANT, 0, true },
	{ true, false, false, false, false, 0, RESUME, LEASE_REFUSE, KEEPER_REFUSED_REPLACED, true },
	{ true, false, false, false, false, US, WRITE, LEASE_GRANT, 0, false },
	{ true, false, false, false, false, US, RESUME, LEASE_GRANT, 0, false },
	{ true, false, false, false, false, THEM, WRITE, LEASE_GRANT, 0, true },
	{ true, false, false, false, false, THEM, RESUME, LEASE_REFUSE, KEEPER_REFUSED_SUPERSEDED, true },
	/* another client has it */
	{ true, false, false, true, true, THEM, READ, LEASE_GRANT, 0, false },
	{ true, false, false, true, true, THEM, WRITE, LEASE_REFUSE, KEEPER_REFUSED_BUSY, true },
	{ true, false, false, true, true, THEM, TAKE, LEASE_REVOKE_FIRST, 0, true },
	{ true, false, false, true, true, THEM, RESUME, LEASE_REFUSE, KEEPER_REFUSED_SUPERSEDED, true },
	/* this client has it by a connection that has not ended here yet */
	{ true, false, false, true, true, US, WRITE, LEASE_REFUSE, KEEPER_REFUSED_BUSY, false },
	{ true, false, false, true, true, US, TAKE, LEASE_REVOKE_FIRST, 0, false },
	{ true, false, false, true, true, US, RESUME, LEASE_REVOKE_FIRST, 0, false },
	/* another client gets it, and is not established yet */
	{ true, false, false, true, false, THEM, READ, LEASE_GRANT, 0, false },
	{ true, false, false, true, false, THEM, RESUME, LEASE_REFUSE, KEEPER_REFUSED_BUSY, true },
	{ true, false, false, true, false, THEM, WRITE, LEASE_REFUSE, KEEPER_REFUSED_BUSY, true },
	{ true, false, false, true, false, THEM, TAKE, LEASE_REFUSE, KEEPER_REFUSED_BUSY, true },
	/* memory whose medium has failed */
	{ true, true, false, false, false, 0, READ, LEASE_GRANT, 0, false },
	{ true, true, false, false, false, 0, WRITE, LEASE_REFUSE, KEEPER_REFUSED_MEDIUM, true },
	{ true, true, false, true, true, THEM, WRITE, LEASE_REFUSE, KEEPER_REFUSED_MEDIUM, true },
	{ true, true, false, true, true, THEM, TAKE, LEASE_REFUSE, KEEPER_REFUSED_MEDIUM, true },
	{ true, true, false, true, true, US, RESUME, LEASE_REFUSE, KEEPER_REFUSED_MEDIUM, false },
	/* memory of which an earlier holder may still have the keys */
	{ true, false, true, false, false, THEM, READ, LEASE_GRANT, 0, false },
	{ true, false, true, false, false, THEM, WRITE, LEASE_REFUSE, KEEPER_REFUSED_FAILURE, true },
	{ true, false, true, false, false, THEM, TAKE, LEASE_REFUSE, KEEPER_REFUSED_FAILURE, true },
	{ true, false, true, false, false, US, RESUME, LEASE_REFUSE, KEEPER_REFUSED_FAILURE, false },
	/* memory that is only read */
	{ false, false, false, false, false, 0, READ, LEASE_GRANT, 0, false },
	{ false, false, false, false, false, 0, WRITE, LEASE_REFUSE, KEEPER_REFUSED_READ_ONLY, true },
	{ false, false, false, false, false, US, TAKE, LEASE_REFUSE, KEEPER_REFUSED_READ_ONLY, false },
	{ false, false, false, false, false, US, RESUME, LEASE_REFUSE, KEEPER_REFUSED_READ_ONLY, false },
};

static void
all_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct lease lease = { cases[i].writable, cases[i].failed, cases[i].unrevoked,
			cases[i].held, cases[i].settled, cases[i].last_writer };
		const struct keeper_request request = { .want = cases[i].want, .client = US, .name = "n" };
		enum keeper_reason reason = 0;
		if (lease_decide(&lease, &request, &reason) != cases[i].verdict ||
			reason != cases[i].reason ||
			lease_changes_writer(&lease, &request) != cases[i].changes_writer)
			fail_msg("case %zu", i);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_cases),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
