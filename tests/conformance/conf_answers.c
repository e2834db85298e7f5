/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * conf_answers.c -- queries: private data, rejections, connections of completions, capabilities, counters,
 * errors
 */

#include <pthread.h>
#include <string.h>

#include "groups.h"
#include "pattern.h"
#include "role.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR

/* ---- private data of every length, with each message that can carry it ---- */

/* bytes that RDMA hardware carries, and how many of them arrive with their exact length */
#define TRAILER 6
enum { WITH_REQUEST = 56, WITH_ACCEPTANCE = 196, WITH_REJECTION = 148 };

static struct rpma_conn_private_data
make(uint8_t *buf, size_t len, uint64_t seed)
{
	pattern_fill(buf, len, seed, 0);
	/* zeros at the end are data like any other */
	if (len > 1)
		buf[len - 1] = 0;
	return (struct rpma_conn_private_data){ buf, (uint8_t)len };
}

static void
check(struct role *r, const struct rpma_conn_private_data *got, size_t len, uint64_t seed, size_t travels)
{
	uint8_t buf[UINT8_MAX];
	struct rpma_conn_private_data sent = make(buf, len, seed);

	if (r->soft || len + TRAILER <= travels)
		CHECK_EQ(got->len, len);
	CHECK(got->len >= len);
	CHECK((got->ptr == NULL) == (got->len == 0));
	if (len)
		CHECK(memcmp(got->ptr, sent.ptr, len) == 0);
	for (size_t i = len; i < got->len; i++)
		CHECK_EQ(((const uint8_t *)got->ptr)[i], 0);
}

static size_t
longest(const struct role *r, size_t travels)
{
	return r->soft ? UINT8_MAX : travels;
}

/* every length on the software device; on hardware steps, because making a connection takes long there */
static size_t
next_len(const struct role *r, size_t len, size_t max)
{
	size_t step = r->soft ? 1 : 17;

	return len < max && len + step > max ? max : len + step;
}

static void
accepted_target(struct role *r)
{
	const size_t max = longest(r, WITH_ACCEPTANCE);
	uint8_t buf[UINT8_MAX];

	role_open(r);
	role_listen(r);
	for (size_t len = 0; len <= max; len = next_len(r, len, max)) {
		size_t asked = len < longest(r, WITH_REQUEST) ? len : longest(r, WITH_REQUEST);
		struct rpma_conn_private_data answer = make(buf, len, len + 1);
		struct rpma_conn_req *req = req_next(r, NULL);
		struct rpma_conn_private_data got = { 0 };

		CHECK_OK(rpma_conn_req_get_private_data(req, &got));
		check(r, &got, asked, len, WITH_REQUEST);
		r->conn = req_accept(req, len ? &answer : NULL);
		expect_event(r->conn, RPMA_CONN_ESTABLISHED);
		CHECK_OK(rpma_conn_get_private_data(r->conn, &got));
		check(r, &got, asked, len, WITH_REQUEST);
		role_disconnect(r);
	}
	role_delete(r);
}

static void
accepted_initiator(struct role *r)
{
	const size_t max = longest(r, WITH_ACCEPTANCE);
	uint8_t buf[UINT8_MAX];

	role_open(r);
	role_listen(r);
	for (size_t len = 0; len <= max; len = next_len(r, len, max)) {
		size_t asked = len < longest(r, WITH_REQUEST) ? len : longest(r, WITH_REQUEST);
		struct rpma_conn_private_data question = make(buf, asked, len);
		struct rpma_conn_private_data got = { 0 };

		r->conn = conn_request(r, NULL, asked ? &question : NULL);
		expect_event(r->conn, RPMA_CONN_ESTABLISHED);
		CHECK_OK(rpma_conn_get_private_data(r->conn, &got));
		check(r, &got, len, len + 1, WITH_ACCEPTANCE);
		role_disconnect(r);
	}
	role_delete(r);
}

