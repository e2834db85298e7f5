/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_stats.c -- the counters of a connection, and of a peer */

#include "posting.h"

static struct rpma_conn_stats
stats_of(const struct rpma_conn *conn)
{
	struct rpma_conn_stats stats;
	memset(&stats, 0xA5, sizeof(stats));
	stats.size = sizeof(stats);
	assert_ok(rpma_conn_get_stats(conn, &stats));
	assert_int_equal(stats.size, sizeof(stats));
	return stats;
}

static void
assert_stats(const struct rpma_conn_stats *expected)
{
	struct rpma_conn_stats wanted = *expected, got = stats_of(f.conn);
	wanted.size = sizeof(wanted);
	const uint64_t *w = (const uint64_t *)&wanted, *g = (const uint64_t *)&got;
	for (size_t i = 0; i < sizeof(got) / sizeof(*g); i++)
		if (w[i] != g[i])
			fail_msg("counter %zu: %llu, not %llu", i, (unsigned long long)g[i],
				(unsigned long long)w[i]);
}

static void
arguments(void **state)
{
	(void)state;
	struct rpma_conn_stats stats = { .size = sizeof(stats), .reads = 77 };
	assert_fails(RPMA_E_INVAL, rpma_conn_get_stats(NULL, &stats));
	assert_fails(RPMA_E_INVAL, rpma_conn_get_stats(f.conn, NULL));
	for (uint64_t size = 0; size < 8; size++) {
		stats.size = size;
		assert_fails(RPMA_E_INVAL, rpma_conn_get_stats(f.conn, &stats));
		assert_int_equal(stats.size, size);
	}
	assert_int_equal(stats.reads, 77);
}

/* programs built with older and with newer headers */
static void
other_sizes(void **state)
{
	(void)state;
	assert_ok(rpma_read(f.conn, f.mr, 0, f.remote, 0, 5, ALWAYS, NULL));
	for (size_t size = 8; size <= sizeof(struct rpma_conn_stats) + 24; size++) {
		union {
			struct rpma_conn_stats stats;
			uint8_t bytes[sizeof(struct rpma_conn_stats) + 40];
		} u;
		const size_t known = size < sizeof(u.stats) ? size : sizeof(u.stats);
		memset(&u, 0xA5, sizeof(u));
		u.stats.size = size;
		assert_ok(rpma_conn_get_stats(f.conn, &u.stats));
		assert_int_equal(u.stats.size, known);
		if (size >= 16)
			assert_int_equal(u.stats.reads, 1);
		for (size_t i = known; i < sizeof(u); i++)
			assert_int_equal(u.bytes[i], i < size ? 0 : 0xA5);
	}
}

