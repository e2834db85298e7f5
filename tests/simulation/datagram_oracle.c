/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * datagram_oracle.c -- the required results of sends and receives of datagrams
 *
 * The model knows doc/softrdma-protocol.md, section 12, and not how the device works. It is told of each datagram when the
 * device sends it, and when the device reads it from a socket. A queue pair handles what it has read in this order. So the
 * receives that complete have some of these datagrams, in this order, and the model must justify each of the others: the
 * document says which are dropped, and why.
 */

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "datagram.h"
#include "sim.h"
#include "softrdma/softrdma.h"
#include "softrdma/verbs/gid.h"
#include "softrdma/verbs/qp.h"

#define GIDS_MAX 16

enum {
	FLAG_IMM = 1,
	FLAG_SOLICITED = 2,
	FLAG_SUMMED = 4,
	PACKET_V6 = 9, /* in the place of the service level */
	PACKET_V4 = 10,
};

static struct {
	union ibv_gid gid[GIDS_MAX];
	unsigned count;
} gids;

static uint32_t crc_table[256];

/* --- bytes --- */

static uint32_t
get16(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8;
}

static uint32_t
get32(const uint8_t *at)
{
	return get16(at) | get16(at + 2) << 16;
}

static void
put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)value;
	at[1] = (uint8_t)(value >> 8);
}

static void
put32(uint8_t *at, uint32_t value)
{
	put16(at, value);
	put16(at + 2, value >> 16);
}

static void
make_crc_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t value = i;
		for (int bit = 0; bit < 8; bit++)
			value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0);
		crc_table[i] = value;
	}
}

/* CRC32C of a datagram, with 0 in the place of the sum */
static uint32_t
sum_of(const uint8_t *bytes, size_t size)
{
	uint32_t value = ~0u;

	for (size_t i = 0; i < size; i++) {
		const uint8_t byte = i >= 64 && i < 68 ? 0 : bytes[i];
		value = value >> 8 ^ crc_table[(value ^ byte) & 0xff];
	}
	return ~value;
}

void
datagram_oracle_begin(void)
{
	make_crc_table();
	gids.count = softrdma_gid_count();
	SIM_CHECK(gids.count <= GIDS_MAX, "too many GIDs");
	for (unsigned i = 0; i < gids.count; i++) {
		while (softrdma_gid_get(i, &gids.gid[i]) != 0)
			;
	}
}

static bool
is_own_gid(const uint8_t *gid)
{
	for (unsigned i = 0; i < gids.count; i++) {
		if (memcmp(gids.gid[i].raw, gid, 16) == 0)
			return true;
	}
	return false;
}

static bool
is_mapped(const uint8_t *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(gid, mapped, sizeof(mapped)) == 0;
}

/* the address that a GID holds; false: it holds none */
static bool
address_of(const uint8_t *gid, struct in6_addr *address)
{
	static const uint8_t zero[2];
	const bool has_port = gid[0] == 0xfc;

	memcpy(address, gid, 16);
	if (!has_port)
		return true;
	if (gid[1] != 0x53 || gid[2] != 1 || memcmp(gid + 8, zero, 2) == 0)
		return false;
	memset(address, 0, sizeof(*address));
	address->s6_addr[10] = address->s6_addr[11] = 0xff;
	memcpy(address->s6_addr + 12, gid + 4, 4);
	return true;
}

/* --- sends --- */

/* the queue pair of a socket; one that is being destroyed may already have lost its port to another one */
static struct datagram_qp *
qp_of(uint16_t port)
{
	struct datagram_qp *leaving = NULL;

	for (unsigned i = 0; i < DATAGRAM_APPS * DATAGRAM_QPS; i++) {
		struct datagram_qp *qp = &datagram_apps[i / DATAGRAM_QPS].qps[i % DATAGRAM_QPS];
		if (qp->qp == NULL || qp->qp_num >> 8 != port)
			continue;
		if (!qp->leaving)
			return qp;
		leaving = qp;
	}
	SIM_CHECK(leaving, "port %u is used, and no queue pair has it", port);
	return leaving;
}