static void
rejected_target(struct role *r)
{
	const size_t max = longest(r, WITH_REJECTION);
	uint8_t buf[UINT8_MAX];

	role_open(r);
	role_listen(r);
	for (size_t len = 0; len <= max; len = next_len(r, len, max)) {
		struct rpma_conn_private_data reason = make(buf, len, len + 2);
		struct rpma_conn_req *req = req_next(r, NULL);

		CHECK_OK(rpma_conn_req_reject(&req, len ? &reason : NULL));
		CHECK(req == NULL);
		memset(buf, 0, sizeof(buf));
	}
	ctl_sync(r);
	role_delete(r);
}

static void
rejected_initiator(struct role *r)
{
	const size_t max = longest(r, WITH_REJECTION);

	role_open(r);
	role_listen(r);
	for (size_t len = 0; len <= max; len = next_len(r, len, max)) {
		struct rpma_conn *conn = conn_request(r, NULL, NULL);
		struct rpma_conn_private_data got = { 0 };

		expect_event(conn, RPMA_CONN_REJECTED);
		CHECK_OK(rpma_conn_get_private_data(conn, &got));
		check(r, &got, len, len + 2, WITH_REJECTION);
		conn_delete(&conn);
	}
	ctl_sync(r);
	role_delete(r);
}

/* ---- a wrong call of reject consumes the request all the same, and the client is rejected ---- */

