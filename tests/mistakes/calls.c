/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * calls.c -- mistakes in a program, one for each name
 *
 *	calls NAME [FILE]
 *
 * Prints what rpma_errormsg() or the status of the completion says. Exit status: 1, because the mistake is found; 0: it
 * was not; 3: the mistake could not be made.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pair.h"
#include "wait.h"

#define ADDR "127.0.0.1"
#define SIZE 4096
#define NOT_MADE 3

/* a client and a server that are connected, and memory of each */
static struct pair pair;
static char *client_ptr, *server_ptr;
static struct rpma_mr_local *client_mr, *server_mr;
static struct rpma_mr_remote *remote;

static void
need(int ret, const char *what)
{
	if (ret == 0)
		return;
	fprintf(stderr, "calls: the mistake cannot be made: %s: %s\n", what, rpma_errormsg());
	exit(NOT_MADE);
}

static char *
map(int flags, int fd)
{
	char *ptr = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (ptr == MAP_FAILED) {
		perror("calls: mmap");
		exit(NOT_MADE);
	}
	return ptr;
}

/* the client's region is for all operations; the server's for those of usage */
static void
connect_pair(const struct rpma_conn_cfg *client_cfg, char *server_memory, int usage)
{
	char descriptor[64];
	size_t size = 0;
	client_ptr = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	server_ptr = server_memory;
	need(pair_open(&pair, ADDR, client_cfg, NULL), "connecting");
	need(rpma_mr_reg(pair.client.peer, client_ptr, SIZE, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST,
		     &client_mr),
		"rpma_mr_reg() of the client");
	need(rpma_mr_reg(pair.server.peer, server_ptr, SIZE, usage, &server_mr),
		"rpma_mr_reg() of the server");
	need(rpma_mr_get_descriptor_size(server_mr, &size), "rpma_mr_get_descriptor_size()");
	if (size > sizeof(descriptor))
		exit(NOT_MADE);
	need(rpma_mr_get_descriptor(server_mr, descriptor), "rpma_mr_get_descriptor()");
	need(rpma_mr_remote_from_descriptor(descriptor, size, &remote), "rpma_mr_remote_from_descriptor()");
}

static void
connect_plain(int usage)
{
	connect_pair(NULL, map(MAP_PRIVATE | MAP_ANONYMOUS, -1), usage);
}

