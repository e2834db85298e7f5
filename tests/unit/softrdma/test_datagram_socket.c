/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_datagram_socket.c -- unreliable datagrams on their way through sockets: honest ones, forged ones, and what can fail
 *
 * The queue pairs are in this process. A plain socket plays a peer that sends what it likes.
 */

#include <netinet/ip.h>
#include <sys/mman.h>

#include "datagrams.h"

#define HEADER SOFTRDMA_DATAGRAM_HEADER
#define MAX SOFTRDMA_DATAGRAM_MAX

static const size_t sizes[] = { 0, 1, 1000, MAX };
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* makes the_gid() and the next handles use this entry of the table */
static union ibv_gid
gid_at(unsigned index)
{
	union ibv_gid gid;
	assert_int_equal(softrdma_gid_get(index, &gid), 0);
	gid_index = index;
	return gid;
}

/* --- honest ones --- */

/*
 * Each GID of the machine with itself: those of 127.0.0.1 and ::1, and those of other addresses. A machine without IPv6
 * has fewer of them, and no case is skipped for that.
 */
static void
test_each_gid(void **state)
{
	(void)state;
	struct ibv_qp *a = ud_ready(), *b = ud_ready();
	for (unsigned i = 0; i < softrdma_gid_count(); i++) {
		const union ibv_gid gid = gid_at(i);
		struct ibv_ah *ah = new_ah(&gid);
		for (int k = 0; k < SIZES; k++) {
			expect_datagram(a, ah, b, sizes[k]);
			expect_datagram(b, ah, a, sizes[k]);
			expect_datagram(a, ah, a, sizes[k]);
		}
		destroy_ah(ah);
	}
	destroy_qp(a);
	destroy_qp(b);
}

static bool
is_mapped(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw);
}

/* the GRH shows the GIDs that the sender has used, also if a machine has several addresses */
static void
expect_gids(const struct ibv_wc *wc, const union ibv_gid *from, const union ibv_gid *to)
{
	struct ibv_grh grh;
	memcpy(&grh, the_mem + IN + 8, sizeof(grh));
	if (is_mapped(from) && is_mapped(to)) {
		struct iphdr ip;
		memcpy(&ip, the_mem + IN + 8 + 20, sizeof(ip));
		assert_memory_equal(&ip.saddr, from->raw + 12, 4);
		assert_memory_equal(&ip.daddr, to->raw + 12, 4);
		assert_int_equal(wc->sl, 10);
	} else {
		assert_memory_equal(&grh.sgid, from, sizeof(*from));
		assert_memory_equal(&grh.dgid, to, sizeof(*to));
		assert_int_equal(wc->sl, 9);
	}
}

static void
test_each_pair_of_gids(void **state)
{
	(void)state;
	struct ibv_qp *a = ud_ready(), *b = ud_ready();
	unsigned pairs = 0;
	for (unsigned i = 0; i < softrdma_gid_count(); i++) {
		for (unsigned k = 0; k < softrdma_gid_count(); k++) {
			const union ibv_gid to = gid_at(k), from = gid_at(i);
			struct ibv_ah_attr attr = ah_attr(&to);
			struct ibv_ah *ah = softrdma_ibv_create_ah(the_pd, &attr);
			if (ah == NULL) {
				assert_int_equal(errno, EINVAL); /* of different families */
				continue;
			}
			const struct ibv_wc wc = expect_datagram(a, ah, b, 30);
			expect_gids(&wc, &from, &to);
			destroy_ah(ah);
			pairs++;
		}
	}
	assert_true(pairs >= softrdma_gid_count());
	destroy_qp(a);
	destroy_qp(b);
}

/* a queue of its own, because the usual one is too short */
static struct ibv_cq *
long_cq(void)
{
	struct ibv_cq *cq = softrdma_ibv_create_cq(softrdma_context(), 1024, NULL, NULL, 0);
	assert_non_null(cq);
	return cq;
}

