/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * flipped_bits.c -- no byte that a network card, a switch or a driver has damaged is stored and acknowledged
 *
 *	flipped_bits [--flips N] [--seed S] [--control N]
 *
 * A proxy between client and server flips one random bit in the stream of each connection. The bit may be
 * anywhere in either direction, from the first byte of the handshake to the last byte. Each connection makes
 * every operation. With CRC32C a success must not have a wrong byte: in memory (written or not), immediate
 * data, length, result of an atomic, private data. The control runs without CRC32C and must see successes
 * with wrong bytes; otherwise this test would be blind.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <librpma.h>

#include "deadline.h"
#include "net.h"
#include "options.h"
#include "pair.h"
#include "pattern.h"
#include "wait.h"

#define ADDRESS "127.0.0.1"
#define FLIPS 300
#define CONTROL_FLIPS 1000
#define CONTROL_ENOUGH 20 /* successes with wrong bytes, after which the control stops */

/* without CRC32C a damaged length makes one side wait for bytes that never come */
#define CONTROL_WAIT_MS 200

#define SIZE (128u * 1024)

/* the places of the operations in the memory of both sides */
enum {
	ATOMIC_WRITE_AT = 1024,
	SWAP_AT = 1032,
	ADD_AT = 1040,
	READ_AT = 2048,
	WRITE_AT = 4096,
	IMM_AT = 8192
};
enum { BIG_AT = 16384, RECEIVE_AT = 100000, RESULT_AT = 110000, SEND_AT = 112000 };
enum { READ_LEN = 1500, WRITE_LEN = 3000, IMM_LEN = 513, BIG_LEN = 70001, SEND_LEN = 300 };
enum { ASK_LEN = 40, ANSWER_LEN = 30 };

enum operation { WRITE, BIG, WRITE_IMM, SEND, READ, ATOMIC_WRITE, SWAP, ADD, FLUSH, OPERATIONS };

#define ADDEND 0x123456789abcdefull
#define IMM_OF_WRITE 0xa1b2c3d4u
#define IMM_OF_SEND 0x5e6f7081u
#define IMM_OF_ANSWER 0x01fe23dcu

/* --- the proxy: one connection at a time --- */

struct flip {
	int way; /* 0: in the client's bytes; 1: in the server's; -1: no flip */
	uint64_t at;
	int bit;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t idle;
	bool busy;
	int listener;
	struct sockaddr_in server;
	struct flip flip;
	uint64_t passed[2]; /* bytes of the last connection, by direction */
	uint64_t flipped;
} proxy = { .lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER, .listener = -1 };

_Noreturn static void
give_up(const char *what)
{
	fprintf(stderr, "flipped_bits: %s: %s; %s\n", what, strerror(errno), rpma_errormsg());
	exit(1);
}

/* forwards bytes; false if this direction has ended */
static bool
pass_on(int from, int to, int way)
{
	static uint8_t bytes[65536];
	ssize_t n = recv(from, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	const uint64_t begin = proxy.passed[way];
	proxy.passed[way] += (uint64_t)n;
	if (proxy.flip.way == way && proxy.flip.at >= begin && proxy.flip.at < begin + (uint64_t)n) {
		bytes[proxy.flip.at - begin] ^= (uint8_t)(1u << proxy.flip.bit);
		proxy.flipped++;
	}
	for (ssize_t sent = 0; sent < n;) {
		ssize_t m = send(to, bytes + sent, (size_t)(n - sent), MSG_NOSIGNAL);
		if (m < 0 && errno != EINTR)
			return false;
		sent += m > 0 ? m : 0;
	}
	return true;
}

static void
be_wire(int client, int server)
{
	const int fd[2] = { client, server };
	bool open[2] = { true, true };
	while (open[0] || open[1]) {
		struct pollfd pfd[2];
		for (int way = 0; way < 2; way++)
			pfd[way] = (struct pollfd){ .fd = open[way] ? fd[way] : -1, .events = POLLIN };
		if (poll(pfd, 2, -1) < 0)
			continue;
		for (int way = 0; way < 2; way++) {
			if (!pfd[way].revents || pass_on(fd[way], fd[!way], way))
				continue;
			open[way] = false;
			shutdown(fd[!way], SHUT_WR);
		}
	}
}

static void *
run_proxy(void *arg)
{
	const int one = 1;
	for (;;) {
		int client = accept(proxy.listener, NULL, NULL);
		if (client < 0)
			return arg;
		pthread_mutex_lock(&proxy.lock); /* orders this after the other thread's writes */
		pthread_mutex_unlock(&proxy.lock);
		int server = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(server, (struct sockaddr *)&proxy.server, sizeof(proxy.server)) != 0)
			give_up("the server cannot be reached");
		setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		be_wire(client, server);
		close(client);
		close(server);
		pthread_mutex_lock(&proxy.lock);
		proxy.busy = false;
		pthread_cond_signal(&proxy.idle);
		pthread_mutex_unlock(&proxy.lock);
	}
}

