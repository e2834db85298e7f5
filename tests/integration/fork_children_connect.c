/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fork_children_connect.c -- a process listens, forks four children, and each of them connects to it
 *
 * The epoll of the software device was shared with the children. So the progress thread of the parent got the
 * children's pointers from it, and jumped to address 0.
 *
 *	fork_children_connect [--rounds N]
 */

#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "count.h"
#include "deadline.h"
#include "options.h"
#include "pair.h"
#include "pattern.h"
#include "wait.h"

#define ADDR "127.0.0.1"
#define CHILDREN 4
#define SLOT 8192
#define ROUNDS 3
#define ROUNDS_MAX 100000
#define ROUND_S 60

#define USAGE (RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)

static void
must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "process %d: failed: %s (%s)\n", (int)getpid(), what, rpma_errormsg());
	exit(1);
}

static struct rpma_peer *
new_peer(enum rpma_util_ibv_context_type type)
{
	struct ibv_context *ctx;
	struct rpma_peer *peer;
	must(rpma_utils_get_ibv_context(ADDR, type, &ctx) == 0, "rpma_utils_get_ibv_context");
	must(rpma_peer_new(ctx, &peer) == 0, "rpma_peer_new");
	return peer;
}

static void
await_event(struct rpma_conn *conn, enum rpma_conn_event wanted)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	must(wait_event(conn, &event, WAIT_MS) == 0, "an event of the connection");
	must(event == wanted, rpma_utils_conn_event_2str(event));
}

static void
await_completion(struct rpma_conn *conn, enum ibv_wc_opcode opcode)
{
	struct rpma_cq *cq;
	struct ibv_wc wc = { 0 };
	must(rpma_conn_get_cq(conn, &cq) == 0, "rpma_conn_get_cq");
	must(wait_wc(cq, &wc, WAIT_MS) == 0, "a completion");
	must(wc.status == IBV_WC_SUCCESS && wc.opcode == opcode, "its status and opcode");
}

/* --- the children --- */

static uint64_t
seed_of(unsigned long round, int child)
{
	return round * CHILDREN + (uint64_t)child + 1;
}

/* the bytes must be durable before they are read back, and must be those that were written */
static void
write_and_read_back(struct rpma_conn *conn, struct rpma_peer *peer, struct rpma_mr_remote *remote, int child,
	uint64_t seed)
{
	static const int opcode_of_flush = 8; /* IBV_WC_FLUSH, which older headers do not name */
	static uint8_t out[SLOT], in[SLOT];
	struct rpma_mr_local *src, *dst;
	const size_t offset = (size_t)child * SLOT;

	must(rpma_mr_reg(peer, out, SLOT, RPMA_MR_USAGE_WRITE_SRC, &src) == 0, "rpma_mr_reg of the source");
	must(rpma_mr_reg(peer, in, SLOT, RPMA_MR_USAGE_READ_DST, &dst) == 0, "rpma_mr_reg of the target");
	pattern_fill(out, SLOT, seed, 0);
	must(rpma_write(conn, remote, offset, src, 0, SLOT, RPMA_F_COMPLETION_ON_ERROR, NULL) == 0,
		"rpma_write");
	must(rpma_flush(conn, remote, offset, SLOT, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS,
		     NULL) == 0,
		"rpma_flush");
	await_completion(conn, (enum ibv_wc_opcode)opcode_of_flush);
	must(rpma_read(conn, dst, 0, remote, offset, SLOT, RPMA_F_COMPLETION_ALWAYS, NULL) == 0, "rpma_read");
	await_completion(conn, IBV_WC_RDMA_READ);
	must(pattern_check(in, SLOT, seed, 0) < 0, "the bytes that are read back");
	must(rpma_mr_dereg(&src) == 0 && rpma_mr_dereg(&dst) == 0, "rpma_mr_dereg");
}