/* the next receive of this queue */
static struct ibv_wc
next_of(struct ibv_cq *cq)
{
	struct ibv_wc wc = { 0 };
	wait_until(ibv_poll_cq(cq, 1, &wc) == 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	return wc;
}

/* one post of many requests, each of another length, of two pieces or inline */
static void
test_list(void **state)
{
	(void)state;
	enum { COUNT = 40 };
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_cq *cq = long_cq();
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp_init_attr_ex attr = ud_attr();
	attr.recv_cq = cq;
	struct ibv_qp *a = ud_ready(), *b = ud_with(&attr);
	ud_to_rts(b);
	struct ibv_send_wr wr[COUNT], *bad;
	struct ibv_sge sge[COUNT][2];
	pattern_fill(the_mem, 4096, 8, 0);
	for (uint32_t i = 0; i < COUNT; i++) {
		ud_post_recv(b, i, IN + 256 * i, 256);
		sge[i][0] = (struct ibv_sge){ (uintptr_t)the_mem + i, i, the_mr->lkey };
		sge[i][1] = (struct ibv_sge){ (uintptr_t)the_mem + 2 * i, 20, the_mr->lkey };
		wr[i] = ud_wr(i, ah, b->qp_num, sge[i]);
		wr[i].num_sge = 2;
		wr[i].send_flags = (i == COUNT - 1 ? IBV_SEND_SIGNALED : 0) | (i % 3 ? 0 : IBV_SEND_INLINE);
		wr[i].next = i + 1 < COUNT ? &wr[i + 1] : NULL;
	}
	assert_int_equal(ibv_post_send(a, wr, &bad), 0);
	expect_wc(COUNT - 1, IBV_WC_SUCCESS);
	expect_no_completion();
	for (uint32_t i = 0; i < COUNT; i++) {
		const struct ibv_wc wc = next_of(cq);
		assert_int_equal(wc.wr_id, i); /* a socket keeps the order */
		assert_int_equal(wc.byte_len, GRH + i + 20);
		assert_int_equal(pattern_check(the_mem + IN + 256 * i + GRH, i + 20, 8, i), -1);
	}
	destroy_ah(ah);
	destroy_qp(a);
	destroy_qp(b);
	assert_int_equal(softrdma_ibv_destroy_cq(cq), 0);
}

/* more than one turn sends, and more than one turn receives */
static void
test_many(void **state)
{
	(void)state;
	enum { COUNT = 200 };
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_cq *cq = long_cq();
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp_init_attr_ex attr = ud_attr();
	attr.recv_cq = attr.send_cq = cq;
	attr.cap.max_send_wr = attr.cap.max_recv_wr = 256;
	struct ibv_qp *a = ud_with(&attr), *b = ud_with(&attr);
	struct softrdma_link *link = softrdma_qp_of(b)->link;
	ud_to_rts(a);
	ud_to_rts(b);
	for (uint64_t i = 0; i < COUNT; i++)
		ud_post_recv(b, 1000 + i, IN, 128);
	pthread_mutex_lock(&link->lock); /* nothing is received before all has been sent */
	fail_call(FAIL_ANY, "sendmmsg", 0, FAIL_FOR_EVER, EAGAIN);
	for (uint64_t i = 0; i < COUNT - 1; i++)
		ud_send(a, i, ah, b, 8);
	assert_true(fail_nothing() > 0);
	ud_send(a, COUNT - 1, ah, b, 8);
	pthread_mutex_unlock(&link->lock);
	uint64_t sent = 0, received = 1000;
	for (int i = 0; i < 2 * COUNT; i++) {
		const struct ibv_wc wc = next_of(cq);
		uint64_t *next = wc.opcode == IBV_WC_RECV ? &received : &sent;
		assert_int_equal(wc.wr_id, *next);
		++*next;
	}
	assert_int_equal(sent, COUNT);
	assert_int_equal(received, 1000 + COUNT);
	destroy_ah(ah);
	destroy_qp(a);
	destroy_qp(b);
	assert_int_equal(softrdma_ibv_destroy_cq(cq), 0);
}

/* a program that polls all the time comes to read the socket itself */
static void
test_busy_polls(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp *a = ud_ready(), *b = ud_ready();
	const int64_t end = now_ms() + PATIENCE_MS;
	for (unsigned round = 0; round < 1000; round++) {
		struct ibv_wc wc;
		int left = 2;
		ud_post_recv(b, 1, IN, 128);
		ud_send(a, 2, ah, b, 8);
		while (left > 0 && left_ms(end) > 0) {
			if (ibv_poll_cq(the_cq, 1, &wc) == 1) {
				assert_int_equal(wc.status, IBV_WC_SUCCESS);
				left--;
			}
		}
		assert_int_equal(left, 0);
	}
	destroy_ah(ah);
	destroy_qp(a);
	destroy_qp(b);
}

static bool
is_led(struct ibv_qp *qp)
{
	struct softrdma_link *link = softrdma_qp_of(qp)->link;
	return locked(link, softrdma_connection_of(link)->reader == SOFTRDMA_READER_LEAD);
}

/*
 * A thread that polls reads the sockets of its queue, all that waits there, and the progress thread only sends what had no
 * room. The clock stands, so that all polls are dense, and no progress thread looks whether this thread has stopped.
 */
static void
test_poller_leads(void **state)
{
	(void)state;
	enum { COUNT = 200 };
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_cq *cq = long_cq();
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp_init_attr_ex attr = ud_attr();
	attr.recv_cq = attr.send_cq = cq;
	attr.cap.max_recv_wr = 256;
	struct ibv_qp *a = ud_with(&attr), *b = ud_with(&attr);
	ud_to_rts(a);
	ud_to_rts(b);
	clock_stop();
	clock_forward_ms(1001);
	const int64_t end = now_ms() + PATIENCE_MS;
	while (!(is_led(a) && is_led(b)) && left_ms(end) > 0) {
		struct ibv_wc wc;
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
	}
	assert_true(is_led(a) && is_led(b));

	ud_post_recv(b, 1, IN, 128);
	fail_call(FAIL_MINE, "sendmmsg", 0, 1, EAGAIN);
	ud_send(a, 2, ah, b, 8);
	assert_int_equal(fail_nothing(), 1);
	assert_int_equal(next_of(cq).wr_id + next_of(cq).wr_id, 3);

	for (uint64_t i = 0; i < COUNT; i++)
		ud_post_recv(b, 1000 + i, IN, 128);
	for (uint64_t i = 0; i < COUNT; i++)
		ud_send(a, i, ah, b, 8);
	uint64_t sent = 0, received = 1000;
	for (int i = 0; i < 2 * COUNT; i++) {
		const struct ibv_wc wc = next_of(cq);
		uint64_t *next = wc.opcode == IBV_WC_RECV ? &received : &sent;
		assert_int_equal(wc.wr_id, *next);
		++*next;
	}
	assert_int_equal(received, 1000 + COUNT);
	clock_go_on();
	destroy_ah(ah);
	destroy_qp(a);
	destroy_qp(b);
	assert_int_equal(softrdma_ibv_destroy_cq(cq), 0);
}

/* a program that waits for events of the channel of its queue */
static void
test_channel(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_comp_channel *channel = softrdma_ibv_create_comp_channel(softrdma_context());
	assert_non_null(channel);
	struct ibv_cq *cq = softrdma_ibv_create_cq(softrdma_context(), 64, NULL, channel, 0);
	struct ibv_qp_init_attr_ex attr = ud_attr();
	attr.recv_cq = cq;
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp *a = ud_ready(), *b = ud_with(&attr);
	ud_to_rts(b);
	for (unsigned round = 0; round < 500; round++) {
		struct ibv_cq *got = NULL;
		void *context;
		struct ibv_wc wc;
		assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
		ud_post_recv(b, round, IN, 128);
		ud_send(a, 1, ah, b, 8);
		expect_wc(1, IBV_WC_SUCCESS);
		/* waits in the call; the deadline of the program names it if no event comes */
		assert_int_equal(softrdma_ibv_get_cq_event(channel, &got, &context), 0);
		assert_ptr_equal(got, cq);
		softrdma_ibv_ack_cq_events(got, 1);
		wc = next_of(cq);
		assert_int_equal(wc.wr_id, round);
		assert_int_equal(wc.qp_num, b->qp_num);
	}
	destroy_ah(ah);
	destroy_qp(a);
	destroy_qp(b);
	assert_int_equal(softrdma_ibv_destroy_cq(cq), 0);
	assert_int_equal(softrdma_ibv_destroy_comp_channel(channel), 0);
}

/* in RTR it receives and sends nothing; in ERR and after its end nothing comes, and the sender does not notice */
static void
test_receiver_states(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp *a = ud_ready(), *b = ud_new();
	ud_to_rtr(b);
	expect_datagram(a, ah, b, 10);
	ud_send(a, 1, ah, b, 10); /* no receive */
	expect_wc(1, IBV_WC_SUCCESS);
	wait_until(dropped(b, SOFTRDMA_STATS_NO_RECEIVE) == 1);
	ud_post_recv(b, 2, IN, GRH + 9);
	ud_send(a, 1, ah, b, 10);
	expect_wc(1, IBV_WC_SUCCESS);
	wait_until(dropped(b, SOFTRDMA_STATS_TOO_LONG) == 1);
	move_to(b, IBV_QPS_ERR);
	expect_wc(2, IBV_WC_WR_FLUSH_ERR);
	ud_send(a, 3, ah, b, 10);
	expect_wc(3, IBV_WC_SUCCESS);
	wait_until(dropped(b, SOFTRDMA_STATS_NO_RECEIVE) == 2);
	const struct ibv_qp gone = { .qp_num = b->qp_num };
	destroy_qp(b);
	ud_send(a, 4, ah, &gone, 10);
	expect_wc(4, IBV_WC_SUCCESS);
	expect_no_completion();
	destroy_ah(ah);
	destroy_qp(a);
}

/* --- a peer that sends what it likes --- */

struct stranger {
	int fd;
	uint32_t qp_num; /* a number that goes with its port */
	struct sockaddr_in to;
	union ibv_gid gid;
};

static void
stranger_init(struct stranger *s, const struct ibv_qp *qp)
{
	struct sockaddr_in own = loopback(0);
	socklen_t len = sizeof(own);
	s->gid = the_gid(MAPPED);
	s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(s->fd >= 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&own, sizeof(own)), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *)&own, &len), 0);
	s->qp_num = (uint32_t)ntohs(own.sin_port) << 8 | 0x42;
	s->to = loopback(htons((uint16_t)(qp->qp_num >> 8)));
}