static void
start_proxy(const char *server_port, char port[NET_PORT_LEN])
{
	pthread_t thread;
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	proxy.server = addr;
	proxy.server.sin_port = htons((uint16_t)atoi(server_port));
	proxy.listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(proxy.listener, (struct sockaddr *)&addr, len) != 0 || listen(proxy.listener, 1) != 0 ||
		getsockname(proxy.listener, (struct sockaddr *)&addr, &len) != 0 ||
		pthread_create(&thread, NULL, run_proxy, NULL) != 0)
		give_up("no proxy");
	pthread_detach(thread);
	snprintf(port, NET_PORT_LEN, "%u", ntohs(addr.sin_port));
}

static void
next_wire(const struct flip *flip)
{
	pthread_mutex_lock(&proxy.lock);
	proxy.busy = true;
	proxy.flip = *flip;
	proxy.passed[0] = proxy.passed[1] = 0;
	pthread_mutex_unlock(&proxy.lock);
}

static void
await_end_of_wire(void)
{
	pthread_mutex_lock(&proxy.lock);
	while (proxy.busy)
		pthread_cond_wait(&proxy.idle, &proxy.lock);
	pthread_mutex_unlock(&proxy.lock);
}

/* --- two sides --- */

static struct rpma_peer *client_peer, *server_peer;
static struct rpma_ep *ep;
static struct rpma_conn_cfg *cfg;
static struct rpma_mr_local *client_mr, *server_mr;
static struct rpma_mr_remote *remote;
static char proxy_port[NET_PORT_LEN];
static int wait_ms = WAIT_MS;

static uint8_t client_memory[SIZE], server_memory[SIZE];
static uint8_t before[SIZE], after[SIZE]; /* of the server's memory */

static struct {
	unsigned long rounds, wrong, failed, stuck, damage;
} result;

/* counts and reports a success with a wrong byte */
__attribute__((format(printf, 1, 2))) static void
wrong(const char *format, ...)
{
	va_list ap;
	result.wrong++;
	printf("# flip of bit %d of byte %llu of what the %s sends: ", proxy.flip.bit,
		(unsigned long long)proxy.flip.at, proxy.flip.way ? "server" : "client");
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	printf("\n");
}

static void
set_up(void)
{
	struct ibv_context *ctx;
	char port[NET_PORT_LEN], descriptor[64];
	size_t size;
	const int all = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC |
		RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_SEND |
		RPMA_MR_USAGE_RECV;
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED);
	if (rpma_utils_get_ibv_context(ADDRESS, RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx) ||
		rpma_peer_new(ctx, &server_peer) ||
		rpma_utils_get_ibv_context(ADDRESS, RPMA_UTIL_IBV_CONTEXT_REMOTE, &ctx) ||
		rpma_peer_new(ctx, &client_peer) || pair_listen(server_peer, ADDRESS, port, &ep) ||
		rpma_conn_cfg_new(&cfg) || rpma_conn_cfg_set_sq_size(cfg, 16) ||
		rpma_conn_cfg_set_rq_size(cfg, 8) || rpma_conn_cfg_set_cq_size(cfg, 32) ||
		rpma_mr_reg(client_peer, client_memory, SIZE, all, &client_mr) ||
		rpma_mr_reg(server_peer, server_memory, SIZE, all, &server_mr) ||
		rpma_mr_get_descriptor_size(server_mr, &size) || size > sizeof(descriptor) ||
		rpma_mr_get_descriptor(server_mr, descriptor) ||
		rpma_mr_remote_from_descriptor(descriptor, size, &remote))
		give_up("no two sides");
	start_proxy(port, proxy_port);
}

