/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * honest.c -- the honest client, which must not notice any attack: it connects, writes, reads back,
 * disconnects, again and again
 *
 *	honest <port> <ms> [flush]
 *
 * With `flush` it does not read back, but makes what it has written durable.
 *
 * It prints how long these took (figures.h). On any failure, or if a byte read differs from the one written,
 * it ends with status 1.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librpma.h>

#include "deadline.h"
#include "figures.h"
#include "hostile.h"
#include "options.h"
#include "pattern.h"
#include "wait.h"

#define OPERATIONS 50 /* of one connection */
#define LENGTH 1024

#define FLUSHES 5 /* the same if it flushes */

static uint64_t seed;
static bool flushes;

static void
must(const char *what, int ret)
{
	if (ret == 0)
		return;
	fprintf(stderr, "honest client: %s: %s\n", what, rpma_err_2str(ret));
	exit(1);
}

static void
fail(const char *what)
{
	fprintf(stderr, "honest client: %s\n", what);
	exit(1);
}

/* writes bytes[0 to LENGTH) to the server, and reads them back into the bytes after those */
static void
operate(struct rpma_conn *conn, struct rpma_mr_local *mr, struct rpma_mr_remote *remote, uint8_t *bytes,
	size_t at)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;
	const int64_t begin = now_us();

	pattern_fill(bytes, LENGTH, ++seed, at);
	memset(bytes + LENGTH, 0, LENGTH);
	must("write", rpma_write(conn, remote, at, mr, 0, LENGTH, RPMA_F_COMPLETION_ON_ERROR, NULL));
	if (flushes)
		must("flush",
			rpma_flush(conn, remote, at, LENGTH, RPMA_FLUSH_TYPE_PERSISTENT,
				RPMA_F_COMPLETION_ALWAYS, NULL));
	else
		must("read", rpma_read(conn, mr, LENGTH, remote, at, LENGTH, RPMA_F_COMPLETION_ALWAYS, NULL));
	must("queue", rpma_conn_get_cq(conn, &cq));
	must("completion", wait_wc(cq, &wc, WAIT_MS));
	if (wc.status != IBV_WC_SUCCESS)
		fail("an operation has failed");
	if (!flushes && pattern_check(bytes + LENGTH, LENGTH, seed, at) >= 0)
		fail("what was written is not there");
	figures_operation(now_us() - begin);
}

static void
visit(struct rpma_peer *peer, const char *port, struct rpma_mr_local *mr, uint8_t *bytes)
{
	const struct rpma_conn_private_data to_flush = { (char *)(uintptr_t)REQUEST_TO_FLUSH,
		sizeof(REQUEST_TO_FLUSH) - 1 };
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct rpma_conn_private_data pdata;
	struct rpma_mr_remote *remote;
	struct rpma_conn_req *req;
	struct rpma_conn *conn;
	const int64_t begin = now_us();

	must("request", rpma_conn_req_new(peer, "127.0.0.1", port, NULL, &req));
	must("connect", rpma_conn_req_connect(&req, flushes ? &to_flush : NULL, &conn));
	must("wait for the connection", wait_event(conn, &event, WAIT_MS));
	if (event != RPMA_CONN_ESTABLISHED)
		fail(rpma_utils_conn_event_2str(event));
	figures_connect(now_us() - begin);
	must("private data", rpma_conn_get_private_data(conn, &pdata));
	must("descriptor", rpma_mr_remote_from_descriptor(pdata.ptr, pdata.len, &remote));
	for (size_t i = 0; i < (flushes ? FLUSHES : OPERATIONS); i++)
		operate(conn, mr, remote, bytes, i * 64 % (SLOT_SIZE - LENGTH));
	must("delete the description", rpma_mr_remote_delete(&remote));
	must("disconnect", rpma_conn_disconnect(conn));
	must("wait for the end", wait_event(conn, &event, WAIT_MS));
	if (event != RPMA_CONN_CLOSED)
		fail(rpma_utils_conn_event_2str(event));
	must("delete the connection", rpma_conn_delete(&conn));
}

int
main(int argc, char *argv[])
{
	struct ibv_context *ctx;
	struct rpma_peer *peer;
	struct rpma_mr_local *mr;
	unsigned long ms;

	flushes = argc == 4 && strcmp(argv[3], "flush") == 0;
	if (argc != (flushes ? 4 : 3) || !option_number(argv[2], 1, 86400000, &ms)) {
		fprintf(stderr, "usage: honest <port> <ms> [flush]\n");
		return 2;
	}
	const int64_t end = now_ms() + (int64_t)ms;
	uint8_t *bytes = aligned_alloc(4096, 4096);
	if (bytes == NULL)
		fail("no memory");
	must("device", rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_REMOTE, &ctx));
	must("peer", rpma_peer_new(ctx, &peer));
	must("register",
		rpma_mr_reg(peer, bytes, 4096, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST, &mr));
	do
		visit(peer, argv[1], mr, bytes);
	while (now_ms() < end);
	must("deregister", rpma_mr_dereg(&mr));
	must("delete the peer", rpma_peer_delete(&peer));
	free(bytes);
	figures_print();
	return 0;
}
