/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * churn.c -- connections come and go, and everything that they used is released
 *
 *	churn ADDR CYCLES REJECTED [DEVICE]
 *
 * In each cycle a client connects, registers, writes, flushes and disconnects. A rejected client connects,
 * and the target drops its request. Each role is a process. The target's memory is that of the device DAX (or
 * a file of 2 MiB), or anonymous. Resources are compared after some first cycles and at the end: those of the
 * RDMA device as the kernel counts them; and descriptors, threads, memory in use and resident memory of both
 * processes.
 */

#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "count.h"
#include "deadline.h"
#include "guest.h"
#include "pair.h"
#include "pattern.h"
#include "wait.h"

#define SIZE ((size_t)65536)
/* a device DAX is mapped in units of this */
#define MAPPED ((size_t)2 << 20)
/* one cycle in ten, within these limits, so that all caches and pools of the libraries below are filled */
#define FIRST_CYCLES_MIN 20
#define FIRST_CYCLES_MAX 500
/* the software device may start these when flushes come at the same time */
#define FLUSH_THREADS 4
/* bytes allocated once, at first use; a leak of one byte per cycle exceeds this if there are many cycles */
#define HEAP_GROWTH_MAX 4096
/* pages that the allocator keeps; a leak of one page per cycle exceeds this */
#define RSS_GROWTH_MAX (512 << 10)
#define RES_LEN 512
#define RES_TRIES 50

/* the resources of one process */
struct held {
	int fds;
	int threads;
	size_t heap;
	size_t rss;
};

enum order { CONNECT, REJECT, LOOK, END };

/* ---- resources ---- */

static size_t
resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	size_t total = 0, pages = 0;

	need("statm", f && fscanf(f, "%zu %zu", &total, &pages) == 2);
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static struct held
look(void)
{
	return (struct held){
		.fds = count_fds(),
		.threads = count_threads(),
		.heap = mallinfo2().uordblks,
		.rss = resident(),
	};
}

static bool
is_soft(void)
{
	const char *device = getenv("RPMA_DEVICE");

	return device && !strcmp(device, "soft");
}

static bool
is_same(const char *whose, const struct held *before, const struct held *after)
{
	printf("%s: descriptors %d -> %d, threads %d -> %d, heap %zu -> %zu, resident %zu -> %zu\n", whose,
		before->fds, after->fds, before->threads, after->threads, before->heap, after->heap,
		before->rss, after->rss);
	return after->fds == before->fds && after->threads >= before->threads &&
		after->threads <= before->threads + (is_soft() ? FLUSH_THREADS : 0) &&
		after->heap <= before->heap + HEAP_GROWTH_MAX && after->rss <= before->rss + RSS_GROWTH_MAX;
}

/*
 * The resources of all devices, as one text. It includes those of the kernel itself, which do not change. The
 * software device uses nothing in the kernel but descriptors.
 */
static void
rdma_resources(char text[RES_LEN])
{
	FILE *f;
	size_t n;

	if (is_soft()) {
		snprintf(text, RES_LEN, "none\n");
		return;
	}
	f = popen("rdma res show", "r");
	need("rdma res show", f);
	n = fread(text, 1, RES_LEN - 1, f);
	text[n] = '\0';
	need("rdma res show", pclose(f) == 0 && n > 0);
}

/* ---- target ---- */

struct target {
	struct rpma_peer *peer;
	struct rpma_ep *ep;
	uint8_t *mem;
	int orders;
};

static struct rpma_conn_req *
next_request(struct target *t)
{
	struct rpma_conn_req *req = NULL;

	must("request", wait_conn_req(t->ep, NULL, &req, WAIT_MS));
	return req;
}

