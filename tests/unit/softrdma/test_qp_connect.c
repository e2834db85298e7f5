/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_qp_connect.c -- queue pairs that connect without the connection manager find each other */

#include "by_hand.h"

#include <sys/epoll.h>

#include "softrdma/base/env.h"
#include "softrdma/engine/connection.h"

/* moves the clock between two steps of the progress thread, never within one that has just read a socket */
static void
let_pass_ms(unsigned ms)
{
	softrdma_cm_lock();
	clock_forward_ms(ms);
	softrdma_cm_unlock();
}

/* --- two queue pairs --- */

static void
test_meet(void **state)
{
	(void)state;
	static const int families[] = { AF_INET, MAPPED, AF_INET6 }; /* the last may be skipped */
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		struct hands h;
		hands_init(&h, families[i]);
		hands_meet(&h);
		expect_write(h.a);
		expect_write(h.b);
		assert_int_equal(h.a->state, IBV_QPS_RTS);
		hands_fini(&h);
	}
	assert_int_equal(log_worst, 0);
}

/* a queue pair in RTR serves requests, whichever of the two it is */
static void
test_one_way(void **state)
{
	(void)state;
	for (int turn = 0; turn < 2; turn++) {
		struct hands h;
		hands_init(&h, AF_INET);
		struct ibv_qp *client = turn ? h.a : h.b, *server = turn ? h.b : h.a;
		uint32_t client_psn = turn ? PSN_A : PSN_B, server_psn = turn ? PSN_B : PSN_A;
		to_rtr(server, &h.gid, client->qp_num, client_psn);
		to_rtr(client, &h.gid, server->qp_num, server_psn);
		to_rts(client, client_psn);
		expect_write(client);
		assert_int_equal(server->state, IBV_QPS_RTR);
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
		assert_int_equal(ibv_post_send(server, &wr, &bad), EINVAL);
		/* later it goes to RTS, and can send requests as well */
		to_rts(server, server_psn);
		expect_write(server);
		expect_write(client);
		hands_fini(&h);
	}
}

/* the first one that is ready waits for the other, which is in INIT */
static void
test_late(void **state)
{
	(void)state;
	struct hands h;
	hands_init(&h, AF_INET);
	to_rtr(h.a, &h.gid, h.b->qp_num, PSN_B);
	to_rts(h.a, PSN_A);
	post_write(h.a, 7);
	struct ibv_wc wc;
	assert_false(readable(-1, 60)); /* time for several attempts */
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	to_rtr(h.b, &h.gid, h.a->qp_num, PSN_A);
	expect_wc(7, IBV_WC_SUCCESS);
	hands_fini(&h);
}

/* both connect at the same time; whichever attempt succeeds, there is one connection */
static void
test_both_call(void **state)
{
	(void)state;
	for (int round = 0; round < 50; round++) {
		struct hands h;
		hands_init(&h, round & 1 ? AF_INET6 : AF_INET);
		to_rtr(h.a, &h.gid, h.b->qp_num, PSN_B);
		to_rtr(h.b, &h.gid, h.a->qp_num, PSN_A);
		/* the progress thread is locked out meanwhile, so both have begun when it goes on */
		softrdma_cm_lock();
		struct softrdma_qp_connect *qpcs[] = { softrdma_qp_of(h.a)->by_hand,
			softrdma_qp_of(h.b)->by_hand };
		struct ibv_qp *qps[] = { h.a, h.b };
		const uint32_t psns[] = { PSN_A, PSN_B };
		for (int i = 0; i < 2; i++) {
			struct softrdma_link *link = softrdma_qp_of(qps[i])->link;
			pthread_mutex_lock(&link->lock);
			softrdma_requester_start(&link->requester, psns[i], 4);
			qps[i]->state = IBV_QPS_RTS;
			pthread_mutex_unlock(&link->lock);
			qpcs[i]->attr.sq_psn = psns[i];
			softrdma_qp_connect_start(qpcs[i]);
		}
		softrdma_cm_unlock();
		/*
		 * to two places, because this thread may store one write while the progress thread stores the
		 * other
		 */
		post_write(h.a, 1);
		post_write_to(h.b, 1, the_mem + MEM_SIZE / 4);
		expect_wc(1, IBV_WC_SUCCESS);
		expect_wc(1, IBV_WC_SUCCESS);
		expect_write(h.a);
		expect_write(h.b);
		hands_fini(&h);
	}
	assert_int_equal(log_worst, 0);
}

static void
test_to_itself(void **state)
{
	(void)state;
	for (int v6 = 0; v6 < 2; v6++) {
		union ibv_gid gid = the_gid(v6 ? AF_INET6 : AF_INET);
		struct ibv_qp *qp = new_qp();
		to_init(qp);
		to_rtr(qp, &gid, qp->qp_num, PSN_A);
		to_rts(qp, PSN_A);
		expect_write(qp);
		/* more than the sockets hold, so it must read while it writes */
		struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = MEM_SIZE, .lkey = the_mr->lkey };
		struct ibv_send_wr wr = { .wr_id = 5,
			.opcode = IBV_WR_RDMA_READ,
			.sg_list = &sge,
			.num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED };
		struct ibv_send_wr *bad;
		wr.wr.rdma.remote_addr = (uintptr_t)the_mem;
		wr.wr.rdma.rkey = the_mr->rkey;
		for (int i = 0; i < 8; i++)
			assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
		for (int i = 0; i < 8; i++)
			expect_wc(5, IBV_WC_SUCCESS);
		struct ibv_recv_wr recv = { .wr_id = 6, .sg_list = &sge, .num_sge = 1 }, *bad_recv;
		assert_int_equal(ibv_post_recv(qp, &recv, &bad_recv), 0);
		wr.opcode = IBV_WR_SEND;
		wr.num_sge = 0;
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
		expect_wc(6, IBV_WC_SUCCESS);
		expect_wc(5, IBV_WC_SUCCESS);
		assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
	}
	assert_int_equal(log_worst, 0);
}

static bool
has_incoming(struct ibv_qp *qp)
{
	softrdma_cm_lock();
	bool has = softrdma_qp_of(qp)->by_hand->incoming != NULL;
	softrdma_cm_unlock();
	return has;
}

