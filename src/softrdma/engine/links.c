/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* links.c -- the list of all connections of the device */

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "softrdma/base/fork.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/links.h"

/* lists by which a queue pair is found: with 10,000 of them each has ten */
#define QP_NUM_LISTS 1024

static pthread_mutex_t links_lock = PTHREAD_MUTEX_INITIALIZER;
static struct softrdma_connection *links;
static struct softrdma_connection *by_qp_num[QP_NUM_LISTS];

static struct softrdma_connection **
list_of(uint32_t qp_num)
{
	return &by_qp_num[qp_num % QP_NUM_LISTS];
}

void
softrdma_links_after_fork(void)
{
	softrdma_fork_keep(links);
	links = NULL;
	memset(by_qp_num, 0, sizeof(by_qp_num));
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
	struct softrdma_connection **list = list_of(link->requester.qp_num);
	conn->next_alike = *list;
	*list = conn;
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
	struct softrdma_connection **at = list_of(link->requester.qp_num);
	while (*at != conn)
		at = &(*at)->next_alike;
	*at = conn->next_alike;
	conn->listed = false;
	pthread_mutex_unlock(&links_lock);
	softrdma_link_put(link);
}

bool
softrdma_links_have_qp_num(uint32_t qp_num)
{
	bool have = false;
	pthread_mutex_lock(&links_lock);
	for (struct softrdma_connection *conn = *list_of(qp_num); conn && !have; conn = conn->next_alike)
		have = conn->link.requester.qp_num == qp_num;
	pthread_mutex_unlock(&links_lock);
	return have;
}

/* the first connection of the engine (NULL: of any) from this one on, referenced. The list's lock is held. */
static struct softrdma_connection *
find_from(struct softrdma_connection *conn, const struct softrdma_engine *engine)
{
	while (conn && engine && softrdma_engine_of(&conn->watched) != engine)
		conn = conn->next;
	if (conn)
		softrdma_link_get(&conn->link);
	return conn;
}

/*
 * The walk goes to the next connection only from one that is still listed. If that one has left the list meanwhile, the
 * walk starts over, so visit() may be called a second time.
 */
static void
visit_all(const struct softrdma_engine *engine, int (*take)(pthread_mutex_t *lock),
	void (*visit)(struct softrdma_connection *conn, const void *arg), const void *arg)
{
	pthread_mutex_lock(&links_lock);
	struct softrdma_connection *conn = find_from(links, engine);
	while (conn) {
		pthread_mutex_unlock(&links_lock);
		if (take(&conn->link.lock) == 0) {
			visit(conn, arg);
			pthread_mutex_unlock(&conn->link.lock);
		}
		pthread_mutex_lock(&links_lock);

		struct softrdma_connection *next = find_from(conn->listed ? conn->next : links, engine);
		softrdma_link_put(&conn->link);
		conn = next;
	}
	pthread_mutex_unlock(&links_lock);
}

void
softrdma_links_for_each(void (*visit)(struct softrdma_connection *conn, const void *arg), const void *arg)
{
	visit_all(NULL, pthread_mutex_lock, visit, arg);
}

void
softrdma_links_each_of(const struct softrdma_engine *engine,
	void (*visit)(struct softrdma_connection *conn, const void *arg), const void *arg)
{
	visit_all(engine, pthread_mutex_lock, visit, arg);
}

void
softrdma_links_try_each_of(const struct softrdma_engine *engine,
	void (*visit)(struct softrdma_connection *conn, const void *arg), const void *arg)
{
	visit_all(engine, pthread_mutex_trylock, visit, arg);
}
