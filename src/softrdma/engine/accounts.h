/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * accounts.h -- what the connections of each listener have counted, and whom it has refused
 *
 * A listener's address has an account, which stays when the listener is closed: one that listens there again goes on
 * counting. Account 0 is for connections of no listener: outgoing ones, and queue pairs that are connected by hand. If
 * there are too many addresses, the rest share the last account.
 *
 * A connection counts for itself (core/counters.h). Its account gets the sum when its queue pair is destroyed; until then
 * it must be added (softrdma_links_sum_account()). Any thread, any lock but that of the accounts.
 */

#ifndef SOFTRDMA_ACCOUNTS_H
#define SOFTRDMA_ACCOUNTS_H

#include <stdint.h>

#include "softrdma/base/sockaddr.h"
#include "softrdma/softrdma.h"

#define SOFTRDMA_ACCOUNT_OF_NO_LISTENER 0u

/* why a listener has refused a connection */
enum softrdma_refusal {
	SOFTRDMA_REFUSED_BY_APPLICATION,
	SOFTRDMA_REFUSED_BUSY,           /* too many requests are pending, or no memory for one */
	SOFTRDMA_REFUSED_CLOSED,         /* the listener was closed meanwhile */
	SOFTRDMA_REFUSED_VERSION,        /* another version of the protocol */
	SOFTRDMA_REFUSED_DAMAGED,        /* the request was damaged on its way */
	SOFTRDMA_REFUSED_PLAIN,          /* no TLS where TLS is needed */
	SOFTRDMA_REFUSED_UNTRUSTED,      /* TLS has failed */
	SOFTRDMA_REFUSED_NOT_UNDERSTOOD, /* not the protocol of the device */
	SOFTRDMA_REFUSED_SILENT,         /* no complete request in time, or before others needed the room */
	SOFTRDMA_REFUSED_SHUT_OUT,       /* too many wrong keys from that address */
	SOFTRDMA_REFUSALS,
};

struct softrdma_account {
	char listener[SOFTRDMA_NAME_SIZE]; /* HOST:PORT; empty: no listener */
	struct softrdma_stats past;        /* of queue pairs that are destroyed */
	uint64_t refused[SOFTRDMA_REFUSALS];
};

/* the account of a listener at this address */
unsigned softrdma_account_of(const struct sockaddr *addr);
void softrdma_account_refuse(unsigned account, enum softrdma_refusal why);
void softrdma_account_add(unsigned account, const struct softrdma_stats *stats);

/* accounts from 0 to this number, which it does not reach, are in use; it only grows */
unsigned softrdma_accounts_count(void);
/* copies one that is in use */
void softrdma_account_get(unsigned account, struct softrdma_account *copy);

#endif /* SOFTRDMA_ACCOUNTS_H */