/* an incoming connection waits until its queue pair gets to RTR */
static void
test_incoming_in_init(void **state)
{
	(void)state;
	struct hands h;
	hands_init(&h, AF_INET);
	/* a third queue pair keeps the listener open */
	struct ibv_qp *other = new_qp();
	to_init(other);
	to_rtr(other, &h.gid, 0x777777, 1);
	to_rtr(h.a, &h.gid, h.b->qp_num, PSN_B);
	to_rts(h.a, PSN_A);
	wait_until(has_incoming(h.b));
	to_rtr(h.b, &h.gid, h.a->qp_num, PSN_A);
	expect_write(h.a);
	/* another one is destroyed while a connection waits for it */
	struct ibv_qp *late = new_qp();
	to_init(late);
	to_rtr(late, &h.gid, h.a->qp_num, 3);
	assert_int_equal(softrdma_ibv_destroy_qp(late), 0);
	assert_int_equal(softrdma_ibv_destroy_qp(other), 0);
	hands_fini(&h);
}

/* --- a peer that does not exist --- */

static void
test_absence_bounds(void **state)
{
	(void)state;
	static const struct {
		uint8_t timeout, retry_cnt;
		unsigned ms;
	} cases[] = { { 1, 0, SOFTRDMA_ABSENCE_MIN_MS }, { 31, 7, SOFTRDMA_ABSENCE_MAX_MS }, { 14, 7, 2147 },
		{ 18, 1, 8589 }, { 0, 7, 0 } };
	union ibv_gid gid = the_gid(AF_INET);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ibv_qp *qp = new_qp();
		to_init(qp);
		to_rtr(qp, &gid, 0x123456, 1);
		struct ibv_qp_attr attr = rts_attr(2);
		attr.timeout = cases[i].timeout;
		attr.retry_cnt = cases[i].retry_cnt;
		assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, RTS_MASK), 0);
		assert_int_equal(softrdma_connection_of(softrdma_qp_of(qp)->link)->absence_ms, cases[i].ms);
		if (cases[i].ms == 0) {
			/* for ever */
			post_write(qp, 9);
			let_pass_ms(100 * SOFTRDMA_ABSENCE_MAX_MS);
			struct ibv_wc wc;
			assert_false(readable(-1, 60));
			assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
		}
		assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
	}
}

/* the peer ends: an idle queue pair gets an error for its next request, and none before it */
static void
test_peer_ends(void **state)
{
	(void)state;
	struct hands h;
	hands_init(&h, AF_INET);
	hands_meet(&h);
	assert_int_equal(softrdma_ibv_destroy_qp(h.b), 0);
	wait_until(link_state(h.a) == SOFTRDMA_LINK_DOWN);
	expect_state(h.a, IBV_QPS_RTS);
	post_write(h.a, 1);
	struct ibv_wc wc;
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	let_pass_ms(3000);
	expect_wc(1, IBV_WC_RETRY_EXC_ERR);
	expect_state(h.a, IBV_QPS_ERR);
	assert_int_equal(softrdma_ibv_destroy_qp(h.a), 0);

	/* and at once if a request is outstanding */
	hands_init(&h, AF_INET);
	hands_meet(&h);
	struct ibv_send_wr wr = { .wr_id = 2, .opcode = IBV_WR_SEND }, *bad;
	assert_int_equal(ibv_post_send(h.a, &wr, &bad), 0);
	assert_int_equal(softrdma_ibv_destroy_qp(h.b), 0);
	expect_wc(2, IBV_WC_RETRY_EXC_ERR);
	expect_state(h.a, IBV_QPS_ERR);
	assert_int_equal(softrdma_ibv_destroy_qp(h.a), 0);
}

/* --- hostile incoming connections --- */

/* a queue pair that waits for its peer; the peer is played by sockets of the test */
struct host {
	union ibv_gid gid, peer_gid;
	struct ibv_qp *qp;
	struct sockaddr_in door, peer_addr;
	int listening; /* at the address of the peer's GID */
};

#define PEER_NUM 0x654321

static void
host_init(struct host *host)
{
	union softrdma_address where;
	host->listening = raw_listen(&host->peer_addr);
	host->gid = the_gid(AF_INET);
	host->peer_gid = host->gid;
	memcpy(host->peer_gid.raw + 8, &host->peer_addr.sin_port, 2);
	memset(host->peer_gid.raw + 10, 0x5a, 6);
	assert_true(softrdma_gid_locate(&host->gid, 0, &where));
	host->door = where.in;
	host->qp = new_qp();
	to_init(host->qp);
	to_rtr(host->qp, &host->peer_gid, PEER_NUM, PSN_B);
}

static void
host_fini(struct host *host)
{
	if (host->qp)
		assert_int_equal(softrdma_ibv_destroy_qp(host->qp), 0);
	close(host->listening);
}

/* the peer's data in a JOIN or an ACCEPT */
static struct softrdma_join
good_join(const struct host *host)
{
	struct softrdma_join join = { .dst_qp_num = host->qp->qp_num, .expected = PSN_A };
	memcpy(join.dst_gid, host->gid.raw, 16);
	memcpy(join.src_gid, host->peer_gid.raw, 16);
	return join;
}

static struct softrdma_handshake
good_header(uint8_t type)
{
	return (struct softrdma_handshake){ .type = type, .qp_num = PEER_NUM, .seq = PSN_B };
}

static struct softrdma_cm_msg
msg_of(struct softrdma_handshake hs, const struct softrdma_join *join)
{
	struct softrdma_cm_msg msg;
	uint8_t bytes[SOFTRDMA_JOIN_SIZE];
	softrdma_join_encode(join, bytes);
	softrdma_cm_msg_encode(&msg, &hs, bytes, sizeof(bytes));
	return msg;
}

static struct softrdma_cm_msg
good_msg(const struct host *host, uint8_t type)
{
	struct softrdma_join join = good_join(host);
	return msg_of(good_header(type), &join);
}

static int
call_with(const struct host *host, const struct softrdma_cm_msg *msg)
{
	int fd = raw_connect(&host->door);
	raw_send(fd, msg->bytes, msg->length);
	return fd;
}

