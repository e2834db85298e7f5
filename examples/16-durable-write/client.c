/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * client.c -- write each line of stdin durably into the server's journal, many at a time
 *
 * A record is acknowledged only when its rpma_write_flush has completed successfully. If one fails, the
 * connection is broken, and nothing is known of that record and of those after it. Each of them may be there,
 * durably or not, in part, or not at all. So the client keeps records until they are acknowledged. It writes
 * them again on the next connection, into the same slots: writing the same bytes again does no harm.
 *
 *	acknowledged <= posted <= taken        records 1 to acknowledged are durable; those up to posted are
 *	                                       in flight; those up to taken are kept in the window
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "connection.h"
#include "exchange.h"
#include "journal.h"
#include "lines.h"

#define WINDOW 8 /* most records that are not acknowledged */

/* a durable write takes two entries of the send queue */
#define QUEUE_SIZE (2 * WINDOW)

#define CONNECT_TRIES 20
#define CONNECT_PAUSE_S 1

/* the registered memory: the kept records, then room to read the journal into */
#define WINDOW_SIZE (WINDOW * RECORD_SIZE)
#define LOCAL_SIZE (WINDOW_SIZE + JOURNAL_SIZE)

/* the connection is broken, but another one may work */
#define BROKEN RPMA_E_AGAIN

#define LOOK_ID ((const void *)(uintptr_t)0x100c)

struct client {
	const char *addr;
	const char *port;
	struct rpma_peer *peer;
	uint8_t *local;
	struct rpma_mr_local *mr;
	struct lines input;
	size_t acknowledged;
	size_t posted;
	size_t taken;

	/* of the connection */
	struct rpma_conn *conn;
	struct rpma_cq *cq;
	int cq_fd;
	struct exchange server;
	enum rpma_flush_type type;
};

/* offset of record number (from 1 on) in the window */
static size_t
kept_at(size_t number)
{
	return (number - 1) % WINDOW * RECORD_SIZE;
}

/* --- the connection --- */

/*
 * Chooses the strongest type that the server's memory allows. The first flush shows whether the device can do
 * it.
 */
static int
choose_type(struct client *c)
{
	int types = 0;

	int ret =
		checked("rpma_mr_remote_get_flush_type", rpma_mr_remote_get_flush_type(c->server.mr, &types));
	c->type = types & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT ? RPMA_FLUSH_TYPE_PERSISTENT
							      : RPMA_FLUSH_TYPE_VISIBILITY;

	return ret;
}

/*
 * Posts a flush of the whole journal, and with it settles the type for all flushes of the connection. The fence
 * holds the flush back until what was posted before it is done.
 */
static int
flush_journal(struct client *c)
{
	const int flags = RPMA_F_COMPLETION_ALWAYS | RPMA_F_FENCE;
	size_t at = c->server.data_offset;

	int ret = rpma_flush(c->conn, c->server.mr, at, JOURNAL_SIZE, c->type, flags, LOOK_ID);
	if (ret == RPMA_E_NOSUPP && c->type == RPMA_FLUSH_TYPE_PERSISTENT) {
		c->type = RPMA_FLUSH_TYPE_VISIBILITY;
		ret = rpma_flush(c->conn, c->server.mr, at, JOURNAL_SIZE, c->type, flags, LOOK_ID);
	}

	return checked("rpma_flush", ret);
}

/*
 * Counts the records of the server. On the first connection they are an earlier client's, and ours follow
 * them. On later connections the acknowledged records must be there.
 *
 * A read shows what is in the server's memory, which need not be durable: the flush of a record may have failed,
 * or its connection may have broken before. So the client reads the journal, then flushes it on this connection,
 * and counts what it has read only when both have succeeded.
 */
