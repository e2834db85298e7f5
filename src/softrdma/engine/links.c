/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* links.c -- the list of all connections of the device */

#include <pthread.h>
#include <stddef.h>

#include "softrdma/base/fork.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/links.h"

static pthread_mutex_t links_lock = PTHREAD_MUTEX_INITIALIZER;
static struct softrdma_connection *links;

void
softrdma_links_after_fork(void)
{
	softrdma_fork_keep(links);
	links = NULL;
	links_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

void
softrdma_links_add(struct softrdma_link *link)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	softrdma_link_get(link);
	pthread_mutex_lock(&links_lock);
	conn->prev = NULL;
	conn->next = links;
	if (conn->next)
		conn->next->prev = conn;
	links = conn;
	conn->listed = true;
	pthread_mutex_unlock(&links_lock);
}

void
softrdma_links_remove(struct softrdma_link *link)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	pthread_mutex_lock(&links_lock);
	if (conn->prev)
		conn->prev->next = conn->next;
	else
		links = conn->next;
	if (conn->next)
		conn->next->prev = conn->prev;
	conn->listed = false;
	pthread_mutex_unlock(&links_lock);
	softrdma_link_put(link);
}

bool
softrdma_links_have_qp_num(uint32_t qp_num)
{
	bool have = false;
	pthread_mutex_lock(&links_lock);
	for (struct softrdma_connection *conn = links; conn && !have; conn = conn->next)
		have = conn->link.requester.qp_num == qp_num;
	pthread_mutex_unlock(&links_lock);
	return have;
}

/*
 * The walk goes to the next connection only from one that is still listed. If that one has left the list meanwhile, the
 * walk starts over, so visit() may be called a second time.
 */
static void
visit_all(int (*take)(pthread_mutex_t *lock),
	void (*visit)(struct softrdma_connection *conn, const void *arg), const void *arg)
{
	pthread_mutex_lock(&links_lock);
	struct softrdma_connection *conn = links;
	if (conn)
		softrdma_link_get(&conn->link);
	while (conn) {
		pthread_mutex_unlock(&links_lock);
		if (take(&conn->link.lock) == 0) {
			visit(conn, arg);
			pthread_mutex_unlock(&conn->link.lock);
		}
		pthread_mutex_lock(&links_lock);

		struct softrdma_connection *next = conn->listed ? conn->next : links;
		if (next)
			softrdma_link_get(&next->link);
		softrdma_link_put(&conn->link);
		conn = next;
	}
	pthread_mutex_unlock(&links_lock);
}

void
softrdma_links_for_each(void (*visit)(struct softrdma_connection *conn, const void *arg), const void *arg)
{
	visit_all(pthread_mutex_lock, visit, arg);
}

void
softrdma_links_try_each(void (*visit)(struct softrdma_connection *conn, const void *arg), const void *arg)
{
	visit_all(pthread_mutex_trylock, visit, arg);
}
