/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_datagram.c -- unreliable datagrams without a socket: what leaves for a request, and what a datagram does that comes
 *
 * The queue pairs are in INIT, where they have a Q_Key, receives and no socket.
 */

#include <netinet/ip.h>
#include <sys/mman.h>

#include "datagrams.h"
#include "softrdma/verbs/srq.h"

#define HEADER SOFTRDMA_DATAGRAM_HEADER
#define MAX SOFTRDMA_DATAGRAM_MAX
#define FROM_QP 0xabcdef

static struct softrdma_link *
link_of(struct ibv_qp *qp)
{
	return softrdma_qp_of(qp)->link;
}

static struct ibv_qp *
new_in_init(struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = ud_with(attr);
	ud_to_init(qp);
	return qp;
}

static struct ibv_qp *
new_usual(void)
{
	struct ibv_qp_init_attr_ex attr = ud_attr();
	return new_in_init(&attr);
}

static struct softrdma_stats
stats_of(struct ibv_qp *qp)
{
	struct softrdma_stats stats = { 0 };
	softrdma_counters_sum(&link_of(qp)->responder.counters, &stats);
	softrdma_counters_sum(&link_of(qp)->requester.ring.counters, &stats);
	return stats;
}

static union ibv_gid
v4_gid(uint8_t last)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff, 192, 0, 2, last } };
	return gid;
}

static union ibv_gid
v6_gid(uint8_t last)
{
	union ibv_gid gid = { .raw = { 0x20, 0x01, 0x0d, 0xb8, [15] = last } };
	return gid;
}

/* --- requests --- */

static struct ibv_sge
piece(size_t offset, size_t len)
{
	return (struct ibv_sge){ .addr = (uintptr_t)the_mem + offset,
		.length = (uint32_t)len,
		.lkey = the_mr->lkey };
}

/* the next slot, with a destination, and signaled */
static struct softrdma_send *
slot(struct ibv_qp *qp, uint64_t wr_id)
{
	struct softrdma_send *send = softrdma_send_ring_slot(&link_of(qp)->requester.ring);
	assert_non_null(send);
	send->wr_id = wr_id;
	send->opcode = SOFTRDMA_OP_SEND;
	send->signaled = true;
	*send->to = (struct softrdma_destination){
		.from = v6_gid(1),
		.to = v4_gid(2),
		.qp_num = 0x123456,
		.qkey = 0x7fffffff,
		.flow_label = 0xfffff,
		.traffic_class = 0xa5,
		.hop_limit = 3,
	};
	return send;
}

static void
add_piece(struct softrdma_send *send, struct ibv_sge sge)
{
	send->sge[send->num_sge++] = sge;
	send->length += sge.length;
}

/* makes a request of the slot, and its header */
static enum ibv_wc_status
build(struct ibv_qp *qp, uint8_t header[static HEADER], struct softrdma_place *place)
{
	struct softrdma_link *link = link_of(qp);
	pthread_mutex_lock(&link->lock);
	const uint32_t seq = softrdma_send_ring_commit(&link->requester.ring);
	const enum ibv_wc_status status = softrdma_datagram_build(link, seq, header, place);
	pthread_mutex_unlock(&link->lock);
	return status;
}

static void
sent(struct ibv_qp *qp, unsigned count)
{
	struct softrdma_link *link = link_of(qp);
	pthread_mutex_lock(&link->lock);
	softrdma_datagram_sent(link, count);
	pthread_mutex_unlock(&link->lock);
}

/* the header, as the peer understands it */
static struct softrdma_datagram
decoded(const uint8_t header[static HEADER], size_t length)
{
	static uint8_t bytes[HEADER + MAX];
	struct softrdma_datagram datagram;
	memcpy(bytes, header, HEADER);
	assert_true(softrdma_datagram_decode(bytes, HEADER + length, &datagram));
	return datagram;
}