static uint64_t
word(const uint8_t *at)
{
	uint64_t value;
	memcpy(&value, at, sizeof(value));
	return value;
}

static void
put_word(uint8_t *at, uint64_t value)
{
	memcpy(at, &value, sizeof(value));
}

/*
 * Fills the memory of both sides, and computes the server's final content. The client keeps the bytes that it
 * sends at the offsets where they go.
 */
static void
fill_memory(uint64_t seed)
{
	static const struct {
		unsigned at, len;
	} places[] = { { WRITE_AT, WRITE_LEN }, { BIG_AT, BIG_LEN }, { IMM_AT, IMM_LEN },
		{ ATOMIC_WRITE_AT, 8 } };
	pattern_fill(before, SIZE, seed, 0);
	pattern_fill(client_memory, SIZE, ~seed, 0);
	memcpy(server_memory, before, SIZE);
	memcpy(after, before, SIZE);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		memcpy(after + places[i].at, client_memory + places[i].at, places[i].len);
	memcpy(after + RECEIVE_AT, client_memory + SEND_AT, SEND_LEN);
	put_word(after + SWAP_AT, ~seed);
	put_word(after + ADD_AT, word(before + ADD_AT) + ADDEND);
}

static bool
is_private_data(const struct rpma_conn_private_data *pdata, uint64_t seed, unsigned len)
{
	return pdata->len == len && pattern_check(pdata->ptr, len, seed, 0) < 0;
}

/* --- one connection --- */

struct sides {
	uint64_t seed;
	struct rpma_conn *client, *server;
	unsigned posted;
	bool done[OPERATIONS]; /* successfully */
	bool received_imm, received, answered;
};

/* accepts the next request, after posting its receives */
static bool
accept_client(struct sides *sides)
{
	struct rpma_conn_req *req = NULL;
	struct rpma_conn_private_data pdata = { NULL, 0 };
	uint8_t answer[ANSWER_LEN];
	struct rpma_conn_private_data say = { answer, sizeof(answer) };
	int fd;
	enum rpma_conn_event event;
	if (rpma_ep_get_fd(ep, &fd))
		give_up("no descriptor");
	/* the client's attempt may also fail */
	int client_fd;
	rpma_conn_get_event_fd(sides->client, &client_fd);
	struct pollfd pfd[2] = { { .fd = fd, .events = POLLIN }, { .fd = client_fd, .events = POLLIN } };
	if (poll(pfd, 2, wait_ms) == 0)
		result.stuck++;
	if (!(pfd[0].revents & POLLIN)) {
		/* only the fact that it has ended matters */
		wait_event(sides->client, &event, 0);
		return false;
	}
	if (rpma_ep_next_conn_req(ep, cfg, &req))
		return false;
	if (rpma_conn_req_get_private_data(req, &pdata) == 0 &&
		!is_private_data(&pdata, sides->seed + 1, ASK_LEN))
		wrong("a request with other private data");
	pattern_fill(answer, sizeof(answer), sides->seed + 2, 0);
	/* for the message, and for the write with immediate */
	for (int i = 0; i < 2; i++) {
		if (rpma_conn_req_recv(req, server_mr, RECEIVE_AT, 1024, NULL))
			give_up("no receives");
	}
	return rpma_conn_req_connect(&req, &say, &sides->server) == 0;
}

