/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * replica.c -- gives its persistent memory to one writer at a time
 *
 * The replica maps the file, checks it, registers it and waits. Everything else is done by the writer,
 * one-sided: the replica never touches the log while it serves it. What it guards is that there is one
 * writer: a connection is the right to write, and the next one is accepted only after the one before is gone
 * together with its queue pair, so that nothing of an earlier writer can arrive any more.
 */

#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "connection.h"
#include "exchange.h"
#include "log_file.h"
#include "numbers.h"
#include "protocol.h"

/* of a log that is created without a size being given */
#define SIZE_DEFAULT (UINT64_C(256) << 20)

/* visitor 0 is the writer; the others are on their way out, having been told that the replica is busy */
#define VISITORS_MAX 5
#define WRITER 0

/* a visitor that is not established, or not gone, after this time is dropped */
#define VISITOR_TIMEOUT_MS 5000

/* ports that somebody else took between our asking the kernel for a free one and listening on it */
#define PORT_TRIES 20

#define EVENT_EP VISITORS_MAX
#define EVENT_SIGNAL (VISITORS_MAX + 1)

struct visitor {
	struct rpma_conn *conn; /* NULL: nobody */
	int64_t deadline_ms;    /* 0: none */
};

struct replica {
	struct log_file file;
	struct rpma_peer *peer;
	struct rpma_peer_cfg *pcfg;
	struct rpma_mr_local *mr;
	struct rpma_ep *ep;
	int signal_fd;
	int epoll_fd;
	uint8_t answer[EXCHANGE_SIZE];
	struct rpma_conn_private_data pdata; /* points to answer */
	struct visitor visitors[VISITORS_MAX];
};

struct options {
	const char *addr;
	const char *port;
	const char *path;
	uint64_t size; /* 0: not given */
	bool direct_write;
};

static int64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* the log, created if it is not there; it must have the size that was asked for, if any was */
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
		file->scan.records, file->scan.payload_bytes, file->header.epoch);
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
	ret = rpma_peer_cfg_new(&r->pcfg);
	if (ret == 0)
		ret = rpma_peer_cfg_set_direct_write_to_pmem(r->pcfg, options->direct_write);
	if (ret == 0)
		ret = exchange_pack(r->answer, r->mr, r->pcfg, 0, &r->pdata);
	if (ret)
		report("describing the memory", ret);

	return ret;
}

/* a port that nobody uses right now */
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

/* port 0 asks for any free one */
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

/* reads of fd must not wait: a readable descriptor is a hint, and there are others to look after */
static int
watch(struct replica *r, int fd, uint32_t what)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = what };
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ||
		epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &ev)) {
		perror("watching a descriptor");
		return -1;
	}
	return 0;
}

static int
watch_all(struct replica *r)
{
	sigset_t signals;
	int ep_fd;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	if (sigprocmask(SIG_BLOCK, &signals, NULL)) {
		perror("sigprocmask");
		return -1;
	}
	r->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (r->signal_fd < 0 || r->epoll_fd < 0) {
		perror("preparing to wait");
		return -1;
	}
	if (rpma_ep_get_fd(r->ep, &ep_fd))
		return -1;

	return watch(r, ep_fd, EVENT_EP) || watch(r, r->signal_fd, EVENT_SIGNAL) ? -1 : 0;
}

static void
drop_visitor(struct visitor *v)
{
	/* the descriptor leaves the epoll set with the connection, which also ends what the visitor may do */
	(void)rpma_conn_disconnect(v->conn);
	int ret = rpma_conn_delete(&v->conn);
	if (ret)
		report("rpma_conn_delete", ret);
	v->deadline_ms = 0;
}

static struct visitor *
free_visitor(struct replica *r)
{
	for (int i = 0; i < VISITORS_MAX; i++)
		if (r->visitors[i].conn == NULL)
			return &r->visitors[i];
	return NULL;
}

static void
welcome(struct replica *r, struct visitor *v, struct rpma_conn_req *req)
{
	const struct rpma_conn_private_data busy = { (void *)(uintptr_t)BUSY, BUSY_SIZE };
	bool is_writer = v == &r->visitors[WRITER];
	int fd;

	int ret = rpma_conn_req_connect(&req, is_writer ? &r->pdata : &busy, &v->conn);
	if (ret) {
		report("rpma_conn_req_connect", ret);
		return;
	}
	v->deadline_ms = now_ms() + VISITOR_TIMEOUT_MS;
	if (rpma_conn_get_event_fd(v->conn, &fd) || watch(r, fd, (uint32_t)(v - r->visitors)))
		drop_visitor(v);
	else if (!is_writer)
		printf("a second writer was refused\n");
}