/* every field of the request is in the header */
static void
test_build_fields(void **state)
{
	(void)state;
	struct ibv_qp *qp = new_usual();
	uint8_t header[HEADER];
	struct softrdma_place place;
	const union ibv_gid from = v6_gid(1), to = v4_gid(2);

	struct softrdma_send *send = slot(qp, 1);
	send->imm = 0x11223344; /* has no effect without has_imm */
	assert_int_equal(build(qp, header, &place), IBV_WC_SUCCESS);
	struct softrdma_datagram datagram = decoded(header, 0);
	assert_false(datagram.has_imm || datagram.solicited || datagram.summed);
	assert_int_equal(datagram.imm, 0);
	assert_int_equal(datagram.to_qp, 0x123456);
	assert_int_equal(datagram.from_qp, qp->qp_num);
	assert_int_equal(datagram.qkey, 0x7fffffff);
	assert_int_equal(datagram.flow_label, 0xfffff);
	assert_int_equal(datagram.traffic_class, 0xa5);
	assert_int_equal(datagram.hop_limit, 3);
	assert_memory_equal(&datagram.from, &from, sizeof(from));
	assert_memory_equal(&datagram.to, &to, sizeof(to));

	send = slot(qp, 2);
	send->imm = 0x11223344;
	send->has_imm = send->solicited = send->to->summed = true;
	assert_int_equal(build(qp, header, &place), IBV_WC_SUCCESS);
	datagram = decoded(header, 0);
	assert_true(datagram.has_imm && datagram.solicited && datagram.summed);
	assert_int_equal(datagram.imm, 0x11223344);

	/* a Q_Key with the high bit stands for the queue pair's own */
	static const uint32_t own[] = { 0x80000000, 0xffffffff };
	for (int i = 0; i < 2; i++) {
		send = slot(qp, 3);
		send->to->qkey = own[i];
		assert_int_equal(build(qp, header, &place), IBV_WC_SUCCESS);
		assert_int_equal(decoded(header, 0).qkey, QKEY);
	}
	destroy_qp(qp);
}

static void
test_build_payload(void **state)
{
	(void)state;
	struct ibv_qp *qp = new_usual();
	uint8_t header[HEADER];
	struct softrdma_place place;
	static const size_t firsts[] = { 0, 1, 100, MAX - 1, MAX };
	for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
		/* two SGEs, of which one may be empty */
		struct softrdma_send *send = slot(qp, i);
		add_piece(send, piece(8192, firsts[i]));
		add_piece(send, piece(0, MAX - firsts[i]));
		assert_int_equal(build(qp, header, &place), IBV_WC_SUCCESS);
		assert_int_equal(decoded(header, MAX).length, MAX);
		size_t length = 0;
		for (int k = 0; k < place.count; k++) {
			const bool second = k == 1 || firsts[i] == 0;
			assert_ptr_equal(place.iov[k].iov_base, the_mem + (second ? 0 : 8192));
			length += place.iov[k].iov_len;
		}
		assert_int_equal(length, MAX);
	}
	slot(qp, 10);
	assert_int_equal(build(qp, header, &place), IBV_WC_SUCCESS);
	assert_int_equal(place.count, 0);

	struct softrdma_send *send = slot(qp, 11);
	send->is_inline = true;
	assert_int_equal(build(qp, header, &place), IBV_WC_SUCCESS);
	assert_int_equal(place.count, 0);
	send = slot(qp, 12);
	send->is_inline = true;
	send->length = 64;
	pattern_fill(send->inline_data, 64, 5, 0);
	assert_int_equal(build(qp, header, &place), IBV_WC_SUCCESS);
	assert_int_equal(place.count, 1);
	assert_int_equal(place.iov[0].iov_len, 64);
	assert_int_equal(pattern_check(place.iov[0].iov_base, 64, 5, 0), -1);
	assert_int_equal(decoded(header, 64).length, 64);
	destroy_qp(qp);
}

