/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * incoming.h -- how many incoming connections are pending, from which sources, and which silent one makes room
 *
 * A flood opens thousands of connections a second, so each call takes the same time, however many are pending. The
 * caller holds the connection manager's lock in all calls.
 */

#ifndef SOFTRDMA_INCOMING_H
#define SOFTRDMA_INCOMING_H

#include <stdbool.h>

#include "softrdma/base/source.h"

struct softrdma_origin;
struct softrdma_incoming;

struct softrdma_incoming_links {
	struct softrdma_incoming *next, *prev;
};

/* one of them; a member of struct softrdma_pending */
struct softrdma_incoming {
	struct softrdma_origin *origin; /* NULL: not among them */
	bool silent;                    /* true until the first message is complete */
	unsigned
		rank; /* grows with the number of those of its source when it came: see softrdma_incoming_first_to_go() */
	struct softrdma_incoming_links of_source, of_rank; /* of a silent one */
};

/* adds a silent one; false: no memory */
bool softrdma_incoming_add(struct softrdma_incoming *one, const struct softrdma_source *source);
/*
 * True if there is room for it among those whose first message is complete: at most most_of_source of its source if it is
 * alone, and the fewer the more others there are. As many as they are, some room is left for a source that has none.
 */
bool softrdma_incoming_may_wait(const struct softrdma_incoming *one, unsigned most, unsigned most_of_source);
/* its first message is complete: it no longer makes room */
void softrdma_incoming_heard(struct softrdma_incoming *one);
void softrdma_incoming_remove(struct softrdma_incoming *one);

/* the source of one of them */
const struct softrdma_source *softrdma_incoming_source(const struct softrdma_incoming *one);

unsigned softrdma_incoming_count(void);
unsigned softrdma_incoming_count_of(const struct softrdma_source *source);

/*
 * The silent one that makes room: the oldest of this source; or of all sources, the oldest of those that came when
 * their source had most already, up to a factor of two. So the silent ones of a flood go before the only connection of
 * another source. NULL: none is silent.
 */
struct softrdma_incoming *softrdma_incoming_oldest_of(const struct softrdma_source *source);
struct softrdma_incoming *softrdma_incoming_first_to_go(void);

#endif /* SOFTRDMA_INCOMING_H */