static void
next_conn_req(struct replica *r)
{
	struct rpma_conn_private_data hello;
	struct rpma_conn_req *req = NULL;

	int ret = rpma_ep_next_conn_req(r->ep, NULL, &req);
	if (ret == RPMA_E_NO_EVENT)
		return;
	if (ret) {
		report("rpma_ep_next_conn_req", ret);
		return;
	}

	struct visitor *v = free_visitor(r);
	if (v == NULL || rpma_conn_req_get_private_data(req, &hello) ||
		!pdata_begins_with(&hello, HELLO, HELLO_SIZE)) {
		printf("a connection request was rejected: %s\n",
			v ? "not from a writer of this version" : "too many");
		(void)rpma_conn_req_delete(&req);
		return;
	}
	welcome(r, v, req);
}

static void
next_conn_event(struct replica *r, struct visitor *v)
{
	bool is_writer = v == &r->visitors[WRITER];
	enum rpma_conn_event event;

	/* an earlier event of this round may have dropped the visitor */
	if (v->conn == NULL)
		return;

	int ret = rpma_conn_next_event(v->conn, &event);
	if (ret == RPMA_E_NO_EVENT)
		return;
	if (ret == 0 && event == RPMA_CONN_ESTABLISHED && is_writer) {
		printf("writer connected\n");
		v->deadline_ms = 0;
		return;
	}
	if (ret == 0 && event == RPMA_CONN_ESTABLISHED) {
		/* it has its answer; it is dropped when it has gone, or at its deadline */
		(void)rpma_conn_disconnect(v->conn);
		return;
	}

	if (is_writer)
		printf("writer gone: %s\n", ret ? rpma_err_2str(ret) : rpma_utils_conn_event_2str(event));
	drop_visitor(v);
}

/* drops who is late; returns how long to wait for the next one, -1 for ever */
static int
check_deadlines(struct replica *r)
{
	int64_t now = now_ms();
	int64_t wait_ms = -1;

	for (int i = 0; i < VISITORS_MAX; i++) {
		struct visitor *v = &r->visitors[i];
		if (v->deadline_ms == 0)
			continue;
		if (v->deadline_ms <= now)
			drop_visitor(v);
		else if (wait_ms < 0 || v->deadline_ms - now < wait_ms)
			wait_ms = v->deadline_ms - now;
	}

	return (int)wait_ms;
}

static int
serve(struct replica *r)
{
	struct epoll_event events[VISITORS_MAX + 2];

	for (;;) {
		int n = epoll_wait(r->epoll_fd, events, VISITORS_MAX + 2, check_deadlines(r));
		for (int i = 0; i < n; i++)
			if (events[i].data.u32 == EVENT_SIGNAL)
				return 0;
		/* who has gone makes room before a newcomer asks for it */
		for (int i = 0; i < n; i++)
			if (events[i].data.u32 < VISITORS_MAX)
				next_conn_event(r, &r->visitors[events[i].data.u32]);
		for (int i = 0; i < n; i++)
			if (events[i].data.u32 == EVENT_EP)
				next_conn_req(r);
	}
}

static int
replica_start(struct replica *r, const struct options *options)
{
	if (open_log(options, &r->file))
		return -1;

	return register_log(r, options) || listen_on(r, options) || watch_all(r) ? -1 : 0;
}

/* harmless on what was not started */
static int
replica_stop(struct replica *r)
{
	for (int i = 0; i < VISITORS_MAX; i++)
		if (r->visitors[i].conn)
			drop_visitor(&r->visitors[i]);
	if (r->epoll_fd >= 0)
		close(r->epoll_fd);
	if (r->signal_fd >= 0)
		close(r->signal_fd);

	int ret = rpma_ep_shutdown(&r->ep);
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
	/* whole pages: that is what can be mapped */
	options->size = (options->size + LOG_HEADER_SIZE - 1) & ~(uint64_t)(LOG_HEADER_SIZE - 1);

	return true;
}

int
main(int argc, char *argv[])
{
	struct options options = { 0 };
	struct replica replica = { .file.fd = -1, .signal_fd = -1, .epoll_fd = -1 };

	if (!parse_options(argc, argv, &options))
		return usage(argv[0]);

	/* whoever waits for a line of ours gets it at once */
	setvbuf(stdout, NULL, _IOLBF, 0);

	int ret = replica_start(&replica, &options);
	if (ret == 0)
		ret = serve(&replica);
	if (replica_stop(&replica))
		ret = -1;

	return ret ? 1 : 0;
}