/* each operation is counted once, and nothing else is */
static void
operations(void **state)
{
	(void)state;
	struct rpma_conn_stats e = { 0 };
	const char src[8] = { 0 };
	const struct rpma_sge pieces[] = { { f.mr, 0, 3 }, { f.mr, 8, 4 } };
	assert_stats(&e);

	assert_ok(rpma_read(f.conn, f.mr, 0, f.remote, 0, 5, ALWAYS, NULL));
	e.reads++, e.bytes_read += 5;
	assert_stats(&e);
	assert_ok(rpma_readv(f.conn, pieces, 2, f.remote, 0, ALWAYS, NULL));
	e.reads++, e.bytes_read += 7;
	assert_stats(&e);
	assert_ok(rpma_write(f.conn, f.remote, 0, f.mr, 0, 6, ON_ERROR, NULL));
	e.writes++, e.bytes_written += 6;
	assert_stats(&e);
	assert_ok(rpma_write_with_imm(f.conn, f.remote, 0, f.mr, 0, 7, ALWAYS, IMM, NULL));
	e.writes++, e.bytes_written += 7;
	assert_stats(&e);
	assert_ok(rpma_writev(f.conn, f.remote, 0, pieces, 2, ALWAYS, NULL));
	e.writes++, e.bytes_written += 7;
	assert_stats(&e);
	assert_ok(rpma_write_inline(f.conn, f.remote, 0, src, 8, ALWAYS | MORE, NULL));
	e.writes++, e.bytes_written += 8;
	assert_stats(&e);
	assert_ok(rpma_write_inline_with_imm(f.conn, f.remote, 0, src, 3, ALWAYS, IMM, NULL));
	e.writes++, e.bytes_written += 3;
	assert_stats(&e);
	assert_ok(
		rpma_write_flush(f.conn, f.remote, 0, f.mr, 0, 9, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, NULL));
	e.writes++, e.bytes_written += 9, e.flushes++;
	assert_stats(&e);
	assert_ok(rpma_flush(f.conn, f.remote, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, NULL));
	e.flushes++;
	assert_stats(&e);
	assert_ok(rpma_atomic_write(f.conn, f.remote, 0, src, ALWAYS, NULL));
	assert_ok(rpma_write_atomic(f.conn, f.remote, 0, f.mr, 0, ALWAYS, NULL));
	assert_ok(rpma_compare_and_swap(f.conn, f.mr, 0, f.remote, 0, 1, 2, ALWAYS, NULL));
	assert_ok(rpma_fetch_and_add(f.conn, f.mr, 0, f.remote, 0, 1, ALWAYS, NULL));
	e.atomics += 4;
	assert_stats(&e);
	assert_ok(rpma_send(f.conn, f.mr, 0, 10, ALWAYS, NULL));
	assert_ok(rpma_send_with_imm(f.conn, f.mr, 0, 11, ALWAYS, IMM, NULL));
	assert_ok(rpma_send_inline(f.conn, src, 2, ALWAYS, NULL));
	e.sends += 3, e.bytes_sent += 23;
	assert_stats(&e);
	assert_ok(rpma_recv(f.conn, f.mr, 0, 12, NULL));
	e.recvs++;
	assert_stats(&e);
}

/* a request that was not posted is not counted */
static void
failures(void **state)
{
	(void)state;
	const struct rpma_conn_stats none = { 0 };
	const char src[8] = { 0 };
	const struct rpma_sge piece = { f.mr, 0, 8 };
	for (int refused = 0; refused < 2; refused++) {
		/* the device refuses the request, or its arguments never reach the device */
		struct rpma_mr_local *mr = f.mr;
		const int flags = refused ? 0 : ALWAYS, ret = refused ? RPMA_E_INVAL : RPMA_E_PROVIDER;
#define FAILS(call, expr) \
	do { \
		fail_next(call, EIO); \
		assert_fails(ret, expr); \
	} while (0)
		FAILS("post_send", rpma_read(f.conn, mr, 0, f.remote, 0, 5, flags, NULL));
		FAILS("post_send", rpma_readv(f.conn, &piece, 1, f.remote, 0, flags, NULL));
		FAILS("post_send", rpma_write(f.conn, f.remote, 0, mr, 0, 6, flags, NULL));
		FAILS("post_send", rpma_writev(f.conn, f.remote, 0, &piece, 1, flags, NULL));
		FAILS("post_send", rpma_write_inline(f.conn, f.remote, 0, src, 8, flags, NULL));
		FAILS("wr_complete",
			rpma_write_flush(f.conn, f.remote, 0, mr, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, flags,
				NULL));
		FAILS("wr_complete",
			rpma_flush(f.conn, f.remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, flags, NULL));
		FAILS("wr_complete", rpma_atomic_write(f.conn, f.remote, 0, src, flags, NULL));
		FAILS("post_send", rpma_fetch_and_add(f.conn, mr, 0, f.remote, 0, 1, flags, NULL));
		FAILS("post_send", rpma_send(f.conn, mr, 0, 8, flags, NULL));
		FAILS("post_send", rpma_send_inline(f.conn, src, 8, flags, NULL));
#undef FAILS
		assert_stats(&none);
	}
	fail_next("post_recv", EIO);
	assert_fails(RPMA_E_PROVIDER, rpma_recv(f.conn, f.mr, 0, 8, NULL));
	assert_stats(&none);
}

