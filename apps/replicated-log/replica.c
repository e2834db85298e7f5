/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * replica.c -- gives its persistent memory to one writer at a time
 *
 * The replica maps the file, checks it, registers it and waits. The writer does everything else, one-sided:
 * the replica does not touch the log while it serves it. It only ensures that there is one writer. A
 * connection is the right to write. The next one is accepted only after the previous one and its queue pair
 * are destroyed, so that nothing of an earlier writer can still arrive. A writer that hangs loses its
 * connection when another one asks, see the lease in protocol.h.
 */

#include <getopt.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "connection.h"
#include "exchange.h"
#include "log_file.h"
#include "numbers.h"
#include "protocol.h"
#include "watch.h"

/* of a new log if no size is given */
#define SIZE_DEFAULT (UINT64_C(256) << 20)

/* a writer that is not established after this time has died */
#define CONNECT_TIMEOUT_MS 5000

/* tries, since another process may take a free port before this one listens on it */
#define PORT_TRIES 20

enum { ON_STOP, ON_REQUEST, ON_EVENT };

struct replica {
	struct log_file file;
	struct rpma_peer *peer;
	struct rpma_peer_cfg *pcfg;
	struct rpma_mr_local *mr;
	struct rpma_conn_cfg *cfg;
	struct rpma_ep *ep;
	uint8_t answer[EXCHANGE_SIZE];
	struct rpma_conn_private_data pdata; /* points to answer */
	struct watch watch;
	bool is_watching;
	struct rpma_conn *writer; /* NULL: no writer */
	uint64_t lease;           /* the word of the log as it was seen last ... */
	int64_t lease_seen_ms;    /* ... and the time since which it is so */
};

struct options {
	const char *addr;
	const char *port;
	const char *path;
	uint64_t size; /* 0: not given */
	bool direct_write;
};

/* opens the log, or creates it if it does not exist; if a size was given, the log must have it */
static int
open_log(const struct options *options, struct log_file *file)
{
	if (access(options->path, F_OK)) {
		uint64_t size = options->size ? options->size : SIZE_DEFAULT;
		if (log_file_create(options->path, size))
			return -1;
		printf("created %s: %" PRIu64 " bytes\n", options->path, size);
	}
	if (log_file_open(options->path, true, file))
		return -1;
	if (options->size && options->size != file->header.size) {
		fprintf(stderr, "%s: refused: its size is %" PRIu64 ", not %" PRIu64 "\n", options->path,
			file->header.size, options->size);
		log_file_close(file);
		return -1;
	}

	printf("log: %s: %" PRIu64 " records, %" PRIu64 " bytes, epoch %" PRIu64 "\n", options->path,
		file->scan.records, file->scan.payload_bytes, log_epoch_round(file->header.epoch));
	printf("granularity: %s\n", file->mem.granularity);

	return 0;
}

static int
register_log(struct replica *r, const struct options *options)
{
	const int usage = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST |
		RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
	const char *device;

	int ret = peer_new_by_addr(options->addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &r->peer, &device);
	if (ret)
		return ret;
	printf("device: %s\n", device);

	ret = rpma_mr_reg(r->peer, r->file.mem.ptr, r->file.mem.size, usage, &r->mr);
	if (ret) {
		report("rpma_mr_reg", ret);
		return ret;
	}
	ret = rpma_conn_cfg_new(&r->cfg);
	if (ret == 0)
		ret = rpma_conn_cfg_set_connect_timeout(r->cfg, CONNECT_TIMEOUT_MS);
	if (ret) {
		report("configuring connections", ret);
		return ret;
	}
	ret = rpma_peer_cfg_new(&r->pcfg);
	if (ret == 0)
		ret = rpma_peer_cfg_set_direct_write_to_pmem(r->pcfg, options->direct_write);
	if (ret == 0)
		ret = exchange_pack(r->answer, r->mr, r->pcfg, 0, &r->pdata);
	if (ret)
		report("describing the memory", ret);

	return ret;
}