/* receives a message of the queue pair, and checks its content */
static struct softrdma_cm_msg
expect_msg(const struct host *host, int fd, uint8_t type, uint32_t seq)
{
	struct softrdma_cm_msg msg = { .length = 0 };
	struct softrdma_join join;
	raw_recv(fd, msg.bytes, SOFTRDMA_HANDSHAKE_SIZE + SOFTRDMA_JOIN_SIZE);
	assert_int_equal(softrdma_handshake_decode(msg.bytes, &msg.peer), SOFTRDMA_HANDSHAKE_OK);
	assert_int_equal(msg.peer.type, type);
	assert_int_equal(msg.peer.qp_num, host->qp->qp_num);
	assert_int_equal(msg.peer.seq, seq);
	assert_true(softrdma_join_decode(msg.bytes + SOFTRDMA_HANDSHAKE_SIZE, msg.peer.private_len, &join));
	assert_int_equal(join.dst_qp_num, PEER_NUM);
	assert_int_equal(join.expected, PSN_B);
	assert_memory_equal(join.dst_gid, host->peer_gid.raw, 16);
	assert_memory_equal(join.src_gid, host->gid.raw, 16);
	return msg;
}

static void
say_ready(int fd)
{
	const struct softrdma_frame ready = { .opcode = SOFTRDMA_OP_READY };
	raw_frame(fd, &ready);
}

/* the queue pair still accepts its peer, whatever has come before */
static void
expect_hospitable(struct host *host)
{
	struct softrdma_cm_msg msg = good_msg(host, SOFTRDMA_HANDSHAKE_JOIN);
	int fd = call_with(host, &msg);
	expect_msg(host, fd, SOFTRDMA_HANDSHAKE_ACCEPT, 0);
	say_ready(fd);
	wait_until(link_state(host->qp) == SOFTRDMA_LINK_UP);
	wait_until(locked(softrdma_qp_of(host->qp)->link,
		softrdma_connection_of(softrdma_qp_of(host->qp)->link)->deadline.when_ns == 0));
	let_pass_ms(10 * SOFTRDMA_HANDSHAKE_TIMEOUT_MS);
	assert_false(readable(fd, 60));
	assert_int_equal(link_state(host->qp), SOFTRDMA_LINK_UP);
	close(fd);
}

static void
test_good_caller(void **state)
{
	(void)state;
	struct host host;
	host_init(&host);
	struct ibv_qp *other = new_qp(); /* keeps the listener open */
	to_init(other);
	to_rtr(other, &host.gid, 0x777777, 1);
	expect_hospitable(&host);
	/* a second connection is rejected */
	struct softrdma_cm_msg msg = good_msg(&host, SOFTRDMA_HANDSHAKE_JOIN);
	int fd = call_with(&host, &msg);
	raw_expect_reject(fd, SOFTRDMA_REJECT_NO_LISTENER);
	close(fd);
	/*
	 * It may be the peer, whose own attempt was slower, so there is no warning. For any other source
	 * there is one.
	 */
	wait_for_log("tried to connect to a queue pair that is connected to it already: rejected");
	assert_false(log_has("does not wait for it"));
	struct softrdma_join join = good_join(&host);
	join.src_gid[15] ^= 1;
	msg = msg_of(good_header(SOFTRDMA_HANDSHAKE_JOIN), &join);
	fd = call_with(&host, &msg);
	raw_expect_reject(fd, SOFTRDMA_REJECT_NO_LISTENER);
	close(fd);
	wait_for_log("tried to connect to a queue pair that does not wait for it: rejected");
	assert_int_equal(softrdma_ibv_destroy_qp(other), 0);
	host_fini(&host);
}

static bool
is_over(struct ibv_qp *qp)
{
	softrdma_cm_lock();
	bool over = softrdma_qp_of(qp)->by_hand->state == SOFTRDMA_QP_CONNECT_FAILED;
	softrdma_cm_unlock();
	return over;
}

/* no process listens at the peer's GID */
static void
test_absent(void **state)
{
	(void)state;
	struct host host;
	host_init(&host);
	close(host.listening);
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 3, .sg_list = &sge, .num_sge = 1 }, *bad;
	assert_int_equal(ibv_post_recv(host.qp, &recv, &bad), 0);
	to_rts(host.qp, PSN_A);
	/* without a request, nothing is wrong */
	let_pass_ms(10 * SOFTRDMA_ABSENCE_MAX_MS);
	wait_for_log("it is tried again");
	expect_state(host.qp, IBV_QPS_RTS);
	/* 4 * 4.096 us * 2^14 * 8: 2147 ms */
	post_write(host.qp, 1);
	let_pass_ms(1000);
	struct ibv_wc wc;
	assert_false(readable(-1, 60));
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	post_write(host.qp, 2); /* the first request's time counts */
	let_pass_ms(1150);
	expect_wc(1, IBV_WC_RETRY_EXC_ERR);
	expect_wc(2, IBV_WC_WR_FLUSH_ERR);
	expect_wc(3, IBV_WC_WR_FLUSH_ERR);
	expect_state(host.qp, IBV_QPS_ERR);
	/* it no longer connects, and no longer listens */
	let_pass_ms(SOFTRDMA_PAUSE_MAX_MS);
	wait_until(is_over(host.qp));
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&host.door, sizeof(host.door)), -1);
	assert_int_equal(errno, ECONNREFUSED);
	host.listening = fd;
	host_fini(&host);
}

/* the message may arrive byte by byte */
static void
test_in_pieces(void **state)
{
	(void)state;
	struct host host;
	host_init(&host);
	struct softrdma_cm_msg msg = good_msg(&host, SOFTRDMA_HANDSHAKE_JOIN);
	int fd = raw_connect(&host.door);
	const int one = 1;
	setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof(one));
	for (size_t i = 0; i < msg.length; i++) {
		assert_false(readable(fd, 0));
		raw_send(fd, msg.bytes + i, 1);
	}
	expect_msg(&host, fd, SOFTRDMA_HANDSHAKE_ACCEPT, 0);
	close(fd);
	host_fini(&host);
}

