/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * client.c -- write many small rows into the server's table, and read them back
 *
 * The client keeps keys and values in separate columns; the server keeps each key before its value. So a
 * write gathers a row from two places, and a read scatters it to two places. A batch of operations has one
 * doorbell and one completion, and several batches are in flight at any time.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "counter.h"
#include "exchange.h"
#include "numbers.h"
#include "table.h"

#define PIECES 2 /* segments of a row: its key and its value */
#define BATCH 16 /* rows per doorbell and per completion */
#define BATCHES_IN_FLIGHT 4

/* most operations in flight: the send queue must have room for them */
#define QUEUE_SIZE (BATCH * BATCHES_IN_FLIGHT)

/* two columns in one memory region */
#define COLUMNS_SIZE (TABLE_SLOTS * (KEY_SIZE + VALUE_SIZE))
#define KEY_AT(row) ((row)*KEY_SIZE)
#define VALUE_AT(row) (TABLE_SLOTS * KEY_SIZE + (row)*VALUE_SIZE)

struct client {
	struct rpma_conn *conn;
	struct exchange server;
	struct rpma_mr_local *mr; /* the columns to write, followed by the columns to read into */
	size_t rows;
};

/* posts the transfer of one row; rows are counted from 0 */
typedef int post_row(struct client *c, size_t row, int flags, const void *op_context);

static size_t
row_at(const struct client *c, size_t row)
{
	return c->server.data_offset + table_slot(row + 1) * ROW_SIZE;
}

static int
write_row(struct client *c, size_t row, int flags, const void *op_context)
{
	const struct rpma_sge pieces[PIECES] = {
		{ c->mr, KEY_AT(row), KEY_SIZE },
		{ c->mr, VALUE_AT(row), VALUE_SIZE },
	};

	return checked("rpma_writev",
		rpma_writev(c->conn, c->server.mr, row_at(c, row), pieces, PIECES, flags, op_context));
}

static int
read_row(struct client *c, size_t row, int flags, const void *op_context)
{
	const struct rpma_sge pieces[PIECES] = {
		{ c->mr, COLUMNS_SIZE + KEY_AT(row), KEY_SIZE },
		{ c->mr, COLUMNS_SIZE + VALUE_AT(row), VALUE_SIZE },
	};

	return checked("rpma_readv",
		rpma_readv(c->conn, pieces, PIECES, c->server.mr, row_at(c, row), flags, op_context));
}

/* the op_context of a batch is its number */
static const void *
batch_id(size_t batch)
{
	return (const void *)(uintptr_t)batch;
}

/*
 * All operations except the last are held back, and complete visibly only if they fail. Operations complete
 * in order, so the completion of the last one covers all. The last one must not be held back, or no
 * completion ever comes.
 */
static int
post_batch(struct client *c, post_row *post, size_t batch)
{
	size_t first = batch * BATCH;
	size_t end = c->rows - first < BATCH ? c->rows : first + BATCH;
	int ret = 0;

	for (size_t row = first; ret == 0 && row < end - 1; row++)
		ret = post(c, row, RPMA_F_COMPLETION_ON_ERROR | RPMA_F_MORE, NULL);
	/* without RPMA_F_MORE this also posts those before it; rpma_conn_submit would do only that */
	if (ret == 0)
		ret = post(c, end - 1, RPMA_F_COMPLETION_ALWAYS, batch_id(batch));

	return ret;
}

/* keeps BATCHES_IN_FLIGHT batches in flight as long as there are rows, and never more */
static int
transfer(struct client *c, post_row *post)
{
	size_t batches = (c->rows + BATCH - 1) / BATCH;
	size_t done = 0;
	int ret = 0;

	for (size_t batch = 0; ret == 0 && batch < batches; batch++) {
		if (batch - done == BATCHES_IN_FLIGHT)
			ret = conn_wait_completion(c->conn, batch_id(done++));
		if (ret == 0)
			ret = post_batch(c, post, batch);
	}
	while (ret == 0 && done < batches)
		ret = conn_wait_completion(c->conn, batch_id(done++));

	return ret;
}

/*
 * Writes the last row once more, as a program would that does not know whether another row follows: it always
 * holds the operation back, and submits it once it is clear that no other row follows.
 */
