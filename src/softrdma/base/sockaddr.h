/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* sockaddr.h -- addresses of sockets */

#ifndef SOFTRDMA_SOCKADDR_H
#define SOFTRDMA_SOCKADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

union softrdma_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_storage storage;
};

/* true if both name the same host; ports are not compared. For IPv4 and IPv6. */
bool softrdma_address_equal(const union softrdma_address *left, const union softrdma_address *right);
/* the same with the port */
bool softrdma_endpoint_equal(const union softrdma_address *left, const union softrdma_address *right);

#endif /* SOFTRDMA_SOCKADDR_H */
