/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* datagram_id.c -- ids of RDMA_PS_UDP: a client asks a server where its datagrams go */

#include <errno.h>
#include <string.h>

#include "softrdma/base/sockaddr.h"
#include "softrdma/cm/datagram_id.h"
#include "softrdma/verbs/gid.h"

#define HOP_LIMIT 64

/* the status of an answer without a queue pair (IBTA 1, 12.11); the events show it */
enum sidr_status {
	SIDR_UNSUPPORTED = 1, /* no program listens */
	SIDR_REJECT = 2,
	SIDR_NO_QP = 3,
	SIDR_UNSUPPORTED_VERSION = 5,
};

static int
status_of(int reason)
{
	switch (reason) {
	case SOFTRDMA_REJECT_CONSUMER:
		return SIDR_REJECT;
	case SOFTRDMA_REJECT_NO_LISTENER:
		return SIDR_UNSUPPORTED;
	case SOFTRDMA_REJECT_VERSION:
		return SIDR_UNSUPPORTED_VERSION;
	default: /* it is busy, or demands TLS; or, less than 0, an errno value */
		return reason < 0 ? reason : SIDR_NO_QP;
	}
}

static struct sockaddr_in6
map(const struct sockaddr *addr)
{
	union softrdma_address address = { .any.sa_family = AF_UNSPEC };
	memcpy(&address, addr, softrdma_address_length(addr));
	return softrdma_address_map(&address);
}

/* the address of no host, for which the kernel connects to this machine */
static bool
is_no_host(const struct sockaddr_in6 *address)
{
	static const uint8_t mapped[16] = { [10] = 0xff, [11] = 0xff };
	return IN6_IS_ADDR_UNSPECIFIED(&address->sin6_addr) ||
		memcmp(&address->sin6_addr, mapped, sizeof(mapped)) == 0;
}

/* the way from the id's address to the server's; false: this side's address has no GID */
static bool
fill_way(const struct softrdma_id *id, struct ibv_ah_attr *attr)
{
	/* the GID of an address without a secret is the address */
	const struct sockaddr_in6 own = map(&id->id.route.addr.src_addr);
	struct sockaddr_in6 server = map(&id->id.route.addr.dst_addr);
	union ibv_gid gid;
	unsigned index;
	memcpy(gid.raw, &own.sin6_addr, sizeof(gid.raw));
	if (!softrdma_gid_find(&gid, &index))
		return false;
	if (is_no_host(&server)) /* ibv_create_ah() refuses it */
		server = own;
	attr->is_global = 1;
	attr->port_num = 1;
	attr->grh.sgid_index = (uint8_t)index;
	attr->grh.hop_limit = HOP_LIMIT;
	memcpy(attr->grh.dgid.raw, &server.sin6_addr, sizeof(attr->grh.dgid.raw));
	return true;
}

void
softrdma_datagram_id_fill_event(const struct softrdma_id *id, const struct softrdma_handshake *hs,
	struct softrdma_event *event)
{
	struct rdma_cm_event *to = &event->event;
	struct rdma_ud_param *param = &to->param.ud;
	if (to->event == RDMA_CM_EVENT_REJECTED) {
		to->event = RDMA_CM_EVENT_UNREACHABLE;
		to->status = status_of(to->status);
	}
	if (hs == NULL)
		return;
	param->private_data = hs->private_len ? event->private_data : NULL;
	param->private_data_len = hs->private_len;
	if (to->event != RDMA_CM_EVENT_ESTABLISHED)
		return;
	param->qp_num = hs->qp_num;
	param->qkey = hs->seq;
	if (!fill_way(id, &param->ah_attr)) {
		to->event = RDMA_CM_EVENT_ADDR_ERROR;
		to->status = -EADDRNOTAVAIL;
	}
}
