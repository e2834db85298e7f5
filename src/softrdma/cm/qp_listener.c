/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* qp_listener.c -- listeners for queue pairs that are connected without the connection manager */

#include <errno.h>
#include <stdlib.h>

#include "softrdma/base/fork.h"
#include "softrdma/base/sockaddr.h"
#include "softrdma/cm/handshake.h"
#include "softrdma/cm/qp_listener.h"
#include "softrdma/wire/cm_msg.h"
#include "softrdma/wire/credentials.h"

static struct softrdma_qp_listener *listeners;

static void
after_fork(void)
{
	softrdma_fork_keep(listeners);
	listeners = NULL;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

/* warns once only, because these listeners come and go with queue pairs */
static void
warn_if_open(const struct softrdma_qp_listener *listener)
{
	static bool told;
	if (!told && listener->credentials == NULL)
		told = softrdma_cm_msg_warn_if_open(&listener->address.any,
			"queue pairs wait for connections");
}

static int
new_listener(const struct softrdma_pending_kind *kind, union softrdma_address address,
	const union ibv_gid *gid, struct softrdma_qp_listener **listener_ptr)
{
	struct softrdma_qp_listener *listener = calloc(1, sizeof(*listener));
	if (listener == NULL)
		return ENOMEM;
	listener->address = address;
	listener->gid = *gid;
	listener->users = 1;
	int ret = softrdma_credentials_of_environment(&listener->credentials);
	if (ret)
		goto err_free;
	int fd;
	ret = softrdma_handshake_bind(&address.any, SOFTRDMA_FAMILY_DEFAULT, &fd);
	if (ret)
		goto err_put_credentials;
	ret = softrdma_listener_new(kind, fd, listener->credentials, listener, &listener->socket);
	if (ret)
		goto err_close;
	listener->next = listeners;
	listeners = listener;
	warn_if_open(listener);
	*listener_ptr = listener;
	return 0;

err_close:
	softrdma_fork_close(fd);
err_put_credentials:
	softrdma_credentials_put(listener->credentials);
err_free:
	free(listener);
	return ret;
}

int
softrdma_qp_listener_get(const struct softrdma_pending_kind *kind, const union ibv_gid *gid, uint32_t qp_num,
	struct softrdma_qp_listener **listener_ptr)
{
	union softrdma_address address;
	softrdma_gid_locate(gid, qp_num, &address);
	struct softrdma_qp_listener *listener = listeners;
	while (listener && !softrdma_endpoint_equal(&listener->address, &address))
		listener = listener->next;
	if (listener == NULL)
		return new_listener(kind, address, gid, listener_ptr);
	listener->users++;
	*listener_ptr = listener;
	return 0;
}

void
softrdma_qp_listener_put(struct softrdma_qp_listener *listener)
{
	if (--listener->users > 0)
		return;
	struct softrdma_qp_listener **at = &listeners;
	while (*at != listener)
		at = &(*at)->next;
	*at = listener->next;
	softrdma_listener_close(listener->socket);
	softrdma_credentials_put(listener->credentials);
	free(listener);
}
