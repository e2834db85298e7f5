/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * server.c -- the server that hostile peers attack: written over librpma as an application would be
 *
 * Each connection gets a slot of memory of its own; the slot's descriptor is the private data of the
 * acceptance. Clients that ask for it share a file instead, which may be flushed. Another region with the same rights is granted to no client. When standard input ends, the
 * server checks that this region is unchanged.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <librpma.h>

#include "hostile.h"
#include "pair.h"
#include "pattern.h"

/* more than the pending connections can become before the withdrawn ones are gone */
#define CLIENTS_MAX 1024
#define EVENTS_MAX 64
#define USAGE \
	(RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | \
		RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC)

struct client {
	struct rpma_conn *conn; /* NULL: free */
	struct rpma_mr_local *mr;
	uint8_t *slot;
	bool established;
};

static struct client clients[CLIENTS_MAX];
static struct rpma_conn_req *held[PENDING_MAX]; /* without a response until REQUEST_TO_RELEASE comes */
static size_t held_count;
static struct rpma_mr_local *file_mr; /* of those that flush */
static int epoll_fd;

static void
fail(const char *what, int ret)
{
	fprintf(stderr, "server: %s: %s\n", what, ret ? rpma_err_2str(ret) : strerror(errno));
	exit(1);
}

static void
must(const char *what, int ret)
{
	if (ret)
		fail(what, ret);
}

static void
watch(int fd, void *whom)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = whom };

	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) ||
		epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event))
		fail("epoll", 0);
}

static void
raise_limit_of_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		fail("limit of files", 0);
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		fail("limit of files", 0);
}

static uint8_t *
memory(struct rpma_peer *peer, size_t len, struct rpma_mr_local **mr)
{
	uint8_t *bytes = aligned_alloc(4096, len);

	if (bytes == NULL)
		fail("memory", 0);
	memset(bytes, 0, len);
	must("register", rpma_mr_reg(peer, bytes, len, USAGE, mr));
	return bytes;
}

/* the file of those that flush */
static uint8_t *
file(struct rpma_peer *peer, const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 || posix_fallocate(fd, 0, FILE_SIZE))
		fail("file", 0);
	uint8_t *bytes = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		fail("mapping", 0);
	close(fd);
	must("register the file",
		rpma_mr_reg(peer, bytes, FILE_SIZE, USAGE | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, &file_mr));
	return bytes;
}

static void
end_client(struct client *c)
{
	int fd;

	if (rpma_conn_get_event_fd(c->conn, &fd) == 0)
		epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	if (c->established) /* for the others it fails, with a line in the log */
		(void)rpma_conn_disconnect(c->conn);
	must("delete a connection", rpma_conn_delete(&c->conn));
}

static bool
says(const struct rpma_conn_private_data *told, const char *text)
{
	return told->len == strlen(text) && memcmp(told->ptr, text, told->len) == 0;
}

static void
release_held(void)
{
	while (held_count > 0)
		(void)rpma_conn_req_delete(&held[--held_count]);
}

/* handles a request that is a command of a test; true if it was one */
static bool
do_as_told(struct rpma_conn_req *req)
{
	struct rpma_conn_private_data told;

	must("private data", rpma_conn_req_get_private_data(req, &told));
	const bool to_hold = says(&told, REQUEST_TO_HOLD) && held_count < PENDING_MAX;
	const bool to_release = says(&told, REQUEST_TO_RELEASE);
	if (!to_hold && !to_release && !says(&told, REQUEST_TO_REFUSE))
		return false;
	if (to_hold) {
		held[held_count++] = req;
		return true;
	}
	if (to_release)
		release_held();
	(void)rpma_conn_req_delete(&req);
	return true;
}

static bool
wants_to_flush(struct rpma_conn_req *req)
{
	struct rpma_conn_private_data told;

	must("private data", rpma_conn_req_get_private_data(req, &told));
	return says(&told, REQUEST_TO_FLUSH);
}

