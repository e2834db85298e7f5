/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* datagram.c -- unreliable datagrams (UD): work requests in, datagrams out; datagrams in, receives completed */

#include <assert.h>
#include <netinet/ip.h>
#include <string.h>

#include "softrdma/core/datagram.h"
#include "softrdma/wire/crc.h"
#include "usdt.h"

static_assert(SOFTRDMA_DATAGRAM_HEADER >= SOFTRDMA_GRH_SIZE, "the GRH takes the place of the header's end");
static_assert(sizeof(struct ibv_grh) == SOFTRDMA_GRH_SIZE, "as the verbs headers have it");

/* of a work request that asks for the queue pair's own Q_Key (IBTA vol. 1, 3.5.3) */
#define QKEY_IS_OWN 0x80000000u

#define UDP_HEADER 8

/* --- sending --- */

static struct softrdma_datagram
header_of(const struct softrdma_link *link, const struct softrdma_send *send)
{
	const struct softrdma_destination *to = send->to;
	return (struct softrdma_datagram){
		.has_imm = send->has_imm,
		.solicited = send->solicited,
		.summed = to->summed,
		.length = (uint16_t)send->length,
		.to_qp = to->qp_num,
		.from_qp = link->requester.ring.qp_num,
		.qkey = to->qkey & QKEY_IS_OWN ? link->qkey : to->qkey,
		.imm = send->has_imm ? send->imm : 0,
		.flow_label = to->flow_label,
		.traffic_class = to->traffic_class,
		.hop_limit = to->hop_limit,
		.from = to->from,
		.to = to->to,
	};
}

enum ibv_wc_status
softrdma_datagram_build(const struct softrdma_link *link, uint32_t seq,
	uint8_t header[static SOFTRDMA_DATAGRAM_HEADER], struct softrdma_place *place)
{
	const struct softrdma_send_ring *ring = &link->requester.ring;
	const struct softrdma_send *send = softrdma_send_ring_at(ring, seq);
	if (send->length > SOFTRDMA_DATAGRAM_MAX)
		return IBV_WC_LOC_LEN_ERR;
	if (send->is_inline)
		softrdma_place_one(place, NULL, (uintptr_t)send->inline_data, send->length);
	else if (softrdma_place_sges(ring->pd, send->sge, send->num_sge, 0, send->length, 0, place) != 0)
		return IBV_WC_LOC_PROT_ERR;
	const struct softrdma_datagram datagram = header_of(link, send);
	softrdma_datagram_encode(&datagram, header);
	return IBV_WC_SUCCESS;
}

bool
softrdma_datagram_copy(const struct softrdma_place *place, uint8_t *payload, size_t *length)
{
	*length = 0;
	for (int i = 0; i < place->count; i++) {
		const struct iovec *iov = &place->iov[i];
		if (place->mr[i] == NULL)
			memcpy(payload + *length, iov->iov_base, iov->iov_len);
		else if (softrdma_mr_load(place->mr[i], payload + *length, iov->iov_base, iov->iov_len) != 0)
			return false;
		*length += iov->iov_len;
	}
	return true;
}

void
softrdma_datagram_sum(uint8_t header[static SOFTRDMA_DATAGRAM_HEADER], const uint8_t *payload, size_t length)
{
	const uint32_t sum = softrdma_datagram_begin_sum(header);
	softrdma_datagram_set_sum(header, softrdma_crc32c(sum, payload, length));
}

void
softrdma_datagram_sent(struct softrdma_link *link, unsigned count)
{
	struct softrdma_requester *req = &link->requester;
	while (count-- > 0)
		softrdma_send_ring_complete(&req->ring, IBV_WC_SUCCESS);
	req->tx = req->ring.tail; /* nothing is outstanding */
	if (req->ring.overrun && !link->failed)
		softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
}

/* --- receiving --- */

void
softrdma_datagram_drop(struct softrdma_link *link, enum softrdma_stats_drop why)
{
	SOFTRDMA_COUNT(&link->responder.counters, dropped[why], 1);
	USDT(softrdma, drop, link->responder.qp_num, (int)why);
}

bool
softrdma_datagram_is_whole(const struct softrdma_datagram *datagram,
	const uint8_t header[static SOFTRDMA_DATAGRAM_HEADER])
{
	if (!datagram->summed)
		return true;
	const uint32_t sum = softrdma_datagram_begin_sum(header);
	return softrdma_crc32c(sum, header + SOFTRDMA_DATAGRAM_HEADER, datagram->length) == datagram->sum;
}

static bool
is_v4(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw);
}

static bool
has_v4_header(const struct softrdma_datagram *datagram)
{
	return is_v4(&datagram->from) && is_v4(&datagram->to);
}

