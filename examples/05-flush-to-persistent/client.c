/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * client.c -- write a text into the server's memory and flush it there
 *
 * If a file is given, the text is kept in persistent memory. It is another text at the next start.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "connection.h"
#include "exchange.h"
#include "flush.h"
#include "greeting.h"
#include "numbers.h"

/* marks the only operation whose completion the client waits for */
#define FLUSH_ID ((const void *)(uintptr_t)0xF01D)

static int
usage(const char *name)
{
	fprintf(stderr, "usage: %s <server_address> <port> [<pmem-path> [<pmem-offset>]]\n", name);
	return 2;
}

/* server describes its memory, which may have less room than the text needs */
static int
write_and_flush(struct rpma_conn *conn, struct exchange *server, const struct rpma_mr_local *src,
	struct greeting_memory *mem)
{
	size_t room = server->size - server->data_offset;
	enum rpma_flush_type type;
	size_t len = room < GREETING_SIZE ? room : GREETING_SIZE;

	if (len <= strlen(greeting_text(mem))) {
		fprintf(stderr, "the server's memory is too small: %zu bytes\n", room);
		return -1;
	}

	/* asks for no completion: that of the flush after it covers both */
	int ret = rpma_write(conn, server->mr, server->data_offset, src, mem->text_offset, len,
		RPMA_F_COMPLETION_ON_ERROR, NULL);
	if (ret) {
		report("rpma_write", ret);
		return ret;
	}
	ret = flush_best(conn, server->mr, server->data_offset, len, FLUSH_ID, &type);
	if (ret == 0)
		printf("RPMA_FLUSH_TYPE_PERSISTENT is %ssupported\n",
			type == RPMA_FLUSH_TYPE_PERSISTENT ? "" : "NOT ");

	return ret ? ret : conn_wait_completion(conn, FLUSH_ID);
}

static int
send_greeting(struct rpma_conn *conn, const struct rpma_mr_local *src, struct greeting_memory *mem)
{
	struct exchange server;

	int ret = exchange_unpack(conn, &server);
	if (ret) {
		report("reading what the server says about its memory", ret);
		return ret;
	}
	/*
	 * On some hardware, a flush can do more if the server's device writes directly to persistent memory
	 */
	if (server.pcfg)
		ret = rpma_conn_apply_remote_peer_cfg(conn, server.pcfg);
	if (ret == 0)
		ret = write_and_flush(conn, &server, src, mem);
	exchange_release(&server);

	return ret;
}

static int
greet(const char *addr, const char *port, struct rpma_peer *peer, struct greeting_memory *mem)
{
	struct rpma_mr_local *src = NULL;
	struct rpma_conn *conn = NULL;

	int ret = rpma_mr_reg(peer, mem->ptr, mem->size, RPMA_MR_USAGE_WRITE_SRC, &src);
	if (ret) {
		report("rpma_mr_reg", ret);
		return ret;
	}
	ret = client_connect(peer, addr, port, NULL, NULL, &conn);
	if (ret == 0) {
		ret = send_greeting(conn, src, mem);
		int ret_close = conn_disconnect(&conn);
		ret = ret ? ret : ret_close;
	}
	if (rpma_mr_dereg(&src))
		ret = -1;

	return ret;
}

int
main(int argc, char *argv[])
{
	struct greeting_memory mem;
	struct rpma_peer *peer = NULL;
	uint64_t offset = 0;

	if (argc < 3 || argc > 5 || (argc == 5 && !parse_number(argv[4], SIZE_MAX, &offset)))
		return usage(argv[0]);

	if (greeting_open(argc > 3 ? argv[3] : NULL, (size_t)offset, GREETING_FIRST, &mem))
		return 1;
	greeting_print("Next value", &mem);

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer, NULL);
	if (ret == 0)
		ret = greet(argv[1], argv[2], peer, &mem);
	/* the server has it: the next greeting will be another one */
	if (ret == 0)
		greeting_translate(&mem);

	if (rpma_peer_delete(&peer))
		ret = -1;
	greeting_close(&mem);

	return ret ? 1 : 0;
}
