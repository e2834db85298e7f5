/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* held_list.c -- the room for requests that RPMA_F_MORE holds back */

#include <stdbool.h>
#include <stdlib.h>

#include "held_list.h"

void
rpmai_held_spares_init(struct held_spares *spares)
{
	pthread_mutex_init(&spares->lock, NULL);
	spares->first = NULL;
	spares->count = 0;
}

void
rpmai_held_spares_fini(struct held_spares *spares)
{
	while (spares->first) {
		struct held_list *list = spares->first;
		spares->first = list->next;
		free(list);
	}
	pthread_mutex_destroy(&spares->lock);
}

/* Another thread has the lock for a moment only. But malloc() has a place of its own for each thread, so that does not wait. */
static struct held_list *
take_spare(struct held_spares *spares)
{
	if (pthread_mutex_trylock(&spares->lock) != 0)
		return NULL;
	struct held_list *list = spares->first;
	if (list) {
		spares->first = list->next;
		spares->count--;
	}
	pthread_mutex_unlock(&spares->lock);
	return list;
}

struct held_list *
rpmai_held_list_take(struct held_spares *spares, size_t size)
{
	struct held_list *list = take_spare(spares);
	if (list && list->size >= size)
		return list;

	/* the connection that used it had smaller queues */
	free(list);
	list = malloc(sizeof(*list) + size);
	if (list)
		list->size = size;
	return list;
}

void
rpmai_held_list_return(struct held_spares *spares, struct held_list *list)
{
	bool is_kept = false;
	if (list == NULL)
		return;
	if (pthread_mutex_trylock(&spares->lock) == 0) {
		is_kept = spares->count < HELD_SPARES_MAX;
		if (is_kept) {
			list->next = spares->first;
			spares->first = list;
			spares->count++;
		}
		pthread_mutex_unlock(&spares->lock);
	}
	if (!is_kept)
		free(list);
}