static void
stranger_send(const struct stranger *s, const void *bytes, size_t size)
{
	assert_int_equal(sendto(s->fd, bytes, size, 0, (const struct sockaddr *)&s->to, sizeof(s->to)), size);
}

/* a datagram of 20 bytes that would be taken */
static struct softrdma_datagram
proper(const struct stranger *s, const struct ibv_qp *qp)
{
	return (struct softrdma_datagram){ .length = 20,
		.to_qp = qp->qp_num,
		.from_qp = s->qp_num,
		.qkey = QKEY,
		.from = s->gid,
		.to = s->gid };
}

/* with a right sum if it is to have one */
static size_t
encode(const struct softrdma_datagram *datagram, uint8_t bytes[static HEADER + MAX + 1])
{
	softrdma_datagram_encode(datagram, bytes);
	pattern_fill(bytes + HEADER, datagram->length, 4, 0);
	if (datagram->summed)
		softrdma_datagram_set_sum(bytes,
			softrdma_crc32c(softrdma_datagram_begin_sum(bytes), bytes + HEADER,
				datagram->length));
	return HEADER + (size_t)datagram->length;
}

static void
stranger_send_datagram(const struct stranger *s, const struct softrdma_datagram *datagram)
{
	uint8_t bytes[HEADER + MAX + 1];
	stranger_send(s, bytes, encode(datagram, bytes));
}