/* a JOIN with one byte changed, either in transit or (summed) by its sender */
static void
call_with_wrong_byte(const struct host *host, const struct softrdma_cm_msg *good, size_t at, bool summed)
{
	struct softrdma_cm_msg bad = *good;
	bad.bytes[at] ^= 1;
	if (summed)
		raw_sum_again(bad.bytes, SOFTRDMA_JOIN_SIZE);
	int fd = call_with(host, &bad);
	shutdown(fd, SHUT_WR);
	/* a response may come, but no ACCEPT */
	uint8_t answer[SOFTRDMA_CM_MSG_MAX];
	struct softrdma_handshake hs = { .type = 0 };
	size_t have = 0;
	ssize_t n;
	while (readable(fd, PATIENCE_MS) && (n = recv(fd, answer + have, sizeof(answer) - have, 0)) > 0)
		have += (size_t)n;
	if (have >= SOFTRDMA_HANDSHAKE_SIZE) {
		assert_int_equal(softrdma_handshake_decode(answer, &hs), SOFTRDMA_HANDSHAKE_OK);
		assert_int_equal(hs.type, SOFTRDMA_HANDSHAKE_REJECT);
	} else {
		assert_int_equal(have, 0);
	}
	close(fd);
	assert_int_equal(link_state(host->qp), SOFTRDMA_LINK_IDLE);
	log_clear();
}

/* the message is cut at every byte, and each byte is changed: only the right peer is accepted */
static void
test_broken_messages(void **state)
{
	(void)state;
	struct host host;
	host_init(&host);
	const struct softrdma_cm_msg good = good_msg(&host, SOFTRDMA_HANDSHAKE_JOIN);
	for (size_t len = 0; len < good.length; len++) {
		int fd = raw_connect(&host.door);
		if (len)
			raw_send(fd, good.bytes, len);
		shutdown(fd, SHUT_WR);
		raw_expect_end(fd);
		close(fd);
		assert_int_equal(link_state(host.qp), SOFTRDMA_LINK_IDLE);
	}
	for (size_t at = 0; at < good.length; at++) {
		call_with_wrong_byte(&host, &good, at, false);
		/*
		 * Attributes of the applications and the wish for records are not checked. The queue pair's
		 * own first sequence number is not known yet. The sums are right then.
		 */
		bool unchecked = (at >= 16 && at < 23) || (at >= 24 && at < 32) || at >= good.length - 4;
		if (!unchecked)
			call_with_wrong_byte(&host, &good, at, true);
	}
	expect_hospitable(&host);
	host_fini(&host);
}

/* each value that the peer must know, wrong by itself */
static void
test_strangers(void **state)
{
	(void)state;
	struct host host;
	host_init(&host);
	for (int what = 0; what < 7; what++) {
		struct softrdma_join join = good_join(&host);
		struct softrdma_handshake hs = good_header(SOFTRDMA_HANDSHAKE_JOIN);
		switch (what) {
		case 0:
			join.dst_gid[15] ^= 1; /* the secret */
			break;
		case 1:
			join.dst_qp_num ^= 1;
			break;
		case 2:
			join.src_gid[15] ^= 1;
			break;
		case 3:
			hs.qp_num ^= 1;
			break;
		case 4:
			hs.seq ^= 1;
			break;
		case 5:
			hs.seq |= 1u << 31;
			break;
		default:
			join.dst_qp_num |= 1u << 31;
			break;
		}
		struct softrdma_cm_msg msg = msg_of(hs, &join);
		int fd = call_with(&host, &msg);
		raw_expect_reject(fd, SOFTRDMA_REJECT_NO_LISTENER);
		close(fd);
		assert_int_equal(link_state(host.qp), SOFTRDMA_LINK_IDLE);
	}
	/* in RTS the peer must know the queue pair's first sequence number too */
	close(host.listening);
	to_rts(host.qp, PSN_A);
	struct softrdma_join join = good_join(&host);
	join.expected ^= 1;
	struct softrdma_cm_msg msg = msg_of(good_header(SOFTRDMA_HANDSHAKE_JOIN), &join);
	int fd = call_with(&host, &msg);
	raw_expect_reject(fd, SOFTRDMA_REJECT_NO_LISTENER);
	close(fd);
	wait_for_log("a queue pair in RTS got a connection attempt from one that it does not know");
	msg = good_msg(&host, SOFTRDMA_HANDSHAKE_JOIN);
	fd = call_with(&host, &msg);
	expect_msg(&host, fd, SOFTRDMA_HANDSHAKE_ACCEPT, PSN_A);
	close(fd);
	host.listening = raw_listen(&host.peer_addr);
	host_fini(&host);
}

static void
test_other_messages(void **state)
{
	(void)state;
	struct host host;
	host_init(&host);
	int fd = raw_connect(&host.door);
	raw_send(fd, "GET / HTTP/1.0\r\nHost: somewhere.else\r\n\r\n", 41);
	raw_expect_end(fd);
	close(fd);
	wait_for_log("does not speak the protocol of the software device: connection closed");
	for (uint8_t type = SOFTRDMA_HANDSHAKE_CONNECT; type <= SOFTRDMA_HANDSHAKE_REJECT; type++) {
		struct softrdma_cm_msg msg = good_msg(&host, type);
		fd = call_with(&host, &msg);
		raw_expect_end(fd);
		close(fd);
	}
	struct softrdma_cm_msg msg = good_msg(&host, SOFTRDMA_HANDSHAKE_JOIN);
	msg.bytes[4] = 1;
	fd = call_with(&host, &msg);
	raw_expect_reject(fd, SOFTRDMA_REJECT_VERSION);
	close(fd);
	msg.bytes[4] = SOFTRDMA_WIRE_VERSION;
	msg.bytes[SOFTRDMA_HANDSHAKE_SIZE + 5] ^= 0x20;
	fd = call_with(&host, &msg);
	raw_expect_reject(fd, SOFTRDMA_REJECT_DAMAGED);
	close(fd);
	wait_for_log("was damaged on its way (CRC32C): rejected");
	uint8_t buf[BUF_MAX]; /* private data of another length */
	fd = raw_connect(&host.door);
	raw_send(fd, buf, raw_message(buf, SOFTRDMA_HANDSHAKE_JOIN, "short"));
	raw_expect_end(fd);
	close(fd);
	expect_hospitable(&host);
	host_fini(&host);
}