/* of RFC 791; the header has no options, and 0 where the sum belongs */
static uint16_t
sum_of_ip(const struct iphdr *ip)
{
	uint16_t words[sizeof(*ip) / 2];
	uint32_t sum = 0;
	memcpy(words, ip, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

/*
 * As RoCE v2 does it: the header of IPv6, or 20 bytes and the header of IPv4 (ibv_init_ah_from_wc(3) tells them apart by the
 * version and the sum). Other GIDs than mapped ones have the form of IPv6.
 */
static void
make_grh(uint8_t grh[SOFTRDMA_GRH_SIZE], const struct softrdma_datagram *datagram)
{
	const uint16_t length = (uint16_t)(UDP_HEADER + SOFTRDMA_DATAGRAM_HEADER + datagram->length);
	memset(grh, 0, SOFTRDMA_GRH_SIZE);
	if (has_v4_header(datagram)) {
		struct iphdr ip = {
			.version = 4,
			.ihl = sizeof(ip) / 4,
			.tos = datagram->traffic_class,
			.tot_len = htons((uint16_t)(sizeof(ip) + length)),
			.ttl = datagram->hop_limit,
			.protocol = IPPROTO_UDP,
		};
		memcpy(&ip.saddr, datagram->from.raw + 12, sizeof(ip.saddr));
		memcpy(&ip.daddr, datagram->to.raw + 12, sizeof(ip.daddr));
		ip.check = sum_of_ip(&ip);
		memcpy(grh + SOFTRDMA_GRH_SIZE - sizeof(ip), &ip, sizeof(ip));
		return;
	}
	struct ibv_grh v6 = {
		.version_tclass_flow =
			htonl(6u << 28 | (uint32_t)datagram->traffic_class << 20 | datagram->flow_label),
		.paylen = htons(length),
		.next_hdr = IPPROTO_UDP,
		.hop_limit = datagram->hop_limit,
		.sgid = datagram->from,
		.dgid = datagram->to,
	};
	memcpy(grh, &v6, sizeof(v6));
}

/*
 * RoCE v2 shows in a completion whether the packet was of IPv4 or IPv6 (annex A17.4.5.1). Verbs has no member for that: ConnectX
 * has it in the place of the service level, where UCX looks for it.
 */
static uint8_t
packet_type(const struct softrdma_datagram *datagram)
{
	enum { IS_UDP = 1 << 3, IS_V6 = 1, IS_V4 = 2 };
	return IS_UDP | (has_v4_header(datagram) ? IS_V4 : IS_V6);
}

static bool
store(struct softrdma_link *link, const struct softrdma_recv *recv, const uint8_t *from, size_t length)
{
	struct softrdma_place place;
	if (softrdma_place_sges(link->responder.pd, recv->sge, recv->num_sge, 0, length,
		    IBV_ACCESS_LOCAL_WRITE, &place) != 0)
		return false;
	for (int i = 0; i < place.count; i++) {
		const struct iovec *to = &place.iov[i];
		if (softrdma_mr_store(place.mr[i], to->iov_base, from, to->iov_len, &link->rx.pages) != 0) {
			softrdma_mr_tell_missing();
			return false;
		}
		from += to->iov_len;
	}
	return true;
}

static void
complete(struct softrdma_link *link, const struct softrdma_recv *recv,
	const struct softrdma_datagram *datagram, enum ibv_wc_status status)
{
	const bool good = status == IBV_WC_SUCCESS;
	const struct ibv_wc wc = {
		.wr_id = recv->wr_id,
		.status = status,
		.opcode = IBV_WC_RECV,
		.byte_len = good ? SOFTRDMA_GRH_SIZE + datagram->length : 0,
		.imm_data = datagram->imm,
		.qp_num = link->responder.qp_num,
		.src_qp = datagram->from_qp,
		.sl = packet_type(datagram),
		.wc_flags = IBV_WC_GRH | (datagram->has_imm ? IBV_WC_WITH_IMM : 0),
	};
	if (!softrdma_cq_push(link->responder.cq, &wc, datagram->solicited || !good) || !good)
		softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
}

void
softrdma_datagram_deliver(struct softrdma_link *link, const struct softrdma_datagram *datagram,
	uint8_t header[static SOFTRDMA_DATAGRAM_HEADER])
{
	struct softrdma_responder *resp = &link->responder;
	struct softrdma_recv recv;
	const size_t length = SOFTRDMA_GRH_SIZE + datagram->length;
	uint8_t *grh = header + SOFTRDMA_DATAGRAM_HEADER - SOFTRDMA_GRH_SIZE;
	if (datagram->qkey != link->qkey) {
		softrdma_datagram_drop(link, SOFTRDMA_STATS_QKEY);
		return;
	}
	switch (link->failed ? SOFTRDMA_RECV_NONE
			     : softrdma_recv_queue_take_for(resp->queue, length, &recv)) {
	case SOFTRDMA_RECV_NONE:
		softrdma_datagram_drop(link, SOFTRDMA_STATS_NO_RECEIVE);
		return;
	case SOFTRDMA_RECV_TOO_SHORT:
		softrdma_datagram_drop(link, SOFTRDMA_STATS_TOO_LONG);
		return;
	default:
		break;
	}
	make_grh(grh, datagram);
	if (!store(link, &recv, grh, length)) {
		complete(link, &recv, datagram, IBV_WC_LOC_PROT_ERR);
		return;
	}
	SOFTRDMA_COUNT(&resp->counters, served.operations[SOFTRDMA_STATS_SEND], 1);
	SOFTRDMA_COUNT(&resp->counters, served.bytes[SOFTRDMA_STATS_SEND], datagram->length);
	complete(link, &recv, datagram, IBV_WC_SUCCESS);
}