static void
expect_foreign(struct ibv_qp *qp, uint64_t count)
{
	wait_until(dropped(qp, SOFTRDMA_STATS_FOREIGN) == count);
	expect_no_completion();
}

/* what is no datagram of the device */
static void
test_forged_bytes(void **state)
{
	(void)state;
	struct ibv_qp *qp = ud_ready();
	struct stranger s;
	stranger_init(&s, qp);
	struct ibv_ah *ah = new_ah(&s.gid);
	const struct softrdma_datagram good = proper(&s, qp);
	static uint8_t bytes[HEADER + MAX + 1];
	uint64_t count = 0;
	memset(the_mem, 0xcc, MEM_SIZE);
	ud_post_recv(qp, 1, IN, GRH + 20);

	stranger_send(&s, bytes, 0);
	expect_foreign(qp, ++count);
	static const size_t lengths[] = { 1, HEADER - 1, HEADER, HEADER + 20, HEADER + MAX };
	for (int i = 0; i < 5; i++) {
		pattern_fill(bytes, lengths[i], 99, 0);
		stranger_send(&s, bytes, lengths[i]);
		expect_foreign(qp, ++count);
	}
	encode(&good, bytes);
	bytes[4] = 2; /* another version */
	stranger_send(&s, bytes, HEADER + 20);
	expect_foreign(qp, ++count);
	encode(&good, bytes);
	stranger_send(&s, bytes, HEADER + 19);
	expect_foreign(qp, ++count);
	stranger_send(&s, bytes, HEADER + MAX + 1);
	expect_foreign(qp, ++count);
	/* one byte too long, with a length that was right for what is received of it */
	struct softrdma_datagram longest = good;
	longest.length = MAX;
	encode(&longest, bytes);
	stranger_send(&s, bytes, HEADER + MAX + 1);
	expect_foreign(qp, ++count);
	assert_int_equal(pattern_check_byte(the_mem, MEM_SIZE, 0xcc), -1);

	/* an honest one arrives after them */
	pattern_fill(the_mem, 20, 4, 0);
	ud_send(qp, 2, ah, qp, 20);
	expect_passage(2, 1);
	assert_int_equal(pattern_check(the_mem + IN + GRH, 20, 4, 0), -1);
	assert_int_equal(dropped(qp, SOFTRDMA_STATS_FOREIGN), count);
	close(s.fd);
	destroy_ah(ah);
	destroy_qp(qp);
}

/* proper ones, but not from where they say, or not for this queue pair */
static void
test_forged_addresses(void **state)
{
	(void)state;
	struct ibv_qp *qp = ud_ready();
	struct stranger s;
	stranger_init(&s, qp);
	struct ibv_ah *ah = new_ah(&s.gid);
	struct softrdma_datagram datagram;
	uint64_t count = 0;
	ud_post_recv(qp, 1, IN, GRH + 20);
#define FORGED(change) \
	do { \
		datagram = proper(&s, qp); \
		change; \
		stranger_send_datagram(&s, &datagram); \
		expect_foreign(qp, ++count); \
	} while (0)
	FORGED(datagram.to_qp++);
	FORGED(datagram.to_qp ^= 0x100);
	FORGED(datagram.to.raw[15]++);                         /* not ours */
	FORGED(memset(&datagram.to, 0xff, 16));                /* not ours */
	FORGED(datagram.from.raw[15]++);                       /* another machine */
	FORGED(memcpy(&datagram.from, &in6addr_loopback, 16)); /* another family */
	FORGED(memset(&datagram.from, 0xfc, 16));              /* no GID */
	FORGED(datagram.from_qp = qp->qp_num);                 /* another port */
	FORGED(datagram.from_qp = s.qp_num & 0xff);            /* no port */
	FORGED(datagram.from_qp ^= 0x100);                     /* the port beside */

	/* GIDs of ours with a secret hold another port, but the number's port is what counts */
	const union ibv_gid secret = the_gid(AF_INET);
	FORGED(datagram.from = secret; datagram.from_qp = qp->qp_num);

	/* a wrong Q_Key is something else */
	datagram = proper(&s, qp);
	datagram.qkey++;
	stranger_send_datagram(&s, &datagram);
	wait_until(dropped(qp, SOFTRDMA_STATS_QKEY) == 1);
	expect_foreign(qp, count);

	/* and without any of that it is taken: so the cases above differ from it only by what they say */
	datagram = proper(&s, qp);
	stranger_send_datagram(&s, &datagram);
	const struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.src_qp, s.qp_num);
	expect_foreign(qp, count);
	the_gid(MAPPED);
	expect_datagram(qp, ah, qp, 10);
	close(s.fd);
	destroy_ah(ah);
	destroy_qp(qp);
}

