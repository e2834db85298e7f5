/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* server.c -- the server of the soak: a part of a file for each client, and an echo of its messages */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <librpma.h>

#include "pair.h"
#include "soak.h"
#include "wait.h"

#define USAGE \
	(RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | \
		RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)

/* receives of a connection: one message is echoed while the next one may arrive */
#define MESSAGES 2
#define ANSWERED ((uintptr_t)1 << 32) /* marks the context of a send */

static struct soak_shared *shared;
static struct rpma_peer *peer;
static uint8_t *memory;
static struct rpma_mr_local *slots[SOAK_CLIENTS_MAX];

struct guest {
	struct rpma_conn *conn;
	struct rpma_cq *cq;
	uint8_t *messages;
	struct rpma_mr_local *mr;
};

static char path[4096]; /* of the mapped file: a flush of it reaches a disk */

static void
map_memory(const char *dir)
{
	int fd;

	snprintf(path, sizeof(path), "%s/soak-XXXXXX", dir);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0 || ftruncate(fd, SOAK_CLIENTS_MAX * SOAK_SLOT))
		soak_fail("no file for the memory");
	memory = mmap(NULL, SOAK_CLIENTS_MAX * SOAK_SLOT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		soak_fail("the file cannot be mapped");
	close(fd);
	for (size_t i = 0; i < SOAK_CLIENTS_MAX; i++)
		soak_must("register", rpma_mr_reg(peer, memory + i * SOAK_SLOT, SOAK_SLOT, USAGE, &slots[i]));
}

/* false if the connection is in error: its end then arrives as an event */
static bool
answer(struct guest *g)
{
	struct ibv_wc wc;

	while (rpma_cq_get_wc(g->cq, 1, &wc, NULL) == 0) {
		size_t at = (wc.wr_id & ~ANSWERED) * SOAK_MESSAGE_MAX;

		if (wc.status != IBV_WC_SUCCESS)
			return false;
		if (wc.wr_id & ANSWERED) {
			if (rpma_recv(g->conn, g->mr, at, SOAK_MESSAGE_MAX, (void *)(wc.wr_id & ~ANSWERED)))
				return false;
		} else if (rpma_send(g->conn, g->mr, at, wc.byte_len, RPMA_F_COMPLETION_ALWAYS,
				   (void *)(wc.wr_id | ANSWERED))) {
			return false;
		}
	}
	return true;
}

/* false if the connection has ended */
static bool
look_for_end(struct guest *g)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	return rpma_conn_next_event(g->conn, &event) || event == RPMA_CONN_ESTABLISHED;
}

static void
set_nonblocking(int fd)
{
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		soak_fail("fcntl");
}

static void *
serve(void *arg)
{
	struct guest *g = arg;
	struct pollfd pfds[2] = { { .events = POLLIN }, { .events = POLLIN } };

	soak_must("event descriptor", rpma_conn_get_event_fd(g->conn, &pfds[0].fd));
	soak_must("completion descriptor", rpma_cq_get_fd(g->cq, &pfds[1].fd));
	set_nonblocking(pfds[0].fd);
	set_nonblocking(pfds[1].fd);
	for (bool in_error = false;;) {
		if (poll(pfds, in_error ? 1 : 2, -1) < 0 && errno != EINTR)
			soak_fail("poll");
		if (pfds[0].revents && !look_for_end(g))
			break;
		if (!in_error && pfds[1].revents && rpma_cq_wait(g->cq) == 0)
			in_error = !answer(g);
	}
	(void)rpma_conn_disconnect(g->conn);
	soak_must("delete a connection", rpma_conn_delete(&g->conn));
	soak_must("deregister", rpma_mr_dereg(&g->mr));
	free(g->messages);
	free(g);
	shared->connected--;
	return NULL;
}

static void *
zeroed(size_t size)
{
	void *bytes = calloc(1, size);

	if (bytes == NULL)
		soak_fail("no memory");
	return bytes;
}

static void
accept_guest(struct rpma_conn_req *req, struct rpma_mr_local *slot)
{
	struct guest *g = zeroed(sizeof(*g));
	uint8_t descriptor[64];
	pthread_t thread;
	size_t len;

	soak_must("size of a descriptor", rpma_mr_get_descriptor_size(slot, &len));
	soak_must("descriptor", rpma_mr_get_descriptor(slot, descriptor));
	const struct rpma_conn_private_data pdata = { descriptor, (uint8_t)len };

	g->messages = zeroed(MESSAGES * SOAK_MESSAGE_MAX);
	soak_must("register",
		rpma_mr_reg(peer, g->messages, MESSAGES * SOAK_MESSAGE_MAX,
			RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &g->mr));
	for (uintptr_t i = 0; i < MESSAGES; i++)
		soak_must("receive",
			rpma_conn_req_recv(req, g->mr, i * SOAK_MESSAGE_MAX, SOAK_MESSAGE_MAX, (void *)i));
	shared->connected++;
	soak_must("accept", rpma_conn_req_connect(&req, &pdata, &g->conn));
	soak_must("queue", rpma_conn_get_cq(g->conn, &g->cq));
	if (pthread_create(&thread, NULL, serve, g) || pthread_detach(thread))
		soak_fail("no thread");
}

/* the private data of the request is the number of the client */
static void
look_who_asks(struct rpma_conn_req *req)
{
	struct rpma_conn_private_data asked = { NULL, 0 };

	soak_must("private data", rpma_conn_req_get_private_data(req, &asked));
	const size_t index = asked.len == 1 ? *(uint8_t *)asked.ptr : SOAK_CLIENTS_MAX;
	if (index < SOAK_CLIENTS_MAX)
		accept_guest(req, slots[index]);
	else
		soak_fail("a request from no client of the soak");
}

void
soak_serve(struct soak_shared *s, const char *dir, int ready_fd)
{
	struct rpma_conn_req *req;
	struct ibv_context *ctx;
	struct rpma_ep *ep;

	shared = s;
	soak_must("device", rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx));
	soak_must("peer", rpma_peer_new(ctx, &peer));
	map_memory(dir);
	soak_must("listen", pair_listen(peer, "127.0.0.1", s->port, &ep));
	if (write(ready_fd, "", 1) != 1)
		soak_fail("the soak does not wait for the server");
	close(ready_fd);
	while (s->window < SOAK_WINDOWS || s->connected) {
		int ret = wait_conn_req(ep, NULL, &req, 100);

		if (ret == 0)
			look_who_asks(req);
		else if (ret != RPMA_E_NO_EVENT)
			soak_must("next request", ret);
	}
	soak_must("shut down", rpma_ep_shutdown(&ep));
	for (size_t i = 0; i < SOAK_CLIENTS_MAX; i++)
		soak_must("deregister", rpma_mr_dereg(&slots[i]));
	soak_must("delete the peer", rpma_peer_delete(&peer));
	munmap(memory, SOAK_CLIENTS_MAX * SOAK_SLOT);
	unlink(path);
}
