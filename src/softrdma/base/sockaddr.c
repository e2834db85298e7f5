/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* sockaddr.c -- addresses of sockets */

#include <stdio.h>
#include <string.h>

#include "softrdma/base/sockaddr.h"

socklen_t
softrdma_address_length(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		return sizeof(struct sockaddr_in);
	return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : 0;
}

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

struct sockaddr_in6
softrdma_address_map(const union softrdma_address *addr)
{
	if (addr->any.sa_family == AF_INET6)
		return addr->in6;
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = addr->in.sin_port };
	v6.sin6_addr.s6_addr[10] = v6.sin6_addr.s6_addr[11] = 0xff;
	memcpy(&v6.sin6_addr.s6_addr[12], &addr->in.sin_addr, sizeof(addr->in.sin_addr));
	return v6;
}

void
softrdma_address_unmap(union softrdma_address *addr)
{
	if (addr->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&addr->in6.sin6_addr))
		return;
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = addr->in6.sin6_port };
	memcpy(&in.sin_addr, &addr->in6.sin6_addr.s6_addr[12], sizeof(in.sin_addr));
	memset(addr, 0, sizeof(*addr));
	addr->in = in;
}

const char *
softrdma_address_name(const struct sockaddr *addr, char *buf, size_t size)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];
	if (getnameinfo(addr, softrdma_address_length(addr), host, sizeof(host), port, sizeof(port),
		    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return "an unknown address";
	bool v6 = addr->sa_family == AF_INET6;
	snprintf(buf, size, "%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port);
	return buf;
}

const char *
softrdma_peer_name(int fd, char *buf, size_t size)
{
	struct sockaddr_storage addr = { 0 };
	socklen_t len = sizeof(addr);
	if (getpeername(fd, (struct sockaddr *)&addr, &len) != 0)
		return "an unknown address";
	return softrdma_address_name((const struct sockaddr *)&addr, buf, size);
}