/* the next request that must leave */
static struct datagram_op *
next_to_leave(struct datagram_qp *qp)
{
	SIM_CHECK(qp->op_left < qp->op_count, "%s sends more than its requests", qp->name);
	struct datagram_op *op = &qp->ops[qp->op_left];
	SIM_CHECK(!qp->op_failed && op->verdict == IBV_WC_SUCCESS,
		"request %u of %s leaves, which it must not", qp->op_left, qp->name);
	SIM_CHECK(qp->op_left >= qp->op_first, "request %u of %s leaves behind a RESET", qp->op_left,
		qp->name);
	qp->op_left++;
	return op;
}

static void
make_header(const struct datagram_qp *qp, const struct datagram_op *op, uint32_t qkey,
	uint8_t header[static DATAGRAM_HEADER])
{
	memset(header, 0, DATAGRAM_HEADER);
	memcpy(header, "SRUD", 4);
	header[4] = 1;
	header[5] = (uint8_t)((op->has_imm ? FLAG_IMM : 0) | (op->solicited ? FLAG_SOLICITED : 0) |
		(datagram_plan.has_sums ? FLAG_SUMMED : 0));
	put16(header + 6, (uint32_t)op->len);
	put32(header + 8, op->to_qp);
	put32(header + 12, qp->qp_num);
	put32(header + 16, qkey);
	memcpy(header + 20, &op->imm, 4);
	header[24] = op->traffic_class;
	header[25] = op->hop_limit;
	put32(header + 28, op->flow_label);
	memcpy(header + 32, op->from.raw, 16);
	memcpy(header + 48, op->to.raw, 16);
}

static bool
has_header(const struct datagram_qp *qp, const struct datagram_op *op, const uint8_t *bytes)
{
	uint8_t header[DATAGRAM_HEADER];
	const bool is_own = op->qkey & DATAGRAM_OWN_QKEY;

	for (unsigned i = 0; i < 2; i++) {
		make_header(qp, op, is_own ? qp->qkeys[i] : op->qkey, header);
		if (memcmp(header, bytes, DATAGRAM_HEADER - 4) == 0)
			return true;
	}
	return false;
}

void
udp_on_leave(uint16_t port, struct udp_message *message, const struct sockaddr_in6 *to)
{
	struct datagram_qp *qp = qp_of(port);
	struct datagram_op *op = next_to_leave(qp);
	const unsigned i = (unsigned)(op - qp->ops);
	static uint8_t payload[DATAGRAM_PAYLOAD];
	struct in6_addr from_address, to_address;

	SIM_CHECK(message->size == DATAGRAM_HEADER + op->len, "request %u of %s leaves with %zu bytes", i,
		qp->name, message->size);
	SIM_CHECK(has_header(qp, op, message->bytes), "request %u of %s leaves with another header", i,
		qp->name);
	datagram_fill(qp, op, payload, op->len);
	SIM_CHECK(memcmp(payload, message->bytes + DATAGRAM_HEADER, op->len) == 0,
		"request %u of %s leaves with other content", i, qp->name);
	const uint32_t sum = datagram_plan.has_sums ? sum_of(message->bytes, message->size) : 0;
	SIM_CHECK(get32(message->bytes + 64) == sum, "request %u of %s leaves with a wrong sum", i, qp->name);
	SIM_CHECK(address_of(op->from.raw, &from_address) && address_of(op->to.raw, &to_address) &&
			memcmp(&from_address, &message->from.sin6_addr, 16) == 0 &&
			memcmp(&to_address, &to->sin6_addr, 16) == 0 &&
			ntohs(to->sin6_port) == op->to_qp >> 8,
		"request %u of %s leaves for another place, or from one", i, qp->name);
	op->message = message;
}

void
udp_on_refusal(uint16_t port)
{
	struct datagram_qp *qp = qp_of(port);

	next_to_leave(qp)->refused = true;
	qp->refused++;
}

/* --- what may become of a datagram --- */

static bool
is_well_formed(const struct udp_message *message)
{
	const uint8_t *at = message->bytes;

	if (message->size < DATAGRAM_HEADER || memcmp(at, "SRUD", 4) != 0 || at[4] != 1)
		return false;
	const bool has_imm = at[5] & FLAG_IMM, has_sum = at[5] & FLAG_SUMMED;
	return (at[5] & ~7) == 0 && get16(at + 6) == message->size - DATAGRAM_HEADER &&
		get16(at + 6) <= DATAGRAM_PAYLOAD && get32(at + 8) < 1 << 24 && get32(at + 12) < 1 << 24 &&
		(has_imm || get32(at + 20) == 0) && get16(at + 26) == 0 && get32(at + 28) < 1 << 20 &&
		(has_sum || get32(at + 64) == 0);
}

