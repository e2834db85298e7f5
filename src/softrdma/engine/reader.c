/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* reader.c -- which thread reads the socket of a connection */

#include <assert.h>
#include <sys/epoll.h>

#include "softrdma/engine/connection.h"
#include "softrdma/engine/reader.h"

/* The socket has one reader at a time: it goes from the progress thread to another, and back. */
static void
set_reader(struct softrdma_connection *conn, enum softrdma_reader reader)
{
	assert((conn->reader == SOFTRDMA_READER_ENGINE) != (reader == SOFTRDMA_READER_ENGINE));
	conn->reader = reader;
}

/* false: epoll failed, and the progress thread goes on reading the socket */
static bool
give_socket(struct softrdma_connection *conn, enum softrdma_reader reader)
{
	conn->wants_space = conn->transport->is_full(conn);
	set_reader(conn, reader);
	if (softrdma_connection_watch_again(conn) == 0)
		return true;
	set_reader(conn, SOFTRDMA_READER_ENGINE);
	return false;
}

/* the progress thread reads the socket again; the kernel reports once more what has come in between */
static void
take_socket_back(struct softrdma_connection *conn)
{
	set_reader(conn, SOFTRDMA_READER_ENGINE);
	conn->wants_space = conn->transport->is_full(conn);
	if (conn->fd >= 0)
		softrdma_connection_watch_again(conn);
}

/* --- workers --- */

bool
softrdma_reader_borrow(struct softrdma_connection *conn)
{
	if (conn->fd < 0 || conn->reader != SOFTRDMA_READER_ENGINE)
		return false;
	return give_socket(conn, SOFTRDMA_READER_WORKER);
}

void
softrdma_reader_return(struct softrdma_connection *conn)
{
	assert(conn->reader == SOFTRDMA_READER_WORKER);
	take_socket_back(conn);
}

/* --- leads --- */

static void
leave_lead(struct softrdma_connection *conn)
{
	/* an entry of an epoll lives as long as a copy of the socket does, also in another process */
	epoll_ctl(conn->led_by->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
	conn->led_by = NULL;
}

bool
softrdma_reader_hand_over(struct softrdma_connection *conn, struct softrdma_lead *lead)
{
	if (conn->fd < 0 || conn->reader != SOFTRDMA_READER_ENGINE)
		return false;
	/* level-triggered: who is told may leave bytes to the next one */
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = &conn->link };
	if (epoll_ctl(lead->epoll_fd, EPOLL_CTL_ADD, conn->fd, &ev) != 0)
		return false;
	conn->led_by = lead;
	if (give_socket(conn, SOFTRDMA_READER_LEAD))
		return true;
	leave_lead(conn);
	return false;
}

void
softrdma_reader_give_back(struct softrdma_connection *conn, const struct softrdma_lead *lead)
{
	if (conn->led_by != lead)
		return;
	leave_lead(conn);
	take_socket_back(conn);
}