static void
wrong_reject_target(struct role *r)
{
	struct rpma_conn_private_data no_length = { (void *)(uintptr_t) "x", 0 };
	struct rpma_conn_private_data no_pointer = { NULL, 1 };
	struct rpma_conn_req *req = NULL;

	role_open(r);
	role_listen(r);
	CHECK_RET(rpma_conn_req_reject(NULL, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_conn_req_reject(&req, NULL), RPMA_E_INVAL);
	req = req_next(r, NULL);
	CHECK_RET(rpma_conn_req_reject(&req, &no_length), RPMA_E_INVAL);
	CHECK(req == NULL);
	req = req_next(r, NULL);
	CHECK_RET(rpma_conn_req_reject(&req, &no_pointer), RPMA_E_INVAL);
	CHECK(req == NULL);
	r->conn = conn_accept(r, NULL);
	role_close(r);
}

static void
wrong_reject_initiator(struct role *r)
{
	struct rpma_conn_req *req = NULL;

	role_open(r);
	role_listen(r);
	for (int i = 0; i < 2; i++) {
		struct rpma_conn *conn = conn_request(r, NULL, NULL);

		expect_event(conn, RPMA_CONN_REJECTED);
		conn_delete(&conn);
	}
	/* an outgoing request cannot be rejected */
	CHECK_OK(rpma_conn_req_new(r->peer, r->addr, r->port, NULL, &req));
	CHECK_RET(rpma_conn_req_reject(&req, NULL), RPMA_E_INVAL);
	CHECK(req == NULL);
	r->conn = conn_connect(r, NULL);
	role_close(r);
}

/* ---- whose completion is it: the messages of several connections come to one queue ---- */

#define CONNS 5
#define MESSAGES 100

static struct rpma_srq *
open_srq(struct role *r, struct rpma_cq **cq)
{
	struct rpma_srq_cfg *cfg = NULL;
	struct rpma_srq *srq = NULL;

	CHECK_OK(rpma_srq_cfg_new(&cfg));
	CHECK_OK(rpma_srq_cfg_set_rq_size(cfg, CONNS * MESSAGES));
	CHECK_OK(rpma_srq_cfg_set_rcq_size(cfg, CONNS * MESSAGES));
	CHECK_OK(rpma_srq_new(r->peer, cfg, &srq));
	CHECK_OK(rpma_srq_cfg_delete(&cfg));
	CHECK_OK(rpma_srq_get_rcq(srq, cq));
	return srq;
}

static void
check_unknown(struct role *r, uint32_t qp_num)
{
	struct rpma_conn *conn = r->conn;

	CHECK_RET(rpma_peer_find_conn(r->peer, qp_num, &conn), RPMA_E_INVAL);
	CHECK(conn == r->conn);
}

/* each message tells which connection sent it */
static void
take_messages(struct role *r, struct rpma_cq *cq, struct mem *m, struct rpma_conn *conns[CONNS])
{
	unsigned got[CONNS] = { 0 };

	for (int i = 0; i < CONNS * MESSAGES; i++) {
		struct ibv_wc wc = next_wc(cq);
		struct rpma_conn *conn = NULL;
		uint64_t sender;

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_OK(rpma_peer_find_conn(r->peer, wc.qp_num, &conn));
		memcpy(&sender, m->data + wc.wr_id * 8, sizeof(sender));
		CHECK(sender < CONNS);
		CHECK(conn == conns[sender]);
		got[sender]++;
	}
	expect_none(cq);
	for (int i = 0; i < CONNS; i++)
		CHECK_EQ(got[i], MESSAGES);
}

static void
whose_target(struct role *r)
{
	struct conn_opts opts = { 0 };
	struct rpma_conn *conns[CONNS];
	struct rpma_peer *other;
	struct rpma_cq *cq = NULL;
	uint32_t qp_num;
	struct mem m;

	role_open(r);
	opts.srq = open_srq(r, &cq);
	mem_new(r, &m, CONNS * MESSAGES * 8, RPMA_MR_USAGE_RECV);
	for (size_t i = 0; i < CONNS * MESSAGES; i++)
		CHECK_OK(rpma_srq_recv(opts.srq, m.mr, GUARD + i * 8, 8, CTX(i)));
	role_listen(r);
	for (int i = 0; i < CONNS; i++)
		conns[i] = conn_accept(r, &opts);
	ctl_put(r, "send");
	take_messages(r, cq, &m, conns);
	/* a peer does not find the connections of other peers, nor its own after they are deleted */
	other = role_new_peer(r);
	qp_num = conn_qp_num(conns[0]);
	CHECK_RET(rpma_peer_find_conn(other, qp_num, &r->conn), RPMA_E_INVAL);
	CHECK_OK(rpma_peer_delete(&other));
	ctl_put(r, "end");
	for (int i = 0; i < CONNS; i++) {
		qp_num = conn_qp_num(conns[i]);
		expect_end(conns[i]);
		CHECK_OK(rpma_peer_find_conn(r->peer, qp_num, &r->conn));
		CHECK(r->conn == conns[i]);
		r->conn = NULL;
		conn_delete(&conns[i]);
		check_unknown(r, qp_num);
	}
	check_unknown(r, 0);
	check_unknown(r, UINT32_MAX);
	CHECK_RET(rpma_peer_find_conn(r->peer, qp_num, NULL), RPMA_E_INVAL);
	mem_delete(&m);
	CHECK_OK(rpma_srq_delete(&opts.srq));
	role_delete(r);
}

struct sender {
	struct rpma_conn *conn;
	uint64_t number;
};

static void *
send_messages(void *arg)
{
	struct sender *s = arg;

	for (uint64_t i = 0; i < MESSAGES; i++) {
		CHECK_OK(rpma_send_inline(s->conn, &s->number, sizeof(s->number), ALWAYS, CTX(i)));
		expect_ok(conn_cq(s->conn), i);
	}
	return NULL;
}

static void
whose_initiator(struct role *r)
{
	struct sender senders[CONNS];
	pthread_t threads[CONNS];

	role_open(r);
	role_listen(r);
	for (uint64_t i = 0; i < CONNS; i++)
		senders[i] = (struct sender){ conn_connect(r, NULL), i };
	ctl_expect(r, "send");
	for (int i = 0; i < CONNS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, send_messages, &senders[i]), 0);
	for (int i = 0; i < CONNS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	ctl_expect(r, "end");
	for (int i = 0; i < CONNS; i++) {
		CHECK_OK(rpma_conn_disconnect(senders[i].conn));
		expect_end(senders[i].conn);
		conn_delete(&senders[i].conn);
	}
	role_delete(r);
}

/* ---- what the device can do ---- */

static void
caps(struct role *r)
{
	struct ibv_context *ctx = NULL;
	uint32_t has = 0;
	int is_soft = -1;
	int is_odp = -1;

	role_connect(r, NULL);
	CHECK_OK(rpma_utils_get_ibv_context(r->addr,
		r->is_target ? RPMA_UTIL_IBV_CONTEXT_LOCAL : RPMA_UTIL_IBV_CONTEXT_REMOTE, &ctx));
	CHECK_OK(rpma_utils_ibv_context_is_soft(ctx, &is_soft));
	CHECK_OK(rpma_utils_ibv_context_is_odp_capable(ctx, &is_odp));
	CHECK_OK(rpma_peer_get_caps(r->peer, &has));
	CHECK_EQ(is_soft, r->soft);
	CHECK_EQ((has & RPMA_CAP_SOFT) != 0, is_soft);
	CHECK_EQ((has & RPMA_CAP_ODP) != 0, is_odp);
	if (r->soft)
		CHECK_EQ(has,
			RPMA_CAP_SOFT | RPMA_CAP_NATIVE_FLUSH | RPMA_CAP_NATIVE_ATOMIC_WRITE |
				RPMA_CAP_ATOMICS);
	CHECK_RET(rpma_peer_get_caps(NULL, &has), RPMA_E_INVAL);
	CHECK_RET(rpma_peer_get_caps(r->peer, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_peer_set_tls(NULL, "cert", "key", "ca"), RPMA_E_INVAL);
	CHECK_RET(rpma_peer_set_tls(r->peer, NULL, "key", "ca"), RPMA_E_INVAL);
	if (!r->soft)
		CHECK_RET(rpma_peer_set_tls(r->peer, "cert", "key", "ca"), RPMA_E_NOSUPP);
	CHECK_RET(rpma_utils_ibv_context_is_soft(NULL, &is_soft), RPMA_E_INVAL);
	CHECK_RET(rpma_utils_ibv_context_is_soft(ctx, NULL), RPMA_E_INVAL);
	role_close(r);
}

/* ---- counters ---- */

static struct rpma_conn_stats
stats_of(struct rpma_conn *conn)
{
	struct rpma_conn_stats stats;

	memset(&stats, 0xff, sizeof(stats));
	stats.size = sizeof(stats);
	CHECK_OK(rpma_conn_get_stats(conn, &stats));
	CHECK_EQ(stats.size, sizeof(stats));
	return stats;
}

static void
stats_target(struct role *r)
{
	struct rpma_conn_stats stats;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 64,
		RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_RECV |
			RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
	for (uint64_t i = 0; i < 4; i++)
		CHECK_OK(rpma_recv(r->conn, m.mr, GUARD, 64, CTX(i)));
	desc_put(r, &m);
	for (uint64_t i = 0; i < 4; i++)
		CHECK_EQ(next_wc(r->cq).wr_id, i);
	stats = stats_of(r->conn);
	CHECK_EQ(stats.recvs, 4);
	CHECK_EQ(stats.completions, 4);
	CHECK_EQ(stats.completion_errors, 0);
	/* operations of the other side on our memory do not count here */
	CHECK_EQ(stats.reads + stats.writes + stats.atomics + stats.flushes + stats.sends, 0);
	CHECK_EQ(stats.bytes_read + stats.bytes_written + stats.bytes_sent, 0);
	ctl_expect(r, "done");
	mem_delete(&m);
	role_close(r);
}

static void
post_all_kinds(struct role *r, struct rpma_mr_remote *dst, struct mem *m)
{
	struct rpma_sge sge[2] = { { m->mr, GUARD, 5 }, { m->mr, GUARD + 8, 6 } };
	static const char src[8] = { 0 }; /* not where the reads land */
	uint64_t ctx = 0;

	CHECK_OK(rpma_read(r->conn, m->mr, GUARD, dst, GUARD, 10, ALWAYS, CTX(ctx++)));
	CHECK_OK(rpma_readv(r->conn, sge, 2, dst, GUARD, ALWAYS, CTX(ctx++)));
	CHECK_OK(rpma_write(r->conn, dst, GUARD, m->mr, GUARD, 20, ALWAYS, CTX(ctx++)));
	CHECK_OK(rpma_write_with_imm(r->conn, dst, GUARD, m->mr, GUARD, 3, ALWAYS, 0, CTX(ctx++)));
	CHECK_OK(rpma_writev(r->conn, dst, GUARD, sge, 2, ALWAYS | RPMA_F_MORE, CTX(ctx++)));
	CHECK_OK(rpma_write_inline(r->conn, dst, GUARD, src, 7, ALWAYS, CTX(ctx++)));
	CHECK_OK(rpma_write_inline_with_imm(r->conn, dst, GUARD, src, 1, ALWAYS, 0, CTX(ctx++)));
	CHECK_OK(rpma_atomic_write(r->conn, dst, GUARD, src, ALWAYS, CTX(ctx++)));
	CHECK_OK(rpma_send(r->conn, m->mr, GUARD, 9, ALWAYS, CTX(ctx++)));
	CHECK_OK(rpma_send_inline(r->conn, src, 4, ALWAYS, CTX(ctx++)));
	post_flush(r, dst, GUARD, 64, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, ctx++);
	post_write_flush(r, dst, m, GUARD, 30, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, ctx++);
	CHECK_OK(rpma_compare_and_swap(r->conn, m->mr, GUARD, dst, GUARD, 0, 0, ALWAYS, CTX(ctx++)));
	CHECK_OK(rpma_fetch_and_add(r->conn, m->mr, GUARD, dst, GUARD, 0, ALWAYS, CTX(ctx++)));
	/* these are refused, and do not count */
	CHECK_RET(rpma_read(r->conn, m->mr, GUARD, dst, SIZE_MAX, 10, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_write(r->conn, dst, SIZE_MAX, m->mr, GUARD, 10, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_send(r->conn, m->mr, SIZE_MAX, 10, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_flush(r->conn, dst, SIZE_MAX, 10, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, NULL),
		RPMA_E_INVAL);
	for (uint64_t i = 0; i < ctx; i++)
		expect_ok(r->cq, i);
	expect_none(r->cq);
}

/* a caller built for this library, for an older one, and for a newer one */
static void
check_sizes(struct role *r)
{
	struct {
		struct rpma_conn_stats stats;
		uint64_t newer[2];
	} s;
	struct rpma_conn_stats full = stats_of(r->conn);

	memset(&s, 0xff, sizeof(s));
	s.stats.size = sizeof(s);
	CHECK_OK(rpma_conn_get_stats(r->conn, &s.stats));
	CHECK_EQ(s.stats.size, sizeof(s.stats));
	CHECK(s.newer[0] == 0 && s.newer[1] == 0);
	memset(&s, 0xff, sizeof(s));
	s.stats.size = 24;
	CHECK_OK(rpma_conn_get_stats(r->conn, &s.stats));
	CHECK_EQ(s.stats.size, 24);
	CHECK_EQ(s.stats.reads, full.reads);
	CHECK_EQ(s.stats.writes, full.writes);
	CHECK(s.stats.atomics == UINT64_MAX && s.stats.waits == UINT64_MAX);
	s.stats.size = 7;
	CHECK_RET(rpma_conn_get_stats(r->conn, &s.stats), RPMA_E_INVAL);
	CHECK_EQ(s.stats.size, 7);
	CHECK_RET(rpma_conn_get_stats(NULL, &s.stats), RPMA_E_INVAL);
	CHECK_RET(rpma_conn_get_stats(r->conn, NULL), RPMA_E_INVAL);
}

static void
stats_initiator(struct role *r)
{
	const struct conn_opts opts = { .max_sge = 2, .inline_size = 16 };
	struct rpma_conn_stats stats;
	struct rpma_mr_remote *dst;
	struct mem m;

	role_connect(r, &opts);
	need_caps(r, RPMA_CAP_ATOMICS);
	mem_new(r, &m, 64, RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_SEND);
	dst = remote_take(r);
	stats = stats_of(r->conn);
	for (size_t i = 1; i < sizeof(stats) / 8; i++)
		CHECK_EQ(((const uint64_t *)(const void *)&stats)[i], 0);
	post_all_kinds(r, dst, &m);
	stats = stats_of(r->conn);
	CHECK_EQ(stats.reads, 2);
	CHECK_EQ(stats.bytes_read, 10 + 11);
	CHECK_EQ(stats.writes, 6);
	CHECK_EQ(stats.bytes_written, 20 + 3 + 11 + 7 + 1 + 30);
	CHECK_EQ(stats.atomics, 3);
	CHECK_EQ(stats.flushes, 2);
	CHECK_EQ(stats.sends, 2);
	CHECK_EQ(stats.bytes_sent, 9 + 4);
	CHECK_EQ(stats.recvs, 0);
	CHECK_EQ(stats.completions, 14);
	CHECK_EQ(stats.completion_errors, 0);
	check_sizes(r);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

/* ---- errors and waits are counted too ---- */

static void
errors_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 64, RPMA_MR_USAGE_WRITE_DST);
	desc_put(r, &m);
	mem_dereg(&m);
	ctl_put(r, "gone");
	expect_end(r->conn);
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

static void
errors_initiator(struct role *r)
{
	struct rpma_conn_stats stats;
	struct rpma_mr_remote *dst;
	struct mem m;
	uint64_t waits;

	role_connect(r, NULL);
	mem_new(r, &m, 64, RPMA_MR_USAGE_WRITE_SRC);
	dst = remote_take(r);
	ctl_expect(r, "gone");
	CHECK_OK(rpma_write(r->conn, NULL, 0, NULL, 0, 0, ALWAYS, CTX(0)));
	CHECK_OK(rpma_cq_wait_timed(r->cq, WAIT_MS));
	expect_ok(r->cq, 0);
	waits = stats_of(r->conn).waits;
	CHECK_EQ(waits, 1);
	for (uint64_t i = 1; i <= 5; i++)
		CHECK_OK(rpma_write(r->conn, dst, GUARD, m.mr, GUARD, 8, ON_ERROR, CTX(i)));
	expect_wc(r->cq, 1, IBV_WC_REM_ACCESS_ERR);
	for (uint64_t i = 2; i <= 5; i++)
		expect_wc(r->cq, i, IBV_WC_WR_FLUSH_ERR);
	stats = stats_of(r->conn);
	CHECK_EQ(stats.completions, 6);
	CHECK_EQ(stats.completion_errors, 5);
	CHECK_EQ(stats.writes, 6);
	CHECK(stats.waits >= waits);
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

/* ---- the last failure of a thread as a sentence ---- */

static void *
fail_elsewhere(void *arg)
{
	/* nothing has failed in this thread yet */
	CHECK(rpma_errormsg() != NULL && !strstr(rpma_errormsg(), "no multiple"));
	CHECK_RET(rpma_conn_cfg_set_connect_timeout(arg, -7), RPMA_E_INVAL);
	CHECK(strstr(rpma_errormsg(), "-7 ms") != NULL);
	return NULL;
}

static void
sentence_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 64, RPMA_MR_USAGE_WRITE_DST);
	desc_put(r, &m);
	ctl_expect(r, "done");
	mem_check_untouched(&m);
	mem_delete(&m);
	role_close(r);
}

static void
sentence_initiator(struct role *r)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_mr_remote *dst;
	pthread_t thread;

	role_connect(r, NULL);
	dst = remote_take(r);
	CHECK_RET(rpma_atomic_write(r->conn, dst, GUARD + 4, "1234567", ALWAYS, NULL), RPMA_E_INVAL);
	CHECK(strstr(rpma_errormsg(), "no multiple of 8") != NULL);
	/* neither a call that did not fail nor another thread changes the message */
	expect_none(r->cq);
	CHECK_RET(rpma_conn_next_event_timed(r->conn, 0, &event), RPMA_E_NO_EVENT);
	CHECK_OK(rpma_conn_submit(r->conn));
	CHECK_OK(rpma_conn_cfg_new(&cfg));
	CHECK_EQ(pthread_create(&thread, NULL, fail_elsewhere, cfg), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK(strstr(rpma_errormsg(), "no multiple of 8") != NULL);
	/* a failed call replaces the message; it tells the offset, and not the address */
	struct mem result;
	char text[64];
	mem_new(r, &result, 8, RPMA_MR_USAGE_READ_DST);
	CHECK_RET(rpma_fetch_and_add(r->conn, result.mr, GUARD, dst, GUARD + 4, 0, ALWAYS, NULL),
		RPMA_E_INVAL);
	snprintf(text, sizeof(text), "offset %zu of the remote region", (size_t)(GUARD + 4));
	CHECK(strstr(rpma_errormsg(), text) != NULL);
	mem_delete(&result);
	CHECK_RET(rpma_compare_and_swap(r->conn, NULL, 0, dst, GUARD, 0, 0, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK(strstr(rpma_errormsg(), "no multiple of 8") == NULL);
	ctl_put(r, "done");
	CHECK_OK(rpma_conn_cfg_delete(&cfg));
	CHECK_OK(rpma_mr_remote_delete(&dst));
	role_close(r);
}

static void
full_target(struct role *r)
{
	role_connect(r, NULL);
	for (uint64_t count = ctl_get_u64(r), i = 0; i < count; i++) {
		CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(i)));
		expect_recv(r->cq, i, 0);
	}
	role_close(r);
}

/* the message of a failed device call: its name, the error, and what to do */
static void
full_initiator(struct role *r)
{
	const struct conn_opts opts = { .sq = 8, .cq = 2048 };
	uint64_t posted = 0;
	int ret;

	role_connect(r, &opts);
	for (ret = 0; !ret && posted <= 1024; posted += !ret)
		ret = rpma_send(r->conn, NULL, 0, 0, ALWAYS, CTX(posted));
	CHECK_RET(ret, RPMA_E_PROVIDER);
	CHECK(strstr(rpma_errormsg(), "send queue") != NULL);
	CHECK(strstr(rpma_errormsg(), "Cannot allocate memory") != NULL);
	CHECK(strstr(rpma_errormsg(), "collect completions") != NULL);
	ctl_put_u64(r, posted);
	for (uint64_t i = 0; i < posted; i++)
		expect_ok(r->cq, i);
	role_close(r);
}

static const struct scenario list[] = {
	{ "smoke-answer-accepted-every-length", accepted_target, accepted_initiator, 0, 0, NULL },
	{ "smoke-answer-rejected-every-length", rejected_target, rejected_initiator, 0, 0, NULL },
	{ "answer-wrong-rejections", wrong_reject_target, wrong_reject_initiator, 0, 0, NULL },
	{ "answer-whose-completion", whose_target, whose_initiator, 0, 0, NULL },
	{ "answer-capabilities", caps, caps, 0, 0, NULL },
	{ "answer-counters", stats_target, stats_initiator, 64, 0, NULL },
	{ "answer-counters-of-errors", errors_target, errors_initiator, 64, 0, NULL },
	{ "answer-sentence", sentence_target, sentence_initiator, 64, 0, NULL },
	{ "answer-sentence-of-a-full-queue", full_target, full_initiator, 0, 0, NULL },
};

const struct scenario_group group_answers = { list, sizeof(list) / sizeof(list[0]) };
