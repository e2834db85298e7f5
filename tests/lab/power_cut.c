/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * power_cut.c -- writes records to a file of a machine that loses its power, and lists the acknowledged ones
 *
 *	power_cut target ADDR PORT FILE
 *	  on the machine: lets one writer write to the file
 *	power_cut writer ADDR PORT SEED LIST [no-flush]
 *	  writes records until the machine is gone
 *	power_cut check FILE SEED LIST
 *	  is each record of the list in the file? Status 3: no
 *
 * The writer runs on a machine that keeps its power. It lists a record after the completion of its flush, or
 * with "no-flush" after that of its write. Each seed gives other records, so records that an earlier writer
 * left behind count as lost.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "guest.h"
#include "pattern.h"
#include "wait.h"

#define FILE_SIZE ((size_t)16 << 20)
/* not a divisor of a page: a record's pages also hold parts of other records */
#define RECORD_SIZE ((size_t)1504)
#define RECORDS (FILE_SIZE / RECORD_SIZE)
/* records in flight */
#define WINDOW 8

#define EXIT_LOST 3

static int
usage(void)
{
	fputs("usage: power_cut target ADDR PORT FILE\n"
	      "       power_cut writer ADDR PORT SEED LIST [no-flush]\n"
	      "       power_cut check FILE SEED LIST\n",
		stderr);
	return 2;
}

/* ---- target ---- */

