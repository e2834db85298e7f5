/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * accounts.h -- accounts in the server's memory that clients transfer money between, and the lock for them
 *
 *	offset  size
 *	     0     8  how many clients there have been: fetch-and-add gives each its number
 *	     8     8  lock: 0 if it is free, else whose it is
 *	    16     8  state: which copy of the accounts counts, and how many transfers there have been
 *	    64        copies of 64 bytes: each the balances of all accounts, 8 bytes each, little-endian
 *
 * The three words are changed by remote atomics only, and have the byte order of the server's processor. The
 * last copy is where it begins. Each client has two copies of its own to write to, so that one of them is
 * never the one that counts: it writes the new balances there, and then changes the state by
 * compare-and-swap, which fails if anybody else has changed it meanwhile. Whatever a client does that died,
 * or that was late, the copy that counts is whole.
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

/* in the life of a server: each has copies of its own */
#define CLIENTS_MAX 64
#define COPY_FIRST (2 * CLIENTS_MAX)
#define COPIES (COPY_FIRST + 1)
#define SHARED_SIZE (COPIES_OFFSET + COPIES * COPY_SIZE)

/* the state: transfers in the upper bits, the copy in the lower ones */
#define COPY_BITS 8
#define STATE(transfers, copy) ((uint64_t)(transfers) << COPY_BITS | (copy))
#define STATE_TRANSFERS(state) ((state) >> COPY_BITS)
#define STATE_COPY(state) ((size_t)((state) & ((1U << COPY_BITS) - 1)))

_Static_assert(COPIES <= 1 << COPY_BITS, "the number of a copy fits");

/* the lock: another one each time that it is taken, and never 0 */
#define LOCK_OF(client, times) (((uint64_t)(client) + 1) << 32 | (uint32_t)(times))
#define LOCK_CLIENT(lock) (((lock) >> 32) - 1)

#endif /* ACCOUNTS_H */