/*
 * A connection that sends nothing, or too little, is closed after a while. One that waits is closed after a
 * longer time.
 */
static void
test_slow_callers(void **state)
{
	(void)state;
	struct host host;
	host_init(&host);
	const struct softrdma_cm_msg msg = good_msg(&host, SOFTRDMA_HANDSHAKE_JOIN);
	int silent = raw_connect(&host.door);
	int half = raw_connect(&host.door);
	raw_send(half, msg.bytes, msg.length - 1);
	/* once a later one is answered, the device has accepted the earlier connections */
	struct softrdma_cm_msg wrong = msg;
	wrong.bytes[8] ^= 1;
	raw_sum_again(wrong.bytes, SOFTRDMA_JOIN_SIZE);
	int fd = call_with(&host, &wrong);
	raw_expect_reject(fd, SOFTRDMA_REJECT_NO_LISTENER);
	close(fd);
	let_pass_ms(SOFTRDMA_HANDSHAKE_TIMEOUT_MS - 1000);
	assert_false(readable(half, 60));
	let_pass_ms(1000);
	raw_expect_end(silent);
	raw_expect_end(half);
	close(silent);
	close(half);
	host_fini(&host);

	/* an incoming connection for a queue pair in INIT; the listener is another queue pair's */
	host_init(&host);
	struct ibv_qp *other = new_qp();
	struct ibv_qp *keeper = host.qp;
	host.qp = other;
	to_init(other);
	struct softrdma_cm_msg early = good_msg(&host, SOFTRDMA_HANDSHAKE_JOIN);
	fd = call_with(&host, &early);
	assert_false(readable(fd, 60));
	int second = call_with(&host, &early); /* the peer tries again: the first one is closed */
	raw_expect_end(fd);
	close(fd);
	wait_until(has_incoming(other));
	let_pass_ms(SOFTRDMA_CONNECT_TIMEOUT_MS);
	raw_expect_end(second);
	close(second);
	/* one that is closed by the peer, and one that sends data before it is accepted */
	fd = call_with(&host, &early);
	shutdown(fd, SHUT_WR);
	raw_expect_end(fd);
	close(fd);
	fd = call_with(&host, &early);
	raw_send(fd, "x", 1);
	raw_expect_end(fd);
	close(fd);
	/* one that waits when the queue pair is destroyed */
	fd = call_with(&host, &early);
	wait_until(has_incoming(other));
	assert_int_equal(softrdma_ibv_destroy_qp(other), 0);
	raw_expect_reject(fd, SOFTRDMA_REJECT_NO_LISTENER);
	close(fd);
	/* and one that has not sent its message yet */
	fd = raw_connect(&host.door);
	host.qp = keeper;
	second = call_with(&host, &wrong);
	raw_expect_reject(second, SOFTRDMA_REJECT_NO_LISTENER);
	close(second);
	host_fini(&host);
	raw_expect_reject(fd, SOFTRDMA_REJECT_NO_LISTENER);
	close(fd);
}

/* a stranger waits while the queue pair is in INIT, and is rejected when it is told who its peer is */
static void
test_stranger_in_init(void **state)
{
	(void)state;
	struct host host;
	host_init(&host);
	struct ibv_qp *keeps_the_door_open = host.qp;
	host.qp = new_qp();
	to_init(host.qp);
	struct softrdma_handshake header = good_header(SOFTRDMA_HANDSHAKE_JOIN);
	struct softrdma_join join = good_join(&host);
	header.seq++;
	const struct softrdma_cm_msg msg = msg_of(header, &join);
	int stranger = call_with(&host, &msg);
	wait_until(has_incoming(host.qp));
	to_rtr(host.qp, &host.peer_gid, PEER_NUM, PSN_B);
	raw_expect_reject(stranger, SOFTRDMA_REJECT_NO_LISTENER);
	close(stranger);
	wait_for_log("a queue pair in RTR got a connection attempt from one that it does not know: rejected");
	expect_hospitable(&host);
	assert_int_equal(softrdma_ibv_destroy_qp(keeps_the_door_open), 0);
	host_fini(&host);
}

/* both sides have called, and the peer waits for the end of this side's attempt: a stranger does not take its place */
static void
test_stranger_beside_the_peer(void **state)
{
	(void)state;
	/* greater than that of any queue pair: this side's attempt goes first */
	const uint32_t peer_num = 0xffffff;
	struct host host;
	uint8_t bytes[SOFTRDMA_HANDSHAKE_SIZE + SOFTRDMA_JOIN_SIZE];
	host_init(&host);
	assert_int_equal(softrdma_ibv_destroy_qp(host.qp), 0);
	host.qp = new_qp();
	to_init(host.qp);
	to_rtr(host.qp, &host.peer_gid, peer_num, PSN_B);
	to_rts(host.qp, PSN_A);
	int outgoing = raw_accept(host.listening);
	raw_recv(outgoing, bytes, sizeof(bytes));
	struct softrdma_join join = good_join(&host);
	struct softrdma_handshake header = good_header(SOFTRDMA_HANDSHAKE_JOIN);
	header.qp_num = peer_num;
	struct softrdma_cm_msg msg = msg_of(header, &join);
	int peer = call_with(&host, &msg);
	wait_until(has_incoming(host.qp));
	header.seq++;
	msg = msg_of(header, &join);
	int stranger = call_with(&host, &msg);
	raw_expect_reject(stranger, SOFTRDMA_REJECT_NO_LISTENER);
	close(stranger);
	wait_for_log("from one that it does not know: rejected");
	close(outgoing);
	raw_recv(peer, bytes, sizeof(bytes));
	assert_int_equal(bytes[6], SOFTRDMA_HANDSHAKE_ACCEPT);
	close(peer);
	host_fini(&host);
}

/* the peer must confirm with READY that it was accepted */
static void
test_no_ready(void **state)
{
	(void)state;
	struct host host;
	host_init(&host);
	struct softrdma_cm_msg msg = good_msg(&host, SOFTRDMA_HANDSHAKE_JOIN);
	int fd = call_with(&host, &msg);
	expect_msg(&host, fd, SOFTRDMA_HANDSHAKE_ACCEPT, 0);
	let_pass_ms(SOFTRDMA_HANDSHAKE_TIMEOUT_MS);
	raw_expect_end(fd);
	close(fd);
	wait_for_log("a peer did not respond in time");
	expect_state(host.qp, IBV_QPS_ERR);
	host_fini(&host);
}

