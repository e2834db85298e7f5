/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * client.c -- the writer: writes each line of stdin to three keepers, and says when two of them have it durably
 *
 * A record is durable on a majority when two keepers have completed its persistent flush. The writer does not
 * wait for the third, so one keeper may be slow, dead or missing. A keeper that fails is not used again.
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "exchange.h"
#include "journal.h"

#define KEEPERS 3
#define MAJORITY (KEEPERS / 2 + 1)
#define PATIENCE_S 30 /* a wait in which no keeper completes anything for this time has failed */
#define LINE_SIZE 256 /* in bytes, with the terminating zero; a longer line becomes several records */

/* A write and a flush for each record of the log: a slow keeper never makes the writer wait for queue space. */
#define QUEUE_SIZE (2 * JOURNAL_RECORDS)

struct keeper {
	const char *addr;
	const char *port;
	struct rpma_peer *peer;
	struct rpma_mr_local *mr; /* the writer's records, for this keeper's device */
	struct rpma_conn *conn;   /* NULL if the keeper is missing or has failed */
	struct rpma_cq *cq;
	int cq_fd;
	struct exchange memory; /* of the keeper */
	size_t durable; /* records 1 to this one are durable there, even after the keeper has failed */
};

struct writer {
	uint8_t *log;
	size_t count; /* of records */
	struct keeper keepers[KEEPERS];
};

/* --- one keeper --- */

/* The writer begins with record 1. Older records would look like a continuation of its own. */
static int
keeper_check_empty(const struct keeper *k, uint8_t *log)
{
	int ret = checked("rpma_read",
		rpma_read(k->conn, k->mr, 0, k->memory.mr, k->memory.data_offset, RECORD_SIZE,
			RPMA_F_COMPLETION_ALWAYS, NULL));
	if (ret == 0)
		ret = conn_wait_completion(k->conn, NULL);
	if (ret == 0 && record_is_good(log, 1)) {
		fprintf(stderr, "the keeper's file has records already\n");
		ret = RPMA_E_INVAL;
	}

	return ret;
}