/* finds a port that no process uses now */
static int
free_port(const char *addr, char *port, size_t len)
{
	const struct addrinfo hints = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM };
	struct sockaddr_storage ss;
	socklen_t ss_len = sizeof(ss);
	struct addrinfo *info;

	if (getaddrinfo(addr, "0", &hints, &info))
		return -1;
	int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int ret = fd < 0 || bind(fd, info->ai_addr, info->ai_addrlen) ||
			getsockname(fd, (struct sockaddr *)&ss, &ss_len) ||
			getnameinfo((struct sockaddr *)&ss, ss_len, NULL, 0, port, (socklen_t)len,
				NI_NUMERICSERV)
		? -1
		: 0;
	if (fd >= 0)
		close(fd);
	freeaddrinfo(info);

	return ret;
}

/* port 0 means any free port */
static int
listen_on(struct replica *r, const struct options *options)
{
	char port[NI_MAXSERV];
	bool any = strcmp(options->port, "0") == 0;
	int ret;

	snprintf(port, sizeof(port), "%s", options->port);
	for (int i = 0; i < PORT_TRIES; i++) {
		if (any && free_port(options->addr, port, sizeof(port))) {
			fprintf(stderr, "no free port on %s\n", options->addr);
			return -1;
		}
		ret = rpma_ep_listen(r->peer, options->addr, port, &r->ep);
		if (ret == 0 || !any)
			break;
	}
	if (ret) {
		report("rpma_ep_listen", ret);
		return ret;
	}

	printf("listening on %s port %s\n", options->addr, port);
	return 0;
}

static int
watch_requests(struct replica *r)
{
	int fd;

	int ret = checked("rpma_ep_get_fd", rpma_ep_get_fd(r->ep, &fd));

	return ret ? ret : watch_add(&r->watch, fd, (struct watched){ ON_REQUEST, 0 });
}

static void
drop_writer(struct replica *r)
{
	/* the descriptor leaves the epoll set with the connection, which also ends the writer's access */
	(void)rpma_conn_disconnect(r->writer);
	(void)checked("rpma_conn_delete", rpma_conn_delete(&r->writer));
}

static void
next_conn_event(struct replica *r)
{
	enum rpma_conn_event event;

	int ret = r->writer ? rpma_conn_next_event(r->writer, &event) : RPMA_E_NO_EVENT;
	if (ret == RPMA_E_NO_EVENT)
		return;
	if (ret == 0 && event == RPMA_CONN_ESTABLISHED) {
		printf("writer connected\n");
		return;
	}

	printf("writer gone: %s\n", ret ? rpma_err_2str(ret) : rpma_utils_conn_event_2str(event));
	drop_writer(r);
}

