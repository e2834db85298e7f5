/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* address.c -- the part of the connection manager for addresses: names, binding, resolving */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/high_fd.h"
#include "softrdma/base/sockaddr.h"
#include "softrdma/cm/cm.h"
#include "softrdma/cm/event.h"
#include "softrdma/cm/handshake.h"
#include "softrdma/faults/fault_plan.h"
#include "softrdma/verbs/device.h"

/* copies an address, if there is one; false: no memory */
static bool
copy_address(const struct sockaddr *from, socklen_t len, struct sockaddr **addr, socklen_t *addr_len)
{
	if (len == 0)
		return true;
	*addr = malloc(len);
	if (*addr == NULL)
		return false;
	memcpy(*addr, from, len);
	*addr_len = len;
	return true;
}

static bool
are_datagrams(const struct rdma_addrinfo *hints)
{
	return hints->ai_qp_type == IBV_QPT_UD ||
		(hints->ai_qp_type == 0 &&
			(hints->ai_port_space == RDMA_PS_UDP || hints->ai_port_space == RDMA_PS_IPOIB));
}

/* the type and the port space of the hints; one that they lack follows from the other, as in librdmacm */
static void
set_kind(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints)
{
	const bool datagrams = are_datagrams(hints);
	rai->ai_qp_type = hints->ai_qp_type;
	rai->ai_port_space = hints->ai_port_space;
	if (rai->ai_qp_type == 0)
		rai->ai_qp_type = datagrams ? IBV_QPT_UD : IBV_QPT_RC;
	if (rai->ai_port_space == 0)
		rai->ai_port_space = datagrams ? RDMA_PS_UDP : RDMA_PS_TCP;
}

static struct rdma_addrinfo *
convert(const struct addrinfo *ai, const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *rai = calloc(1, sizeof(*rai));
	if (rai == NULL)
		return NULL;
	rai->ai_flags = hints->ai_flags;
	rai->ai_family = ai->ai_family;
	set_kind(rai, hints);
	bool done;
	if (hints->ai_flags & RAI_PASSIVE)
		done = copy_address(ai->ai_addr, ai->ai_addrlen, &rai->ai_src_addr, &rai->ai_src_len);
	else
		done = copy_address(ai->ai_addr, ai->ai_addrlen, &rai->ai_dst_addr, &rai->ai_dst_len) &&
			copy_address(hints->ai_src_addr, hints->ai_src_len, &rai->ai_src_addr,
				&rai->ai_src_len);
	if (done)
		return rai;
	softrdma_rdma_freeaddrinfo(rai);
	return NULL;
}

/* without names there is nothing to look up, so the result has the addresses of the hints; 0 or an errno value */
static int
repeat(const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	struct rdma_addrinfo *rai = calloc(1, sizeof(*rai));
	if (rai == NULL)
		return ENOMEM;
	rai->ai_flags = hints->ai_flags;
	rai->ai_family = hints->ai_family;
	rai->ai_qp_type = hints->ai_qp_type;
	rai->ai_port_space = hints->ai_port_space;
	if (copy_address(hints->ai_dst_addr, hints->ai_dst_len, &rai->ai_dst_addr, &rai->ai_dst_len) &&
		copy_address(hints->ai_src_addr, hints->ai_src_len, &rai->ai_src_addr, &rai->ai_src_len)) {
		*res = rai;
		return 0;
	}
	softrdma_rdma_freeaddrinfo(rai);
	return ENOMEM;
}

/* the hints for getaddrinfo(3) */
static struct addrinfo
hints_of(const struct rdma_addrinfo *hints)
{
	struct addrinfo ai_hints = { .ai_socktype = are_datagrams(hints) ? SOCK_DGRAM : SOCK_STREAM };
	if (hints->ai_flags & RAI_PASSIVE)
		ai_hints.ai_flags |= AI_PASSIVE;
	if (hints->ai_flags & RAI_NUMERICHOST)
		ai_hints.ai_flags |= AI_NUMERICHOST;
	if (hints->ai_flags & RAI_FAMILY)
		ai_hints.ai_family = hints->ai_family;
	return ai_hints;
}

/* returns EAI_* values unchanged, like librdmacm; a system error is -1 with errno */
int
softrdma_rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
	struct rdma_addrinfo **res)
{
	SOFTRDMA_NO_CANCEL;
	static const struct rdma_addrinfo no_hints;
	if (node == NULL && service == NULL)
		return softrdma_cm_result(hints ? repeat(hints, res) : EINVAL);
	if (hints == NULL)
		hints = &no_hints;

	const struct addrinfo ai_hints = hints_of(hints);
	struct addrinfo *ai;
	int ret = getaddrinfo(node, service, &ai_hints, &ai);
	if (ret == EAI_SYSTEM)
		return -1;
	if (ret) {
		errno = 0;
		return ret;
	}

	struct rdma_addrinfo *first = NULL, **end = &first;
	for (const struct addrinfo *at = ai; at; at = at->ai_next) {
		if (at->ai_family != AF_INET && at->ai_family != AF_INET6)
			continue;
		*end = convert(at, hints);
		if (*end == NULL)
			goto err_free;
		end = &(*end)->ai_next;
	}
	freeaddrinfo(ai);
	if (first == NULL)
		return softrdma_cm_result(EADDRNOTAVAIL);
	*res = first;
	return 0;

err_free:
	softrdma_rdma_freeaddrinfo(first);
	freeaddrinfo(ai);
	return softrdma_cm_result(ENOMEM);
}

void
softrdma_rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res);
		res = next;
	}
}