static int
keeper_connect(struct keeper *k, uint8_t *log)
{
	struct rpma_conn_cfg *cfg = NULL;

	int ret = peer_new_by_addr(k->addr, RPMA_UTIL_IBV_CONTEXT_REMOTE, &k->peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(k->peer, log, JOURNAL_SIZE,
				RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST, &k->mr));
	if (ret == 0)
		ret = checked("rpma_conn_cfg_new", rpma_conn_cfg_new(&cfg));
	if (ret == 0)
		ret = checked("rpma_conn_cfg_set_sq_size", rpma_conn_cfg_set_sq_size(cfg, QUEUE_SIZE));
	if (ret == 0)
		ret = checked("rpma_conn_cfg_set_cq_size", rpma_conn_cfg_set_cq_size(cfg, QUEUE_SIZE));
	if (ret == 0)
		ret = client_connect(k->peer, k->addr, k->port, cfg, NULL, &k->conn);
	if (ret == 0)
		ret = checked("reading what the keeper says about its memory",
			exchange_unpack(k->conn, &k->memory));
	if (ret == 0 && k->memory.size - k->memory.data_offset < JOURNAL_SIZE) {
		fprintf(stderr, "the keeper's memory is too small for the log\n");
		ret = RPMA_E_INVAL;
	}
	if (ret == 0)
		ret = keeper_check_empty(k, log);
	if (ret == 0)
		ret = checked("rpma_conn_get_cq", rpma_conn_get_cq(k->conn, &k->cq));
	if (ret == 0)
		ret = checked("rpma_cq_get_fd", rpma_cq_get_fd(k->cq, &k->cq_fd));

	return first_error(ret, checked("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg)));
}

/* works for a keeper in any state; errors are reported, and do not change what is durable */
static void
keeper_release(struct keeper *k)
{
	(void)checked("rpma_conn_delete", rpma_conn_delete(&k->conn));
	exchange_release(&k->memory);
	(void)checked("rpma_mr_dereg", rpma_mr_dereg(&k->mr));
	(void)checked("rpma_peer_delete", rpma_peer_delete(&k->peer));
}

static void
keeper_fail(struct keeper *k, const char *how)
{
	fprintf(stderr, "the keeper %s port %s %s\n", k->addr, k->port, how);
	keeper_release(k);
}

static int
keeper_write(const struct keeper *k, size_t number)
{
	size_t at = (number - 1) * RECORD_SIZE;

	/* the completion of the flush covers the write too */
	return checked("rpma_write",
		rpma_write(k->conn, k->memory.mr, k->memory.data_offset + at, k->mr, at, RECORD_SIZE,
			RPMA_F_COMPLETION_ON_ERROR, NULL));
}

static int
keeper_flush(const struct keeper *k, size_t number)
{
	size_t at = k->memory.data_offset + (number - 1) * RECORD_SIZE;

	return checked("rpma_flush",
		rpma_flush(k->conn, k->memory.mr, at, RECORD_SIZE, RPMA_FLUSH_TYPE_PERSISTENT,
			RPMA_F_COMPLETION_ALWAYS, (const void *)(uintptr_t)number));
}

/* the descriptor is readable: flushes have completed, in the order of their records */
static int
keeper_collect(struct keeper *k)
{
	struct ibv_wc wc;

	/* the descriptor may have become readable without a completion, so do not wait for one */
	int ret = rpma_cq_wait_timed(k->cq, 0);
	while (ret == 0 && (ret = rpma_cq_get_wc(k->cq, 1, &wc, NULL)) == 0) {
		if (wc_checked(&wc))
			return RPMA_E_UNKNOWN;
		k->durable = wc.wr_id;
	}

	return ret == RPMA_E_NO_COMPLETION ? 0 : checked("collecting completions", ret);
}

/* --- all keepers --- */

static unsigned
durable_on(const struct writer *w, size_t number)
{
	unsigned count = 0;

	for (unsigned i = 0; i < KEEPERS; i++)
		count += w->keepers[i].durable >= number;

	return count;
}

/*
 * Waits until a keeper that has not flushed the record completes something; false if there is no such keeper
 */
static bool
wait_for_any(struct writer *w, size_t number)
{
	struct pollfd pfds[KEEPERS];
	bool found = false;

	for (unsigned i = 0; i < KEEPERS; i++) {
		const struct keeper *k = &w->keepers[i];
		bool is_behind = k->conn && k->durable < number;
		pfds[i] = (struct pollfd){ .fd = is_behind ? k->cq_fd : -1, .events = POLLIN };
		found |= is_behind;
	}
	if (!found)
		return false;

	int n = poll(pfds, KEEPERS, PATIENCE_S * 1000);
	if (n < 0 && errno != EINTR)
		perror("poll");
	for (unsigned i = 0; i < KEEPERS; i++) {
		if (n > 0 && pfds[i].revents && keeper_collect(&w->keepers[i]))
			keeper_fail(&w->keepers[i], "has failed");
	}

	return n > 0 || (n < 0 && errno == EINTR);
}

static int
write_record(struct writer *w, const char *text)
{
	char shown[RECORD_TEXT_SIZE];
	size_t number = ++w->count;
	uint8_t *record = w->log + (number - 1) * RECORD_SIZE;

	record_encode(record, number, text);
	/* all keepers work at the same time: wait only after each has its write and its flush */
	for (struct keeper *k = w->keepers; k < w->keepers + KEEPERS; k++) {
		if (k->conn && keeper_write(k, number))
			keeper_fail(k, "has failed");
	}
	for (struct keeper *k = w->keepers; k < w->keepers + KEEPERS; k++) {
		if (k->conn && keeper_flush(k, number))
			keeper_fail(k, "has failed");
	}
	while (durable_on(w, number) < MAJORITY && wait_for_any(w, number))
		;

	bool is_durable = durable_on(w, number) >= MAJORITY;
	printf("%sdurable on a majority: %zu: %s\n", is_durable ? "" : "not ", number,
		record_text(record, shown));

	return is_durable ? 0 : -1;
}

static int
write_lines(struct writer *w)
{
	char line[LINE_SIZE];
	int ret = 0;

	while (ret == 0 && fgets(line, sizeof(line), stdin)) {
		if (w->count == JOURNAL_RECORDS) {
			fprintf(stderr, "the log is full\n");
			return -1;
		}
		line[strcspn(line, "\n")] = '\0';
		ret = write_record(w, line);
	}
	if (ferror(stdin)) {
		perror("stdin");
		ret = -1;
	}

	return ret;
}

int
main(int argc, char *argv[])
{
	struct writer w = { 0 };

	if (argc != 1 + 2 * KEEPERS) {
		fprintf(stderr, "usage: %s <address> <port> <address> <port> <address> <port> < <lines>\n",
			argv[0]);
		return 2;
	}
	/* so that a reader of the output sees each line at once */
	setvbuf(stdout, NULL, _IOLBF, 0);

	w.log = memory_new(JOURNAL_SIZE);
	if (w.log == NULL)
		return 1;
	for (int i = 0; i < KEEPERS; i++) {
		w.keepers[i].addr = argv[1 + 2 * i];
		w.keepers[i].port = argv[2 + 2 * i];
		if (keeper_connect(&w.keepers[i], w.log))
			keeper_fail(&w.keepers[i], "cannot be used");
	}

	int ret = write_lines(&w);

	/* gives the last keeper the time to complete its posts */
	while (ret == 0 && wait_for_any(&w, w.count))
		;
	for (struct keeper *k = w.keepers; k < w.keepers + KEEPERS; k++) {
		if (k->conn)
			(void)conn_disconnect(&k->conn);
		keeper_release(k);
	}
	free(w.log);

	return ret ? 1 : 0;
}
