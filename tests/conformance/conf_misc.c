/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conf_misc.c -- resources are returned; descriptors; targets that call nothing */

#include <stdlib.h>
#include <string.h>

#include "count.h"
#include "groups.h"
#include "role.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define CYCLES 50
#define LEN ((size_t)4096)

/* ---- connect, register, write, disconnect, again and again: nothing leaks ---- */

static void
cycle(struct role *r)
{
	struct mem m;

	r->conn = r->is_target ? conn_accept(r, NULL) : conn_connect(r, NULL);
	r->cq = conn_cq(r->conn);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_WRITE_SRC);
	if (r->is_target) {
		desc_put(r, &m);
		ctl_expect(r, "written");
		mem_check(&m, 9);
	} else {
		struct rpma_mr_remote *dst = remote_take(r);

		mem_fill(&m, 9);
		CHECK_OK(rpma_write(r->conn, dst, GUARD, m.mr, GUARD, LEN, ALWAYS, CTX(1)));
		expect_ok(r->cq, 1);
		CHECK_OK(rpma_mr_remote_delete(&dst));
		ctl_put(r, "written");
	}
	mem_delete(&m);
	role_disconnect(r);
}

static void
check_returned(int (*count)(void), int before, const char *what)
{
	int after = count_settle(count, before, WAIT_MS);

	if (after > before)
		check_failed(__FILE__, __LINE__, "%d %s more than before", after - before, what);
}

/* in one process both roles count the same process, so they count together and while nothing runs */
static void
reconnect(struct role *r)
{
	int fds, threads;

	role_open(r);
	role_listen(r);
	cycle(r);
	ctl_sync(r);
	count_settle(count_threads, 1, 200);
	fds = count_fds();
	threads = count_threads();
	ctl_sync(r);
	for (int i = 0; i < CYCLES; i++)
		cycle(r);
	ctl_sync(r);
	check_returned(count_fds, fds, "descriptors");
	check_returned(count_threads, threads, "threads");
	ctl_sync(r);
	role_delete(r);
}

static void
open_and_close(struct role *r)
{
	role_open(r);
	role_listen(r);
	cycle(r);
	role_delete(r);
}

/* this thread, in one process also the main thread and that of the other role, and one that only logs */
static int
own_threads(const struct role *r)
{
	return (r->processes == 1 ? 3 : 1) + (r->logs ? 1 : 0);
}

/*
 * After everything is deleted the device is gone, with its threads and descriptors. The first time is not
 * counted: libraries and sanitizers allocate things then that they keep for ever.
 */
static void
everything_returns(struct role *r)
{
	int fds, threads;

	open_and_close(r);
	ctl_sync(r);
	count_settle(count_threads, own_threads(r), 200);
	fds = count_fds();
	threads = count_threads();
	ctl_sync(r);
	for (int i = 0; i < 10; i++)
		open_and_close(r);
	ctl_sync(r);
	/* librdmacm keeps contexts of hardware open */
	if (r->soft) {
		check_returned(count_fds, fds, "descriptors");
		check_returned(count_threads, threads, "threads");
		if (!in_thread_sanitizer()) /* it has a thread of its own */
			CHECK_EQ(count_threads(), own_threads(r));
	}
	ctl_sync(r);
}

/* ---- descriptors ---- */

