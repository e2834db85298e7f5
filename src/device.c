/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * device.c -- finding the device of an address
 *
 * A device is asked for an address as a connection would ask: a temporary id is bound (local address) or
 * resolved (remote address), and then has the device's context. The id is destroyed at once. Contexts stay
 * open: they belong to the device.
 */

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "device.h"
#include "err.h"
#include "info.h"
#include "log.h"

bool
rpmai_device_parse_choice(const char *text, enum device_choice *choice)
{
	static const struct {
		const char *text;
		enum device_choice choice;
	} values[] = { { "", DEVICE_AUTO }, { "auto", DEVICE_AUTO }, { "rdma", DEVICE_RDMA },
		{ "soft", DEVICE_SOFT } };

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		if (!strcmp(text ? text : "", values[i].text)) {
			*choice = values[i].choice;
			return true;
		}
	}
	return false;
}

static bool
is_wildcard(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		return ((const struct sockaddr_in *)sa)->sin_addr.s_addr == htonl(INADDR_ANY);
	if (sa->sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)sa)->sin6_addr);
	return false;
}

/* a wildcard address belongs to all devices of librdmacm; the first one is used */
static struct ibv_context *
first_device(const struct rdma_api *rdma, char reason[static INFO_REASON_MAX])
{
	int count = 0;
	struct ibv_context **list = rdma->get_devices(&count);
	if (list == NULL || list[0] == NULL) {
		/*
		 * message(find, why-no-device): the reasons in parentheses, in messages about an address ->
		 * *No such device* means that no device has the address. *Name or service not known*: the
		 * host name is wrong.
		 */
		snprintf(reason, INFO_REASON_MAX, "there is no RDMA device");
		if (list)
			rdma->free_devices(list);
		return NULL;
	}

	struct ibv_context *ctx = list[0];
	rdma->free_devices(list);
	if (count > 1)
		RPMAI_LOG(NOTICE, "%d RDMA devices belong to the wildcard address: the first is used", count);
	return ctx;
}

static struct ibv_context *
context_of_address(const struct rdma_api *rdma, struct rdma_addrinfo *rai, enum info_side side, int *errnum,
	char reason[static INFO_REASON_MAX])
{
	struct rdma_cm_id *id;
	if (rdma->create_id(NULL, &id, NULL, RDMA_PS_TCP)) {
		snprintf(reason, INFO_REASON_MAX, "rdma_create_id() failed: %m");
		return NULL;
	}

	int ret;
	if (side == INFO_PASSIVE)
		ret = rdma->bind_addr(id, rai->ai_src_addr);
	else
		ret = rdma->resolve_addr(id, rai->ai_src_addr, rai->ai_dst_addr, RPMA_DEFAULT_TIMEOUT_MS);

	struct ibv_context *ctx = ret ? NULL : id->verbs;
	*errnum = ret ? errno : 0;
	/* message(why-no-device) */
	if (ret)
		snprintf(reason, INFO_REASON_MAX, "%s() failed: %m",
			side == INFO_PASSIVE ? "rdma_bind_addr" : "rdma_resolve_addr");
	else if (ctx == NULL)
		/* message(why-no-device) */
		snprintf(reason, INFO_REASON_MAX, "no RDMA device has the address");

	if (rdma->destroy_id(id))
		RPMAI_LOG(WARNING, "rdma_destroy_id() failed: %m");
	return ctx;
}

/*
 * returns NULL and writes the reason if the device has no such address, and the errno value if the device itself has
 * refused the address
 */
static struct ibv_context *
find(const struct rdma_api *rdma, const char *addr, enum info_side side, int *errnum,
	char reason[static INFO_REASON_MAX])
{
	struct rdma_addrinfo *rai;
	*errnum = 0;
	if (!rpmai_info_get(rdma, addr, NULL, side, &rai, reason))
		return NULL;

	struct ibv_context *ctx;
	if (side == INFO_PASSIVE && rdma->get_devices && rai->ai_src_addr && is_wildcard(rai->ai_src_addr))
		ctx = first_device(rdma, reason);
	else
		ctx = context_of_address(rdma, rai, side, errnum, reason);

	rdma->freeaddrinfo(rai);
	return ctx;
}