/* --- injected faults --- */

/* queue pairs that are made from here on have these faults */
static void
faults(const char *text)
{
	setenv("SOFTRDMA_FAULTS", text, 1);
	assert_int_equal(softrdma_fault_plan_read(), 0);
}

/* sends datagrams of 1 to count bytes; those of these lengths come, in this order */
static void
expect_lengths(const char *text, unsigned count, const uint32_t *lengths, unsigned expected)
{
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah *ah = new_ah(&gid);
	faults(text);
	struct ibv_qp *a = ud_ready();
	faults("reject@1"); /* none that strikes datagrams */
	struct ibv_qp *b = ud_ready();
	for (unsigned i = 0; i < expected; i++)
		ud_post_recv(b, 100 + i, IN + 128 * i, 128);
	for (unsigned i = 1; i <= count; i++) {
		ud_send(a, i, ah, b, i);
		struct ibv_wc wc;
		wait_until(ibv_poll_cq(the_cq, 1, &wc) == 1);
		/* receives come in between */
		while (wc.opcode == IBV_WC_RECV) {
			assert_true(expected > 0);
			assert_int_equal(wc.byte_len, GRH + *lengths);
			lengths++;
			expected--;
			wait_until(ibv_poll_cq(the_cq, 1, &wc) == 1);
		}
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	for (; expected > 0; expected--, lengths++) {
		struct ibv_wc wc;
		wait_until(ibv_poll_cq(the_cq, 1, &wc) == 1);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.byte_len, GRH + *lengths);
	}
	expect_no_completion();
	destroy_ah(ah);
	destroy_qp(a);
	destroy_qp(b);
}

static void
test_faults(void **state)
{
	(void)state;
	expect_lengths("lose@2", 4, (const uint32_t[]){ 1, 3, 4 }, 3);
	expect_lengths("duplicate@2", 3, (const uint32_t[]){ 1, 2, 2, 3 }, 4);
	expect_lengths("reorder@2", 4, (const uint32_t[]){ 1, 3, 2, 4 }, 4);
	expect_lengths("reorder@2", 2, (const uint32_t[]){ 1 }, 1); /* none follows */
	expect_lengths("lose", 3, NULL, 0);
}

/* the last byte changes: of the payload, or of the check sum */
static void
test_corrupt(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	setenv("SOFTRDMA_CRC", "1", 1);
	struct ibv_ah *ah = new_ah(&gid);
	faults("corrupt@1");
	struct ibv_qp *a = ud_ready(), *b = ud_ready(), *c = ud_ready();
	ud_send(a, 1, ah, c, 10);
	expect_wc(1, IBV_WC_SUCCESS);
	wait_until(dropped(c, SOFTRDMA_STATS_DAMAGED) == 1);
	ud_send(b, 2, ah, c, 0);
	expect_wc(2, IBV_WC_SUCCESS);
	wait_until(dropped(c, SOFTRDMA_STATS_DAMAGED) == 2);
	expect_datagram(a, ah, c, 10);
	destroy_ah(ah);
	destroy_qp(a);
	destroy_qp(b);
	destroy_qp(c);
}

/* no queue pair has a number of more than 24 bits */
static void
test_wide_numbers(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp *qp = ud_ready();
	struct ibv_sge sge = { (uintptr_t)the_mem, 8, the_mr->lkey };
	struct ibv_send_wr wr = ud_wr(1, ah, qp->qp_num | 1u << 24, &sge), *bad;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	destroy_ah(ah);
	destroy_qp(qp);
}

/* --- check sums --- */

