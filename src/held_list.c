/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* held_list.c -- the room for requests that RPMA_F_MORE holds back */

#include <stdlib.h>

#include "held_list.h"

void
rpmai_held_spares_init(struct held_spares *spares)
{
	pthread_mutex_init(&spares->lock, NULL);
	spares->first = NULL;
}

void
rpmai_held_spares_fini(struct held_spares *spares)
{
	while (spares->first)
		rpmai_held_spares_shrink(spares);
	pthread_mutex_destroy(&spares->lock);
}

/* the last that came; NULL if all are in use */
static struct held_list *
take_spare(struct held_spares *spares)
{
	pthread_mutex_lock(&spares->lock);
	struct held_list *list = spares->first;
	if (list)
		spares->first = list->next;
	pthread_mutex_unlock(&spares->lock);
	return list;
}

void
rpmai_held_spares_shrink(struct held_spares *spares)
{
	free(take_spare(spares));
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
	if (list == NULL)
		return;
	pthread_mutex_lock(&spares->lock);
	list->next = spares->first;
	spares->first = list;
	pthread_mutex_unlock(&spares->lock);
}
