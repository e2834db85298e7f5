/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* addresses.c -- the device of an address, and the reason */

#include <ifaddrs.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "info.h"

/*
 * The library's sentence is for a program that has asked for one kind of device: it repeats the address, and speaks of
 * RPMA_DEVICE. The reason itself is in parentheses.
 */
static void
keep_reason(char reason[static INFO_TEXT_MAX])
{
	const char *sentence = rpma_errormsg();
	const char *begin = strchr(sentence, '(');
	const char *end = strrchr(sentence, ')');
	if (begin && end && begin < end)
		snprintf(reason, INFO_TEXT_MAX, "%.*s", (int)(end - begin - 1), begin + 1);
	else
		snprintf(reason, INFO_TEXT_MAX, "%s", sentence);
}

/* asks the library as a program would, so the reason is the real one */
static void
choose(const char *address, bool is_remote, const char *which, struct info_choice *choice)
{
	enum rpma_util_ibv_context_type type =
		is_remote ? RPMA_UTIL_IBV_CONTEXT_REMOTE : RPMA_UTIL_IBV_CONTEXT_LOCAL;
	if (setenv("RPMA_DEVICE", which, 1))
		snprintf(choice->why_not, sizeof(choice->why_not), "the environment cannot be changed");
	else if (rpma_utils_get_ibv_context(address, type, &choice->context))
		keep_reason(choice->why_not);
}

void
info_add_address(struct info *info, const char *text, bool is_remote)
{
	if (info->address_count == INFO_ADDRESSES_MAX)
		return;
	struct info_address *address = &info->addresses[info->address_count++];
	snprintf(address->text, sizeof(address->text), "%.63s", text);
	address->is_remote = is_remote;
	choose(text, is_remote, "rdma", &address->rdma);
	choose(text, is_remote, "soft", &address->soft);
}

void
info_find_addresses(struct info *info)
{
	struct ifaddrs *list;
	if (getifaddrs(&list))
		return;
	for (const struct ifaddrs *ifa = list; ifa && info->address_count < INFO_ADDRESSES_MAX;
		ifa = ifa->ifa_next) {
		char text[NI_MAXHOST];
		if (ifa->ifa_addr == NULL || !(ifa->ifa_flags & IFF_UP))
			continue;
		socklen_t len = ifa->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
			: ifa->ifa_addr->sa_family == AF_INET6      ? sizeof(struct sockaddr_in6)
								    : 0;
		if (len == 0 || getnameinfo(ifa->ifa_addr, len, text, sizeof(text), NULL, 0, NI_NUMERICHOST))
			continue;
		info_add_address(info, text, false);
		snprintf(info->addresses[info->address_count - 1].interface, IF_NAMESIZE, "%s",
			ifa->ifa_name);
	}
	freeifaddrs(list);
}

bool
info_is_usable(const struct info_address *address)
{
	return address->rdma.context || address->soft.context;
}

const struct info_choice *
info_auto_choice(const struct info_address *address)
{
	return address->rdma.context ? &address->rdma : &address->soft;
}