static void
test_build_fails(void **state)
{
	(void)state;
	struct ibv_qp *qp = new_usual();
	uint8_t header[HEADER];
	struct softrdma_place place;
	struct softrdma_send *send = slot(qp, 1);
	add_piece(send, piece(0, MAX));
	add_piece(send, piece(MAX, 1));
	assert_int_equal(build(qp, header, &place), IBV_WC_LOC_LEN_ERR);
	send = slot(qp, 2);
	send->is_inline = true;
	send->length = MAX + 1;
	assert_int_equal(build(qp, header, &place), IBV_WC_LOC_LEN_ERR);
	send = slot(qp, 3);
	add_piece(send, piece(0, 8));
	send->sge[0].lkey++;
	assert_int_equal(build(qp, header, &place), IBV_WC_LOC_PROT_ERR);
	send = slot(qp, 4);
	add_piece(send, piece(0, 8));
	add_piece(send, piece(MEM_SIZE - 4, 8)); /* the end is outside */
	assert_int_equal(build(qp, header, &place), IBV_WC_LOC_PROT_ERR);
	destroy_qp(qp);
}

/* a region of one page. The caller unmaps it after the last thread has started: a new thread may get the same addresses */
static struct ibv_mr *
new_page(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, page, 4096, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	return mr;
}

static void
test_sum(void **state)
{
	(void)state;
	struct ibv_qp *qp = new_usual();
	static uint8_t header[HEADER], whole[HEADER + MAX], payload[MAX];
	struct softrdma_place place;
	size_t length;
	pattern_fill(the_mem, MEM_SIZE, 6, 0);
	for (int kind = 0; kind < 3; kind++) {
		struct softrdma_send *send = slot(qp, 1);
		send->to->summed = true;
		if (kind == 1) {
			add_piece(send, piece(100, 96));
			add_piece(send, piece(196, MAX - 96));
		} else if (kind == 2) {
			send->is_inline = true;
			send->length = 64;
			memcpy(send->inline_data, the_mem + 100, 64);
		}
		const size_t sizes[] = { 0, MAX, 64 };
		assert_int_equal(build(qp, header, &place), IBV_WC_SUCCESS);
		length = 77;
		assert_true(softrdma_datagram_copy(&place, payload, &length));
		softrdma_datagram_sum(header, payload, length);
		assert_int_equal(length, sizes[kind]);
		assert_int_equal(pattern_check(payload, length, 6, 100), -1);

		/* the receiver finds it whole, until any bit changes */
		memcpy(whole, header, HEADER);
		memcpy(whole + HEADER, payload, length);
		struct softrdma_datagram datagram = decoded(header, length);
		assert_true(softrdma_datagram_is_whole(&datagram, whole));
		for (size_t at = 0; at < HEADER + length; at += 21) {
			if (at >= 64 && at < HEADER)
				continue; /* the sum, which counts as 0 */
			whole[at] ^= 1;
			assert_false(softrdma_datagram_is_whole(&datagram, whole));
			datagram.summed = false;
			assert_true(softrdma_datagram_is_whole(&datagram, whole));
			datagram.summed = true;
			whole[at] ^= 1;
		}
		datagram.sum ^= 0x80000000;
		assert_false(softrdma_datagram_is_whole(&datagram, whole));
	}
	destroy_qp(qp);
}

static void
test_copy_fails(void **state)
{
	(void)state;
	skip_under_valgrind();
	uint8_t header[HEADER], payload[MAX];
	size_t length;
	struct softrdma_place place;
	struct ibv_qp *qp = new_usual();
	struct ibv_mr *mr = new_page();
	struct softrdma_send *send = slot(qp, 2);
	add_piece(send, (struct ibv_sge){ .addr = (uintptr_t)mr->addr, .length = 8, .lkey = mr->lkey });
	assert_int_equal(build(qp, header, &place), IBV_WC_SUCCESS);
	assert_int_equal(munmap(mr->addr, 4096), 0);
	assert_false(softrdma_datagram_copy(&place, payload, &length));
	destroy_qp(qp);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
}