static void
descriptor_target(struct role *r)
{
	struct rpma_mr_remote *remote = NULL;
	struct desc d;
	struct mem m;
	size_t size = 0;
	int types = 0;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
	desc_get(&m, &d);
	ctl_send(r, d.bytes, d.len);
	remote = desc_import(&d);
	CHECK_OK(rpma_mr_remote_get_size(remote, &size));
	CHECK_EQ(size, GUARD + LEN + GUARD);
	CHECK_OK(rpma_mr_remote_get_flush_type(remote, &types));
	CHECK_EQ(types, RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
	CHECK_OK(rpma_mr_remote_delete(&remote));
	CHECK(remote == NULL);
	CHECK_RET(rpma_mr_remote_from_descriptor(d.bytes, 20, &remote), RPMA_E_INVAL);
	desc_alter_usage(&d, 0);
	CHECK_RET(rpma_mr_remote_from_descriptor(d.bytes, d.len, &remote), RPMA_E_INVAL);
	CHECK(remote == NULL);
	ctl_expect(r, "written");
	mem_check(&m, 9);
	mem_delete(&m);
	role_close(r);
}

/* complete, cut to the original's 21 bytes, and with unknown bytes at the end: all of them work */
static void
descriptor_initiator(struct role *r)
{
	const size_t third = LEN / 4;
	struct desc d;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(&m, 9);
	desc_take(r, &d);
	for (size_t i = 0; i < 4; i++) {
		size_t at = GUARD + i * third;
		struct rpma_mr_remote *dst;

		if (i == 1)
			d.len = 21;
		if (i == 2) {
			memset(d.bytes + 21, 0x11, DESC_MAX - 21);
			d.len = DESC_MAX;
		}
		dst = desc_import(&d);
		CHECK_OK(rpma_write(r->conn, dst, at, m.mr, at, third, RPMA_F_COMPLETION_ON_ERROR, NULL));
		post_flush(r, dst, at, third, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, i);
		CHECK_OK(rpma_mr_remote_delete(&dst));
		expect_ok(r->cq, i);
	}
	ctl_put(r, "written");
	mem_delete(&m);
	role_close(r);
}

/* ---- a target that calls nothing between connect and end, during a long mix of operations ---- */

/* what the device has done for the other side meanwhile; by way of shared memory only the flushes need this side */
static void
check_served(struct role *r, uint64_t rounds)
{
	const char *same_host = getenv("SOFTRDMA_SAME_HOST");
	const bool by_tcp = same_host == NULL || strcmp(same_host, "0") == 0;
	struct rpma_peer_stats stats = { .size = sizeof(stats) };
	uint64_t sum = 0;

	CHECK_OK(rpma_peer_get_stats(r->peer, &stats));
	CHECK_EQ(stats.connections_now, 1);
	CHECK_EQ(stats.connections, 1);
	CHECK_EQ(stats.writes + stats.reads + stats.flushes, 0);
	if (!r->soft)
		return;
	CHECK_EQ(stats.served_flushes, rounds);
	CHECK_EQ(stats.refused_invalid + stats.refused_access + stats.refused_failed, 0);
	if (by_tcp) {
		CHECK_EQ(stats.served_writes, rounds);
		CHECK_EQ(stats.served_bytes_written, rounds * LEN);
		CHECK_EQ(stats.served_reads, rounds);
		CHECK_EQ(stats.served_bytes_read, rounds * LEN);
	}
	/* flushes to visibility take no time */
	for (int i = 0; i < RPMA_FLUSH_TIMES; i++)
		sum += stats.flush_times[i];
	CHECK_EQ(sum, 0);
}

static void
asleep_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN,
		RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
	desc_put(r, &m);
	ctl_expect(r, "done");
	mem_check(&m, 1000);
	check_served(r, 1000);
	mem_delete(&m);
	role_close(r);
}

static void
asleep_initiator(struct role *r)
{
	struct rpma_mr_remote *remote;
	struct mem src, back;

	role_connect(r, NULL);
	mem_new(r, &src, LEN, RPMA_MR_USAGE_WRITE_SRC);
	mem_new(r, &back, LEN, RPMA_MR_USAGE_READ_DST);
	remote = remote_take(r);
	for (uint64_t i = 1; i <= 1000; i++) {
		mem_fill(&src, i);
		CHECK_OK(rpma_write(r->conn, remote, GUARD, src.mr, GUARD, LEN, RPMA_F_COMPLETION_ON_ERROR,
			NULL));
		post_flush(r, remote, GUARD, LEN, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, 1);
		CHECK_OK(rpma_read(r->conn, back.mr, GUARD, remote, GUARD, LEN, ALWAYS, CTX(2)));
		expect_ok(r->cq, 1);
		expect_ok(r->cq, 2);
		mem_check(&back, i);
	}
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&remote));
	mem_delete(&src);
	mem_delete(&back);
	role_close(r);
}

/* ---- both delete their peers first: objects made from a peer work until they are deleted ---- */

static void
peer_deleted_first(struct role *r)
{
	struct rpma_conn_req *req = NULL;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_WRITE_SRC);
	CHECK_RET(rpma_peer_delete(&r->peer), RPMA_E_PROVIDER);
	CHECK(r->peer == NULL);
	if (r->is_target) {
		desc_put(r, &m);
		ctl_expect(r, "written");
		mem_check(&m, 11);
		CHECK_RET(rpma_ep_next_conn_req_timed(r->ep, NULL, 0, &req), RPMA_E_PROVIDER);
		CHECK(req == NULL);
	} else {
		struct rpma_mr_remote *dst = remote_take(r);

		mem_fill(&m, 11);
		CHECK_OK(rpma_write(r->conn, dst, GUARD, m.mr, GUARD, LEN, ALWAYS, CTX(1)));
		expect_ok(r->cq, 1);
		CHECK_OK(rpma_mr_remote_delete(&dst));
		ctl_put(r, "written");
	}
	mem_delete(&m);
	role_close(r);
}

static const struct scenario list[] = {
	{ "smoke-reconnect", reconnect, reconnect, LEN, 0, NULL },
	{ "everything-returns", everything_returns, everything_returns, LEN, 0, NULL },
	{ "descriptors", descriptor_target, descriptor_initiator, LEN, 0, NULL },
	{ "peer-deleted-first", peer_deleted_first, peer_deleted_first, LEN, 0, NULL },
	{ "target-asleep", asleep_target, asleep_initiator, LEN, 0, NULL },
};

const struct scenario_group group_misc = { list, sizeof(list) / sizeof(list[0]) };