/* the waits and completions of all queues that belong to the connection alone */
static void
completions_and_waits(void **state)
{
	(void)state;
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_cq *cq = NULL, *rcq = NULL;
	struct ibv_wc wc[4];
	int got;
	assert_ok(rpma_conn_cfg_new(&cfg));
	assert_ok(rpma_conn_cfg_set_rcq_size(cfg, 4));
	struct rpma_conn *conn = mock_conn(f.peer, cfg);
	assert_ok(rpma_conn_get_cq(conn, &cq));
	assert_ok(rpma_conn_get_rcq(conn, &rcq));

	mock.wcs_once = true;
	mock.wcs = 3;
	mock.wc[1].status = IBV_WC_WR_FLUSH_ERR;
	assert_ok(rpma_cq_get_wc(cq, 4, wc, &got));
	mock.wcs = 2;
	assert_ok(rpma_cq_get_wc(rcq, 4, wc, &got));
	assert_int_equal(rpma_cq_get_wc(rcq, 4, wc, &got), RPMA_E_NO_COMPLETION);
	mock.cq_event = cq->ibv_cq;
	assert_ok(rpma_cq_wait(cq));
	assert_ok(rpma_cq_wait(cq));
	mock.cq_event = rcq->ibv_cq;
	assert_ok(rpma_cq_wait(rcq));
	mock.cq_event = NULL;
	assert_int_equal(rpma_cq_wait(rcq), RPMA_E_NO_COMPLETION);

	struct rpma_conn_stats stats = stats_of(conn);
	assert_int_equal(stats.completions, 5);
	assert_int_equal(stats.completion_errors, 2);
	assert_int_equal(stats.waits, 3);
	stats = stats_of(f.conn); /* of another connection */
	assert_int_equal(stats.completions + stats.completion_errors + stats.waits, 0);
	assert_ok(rpma_conn_delete(&conn));
	assert_ok(rpma_conn_cfg_delete(&cfg));
}

/* the completion queue of a shared receive queue belongs to all its connections, and counts for none */
static void
a_shared_receive_queue(void **state)
{
	(void)state;
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_srq *srq = NULL;
	struct rpma_cq *rcq = NULL;
	struct ibv_wc wc;
	assert_ok(rpma_srq_new(f.peer, NULL, &srq));
	assert_ok(rpma_srq_get_rcq(srq, &rcq));
	assert_ok(rpma_conn_cfg_new(&cfg));
	assert_ok(rpma_conn_cfg_set_srq(cfg, srq));
	struct rpma_conn *conn = mock_conn(f.peer, cfg);
	mock.wcs = 1;
	assert_ok(rpma_cq_get_wc(rcq, 1, &wc, NULL));
	struct rpma_conn_stats stats = stats_of(conn);
	assert_int_equal(stats.completions, 0);
	assert_ok(rpma_conn_delete(&conn));
	assert_ok(rpma_srq_delete(&srq));
	assert_ok(rpma_conn_cfg_delete(&cfg));
}

/* ---- of a peer ---- */

static struct rpma_peer_stats
peer_stats(void)
{
	struct rpma_peer_stats stats;
	memset(&stats, 0xA5, sizeof(stats));
	stats.size = sizeof(stats);
	assert_ok(rpma_peer_get_stats(f.peer, &stats));
	assert_int_equal(stats.size, sizeof(stats));
	return stats;
}

static void
peer_arguments(void **state)
{
	(void)state;
	struct rpma_peer_stats stats = { .size = sizeof(stats), .reads = 77 };
	assert_fails(RPMA_E_INVAL, rpma_peer_get_stats(NULL, &stats));
	assert_fails(RPMA_E_INVAL, rpma_peer_get_stats(f.peer, NULL));
	for (uint64_t size = 0; size < 8; size++) {
		stats.size = size;
		assert_fails(RPMA_E_INVAL, rpma_peer_get_stats(f.peer, &stats));
		assert_int_equal(stats.size, size);
	}
	assert_int_equal(stats.reads, 77);
}