/* the oldest ones complete, in order, and those that are not signaled give no completion */
static void
test_sent(void **state)
{
	(void)state;
	struct ibv_qp *qp = new_usual();
	uint8_t header[HEADER];
	struct softrdma_place place;
	for (uint64_t i = 0; i < 5; i++) {
		struct softrdma_send *send = slot(qp, i);
		add_piece(send, piece(0, 10));
		send->signaled = i != 1;
		assert_int_equal(build(qp, header, &place), IBV_WC_SUCCESS);
	}
	sent(qp, 0);
	expect_no_completion();
	sent(qp, 3);
	expect_wc(0, IBV_WC_SUCCESS);
	expect_wc(2, IBV_WC_SUCCESS);
	expect_no_completion();
	sent(qp, 2);
	expect_wc(3, IBV_WC_SUCCESS);
	expect_wc(4, IBV_WC_SUCCESS);
	assert_int_equal(stats_of(qp).issued.operations[SOFTRDMA_STATS_SEND], 5);
	assert_int_equal(stats_of(qp).issued.bytes[SOFTRDMA_STATS_SEND], 50);
	expect_state(qp, IBV_QPS_INIT);
	destroy_qp(qp);
}

/* --- a completion queue with one place --- */

static struct ibv_cq *
short_cq(struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_cq *cq = softrdma_ibv_create_cq(softrdma_context(), 1, NULL, NULL, 0);
	assert_non_null(cq);
	*attr = ud_attr();
	attr->send_cq = attr->recv_cq = cq;
	return cq;
}

static void
test_sent_to_full_queue(void **state)
{
	(void)state;
	struct ibv_qp_init_attr_ex attr;
	struct ibv_cq *cq = short_cq(&attr);
	struct ibv_qp *qp = new_in_init(&attr);
	uint8_t header[HEADER];
	struct softrdma_place place;
	for (uint64_t i = 0; i < 3; i++) {
		slot(qp, i);
		assert_int_equal(build(qp, header, &place), IBV_WC_SUCCESS);
	}
	sent(qp, 1);
	expect_state(qp, IBV_QPS_INIT);
	sent(qp, 1);
	expect_state(qp, IBV_QPS_ERR);
	assert_true(log_has("is overrun"));
	sent(qp, 0); /* once is enough */
	expect_state(qp, IBV_QPS_ERR);
	destroy_qp(qp);
	assert_int_equal(softrdma_ibv_destroy_cq(cq), 0);
}

/* --- datagrams that come --- */

static struct softrdma_datagram
coming(struct ibv_qp *qp, size_t length)
{
	return (struct softrdma_datagram){
		.length = (uint16_t)length,
		.to_qp = qp->qp_num,
		.from_qp = FROM_QP,
		.qkey = QKEY,
		.flow_label = 0xabcde,
		.traffic_class = 0x91,
		.hop_limit = 0x77,
		.from = v4_gid(1),
		.to = v4_gid(2),
	};
}

static void
deliver(struct ibv_qp *qp, const struct softrdma_datagram *datagram)
{
	static uint8_t bytes[HEADER + MAX];
	struct softrdma_link *link = link_of(qp);
	softrdma_datagram_encode(datagram, bytes);
	pattern_fill(bytes + HEADER, datagram->length, 9, 0);
	pthread_mutex_lock(&link->lock);
	softrdma_datagram_deliver(link, datagram, bytes);
	pthread_mutex_unlock(&link->lock);
}

static uint16_t
get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

