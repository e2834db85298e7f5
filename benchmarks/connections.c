/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * connections.c -- the cost of many connections
 *
 *	bench-connections <connections> <seconds idle> [<seconds of load>]
 *
 * A server and a client, a pair of processes, over the loopback interface. The client connects, one connection
 * after the other. It writes 64 bytes over each connection and waits for the completions. Then both processes
 * sleep. Prints
 *
 *	1. connections per second,
 *	2. KiB of memory (RSS) of each connection in the server, after all were used,
 *	3. milliseconds of processor time that both processes together take during <seconds idle> of sleep.
 *
 * The first connection is not counted in 1 and 2, because the device and its thread begin with it. If it is
 * the only one, these are "-".
 *
 * If seconds of load are given, two more pairs of processes make 8 connections and 1 connection. In each round
 * the three pairs write for that long, one pair after the other, while the other two sleep. The medians of all
 * rounds follow, each for the first pair, for 8 connections and for 1 connection:
 *
 *	4. to 6.   writes of 64 bytes per second over all connections. One thread posts a batch over each one in
 *	           turn, and polls; each write completes.
 *	7. to 9.   us from the post of a write to its completion, if one connection is busy with one write at a time
 *	           and the others are idle: half of the writes take no longer (p50).
 *	10. to 12. the same for 99 of 100 writes (p99).
 *
 * Many connections need many descriptors: the caller raises "ulimit -n".
 */

#include "bench.h"

#include <librpma.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECTIONS_MAX 100000
#define LEN 64                      /* bytes of a write */
#define BATCH 16                    /* writes that leave together, when those before them are complete */
#define SHARE ((size_t)BATCH * LEN) /* bytes of memory of each connection, at either side */

#define ROUNDS 5
#define TURNS_MIN 2                   /* over all connections, in each measurement of the rate */
#define SAMPLES_MAX ((size_t)1 << 20) /* times that one measurement keeps */

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
new_region(size_t count)
{
	const size_t size = (count * SHARE + 4095) / 4096 * 4096;
	void *mem = aligned_alloc(4096, size);
	if (mem == NULL)
		bench_die("memory");
	memset(mem, 0x5a, size); /* touches the pages before they count */
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
	void *mem = new_region(count);
	char text[8], descriptor[64];
	size_t size;
	uint16_t port = free_port();

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (conns == NULL)
		bench_die("memory");
	OK(rpma_utils_get_ibv_context(addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &dev));
	OK(rpma_peer_new(dev, &peer));
	OK(rpma_mr_reg(peer, mem, count * SHARE, RPMA_MR_USAGE_WRITE_DST, &mr));
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

struct lane {
	struct rpma_conn *conn;
	struct rpma_cq *cq;
	unsigned in_flight;
};

struct client {
	int server; /* socket to the server's process */
	char port[8];
	struct rpma_peer *peer;
	struct rpma_conn_cfg *cfg;
	struct rpma_mr_local *src;
	struct rpma_mr_remote *dst;
	struct lane *lanes;
	size_t connected;
};

static struct state
ask_state(const struct client *client)
{
	struct state state;
	if (write(client->server, "", 1) != 1 ||
		read(client->server, &state, sizeof(state)) != (ssize_t)sizeof(state)) {
		fprintf(stderr, "the server has ended\n");
		exit(1);
	}
	return state;
}

static void
connect_one(struct client *client)
{
	struct lane *lane = &client->lanes[client->connected++];
	struct rpma_conn_req *req;
	enum rpma_conn_event event;
	OK(rpma_conn_req_new(client->peer, addr, client->port, client->cfg, &req));
	OK(rpma_conn_req_connect(&req, NULL, &lane->conn));
	OK(rpma_conn_next_event(lane->conn, &event));
	OK(event == RPMA_CONN_ESTABLISHED ? 0 : RPMA_E_UNKNOWN);
	OK(rpma_conn_get_cq(lane->conn, &lane->cq));
}

/* the server sends the same description of its memory to all connections */
static void
take_description(struct client *client)
{
	struct rpma_conn_private_data data;
	OK(rpma_conn_get_private_data(client->lanes[0].conn, &data));
	OK(rpma_mr_remote_from_descriptor(data.ptr, data.len, &client->dst));
}

static void
post(const struct client *client, struct lane *lane, int more)
{
	const size_t at = (size_t)(lane - client->lanes) * SHARE + lane->in_flight * LEN;
	OK(rpma_write(lane->conn, client->dst, at, client->src, at, LEN, RPMA_F_COMPLETION_ALWAYS | more,
		NULL));
	lane->in_flight++;
}

/* returns the number of writes that have completed */
static unsigned
collect(struct lane *lane)
{
	struct ibv_wc wc[BATCH];
	int got = 0;
	int ret = rpma_cq_get_wc(lane->cq, BATCH, wc, &got);
	OK(ret == RPMA_E_NO_COMPLETION ? 0 : ret);
	for (int i = 0; i < got; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			fprintf(stderr, "a write has failed: %s\n", ibv_wc_status_str(wc[i].status));
			exit(1);
		}
	}
	lane->in_flight -= (unsigned)got;
	return (unsigned)got;
}