static bool
is_from_where_it_says(const struct udp_message *message)
{
	struct in6_addr address;
	const uint32_t port = get32(message->bytes + 12) >> 8;

	return port != 0 && address_of(message->bytes + 32, &address) &&
		memcmp(&address, &message->from.sin6_addr, sizeof(address)) == 0 &&
		port == ntohs(message->from.sin6_port);
}

static enum datagram_verdict
judge(const struct datagram_qp *qp, const struct udp_message *message)
{
	const uint8_t *at = message->bytes;

	if (!is_well_formed(message) || get32(at + 8) != qp->qp_num || !is_own_gid(at + 48) ||
		!is_from_where_it_says(message))
		return DATAGRAM_FOREIGN;
	if ((at[5] & FLAG_SUMMED) && sum_of(at, message->size) != get32(at + 64))
		return DATAGRAM_DAMAGED;
	return DATAGRAM_GOOD;
}

/* RFC 791 */
static uint32_t
sum_of_ip(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum & 0xffff;
}

static bool
has_v4_grh(const uint8_t *bytes)
{
	return is_mapped(bytes + 32) && is_mapped(bytes + 48);
}

static void
make_grh(const struct udp_message *message, uint8_t grh[static DATAGRAM_GRH])
{
	const uint8_t *at = message->bytes;
	const uint32_t length = (uint32_t)(8 + message->size);
	const uint32_t flow = get32(at + 28), class = at[24];

	memset(grh, 0, DATAGRAM_GRH);
	if (has_v4_grh(at)) {
		uint8_t *ip = grh + 20;
		ip[0] = 0x45;
		ip[1] = at[24];
		ip[2] = (uint8_t)((20 + length) >> 8);
		ip[3] = (uint8_t)(20 + length);
		ip[8] = at[25];
		ip[9] = 17;
		memcpy(ip + 12, at + 44, 4);
		memcpy(ip + 16, at + 60, 4);
		const uint32_t sum = sum_of_ip(ip);
		ip[10] = (uint8_t)(sum >> 8);
		ip[11] = (uint8_t)sum;
		return;
	}
	const uint32_t first = 6u << 28 | class << 20 | flow;
	for (int i = 0; i < 4; i++)
		grh[i] = (uint8_t)(first >> (24 - 8 * i));
	grh[4] = (uint8_t)(length >> 8);
	grh[5] = (uint8_t)length;
	grh[6] = 17;
	grh[7] = at[25];
	memcpy(grh + 8, at + 32, 32);
}

/* true if a receive shows no difference */
static bool
look_the_same(const struct udp_message *left, const struct udp_message *right)
{
	uint8_t grh[2][DATAGRAM_GRH];
	const uint8_t *a = left->bytes, *b = right->bytes;

	if (left == right)
		return true;
	if (left->size != right->size || ((a[5] ^ b[5]) & FLAG_IMM) || memcmp(a + 12, b + 12, 4) != 0 ||
		memcmp(a + 20, b + 20, 4) != 0 ||
		memcmp(a + DATAGRAM_HEADER, b + DATAGRAM_HEADER, left->size - DATAGRAM_HEADER) != 0)
		return false;
	make_grh(left, grh[0]);
	make_grh(right, grh[1]);
	return memcmp(grh[0], grh[1], DATAGRAM_GRH) == 0;
}