/* programs of other versions: what does not fit is left out, and what is not known is 0 */
static void
other_sizes_of_a_peer(void **state)
{
	(void)state;
	union {
		struct rpma_peer_stats stats;
		uint8_t bytes[sizeof(struct rpma_peer_stats) + 40];
	} u;
	for (size_t size = 8; size <= sizeof(u.stats) + 24; size += 8) {
		const size_t known = size < sizeof(u.stats) ? size : sizeof(u.stats);
		memset(&u, 0xA5, sizeof(u));
		u.stats.size = size;
		assert_ok(rpma_peer_get_stats(f.peer, &u.stats));
		assert_int_equal(u.stats.size, known);
		for (size_t i = known; i < sizeof(u); i++)
			assert_int_equal(u.bytes[i], i < size ? 0 : 0xA5);
	}
}

/* a connection counts for its peer from the moment when it is requested, and also after it is deleted */
static void
connections_of_a_peer(void **state)
{
	(void)state;
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;
	enum rpma_conn_event event;
	struct ibv_wc wc;
	struct rpma_cq *cq = NULL;
	assert_ok(rpma_conn_req_new(f.peer, "192.0.2.1", "7204", NULL, &req));
	assert_ok(rpma_conn_req_connect(&req, NULL, &conn));
	assert_int_equal(peer_stats().connections, 0);
	mock_queue_event(RDMA_CM_EVENT_ESTABLISHED, conn->id, NULL, 0);
	assert_ok(rpma_conn_next_event(conn, &event));
	assert_int_equal(peer_stats().connections, 1);
	assert_int_equal(peer_stats().connections_now, 1);

	assert_ok(rpma_write(conn, f.remote, 0, f.mr, 0, 6, ALWAYS, NULL));
	assert_ok(rpma_flush(conn, f.remote, 0, 6, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, NULL));
	assert_ok(rpma_conn_get_cq(conn, &cq));
	mock.wcs = 1;
	mock.wc[0].status = IBV_WC_WR_FLUSH_ERR;
	assert_ok(rpma_cq_get_wc(cq, 1, &wc, NULL));
	struct rpma_peer_stats stats = peer_stats();
	assert_int_equal(stats.writes, 1);
	assert_int_equal(stats.bytes_written, 6);
	assert_int_equal(stats.flushes, 1);
	assert_int_equal(stats.completions, 1);
	assert_int_equal(stats.completion_errors, 1);

	mock_queue_event(RDMA_CM_EVENT_DISCONNECTED, conn->id, NULL, 0);
	assert_ok(rpma_conn_next_event(conn, &event));
	assert_int_equal(peer_stats().connections_now, 0);
	assert_ok(rpma_conn_delete(&conn));
	stats.connections_now = 0;
	struct rpma_peer_stats after = peer_stats();
	assert_memory_equal(&after, &stats, sizeof(stats));
}

static struct ibv_pd *asked_pd;

static void
serve(struct ibv_pd *pd, struct rdma_served *served)
{
	uint64_t *value = (uint64_t *)(void *)served;
	asked_pd = pd;
	for (size_t i = 0; i < sizeof(*served) / sizeof(*value); i++)
		value[i] = 100 + i;
}

/* what the device has counted is passed on, member by member */
static void
what_the_device_has_served(void **state)
{
	(void)state;
	struct rpma_peer_stats stats = peer_stats();
	assert_int_equal(stats.served_writes + stats.refused_access + stats.flush_ns, 0);
	mock_rdma.get_served = serve;
	stats = peer_stats();
	assert_ptr_equal(asked_pd, f.peer->pd);
	const uint64_t got[] = { stats.served_reads, stats.served_writes, stats.served_atomics,
		stats.served_flushes, stats.served_sends, stats.served_bytes_read, stats.served_bytes_written,
		stats.served_bytes_sent, stats.refused_invalid, stats.refused_access, stats.refused_failed,
		stats.crc_errors, stats.flush_ns };
	for (size_t i = 0; i < sizeof(got) / sizeof(got[0]); i++)
		assert_int_equal(got[i], 100 + i);
	for (size_t i = 0; i < RPMA_FLUSH_TIMES; i++)
		assert_int_equal(stats.flush_times[i], 113 + i);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		native_test(arguments),
		native_test(other_sizes),
		native_test(operations),
		native_test(failures),
		native_test(completions_and_waits),
		native_test(a_shared_receive_queue),
		native_test(peer_arguments),
		native_test(other_sizes_of_a_peer),
		native_test(connections_of_a_peer),
		native_test(what_the_device_has_served),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