/* The writer changes it by one-sided operations at any time. Only a change matters here, not the value. */
static uint64_t
lease_word(const struct replica *r)
{
	const uint64_t *word = (const void *)((const char *)r->file.mem.ptr + LOG_WORD_LEASE);

	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* true if the writer has not renewed its lease for LEASE_MS; looks at it only when another writer asks */
static bool
lease_is_over(struct replica *r)
{
	const uint64_t word = lease_word(r);

	if (word != r->lease) {
		r->lease = word;
		r->lease_seen_ms = now_ms();
	}

	return now_ms() - r->lease_seen_ms >= LEASE_MS;
}

static void
accept_writer(struct replica *r, struct rpma_conn_req **req)
{
	int fd;

	r->lease = lease_word(r);
	r->lease_seen_ms = now_ms();
	if (checked("rpma_conn_req_connect", rpma_conn_req_connect(req, &r->pdata, &r->writer)))
		return;
	if (checked("rpma_conn_get_event_fd", rpma_conn_get_event_fd(r->writer, &fd)) ||
		watch_add(&r->watch, fd, (struct watched){ ON_EVENT, 0 }))
		drop_writer(r);
}

static void
next_conn_req(struct replica *r)
{
	const struct rpma_conn_private_data busy = { (void *)(uintptr_t)BUSY, BUSY_SIZE };
	struct rpma_conn_private_data hello;
	struct rpma_conn_req *req = NULL;

	int ret = rpma_ep_next_conn_req(r->ep, r->cfg, &req);
	if (ret) {
		if (ret != RPMA_E_NO_EVENT)
			report("rpma_ep_next_conn_req", ret);
		return;
	}
	/* handle a disconnect first, since it makes room for the new request */
	next_conn_event(r);

	if (rpma_conn_req_get_private_data(req, &hello) || !pdata_begins_with(&hello, HELLO, HELLO_SIZE)) {
		printf("a connection request was rejected: not from a writer of this version\n");
		(void)checked("rpma_conn_req_delete", rpma_conn_req_delete(&req));
	} else if (r->writer && !lease_is_over(r)) {
		printf("a second writer was rejected\n");
		(void)checked("rpma_conn_req_reject", rpma_conn_req_reject(&req, &busy));
	} else {
		if (r->writer) {
			printf("writer gone: it has not renewed its lease for %d seconds\n", LEASE_MS / 1000);
			drop_writer(r);
		}
		accept_writer(r, &req);
	}
}

static int
serve(struct replica *r)
{
	struct watched what;
	bool found;

	for (;;) {
		if (watch_next(&r->watch, WATCH_FOREVER, &what, &found))
			return -1;
		if (!found)
			continue;
		if (what.kind == ON_STOP)
			return 0;
		if (what.kind == ON_REQUEST)
			next_conn_req(r);
		else
			next_conn_event(r);
	}
}

static int
replica_start(struct replica *r, const struct options *options)
{
	/* before the library starts threads, so that none of them takes the signals */
	if (watch_open(&r->watch, (struct watched){ ON_STOP, 0 }))
		return -1;
	r->is_watching = true;
	if (open_log(options, &r->file))
		return -1;

	return register_log(r, options) || listen_on(r, options) || watch_requests(r) ? -1 : 0;
}

/* also ends a replica that was started only partly */
static int
replica_stop(struct replica *r)
{
	if (r->writer)
		drop_writer(r);
	if (r->is_watching)
		watch_close(&r->watch);

	int ret = rpma_ep_shutdown(&r->ep);
	ret |= rpma_conn_cfg_delete(&r->cfg);
	ret |= rpma_peer_cfg_delete(&r->pcfg);
	ret |= rpma_mr_dereg(&r->mr);
	ret |= rpma_peer_delete(&r->peer);
	log_file_close(&r->file);

	return ret;
}

static int
usage(const char *name)
{
	fprintf(stderr,
		"usage: %s [-d] <addr> <port> <pmem-path> [<size>]\n"
		"  <port>  0 for any free one\n"
		"  <size>  of the log, with K, M or G; a missing file is created (256M by default)\n"
		"  -d      RDMA writes go to persistent memory directly (DDIO is off for them); only\n"
		"          hardware that cannot flush by itself needs to be told, and only if it is true\n",
		name);
	return 2;
}

static bool
parse_options(int argc, char *argv[], struct options *options)
{
	int opt;

	while ((opt = getopt(argc, argv, "d")) != -1) {
		if (opt != 'd')
			return false;
		options->direct_write = true;
	}

	int count = argc - optind;
	if (count < 3 || count > 4)
		return false;
	options->addr = argv[optind];
	options->port = argv[optind + 1];
	options->path = argv[optind + 2];
	if (count == 3)
		return true;
	if (!parse_size(argv[optind + 3], LOG_SIZE_MAX, &options->size) || options->size < LOG_SIZE_MIN) {
		fprintf(stderr, "%s: not a size of at least %" PRIu64 " bytes\n", argv[optind + 3],
			LOG_SIZE_MIN);
		return false;
	}
	/* whole pages, so that it can be mapped */
	options->size = (options->size + LOG_HEADER_SIZE - 1) & ~(uint64_t)(LOG_HEADER_SIZE - 1);

	return true;
}

int
main(int argc, char *argv[])
{
	struct options options = { 0 };
	struct replica replica = { .file.fd = -1 };

	if (!parse_options(argc, argv, &options))
		return usage(argv[0]);

	/* so that a reader of the output gets each line at once */
	setvbuf(stdout, NULL, _IOLBF, 0);

	int ret = replica_start(&replica, &options);
	if (ret == 0)
		ret = serve(&replica);
	if (replica_stop(&replica))
		ret = -1;

	return ret ? 1 : 0;
}
