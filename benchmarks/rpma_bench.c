/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * rpma_bench.c -- how long a small write takes, and how much large ones carry
 *
 *	rpma_bench target <addr>                        prints its port, serves one initiator, asleep in
 *between rpma_bench latency <addr> <port> <writes>       64-byte writes, one at a time, by polling rpma_bench
 *latency-wait <addr> <port> <writes>  the same, asleep until the completion is there rpma_bench bandwidth
 *<addr> <port> <writes>     1 MiB writes, four in flight
 *
 * The initiators print one line: microseconds per write (mean p50 p99), or MB/s (10^6 bytes).
 */

#include <librpma.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SMALL 64
#define LARGE ((size_t)1 << 20)
#define IN_FLIGHT 4
#define REGION (LARGE * IN_FLIGHT)
#define WARM_UP 1000 /* writes that are not counted: connections, caches and processors get up to speed */

#define OK(call) \
	do { \
		int ok_ret = (call); \
		if (ok_ret) { \
			fprintf(stderr, "%s: %s\n", #call, rpma_err_2str(ok_ret)); \
			exit(1); \
		} \
	} while (0)

static double
now_us(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void *
new_region(void)
{
	void *mem = aligned_alloc(4096, REGION);
	if (mem == NULL)
		exit(1);
	memset(mem, 0x5a, REGION); /* the pages are there before the clock runs */
	return mem;
}

/* a port that is free now; the one who listens on it is this process, at once */
static void
free_port(const char *addr, char port[8])
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || inet_pton(AF_INET, addr, &sin.sin_addr) != 1 ||
		bind(fd, (struct sockaddr *)&sin, len) || getsockname(fd, (struct sockaddr *)&sin, &len)) {
		perror(addr);
		exit(1);
	}
	snprintf(port, 8, "%u", (unsigned int)ntohs(sin.sin_port));
	close(fd);
}

static int
target(const char *addr)
{
	struct ibv_context *dev;
	struct rpma_peer *peer;
	struct rpma_mr_local *mr;
	struct rpma_ep *ep;
	struct rpma_conn_req *req;
	struct rpma_conn *conn;
	enum rpma_conn_event event;
	void *mem = new_region();
	char port[8], descriptor[24];
	size_t size;

	OK(rpma_utils_get_ibv_context(addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &dev));
	OK(rpma_peer_new(dev, &peer));
	OK(rpma_mr_reg(peer, mem, REGION, RPMA_MR_USAGE_WRITE_DST, &mr));
	OK(rpma_mr_get_descriptor_size(mr, &size));
	OK(rpma_mr_get_descriptor(mr, descriptor));
	free_port(addr, port);
	OK(rpma_ep_listen(peer, addr, port, &ep));
	printf("%s\n", port);
	fflush(stdout);

	struct rpma_conn_private_data data = { .ptr = descriptor, .len = (uint8_t)size };
	OK(rpma_ep_next_conn_req(ep, NULL, &req));
	OK(rpma_conn_req_connect(&req, &data, &conn));
	do
		OK(rpma_conn_next_event(conn, &event)); /* asleep in here */
	while (event == RPMA_CONN_ESTABLISHED);

	OK(rpma_conn_delete(&conn));
	OK(rpma_ep_shutdown(&ep));
	OK(rpma_mr_dereg(&mr));
	OK(rpma_peer_delete(&peer));
	free(mem);
	return 0;
}

struct side {
	struct rpma_peer *peer;
	struct rpma_conn *conn;
	struct rpma_cq *cq;
	struct rpma_mr_local *src;
	struct rpma_mr_remote *dst;
	void *mem;
	bool sleeps;
};