/*
 * as with listeners of the connection manager: silent connections make room for others, and each address has
 * a limit
 */
static void
test_too_many_silent_callers(void **state)
{
	(void)state;
	struct host host;
	setenv("SOFTRDMA_MAX_PENDING", "3", 1);
	setenv("SOFTRDMA_MAX_PENDING_PER_ADDRESS", "2", 1);
	host_init(&host);
	int first = raw_connect_from(&host.door, 1);
	int second = raw_connect_from(&host.door, 1);
	int third = raw_connect_from(&host.door, 1);
	raw_expect_end(first);
	close(first);
	int other = raw_connect_from(&host.door, 2);
	int one_more = raw_connect_from(&host.door, 3); /* too many in all */
	raw_expect_end(second);
	close(second);
	assert_false(readable(third, 0));
	assert_false(readable(other, 0));
	assert_false(readable(one_more, 0));
	assert_int_equal(log_worst, 0);
	expect_hospitable(&host);
	host_fini(&host);
	close(third);
	close(other);
	close(one_more);
	unsetenv("SOFTRDMA_MAX_PENDING");
	unsetenv("SOFTRDMA_MAX_PENDING_PER_ADDRESS");
}

/*
 * Connections that wait for a queue pair are not closed to make room. A further one is rejected, and one is
 * accepted again when another has gone.
 */
static void
test_too_many_incoming(void **state)
{
	(void)state;
	struct host host;
	int fds[2];
	struct ibv_qp *qps[2];
	setenv("SOFTRDMA_MAX_PENDING_PER_ADDRESS", "2", 1);
	host_init(&host);
	struct ibv_qp *keeper = host.qp;
	for (int i = 0; i < 2; i++) {
		qps[i] = host.qp = new_qp();
		to_init(host.qp);
		struct softrdma_cm_msg msg = good_msg(&host, SOFTRDMA_HANDSHAKE_JOIN);
		fds[i] = call_with(&host, &msg);
		wait_until(has_incoming(qps[i]));
	}
	host.qp = keeper;
	int refused = raw_connect(&host.door);
	raw_expect_reject(refused, SOFTRDMA_REJECT_BUSY);
	close(refused);
	wait_for_log("is rejected: too many requests are pending");
	assert_int_equal(softrdma_ibv_destroy_qp(qps[0]), 0);
	expect_hospitable(&host);
	assert_int_equal(softrdma_ibv_destroy_qp(qps[1]), 0);
	for (int i = 0; i < 2; i++)
		close(fds[i]);
	host_fini(&host);
	unsetenv("SOFTRDMA_MAX_PENDING_PER_ADDRESS");
}

/* half of the descriptors are left to the application, and one address may use half of the rest */
static void
test_callers_and_descriptors(void **state)
{
	(void)state;
	enum { FILES = 60, PENDING = FILES / 2 + 1, PER_ADDRESS = (PENDING + 1) / 2 };
	int fds[PER_ADDRESS + 1];
	rlim_t before;
	struct host host;
	assert_true(limit_files(FILES, &before));
	host_init(&host);
	assert_true(limit_files(before, NULL));
	for (int i = 0; i <= PER_ADDRESS; i++)
		fds[i] = raw_connect(&host.door);
	raw_expect_end(fds[0]);
	close(fds[0]);
	for (int i = 1; i <= PER_ADDRESS; i++)
		expect_not_ended(fds[i]);
	host_fini(&host);
}

/* queue pairs also refuse connections from an address that has used too many wrong keys */
static void
test_caller_with_wrong_keys(void **state)
{
	(void)state;
	struct host host;
	const struct softrdma_source source = source_of_host(9);
	setenv("SOFTRDMA_MAX_WRONG_KEYS", "1", 1);
	host_init(&host);
	softrdma_source_add_violation(&source, softrdma_now_ns());
	int fd = raw_connect_from(&host.door, 9);
	raw_expect_end(fd);
	close(fd);
	wait_for_log("is not heard: too many wrong keys from there");
	expect_hospitable(&host);
	host_fini(&host);
	unsetenv("SOFTRDMA_MAX_WRONG_KEYS");
}

/* a caller that uses wrong keys while it waits for a queue pair is not accepted */
static void
test_wrong_keys_of_a_waiting_caller(void **state)
{
	(void)state;
	struct host host;
	const struct softrdma_source source = source_of_host(10);
	setenv("SOFTRDMA_MAX_WRONG_KEYS", "1", 1);
	host_init(&host); /* its queue pair keeps the listener open */
	struct ibv_qp *keeper = host.qp;
	host.qp = new_qp();
	to_init(host.qp);
	const struct softrdma_cm_msg msg = good_msg(&host, SOFTRDMA_HANDSHAKE_JOIN);
	int fd = raw_connect_from(&host.door, 10);
	raw_send(fd, msg.bytes, msg.length);
	wait_until(has_incoming(host.qp));
	softrdma_source_add_violation(&source, softrdma_now_ns());
	to_rtr(host.qp, &host.peer_gid, PEER_NUM, PSN_B);
	raw_expect_end(fd);
	close(fd);
	wait_for_log("127.0.0.10:");
	wait_for_log("is not heard: too many wrong keys from there");
	expect_state(host.qp, IBV_QPS_RTR);
	assert_int_equal(link_state(host.qp), SOFTRDMA_LINK_IDLE);
	expect_hospitable(&host);
	assert_int_equal(softrdma_ibv_destroy_qp(keeper), 0);
	host_fini(&host);
	unsetenv("SOFTRDMA_MAX_WRONG_KEYS");
}

/* true if connections to the address of a GID are refused */
static bool
is_door_closed(const struct sockaddr_in *door)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool refused =
		connect(fd, (const struct sockaddr *)door, sizeof(*door)) != 0 && errno == ECONNREFUSED;
	close(fd);
	return refused;
}