/* the sum of all words of a correct header, with its own sum, is 0xffff (RFC 1071) */
static uint32_t
sum_of_words(const uint8_t *header)
{
	uint32_t sum = 0;
	for (int i = 0; i < 20; i += 2)
		sum += get16(header + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static const size_t lengths[] = { 0, 1, 1000, MAX };

/* the receive has room for exactly this, or more */
static void
test_grh_of_v4(void **state)
{
	(void)state;
	struct ibv_qp *qp = new_usual();
	for (size_t i = 0; i < 2 * sizeof(lengths) / sizeof(lengths[0]); i++) {
		const size_t length = lengths[i / 2], more = i % 2 ? 50 : 0;
		const struct softrdma_datagram datagram = coming(qp, length);
		memset(the_mem, 0xcc, MEM_SIZE);
		ud_post_recv(qp, 5, 64, GRH + length + more);
		deliver(qp, &datagram);
		const struct ibv_wc wc = next_wc();
		assert_int_equal(wc.wr_id, 5);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.byte_len, GRH + length);
		assert_int_equal(wc.wc_flags, IBV_WC_GRH);
		assert_int_equal(wc.qp_num, qp->qp_num);
		assert_int_equal(wc.src_qp, FROM_QP);
		assert_int_equal(wc.sl, 10); /* UDP and IPv4, as ConnectX has it */

		const uint8_t *ip = the_mem + 64 + 20;
		assert_int_equal(pattern_check_byte(the_mem, 64, 0xcc), -1);
		assert_int_equal(pattern_check_byte(the_mem + 64, 20, 0), -1);
		assert_int_equal(ip[0], 0x45);
		assert_int_equal(ip[1], 0x91);
		assert_int_equal(get16(ip + 2), 20 + 8 + HEADER + length);
		assert_int_equal(get16(ip + 4), 0); /* id */
		assert_int_equal(get16(ip + 6), 0); /* fragment */
		assert_int_equal(ip[8], 0x77);
		assert_int_equal(ip[9], 17);
		assert_int_equal(sum_of_words(ip), 0xffff);
		assert_memory_equal(ip + 12, ((uint8_t[]){ 192, 0, 2, 1, 192, 0, 2, 2 }), 8);
		assert_int_equal(pattern_check(ip + 20, length, 9, 0), -1);
		assert_int_equal(pattern_check_byte(ip + 20 + length, more + 64, 0xcc), -1);
	}
	assert_int_equal(stats_of(qp).served.operations[SOFTRDMA_STATS_SEND], 8);
	assert_int_equal(stats_of(qp).served.bytes[SOFTRDMA_STATS_SEND], 2 * (0 + 1 + 1000 + MAX));
	destroy_qp(qp);
}

/* headers whose words sum up to more than 16 bits twice, and in which all is 0 that can be */
static void
test_sums_of_v4(void **state)
{
	(void)state;
	struct ibv_qp *qp = new_usual();
	for (int i = 0; i < 256; i++) {
		struct softrdma_datagram datagram = coming(qp, 0);
		datagram.traffic_class = (uint8_t)(i % 2 ? 255 : 0);
		datagram.hop_limit = (uint8_t)i;
		memset(datagram.from.raw + 12, i % 4 < 2 ? 0xff : 0, 4);
		memset(datagram.to.raw + 12, 255 - i, 4);
		ud_post_recv(qp, 1, 0, GRH);
		deliver(qp, &datagram);
		expect_wc(1, IBV_WC_SUCCESS);
		assert_int_equal(sum_of_words(the_mem + 20), 0xffff);
	}
	destroy_qp(qp);
}

/* also if one of the GIDs is mapped, and if it is one of ours with a secret */
static void
test_grh_of_v6(void **state)
{
	(void)state;
	struct ibv_qp *qp = new_usual();
	const union ibv_gid secret = { .raw = { 0xfc, 0x53, 1, 0, 127, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8 } };
	const union ibv_gid senders[] = { v6_gid(1), v6_gid(1), v4_gid(1), secret };
	const union ibv_gid receivers[] = { v6_gid(2), v4_gid(2), v6_gid(2), secret };
	for (int i = 0; i < 4; i++) {
		struct softrdma_datagram datagram = coming(qp, lengths[i]);
		datagram.from = senders[i];
		datagram.to = receivers[i];
		memset(the_mem, 0xcc, MEM_SIZE);
		ud_post_recv(qp, 5, 64, GRH + lengths[i]);
		deliver(qp, &datagram);
		const struct ibv_wc wc = next_wc();
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, GRH + lengths[i]);
		assert_int_equal(wc.sl, 9); /* UDP and IPv6 */
		const uint8_t *v6 = the_mem + 64;
		assert_memory_equal(v6, ((uint8_t[]){ 0x69, 0x1a, 0xbc, 0xde }),
			4); /* version, class, label */
		assert_int_equal(get16(v6 + 4), 8 + HEADER + lengths[i]);
		assert_int_equal(v6[6], 17);
		assert_int_equal(v6[7], 0x77);
		assert_memory_equal(v6 + 8, &senders[i], 16);
		assert_memory_equal(v6 + 24, &receivers[i], 16);
		assert_int_equal(pattern_check(v6 + 40, lengths[i], 9, 0), -1);
		assert_int_equal(pattern_check_byte(the_mem, 64, 0xcc), -1);
		assert_int_equal(pattern_check_byte(v6 + 40 + lengths[i], 64, 0xcc), -1);
	}
	destroy_qp(qp);
}

