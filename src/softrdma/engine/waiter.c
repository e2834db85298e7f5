/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* waiter.c -- a thread that waits for a completion (CQE) serves its connections itself, and borrows their sockets */

#include <errno.h>
#include <poll.h>

#include "softrdma/base/notify.h"
#include "softrdma/engine/reader.h"
#include "softrdma/engine/waiter.h"

/* if a channel has more connections, borrowing and returning their sockets would cost more than a thread switch */
#define LINKS_MAX 4

#define CHANNEL_AT 0
#define LINKS_AT 1

struct waiter {
	struct softrdma_comp_channel *channel;
	struct softrdma_link *links[LINKS_MAX];
	unsigned count;
	struct pollfd pfds[LINKS_AT + LINKS_MAX]; /* fd is -1 for a link whose socket is not borrowed */
};

static void
borrow_links(struct waiter *waiter)
{
	waiter->pfds[CHANNEL_AT] = (struct pollfd){ .fd = waiter->channel->channel.fd, .events = POLLIN };
	waiter->count = softrdma_comp_channel_links(waiter->channel, waiter->links, LINKS_MAX);
	for (unsigned i = 0; i < waiter->count; i++)
		waiter->pfds[LINKS_AT + i] = (struct pollfd){
			.fd = softrdma_reader_borrow(waiter->links[i]),
			.events = POLLIN | POLLRDHUP,
		};
}

static void
return_link(struct waiter *waiter, unsigned i)
{
	if (waiter->pfds[LINKS_AT + i].fd < 0)
		return;
	waiter->pfds[LINKS_AT + i].fd = -1;
	softrdma_reader_return(waiter->links[i]);
}

static void
return_links(struct waiter *waiter)
{
	for (unsigned i = 0; i < waiter->count; i++) {
		return_link(waiter, i);
		softrdma_link_put(waiter->links[i]);
	}
}

/*
 * A socket may be readable although nothing can be received: a FLUSH runs, or the stream has ended. It would keep the
 * waiter busy, so it goes back to the progress thread, which waits for edges.
 */
static void
serve_links(struct waiter *waiter)
{
	softrdma_comp_channel_serve(waiter->channel);
	for (unsigned i = 0; i < waiter->count; i++) {
		const struct pollfd *pfd = &waiter->pfds[LINKS_AT + i];
		if (pfd->fd >= 0 && pfd->revents &&
			!softrdma_reader_serve_borrowed(waiter->links[i], pfd->revents))
			return_link(waiter, i);
	}
	softrdma_comp_channel_serve(NULL);
}

int
softrdma_waiter_wait(struct softrdma_comp_channel *channel)
{
	int ret = softrdma_notify_may_wait(channel->channel.fd);
	if (ret)
		return ret;

	struct waiter waiter = { .channel = channel };
	borrow_links(&waiter);
	do {
		if (poll(waiter.pfds, LINKS_AT + waiter.count, -1) < 0) {
			ret = errno;
			break;
		}
		if (waiter.pfds[CHANNEL_AT].revents)
			break;
		serve_links(&waiter);
	} while (!softrdma_comp_channel_has_event(channel));
	return_links(&waiter);
	return ret;
}