static void
accept_client(struct rpma_ep *ep)
{
	struct rpma_conn_req *req;
	struct client *c = clients;
	uint8_t descriptor[64];
	size_t len;
	int fd;

	if (rpma_ep_next_conn_req(ep, NULL, &req))
		return; /* there is no request, or it was withdrawn */
	if (do_as_told(req))
		return;
	const bool flushes = wants_to_flush(req);
	while (c < clients + CLIENTS_MAX && c->conn)
		c++;
	if (c == clients + CLIENTS_MAX) {
		(void)rpma_conn_req_delete(&req);
		return;
	}
	memset(c->slot, 0, SLOT_SIZE); /* hides what one client has written from the next one */
	struct rpma_mr_local *mr = flushes ? file_mr : c->mr;
	must("size of a descriptor", rpma_mr_get_descriptor_size(mr, &len));
	must("descriptor", rpma_mr_get_descriptor(mr, descriptor));
	const struct rpma_conn_private_data pdata = { descriptor, (uint8_t)len };
	c->established = false;
	if (rpma_conn_req_connect(&req, &pdata, &c->conn))
		return;
	must("event descriptor", rpma_conn_get_event_fd(c->conn, &fd));
	watch(fd, c);
}

static void
serve_client(struct client *c)
{
	enum rpma_conn_event event;

	while (c->conn && rpma_conn_next_event(c->conn, &event) == 0)
		if (event == RPMA_CONN_ESTABLISHED)
			c->established = true;
		else
			end_client(c);
}

int
main(int argc, char *argv[])
{
	struct rpma_mr_local *guard_mr;
	struct ibv_context *ctx;
	struct rpma_peer *peer;
	char port[NET_PORT_LEN];
	struct rpma_ep *ep;
	int fd;

	if (argc != 2) {
		fprintf(stderr, "usage: server <file>\n");
		return 2;
	}
	raise_limit_of_files();
	must("device", rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx));
	must("peer", rpma_peer_new(ctx, &peer));
	for (int i = 0; i < CLIENTS_MAX; i++)
		clients[i].slot = memory(peer, SLOT_SIZE, &clients[i].mr);
	uint8_t *guard = memory(peer, GUARD_SIZE, &guard_mr);
	pattern_fill(guard, GUARD_SIZE, 1, 0);
	uint8_t *file_bytes = file(peer, argv[1]);
	must("listen", pair_listen(peer, "127.0.0.1", port, &ep));
	must("descriptor of the endpoint", rpma_ep_get_fd(ep, &fd));
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	watch(fd, ep);
	watch(STDIN_FILENO, NULL);
	printf("listening on %s\n", port);
	fflush(stdout);

	for (bool stop = false; !stop;) {
		struct epoll_event events[EVENTS_MAX];
		int count = epoll_wait(epoll_fd, events, EVENTS_MAX, -1);
		for (int i = 0; i < count; i++) {
			if (events[i].data.ptr == NULL)
				stop = true;
			else if (events[i].data.ptr == ep)
				accept_client(ep);
			else
				serve_client(events[i].data.ptr);
		}
	}

	ptrdiff_t changed = pattern_check(guard, GUARD_SIZE, 1, 0);
	printf("%s\n", changed < 0 ? "untouched" : "memory of nobody was touched");
	release_held();
	must("shut down", rpma_ep_shutdown(&ep));
	for (int i = 0; i < CLIENTS_MAX; i++) {
		if (clients[i].conn)
			end_client(&clients[i]);
		must("deregister", rpma_mr_dereg(&clients[i].mr));
		free(clients[i].slot);
	}
	must("deregister", rpma_mr_dereg(&guard_mr));
	must("deregister", rpma_mr_dereg(&file_mr));
	munmap(file_bytes, FILE_SIZE);
	must("delete the peer", rpma_peer_delete(&peer));
	free(guard);
	close(epoll_fd);
	return changed < 0 ? 0 : 1;
}