/* SGEs of which the first one ends within the GRH, or with it, or within the payload */
static void
test_pieces(void **state)
{
	(void)state;
	struct ibv_qp *qp = new_usual();
	static const uint32_t firsts[] = { 0, 1, 39, 40, 41, 139, 140 };
	for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
		struct ibv_sge sge[] = { piece(64, firsts[i]), piece(4096, GRH + 100 - firsts[i]) };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = sge, .num_sge = 2 }, *bad;
		const struct softrdma_datagram datagram = coming(qp, 100);
		uint8_t got[GRH + 100];
		memset(the_mem, 0xcc, MEM_SIZE);
		assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
		deliver(qp, &datagram);
		expect_wc(i, IBV_WC_SUCCESS);
		memcpy(got, the_mem + 64, firsts[i]);
		memcpy(got + firsts[i], the_mem + 4096, sizeof(got) - firsts[i]);
		assert_int_equal(got[20], 0x45);
		assert_int_equal(pattern_check(got + GRH, 100, 9, 0), -1);
		assert_int_equal(pattern_check_byte(the_mem + 64 + firsts[i], 1000, 0xcc), -1);
		assert_int_equal(pattern_check_byte(the_mem + 4096 + sizeof(got) - firsts[i], 1000, 0xcc),
			-1);
	}
	destroy_qp(qp);
}

static void
test_immediate_data(void **state)
{
	(void)state;
	struct ibv_qp *qp = new_usual();
	struct softrdma_datagram datagram = coming(qp, 0);
	datagram.has_imm = true;
	datagram.imm = htonl(0x01020304);
	ud_post_recv(qp, 1, 0, GRH);
	deliver(qp, &datagram);
	const struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(ntohl(wc.imm_data), 0x01020304);
	destroy_qp(qp);
}