static void
test_sums(void **state)
{
	(void)state;
	setenv("SOFTRDMA_CRC", "1", 1);
	struct ibv_qp *a = ud_ready(), *b = ud_ready();
	struct stranger s;
	stranger_init(&s, b);
	struct ibv_ah *ah = new_ah(&s.gid);
	for (int i = 0; i < SIZES; i++)
		expect_datagram(a, ah, b, sizes[i]);
	/* of two pieces, and inline */
	for (int is_inline = 0; is_inline < 2; is_inline++) {
		struct ibv_sge sge[] = { { (uintptr_t)the_mem + 8, 24, the_mr->lkey },
			{ (uintptr_t)the_mem + 32, 40, the_mr->lkey } };
		struct ibv_send_wr wr = ud_wr(1, ah, b->qp_num, sge), *bad;
		wr.num_sge = 2;
		wr.send_flags |= is_inline ? IBV_SEND_INLINE : 0;
		pattern_fill(the_mem, 128, 3, 0);
		ud_post_recv(b, 2, IN, GRH + 64);
		assert_int_equal(ibv_post_send(a, &wr, &bad), 0);
		expect_passage(1, 2);
		assert_int_equal(pattern_check(the_mem + IN + GRH, 64, 3, 8), -1);
	}
	/* any byte that changes on the way */
	struct softrdma_datagram datagram = proper(&s, b);
	uint8_t bytes[HEADER + MAX + 1];
	datagram.summed = true;
	ud_post_recv(b, 2, IN, GRH + 20);
	static const size_t places[] = { 16 /* Q_Key */, 24 /* class */, 64 /* the sum */, HEADER,
		HEADER + 19 };
	for (int i = 0; i < 5; i++) {
		const size_t size = encode(&datagram, bytes);
		bytes[places[i]] ^= 0x20;
		stranger_send(&s, bytes, size);
		wait_until(dropped(b, SOFTRDMA_STATS_DAMAGED) == (uint64_t)i + 1);
	}
	expect_no_completion();
	stranger_send_datagram(&s, &datagram);
	expect_wc(2, IBV_WC_SUCCESS);
	assert_int_equal(dropped(b, SOFTRDMA_STATS_DAMAGED), 5);
	assert_int_equal(dropped(b, SOFTRDMA_STATS_FOREIGN), 0);
	close(s.fd);
	destroy_ah(ah);
	destroy_qp(a);
	destroy_qp(b);
}

/* --- memory that is gone --- */

/*
 * The earlier request of a list succeeds, the one whose memory is gone fails, the later one is flushed. The page is unmapped when
 * the last thread has started: a new one may get the same addresses; it may be NULL.
 */
static void
expect_missing(struct ibv_ah *ah, struct ibv_qp *to, uint64_t addr, uint32_t lkey, void *page)
{
	struct ibv_qp *qp = ud_ready();
	struct ibv_sge sge[] = { { (uintptr_t)the_mem, 8, the_mr->lkey }, { addr, 8, lkey } };
	struct ibv_send_wr wr[3], *bad;
	for (uint64_t i = 0; i < 3; i++) {
		wr[i] = ud_wr(10 + i, ah, to->qp_num, &sge[i == 1]);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].send_flags = 0; /* a failure shows in any case */
	if (page)
		assert_int_equal(munmap(page, 4096), 0);
	assert_int_equal(ibv_post_send(qp, wr, &bad), 0);
	expect_wc(10, IBV_WC_SUCCESS);
	expect_wc(11, IBV_WC_LOC_PROT_ERR);
	expect_wc(12, IBV_WC_WR_FLUSH_ERR);
	expect_state(qp, IBV_QPS_ERR);
	expect_no_completion();
	destroy_qp(qp);
}

static void
test_missing_memory(void **state)
{
	(void)state;
	skip_under_valgrind();
	if (in_emulator()) {
		print_message(
			"SKIPPED: the emulator sends an empty piece in the place of memory that is not there\n");
		skip();
	}
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_qp *to = ud_ready();
	for (int summed = 0; summed < 2; summed++) {
		void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(page, MAP_FAILED);
		struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, page, 4096, 0);
		assert_non_null(mr);
		setenv("SOFTRDMA_CRC", summed ? "1" : "0", 1);
		struct ibv_ah *ah = new_ah(&gid);
		const uint32_t lkey = mr->lkey;
		expect_missing(ah, to, (uintptr_t)page, lkey, page);
		assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
		expect_missing(ah, to, (uintptr_t)page, lkey, NULL);
		expect_missing(ah, to, (uintptr_t)the_mem, the_mr->lkey + 1, NULL);
		destroy_ah(ah);
	}
	assert_true(log_has("registered memory is not there"));
	destroy_qp(to);
}

/* the same in the other order: a request that waits for room in the socket, whose region is deregistered meanwhile */
static void
test_deregistered_between(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp *qp = ud_ready(), *to = ud_ready();
	static uint8_t other[64];
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, other, sizeof(other), 0);
	assert_non_null(mr);
	struct ibv_sge sge = { (uintptr_t)other, 8, mr->lkey };
	struct ibv_send_wr wr = ud_wr(1, ah, to->qp_num, &sge), *bad;
	fail_call(FAIL_ANY, "sendmmsg", 0, FAIL_FOR_EVER, EAGAIN);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	assert_true(fail_nothing() > 0);
	ud_send(qp, 2, ah, to, 8);
	expect_wc(1, IBV_WC_LOC_PROT_ERR);
	expect_wc(2, IBV_WC_WR_FLUSH_ERR);
	expect_state(qp, IBV_QPS_ERR);
	destroy_ah(ah);
	destroy_qp(qp);
	destroy_qp(to);
}