static int
serve(const char *addr, const char *port, const char *path)
{
	uint8_t *mem = map_shared(path, FILE_SIZE);
	struct rpma_peer *peer = peer_at(addr, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct rpma_mr_local *mr = NULL;
	struct rpma_ep *ep = NULL;
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn;

	must("registration",
		rpma_mr_reg(peer, mem, FILE_SIZE,
			RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, &mr));
	must("listening", rpma_ep_listen(peer, addr, port, &ep));
	puts("listening");
	fflush(stdout);
	must("request", rpma_ep_next_conn_req(ep, NULL, &req));
	conn = accept_with(req, mr);
	must("end", rpma_conn_next_event(conn, &event));
	must("connection", rpma_conn_delete(&conn));
	must("endpoint", rpma_ep_shutdown(&ep));
	must("region", rpma_mr_dereg(&mr));
	must("peer", rpma_peer_delete(&peer));
	munmap(mem, FILE_SIZE);
	return 0;
}

/* ---- writer ---- */

struct writer {
	struct rpma_conn *conn;
	struct rpma_cq *cq;
	struct rpma_mr_local *src; /* WINDOW records */
	struct rpma_mr_remote *dst;
	uint8_t *buf;
	uint64_t seed;
	bool flushes;
	size_t posted;
	size_t acknowledged;
	FILE *list;
};

static void *
context_of(size_t record)
{
	return (void *)(uintptr_t)(record + 1);
}

/* returns the result of the call that failed, since the connection may be gone at any time */
static int
post_record(struct writer *w)
{
	size_t at = w->posted * RECORD_SIZE;
	size_t slot = w->posted % WINDOW * RECORD_SIZE;
	void *ctx = context_of(w->posted);
	int ret;

	pattern_fill(w->buf + slot, RECORD_SIZE, w->seed, at);
	ret = rpma_write(w->conn, w->dst, at, w->src, slot, RECORD_SIZE,
		w->flushes ? RPMA_F_COMPLETION_ON_ERROR : RPMA_F_COMPLETION_ALWAYS, ctx);
	if (ret == 0 && w->flushes)
		ret = rpma_flush(w->conn, w->dst, at, RECORD_SIZE, RPMA_FLUSH_TYPE_PERSISTENT,
			RPMA_F_COMPLETION_ALWAYS, ctx);
	if (ret == 0)
		w->posted++;
	return ret;
}

/* false if the machine is gone */
static bool
take_completion(struct writer *w)
{
	struct ibv_wc wc = { 0 };
	int ret = wait_wc(w->cq, &wc, WAIT_MS);

	if (ret == RPMA_E_NO_COMPLETION) {
		fprintf(stderr, "neither a completion nor the end of the connection\n");
		exit(EXIT_FAILURE);
	}
	if (ret || wc.status != IBV_WC_SUCCESS)
		return false;
	need("completions in order", wc.wr_id == w->acknowledged + 1);
	fprintf(w->list, "%zu\n", w->acknowledged);
	w->acknowledged++;
	return true;
}

static void
write_records(struct writer *w)
{
	while (w->acknowledged < RECORDS) {
		while (w->posted < RECORDS && w->posted - w->acknowledged < WINDOW) {
			if (post_record(w))
				return;
		}
		if (!take_completion(w))
			return;
	}
}

static struct rpma_conn_cfg *
window_cfg(void)
{
	struct rpma_conn_cfg *cfg = NULL;

	must("configuration", rpma_conn_cfg_new(&cfg));
	must("queue", rpma_conn_cfg_set_sq_size(cfg, 2 * WINDOW));
	must("completions", rpma_conn_cfg_set_cq_size(cfg, 2 * WINDOW));
	return cfg;
}

static int
write_until_the_end(const char *addr, const char *port, unsigned long seed, const char *list, bool flushes)
{
	struct writer w = { .seed = seed, .flushes = flushes };
	struct rpma_peer *peer = peer_at(addr, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	struct rpma_conn_cfg *cfg = window_cfg();
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	w.list = fopen(list, "w");
	need(list, w.list);
	w.buf = map_shared(NULL, WINDOW * RECORD_SIZE);
	must("registration", rpma_mr_reg(peer, w.buf, WINDOW * RECORD_SIZE, RPMA_MR_USAGE_WRITE_SRC, &w.src));
	w.conn = connect_to(peer, addr, port, cfg, &w.dst);
	must("queue", rpma_conn_get_cq(w.conn, &w.cq));
	puts("connected");
	fflush(stdout);

	write_records(&w);
	/*
	 * Either all records that fit are written, or the machine is gone. The event has come, or comes soon.
	 */
	must("end", wait_event(w.conn, &event, WAIT_MS));
	printf("%zu records acknowledged, %zu posted; then: %s\n", w.acknowledged, w.posted,
		rpma_utils_conn_event_2str(event));

	need(list, fclose(w.list) == 0);
	must("region", rpma_mr_remote_delete(&w.dst));
	must("connection", rpma_conn_delete(&w.conn));
	must("registration", rpma_mr_dereg(&w.src));
	must("configuration", rpma_conn_cfg_delete(&cfg));
	must("peer", rpma_peer_delete(&peer));
	return 0;
}

/* ---- check ---- */

/* read() instead of a mapping, because the file is a copy of the target's */
static uint8_t *
read_file(const char *path)
{
	uint8_t *bytes = malloc(FILE_SIZE + 1);
	FILE *f = fopen(path, "r");

	need(path, f);
	need("memory", bytes != NULL);
	need("the file's size", fread(bytes, 1, FILE_SIZE + 1, f) == FILE_SIZE);
	fclose(f);
	return bytes;
}

static int
check(const char *path, unsigned long seed, const char *list)
{
	uint8_t *bytes = read_file(path);
	FILE *f = fopen(list, "r");
	size_t acknowledged = 0, lost = 0;
	char line[32];

	need(list, f);
	while (fgets(line, sizeof(line), f)) {
		size_t record = strtoul(line, NULL, 10);
		size_t at = record * RECORD_SIZE;
		need("a number of a record", line[0] >= '0' && line[0] <= '9' && record < RECORDS);
		acknowledged++;
		if (pattern_check(bytes + at, RECORD_SIZE, seed, at) < 0)
			continue;
		if (lost++ == 0)
			printf("record %zu was acknowledged and is not in the file\n", record);
	}
	printf("%zu acknowledged, %zu lost\n", acknowledged, lost);
	fclose(f);
	free(bytes);
	return lost ? EXIT_LOST : 0;
}

int
main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "target"))
		return serve(argv[2], argv[3], argv[4]);
	if (argc == 6 && !strcmp(argv[1], "writer"))
		return write_until_the_end(argv[2], argv[3], number_of(argv[4]), argv[5], true);
	if (argc == 7 && !strcmp(argv[1], "writer") && !strcmp(argv[6], "no-flush"))
		return write_until_the_end(argv[2], argv[3], number_of(argv[4]), argv[5], false);
	if (argc == 5 && !strcmp(argv[1], "check"))
		return check(argv[2], number_of(argv[3]), argv[4]);
	return usage();
}
