/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * datagram_socket.h -- the UDP socket of a queue pair of unreliable datagrams (UD)
 *
 * A queue pair of datagrams has a socket of its own, as one of a reliable connection has. So the kernel finds the queue pair of
 * a datagram and keeps the buffers of queue pairs apart, and threads read the socket as they read others (reader.h, lead.h).
 * The link of such a queue pair is a connection with this transport, and has no stream.
 */

#ifndef SOFTRDMA_DATAGRAM_SOCKET_H
#define SOFTRDMA_DATAGRAM_SOCKET_H

#include <netinet/in.h>

#include "softrdma/engine/connection.h"

/* what is asked about a datagram that has come; any lock may be held */
struct softrdma_datagram_calls {
	/* true if this side has the GID */
	bool (*is_own_gid)(const union ibv_gid *gid);
	/* true if a queue pair with this number and GID sends from this address (of IPv4: mapped) and port */
	bool (*is_from)(const union ibv_gid *gid, uint32_t qp_num, const struct sockaddr_in6 *from);
};

/* creates a connection for datagrams, without a socket, and gives its link; NULL: no memory. No lock. */
struct softrdma_link *softrdma_datagram_socket_new_link(void);

/*
 * Opens a socket that is bound to a port of all addresses of the machine, and receives nothing yet. 0 with the port, or an
 * errno value. Any lock.
 */
int softrdma_datagram_socket_open(int *fd, uint16_t *port);

/* The socket receives nothing from here on, and what has come is dropped. 0 or an errno value. Any lock. */
int softrdma_datagram_socket_pause(int fd);

/*
 * Takes over the socket, also if this fails: datagrams come and leave from here on. 0 or an errno value. The link's lock is
 * held.
 */
int softrdma_datagram_socket_attach(struct softrdma_link *link, int fd,
	const struct softrdma_datagram_calls *calls);

#endif /* SOFTRDMA_DATAGRAM_SOCKET_H */
