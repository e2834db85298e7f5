/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* addresses.c -- the addresses of the simulated machine: each seed has the same ones, on each real machine */

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

#include "addresses.h"

bool addresses_have_v6;

int __wrap_getifaddrs(struct ifaddrs **all);
void __wrap_freeifaddrs(struct ifaddrs *all);
unsigned __wrap_if_nametoindex(const char *name);

static const struct {
	const char *interface;
	bool is_loopback;
	uint32_t v4;
	uint8_t v6[16];
} addresses[] = {
	{ "lo", true, 0x7f000001, { [15] = 1 } },
	{ "eth0", false, 0x0a000001, { 0xfd, 0x11, [15] = 0x10 } },
};

#define COUNT (sizeof(addresses) / sizeof(addresses[0]))

static struct sockaddr_in
v4_of(size_t i)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(addresses[i].v4) };
}

static struct sockaddr_in6
v6_of(size_t i)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

	memcpy(&v6.sin6_addr, addresses[i].v6, sizeof(v6.sin6_addr));
	return v6;
}

int
__wrap_getifaddrs(struct ifaddrs **all)
{
	static struct ifaddrs entries[2 * COUNT];
	static struct sockaddr_in v4[COUNT];
	static struct sockaddr_in6 v6[COUNT];
	const size_t count = addresses_have_v6 ? 2 * COUNT : COUNT;

	for (size_t i = 0; i < COUNT; i++) {
		v4[i] = v4_of(i);
		v6[i] = v6_of(i);
	}
	for (size_t i = 0; i < count; i++) {
		const size_t at = i % COUNT;
		entries[i] = (struct ifaddrs){
			.ifa_next = i + 1 < count ? &entries[i + 1] : NULL,
			.ifa_name = (char *)(uintptr_t)addresses[at].interface,
			.ifa_flags = IFF_UP | (addresses[at].is_loopback ? (unsigned)IFF_LOOPBACK : 0),
			.ifa_addr = i < COUNT ? (struct sockaddr *)&v4[at] : (struct sockaddr *)&v6[at],
		};
	}
	*all = entries;
	return 0;
}

void
__wrap_freeifaddrs(struct ifaddrs *all)
{
	(void)all;
}

unsigned
__wrap_if_nametoindex(const char *name)
{
	return strcmp(name, "lo") == 0 ? 1 : 2;
}

bool
addresses_have(const struct in6_addr *mapped)
{
	for (size_t i = 0; i < COUNT; i++) {
		const uint32_t v4 = htonl(addresses[i].v4);
		if (IN6_IS_ADDR_V4MAPPED(mapped) && memcmp(mapped->s6_addr + 12, &v4, sizeof(v4)) == 0)
			return true;
		if (addresses_have_v6 && memcmp(mapped, addresses[i].v6, sizeof(*mapped)) == 0)
			return true;
	}
	return false;
}