/* logs a WARNING, or INFO if the last one was the same: programs may ask again for each connection */
static void
tell_fallback(const char *addr, const char *reason)
{
	static _Atomic uint64_t last;

	uint64_t hash = 14695981039346656037ULL; /* FNV-1a */
	for (const char *c = addr; *c; c++)
		hash = (hash ^ (uint8_t)*c) * 1099511628211ULL;
	for (const char *c = reason; *c; c++)
		hash = (hash ^ (uint8_t)*c) * 1099511628211ULL;

	enum rpma_log_level level =
		atomic_exchange(&last, hash) == hash ? RPMA_LOG_LEVEL_INFO : RPMA_LOG_LEVEL_WARNING;
	/*
	 * message(find): WARNING: the address belongs to no RDMA hardware, and `RPMA_DEVICE` is *auto* or
	 * not set -> Nothing, if that is what you want: `RPMA_DEVICE=soft` silences it. Both sides must use
	 * the same kind of device. `RPMA_DEVICE=rdma` makes it an error.
	 */
	rpmai_log(level, __FILE__, __LINE__, __func__,
		"%s: no RDMA device (%s), software device used: see RPMA_DEVICE in librpma(7)", addr, reason);
}

/* what a user can do if a device refuses the address with this errno value; 0: it did not come to that */
static const char *
way_out_of(const struct rdma_api *rdma, int errnum, enum info_side side)
{
	const char *of_settings = rpmai_info_way_out_of_start(rdma, errnum);
	if (of_settings)
		return of_settings;
	/* message(find, way-out-of-address): the way out, at the end of messages about an address */
	/* message(way-out-of-address) */
	return side == INFO_PASSIVE ? "give an address of this machine, as rpma-info lists them"
				    : "check the name and the route";
}

int
rpmai_device_find(const struct rdma_api *core, const struct rdma_api *soft, enum device_choice choice,
	const char *addr, enum rpma_util_ibv_context_type type, struct ibv_context **ctx_ptr)
{
	assert(type == RPMA_UTIL_IBV_CONTEXT_LOCAL || type == RPMA_UTIL_IBV_CONTEXT_REMOTE);

	enum info_side side = type == RPMA_UTIL_IBV_CONTEXT_LOCAL ? INFO_PASSIVE : INFO_ACTIVE;
	struct ibv_context *ctx = NULL;
	int errnum;
	char core_reason[INFO_REASON_MAX];
	char soft_reason[INFO_REASON_MAX];

	if (choice != DEVICE_SOFT) {
		ctx = find(core, addr, side, &errnum, core_reason);
		/*
		 * message(find): hardware is demanded, and the address belongs to none -> `rpma-info` lists
		 * devices and addresses. Give the address of the RDMA device, load its driver, or set
		 * `RPMA_DEVICE=soft`.
		 */
		if (ctx == NULL && choice == DEVICE_RDMA)
			return RPMAI_FAIL(RPMA_E_PROVIDER,
				"%s: no RDMA device can be used (%s), and RPMA_DEVICE=rdma allows no other",
				addr, core_reason);
	}

	if (ctx == NULL) {
		ctx = find(soft, addr, side, &errnum, soft_reason);
		/*
		 * message(find, no-device): the name is unknown, or the address is not one of this machine
		 * (to listen), or there is no route to it (to connect) -> For a server: one of the
		 * addresses that `rpma-info` lists, or 0.0.0.0 or ::. For a client: check the name (`getent
		 * ahosts NAME`) and the route (`ip route get ADDRESS`).
		 */
		if (ctx == NULL && choice == DEVICE_SOFT)
			return RPMAI_FAIL(RPMA_E_PROVIDER,
				"%s: the software device cannot use the address (%s): %s", addr, soft_reason,
				way_out_of(soft, errnum, side));
		/* message(no-device) */
		if (ctx == NULL && !strcmp(core_reason, soft_reason))
			return RPMAI_FAIL(RPMA_E_PROVIDER, "%s: no device can use the address (%s): %s", addr,
				core_reason, way_out_of(soft, errnum, side));
		/* message(no-device) */
		if (ctx == NULL)
			return RPMAI_FAIL(RPMA_E_PROVIDER,
				"%s: no RDMA device (%s) nor the software device (%s) can use the address: %s",
				addr, core_reason, soft_reason, way_out_of(soft, errnum, side));
		if (choice == DEVICE_AUTO)
			tell_fallback(addr, core_reason);
	}

	*ctx_ptr = ctx;
	return 0;
}