/* a message that is longer than a datagram may be */
static void
test_too_long(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp *qp = ud_ready();
	ud_send(qp, 1, ah, qp, MAX + 1);
	expect_wc(1, IBV_WC_LOC_LEN_ERR);
	expect_state(qp, IBV_QPS_ERR);
	destroy_ah(ah);
	destroy_qp(qp);
}

/* --- the system --- */

static void
test_sends_fail(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	static const struct {
		int error;
		bool arrives;
	} faults[] = { { EINTR, true }, { EAGAIN, true }, { ENETUNREACH, false }, { EPERM, false },
		{ ENOBUFS, false } };
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp *qp = ud_ready();
	uint64_t lost = 0;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		ud_post_recv(qp, 1, IN, 128);
		fail_call(FAIL_MINE, "sendmmsg", 0, 1, faults[i].error);
		ud_send(qp, 2, ah, qp, 8);
		assert_int_equal(fail_nothing(), 1);
		lost += !faults[i].arrives;
		if (!faults[i].arrives) {
			expect_wc(2, IBV_WC_SUCCESS); /* as if lost on its way */
			assert_int_equal(dropped(qp, SOFTRDMA_STATS_UNSENT), lost);
			ud_send(qp, 2, ah, qp, 8); /* what follows leaves */
		}
		expect_passage(2, 1);
		assert_int_equal(dropped(qp, SOFTRDMA_STATS_UNSENT), lost);
	}
	/* a number without a port */
	const struct ibv_qp absent = { .qp_num = 0xff };
	ud_send(qp, 3, ah, &absent, 8);
	expect_wc(3, IBV_WC_SUCCESS);
	assert_int_equal(dropped(qp, SOFTRDMA_STATS_UNSENT), lost + 1);
	destroy_ah(ah);
	destroy_qp(qp);
}

/* a signal, or a moment without memory, loses nothing that the next datagram does not bring */
static void
test_receives_fail(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp *qp = ud_ready();
	ud_post_recv(qp, 1, IN, 128);
	fail_call(FAIL_ANY, "recvmmsg", 0, 1, EINTR);
	ud_send(qp, 2, ah, qp, 8);
	expect_passage(2, 1);
	assert_int_equal(fail_nothing(), 1);

	ud_post_recv(qp, 3, IN, 128);
	ud_post_recv(qp, 4, IN, 128);
	fail_call(FAIL_ANY, "recvmmsg", 0, 1, ENOMEM);
	ud_send(qp, 5, ah, qp, 8);
	wait_until(has_failed(1));
	assert_int_equal(fail_nothing(), 1);
	ud_send(qp, 6, ah, qp, 8);
	uint64_t seen = 0;
	for (int i = 0; i < 4; i++)
		seen += next_wc().wr_id;
	assert_int_equal(seen, 3 + 4 + 5 + 6);
	destroy_ah(ah);
	destroy_qp(qp);
}

/* a machine without IPv6, or one that does not let a socket have both families */
static void
test_without_v6(void **state)
{
	(void)state;
	static const char *const calls[] = { "socket", "setsockopt", "bind", "getsockname" };
	const int families[] = { MAPPED, AF_INET };
	for (int i = 0; i < 4; i++) {
		fail_call(FAIL_MINE, calls[i], 0, 1, EAFNOSUPPORT);
		struct ibv_qp *a = ud_ready();
		assert_int_equal(fail_nothing(), 1);
		struct ibv_qp *b = ud_ready();
		for (int k = 0; k < 2; k++) {
			const union ibv_gid gid = the_gid(families[k]);
			struct ibv_ah *ah = new_ah(&gid);
			const struct ibv_wc wc = expect_datagram(a, ah, b, 100);
			expect_gids(&wc, &gid, &gid);
			expect_datagram(b, ah, a, MAX);
			expect_datagram(a, ah, a, 0);
			destroy_ah(ah);
		}
		destroy_qp(a);
		destroy_qp(b);
	}
}

/* such a socket cannot send to an address of IPv6: as if lost on its way */
static void
test_v4_to_v6(void **state)
{
	(void)state;
	const union ibv_gid gid =
		the_gid(AF_INET6); /* a machine without IPv6 has none, and cmocka says "skipped" */
	struct ibv_ah *ah = new_ah(&gid);
	fail_call(FAIL_MINE, "socket", 0, 1, EAFNOSUPPORT);
	struct ibv_qp *a = ud_ready();
	assert_int_equal(fail_nothing(), 1);
	struct ibv_qp *b = ud_ready();
	ud_post_recv(b, 1, IN, 128);
	ud_send(a, 2, ah, b, 8);
	expect_wc(2, IBV_WC_SUCCESS);
	assert_int_equal(dropped(a, SOFTRDMA_STATS_UNSENT), 1);
	expect_state(a, IBV_QPS_RTS);
	ud_send(b, 3, ah, b, 8);
	expect_passage(3, 1);
	destroy_ah(ah);
	destroy_qp(a);
	destroy_qp(b);
}

