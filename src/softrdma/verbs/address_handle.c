/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* address_handle.c -- address handles: where datagrams go */

#include <errno.h>
#include <netinet/ip.h>
#include <stdlib.h>
#include <string.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/variables.h"
#include "softrdma/core/datagram.h"
#include "softrdma/core/pd.h"
#include "softrdma/verbs/address_handle.h"
#include "softrdma/verbs/gid.h"

#define FLOW_LABEL_MASK 0xfffff
/* any number will do for the address of a GID */
#define ANY_QP_NUM 0x100
/* hops of an address handle that names none, as programs expect on Ethernet */
#define HOP_LIMIT 64

/* bytes of the headers of IPv6, UDP and the datagram */
#define HEADERS (40 + 8 + SOFTRDMA_DATAGRAM_HEADER)

/* a datagram of several packets is lost if one of them is */
static void
tell_fragments(unsigned mtu)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_ONCE;
	if (mtu == 0 || mtu >= HEADERS + SOFTRDMA_DATAGRAM_MAX)
		return;
	/*
	 * message(limits): a datagram is lost if one of its packets is -> Larger packets on the path
	 * (`ip link set DEV mtu 9000` on all machines and switches), or shorter datagrams.
	 */
	SOFTRDMA_LOG_FEW(&limit, NOTICE,
		"datagrams of more than %u bytes leave in several packets, because a packet to a peer has "
		"at most %u bytes",
		mtu - HEADERS, mtu);
}

/* multicast, and the address of no host */
static bool
is_for_many(const union softrdma_address *address)
{
	if (address->any.sa_family == AF_INET)
		return IN_MULTICAST(ntohl(address->in.sin_addr.s_addr)) ||
			address->in.sin_addr.s_addr == INADDR_ANY;
	return IN6_IS_ADDR_MULTICAST(&address->in6.sin6_addr) ||
		IN6_IS_ADDR_UNSPECIFIED(&address->in6.sin6_addr);
}

/* 0 or an errno value */
static int
find_destination(const struct ibv_ah_attr *attr, struct softrdma_destination *to)
{
	union softrdma_address where, source;
	unsigned mtu = 0;
	const struct ibv_global_route *grh = &attr->grh;
	/* an address on Ethernet is a GID, reached from one of the port's own GIDs */
	if (!attr->is_global || attr->port_num != 1 || grh->sgid_index >= softrdma_gid_count())
		return EINVAL;
	if (!softrdma_gid_locate(&grh->dgid, ANY_QP_NUM, &where) || is_for_many(&where))
		return EINVAL;
	int ret = softrdma_gid_get(grh->sgid_index, &to->from);
	if (ret)
		return ret;
	if (!softrdma_gid_locate(&to->from, ANY_QP_NUM, &source) ||
		source.any.sa_family != where.any.sa_family)
		return EINVAL;
	ret = softrdma_gid_find_route(&grh->dgid, &mtu);
	if (ret)
		return ret;
	tell_fragments(mtu);
	to->address = softrdma_address_map(&where);
	to->source = softrdma_address_map(&source);
	to->to = grh->dgid;
	to->flow_label = grh->flow_label & FLOW_LABEL_MASK;
	to->traffic_class = grh->traffic_class;
	to->hop_limit = grh->hop_limit ? grh->hop_limit : HOP_LIMIT;
	/* as for streams, where both sides agree; here the sender decides */
	to->summed = softrdma_setting("SOFTRDMA_CRC", 0, 1, !softrdma_gid_is_local(&where));
	return 0;
}

struct ibv_ah *
softrdma_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	SOFTRDMA_NO_CANCEL;
	if (softrdma_is_inherited(pd->context)) {
		errno = softrdma_fork_refuse("ibv_create_ah");
		return NULL;
	}
	struct softrdma_address_handle *handle = calloc(1, sizeof(*handle));
	if (handle == NULL)
		return NULL;
	const int ret = find_destination(attr, &handle->to);
	if (ret) {
		free(handle);
		errno = ret;
		return NULL;
	}
	handle->ah.context = pd->context;
	handle->ah.pd = pd;
	atomic_fetch_add(&softrdma_pd_of(pd)->users, 1);
	return &handle->ah;
}

int
softrdma_ibv_destroy_ah(struct ibv_ah *ah)
{
	SOFTRDMA_NO_CANCEL;
	if (softrdma_is_inherited(ah->context))
		return softrdma_fork_refuse("ibv_destroy_ah");
	atomic_fetch_sub(&softrdma_pd_of(ah->pd)->users, 1);
	free(softrdma_address_handle_of(ah));
	return 0;
}

/* the GIDs of a header of IPv4 */
static void
map(union ibv_gid *gid, const void *address)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, address, 4);
}

/* the header of IPv6, or that of IPv4 in its last bytes */
static void
read_grh(const struct ibv_grh *grh, union ibv_gid *own, struct ibv_global_route *route)
{
	const uint32_t first = ntohl(grh->version_tclass_flow);
	struct iphdr ip;
	if (first >> 28 == 6) {
		route->dgid = grh->sgid;
		*own = grh->dgid;
		route->flow_label = first & FLOW_LABEL_MASK;
		route->traffic_class = (uint8_t)(first >> 20);
		return;
	}
	memcpy(&ip, (const char *)grh + sizeof(*grh) - sizeof(ip), sizeof(ip));
	map(&route->dgid, &ip.saddr);
	map(own, &ip.daddr);
	route->traffic_class = ip.tos;
}

static int
minus_one(int errnum)
{
	errno = errnum;
	return -1;
}

int
softrdma_ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
	struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	(void)context;
	union ibv_gid own;
	unsigned index;
	memset(attr, 0, sizeof(*attr));
	if (!(wc->wc_flags & IBV_WC_GRH) || port_num != 1)
		return minus_one(EINVAL);
	read_grh(grh, &own, &attr->grh);
	if (!softrdma_gid_find(&own, &index))
		return minus_one(EINVAL);
	attr->is_global = 1;
	attr->port_num = port_num;
	attr->grh.sgid_index = (uint8_t)index;
	attr->grh.hop_limit = UINT8_MAX;
	return 0;
}

struct ibv_ah *
softrdma_ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port_num)
{
	struct ibv_ah_attr attr;
	const int ret = softrdma_ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr);
	return ret ? NULL : softrdma_ibv_create_ah(pd, &attr);
}