/* The listener is open only while a queue pair waits for its peer. After RESET it is opened again. */
static void
test_door_closes(void **state)
{
	(void)state;
	struct host host;
	struct hands h;
	union softrdma_address where;
	host_init(&host);
	int silent = raw_connect(&host.door);
	expect_hospitable(&host);
	raw_expect_reject(silent, SOFTRDMA_REJECT_NO_LISTENER);
	close(silent);
	assert_true(is_door_closed(&host.door));
	host_fini(&host);

	hands_init(&h, AF_INET);
	assert_true(softrdma_gid_locate(&h.gid, 0, &where));
	assert_true(is_door_closed(&where.in));
	for (int round = 0; round < 2; round++) {
		hands_meet(&h);
		wait_until(is_door_closed(&where.in));
		expect_write(h.a);
		expect_write(h.b);
		move_to(h.a, IBV_QPS_RESET);
		move_to(h.b, IBV_QPS_RESET);
		to_init(h.a);
		to_init(h.b);
	}
	hands_fini(&h);
}

/* --- hostile listeners: the queue pair connects --- */

/* accepts the queue pair's next connection */
static int
take_call(struct host *host)
{
	int fd = raw_accept(host->listening);
	expect_msg(host, fd, SOFTRDMA_HANDSHAKE_JOIN, PSN_A);
	return fd;
}

static void
test_good_host(void **state)
{
	(void)state;
	struct host host;
	host_init(&host);
	to_rts(host.qp, PSN_A);
	int fd = take_call(&host);
	struct softrdma_cm_msg msg = good_msg(&host, SOFTRDMA_HANDSHAKE_ACCEPT);
	raw_send(fd, msg.bytes, msg.length);
	uint8_t frame[SOFTRDMA_FRAME_SIZE];
	raw_recv(fd, frame, sizeof(frame));
	assert_int_equal(frame[0], SOFTRDMA_OP_READY);
	post_write(host.qp, 1);
	raw_recv(fd, frame, sizeof(frame));
	struct softrdma_frame write;
	assert_true(softrdma_frame_decode(frame, &write));
	assert_int_equal(write.opcode, SOFTRDMA_OP_WRITE);
	assert_int_equal(write.seq, PSN_A);
	close(fd);
	expect_wc(1, IBV_WC_RETRY_EXC_ERR);
	host_fini(&host);
}

/* after any bad response the queue pair tries again, and accepts the right one in the end */
static void
test_bad_answers(void **state)
{
	(void)state;
	struct host host;
	host_init(&host);
	to_rts(host.qp, PSN_A);
	for (int what = 0; what < 11; what++) {
		struct softrdma_join join = good_join(&host);
		struct softrdma_handshake hs = good_header(SOFTRDMA_HANDSHAKE_ACCEPT);
		uint8_t bytes[SOFTRDMA_JOIN_SIZE];
		uint8_t private_len = SOFTRDMA_JOIN_SIZE;
		switch (what) {
		case 0:
			hs.type = SOFTRDMA_HANDSHAKE_REJECT;
			break;
		case 1:
			hs.type = SOFTRDMA_HANDSHAKE_JOIN;
			break;
		case 2:
			hs.qp_num ^= 1;
			break;
		case 3:
			join.dst_gid[15] ^= 1;
			break;
		case 4:
			join.src_gid[0] ^= 1;
			break;
		case 5:
			join.dst_qp_num ^= 1;
			break;
		case 6:
			join.expected ^= 1;
			break;
		case 7:
			private_len--;
			break;
		case 8:
			hs.type = SOFTRDMA_HANDSHAKE_REJECT;
			hs.reason = SOFTRDMA_REJECT_DAMAGED;
			break;
		default:
			break; /* another version, or damaged: below */
		}
		struct softrdma_cm_msg msg;
		softrdma_join_encode(&join, bytes);
		softrdma_cm_msg_encode(&msg, &hs, bytes, private_len);
		if (what == 9)
			msg.bytes[4]++;
		if (what == 10)
			msg.bytes[SOFTRDMA_HANDSHAKE_SIZE + 5] ^= 0x20;
		int fd = take_call(&host);
		raw_send(fd, msg.bytes, msg.length);
		raw_expect_end(fd);
		close(fd);
		let_pass_ms(SOFTRDMA_PAUSE_MAX_MS);
	}
	/* cut at every byte */
	struct softrdma_cm_msg good = good_msg(&host, SOFTRDMA_HANDSHAKE_ACCEPT);
	for (size_t len = 0; len < good.length; len++) {
		int fd = take_call(&host);
		if (len)
			raw_send(fd, good.bytes, len);
		shutdown(fd, SHUT_WR);
		raw_expect_end(fd);
		close(fd);
		let_pass_ms(SOFTRDMA_PAUSE_MAX_MS);
	}
	wait_for_log("it is tried again");
	/* no response at all */
	int silent = take_call(&host);
	let_pass_ms(SOFTRDMA_CONNECT_TIMEOUT_MS);
	raw_expect_end(silent);
	close(silent);
	let_pass_ms(SOFTRDMA_PAUSE_MAX_MS);
	/* a response before the request */
	int fd = raw_accept(host.listening);
	raw_send(fd, good.bytes, good.length);
	expect_msg(&host, fd, SOFTRDMA_HANDSHAKE_JOIN, PSN_A);
	uint8_t frame[SOFTRDMA_FRAME_SIZE];
	raw_recv(fd, frame, sizeof(frame));
	assert_int_equal(frame[0], SOFTRDMA_OP_READY);
	close(fd);
	host_fini(&host);
}

/*
 * Both have connected. The one with the smaller number waits for its own attempt, and accepts the other one
 * if that fails.
 */