static int
look_at_journal(struct client *c)
{
	int ret = checked("rpma_read",
		rpma_read(c->conn, c->mr, WINDOW_SIZE, c->server.mr, c->server.data_offset, JOURNAL_SIZE,
			RPMA_F_COMPLETION_ON_ERROR, LOOK_ID));
	if (ret == 0)
		ret = flush_journal(c);
	if (ret == 0)
		ret = conn_wait_completion(c->conn, LOOK_ID);
	if (ret) {
		fprintf(stderr, "the records of the server are not known to be durable\n");
		return ret;
	}

	size_t count = journal_count(c->local + WINDOW_SIZE);
	if (count < c->acknowledged) {
		fprintf(stderr, "the server has lost records: it has %zu of %zu\n", count, c->acknowledged);
		return RPMA_E_UNKNOWN;
	}
	if (c->taken == 0)
		c->acknowledged = c->posted = c->taken = count;

	return 0;
}

static int
prepare_connection(struct client *c)
{
	int ret = checked("reading what the server says about its memory",
		exchange_unpack(c->conn, &c->server));
	if (ret)
		return ret;
	if (c->server.size - c->server.data_offset < JOURNAL_SIZE) {
		fprintf(stderr, "the server's memory is too small for a journal\n");
		return RPMA_E_INVAL;
	}

	ret = choose_type(c);
	if (ret == 0)
		ret = checked("rpma_conn_get_cq", rpma_conn_get_cq(c->conn, &c->cq));
	if (ret == 0)
		ret = checked("rpma_cq_get_fd", rpma_cq_get_fd(c->cq, &c->cq_fd));

	return ret ? ret : look_at_journal(c);
}