/* --- faults of src: these cases fail until it is mended --- */

/* before a queue pair has got a first datagram, no GID of its own is known: 16 zero bytes are not one */
static void
test_zero_gid(void **state)
{
	(void)state;
	struct ibv_qp *qp = ud_ready();
	struct stranger s;
	stranger_init(&s, qp);
	struct softrdma_datagram datagram = proper(&s, qp);
	memset(&datagram.to, 0, sizeof(datagram.to));
	ud_post_recv(qp, 1, IN, GRH + 20);
	stranger_send_datagram(&s, &datagram);
	expect_foreign(qp, 1);
	close(s.fd);
	destroy_qp(qp);
}

/* what came before RTR, or in an earlier life, is not received */
static void
test_before_rtr(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp *a = ud_ready(), *b = ud_ready();
	move_to(b, IBV_QPS_RESET);
	ud_send(a, 1, ah, b, 8);
	expect_wc(1, IBV_WC_SUCCESS);
	ud_to_init(b);
	ud_post_recv(b, 2, IN, 128);
	ud_send(a, 3, ah, b, 8);
	expect_wc(3, IBV_WC_SUCCESS);
	assert_int_equal(ud_modify(b, IBV_QPS_RTR, IBV_QP_STATE), 0);
	ud_send(a, 4, ah, b, 9);
	const struct ibv_wc wc = expect_passage(4, 2);
	assert_int_equal(wc.byte_len, GRH + 9);
	destroy_ah(ah);
	destroy_qp(a);
	destroy_qp(b);
}

/* a transition that has failed changes no attribute */
static void
test_failed_rtr(void **state)
{
	(void)state;
	struct ibv_qp *qp = ud_new();
	struct ibv_qp_attr attr = ud_all(IBV_QPS_RTR), got;
	struct ibv_qp_init_attr init;
	ud_to_init(qp);
	attr.qkey = 5;
	fail_call(FAIL_MINE, "fcntl", 0, 1, EMFILE);
	assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_QKEY), EMFILE);
	assert_int_equal(fail_nothing(), 1);
	assert_int_equal(softrdma_ibv_query_qp(qp, &got, 0, &init), 0);
	destroy_qp(qp);
	assert_int_equal(got.qkey, QKEY);
}

/* the line about missing memory comes with a check sum, too */
static void
test_line_with_sum(void **state)
{
	(void)state;
	skip_under_valgrind();
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_qp *to = ud_ready();
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, page, 4096, 0);
	setenv("SOFTRDMA_CRC", "1", 1);
	struct ibv_ah *ah = new_ah(&gid);
	expect_missing(ah, to, (uintptr_t)page, mr->lkey, page);
	destroy_ah(ah);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	destroy_qp(to);
	assert_true(log_has("registered memory is not there"));
}

/* a program may know its address otherwise than by asking for its GIDs */
static void
test_gids_were_not_asked_for(void **state)
{
	(void)state;
	struct ibv_qp *qp = ud_ready();
	struct stranger s;
	stranger_init(&s, qp);
	const struct softrdma_datagram datagram = proper(&s, qp);
	softrdma_release_gids(); /* as at the start of the program */
	ud_post_recv(qp, 1, IN, GRH + 20);
	stranger_send_datagram(&s, &datagram);
	expect_wc(1, IBV_WC_SUCCESS);
	close(s.fd);
	destroy_qp(qp);
	softrdma_release_gids();
}

/* no GID keeps a port */
static int
setup_without_gids(void **state)
{
	softrdma_release_gids();
	return setup_test(state);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_each_gid),
		device_test(test_each_pair_of_gids),
		device_test(test_list),
		device_test(test_many),
		device_test(test_busy_polls),
		device_test(test_poller_leads),
		device_test(test_channel),
		device_test(test_receiver_states),
		device_test(test_forged_bytes),
		device_test(test_forged_addresses),
		setting_test(test_faults),
		setting_test(test_corrupt),
		device_test(test_wide_numbers),
		setting_test(test_sums),
		setting_test(test_missing_memory),
		device_test(test_deregistered_between),
		device_test(test_too_long),
		device_test(test_sends_fail),
		device_test(test_receives_fail),
		device_test(test_without_v6),
		device_test(test_v4_to_v6),
		setting_test(test_line_with_sum),
		device_test(test_failed_rtr),
		device_test(test_zero_gid),
		device_test(test_before_rtr),
		cmocka_unit_test_setup_teardown(test_gids_were_not_asked_for, setup_without_gids,
			teardown_test),
	};
	return cmocka_run_group_tests(tests, setup_by_hand, teardown_by_hand);
}
