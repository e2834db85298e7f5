/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * connections.c -- the cost of idle connections
 *
 *	bench-connections <connections> <seconds>
 *
 * A server and a client, two processes, over the loopback interface. The client connects, one connection
 * after the other. It writes 64 bytes over each connection and waits for the completions. Then both processes
 * sleep. Prints
 *
 *	1. connections per second,
 *	2. KiB of memory (RSS) of each connection in the server, after all were used,
 *	3. milliseconds of processor time that both processes together take during <seconds> of sleep.
 *
 * The first connection is not counted in 1 and 2, because the device and its thread begin with it. If it is
 * the only one, these are "-". Many connections need many descriptors: the caller raises "ulimit -n".
 */

#include "bench.h"

#include <librpma.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECTIONS_MAX 100000
#define REGION 4096
#define LEN 64

#define OK(call) \
	do { \
		int ok_ret = (call); \
		if (ok_ret) { \
			fprintf(stderr, "%s: %s\n", #call, rpma_err_2str(ok_ret)); \
			exit(1); \
		} \
	} while (0)

static const char addr[] = "127.0.0.1";

/* the state that the server sends to the client over a socket pair */
struct state {
	uint64_t rss_kib;
	double cpu_ms;
};

static double
cpu_ms(void)
{
	struct rusage usage;
	if (getrusage(RUSAGE_SELF, &usage))
		bench_die("getrusage");
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
		(double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

static uint64_t
rss_kib(void)
{
	char line[128], *end;
	FILE *file = fopen("/proc/self/statm", "re");
	if (file == NULL || fgets(line, sizeof(line), file) == NULL)
		bench_die("/proc/self/statm");
	fclose(file);
	/* the second number, in pages */
	(void)strtoul(line, &end, 10);
	return (uint64_t)strtoul(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static void *
new_region(void)
{
	void *mem = aligned_alloc(4096, REGION);
	if (mem == NULL)
		bench_die("memory");
	memset(mem, 0x5a, REGION);
	return mem;
}

/* ---- the server ---- */

/* a port that is free now; no other process is expected to take it meanwhile */
static uint16_t
free_port(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sin, len) ||
		getsockname(fd, (struct sockaddr *)&sin, &len))
		bench_die("a free port");
	close(fd);
	return ntohs(sin.sin_port);
}

/* sends the state when the client asks with a byte; false if the client has ended */
static bool
tell_state(int fd)
{
	char byte;
	if (read(fd, &byte, 1) != 1)
		return false;
	struct state state = { .rss_kib = rss_kib(), .cpu_ms = cpu_ms() };
	if (write(fd, &state, sizeof(state)) != (ssize_t)sizeof(state))
		bench_die("to the client");
	return true;
}

static void
accept_one(struct rpma_ep *ep, const struct rpma_conn_private_data *data, struct rpma_conn **conn)
{
	struct rpma_conn_req *req;
	enum rpma_conn_event event;
	OK(rpma_ep_next_conn_req(ep, NULL, &req));
	OK(rpma_conn_req_connect(&req, data, conn));
	OK(rpma_conn_next_event(*conn, &event));
	OK(event == RPMA_CONN_ESTABLISHED ? 0 : RPMA_E_UNKNOWN);
}

static void
serve(size_t count, int fd)
{
	struct ibv_context *dev;
	struct rpma_peer *peer;
	struct rpma_mr_local *mr;
	struct rpma_ep *ep;
	struct rpma_conn **conns = calloc(count, sizeof(struct rpma_conn *));
	void *mem = new_region();
	char text[8], descriptor[64];
	size_t size;
	uint16_t port = free_port();

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (conns == NULL)
		bench_die("memory");
	OK(rpma_utils_get_ibv_context(addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &dev));
	OK(rpma_peer_new(dev, &peer));
	OK(rpma_mr_reg(peer, mem, REGION, RPMA_MR_USAGE_WRITE_DST, &mr));
	OK(rpma_mr_get_descriptor_size(mr, &size));
	OK(size <= sizeof(descriptor) ? 0 : RPMA_E_UNKNOWN);
	OK(rpma_mr_get_descriptor(mr, descriptor));
	snprintf(text, sizeof(text), "%u", (unsigned int)port);
	OK(rpma_ep_listen(peer, addr, text, &ep));
	if (write(fd, &port, sizeof(port)) != (ssize_t)sizeof(port))
		bench_die("to the client");

	struct rpma_conn_private_data data = { .ptr = descriptor, .len = (uint8_t)size };
	for (size_t i = 0; i < count; i++) {
		accept_one(ep, &data, &conns[i]);
		if (i == 0)
			(void)tell_state(fd);
	}
	while (tell_state(fd))
		;

	for (size_t i = 0; i < count; i++)
		OK(rpma_conn_delete(&conns[i]));
	OK(rpma_ep_shutdown(&ep));
	OK(rpma_mr_dereg(&mr));
	OK(rpma_peer_delete(&peer));
	free(conns);
	free(mem);
}

/* ---- the client ---- */

struct client {
	int fd; /* socket to the server's process */
	char port[8];
	struct rpma_peer *peer;
	struct rpma_mr_local *src;
	struct rpma_conn **conns;
	size_t connected;
};

static struct state
ask_state(const struct client *client)
{
	struct state state;
	if (write(client->fd, "", 1) != 1 ||
		read(client->fd, &state, sizeof(state)) != (ssize_t)sizeof(state)) {
		fprintf(stderr, "the server has ended\n");
		exit(1);
	}
	return state;
}

static void
connect_one(struct client *client)
{
	struct rpma_conn **conn = &client->conns[client->connected++];
	struct rpma_conn_req *req;
	enum rpma_conn_event event;
	OK(rpma_conn_req_new(client->peer, addr, client->port, NULL, &req));
	OK(rpma_conn_req_connect(&req, NULL, conn));
	OK(rpma_conn_next_event(*conn, &event));
	OK(event == RPMA_CONN_ESTABLISHED ? 0 : RPMA_E_UNKNOWN);
}

/* uses the connection once, which makes everything that it makes on first use */
static void
use(const struct client *client, struct rpma_conn *conn)
{
	struct rpma_conn_private_data data;
	struct rpma_mr_remote *dst;
	struct rpma_cq *cq;
	struct ibv_wc wc;
	int ret;
	OK(rpma_conn_get_private_data(conn, &data));
	OK(rpma_mr_remote_from_descriptor(data.ptr, data.len, &dst));
	OK(rpma_conn_get_cq(conn, &cq));
	OK(rpma_write(conn, dst, 0, client->src, 0, LEN, RPMA_F_COMPLETION_ALWAYS, NULL));
	do
		ret = rpma_cq_get_wc(cq, 1, &wc, NULL);
	while (ret == RPMA_E_NO_COMPLETION);
	OK(ret);
	OK(wc.status == IBV_WC_SUCCESS ? 0 : RPMA_E_PROVIDER);
	OK(rpma_mr_remote_delete(&dst));
}

static void
measure(struct client *client, size_t count, double seconds)
{
	connect_one(client);
	use(client, client->conns[0]);
	struct state before = ask_state(client);

	double begin = bench_now_s();
	while (client->connected < count)
		connect_one(client);
	double took = bench_now_s() - begin;
	for (size_t i = 1; i < count; i++)
		use(client, client->conns[i]);
	struct state after = ask_state(client);

	/* spinning after work is part of being idle: it ends soon, or it shows */
	double own_ms = cpu_ms();
	struct timespec rest = { .tv_sec = (time_t)seconds };
	rest.tv_nsec = (long)((seconds - (double)rest.tv_sec) * 1e9);
	nanosleep(&rest, NULL);
	own_ms = cpu_ms() - own_ms;
	double idle_ms = own_ms + ask_state(client).cpu_ms - after.cpu_ms;

	if (count > 1)
		printf("%.0f %.1f %.3f\n", (double)(count - 1) / took,
			((double)after.rss_kib - (double)before.rss_kib) / (double)(count - 1), idle_ms);
	else
		printf("- - %.3f\n", idle_ms);
}

static void
run_client(size_t count, double seconds, int fd)
{
	struct client client = { .fd = fd, .conns = calloc(count, sizeof(struct rpma_conn *)) };
	struct ibv_context *dev;
	void *mem = new_region();
	uint16_t port;

	if (client.conns == NULL)
		bench_die("memory");
	if (read(fd, &port, sizeof(port)) != (ssize_t)sizeof(port)) {
		fprintf(stderr, "the server could not be started\n");
		exit(1);
	}
	snprintf(client.port, sizeof(client.port), "%u", (unsigned int)port);
	OK(rpma_utils_get_ibv_context(addr, RPMA_UTIL_IBV_CONTEXT_REMOTE, &dev));
	OK(rpma_peer_new(dev, &client.peer));
	OK(rpma_mr_reg(client.peer, mem, REGION, RPMA_MR_USAGE_WRITE_SRC, &client.src));

	measure(&client, count, seconds);

	for (size_t i = 0; i < count; i++) {
		OK(rpma_conn_disconnect(client.conns[i]));
		OK(rpma_conn_delete(&client.conns[i]));
	}
	OK(rpma_mr_dereg(&client.src));
	OK(rpma_peer_delete(&client.peer));
	free(client.conns);
	free(mem);
}

int
main(int argc, char *argv[])
{
	if (argc != 3) {
		fprintf(stderr, "usage: bench-connections <connections> <seconds>\n");
		return 2;
	}
	size_t count = (size_t)bench_number(argv[1], 1, CONNECTIONS_MAX);
	double seconds = bench_number(argv[2], 0, 3600);

	int fds[2], status;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		bench_die("socketpair");
	/* fork before the library starts any thread */
	pid_t child = fork();
	if (child < 0)
		bench_die("fork");
	close(fds[child == 0 ? 0 : 1]);
	if (child == 0) {
		serve(count, fds[1]);
		return 0;
	}
	run_client(count, seconds, fds[0]);
	close(fds[0]);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status)) {
		fprintf(stderr, "the server has failed\n");
		return 1;
	}
	return 0;
}