static int
write_last_again(struct client *c)
{
	int ret = write_row(c, c->rows - 1, RPMA_F_COMPLETION_ALWAYS | RPMA_F_MORE, NULL);
	if (ret == 0)
		ret = checked("rpma_conn_submit", rpma_conn_submit(c->conn));

	return ret ? ret : conn_wait_completion(c->conn, NULL);
}

static int
print_stats(const struct client *c)
{
	struct rpma_conn_stats stats = { .size = sizeof(stats) };

	int ret = checked("rpma_conn_get_stats", rpma_conn_get_stats(c->conn, &stats));
	if (ret == 0)
		printf("writes: %" PRIu64 ", reads: %" PRIu64 ", completions: %" PRIu64 "\n", stats.writes,
			stats.reads, stats.completions);

	return ret;
}

static int
write_and_read(struct client *c)
{
	int ret = checked("reading what the server says about its memory",
		exchange_unpack(c->conn, &c->server));
	if (ret)
		return ret;

	if (c->server.size - c->server.data_offset < TABLE_SIZE) {
		fprintf(stderr, "the server's memory is too small for a table\n");
		ret = RPMA_E_INVAL;
	}
	if (ret == 0)
		ret = transfer(c, write_row);
	if (ret == 0)
		ret = write_last_again(c);
	if (ret == 0)
		ret = transfer(c, read_row);
	if (ret == 0)
		ret = print_stats(c);
	exchange_release(&c->server);

	return ret;
}

static int
connect_to(struct client *c, struct rpma_peer *peer, const char *addr, const char *port)
{
	struct rpma_conn_cfg *cfg = NULL;

	int ret = checked("rpma_conn_cfg_new", rpma_conn_cfg_new(&cfg));
	if (ret == 0)
		ret = checked("rpma_conn_cfg_set_max_sge", rpma_conn_cfg_set_max_sge(cfg, PIECES));
	if (ret == 0)
		ret = checked("rpma_conn_cfg_set_sq_size", rpma_conn_cfg_set_sq_size(cfg, QUEUE_SIZE));
	/* one completion per batch would do, but after an error each operation has one */
	if (ret == 0)
		ret = checked("rpma_conn_cfg_set_cq_size", rpma_conn_cfg_set_cq_size(cfg, QUEUE_SIZE));
	if (ret == 0)
		ret = client_connect(peer, addr, port, cfg, NULL, &c->conn);
	if (ret == RPMA_E_NOSUPP)
		fprintf(stderr, "this example needs a device that takes %d pieces and %d operations\n",
			PIECES, QUEUE_SIZE);

	return first_error(ret, checked("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg)));
}

static void
fill(uint8_t *columns, size_t rows)
{
	for (size_t row = 0; row < rows; row++) {
		counter_put(columns + KEY_AT(row), row + 1);
		snprintf((char *)columns + VALUE_AT(row), VALUE_SIZE, "the square is %zu",
			(row + 1) * (row + 1));
	}
}

int
main(int argc, char *argv[])
{
	struct client c = { 0 };
	struct rpma_peer *peer = NULL;
	uint64_t rows;

	if (argc != 4 || !parse_number(argv[3], TABLE_SLOTS, &rows) || rows == 0) {
		fprintf(stderr, "usage: %s <server_address> <port> <rows, 1 to %d>\n", argv[0], TABLE_SLOTS);
		return 2;
	}

	/* the columns to write, and those to read into */
	uint8_t *columns = memory_new((size_t)2 * COLUMNS_SIZE);
	if (columns == NULL)
		return 1;
	c.rows = (size_t)rows;
	fill(columns, c.rows);

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, columns, (size_t)2 * COLUMNS_SIZE,
				RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST, &c.mr));
	if (ret == 0)
		ret = connect_to(&c, peer, argv[1], argv[2]);
	if (c.conn) {
		ret = first_error(ret, write_and_read(&c));
		ret = first_error(ret, conn_disconnect(&c.conn));
	}
	if (ret == 0) {
		bool same = memcmp(columns, columns + COLUMNS_SIZE, COLUMNS_SIZE) == 0;
		printf("the rows are %s\n", same ? "as they were written" : "DIFFERENT");
		ret = same ? 0 : RPMA_E_UNKNOWN;
	}

	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&c.mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	free(columns);

	return ret ? 1 : 0;
}