void
udp_on_read(uint16_t port, struct udp_message *message)
{
	struct datagram_qp *qp = qp_of(port);
	const uint32_t qkey = get32(message->bytes + 16);

	SIM_CHECK(qp->read_count < DATAGRAM_READS, "%s reads too much", qp->name);
	SIM_CHECK(qp->state == IBV_QPS_INIT || qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
			qp->state == IBV_QPS_ERR,
		"%s reads in state %d", qp->name, qp->state);
	struct datagram_read *read = &qp->reads[qp->read_count];
	*read = (struct datagram_read){
		.message = message,
		.verdict = judge(qp, message),
		.is_served = !qp->may_fail,
		.recvs = qp->queue->posted,
		.begun = qp->queue->begun,
		.readers = qp->queue->readers,
	};
	if (read->verdict == DATAGRAM_GOOD) {
		read->may_match = qkey == qp->qkeys[0] || qkey == qp->qkeys[1];
		read->may_differ = qkey != qp->qkeys[0] || qkey != qp->qkeys[1];
		qp->queue->readers += read->may_match;
		for (unsigned i = 0; i < qp->read_count && !qp->has_doubles; i++)
			qp->has_doubles = qp->reads[i].verdict == DATAGRAM_GOOD &&
				look_the_same(qp->reads[i].message, message);
	}
	SIM_TRACE("%s: datagram %u of %zu bytes: %s, %u receives, %u readers", qp->name, qp->read_count,
		message->size,
		read->verdict == DATAGRAM_FOREIGN           ? "foreign"
			: read->verdict == DATAGRAM_DAMAGED ? "damaged"
			: !read->may_match                  ? "another Q_Key"
			: qp->has_doubles                   ? "good, seen before"
							    : "good",
		read->recvs, read->readers);
	qp->read_count++;
}

/* --- receives --- */

/* true if an earlier one that looks the same counts as delivered: then it may have been this one, and that one was dropped */
static bool
may_be_delivered(const struct datagram_qp *qp, unsigned i)
{
	for (unsigned k = 0; qp->has_doubles && k < i; k++) {
		if (qp->reads[k].delivered && look_the_same(qp->reads[k].message, qp->reads[i].message))
			return true;
	}
	return false;
}

/*
 * True if the device may have dropped it. taken is the number of receives of the queue pair's own queue that were taken
 * before, which is known exactly as long as no bytes have come twice.
 */
static bool
may_be_dropped(const struct datagram_qp *qp, unsigned i, unsigned taken)
{
	const struct datagram_queue *queue = qp->queue;
	const struct datagram_read *read = &qp->reads[i];
	const size_t len = DATAGRAM_GRH + read->message->size - DATAGRAM_HEADER;

	if (read->verdict != DATAGRAM_GOOD || read->may_differ || !read->is_served || may_be_delivered(qp, i))
		return true;
	/* what the other queue pair has read later may have come first */
	if (queue->is_shared)
		return read->recvs < queue->readers || len > queue->shortest;
	if (qp->has_doubles)
		return read->recvs <= read->readers || len > queue->shortest;
	return read->recvs <= taken || len > queue->recvs[taken].len;
}

static void
check_dropped(const struct datagram_qp *qp, unsigned i, unsigned taken)
{
	SIM_CHECK(may_be_dropped(qp, i, taken),
		"%s has a receive for datagram %u of %u, of %zu bytes, and drops it", qp->name, i,
		qp->read_count, qp->reads[i].message->size);
}

/*
 * True if the completed receive may be of this datagram. A receive of the queue pair's own queue whose post begins when the
 * datagram has been read waits until the device is done with what it has read.
 */
static bool
matches(const struct datagram_queue *queue, const struct datagram_read *read,
	const struct datagram_recv *recv, const struct ibv_wc *wc)
{
	const uint8_t *at = read->message->bytes;
	const size_t payload = read->message->size - DATAGRAM_HEADER;
	const bool has_imm = at[5] & FLAG_IMM;
	uint8_t grh[DATAGRAM_GRH];

	if (read->verdict != DATAGRAM_GOOD || !read->may_match || wc->byte_len != DATAGRAM_GRH + payload ||
		(!queue->is_shared && recv >= queue->recvs + read->begun))
		return false;
	make_grh(read->message, grh);
	return wc->src_qp == get32(at + 12) && wc->sl == (has_v4_grh(at) ? PACKET_V4 : PACKET_V6) &&
		wc->wc_flags == (IBV_WC_GRH | (has_imm ? (unsigned)IBV_WC_WITH_IMM : 0)) &&
		(!has_imm || memcmp(&wc->imm_data, at + 20, 4) == 0) && wc->byte_len <= recv->len &&
		memcmp(recv->local, grh, DATAGRAM_GRH) == 0 &&
		memcmp(recv->local + DATAGRAM_GRH, at + DATAGRAM_HEADER, payload) == 0;
}

