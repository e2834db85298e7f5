/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* net.h -- free ports from the kernel */

#ifndef TEST_NET_H
#define TEST_NET_H

#define NET_PORT_LEN 8

/*
 * Finds a port that is free now on this numeric IPv4 or IPv6 address. It is not reserved: a caller that fails
 * to listen on it asks for another one. Returns 0, or -1 with errno.
 */
int net_free_port(const char *addr, char port[NET_PORT_LEN]);

#endif /* TEST_NET_H */