static void
write_once(const struct client *client, struct lane *lane)
{
	post(client, lane, 0);
	while (collect(lane) == 0)
		;
}

/* connects, and uses each connection once, which makes everything that it makes on first use */
static void
measure_connecting(struct client *client, size_t count, double *per_s, double *kib)
{
	connect_one(client);
	take_description(client);
	write_once(client, &client->lanes[0]);
	struct state before = ask_state(client);

	double begin = bench_now_s();
	while (client->connected < count)
		connect_one(client);
	double took = bench_now_s() - begin;
	for (size_t i = 1; i < count; i++)
		write_once(client, &client->lanes[i]);
	struct state after = ask_state(client);

	*per_s = (double)(count - 1) / took;
	*kib = ((double)after.rss_kib - (double)before.rss_kib) / (double)(count - 1);
}

static double
measure_idle_ms(const struct client *client, double seconds)
{
	/* spinning after work is part of being idle: it ends soon, or it shows */
	const double before_ms = cpu_ms() + ask_state(client).cpu_ms;
	struct timespec rest = { .tv_sec = (time_t)seconds };
	rest.tv_nsec = (long)((seconds - (double)rest.tv_sec) * 1e9);
	nanosleep(&rest, NULL);
	return cpu_ms() + ask_state(client).cpu_ms - before_ms;
}

/*
 * Keeps a batch in flight on each connection for that long, or for some turns over all of them if that takes longer: what
 * is posted in one turn is collected in the next. Returns writes per second.
 */
static double
write_over_all(const struct client *client, double seconds)
{
	const double begin = bench_now_s();
	double now = begin;
	size_t done = 0;
	for (size_t n = 0; now - begin < seconds || n < TURNS_MIN * client->connected; n++) {
		struct lane *lane = &client->lanes[n % client->connected];
		if (lane->in_flight == 0)
			for (unsigned left = BATCH; left > 0; left--)
				post(client, lane, left > 1 ? RPMA_F_MORE : 0);
		done += collect(lane);
		now = bench_now_s();
	}
	return (double)done / (now - begin);
}

static double
measure_rate(const struct client *client, double seconds)
{
	(void)write_over_all(client, BENCH_WARM_UP_S);
	double rate = write_over_all(client, seconds);
	for (size_t i = 0; i < client->connected; i++)
		while (client->lanes[i].in_flight > 0)
			(void)collect(&client->lanes[i]);
	return rate;
}

