/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * users.h -- how many objects use another one that a program may delete before them
 *
 * The program's own pointer ends with users_close(). The object itself ends with that or with the last user,
 * whichever comes later: exactly one call answers true, and its caller frees the object. Any thread.
 */

#ifndef RPMAI_USERS_H
#define RPMAI_USERS_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>

#define USERS_CLOSED (1u << 31) /* the rest is their number: memory ends before it does */

struct users {
	atomic_uint state;
};

static inline void
users_init(struct users *users)
{
	atomic_init(&users->state, 0);
}

/* one more; the caller knows that the object is not closed, or is a user already */
static inline void
users_add(struct users *users)
{
	atomic_fetch_add(&users->state, 1);
}

static inline bool
users_are_closed(const struct users *users)
{
	return atomic_load(&users->state) & USERS_CLOSED;
}

/* one more, unless the object is closed: then false */
static inline bool
users_add_unless_closed(struct users *users)
{
	unsigned state = atomic_load(&users->state);
	do {
		if (state & USERS_CLOSED)
			return false;
	} while (!atomic_compare_exchange_weak(&users->state, &state, state + 1));
	return true;
}

/* one less; true: it was the last one, and the object is closed */
static inline bool
users_drop(struct users *users)
{
	const unsigned before = atomic_fetch_sub(&users->state, 1);
	assert((before & ~USERS_CLOSED) > 0);
	return before == (USERS_CLOSED | 1);
}

/* true: there are none */
static inline bool
users_close(struct users *users)
{
	const unsigned before = atomic_fetch_or(&users->state, USERS_CLOSED);
	assert(!(before & USERS_CLOSED));
	return before == 0;
}

#endif /* RPMAI_USERS_H */