/* ends a mistake that a call must find */
static int
told(int ret)
{
	if (ret)
		fprintf(stderr, "calls: %s: %s\n", rpma_err_2str(ret), rpma_errormsg());
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ends a mistake that a completion must show */
static int
completed(void)
{
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
	need(wait_wc(pair.client.cq, &wc, WAIT_MS), "waiting for the completion");
	if (wc.status != IBV_WC_SUCCESS)
		fprintf(stderr, "calls: the operation failed: %s\n", ibv_wc_status_str(wc.status));
	return wc.status != IBV_WC_SUCCESS ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- memory ---- */

static int
size_0(const char *file)
{
	struct rpma_mr_local *mr;
	(void)file;
	connect_plain(RPMA_MR_USAGE_WRITE_DST);
	return told(rpma_mr_reg(pair.server.peer, server_ptr, 0, RPMA_MR_USAGE_WRITE_DST, &mr));
}

static int
size_too_large(const char *file)
{
	struct rpma_mr_local *mr;
	(void)file;
	connect_plain(RPMA_MR_USAGE_WRITE_DST);
	/* the page after the memory is not mapped */
	char *two = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (two == MAP_FAILED || munmap(two + SIZE, SIZE))
		return NOT_MADE;
	return told(rpma_mr_reg(pair.server.peer, two, 2 * SIZE, RPMA_MR_USAGE_WRITE_DST, &mr));
}

static int
no_usage(const char *file)
{
	struct rpma_mr_local *mr;
	(void)file;
	connect_plain(RPMA_MR_USAGE_WRITE_DST);
	return told(rpma_mr_reg(pair.server.peer, server_ptr, SIZE, 0, &mr));
}

static int
flush_persistently(void)
{
	return told(rpma_flush(pair.client.conn, remote, 0, SIZE, RPMA_FLUSH_TYPE_PERSISTENT,
		RPMA_F_COMPLETION_ALWAYS, NULL));
}

static int
anonymous_flush(const char *file)
{
	(void)file;
	connect_plain(RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
	return flush_persistently();
}

/* a flush of memory of a file is accepted, and a warning says what it is worth */
static int
file_flush(const char *file)
{
	int fd = open(file ? file : "", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, SIZE)) {
		perror("calls: the file");
		return NOT_MADE;
	}
	connect_pair(NULL, map(MAP_SHARED, fd),
		RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
	if (flush_persistently())
		return NOT_MADE;
	return completed();
}

/* ---- operations ---- */

static int
range(const char *file)
{
	(void)file;
	connect_plain(RPMA_MR_USAGE_WRITE_DST);
	return told(rpma_write(pair.client.conn, remote, SIZE - 8, client_mr, 0, 16, RPMA_F_COMPLETION_ALWAYS,
		NULL));
}

static int
wrong_right(const char *file)
{
	(void)file;
	connect_plain(RPMA_MR_USAGE_WRITE_DST);
	need(rpma_read(pair.client.conn, client_mr, 0, remote, 0, SIZE, RPMA_F_COMPLETION_ALWAYS, NULL),
		"rpma_read()");
	return completed();
}

static int
wrong_key(const char *file)
{
	(void)file;
	connect_plain(RPMA_MR_USAGE_WRITE_DST);
	need(rpma_mr_dereg(&server_mr), "rpma_mr_dereg()");
	need(rpma_write(pair.client.conn, remote, 0, client_mr, 0, SIZE, RPMA_F_COMPLETION_ALWAYS, NULL),
		"rpma_write()");
	return completed();
}

/* the memory goes, and its region stays */
static int
freed_memory(const char *file)
{
	(void)file;
	connect_plain(RPMA_MR_USAGE_WRITE_DST);
	/* it stays empty: else another mapping of this process could take its place */
	server_ptr = mmap(server_ptr, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (server_ptr == MAP_FAILED)
		return 2;
	need(rpma_write(pair.client.conn, remote, 0, client_mr, 0, 64, RPMA_F_COMPLETION_ALWAYS, NULL),
		"rpma_write()");
	return completed();
}

static int
no_flags(const char *file)
{
	(void)file;
	connect_plain(RPMA_MR_USAGE_WRITE_DST);
	return told(rpma_write(pair.client.conn, remote, 0, client_mr, 0, SIZE, 0, NULL));
}

/* ---- queues ---- */

static int
small_cq(const char *file)
{
	struct rpma_conn_cfg *cfg = NULL;
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
	int ret = 0;
	(void)file;
	need(rpma_conn_cfg_new(&cfg), "rpma_conn_cfg_new()");
	need(rpma_conn_cfg_set_sq_size(cfg, 64), "rpma_conn_cfg_set_sq_size()");
	need(rpma_conn_cfg_set_cq_size(cfg, 1), "rpma_conn_cfg_set_cq_size()");
	connect_pair(cfg, map(MAP_PRIVATE | MAP_ANONYMOUS, -1), RPMA_MR_USAGE_WRITE_DST);
	for (int i = 0; ret == 0 && i < 64; i++)
		ret = rpma_write(pair.client.conn, remote, 0, client_mr, 0, 8, RPMA_F_COMPLETION_ALWAYS,
			NULL);
	/* what does not fit is lost, and the queue fails */
	for (ret = 0; ret == 0 && wc.status == IBV_WC_SUCCESS;)
		ret = poll_wc(pair.client.cq, &wc, WAIT_MS);
	return ret == RPMA_E_NO_COMPLETION ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int
full_queue(const char *file)
{
	struct rpma_conn_cfg *cfg = NULL;
	int ret = 0;
	(void)file;
	need(rpma_conn_cfg_new(&cfg), "rpma_conn_cfg_new()");
	need(rpma_conn_cfg_set_sq_size(cfg, 4), "rpma_conn_cfg_set_sq_size()");
	connect_pair(cfg, map(MAP_PRIVATE | MAP_ANONYMOUS, -1), RPMA_MR_USAGE_WRITE_DST);
	/* the peer has posted no receive, so each message keeps its place in the queue */
	for (int i = 0; ret == 0 && i < 1000; i++)
		ret = rpma_send(pair.client.conn, NULL, 0, 0, RPMA_F_COMPLETION_ALWAYS, NULL);
	need(rpma_conn_cfg_delete(&cfg), "rpma_conn_cfg_delete()");
	return told(ret);
}

/* ---- arguments ---- */

static int
log_threshold(const char *file)
{
	(void)file;
	return told(rpma_log_set_threshold((enum rpma_log_threshold)7, RPMA_LOG_LEVEL_INFO));
}

static int
log_level(const char *file)
{
	(void)file;
	return told(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, (enum rpma_log_level)42));
}

static int
timeout(const char *file)
{
	struct rpma_conn_cfg *cfg = NULL;
	(void)file;
	need(rpma_conn_cfg_new(&cfg), "rpma_conn_cfg_new()");
	return told(rpma_conn_cfg_set_timeout(cfg, -5));
}

int
main(int argc, char *argv[])
{
	static const struct {
		const char *name;
		int (*make)(const char *file);
	} mistakes[] = {
		{ "size-0", size_0 },
		{ "size-too-large", size_too_large },
		{ "no-usage", no_usage },
		{ "anonymous-flush", anonymous_flush },
		{ "file-flush", file_flush },
		{ "range", range },
		{ "wrong-right", wrong_right },
		{ "wrong-key", wrong_key },
		{ "freed-memory", freed_memory },
		{ "no-flags", no_flags },
		{ "small-cq", small_cq },
		{ "full-queue", full_queue },
		{ "log-threshold", log_threshold },
		{ "log-level", log_level },
		{ "timeout", timeout },
	};
	for (size_t i = 0; argc > 1 && i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
		if (!strcmp(argv[1], mistakes[i].name))
			return mistakes[i].make(argc > 2 ? argv[2] : NULL);
	fprintf(stderr, "calls: there is no mistake of this name\n");
	return NOT_MADE;
}