/* a queue that waits for solicited completions hears of those, and of failures */
static void
test_solicited(void **state)
{
	(void)state;
	struct ibv_comp_channel *channel = softrdma_ibv_create_comp_channel(softrdma_context());
	assert_non_null(channel);
	struct ibv_cq *cq = softrdma_ibv_create_cq(softrdma_context(), 8, NULL, channel, 0);
	struct ibv_qp_init_attr_ex attr = ud_attr();
	attr.recv_cq = cq;
	struct ibv_qp *qp = new_in_init(&attr);
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_req_notify_cq(cq, 1), 0);
	for (int kind = 0; kind < 3; kind++) {
		struct softrdma_datagram datagram = coming(qp, 0);
		struct ibv_sge sge = piece(0, GRH);
		struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
		datagram.solicited = kind == 1;
		sge.lkey += kind == 2; /* fails */
		assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
		deliver(qp, &datagram);
		assert_int_equal(readable(channel->fd, 0), kind != 0);
		if (kind == 0)
			continue;
		struct ibv_cq *got;
		void *context;
		assert_int_equal(softrdma_ibv_get_cq_event(channel, &got, &context), 0);
		softrdma_ibv_ack_cq_events(got, 1);
		assert_int_equal(ibv_req_notify_cq(cq, 1), 0);
	}
	destroy_qp(qp);
	assert_int_equal(softrdma_ibv_destroy_cq(cq), 0);
	assert_int_equal(softrdma_ibv_destroy_comp_channel(channel), 0);
}

/* each reason counts for itself, and the receive stays for the next datagram */
static void
test_dropped(void **state)
{
	(void)state;
	struct ibv_qp *qp = new_usual();
	struct softrdma_datagram datagram = coming(qp, 100);
	deliver(qp, &datagram);
	assert_int_equal(dropped(qp, SOFTRDMA_STATS_NO_RECEIVE), 1);
	ud_post_recv(qp, 1, 0, GRH + 99);
	memset(the_mem, 0xcc, MEM_SIZE);
	deliver(qp, &datagram);
	assert_int_equal(dropped(qp, SOFTRDMA_STATS_TOO_LONG), 1);
	datagram.length = 99;
	for (uint32_t bit = 1; bit; bit <<= 1) {
		datagram.qkey = QKEY ^ bit;
		deliver(qp, &datagram);
	}
	assert_int_equal(dropped(qp, SOFTRDMA_STATS_QKEY), 32);
	expect_no_completion();
	assert_int_equal(pattern_check_byte(the_mem, MEM_SIZE, 0xcc), -1);
	datagram.qkey = QKEY;
	deliver(qp, &datagram);
	expect_wc(1, IBV_WC_SUCCESS);

	ud_post_recv(qp, 2, 0, GRH + 99);
	move_to(qp, IBV_QPS_ERR);
	expect_wc(2, IBV_WC_WR_FLUSH_ERR);
	deliver(qp, &datagram);
	assert_int_equal(dropped(qp, SOFTRDMA_STATS_NO_RECEIVE), 2);
	expect_no_completion();

	struct softrdma_link *link = link_of(qp);
	pthread_mutex_lock(&link->lock);
	softrdma_datagram_drop(link, SOFTRDMA_STATS_UNSENT);
	pthread_mutex_unlock(&link->lock);
	static const uint64_t counts[SOFTRDMA_STATS_DROPS] = { [SOFTRDMA_STATS_NO_RECEIVE] = 2,
		[SOFTRDMA_STATS_TOO_LONG] = 1,
		[SOFTRDMA_STATS_QKEY] = 32,
		[SOFTRDMA_STATS_UNSENT] = 1 };
	for (int why = 0; why < SOFTRDMA_STATS_DROPS; why++)
		assert_int_equal(dropped(qp, (enum softrdma_stats_drop)why), counts[why]);
	assert_int_equal(stats_of(qp).served.operations[SOFTRDMA_STATS_SEND], 1);
	destroy_qp(qp);
}