/* sets the id's device, which is always the same one and has all addresses of the machine */
static void
use_device(struct softrdma_id *id)
{
	id->id.verbs = softrdma_context(); /* never NULL here, because the id was made with it */
	id->id.port_num = 1;
}

int
softrdma_rdma_bind_addr(struct rdma_cm_id *rdma_id, struct sockaddr *addr)
{
	SOFTRDMA_NO_CANCEL;
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_bind_addr"))
		return -1;
	socklen_t len = softrdma_address_length(addr);
	if (len == 0)
		return softrdma_cm_result(EAFNOSUPPORT);

	int ret = softrdma_fault_plan_read();
	if (ret)
		return softrdma_cm_result(ret);
	struct sockaddr_storage bound = { 0 };
	memcpy(&bound, addr, len);
	softrdma_cm_lock();
	ret = id->state == SOFTRDMA_ID_IDLE ? 0 : EINVAL;
	if (ret == 0)
		ret = softrdma_handshake_bind((struct sockaddr *)&bound, id->family_only, &id->bound_fd);
	if (ret == 0) {
		memcpy(&id->id.route.addr.src_storage, &bound, sizeof(bound));
		id->state = SOFTRDMA_ID_BOUND;
		use_device(id);
	}
	softrdma_cm_unlock();
	return softrdma_cm_result(ret == EADDRNOTAVAIL ? ENODEV : ret);
}

/* a socket that is bound keeps its choice; 0 or EINVAL. The manager's lock is held. */
static int
choose_family_only(struct softrdma_id *id, enum softrdma_family_only only)
{
	int has = 0;
	socklen_t len = sizeof(has);
	if (id->state > SOFTRDMA_ID_BOUND)
		return EINVAL;
	if (id->bound_fd >= 0 && id->id.route.addr.src_addr.sa_family == AF_INET6 &&
		(getsockopt(id->bound_fd, IPPROTO_IPV6, IPV6_V6ONLY, &has, &len) != 0 ||
			has != (only == SOFTRDMA_FAMILY_ONLY)))
		return EINVAL;
	id->family_only = only;
	return 0;
}

int
softrdma_rdma_set_family_only(struct rdma_cm_id *rdma_id, bool only)
{
	SOFTRDMA_NO_CANCEL;
	if (softrdma_id_is_inherited(rdma_id, "rdma_set_option"))
		return -1;
	softrdma_cm_lock();
	const int ret = choose_family_only(softrdma_id_of(rdma_id),
		only ? SOFTRDMA_FAMILY_ONLY : SOFTRDMA_FAMILY_BOTH);
	softrdma_cm_unlock();
	return softrdma_cm_result(ret);
}

/* finds the source address for a destination in the routing table; a datagram socket does that without a packet */
static int
find_source(const struct sockaddr *dst, struct sockaddr_storage *src)
{
	socklen_t len = sizeof(*src);
	int fd = softrdma_high_fd(socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return errno;
	int ret = 0;
	if (connect(fd, dst, softrdma_address_length(dst)) != 0 ||
		getsockname(fd, (struct sockaddr *)src, &len) != 0)
		ret = errno;
	close(fd);
	/* the port is that of the datagram socket; the connection will have its own */
	if (src->ss_family == AF_INET)
		((struct sockaddr_in *)src)->sin_port = 0;
	else
		((struct sockaddr_in6 *)src)->sin6_port = 0;
	return ret;
}

/* ends a step: posts an event for an asynchronous id; for a synchronous id the step is done when the call returns */
static int
step_done(struct softrdma_id *id, enum rdma_cm_event_type type)
{
	return softrdma_cm_result(id->sync ? 0 : softrdma_id_post(id, type, 0, NULL, NULL, NULL));
}

int
softrdma_rdma_resolve_addr(struct rdma_cm_id *rdma_id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
	int timeout_ms)
{
	SOFTRDMA_NO_CANCEL;
	(void)timeout_ms; /* no other host is asked, so there is nothing to wait for */
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_resolve_addr"))
		return -1;
	socklen_t len = softrdma_address_length(dst_addr);
	if (len == 0 || (src_addr && softrdma_address_length(src_addr) == 0))
		return softrdma_cm_result(EAFNOSUPPORT);

	struct sockaddr_storage src = { 0 };
	int ret = softrdma_fault_plan_read();
	if (ret == 0)
		ret = find_source(dst_addr, &src);
	if (ret)
		return softrdma_cm_result(ret);
	softrdma_cm_lock();
	if (id->state > SOFTRDMA_ID_BOUND) { /* what follows still needs the addresses that it has */
		softrdma_cm_unlock();
		return softrdma_cm_result(EINVAL);
	}
	memcpy(&id->id.route.addr.dst_storage, dst_addr, len);
	/* a bound id keeps its source address, as with the kernel's connection manager */
	const bool idle = id->state == SOFTRDMA_ID_IDLE;
	if (idle && src_addr) {
		memcpy(&id->id.route.addr.src_storage, src_addr, softrdma_address_length(src_addr));
		id->source_given = true;
	} else if (idle) {
		memcpy(&id->id.route.addr.src_storage, &src, sizeof(src));
	}
	use_device(id);
	softrdma_cm_unlock();
	return step_done(id, RDMA_CM_EVENT_ADDR_RESOLVED);
}

int
softrdma_rdma_resolve_route(struct rdma_cm_id *rdma_id, int timeout_ms)
{
	SOFTRDMA_NO_CANCEL;
	(void)timeout_ms;
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_resolve_route"))
		return -1;
	if (id->id.route.addr.dst_addr.sa_family == AF_UNSPEC)
		return softrdma_cm_result(EINVAL);
	return step_done(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
}