static void
recv_succeeded(struct datagram_qp *qp, struct datagram_recv *recv, unsigned i, const struct ibv_wc *wc)
{
	struct datagram_app *app = qp->app;

	SIM_CHECK(!qp->recv_failed, "receive %u of %s succeeds behind a failure", i, qp->name);
	SIM_CHECK(!recv->bad, "receive %u of %s has no memory, and succeeds", i, qp->name);
	SIM_CHECK(wc->opcode == IBV_WC_RECV, "receive %u of %s has another opcode", i, qp->name);
	while (qp->read_next < qp->read_count && !matches(qp->queue, &qp->reads[qp->read_next], recv, wc))
		check_dropped(qp, qp->read_next++, i);
	SIM_CHECK(qp->read_next < qp->read_count,
		"receive %u of %s has %u bytes that have not come, or have been there", i, qp->name,
		wc->byte_len);
	struct datagram_read *read = &qp->reads[qp->read_next++];
	read->delivered = true;
	read->message->delivered++;
	qp->received++;
	SIM_TRACE("%s: receive %u has %u bytes of %06x", qp->name, i, wc->byte_len, wc->src_qp);
	memcpy(app->expected + (recv->local - app->memory), recv->local, wc->byte_len);
}

static void
recv_completion(struct datagram_qp *qp, const struct ibv_wc *wc)
{
	struct datagram_queue *queue = qp->queue;
	const unsigned i = (unsigned)wc->wr_id & 0xff;
	struct datagram_recv *recv = &queue->recvs[i];
	const char *text = ibv_wc_status_str(wc->status);

	if (wc->status != IBV_WC_SUCCESS)
		SIM_TRACE("%s: receive %u: %s", qp->name, i, text);
	SIM_CHECK(i < queue->begun && !recv->completed && (queue->is_shared || i == queue->next),
		"receive %u of %s completes out of order, or twice", i, qp->name);
	recv->completed = true;
	queue->next = i + 1;
	if (wc->status == IBV_WC_SUCCESS) {
		recv_succeeded(qp, recv, i, wc);
		return;
	}
	if (wc->status == IBV_WC_LOC_PROT_ERR)
		SIM_CHECK(recv->bad && !qp->recv_failed, "receive %u of %s has no reason to fail: %s", i,
			qp->name, text);
	else
		SIM_CHECK(wc->status == IBV_WC_WR_FLUSH_ERR && qp->may_fail && !queue->is_shared,
			"receive %u of %s has no reason to fail: %s", i, qp->name, text);
	qp->recv_failed = true;
}

/* --- completions of sends --- */

/* it has left, or the system has refused it, and the application has its memory again */
static void
op_succeeded(struct datagram_qp *qp, unsigned i)
{
	struct datagram_op *op = &qp->ops[i];
	struct datagram_app *app = qp->app;

	SIM_CHECK(op->message || op->refused, "request %u of %s succeeds, and has not left", i, qp->name);
	memset(op->local, 0xdd, op->len);
	memset(app->expected + (op->local - app->memory), 0xdd, op->len);
}

static void
op_failed(struct datagram_qp *qp, unsigned i, enum ibv_wc_status status)
{
	const struct datagram_op *op = &qp->ops[i];
	const char *text = ibv_wc_status_str(status);

	SIM_CHECK(op->message == NULL && !op->refused, "request %u of %s has left, and fails: %s", i,
		qp->name, text);
	if (status == IBV_WC_WR_FLUSH_ERR)
		SIM_CHECK(qp->may_fail, "request %u of %s has no reason to fail: %s", i, qp->name, text);
	else
		SIM_CHECK(status == op->verdict && !qp->op_failed,
			"request %u of %s has no reason to fail: %s", i, qp->name, text);
	qp->op_failed = true;
}

