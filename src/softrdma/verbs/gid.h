/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * gid.h -- the port's GIDs: one for each address of the machine
 *
 * Programs that connect queue pairs themselves tell each other GIDs and queue pair numbers, and nothing else
 * that names a process. So a GID holds where its process listens:
 *
 *	IPv4	0xfc 0x53 | version 1 | index | address (4) | TCP port (2) | random (6)
 *	IPv6	the address; the TCP port is the upper 16 bits of the queue pair's number
 *
 * The random part is as good as a password: a peer that knows it was told it. (An IPv6 address leaves no room for
 * one.) no host has an address of fc00::/8 (RFC 4193), so the two cannot be mistaken for each other.
 *
 * A port is kept by a socket that is bound and never listens, from the first time that the GID is asked for;
 * listening sockets come and go beside it (SO_REUSEADDR).
 */

#ifndef SOFTRDMA_GID_H
#define SOFTRDMA_GID_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "softrdma/base/sockaddr.h"

/* how many there are; 0 also when the addresses cannot be read. Any thread, as all here. */
unsigned softrdma_gid_count(void);

/* the GID at an index; 0 or an errno value */
int softrdma_gid_get(unsigned index, union ibv_gid *gid);

/* where the process listens that gave its peers this GID and this number; false: it cannot be one of ours */
bool softrdma_gid_locate(const union ibv_gid *gid, uint32_t qp_num, union softrdma_address *where);

/*
 * The GID of no address: that of the peer of a queue pair whose stream the connection manager brings
 * (external_qp.h).
 */
void softrdma_gid_of_manager(union ibv_gid *gid);
bool softrdma_gid_is_of_manager(const union ibv_gid *gid);

/* is there a way to the address of a GID of others? 0 or an errno value, such as EHOSTUNREACH */
int softrdma_gid_find_route(const union ibv_gid *gid);

/*
 * A number for a queue pair that is to be connected by hand: it holds a port where there are IPv6 addresses.
 * The number is taken until it is put back. 0 or an errno value.
 */
int softrdma_gid_take_qp_num(uint32_t *qp_num);
void softrdma_gid_put_qp_num(uint32_t qp_num);

#endif /* SOFTRDMA_GID_H */
