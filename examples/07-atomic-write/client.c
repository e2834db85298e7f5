/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * client.c -- append words to a log in the server's memory
 *
 * For each word it writes the word after the used part, flushes it, writes the new value of used atomically,
 * and flushes that. The atomic write does not start before the flush before it is done, so all four are
 * posted at once.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "counter.h"
#include "exchange.h"
#include "flush.h"
#include "words.h"

#define READ_ID ((const void *)(uintptr_t)0x4ead)
#define DATA_ID ((const void *)(uintptr_t)0xda7a)
#define USED_ID ((const void *)(uintptr_t)0x05ed)

/* offsets in the local memory: the words to send come first, then the value of used */
#define LOCAL_USED WORDS_DATA_SIZE
#define LOCAL_SIZE (WORDS_DATA_SIZE + WORDS_USED_SIZE)

struct appender {
	struct rpma_conn *conn;
	struct exchange server;
	uint8_t *local;
	struct rpma_mr_local *mr;
	uint64_t used;
	enum rpma_flush_type type; /* the type of the last flush */
};

/*
 * Reads how much of the log is in use. The value may not be durable: its flush may have failed, or the
 * connection of an earlier client may have broken before it. It needs no flush here. The words that it covers
 * were flushed before it was written, and each append writes and flushes a new value.
 */
static int
read_used(struct appender *a)
{
	int ret = checked("rpma_read",
		rpma_read(a->conn, a->mr, LOCAL_USED, a->server.mr, a->server.data_offset, WORDS_USED_SIZE,
			RPMA_F_COMPLETION_ALWAYS, READ_ID));
	if (ret == 0)
		ret = conn_wait_completion(a->conn, READ_ID);
	if (ret)
		return ret;

	a->used = counter_get(a->local + LOCAL_USED);
	if (a->used > WORDS_DATA_SIZE) {
		fprintf(stderr, "the server has no valid log: %" PRIu64 " bytes of it are used\n", a->used);
		return RPMA_E_INVAL;
	}

	return 0;
}

static int
append(struct appender *a, const char *word)
{
	size_t used_at = a->server.data_offset;
	size_t data_at = used_at + WORDS_USED_SIZE + a->used;
	size_t len = strlen(word) + 1;
	uint8_t used[WORDS_USED_SIZE];

	/* the caller has checked that it fits */
	memcpy(a->local, word, len);
	int ret = checked("rpma_write",
		rpma_write(a->conn, a->server.mr, data_at, a->mr, 0, len, RPMA_F_COMPLETION_ON_ERROR, NULL));
	if (ret == 0)
		ret = flush_best(a->conn, a->server.mr, data_at, len, DATA_ID, &a->type);
	counter_put(used, a->used + len);
	if (ret == 0)
		ret = checked("rpma_atomic_write",
			rpma_atomic_write(a->conn, a->server.mr, used_at, (const char *)used,
				RPMA_F_COMPLETION_ON_ERROR, NULL));
	if (ret == 0)
		ret = flush_best(a->conn, a->server.mr, used_at, WORDS_USED_SIZE, USED_ID, &a->type);

	/* completions come in the order of the operations */
	if (ret == 0)
		ret = conn_wait_completion(a->conn, DATA_ID);
	if (ret == 0)
		ret = conn_wait_completion(a->conn, USED_ID);
	if (ret == 0)
		a->used += len;

	return ret;
}

static int
append_all(struct appender *a, char *words[])
{
	int ret = checked("reading what the server says about its memory",
		exchange_unpack(a->conn, &a->server));
	if (ret)
		return ret;

	if (a->server.size - a->server.data_offset < WORDS_USED_SIZE + WORDS_DATA_SIZE) {
		fprintf(stderr, "the server's memory is too small for a log\n");
		ret = RPMA_E_INVAL;
	}
	if (ret == 0)
		ret = read_used(a);
	for (; ret == 0 && *words; words++) {
		printf("used value: %" PRIu64 "\n", a->used);
		if (strlen(*words) >= WORDS_DATA_SIZE - a->used) {
			printf("Log size exhausted.\n");
			break;
		}
		ret = append(a, *words);
	}
	if (ret == 0 && a->type == RPMA_FLUSH_TYPE_VISIBILITY)
		fprintf(stderr, "the server's memory cannot be flushed to persistence\n");
	exchange_release(&a->server);

	return ret;
}

int
main(int argc, char *argv[])
{
	struct appender a = { .type = RPMA_FLUSH_TYPE_PERSISTENT };
	struct rpma_peer *peer = NULL;

	if (argc < 4) {
		fprintf(stderr, "usage: %s <server_address> <port> <word1> [<word2>] [..]\n", argv[0]);
		return 2;
	}

	a.local = memory_new(LOCAL_SIZE);
	if (a.local == NULL)
		return 1;
	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, a.local, LOCAL_SIZE,
				RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST, &a.mr));
	if (ret == 0)
		ret = client_connect(peer, argv[1], argv[2], NULL, NULL, &a.conn);
	if (ret == 0) {
		ret = append_all(&a, argv + 3);
		ret = first_error(ret, conn_disconnect(&a.conn));
	}

	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&a.mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	free(a.local);

	return ret ? 1 : 0;
}