static void
serve_cycle(struct target *t, uint64_t seed)
{
	struct rpma_mr_local *mr = NULL;
	struct rpma_conn *conn;

	memset(t->mem, 0, SIZE);
	must("target's registration",
		rpma_mr_reg(t->peer, t->mem, SIZE,
			RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC |
				RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT,
			&mr));
	conn = accept_with(next_request(t), mr);
	expect_event(conn, RPMA_CONN_CLOSED);
	need("what was written", pattern_check(t->mem, SIZE, seed, 0) < 0);
	must("target's disconnecting", rpma_conn_disconnect(conn));
	must("target's connection", rpma_conn_delete(&conn));
	must("target's region", rpma_mr_dereg(&mr));
}

static void
reject_one(struct target *t)
{
	struct rpma_conn_req *req = next_request(t);

	must("rejecting", rpma_conn_req_delete(&req));
}

static void
tell(int fd, const void *bytes, size_t len)
{
	need("the other process", send(fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len);
}

static void
hear(int fd, void *bytes, size_t len)
{
	need("the other process", recv(fd, bytes, len, MSG_WAITALL) == (ssize_t)len);
}

static void
obey(struct target *t)
{
	uint64_t cycle = 0;
	enum order order;

	for (;;) {
		struct held held;
		hear(t->orders, &order, sizeof(order));
		switch (order) {
		case CONNECT:
			serve_cycle(t, ++cycle);
			break;
		case REJECT:
			reject_one(t);
			break;
		case LOOK:
			held = look();
			tell(t->orders, &held, sizeof(held));
			break;
		case END:
			return;
		}
		/* everything of this order is released */
		tell(t->orders, &order, sizeof(order));
	}
}

static _Noreturn void
target_main(const char *addr, const char *device, int orders)
{
	struct target t = { .orders = orders };
	char port[NET_PORT_LEN] = "";

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	t.mem = map_shared(device, MAPPED);
	t.peer = peer_at(addr, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	must("listening", pair_listen(t.peer, addr, port, &t.ep));
	tell(orders, port, sizeof(port));
	obey(&t);
	must("target's endpoint", rpma_ep_shutdown(&t.ep));
	must("target's peer", rpma_peer_delete(&t.peer));
	munmap(t.mem, MAPPED);
	exit(EXIT_SUCCESS);
}

/* ---- initiator ---- */

struct initiator {
	const char *addr;
	char port[NET_PORT_LEN];
	struct rpma_peer *peer;
	uint8_t *mem;
	int orders;
	uint64_t cycle;
};

static void
order(struct initiator *in, enum order o)
{
	tell(in->orders, &o, sizeof(o));
}

static void
await_done(struct initiator *in)
{
	enum order o;

	hear(in->orders, &o, sizeof(o));
}

/* the target declares that writes reach its memory directly, which devices without a native flush need */
static void
declare_direct_write(struct rpma_conn *conn)
{
	struct rpma_peer_cfg *pcfg = NULL;

	must("peer configuration", rpma_peer_cfg_new(&pcfg));
	must("direct write", rpma_peer_cfg_set_direct_write_to_pmem(pcfg, true));
	must("applying it", rpma_conn_apply_remote_peer_cfg(conn, pcfg));
	must("peer configuration", rpma_peer_cfg_delete(&pcfg));
}

static void
expect_flushed(struct rpma_conn *conn)
{
	struct rpma_cq *cq = NULL;
	struct ibv_wc wc = { 0 };

	must("queue", rpma_conn_get_cq(conn, &cq));
	must("completion", wait_wc(cq, &wc, WAIT_MS));
	need("a flush that succeeds", wc.status == IBV_WC_SUCCESS);
}

static void
run_cycle(struct initiator *in)
{
	struct rpma_mr_remote *dst = NULL;
	struct rpma_mr_local *src = NULL;
	struct rpma_conn *conn;

	order(in, CONNECT);
	conn = connect_to(in->peer, in->addr, in->port, NULL, &dst);
	declare_direct_write(conn);
	pattern_fill(in->mem, SIZE, ++in->cycle, 0);
	must("registration", rpma_mr_reg(in->peer, in->mem, SIZE, RPMA_MR_USAGE_WRITE_SRC, &src));
	must("write", rpma_write(conn, dst, 0, src, 0, SIZE, RPMA_F_COMPLETION_ON_ERROR, NULL));
	must("flush",
		rpma_flush(conn, dst, 0, SIZE, RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS, NULL));
	expect_flushed(conn);
	must("disconnecting", rpma_conn_disconnect(conn));
	expect_event(conn, RPMA_CONN_CLOSED);
	must("region", rpma_mr_dereg(&src));
	must("remote region", rpma_mr_remote_delete(&dst));
	must("connection", rpma_conn_delete(&conn));
	await_done(in);
}

static void
run_rejected(struct initiator *in)
{
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;

	order(in, REJECT);
	must("request", rpma_conn_req_new(in->peer, in->addr, in->port, NULL, &req));
	must("connecting", rpma_conn_req_connect(&req, NULL, &conn));
	expect_event(conn, RPMA_CONN_REJECTED);
	must("connection", rpma_conn_delete(&conn));
	await_done(in);
}

static void
run_many(struct initiator *in, unsigned long cycles, unsigned long rejected)
{
	for (unsigned long i = 0; i < cycles; i++)
		run_cycle(in);
	for (unsigned long i = 0; i < rejected; i++)
		run_rejected(in);
}

struct view {
	char res[RES_LEN];
	struct held here;
	struct held there;
};

static void
look_at_all(struct initiator *in, struct view *v)
{
	order(in, LOOK);
	hear(in->orders, &v->there, sizeof(v->there));
	await_done(in);
	v->here = look();
	rdma_resources(v->res);
}

static bool
all_is_back(struct initiator *in, const struct view *before)
{
	struct view after;

	look_at_all(in, &after);
	/* the kernel releases some of it in the background */
	for (int i = 0; i < RES_TRIES && strcmp(before->res, after.res); i++)
		rdma_resources(after.res);
	printf("before: %safter:  %s", before->res, after.res);
	bool there = is_same("target", &before->there, &after.there);
	bool here = is_same("initiator", &before->here, &after.here);
	return !strcmp(before->res, after.res) && here && there;
}

static int
initiator_main(const char *addr, int orders, unsigned long cycles, unsigned long rejected)
{
	struct initiator in = { .addr = addr, .orders = orders };
	struct view before;
	bool is_back;
	unsigned long first = cycles / 10;

	if (first < FIRST_CYCLES_MIN)
		first = FIRST_CYCLES_MIN;
	if (first > FIRST_CYCLES_MAX)
		first = FIRST_CYCLES_MAX;
	hear(orders, in.port, sizeof(in.port));
	in.peer = peer_at(addr, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	in.mem = map_shared(NULL, SIZE);
	run_many(&in, first, first);
	look_at_all(&in, &before);
	run_many(&in, cycles, rejected);
	is_back = all_is_back(&in, &before);
	printf("%lu cycles, %lu rejected clients: %s\n", cycles, rejected,
		is_back ? "all is given back" : "NOT all is given back");
	order(&in, END);
	must("peer", rpma_peer_delete(&in.peer));
	munmap(in.mem, SIZE);
	return is_back ? 0 : 1;
}

int
main(int argc, char **argv)
{
	int status, ends[2];
	pid_t pid;

	if (argc != 4 && argc != 5) {
		fputs("usage: churn ADDR CYCLES REJECTED [DEVICE]\n", stderr);
		return 2;
	}
	need("socketpair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	fflush(NULL);
	pid = fork();
	need("fork", pid >= 0);
	if (pid == 0) {
		close(ends[0]);
		target_main(argv[1], argc == 5 ? argv[4] : NULL, ends[1]);
	}
	close(ends[1]);
	int ret = initiator_main(argv[1], ends[0], number_of(argv[2]), number_of(argv[3]));
	need("waiting", waitpid(pid, &status, 0) == pid);
	need("the target ends well", WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return ret;
}