static bool
connect_sides(struct sides *sides)
{
	struct rpma_conn_req *req = NULL;
	struct rpma_conn_private_data pdata = { NULL, 0 };
	uint8_t ask[ASK_LEN];
	struct rpma_conn_private_data say = { ask, sizeof(ask) };
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	pattern_fill(ask, sizeof(ask), sides->seed + 1, 0);
	if (rpma_conn_req_new(client_peer, ADDRESS, proxy_port, cfg, &req) ||
		rpma_conn_req_recv(req, client_mr, RECEIVE_AT, 1024, NULL) ||
		rpma_conn_req_connect(&req, &say, &sides->client))
		give_up("no client");
	if (!accept_client(sides))
		return false;
	if (wait_event(sides->client, &event, wait_ms) == RPMA_E_NO_EVENT)
		result.stuck++;
	if (event != RPMA_CONN_ESTABLISHED)
		return false;
	if (rpma_conn_get_private_data(sides->client, &pdata) == 0 &&
		!is_private_data(&pdata, sides->seed + 2, ANSWER_LEN))
		wrong("an acceptance with other private data");
	event = RPMA_CONN_UNDEFINED;
	if (wait_event(sides->server, &event, wait_ms) == RPMA_E_NO_EVENT)
		result.stuck++;
	return event == RPMA_CONN_ESTABLISHED;
}

static const void *
context_of(enum operation op)
{
	return (const void *)(uintptr_t)(op + 1);
}

static int
post(struct sides *sides, enum operation op)
{
	struct rpma_conn *conn = sides->client;
	const void *context = context_of(op);
	const int always = RPMA_F_COMPLETION_ALWAYS;
	char value[8];
	switch (op) {
	case WRITE:
		return rpma_write(conn, remote, WRITE_AT, client_mr, WRITE_AT, WRITE_LEN, always, context);
	case BIG:
		return rpma_write(conn, remote, BIG_AT, client_mr, BIG_AT, BIG_LEN, always, context);
	case WRITE_IMM:
		return rpma_write_with_imm(conn, remote, IMM_AT, client_mr, IMM_AT, IMM_LEN, always,
			IMM_OF_WRITE, context);
	case SEND:
		return rpma_send_with_imm(conn, client_mr, SEND_AT, SEND_LEN, always, IMM_OF_SEND, context);
	case READ:
		return rpma_read(conn, client_mr, READ_AT, remote, READ_AT, READ_LEN, always, context);
	case ATOMIC_WRITE:
		memcpy(value, client_memory + ATOMIC_WRITE_AT, sizeof(value));
		return rpma_atomic_write(conn, remote, ATOMIC_WRITE_AT, value, always, context);
	case SWAP:
		return rpma_compare_and_swap(conn, client_mr, RESULT_AT, remote, SWAP_AT,
			word(before + SWAP_AT), ~sides->seed, always, context);
	case ADD:
		return rpma_fetch_and_add(conn, client_mr, RESULT_AT + 8, remote, ADD_AT, ADDEND, always,
			context);
	default:
		return rpma_flush(conn, remote, 0, SIZE, RPMA_FLUSH_TYPE_VISIBILITY, always, context);
	}
}

/* handles a completion of the client: of an operation, or of the server's message */
static void
client_completion(struct sides *sides, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		return;
	if (wc->wr_id == 0) {
		sides->answered = true;
		if (wc->byte_len != SEND_LEN || ntohl(wc->imm_data) != IMM_OF_ANSWER ||
			memcmp(client_memory + RECEIVE_AT, before + SEND_AT, SEND_LEN) != 0)
			wrong("a message to the client with other bytes, length or immediate data");
		return;
	}
	const enum operation op = (enum operation)(wc->wr_id - 1);
	sides->done[op] = true;
	if (op == READ && memcmp(client_memory + READ_AT, before + READ_AT, READ_LEN) != 0)
		wrong("a read with other bytes");
	if (op == SWAP && word(client_memory + RESULT_AT) != word(before + SWAP_AT))
		wrong("a swap with another result");
	if (op == ADD && word(client_memory + RESULT_AT + 8) != word(before + ADD_AT))
		wrong("an addition with another result");
}

