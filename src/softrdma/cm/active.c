/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* active.c -- the steps of an outgoing connection, from connect(2) to the reply */

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "softrdma/base/sockaddr.h"
#include "softrdma/bounds.h"
#include "softrdma/cm/active.h"
#include "softrdma/cm/pending.h"
#include "softrdma/wire/cm_msg.h"
#include "softrdma/wire/credentials.h"

int
softrdma_active_connect(int fd, const struct sockaddr *peer)
{
	int ret = connect(fd, peer, softrdma_address_length(peer));
	return ret == 0 || errno == EINPROGRESS ? 0 : errno;
}

struct softrdma_pending *
softrdma_active_new(const struct softrdma_pending_kind *kind, int fd, int *error)
{
	struct softrdma_pending *pending = softrdma_pending_new(kind, fd, error);
	if (pending == NULL)
		return NULL;
	pending->step = SOFTRDMA_ACTIVE_CONNECTING;
	softrdma_timer_set_ms(&pending->deadline, SOFTRDMA_PEER_TIMEOUT_MS);
	return pending;
}

static void
fail_by_errno(struct softrdma_pending *pending, enum softrdma_active_failure failure, int errnum)
{
	pending->kind->active->failed(pending, failure, errnum);
}

static void
fail(struct softrdma_pending *pending, enum softrdma_active_failure failure)
{
	fail_by_errno(pending, failure, 0);
}

/* sends the first message on a stream that is ready for it */
static void
send_request(struct softrdma_pending *pending)
{
	int error = softrdma_cm_msg_send_request(pending->fd, pending->tls, &pending->msg);
	if (error) {
		fail_by_errno(pending, SOFTRDMA_ACTIVE_NOT_SENT, error);
		return;
	}
	pending->step = SOFTRDMA_ACTIVE_AWAITING_REPLY;
	memset(&pending->msg, 0, sizeof(pending->msg));
	softrdma_timer_set_ms(&pending->deadline, SOFTRDMA_CONNECT_TIMEOUT_MS);
}

static void
go_on_with_tls(struct softrdma_pending *pending)
{
	switch (softrdma_cm_msg_secure(pending->tls)) {
	case SOFTRDMA_CM_MSG_INCOMPLETE:
		return;
	case SOFTRDMA_CM_MSG_COMPLETE:
		send_request(pending);
		return;
	case SOFTRDMA_CM_MSG_NOT_OURS:
		fail(pending, SOFTRDMA_ACTIVE_NO_TLS);
		return;
	default:
		fail(pending, SOFTRDMA_ACTIVE_NOT_TRUSTED);
		return;
	}
}

static void
begin_tls(struct softrdma_pending *pending, struct softrdma_credentials *credentials)
{
	int error = softrdma_credentials_start_tls(credentials, pending->fd, true, &pending->tls);
	if (error) {
		fail_by_errno(pending, SOFTRDMA_ACTIVE_NOT_SENT, error);
		return;
	}
	pending->step = SOFTRDMA_ACTIVE_SECURING;
	go_on_with_tls(pending);
}

static void
finish_connecting(struct softrdma_pending *pending)
{
	const struct softrdma_active_ops *ops = pending->kind->active;
	int error = 0;
	socklen_t len = sizeof(error);
	if (getsockopt(pending->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error) {
		fail_by_errno(pending, SOFTRDMA_ACTIVE_NOT_CONNECTED, error);
		return;
	}
	if (!ops->connected(pending))
		return;
	struct softrdma_credentials *credentials = ops->credentials(pending);
	if (credentials)
		begin_tls(pending, credentials);
	else
		send_request(pending);
}

/* the peer checks this side's certificate last, after SECURING: the end of the stream may come from TLS then too */
static void
stream_ended(struct softrdma_pending *pending)
{
	bool by_tls = pending->tls && *softrdma_tls_why(pending->tls);
	fail(pending, by_tls ? SOFTRDMA_ACTIVE_NOT_TRUSTED : SOFTRDMA_ACTIVE_ENDED);
}

static void
read_reply(struct softrdma_pending *pending)
{
	switch (softrdma_cm_msg_read(pending->fd, pending->tls, &pending->msg)) {
	case SOFTRDMA_CM_MSG_INCOMPLETE:
		return;
	case SOFTRDMA_CM_MSG_COMPLETE:
		pending->kind->active->replied(pending);
		return;
	case SOFTRDMA_CM_MSG_ENDED:
		stream_ended(pending);
		return;
	case SOFTRDMA_CM_MSG_NOT_OURS:
		fail(pending, SOFTRDMA_ACTIVE_NOT_OURS);
		return;
	case SOFTRDMA_CM_MSG_OTHER_VERSION:
		fail(pending, SOFTRDMA_ACTIVE_OTHER_VERSION);
		return;
	case SOFTRDMA_CM_MSG_DAMAGED:
		fail(pending, SOFTRDMA_ACTIVE_DAMAGED);
		return;
	}
}

void
softrdma_active_progress(struct softrdma_pending *pending, uint32_t events)
{
	if (pending->step == SOFTRDMA_ACTIVE_CONNECTING && events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
		finish_connecting(pending);
	else if (pending->step == SOFTRDMA_ACTIVE_SECURING)
		go_on_with_tls(pending);
	/*
	 * at once after these steps too: one event covers also a peer that sends before it is asked, and no event
	 * comes for bytes that TLS holds already
	 */
	if (pending->fd >= 0 && pending->step == SOFTRDMA_ACTIVE_AWAITING_REPLY)
		read_reply(pending);
}
