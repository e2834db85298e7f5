/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* sockaddr.c -- addresses of sockets */

#include <string.h>

#include "softrdma/base/sockaddr.h"

bool
softrdma_address_equal(const union softrdma_address *left, const union softrdma_address *right)
{
	if (left->any.sa_family != right->any.sa_family)
		return false;
	if (left->any.sa_family == AF_INET)
		return left->in.sin_addr.s_addr == right->in.sin_addr.s_addr;
	return memcmp(&left->in6.sin6_addr, &right->in6.sin6_addr, sizeof(left->in6.sin6_addr)) == 0;
}

bool
softrdma_endpoint_equal(const union softrdma_address *left, const union softrdma_address *right)
{
	if (!softrdma_address_equal(left, right))
		return false;
	return left->any.sa_family == AF_INET ? left->in.sin_port == right->in.sin_port
					      : left->in6.sin6_port == right->in6.sin6_port;
}
