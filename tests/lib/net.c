/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* net.c -- free ports from the kernel */

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net.h"

static int
resolve_numeric(const char *addr, struct sockaddr_storage *ss, socklen_t *len)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM };
	struct addrinfo *ai;

	if (getaddrinfo(addr, "0", &hints, &ai)) {
		errno = EINVAL;
		return -1;
	}
	memcpy(ss, ai->ai_addr, ai->ai_addrlen);
	*len = ai->ai_addrlen;
	freeaddrinfo(ai);
	return 0;
}

static unsigned
port_of(const struct sockaddr_storage *ss)
{
	if (ss->ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)ss)->sin6_port);
	return ntohs(((const struct sockaddr_in *)ss)->sin_port);
}

int
net_free_port(const char *addr, char port[NET_PORT_LEN])
{
	struct sockaddr_storage ss;
	socklen_t len;
	int ret = -1;
	int fd;

	if (resolve_numeric(addr, &ss, &len))
		return -1;
	fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (!bind(fd, (struct sockaddr *)&ss, len) && !getsockname(fd, (struct sockaddr *)&ss, &len)) {
		snprintf(port, NET_PORT_LEN, "%u", port_of(&ss));
		ret = 0;
	}
	close(fd);
	return ret;
}
