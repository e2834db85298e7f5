/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* watched.h -- what the progress thread waits for */

#ifndef SOFTRDMA_WATCHED_H
#define SOFTRDMA_WATCHED_H

#include <stdint.h>
#include <sys/epoll.h>

/* both directions and the end of the stream, edge-triggered */
#define SOFTRDMA_WATCHED_EVENTS (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

struct softrdma_watched {
	/* the socket has something (EPOLL*); on the progress thread, no lock held */
	void (*handle)(struct softrdma_watched *watched, uint32_t events);
	/* nobody will call handle() any more; any thread, no lock held */
	void (*release)(struct softrdma_watched *watched);
	struct softrdma_watched *retired_next;
};

#endif /* SOFTRDMA_WATCHED_H */
