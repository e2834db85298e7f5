/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * users.h -- counts the users of an object that the program may delete before them
 *
 * users_close() ends the program's own reference. The object ends with that or with its last user, whichever
 * comes later. Exactly one call then returns true, and its caller frees the object. Any thread may call
 * these.
 */

#ifndef RPMAI_USERS_H
#define RPMAI_USERS_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>

#define USERS_CLOSED (1u << 31) /* the other bits count the users; memory runs out before they do */

struct users {
	atomic_uint state;
};

static inline void
users_init(struct users *users)
{
	atomic_init(&users->state, 0);
}

/* counts one more user; the caller knows that the object is not closed, or is a user already */
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

/* counts one more user, or returns false if the object is closed */
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

/* counts one user less; true if it was the last one of a closed object */
static inline bool
users_drop(struct users *users)
{
	const unsigned before = atomic_fetch_sub(&users->state, 1);
	assert((before & ~USERS_CLOSED) > 0);
	return before == (USERS_CLOSED | 1);
}

/* closes the object; true if it has no users */
static inline bool
users_close(struct users *users)
{
	const unsigned before = atomic_fetch_or(&users->state, USERS_CLOSED);
	assert(!(before & USERS_CLOSED));
	return before == 0;
}

#endif /* RPMAI_USERS_H */
