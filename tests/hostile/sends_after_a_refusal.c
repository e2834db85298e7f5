/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * sends_after_a_refusal.c -- a stranger that continues to send after a refusal is not read for long
 *
 * Each stranger is a process with plain sockets. It sends a request with an unknown version, and then bytes
 * without end, until the connection is closed. A refused connection may accept what the kernel's buffers
 * hold, and a bounded rest. Instead it accepted gigabytes, and no other connection was served meanwhile. All
 * the time an honest client reads and checks what it gets.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deadline.h"
#include "pair.h"

#define STRANGERS 3
#define CONNECTIONS 60 /* of each */
#define SIZE ((size_t)4096)

/*
 * more than the buffers of two sockets hold (tcp_wmem and tcp_rmem: 4 and 6 MiB), far less than the server
 * read
 */
#define TAKEN_MAX ((uint64_t)16 << 20)
/* the bytes after which a stranger stops; a second or two of reading shows enough */
#define SENT_MAX ((uint64_t)512 << 20)

#define REQUIRE(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

/* returns the bytes that one connection accepts after a refused request */
static uint64_t
send_on(uint16_t port)
{
	static char bytes[256 * 1024] = { 'S', 'R', 'D', 'M', 9, 0, 1, 0 };
	struct sockaddr_in addr = { .sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	REQUIRE(fd >= 0);
	REQUIRE(connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0);
	uint64_t taken = 0;
	ssize_t n = 0;
	do {
		taken += (uint64_t)n;
		n = send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
	} while (n > 0 && taken < SENT_MAX);
	close(fd);
	return taken;
}

/* a process that waits for the port, attacks it, and reports whether a connection accepted too much */
static void
start_stranger(int port_fd)
{
	pid_t pid = fork();
	REQUIRE(pid >= 0);
	if (pid > 0)
		return;
	uint16_t port;
	if (read(port_fd, &port, sizeof(port)) != sizeof(port))
		_exit(1);
	uint64_t most = 0;
	for (int i = 0; i < CONNECTIONS && most <= TAKEN_MAX; i++) {
		uint64_t taken = send_on(port);
		most = taken > most ? taken : most;
	}
	if (most > TAKEN_MAX)
		fprintf(stderr, "a refused connection took %llu bytes\n", (unsigned long long)most);
	_exit(most > TAKEN_MAX);
}

struct honest {
	struct pair pair;
	uint8_t *local, *remote;
	struct rpma_mr_local *to, *from;
	struct rpma_mr_remote *there;
};

static void
honest_init(struct honest *h)
{
	uint8_t descriptor[256];
	size_t size = 0;
	REQUIRE(pair_open(&h->pair, "127.0.0.1", NULL, NULL) == 0);
	h->local = calloc(2, SIZE);
	REQUIRE(h->local);
	h->remote = h->local + SIZE;
	REQUIRE(rpma_mr_reg(h->pair.client.peer, h->local, SIZE, RPMA_MR_USAGE_READ_DST, &h->to) == 0);
	REQUIRE(rpma_mr_reg(h->pair.server.peer, h->remote, SIZE, RPMA_MR_USAGE_READ_SRC, &h->from) == 0);
	REQUIRE(rpma_mr_get_descriptor_size(h->from, &size) == 0 && size <= sizeof(descriptor));
	REQUIRE(rpma_mr_get_descriptor(h->from, descriptor) == 0);
	REQUIRE(rpma_mr_remote_from_descriptor(descriptor, size, &h->there) == 0);
}

static void
honest_fini(struct honest *h)
{
	REQUIRE(rpma_mr_remote_delete(&h->there) == 0);
	REQUIRE(rpma_mr_dereg(&h->to) == 0);
	REQUIRE(rpma_mr_dereg(&h->from) == 0);
	pair_close(&h->pair);
	free(h->local);
}

static void
honest_read(struct honest *h, unsigned round)
{
	struct ibv_wc wc = { 0 };
	memset(h->remote, (int)(round % 251 + 1), SIZE);
	memset(h->local, 0, SIZE);
	REQUIRE(rpma_read(h->pair.client.conn, h->to, 0, h->there, 0, SIZE, RPMA_F_COMPLETION_ALWAYS, NULL) ==
		0);
	REQUIRE(rpma_cq_wait(h->pair.client.cq) == 0);
	REQUIRE(rpma_cq_get_wc(h->pair.client.cq, 1, &wc, NULL) == 0);
	REQUIRE(wc.status == IBV_WC_SUCCESS);
	REQUIRE(memcmp(h->local, h->remote, SIZE) == 0);
}

int
main(void)
{
	int port_fds[2];
	struct honest h = { 0 };
	deadline_start("what is sent after a refusal", 100);
	signal(SIGPIPE, SIG_IGN);
	REQUIRE(pipe(port_fds) == 0);
	for (int i = 0; i < STRANGERS; i++)
		start_stranger(port_fds[0]); /* before there is a device in this process */
	honest_init(&h);
	honest_read(&h, 0);
	const uint16_t port = (uint16_t)atoi(h.pair.port);
	for (int i = 0; i < STRANGERS; i++)
		REQUIRE(write(port_fds[1], &port, sizeof(port)) == sizeof(port));
	int failed = 0;
	unsigned round = 1;
	for (int left = STRANGERS; left > 0; round++) {
		int status = 0;
		honest_read(&h, round);
		pid_t pid = waitpid(-1, &status, WNOHANG);
		left -= pid > 0;
		failed += pid > 0 && status != 0;
	}
	honest_fini(&h);
	printf("%u reads beside %d refused connections, %d strangers were read too long\n", round,
		STRANGERS * CONNECTIONS, failed);
	deadline_stop();
	return failed != 0;
}