static void
server_completion(struct sides *sides, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS || wc->wr_id != 0)
		return;
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		sides->received_imm = true;
		if (wc->byte_len != IMM_LEN || ntohl(wc->imm_data) != IMM_OF_WRITE)
			wrong("a write with another length or immediate data");
		return;
	}
	sides->received = true;
	if (wc->byte_len != SEND_LEN || ntohl(wc->imm_data) != IMM_OF_SEND ||
		memcmp(server_memory + RECEIVE_AT, after + RECEIVE_AT, SEND_LEN) != 0)
		wrong("a message to the server with other bytes, length or immediate data");
}

/* takes `count` completions, or fewer if others do not come in time */
static void
collect(struct sides *sides, struct rpma_conn *conn, unsigned count,
	void (*take)(struct sides *sides, const struct ibv_wc *wc))
{
	struct rpma_cq *cq;
	struct ibv_wc wc;
	if (rpma_conn_get_cq(conn, &cq))
		give_up("no completion queue");
	for (unsigned i = 0; i < count; i++) {
		if (wait_wc(cq, &wc, wait_ms)) {
			result.stuck++;
			return;
		}
		take(sides, &wc);
	}
}

static void
work(struct sides *sides)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;
	unsigned answers = 0;
	/* the server's message comes from a place that is never written to */
	if (rpma_send_with_imm(sides->server, server_mr, SEND_AT, SEND_LEN, RPMA_F_COMPLETION_ALWAYS,
		    IMM_OF_ANSWER, context_of(0)) == 0)
		answers++;
	for (enum operation op = 0; op < OPERATIONS; op++)
		sides->posted += post(sides, op) == 0;
	collect(sides, sides->client, sides->posted + 1, client_completion);
	/*
	 * two receives and the message; if the connection has ended, they are flushed when it is deleted here
	 */
	if (rpma_conn_get_cq(sides->server, &cq))
		give_up("no completion queue");
	bool over = !sides->done[FLUSH] || !sides->answered;
	if (!over)
		collect(sides, sides->server, 2 + answers, server_completion);
	while (over && rpma_cq_get_wc(cq, 1, &wc, NULL) == 0)
		server_completion(sides, &wc);
}

/*
 * each byte must be that of before or of after; if an operation succeeded, its bytes must be those of after
 */
static void
look_at_memory(const struct sides *sides)
{
	static const struct {
		enum operation op;
		unsigned at, len;
	} places[] = { { WRITE, WRITE_AT, WRITE_LEN }, { BIG, BIG_AT, BIG_LEN },
		{ WRITE_IMM, IMM_AT, IMM_LEN }, { SEND, RECEIVE_AT, SEND_LEN },
		{ ATOMIC_WRITE, ATOMIC_WRITE_AT, 8 }, { SWAP, SWAP_AT, 8 }, { ADD, ADD_AT, 8 } };
	for (size_t i = 0; i < SIZE; i++) {
		if (server_memory[i] != before[i] && server_memory[i] != after[i]) {
			wrong("byte %zu of the server's memory is what nobody has sent there", i);
			break;
		}
	}
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (sides->done[places[i].op] &&
			memcmp(server_memory + places[i].at, after + places[i].at, places[i].len) != 0)
			wrong("operation %d had success, and its bytes are not there", (int)places[i].op);
	}
	if ((sides->done[WRITE_IMM] && sides->received_imm == false && sides->done[FLUSH] &&
		    sides->answered) ||
		(sides->done[SEND] && sides->received == false && sides->done[FLUSH] && sides->answered))
		wrong("a message had success, and was not received");
}

static void
end_conn(struct rpma_conn **conn, bool orderly)
{
	struct rpma_conn_stats stats = { .size = sizeof(stats) };
	enum rpma_conn_event event;
	if (*conn == NULL)
		return;
	if (orderly && rpma_conn_disconnect(*conn) == 0)
		wait_event(*conn, &event, wait_ms);
	if (rpma_conn_get_stats(*conn, &stats) == 0)
		result.damage += stats.crc_errors;
	rpma_conn_delete(conn);
}

