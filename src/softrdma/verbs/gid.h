/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * gid.h -- the port's GIDs: one for each address of the machine
 *
 * Programs that connect queue pairs themselves exchange GIDs and queue pair numbers, and nothing else that names a
 * process. So a GID holds the address at which its process listens:
 *
 *	IPv4	0xfc 0x53 | version 1 | index | address (4) | TCP port (2) | random (6)
 *	IPv6	the address; the TCP port is the upper 16 bits of the queue pair's number
 *
 * The random part is as good as a password: a peer that knows it was told it. (An IPv6 address leaves no room for
 * one.) no host has an address of fc00::/8 (RFC 4193), so the two cannot be mistaken for each other.
 *
 * A socket that is bound and never listens keeps the port, from the first query of the GID on. Listening sockets come
 * and go beside it (SO_REUSEADDR).
 */

#ifndef SOFTRDMA_GID_H
#define SOFTRDMA_GID_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "softrdma/base/sockaddr.h"

#define SOFTRDMA_QP_NUM_PORT_SHIFT 8

/* the number of GIDs; 0 also if the addresses cannot be read. Any thread, like all functions here. */
unsigned softrdma_gid_count(void);

/* gives the GID at an index; 0 or an errno value */
int softrdma_gid_get(unsigned index, union ibv_gid *gid);

/* gives the address at which the process with this GID and queue pair number listens; false: not a GID of this device */
bool softrdma_gid_locate(const union ibv_gid *gid, uint32_t qp_num, union softrdma_address *where);

/*
 * The GID that belongs to no address. It stands for the peer of a queue pair that gets its stream from the connection
 * manager (external_qp.h).
 */
void softrdma_gid_of_manager(union ibv_gid *gid);
bool softrdma_gid_is_of_manager(const union ibv_gid *gid);

/*
 * Checks that the host has a route to the address of a peer's GID, and gives the bytes of the longest packet that leaves whole
 * (mtu may be NULL). 0 or an errno value, such as EHOSTUNREACH.
 */
int softrdma_gid_find_route(const union ibv_gid *gid, unsigned *mtu);

/*
 * Takes a number for a queue pair that is to be connected by hand. The number holds a port if a GID of the machine does
 * not. It stays taken until it is put back. 0 or an errno value.
 */
int softrdma_gid_take_qp_num(uint32_t *qp_num);
void softrdma_gid_put_qp_num(uint32_t qp_num);

/*
 * The same for a queue pair of datagrams: the number's port is that of a UDP socket, which belongs to the caller. 0 or an errno
 * value.
 */
int softrdma_gid_take_datagram_num(uint32_t *qp_num, int *fd);

/* the port that a queue pair's number holds */
static inline uint16_t
softrdma_gid_port(uint32_t qp_num)
{
	return (uint16_t)(qp_num >> SOFTRDMA_QP_NUM_PORT_SHIFT);
}

/* gives the index of a GID; false: this process has not told it */
bool softrdma_gid_find(const union ibv_gid *gid, unsigned *index);

/* true if the address is one of this machine's, without regard to the port */
bool softrdma_gid_is_local(const union softrdma_address *address);

/* for engine/datagram_socket.h: true if this process has told the GID */
bool softrdma_gid_is_own(const union ibv_gid *gid);
/* true if the queue pair with this number, at a peer with this GID, sends from there; from is mapped if it is of IPv4 */
bool softrdma_gid_is_from(const union ibv_gid *gid, uint32_t qp_num, const struct sockaddr_in6 *from);

#endif /* SOFTRDMA_GID_H */