static void
open_side(struct side *side, const char *addr, const char *port)
{
	struct ibv_context *dev;
	struct rpma_conn_req *req;
	struct rpma_conn_private_data data;
	enum rpma_conn_event event;

	side->mem = new_region();
	OK(rpma_utils_get_ibv_context(addr, RPMA_UTIL_IBV_CONTEXT_REMOTE, &dev));
	OK(rpma_peer_new(dev, &side->peer));
	OK(rpma_mr_reg(side->peer, side->mem, REGION, RPMA_MR_USAGE_WRITE_SRC, &side->src));
	OK(rpma_conn_req_new(side->peer, addr, port, NULL, &req));
	OK(rpma_conn_req_connect(&req, NULL, &side->conn));
	OK(rpma_conn_next_event(side->conn, &event));
	OK(event == RPMA_CONN_ESTABLISHED ? 0 : RPMA_E_UNKNOWN);
	OK(rpma_conn_get_private_data(side->conn, &data));
	OK(rpma_mr_remote_from_descriptor(data.ptr, data.len, &side->dst));
	OK(rpma_conn_get_cq(side->conn, &side->cq));
}

static void
close_side(struct side *side)
{
	OK(rpma_conn_disconnect(side->conn));
	OK(rpma_mr_remote_delete(&side->dst));
	OK(rpma_conn_delete(&side->conn));
	OK(rpma_mr_dereg(&side->src));
	OK(rpma_peer_delete(&side->peer));
	free(side->mem);
}

static void
complete(const struct side *side)
{
	struct ibv_wc wc;
	int ret;
	while ((ret = rpma_cq_get_wc(side->cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
		if (side->sleeps && (ret = rpma_cq_wait(side->cq)) != RPMA_E_NO_COMPLETION)
			OK(ret);
	OK(ret);
	OK(wc.status == IBV_WC_SUCCESS ? 0 : RPMA_E_PROVIDER);
}

static void
post(const struct side *side, size_t offset, size_t len)
{
	OK(rpma_write(side->conn, side->dst, offset, side->src, offset, len, RPMA_F_COMPLETION_ALWAYS, NULL));
}

static int
ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void
latency(const struct side *side, size_t writes)
{
	double *took = malloc(writes * sizeof(*took));
	if (took == NULL)
		exit(1);
	for (int i = 0; i < WARM_UP; i++) {
		post(side, 0, SMALL);
		complete(side);
	}
	double begin = now_us(), last = begin;
	for (size_t i = 0; i < writes; i++) {
		post(side, 0, SMALL);
		complete(side);
		double now = now_us();
		took[i] = now - last;
		last = now;
	}
	qsort(took, writes, sizeof(*took), ascending);
	printf("%.2f %.2f %.2f\n", (last - begin) / (double)writes, took[writes / 2],
		took[writes / 100 * 99]);
	free(took);
}

static void
bandwidth(const struct side *side, size_t writes)
{
	for (size_t i = 0; i < IN_FLIGHT; i++) {
		post(side, i * LARGE, LARGE);
		complete(side);
	}
	double begin = now_us();
	for (size_t i = 0; i < writes + IN_FLIGHT; i++) {
		if (i >= IN_FLIGHT)
			complete(side);
		if (i < writes)
			post(side, i % IN_FLIGHT * LARGE, LARGE);
	}
	printf("%.0f\n", (double)writes * (double)LARGE / (now_us() - begin));
}

int
main(int argc, char *argv[])
{
	if (argc == 3 && strcmp(argv[1], "target") == 0)
		return target(argv[2]);

	size_t writes = argc == 5 ? strtoul(argv[4], NULL, 10) : 0;
	bool wide = argc == 5 && strcmp(argv[1], "bandwidth") == 0;
	struct side side = { .sleeps = argc == 5 && strcmp(argv[1], "latency-wait") == 0 };
	if (writes < 100 || (!wide && !side.sleeps && strcmp(argv[1], "latency") != 0)) {
		fprintf(stderr,
			"usage: rpma_bench target <addr> | latency|latency-wait|bandwidth <addr> <port> <writes>\n");
		return 2;
	}
	open_side(&side, argv[2], argv[3]);
	(wide ? bandwidth : latency)(&side, writes);
	close_side(&side);
	return 0;
}