static void
op_completion(struct datagram_qp *qp, const struct ibv_wc *wc)
{
	const unsigned i = (unsigned)wc->wr_id & 0xff;
	const struct datagram_op *op = &qp->ops[i];

	SIM_TRACE("%s: request %u: %s", qp->name, i, ibv_wc_status_str(wc->status));
	SIM_CHECK(i < qp->op_count && i >= qp->op_next, "request %u of %s completes out of order, or twice",
		i, qp->name);
	while (qp->op_next < i) {
		SIM_CHECK(!qp->ops[qp->op_next].signaled && !qp->op_failed,
			"request %u of %s has not completed", qp->op_next, qp->name);
		op_succeeded(qp, qp->op_next++);
	}
	qp->op_next = i + 1;
	if (wc->status != IBV_WC_SUCCESS) {
		op_failed(qp, i, wc->status);
		return;
	}
	SIM_CHECK(!qp->op_failed, "request %u of %s succeeds behind a failure", i, qp->name);
	SIM_CHECK(op->signaled, "request %u of %s was not to be reported", i, qp->name);
	SIM_CHECK(wc->opcode == IBV_WC_SEND && wc->byte_len == op->len,
		"request %u of %s: the completion is of another one", i, qp->name);
	op_succeeded(qp, i);
}

/* receives of a shared queue belong to the queue pair that has taken them */
static struct datagram_qp *
qp_of_completion(struct datagram_app *app, const struct ibv_wc *wc)
{
	for (unsigned i = 0; i < DATAGRAM_QPS; i++) {
		struct datagram_qp *qp = &app->qps[i];
		if (qp->qp && qp->qp_num == wc->qp_num)
			return qp;
	}
	sim_fail("%s: a completion of queue pair %06x, which it has no longer", app->name, wc->qp_num);
}

void
datagram_completion(void *arg, const struct ibv_wc *wc)
{
	struct datagram_app *app = arg;
	struct datagram_qp *qp = qp_of_completion(app, wc);
	const unsigned number = (unsigned)(wc->wr_id >> DATAGRAM_WR_QP_SHIFT) & 1;

	SIM_CHECK((wc->wr_id & DATAGRAM_WR_SHARED) || number == qp->number,
		"%s has a completion of the other queue pair", qp->name);
	if (wc->wr_id & DATAGRAM_WR_RECV)
		recv_completion(qp, wc);
	else
		op_completion(qp, wc);
}

/* --- lives --- */

void
datagram_new_life(struct datagram_qp *qp)
{
	qp->own.has_bad = qp->op_failed = qp->recv_failed = qp->has_doubles = false;
	qp->may_fail = qp->queue->has_bad;
	qp->op_next = qp->op_left = qp->op_first = qp->op_count;
	qp->refused = qp->received = qp->read_count = qp->read_next = 0;
	/* receives that were posted are gone */
	qp->own.next = qp->own.readers = qp->own.posted = qp->own.begun;
}

bool
datagram_is_complete(const struct datagram_qp *qp)
{
	for (unsigned i = qp->op_next; i < qp->op_count; i++) {
		if (qp->ops[i].signaled || qp->op_failed)
			return false;
	}
	return qp->op_failed || qp->op_left == qp->op_count;
}

/* --- counters --- */

static unsigned
count_reads(const struct datagram_qp *qp, enum datagram_verdict verdict)
{
	unsigned count = 0;

	for (unsigned i = 0; i < qp->read_count; i++)
		count += qp->reads[i].verdict == verdict;
	return count;
}