/* retries for a while, since a server that has died may be started again */
static int
connect_to_server(struct client *c)
{
	struct rpma_conn_cfg *cfg = NULL;

	int ret = checked("rpma_conn_cfg_new", rpma_conn_cfg_new(&cfg));
	if (ret == 0)
		ret = checked("rpma_conn_cfg_set_sq_size", rpma_conn_cfg_set_sq_size(cfg, QUEUE_SIZE));
	if (ret == 0)
		ret = checked("rpma_conn_cfg_set_cq_size", rpma_conn_cfg_set_cq_size(cfg, QUEUE_SIZE));
	if (ret == 0)
		ret = client_connect(c->peer, c->addr, c->port, cfg, NULL, &c->conn);
	for (int i = 1; ret && cfg && i < CONNECT_TRIES; i++) {
		sleep(CONNECT_PAUSE_S);
		ret = client_connect(c->peer, c->addr, c->port, cfg, NULL, &c->conn);
	}
	if (ret == 0)
		ret = prepare_connection(c);

	return first_error(ret, checked("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg)));
}

/* the records that were in flight on the connection will be written again */
static int
drop_connection(struct client *c)
{
	if (c->posted > c->acknowledged)
		fprintf(stderr, "records %zu to %zu are not known to be durable\n", c->acknowledged + 1,
			c->posted);
	c->posted = c->acknowledged;
	exchange_release(&c->server);

	return c->conn ? checked("rpma_conn_delete", rpma_conn_delete(&c->conn)) : 0;
}

/* --- records --- */

static int
post_record(struct client *c, size_t number)
{
	size_t at = c->server.data_offset + (number - 1) * RECORD_SIZE;
	const void *id = (const void *)(uintptr_t)number;

	int ret = rpma_write_flush(c->conn, c->server.mr, at, c->mr, kept_at(number), RECORD_SIZE, c->type,
		RPMA_F_COMPLETION_ALWAYS, id);

	/* the queue has room, so it is the connection that refuses */
	return checked("rpma_write_flush", ret) == RPMA_E_PROVIDER ? BROKEN : ret;
}

static int
post_records(struct client *c)
{
	int ret = 0;

	while (ret == 0 && c->posted < c->taken) {
		ret = post_record(c, c->posted + 1);
		if (ret == 0)
			c->posted++;
	}

	return ret;
}

/* records complete in order, so the acknowledged ones have no gaps */
static int
collect_acknowledgements(struct client *c)
{
	char text[RECORD_TEXT_SIZE];
	struct ibv_wc wc;
	int ret;

	while ((ret = rpma_cq_get_wc(c->cq, 1, &wc, NULL)) == 0) {
		if (wc_checked(&wc))
			return BROKEN;
		if (wc.wr_id != c->acknowledged + 1) {
			fprintf(stderr, "a completion that nobody asked for\n");
			return RPMA_E_UNKNOWN;
		}
		c->acknowledged++;
		printf("%s: %zu: %s\n", c->type == RPMA_FLUSH_TYPE_PERSISTENT ? "durable" : "visible",
			c->acknowledged, record_text(c->local + kept_at(c->acknowledged), text));
	}

	return ret == RPMA_E_NO_COMPLETION ? 0 : checked("rpma_cq_get_wc", ret);
}

/* turns lines into records while the window and the journal have room */
static void
take_lines(struct client *c)
{
	char line[LINE_MAX_SIZE];

	while (c->taken - c->acknowledged < WINDOW && c->taken < JOURNAL_RECORDS && lines_ready(&c->input)) {
		lines_take(&c->input, line);
		c->taken++;
		record_encode(c->local + kept_at(c->taken), c->taken, line);
	}
}

/* waits for completions, and for a line if one can be taken */
static int
wait_for_something(struct client *c)
{
	bool wants_line = !c->input.at_end && !lines_ready(&c->input);
	struct pollfd pfds[] = {
		{ .fd = c->cq_fd, .events = POLLIN },
		{ .fd = wants_line ? STDIN_FILENO : -1, .events = POLLIN },
	};

	if (poll(pfds, 2, -1) < 0 && errno != EINTR) {
		perror("poll");
		return RPMA_E_UNKNOWN;
	}
	if (pfds[1].revents && lines_read(&c->input))
		return RPMA_E_UNKNOWN;
	/* the descriptor may have become readable without a completion, so do not wait for one */
	int ret = pfds[0].revents ? rpma_cq_wait_timed(c->cq, 0) : 0;

	return ret == RPMA_E_NO_COMPLETION ? 0 : checked("rpma_cq_wait_timed", ret);
}

static bool
is_done(const struct client *c)
{
	bool is_full = c->taken == JOURNAL_RECORDS;

	return c->acknowledged == c->taken && (is_full || (c->input.at_end && !lines_ready(&c->input)));
}

/* runs until all records are durable, or returns BROKEN */
static int
write_lines(struct client *c)
{
	int ret = 0;

	for (;;) {
		take_lines(c);
		ret = post_records(c);
		if (ret == 0)
			ret = collect_acknowledgements(c);
		if (ret || is_done(c))
			return ret;
		/* acknowledgements may have made room for lines that are waiting */
		if (!lines_ready(&c->input) || c->taken - c->acknowledged == WINDOW)
			ret = wait_for_something(c);
		if (ret)
			return ret;
	}
}

int
main(int argc, char *argv[])
{
	struct client c = { 0 };

	if (argc != 3) {
		fprintf(stderr, "usage: %s <server_address> <port> < <lines>\n", argv[0]);
		return 2;
	}
	/* so that a reader of the output gets each acknowledgement at once */
	setvbuf(stdout, NULL, _IOLBF, 0);
	c.addr = argv[1];
	c.port = argv[2];

	c.local = memory_new(LOCAL_SIZE);
	if (c.local == NULL)
		return 1;
	int ret = peer_new_by_addr(c.addr, RPMA_UTIL_IBV_CONTEXT_REMOTE, &c.peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(c.peer, c.local, LOCAL_SIZE,
				RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST, &c.mr));
	if (ret == 0)
		ret = connect_to_server(&c);
	while (ret == 0 && (ret = write_lines(&c)) == BROKEN) {
		ret = drop_connection(&c);
		if (ret == 0)
			ret = connect_to_server(&c);
	}
	if (ret == 0 && c.taken == JOURNAL_RECORDS)
		printf("The journal is full.\n");
	if (ret == 0 && c.type == RPMA_FLUSH_TYPE_VISIBILITY)
		fprintf(stderr, "the server's memory cannot be made durable\n");

	if (ret == 0)
		ret = conn_disconnect(&c.conn);
	ret = first_error(ret, drop_connection(&c));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&c.mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&c.peer)));
	free(c.local);

	return ret ? 1 : 0;
}