static void
make_round(const struct flip *flip, uint64_t seed)
{
	struct sides sides = { .seed = seed };
	result.rounds++;
	fill_memory(seed);
	next_wire(flip);
	bool connected = connect_sides(&sides);
	if (connected)
		work(&sides);
	end_conn(&sides.client, connected);
	end_conn(&sides.server, false);
	await_end_of_wire();
	look_at_memory(&sides);
	for (enum operation op = 0; op < OPERATIONS; op++) {
		if (!sides.done[op]) {
			result.failed++;
			break;
		}
	}
	/* a request of a client that has gone */
	struct rpma_conn_req *req;
	while (wait_conn_req(ep, cfg, &req, 0) == 0)
		rpma_conn_req_delete(&req);
}

static uint64_t state;

static uint64_t
by_chance(uint64_t below)
{
	state += 0x9e3779b97f4a7c15ull;
	uint64_t z = state;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % below;
}

static void
flip_bits(const char *crc, unsigned long flips, unsigned long enough)
{
	const struct flip none = { .way = -1 };
	setenv("SOFTRDMA_CRC", crc, 1);
	memset(&result, 0, sizeof(result));
	make_round(&none, state);
	if (result.wrong || result.failed)
		give_up("without a flip not all is well");
	const uint64_t length[2] = { proxy.passed[0], proxy.passed[1] };
	proxy.flipped = 0;
	/* the bytes sent differ a little each time, so a byte near the end may not come */
	for (unsigned long i = 0; proxy.flipped < flips && i < 2 * flips && result.wrong < enough; i++) {
		/*
		 * the server sends less, but each of its bytes matters as much: half of the flips are in its
		 * direction
		 */
		struct flip flip = { .way = (int)by_chance(2), .bit = (int)by_chance(8) };
		/* half of them among the short messages */
		const uint64_t most = by_chance(2) ? length[flip.way] : 2000;
		flip.at = by_chance(most < length[flip.way] ? most : length[flip.way]);
		if (by_chance(4) == 0)
			flip.at = length[flip.way] - 1 - flip.at;
		make_round(&flip, by_chance(UINT64_MAX));
	}
	printf("SOFTRDMA_CRC=%s: %lu connections of %llu and %llu bytes, %llu bits flipped, %lu connections "
	       "without all successes, %lu damaged records told, %lu waits in vain: %lu successes with wrong "
	       "bytes\n",
		crc, result.rounds, (unsigned long long)length[0], (unsigned long long)length[1],
		(unsigned long long)proxy.flipped, result.failed, result.damage, result.stuck, result.wrong);
	fflush(stdout);
}

int
main(int argc, char *argv[])
{
	unsigned long flips = FLIPS, control = CONTROL_FLIPS, seed = (unsigned long)now_ms();
	for (int i = 1; i + 1 < argc; i += 2) {
		unsigned long *value = strcmp(argv[i], "--flips") == 0 ? &flips
			: strcmp(argv[i], "--seed") == 0               ? &seed
			: strcmp(argv[i], "--control") == 0            ? &control
								       : NULL;
		if (value == NULL || !option_number(argv[i + 1], 0, ~0ul, value)) {
			fprintf(stderr, "flipped_bits [--flips N] [--seed S] [--control N]\n");
			return 2;
		}
	}
	printf("seed %lu\n", seed);
	state = seed;
	set_up();
	flip_bits("1", flips, ~0ul);
	bool good = result.wrong == 0 && result.stuck == 0 && (flips < FLIPS || result.damage > 0);
	if (control) {
		wait_ms = CONTROL_WAIT_MS;
		flip_bits("0", control, CONTROL_ENOUGH);
		if (result.wrong == 0)
			printf("the control has seen nothing: this test is blind\n");
		good = good && result.wrong > 0;
	}
	return good ? 0 : 1;
}