/* a shared queue has the receives of both; a queue pair that has failed takes none of them */
static void
test_shared_receives(void **state)
{
	(void)state;
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = softrdma_ibv_create_srq(the_pd, &srq_attr);
	assert_non_null(srq);
	struct ibv_qp_init_attr_ex attr = ud_attr();
	attr.srq = srq;
	struct ibv_qp *a = new_in_init(&attr), *b = new_in_init(&attr);
	const struct softrdma_datagram to_a = coming(a, 10), to_b = coming(b, 10);
	struct ibv_sge sge = piece(0, GRH + 10);
	struct ibv_recv_wr *bad;
	for (uint64_t i = 0; i < 3; i++) {
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };
		assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	}
	deliver(b, &to_b);
	deliver(a, &to_a);
	struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wr_id, 0);
	assert_int_equal(wc.qp_num, b->qp_num);
	wc = next_wc();
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.qp_num, a->qp_num);
	move_to(a, IBV_QPS_ERR);
	deliver(a, &to_a);
	expect_no_completion();
	deliver(b, &to_b);
	expect_wc(2, IBV_WC_SUCCESS);
	destroy_qp(a);
	destroy_qp(b);
	assert_int_equal(softrdma_ibv_destroy_srq(srq), 0);
}

/*
 * The receive completes with the error, later ones are flushed, and the queue pair is in error. The page is unmapped before; it may
 * be NULL.
 */
static void
expect_store_fails(struct ibv_sge bad_sge, void *page)
{
	struct ibv_qp *qp = new_usual();
	const struct softrdma_datagram datagram = coming(qp, 20);
	struct ibv_sge sge[] = { piece(0, GRH), bad_sge };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = sge, .num_sge = 2 }, *bad;
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
	ud_post_recv(qp, 2, 0, 100);
	if (page)
		assert_int_equal(munmap(page, 4096), 0);
	deliver(qp, &datagram);
	const struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(wc.byte_len, 0);
	expect_wc(2, IBV_WC_WR_FLUSH_ERR);
	expect_state(qp, IBV_QPS_ERR);
	assert_int_equal(stats_of(qp).served.operations[SOFTRDMA_STATS_SEND], 0);
	destroy_qp(qp);
}

static void
test_store_fails(void **state)
{
	(void)state;
	struct ibv_sge sge = piece(100, 20);
	sge.lkey++;
	expect_store_fails(sge, NULL);
	assert_false(log_has("registered memory is not there"));

	/* a region that may only be read */
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, the_mem, MEM_SIZE, 0);
	assert_non_null(mr);
	sge.lkey = mr->lkey;
	expect_store_fails(sge, NULL);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
}

static void
test_store_to_missing(void **state)
{
	(void)state;
	skip_under_valgrind();
	struct ibv_mr *mr = new_page();
	expect_store_fails((struct ibv_sge){ (uintptr_t)mr->addr, 20, mr->lkey }, mr->addr);
	assert_true(log_has("registered memory is not there"));
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
}

static void
test_full_queue(void **state)
{
	(void)state;
	struct ibv_qp_init_attr_ex attr;
	struct ibv_cq *cq = short_cq(&attr);
	struct ibv_qp *qp = new_in_init(&attr);
	const struct softrdma_datagram datagram = coming(qp, 20);
	for (uint64_t i = 0; i < 3; i++)
		ud_post_recv(qp, i, 0, 100);
	deliver(qp, &datagram);
	expect_state(qp, IBV_QPS_INIT);
	deliver(qp, &datagram);
	expect_state(qp, IBV_QPS_ERR);
	destroy_qp(qp);
	assert_int_equal(softrdma_ibv_destroy_cq(cq), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_build_fields),
		device_test(test_build_payload),
		device_test(test_build_fails),
		device_test(test_sum),
		device_test(test_copy_fails),
		device_test(test_sent),
		device_test(test_sent_to_full_queue),
		device_test(test_grh_of_v4),
		device_test(test_sums_of_v4),
		device_test(test_grh_of_v6),
		device_test(test_pieces),
		device_test(test_immediate_data),
		device_test(test_solicited),
		device_test(test_dropped),
		device_test(test_shared_receives),
		device_test(test_store_fails),
		device_test(test_store_to_missing),
		device_test(test_full_queue),
	};
	return cmocka_run_group_tests(tests, setup_by_hand, teardown_by_hand);
}