static void
check_drops(const struct datagram_qp *qp, const struct softrdma_stats *stats)
{
	unsigned least = 0, most = 0;
	uint64_t all = stats->served.operations[SOFTRDMA_STATS_SEND];

	for (unsigned i = 0; i < qp->read_count; i++) {
		const struct datagram_read *read = &qp->reads[i];
		least += read->verdict == DATAGRAM_GOOD && !read->may_match;
		most += read->verdict == DATAGRAM_GOOD && read->may_differ;
	}
	SIM_CHECK(stats->dropped[SOFTRDMA_STATS_FOREIGN] == count_reads(qp, DATAGRAM_FOREIGN) &&
			stats->dropped[SOFTRDMA_STATS_DAMAGED] == count_reads(qp, DATAGRAM_DAMAGED),
		"%s counts %" PRIu64 " foreign and %" PRIu64 " damaged datagrams instead of %u and %u",
		qp->name, stats->dropped[SOFTRDMA_STATS_FOREIGN], stats->dropped[SOFTRDMA_STATS_DAMAGED],
		count_reads(qp, DATAGRAM_FOREIGN), count_reads(qp, DATAGRAM_DAMAGED));
	SIM_CHECK(stats->dropped[SOFTRDMA_STATS_QKEY] >= least && stats->dropped[SOFTRDMA_STATS_QKEY] <= most,
		"%s counts %" PRIu64 " datagrams with a wrong Q_Key, which are %u to %u", qp->name,
		stats->dropped[SOFTRDMA_STATS_QKEY], least, most);
	SIM_CHECK(stats->dropped[SOFTRDMA_STATS_UNSENT] == qp->refused,
		"%s counts %" PRIu64 " datagrams that were not sent instead of %u", qp->name,
		stats->dropped[SOFTRDMA_STATS_UNSENT], qp->refused);
	for (unsigned why = 0; why < SOFTRDMA_STATS_UNSENT; why++)
		all += stats->dropped[why];
	/* a receive without memory fails with the datagram that it has taken */
	SIM_CHECK(all == qp->read_count || (qp->may_fail && all + 1 == qp->read_count),
		"%s has read %u datagrams, and counts %" PRIu64, qp->name, qp->read_count, all);
	SIM_CHECK(stats->served.operations[SOFTRDMA_STATS_SEND] >= qp->received,
		"%s counts fewer datagrams than it has received", qp->name);
}

static void
get_counters(const struct datagram_qp *qp, struct softrdma_stats *stats)
{
	struct softrdma_link *link = softrdma_qp_lock_link(softrdma_qp_of(qp->qp));

	memset(stats, 0, sizeof(*stats));
	softrdma_counters_sum(&link->responder.counters, stats);
	softrdma_counters_sum(&link->requester.ring.counters, stats);
	/* under the lock nothing is half done */
	SIM_CHECK(stats->issued.operations[SOFTRDMA_STATS_SEND] == qp->op_left - qp->op_first,
		"%s counts %" PRIu64 " requests, and %u have left", qp->name,
		stats->issued.operations[SOFTRDMA_STATS_SEND], qp->op_left - qp->op_first);
	check_drops(qp, stats);
	pthread_mutex_unlock(&link->lock);
}

void
datagram_check_counters(const struct datagram_qp *qp)
{
	struct softrdma_stats stats;

	get_counters(qp, &stats);
}

/* --- the end --- */

void
datagram_check_end(struct datagram_qp *qp)
{
	struct softrdma_stats stats;
	unsigned taken = qp->queue->next;

	if (qp->qp == NULL)
		return;
	SIM_CHECK(datagram_is_complete(qp), "a request of %s has not completed: %u of %u have", qp->name,
		qp->op_next, qp->op_count);
	while (qp->op_next < qp->op_count)
		op_succeeded(qp, qp->op_next++);
	while (qp->read_next < qp->read_count)
		check_dropped(qp, qp->read_next++, taken);
	get_counters(qp, &stats);
	SIM_CHECK(stats.served.operations[SOFTRDMA_STATS_SEND] == qp->received,
		"%s counts %" PRIu64 " datagrams, and has received %u", qp->name,
		stats.served.operations[SOFTRDMA_STATS_SEND], qp->received);
	for (unsigned i = 0; datagram_plan.is_calm && i < qp->op_count; i++)
		SIM_CHECK(qp->ops[i].message && qp->ops[i].message->delivered == 1,
			"request %u of %s has not arrived", i, qp->name);
}

/* what a receive got whose completion went with its queue pair may be anything that fits */
static void
allow_receives(struct datagram_app *app, const struct datagram_queue *queue)
{
	for (unsigned i = 0; i < queue->begun; i++) {
		const struct datagram_recv *recv = &queue->recvs[i];
		if (!recv->completed && app->lost_completions)
			memcpy(app->expected + (recv->local - app->memory), recv->local, recv->len);
	}
}

void
datagram_allow_memory(struct datagram_app *app)
{
	allow_receives(app, &app->shared);
	for (unsigned i = 0; i < DATAGRAM_QPS; i++)
		allow_receives(app, &app->qps[i].own);
	datagram_check_memory(app);
}

void
datagram_check_memory(const struct datagram_app *app)
{
	SIM_CHECK(memcmp(app->memory, app->expected, (size_t)(app->expected - app->memory)) == 0,
		"memory of %s has changed where nothing was asked for", app->name);
}
