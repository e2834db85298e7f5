/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * held_list.h -- the room for requests that RPMA_F_MORE holds back
 *
 * A connection has a list only while it holds something back. After that, the list goes to the spare ones of its peer. The
 * next connection takes the last one that came, which is still in the processor's cache: a thread that posts over a thousand
 * connections in turn fills the same few lines again and again, and the memory of a connection does not grow. So there are
 * as many lists as connections have held something back at the same time.
 */

#ifndef RPMAI_HELD_LIST_H
#define RPMAI_HELD_LIST_H

#include <pthread.h>
#include <stdalign.h>
#include <stddef.h>

struct held_list {
	struct held_list *next; /* the next spare one */
	size_t size;            /* bytes of room */
	alignas(max_align_t) char room[];
};

/* lists that no connection uses; any thread may call */
struct held_spares {
	pthread_mutex_t lock;
	struct held_list *first; /* the last that came */
};

void rpmai_held_spares_init(struct held_spares *spares);
void rpmai_held_spares_fini(struct held_spares *spares);

/* frees one: there is a connection less, so there may be a list less */
void rpmai_held_spares_shrink(struct held_spares *spares);

/* a list with room for this number of bytes at least, which is the caller's; NULL if there is no memory */
struct held_list *rpmai_held_list_take(struct held_spares *spares, size_t size);
/* ends the use of a list, which may be NULL */
void rpmai_held_list_return(struct held_spares *spares, struct held_list *list);

#endif /* RPMAI_HELD_LIST_H */