static int
compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/* writes over the first connection, one at a time; the others are idle */
static void
measure_latency(const struct client *client, double seconds, double *p50_us, double *p99_us)
{
	double *samples = calloc(SAMPLES_MAX, sizeof(*samples));
	if (samples == NULL)
		bench_die("memory");
	double now = bench_now_s();
	const double begin = now + BENCH_WARM_UP_S;
	size_t count = 0;
	while (now < begin + seconds && count < SAMPLES_MAX) {
		const double before = now;
		write_once(client, &client->lanes[0]);
		now = bench_now_s();
		if (before >= begin)
			samples[count++] = (now - before) * 1e6;
	}
	qsort(samples, count, sizeof(*samples), compare);
	*p50_us = samples[count / 2];
	*p99_us = samples[count / 100 * 99];
	free(samples);
}

/* ---- a pair of processes, and those who ask it ---- */

enum what { CONNECTING, IDLE, RATE, LATENCY, END };

struct question {
	enum what what;
	double seconds;
};

struct pair {
	int fd; /* socket to its client */
	pid_t client;
};

static void
answer_questions(struct client *client, size_t count, int fd)
{
	for (;;) {
		struct question question;
		double answer[2] = { 0 };
		if (read(fd, &question, sizeof(question)) != (ssize_t)sizeof(question))
			bench_die("from the parent process");
		switch (question.what) {
		case CONNECTING:
			measure_connecting(client, count, &answer[0], &answer[1]);
			break;
		case IDLE:
			answer[0] = measure_idle_ms(client, question.seconds);
			break;
		case RATE:
			answer[0] = measure_rate(client, question.seconds);
			break;
		case LATENCY:
			measure_latency(client, question.seconds, &answer[0], &answer[1]);
			break;
		case END:
			return;
		}
		if (write(fd, answer, sizeof(answer)) != (ssize_t)sizeof(answer))
			bench_die("to the parent process");
	}
}

static void
run_client(size_t count, int server, int parent)
{
	struct client client = { .server = server, .lanes = calloc(count, sizeof(struct lane)) };
	struct ibv_context *dev;
	void *mem = new_region(count);
	uint16_t port;

	if (client.lanes == NULL)
		bench_die("memory");
	if (read(server, &port, sizeof(port)) != (ssize_t)sizeof(port)) {
		fprintf(stderr, "the server could not be started\n");
		exit(1);
	}
	snprintf(client.port, sizeof(client.port), "%u", (unsigned int)port);
	OK(rpma_utils_get_ibv_context(addr, RPMA_UTIL_IBV_CONTEXT_REMOTE, &dev));
	OK(rpma_peer_new(dev, &client.peer));
	OK(rpma_mr_reg(client.peer, mem, count * SHARE, RPMA_MR_USAGE_WRITE_SRC, &client.src));
	OK(rpma_conn_cfg_new(&client.cfg));
	OK(rpma_conn_cfg_set_sq_size(client.cfg, BATCH));
	OK(rpma_conn_cfg_set_cq_size(client.cfg, BATCH));

	answer_questions(&client, count, parent);

	for (size_t i = 0; i < client.connected; i++) {
		OK(rpma_conn_disconnect(client.lanes[i].conn));
		OK(rpma_conn_delete(&client.lanes[i].conn));
	}
	OK(rpma_mr_remote_delete(&client.dst));
	OK(rpma_conn_cfg_delete(&client.cfg));
	OK(rpma_mr_dereg(&client.src));
	OK(rpma_peer_delete(&client.peer));
	free(client.lanes);
	free(mem);
}

/* a socket pair and a child; *fd is this process's end of it. Returns as fork(2). */
static pid_t
fork_with_socket(int *fd)
{
	int fds[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		bench_die("socketpair");
	fflush(stdout); /* the child has a copy of what is not written yet */
	pid_t child = fork();
	if (child < 0)
		bench_die("fork");
	close(fds[child == 0 ? 0 : 1]);
	*fd = fds[child == 0 ? 1 : 0];
	return child;
}

static void
expect_success(pid_t child, const char *who)
{
	int status;
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status)) {
		fprintf(stderr, "%s has failed\n", who);
		exit(1);
	}
}

