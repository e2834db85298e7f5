/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * accounts.h -- accounts in the server's memory that clients transfer money between, and their lock
 *
 *	offset  size
 *	     0     8  number of clients so far: fetch-and-add gives each client its number
 *	     8     8  lock: 0 if it is free, else a value that tells its holder
 *	    16     8  state: which copy of the accounts counts, and the number of transfers so far
 *	    64        copies of 64 bytes: each has the balances of all accounts, 8 bytes each, little-endian
 *
 * Only remote atomics change the three words, which have the byte order of the server's processor. The last
 * copy is the initial one. Each client has two copies of its own to write to, so that one of them is never
 * the copy that counts. It writes the new balances there. Then it changes the state by compare-and-swap,
 * which fails if another client has changed it meanwhile. So the copy that counts is always whole, even if a
 * client died or was late.
 */

#ifndef ACCOUNTS_H
#define ACCOUNTS_H

#include <stdint.h>

#define CLIENTS_OFFSET 0
#define LOCK_OFFSET 8
#define STATE_OFFSET 16
#define COPIES_OFFSET 64
#define WORD_SIZE 8

#define ACCOUNTS 8
#define ACCOUNT_SIZE 8
#define COPY_SIZE (ACCOUNTS * ACCOUNT_SIZE)
#define BALANCE_FIRST 1000

/* during the life of a server, since each client has copies of its own */
#define CLIENTS_MAX 64
#define COPY_FIRST (2 * CLIENTS_MAX)
#define COPIES (COPY_FIRST + 1)
#define SHARED_SIZE (COPIES_OFFSET + COPIES * COPY_SIZE)

/* the state: number of transfers in the upper bits, number of the copy in the lower bits */
#define COPY_BITS 8
#define STATE(transfers, copy) ((uint64_t)(transfers) << COPY_BITS | (copy))
#define STATE_TRANSFERS(state) ((state) >> COPY_BITS)
#define STATE_COPY(state) ((size_t)((state) & ((1U << COPY_BITS) - 1)))

_Static_assert(COPIES <= 1 << COPY_BITS, "the number of a copy fits");

/* the lock: another value each time it is taken, and never 0 */
#define LOCK_OF(client, times) (((uint64_t)(client) + 1) << 32 | (uint32_t)(times))
#define LOCK_CLIENT(lock) (((lock) >> 32) - 1)

#endif /* ACCOUNTS_H */
