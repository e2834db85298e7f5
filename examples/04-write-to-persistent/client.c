/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * client.c -- write a text into the server's memory, and read a little of it back
 *
 * The read cannot overtake the write before it, so when it has completed, the text is in the server's memory.
 * If a file is given, the text is kept in persistent memory. It is another text at the next start.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "exchange.h"
#include "greeting.h"
#include "numbers.h"

#define READ_BACK 8 /* in bytes; no text is shorter */

/* marks the only operation whose completion the client waits for */
#define READ_ID ((const void *)(uintptr_t)0x4ead)

static int
write_greeting(struct rpma_conn *conn, const struct rpma_mr_local *src, struct greeting_memory *mem,
	struct rpma_mr_local *scratch)
{
	struct exchange server;

	int ret = checked("reading what the server says about its memory", exchange_unpack(conn, &server));
	if (ret)
		return ret;

	/* the server may have less room than the text needs */
	size_t room = server.size - server.data_offset;
	size_t len = room < GREETING_SIZE ? room : GREETING_SIZE;
	if (len <= strlen(greeting_text(mem))) {
		fprintf(stderr, "the server's memory is too small: %zu bytes\n", room);
		ret = RPMA_E_INVAL;
	}

	/* asks for no completion: that of the read after it covers both */
	if (ret == 0)
		ret = checked("rpma_write",
			rpma_write(conn, server.mr, server.data_offset, src, 0, len,
				RPMA_F_COMPLETION_ON_ERROR, NULL));
	if (ret == 0)
		ret = checked("rpma_read",
			rpma_read(conn, scratch, 0, server.mr, server.data_offset, READ_BACK,
				RPMA_F_COMPLETION_ALWAYS, READ_ID));
	if (ret == 0)
		ret = conn_wait_completion(conn, READ_ID);
	exchange_release(&server);

	return ret;
}

int
main(int argc, char *argv[])
{
	struct greeting_memory mem;
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *src = NULL;
	struct rpma_mr_local *scratch = NULL;
	struct rpma_conn *conn = NULL;
	uint64_t offset = 0;

	if (argc < 3 || argc > 5 || (argc == 5 && !parse_number(argv[4], SIZE_MAX, &offset))) {
		fprintf(stderr, "usage: %s <server_address> <port> [<pmem-path> [<pmem-offset>]]\n", argv[0]);
		return 2;
	}

	void *scratch_memory = memory_new(READ_BACK);
	if (scratch_memory == NULL)
		return 1;
	if (greeting_open(argc > 3 ? argv[3] : NULL, (size_t)offset, GREETING_FIRST, &mem)) {
		free(scratch_memory);
		return 1;
	}
	greeting_print("Next value", &mem);

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, greeting_text(&mem), GREETING_SIZE, RPMA_MR_USAGE_WRITE_SRC, &src));
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, scratch_memory, READ_BACK, RPMA_MR_USAGE_READ_DST, &scratch));
	if (ret == 0)
		ret = client_connect(peer, argv[1], argv[2], NULL, NULL, &conn);
	if (ret == 0) {
		ret = write_greeting(conn, src, &mem, scratch);
		ret = first_error(ret, conn_disconnect(&conn));
	}
	/* the server has it: the next text will be another one */
	if (ret == 0)
		greeting_translate(&mem);

	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&scratch)));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&src)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	greeting_close(&mem);
	free(scratch_memory);

	return ret ? 1 : 0;
}