/* the client's process, which starts the server's; both before the library starts any thread in them */
_Noreturn static void
run_pair(size_t count, int parent)
{
	int fd;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	pid_t child = fork_with_socket(&fd);
	if (child == 0) {
		close(parent);
		serve(count, fd);
		exit(0);
	}
	run_client(count, fd, parent);
	close(fd);
	expect_success(child, "a server");
	exit(0);
}

static struct pair
start_pair(size_t count)
{
	struct pair pair;
	pair.client = fork_with_socket(&pair.fd);
	if (pair.client == 0)
		run_pair(count, pair.fd);
	return pair;
}

static void
send_question(const struct pair *pair, enum what what, double seconds)
{
	const struct question question = { what, seconds };
	if (write(pair->fd, &question, sizeof(question)) != (ssize_t)sizeof(question))
		bench_die("to a client");
}

static void
ask(const struct pair *pair, enum what what, double seconds, double answer[static 2])
{
	const ssize_t size = 2 * sizeof(*answer);
	send_question(pair, what, seconds);
	if (read(pair->fd, answer, (size_t)size) != size) {
		fprintf(stderr, "a client has ended\n");
		exit(1);
	}
}

/* later pairs have copies of the socket, so its end would not reach the client */
static void
end_pair(const struct pair *pair)
{
	send_question(pair, END, 0);
	expect_success(pair->client, "a client");
	close(pair->fd);
}

/* ---- the measurement ---- */

enum { MANY, FEW, ONE, PAIRS };

static void
print_idle(const struct pair *pair, size_t count, double seconds)
{
	double connecting[2], idle[2];
	ask(pair, CONNECTING, 0, connecting);
	ask(pair, IDLE, seconds, idle);
	if (count > 1)
		printf("%.0f %.1f %.3f", connecting[0], connecting[1], idle[0]);
	else
		printf("- - %.3f", idle[0]);
}

static void
print_medians(double figures[static PAIRS][ROUNDS], int decimals)
{
	for (int i = 0; i < PAIRS; i++) {
		qsort(figures[i], ROUNDS, sizeof(figures[i][0]), compare);
		printf(" %.*f", decimals, figures[i][ROUNDS / 2]);
	}
}

static void
print_load(struct pair pairs[static PAIRS], double seconds)
{
	double rate[PAIRS][ROUNDS], p50[PAIRS][ROUNDS], p99[PAIRS][ROUNDS], answer[2];
	pairs[FEW] = start_pair(8);
	pairs[ONE] = start_pair(1);
	ask(&pairs[FEW], CONNECTING, 0, answer);
	ask(&pairs[ONE], CONNECTING, 0, answer);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < PAIRS; i++) {
			ask(&pairs[i], RATE, seconds, answer);
			rate[i][round] = answer[0];
		}
		for (int i = 0; i < PAIRS; i++) {
			ask(&pairs[i], LATENCY, seconds, answer);
			p50[i][round] = answer[0];
			p99[i][round] = answer[1];
		}
	}
	print_medians(rate, 0);
	print_medians(p50, 2);
	print_medians(p99, 2);
	end_pair(&pairs[FEW]);
	end_pair(&pairs[ONE]);
}

int
main(int argc, char *argv[])
{
	if (argc != 3 && argc != 4) {
		fprintf(stderr,
			"usage: bench-connections <connections> <seconds idle> [<seconds of load>]\n");
		return 2;
	}
	size_t count = (size_t)bench_number(argv[1], 1, CONNECTIONS_MAX);
	double idle_s = bench_number(argv[2], 0, 3600);
	double load_s = argc > 3 ? bench_number(argv[3], 0.01, 3600) : 0;

	struct pair pairs[PAIRS];
	pairs[MANY] = start_pair(count);
	print_idle(&pairs[MANY], count, idle_s);
	if (load_s > 0)
		print_load(pairs, load_s);
	printf("\n");
	end_pair(&pairs[MANY]);
	return 0;
}
