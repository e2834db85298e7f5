/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* accounts.c -- what the connections of each listener have counted, and whom it has refused */

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "softrdma/base/fork.h"
#include "softrdma/base/tables_lock.h"
#include "softrdma/bounds.h"
#include "softrdma/core/counters.h"
#include "softrdma/engine/accounts.h"

#define OTHERS (SOFTRDMA_ACCOUNTS_MAX - 1)

static struct softrdma_account accounts[SOFTRDMA_ACCOUNTS_MAX];
static unsigned count = 1; /* there is always one of no listener */

static void
after_fork(void)
{
	memset(accounts, 0, sizeof(accounts));
	count = 1;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

/* the lock is held */
static unsigned
find_or_add(const char *listener)
{
	unsigned at = 1;
	while (at < count && strcmp(accounts[at].listener, listener) != 0)
		at++;
	if (at < count)
		return at;
	if (at > OTHERS)
		return OTHERS;
	snprintf(accounts[at].listener, sizeof(accounts[at].listener), "%s",
		at == OTHERS ? "others" : listener);
	count++;
	return at;
}

unsigned
softrdma_account_of(const struct sockaddr *addr)
{
	char name[SOFTRDMA_NAME_SIZE];
	const char *listener = softrdma_address_name(addr, name, sizeof(name));
	softrdma_tables_lock();
	const unsigned account = find_or_add(listener);
	softrdma_tables_unlock();
	return account;
}

void
softrdma_account_refuse(unsigned account, enum softrdma_refusal why)
{
	assert(why < SOFTRDMA_REFUSALS);
	softrdma_tables_lock();
	assert(account < count);
	accounts[account].refused[why]++;
	softrdma_tables_unlock();
}

void
softrdma_account_add(unsigned account, const struct softrdma_stats *stats)
{
	softrdma_tables_lock();
	assert(account < count);
	softrdma_stats_add(&accounts[account].past, stats);
	softrdma_tables_unlock();
}

unsigned
softrdma_accounts_count(void)
{
	softrdma_tables_lock();
	const unsigned in_use = count;
	softrdma_tables_unlock();
	return in_use;
}

void
softrdma_account_get(unsigned account, struct softrdma_account *copy)
{
	softrdma_tables_lock();
	assert(account < count);
	*copy = accounts[account];
	softrdma_tables_unlock();
}
