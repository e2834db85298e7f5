/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* guest.c -- functions that the lab's programs share */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest.h"
#include "wait.h"

void
must(const char *what, int ret)
{
	if (ret == 0)
		return;
	fprintf(stderr, "%s: %s\n", what, rpma_err_2str(ret));
	exit(EXIT_FAILURE);
}

void
need(const char *what, bool is_so)
{
	if (is_so)
		return;
	fprintf(stderr, "%s: not so (%s)\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

unsigned long
number_of(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end || *text < '0' || *text > '9' || value == 0 || value > 100000000) {
		fprintf(stderr, "%s: not a number\n", text);
		exit(2);
	}
	return value;
}

struct rpma_peer *
peer_at(const char *addr, enum rpma_util_ibv_context_type type)
{
	struct ibv_context *ctx = NULL;
	struct rpma_peer *peer = NULL;

	must("device", rpma_utils_get_ibv_context(addr, type, &ctx));
	must("peer", rpma_peer_new(ctx, &peer));
	return peer;
}

void
expect_event(struct rpma_conn *conn, enum rpma_conn_event expected)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	must("event", wait_event(conn, &event, WAIT_MS));
	if (event != expected) {
		fprintf(stderr, "%s instead of %s\n", rpma_utils_conn_event_2str(event),
			rpma_utils_conn_event_2str(expected));
		exit(EXIT_FAILURE);
	}
}

struct rpma_conn *
connect_to(struct rpma_peer *peer, const char *addr, const char *port, const struct rpma_conn_cfg *cfg,
	struct rpma_mr_remote **region)
{
	struct rpma_conn_private_data data = { 0 };
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;

	must("request", rpma_conn_req_new(peer, addr, port, cfg, &req));
	must("connecting", rpma_conn_req_connect(&req, NULL, &conn));
	expect_event(conn, RPMA_CONN_ESTABLISHED);
	must("private data", rpma_conn_get_private_data(conn, &data));
	must("descriptor", rpma_mr_remote_from_descriptor(data.ptr, data.len, region));
	return conn;
}

struct rpma_conn *
accept_with(struct rpma_conn_req *req, struct rpma_mr_local *region)
{
	uint8_t descriptor[DESCRIPTOR_MAX];
	struct rpma_conn_private_data data = { .ptr = descriptor };
	struct rpma_conn *conn = NULL;
	size_t size = 0;

	must("descriptor's size", rpma_mr_get_descriptor_size(region, &size));
	need("a descriptor of at most 64 bytes", size <= sizeof(descriptor));
	must("descriptor", rpma_mr_get_descriptor(region, descriptor));
	data.len = (uint8_t)size;
	must("accepting", rpma_conn_req_connect(&req, &data, &conn));
	expect_event(conn, RPMA_CONN_ESTABLISHED);
	return conn;
}

uint8_t *
map_shared(const char *path, size_t len)
{
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	uint8_t *mem;

	need(path ? path : "no file", !path || fd >= 0);
	mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | (path ? 0 : MAP_ANONYMOUS), fd, 0);
	need("mapping", mem != MAP_FAILED);
	if (path)
		close(fd);
	return mem;
}
