/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* sockaddr.h -- addresses of sockets */

#ifndef SOFTRDMA_SOCKADDR_H
#define SOFTRDMA_SOCKADDR_H

#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

union softrdma_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_storage storage;
};

/* bytes of an address for the calls of sockets; 0: neither IPv4 nor IPv6 */
socklen_t softrdma_address_length(const struct sockaddr *addr);

/* true if both name the same host; ports are not compared. For IPv4 and IPv6. */
bool softrdma_address_equal(const union softrdma_address *left, const union softrdma_address *right);
/* the same with the port */
bool softrdma_endpoint_equal(const union softrdma_address *left, const union softrdma_address *right);
/* gives an address of IPv6 as it is, and one of IPv4 mapped into IPv6 */
struct sockaddr_in6 softrdma_address_map(const union softrdma_address *addr);
/* turns an IPv4 address that is mapped into IPv6 into an address of IPv4; leaves any other one as it is */
void softrdma_address_unmap(union softrdma_address *addr);

/* bytes for the name of an address in a log line */
#define SOFTRDMA_NAME_SIZE (NI_MAXHOST + NI_MAXSERV + 4)

/* HOST:PORT for log lines; buf has SOFTRDMA_NAME_SIZE bytes. Returns buf, or a constant if there is no name. */
const char *softrdma_address_name(const struct sockaddr *addr, char *buf, size_t size);
/* the same of the peer of a connected socket */
const char *softrdma_peer_name(int fd, char *buf, size_t size);

#endif /* SOFTRDMA_SOCKADDR_H */
