/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* links.c -- the list of all connections of the device */

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "softrdma/base/fork.h"
#include "softrdma/core/pd.h"
#include "softrdma/engine/accounts.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/lead.h"
#include "softrdma/engine/links.h"
#include "softrdma/samehost/shm_path.h"

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

static void
after_fork(void)
{
	softrdma_fork_keep(links);
	links = NULL;
	memset(by_qp_num, 0, sizeof(by_qp_num));
	links_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

/* --- what they have counted --- */

static void
add_counters(const struct softrdma_connection *conn, struct softrdma_stats *sum)
{
	softrdma_counters_sum(&conn->link.requester.ring.counters, sum);
	softrdma_counters_sum(&conn->link.responder.counters, sum);
}

/* the domain that the connection's keys belong to; it lives longer than its queue pairs */
static struct softrdma_pd *
domain_of(const struct softrdma_connection *conn)
{
	return (struct softrdma_pd *)(uintptr_t)conn->link.responder.pd;
}

/* leaves what a connection has counted with those that stay. The list's lock is held, so no sum misses it or has it twice. */
static void
hand_over(const struct softrdma_connection *conn)
{
	struct softrdma_stats stats = { 0 };
	add_counters(conn, &stats);
	softrdma_account_add(conn->account, &stats);
	softrdma_stats_add(&domain_of(conn)->past, &stats);
}

void
softrdma_links_sum_account(unsigned account, struct softrdma_stats *sum)
{
	struct softrdma_account past;
	pthread_mutex_lock(&links_lock);
	softrdma_account_get(account, &past);
	*sum = past.past;
	for (const struct softrdma_connection *conn = links; conn; conn = conn->next) {
		if (conn->account == account)
			add_counters(conn, sum);
	}
	pthread_mutex_unlock(&links_lock);
}

void
softrdma_get_stats(struct ibv_pd *pd, struct softrdma_stats *stats)
{
	const struct ibv_pd *domain = softrdma_domain_of_keys(pd);
	pthread_mutex_lock(&links_lock);
	*stats = ((const struct softrdma_pd *)domain)->past;
	for (const struct softrdma_connection *conn = links; conn; conn = conn->next) {
		if (conn->link.responder.pd == domain)
			add_counters(conn, stats);
	}
	pthread_mutex_unlock(&links_lock);
}

/* --- the list --- */

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
	struct softrdma_connection **list = list_of(link->requester.ring.qp_num);
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
	hand_over(conn);
	if (conn->prev)
		conn->prev->next = conn->next;
	else
		links = conn->next;
	if (conn->next)
		conn->next->prev = conn->prev;
	struct softrdma_connection **at = list_of(link->requester.ring.qp_num);
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
		have = conn->link.requester.ring.qp_num == qp_num;
	pthread_mutex_unlock(&links_lock);
	return have;
}

/*
 * The walk goes to the next connection only from one that is still listed. If that one has left the list meanwhile, the
 * walk starts over, so visit() may be called a second time.
 */
void
softrdma_links_for_each(void (*visit)(struct softrdma_connection *conn, const void *arg), const void *arg)
{
	pthread_mutex_lock(&links_lock);
	struct softrdma_connection *conn = links;
	if (conn)
		softrdma_link_get(&conn->link);
	while (conn) {
		pthread_mutex_unlock(&links_lock);
		pthread_mutex_lock(&conn->link.lock);
		visit(conn, arg);
		pthread_mutex_unlock(&conn->link.lock);
		pthread_mutex_lock(&links_lock);

		struct softrdma_connection *next = conn->listed ? conn->next : links;
		if (next)
			softrdma_link_get(&next->link);
		softrdma_link_put(&conn->link);
		conn = next;
	}
	pthread_mutex_unlock(&links_lock);
}

/*
 * A queue pair may outlive its id, and so the engines: then only the thread that destroys it still uses its link. When
 * engines start again, there may be fewer of them. So the first one has what the connection waits for.
 */
static void
engines_end(struct softrdma_connection *conn, const void *arg)
{
	(void)arg;
	softrdma_shm_path_end(&conn->link);
	softrdma_engine_forget(&conn->watched);
}

void
softrdma_links_end(void)
{
	softrdma_lead_end_all();
	softrdma_links_for_each(engines_end, NULL);
}