static _Noreturn void
be_a_child(const char *port, int child, uint64_t seed)
{
	struct rpma_conn_req *req;
	struct rpma_conn *conn;
	struct rpma_conn_private_data pdata;
	struct rpma_mr_remote *remote;
	struct rpma_peer *peer = new_peer(RPMA_UTIL_IBV_CONTEXT_REMOTE);

	must(rpma_conn_req_new(peer, ADDR, port, NULL, &req) == 0, "rpma_conn_req_new");
	must(rpma_conn_req_connect(&req, NULL, &conn) == 0, "rpma_conn_req_connect");
	await_event(conn, RPMA_CONN_ESTABLISHED);
	must(rpma_conn_get_private_data(conn, &pdata) == 0, "rpma_conn_get_private_data");
	must(rpma_mr_remote_from_descriptor(pdata.ptr, pdata.len, &remote) == 0, "the descriptor");
	write_and_read_back(conn, peer, remote, child, seed);
	must(rpma_conn_disconnect(conn) == 0, "rpma_conn_disconnect");
	await_event(conn, RPMA_CONN_CLOSED);
	must(rpma_mr_remote_delete(&remote) == 0, "rpma_mr_remote_delete");
	must(rpma_conn_delete(&conn) == 0, "rpma_conn_delete");
	must(rpma_peer_delete(&peer) == 0, "rpma_peer_delete");
	exit(0); /* exit() also runs leak checkers */
}

/* --- the parent --- */

static void
serve(struct rpma_ep *ep, struct rpma_mr_local *mr)
{
	struct rpma_conn *conns[CHILDREN];
	uint8_t desc[UINT8_MAX];
	size_t size;
	must(rpma_mr_get_descriptor_size(mr, &size) == 0 && size <= sizeof(desc), "the descriptor's size");
	must(rpma_mr_get_descriptor(mr, desc) == 0, "rpma_mr_get_descriptor");
	for (int i = 0; i < CHILDREN; i++) {
		struct rpma_conn_private_data pdata = { .ptr = desc, .len = (uint8_t)size };
		struct rpma_conn_req *req;
		must(wait_conn_req(ep, NULL, &req, WAIT_MS) == 0, "a request of a child");
		must(rpma_conn_req_connect(&req, &pdata, &conns[i]) == 0, "its acceptance");
	}
	for (int i = 0; i < CHILDREN; i++) {
		await_event(conns[i], RPMA_CONN_ESTABLISHED);
		await_event(conns[i], RPMA_CONN_CLOSED);
		must(rpma_conn_delete(&conns[i]) == 0, "rpma_conn_delete of the parent");
	}
}

static void
run_round(unsigned long round)
{
	static uint8_t mem[CHILDREN * SLOT];
	struct rpma_mr_local *mr;
	struct rpma_ep *ep;
	char port[NET_PORT_LEN];
	pid_t children[CHILDREN];
	struct rpma_peer *peer = new_peer(RPMA_UTIL_IBV_CONTEXT_LOCAL);

	memset(mem, 0, sizeof(mem));
	must(rpma_mr_reg(peer, mem, sizeof(mem), USAGE, &mr) == 0, "rpma_mr_reg");
	must(pair_listen(peer, ADDR, port, &ep) == 0, "rpma_ep_listen");
	/* the children begin together */
	int start[2];
	must(pipe(start) == 0, "pipe");
	await_sleep_of_other_threads();
	for (int i = 0; i < CHILDREN; i++) {
		children[i] = fork();
		must(children[i] >= 0, "fork");
		if (children[i] == 0) {
			char byte;
			deadline_start("a child", ROUND_S); /* alarms are not inherited */
			close(start[1]);
			must(read(start[0], &byte, 1) == 0, "the start");
			close(start[0]);
			be_a_child(port, i, seed_of(round, i));
		}
	}
	close(start[0]);
	close(start[1]);
	serve(ep, mr);
	for (int i = 0; i < CHILDREN; i++) {
		int status;
		must(waitpid(children[i], &status, 0) == children[i], "waitpid");
		must(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the end of a child");
		must(pattern_check(mem + i * SLOT, SLOT, seed_of(round, i), 0) < 0,
			"the bytes that a child has written");
	}
	must(rpma_ep_shutdown(&ep) == 0, "rpma_ep_shutdown");
	must(rpma_mr_dereg(&mr) == 0, "rpma_mr_dereg");
	must(rpma_peer_delete(&peer) == 0, "rpma_peer_delete");
}

int
main(int argc, char **argv)
{
	unsigned long rounds = ROUNDS;
	bool usable = argc == 1 ||
		(argc == 3 && strcmp(argv[1], "--rounds") == 0 &&
			option_number(argv[2], 1, ROUNDS_MAX, &rounds));
	if (!usable) {
		fprintf(stderr, "usage: fork_children_connect [--rounds N]\n");
		return 2;
	}
	for (unsigned long round = 0; round < rounds; round++) {
		deadline_start("a round of children", ROUND_S);
		run_round(round);
	}
	printf("%lu rounds of %d children\n", rounds, CHILDREN);
	return 0;
}