static void
test_crossing(void **state)
{
	(void)state;
	for (int round = 0; round < 4; round++) {
		bool first = round & 1, same_number = round & 2;
		struct host host;
		host_init(&host);
		assert_int_equal(softrdma_ibv_destroy_qp(host.qp), 0);
		/* the numbers decide: 2 is smaller, and 0xffffff greater, than that of any queue pair */
		uint32_t peer_num = first ? 0xffffff : 2;
		host.qp = new_qp();
		to_init(host.qp);
		if (same_number) {
			/* then the GIDs decide: by the index, or by the random bytes after it */
			peer_num = host.qp->qp_num;
			host.peer_gid.raw[3] = first ? 0xff : 0;
			first = memcmp(host.gid.raw, host.peer_gid.raw, 16) < 0;
		}
		to_rtr(host.qp, &host.peer_gid, peer_num, PSN_B);
		to_rts(host.qp, PSN_A);
		int out = raw_accept(host.listening);
		uint8_t bytes[SOFTRDMA_HANDSHAKE_SIZE + SOFTRDMA_JOIN_SIZE];
		raw_recv(out, bytes, sizeof(bytes));
		struct softrdma_join join = good_join(&host);
		struct softrdma_handshake hs = good_header(SOFTRDMA_HANDSHAKE_JOIN);
		hs.qp_num = peer_num;
		struct softrdma_cm_msg msg = msg_of(hs, &join);
		int in = call_with(&host, &msg);
		if (first) {
			assert_false(readable(in, 60)); /* its own attempt has not ended */
			assert_int_equal(link_state(host.qp), SOFTRDMA_LINK_IDLE);
		} else {
			raw_expect_end(out);
		}
		close(out); /* in any case the other one remains */
		raw_recv(in, bytes, sizeof(bytes));
		assert_int_equal(bytes[6], SOFTRDMA_HANDSHAKE_ACCEPT);
		wait_until(link_state(host.qp) == SOFTRDMA_LINK_UP);
		close(in);
		host_fini(&host);
	}
}

/* --- failures of the system --- */

static void
test_calls_fail(void **state)
{
	(void)state;
	static const struct {
		const char *call;
		unsigned skip;
		int error;
		bool theirs; /* on the progress thread */
	} faults[] = {
		{ "socket", 0, EMFILE, false },
		{ "bind", 0, EADDRINUSE, false },
		{ "connect", 0, ENETUNREACH, false },
		{ "calloc", 0, ENOMEM, false },
		{ "epoll_ctl", 0, ENOSPC, false },
		{ "getsockopt", 0, ENOBUFS, true },
		{ "send", 0, EPIPE, true },
		{ "send", 0, FAIL_SHORT, true },
	};
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct hands h;
		hands_init(&h, AF_INET);
		to_rtr(h.b, &h.gid, h.a->qp_num, PSN_A);
		to_rtr(h.a, &h.gid, h.b->qp_num, PSN_B);
		fail_call(faults[i].theirs ? FAIL_THEIRS : FAIL_MINE, faults[i].call, faults[i].skip, 1,
			faults[i].error);
		to_rts(h.a, PSN_A);
		if (faults[i].theirs)
			wait_until(has_failed(1));
		assert_int_equal(fail_nothing(), 1);
		expect_write(h.a); /* another attempt has succeeded */
		hands_fini(&h);
	}
}

/* on the listening side */
static void
test_doors_fail(void **state)
{
	(void)state;
	static const struct {
		const char *call;
		unsigned skip;
		int error;
		const char *log;
	} faults[] = {
		{ "accept4", 0, EMFILE, "incoming connections wait" },
		{ "accept4", 0, ENFILE, "incoming connections wait" },
		{ "accept4", 0, ENOBUFS, "incoming connections wait" },
		{ "accept4", 0, ENOMEM, "incoming connections wait" },
		{ "accept4", 0, ECONNABORTED, NULL },
		{ "calloc", 0, ENOMEM, "an incoming connection is dropped" },
		{ "epoll_ctl", 0, ENOSPC, "an incoming connection is dropped" },
		{ "send", 0, EPIPE, NULL },
	};
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct host host;
		host_init(&host);
		clock_forward_ms(SOFTRDMA_LOG_INTERVAL_MS); /* each has a line */
		log_clear();
		fail_call(FAIL_THEIRS, faults[i].call, faults[i].skip, 1, faults[i].error);
		struct softrdma_cm_msg msg = good_msg(&host, SOFTRDMA_HANDSHAKE_JOIN);
		int fd = call_with(&host, &msg);
		wait_until(has_failed(1));
		fail_nothing();
		if (faults[i].log)
			wait_for_log(faults[i].log);
		if (strcmp(faults[i].call, "accept4") != 0) {
			raw_expect_end(fd);
			close(fd);
			fd = call_with(&host, &msg);
		}
		expect_msg(&host, fd, SOFTRDMA_HANDSHAKE_ACCEPT, 0);
		close(fd);
		host_fini(&host);
	}
}

/* the last step fails: the queue pair goes to error */
static void
test_attach_fails(void **state)
{
	(void)state;
	struct host host;
	host_init(&host);
	struct softrdma_cm_msg msg = good_msg(&host, SOFTRDMA_HANDSHAKE_JOIN);
	/* the socket is watched as an incoming one, is removed, and is watched as the link's */
	fail_call(FAIL_THEIRS, "epoll_ctl", 2, 1, ENOSPC);
	int fd = call_with(&host, &msg);
	wait_for_log("a connection is given up");
	fail_nothing();
	expect_state(host.qp, IBV_QPS_ERR);
	close(fd);
	host_fini(&host);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_meet),
		device_test(test_one_way),
		device_test(test_late),
		device_test(test_both_call),
		device_test(test_to_itself),
		device_test(test_incoming_in_init),
		device_test(test_absence_bounds),
		device_test(test_peer_ends),
		device_test(test_absent),
		device_test(test_good_caller),
		device_test(test_in_pieces),
		device_test(test_broken_messages),
		device_test(test_strangers),
		device_test(test_other_messages),
		device_test(test_slow_callers),
		device_test(test_no_ready),
		device_test(test_stranger_in_init),
		device_test(test_stranger_beside_the_peer),
		device_test(test_too_many_silent_callers),
		device_test(test_too_many_incoming),
		device_test(test_callers_and_descriptors),
		device_test(test_caller_with_wrong_keys),
		device_test(test_wrong_keys_of_a_waiting_caller),
		device_test(test_door_closes),
		device_test(test_good_host),
		device_test(test_bad_answers),
		device_test(test_crossing),
		device_test(test_calls_fail),
		device_test(test_doors_fail),
		device_test(test_attach_fails),
	};
	return cmocka_run_group_tests(tests, setup_by_hand, teardown_by_hand);
}
