/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * server.c -- reply to each number with the next one, for many clients whose messages come through one shared
 * receive queue
 *
 * One thread waits for everything at once (epoll). The queue pair number of a message tells its client. The
 * life of a client:
 *
 *	request taken       accepted; from here on its messages may come
 *	message             replied to; if the last reply is not complete, after that has completed
 *	CLOSED, or trouble  deleted; its place is free for another client
 *
 * The server listens until no new client has come for a while, or until SIGINT or SIGTERM. It ends when all
 * clients have disconnected; a second signal ends it without waiting for them.
 */

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "connection.h"
#include "counter.h"
#include "numbers.h"
#include "watch.h"

#define CLIENTS_MAX 10 /* at a time; more are rejected */
#define TIMEOUT_S 5
#define TIMEOUT_MAX_S 1000000

/* a client has one message in flight, since it waits for the reply; twice that tolerates an unruly client */
#define RECEIVES (2 * CLIENTS_MAX)

/* the registered memory: a message for each receive, then a reply for each client */
#define MEMORY_SIZE ((RECEIVES + CLIENTS_MAX) * COUNTER_SIZE)
#define ANSWER_OFFSET(i) ((RECEIVES + (i)) * COUNTER_SIZE)

enum { ON_STOP, ON_REQUEST, ON_EVENT, ON_SENT, ON_MESSAGE };

struct client {
	struct rpma_conn *conn; /* NULL: the place is free */
	struct rpma_cq *cq;     /* for messages sent to it */
	int event_fd;
	int sent_fd;
	uint32_t qp_num;
	unsigned number; /* 1 for the first client, and so on */
	bool sending;    /* true if a reply is in flight, so that its memory is in use */
	bool waiting;    /* true if the next reply waits for that */
	uint64_t next;   /* the number of the waiting reply */
};

struct server {
	struct watch watch;
	struct rpma_ep *ep; /* NULL: no longer listening */
	int ep_fd;
	struct rpma_srq *srq;
	struct rpma_cq *rcq; /* of the shared receive queue */
	struct rpma_conn_cfg *cfg;
	uint8_t *memory;
	struct rpma_mr_local *mr;
	struct client clients[CLIENTS_MAX];
	unsigned connected; /* clients connected now */
	unsigned count;     /* clients so far */
};

static int
post_receive(struct server *s, unsigned i)
{
	return checked("rpma_srq_recv",
		rpma_srq_recv(s->srq, s->mr, i * COUNTER_SIZE, COUNTER_SIZE, (const void *)(uintptr_t)i));
}

static void
client_delete(struct server *s, unsigned i)
{
	struct client *client = &s->clients[i];

	watch_remove(&s->watch, client->event_fd);
	watch_remove(&s->watch, client->sent_fd);
	/* if the other side has disconnected, it waits for this */
	(void)rpma_conn_disconnect(client->conn);
	(void)checked("rpma_conn_delete", rpma_conn_delete(&client->conn));
	s->connected--;
}

static int
client_send(struct server *s, unsigned i, uint64_t value)
{
	struct client *client = &s->clients[i];

	counter_put(s->memory + ANSWER_OFFSET(i), value);
	int ret = checked("rpma_send",
		rpma_send(client->conn, s->mr, ANSWER_OFFSET(i), COUNTER_SIZE, RPMA_F_COMPLETION_ALWAYS,
			NULL));
	client->sending = ret == 0;

	return ret;
}

/* replies have completed */
static void
client_sent(struct server *s, unsigned i)
{
	struct client *client = &s->clients[i];
	struct ibv_wc wc;

	int ret = rpma_cq_wait(client->cq);
	while (ret == 0 && (ret = rpma_cq_get_wc(client->cq, 1, &wc, NULL)) == 0) {
		ret = wc_checked(&wc);
		client->sending = false;
		if (ret == 0 && client->waiting) {
			client->waiting = false;
			ret = client_send(s, i, client->next);
		}
	}
	if (ret != RPMA_E_NO_COMPLETION)
		client_delete(s, i);
}

static void
client_message(struct server *s, unsigned i, uint64_t value)
{
	struct client *client = &s->clients[i];
	int ret = 0;

	/* the client will disconnect now */
	if (value == COUNTER_END)
		return;

	printf("[server] value received: %" PRIu64 " from the connection [qp#%" PRIu32 "]\n", value,
		client->qp_num);
	if (!client->sending) {
		ret = client_send(s, i, value + 1);
	} else if (!client->waiting) {
		/* the client has the reply already, but its completion has not been seen here */
		client->waiting = true;
		client->next = value + 1;
	} else {
		fprintf(stderr, "client #%u does not wait for its answers\n", client->number);
		ret = RPMA_E_INVAL;
	}
	if (ret)
		client_delete(s, i);
}

static void
client_event(struct server *s, unsigned i)
{
	enum rpma_conn_event event;

	int ret = rpma_conn_next_event(s->clients[i].conn, &event);
	if (ret == RPMA_E_NO_EVENT)
		return;
	if (ret == 0 && event == RPMA_CONN_ESTABLISHED)
		printf("The client #%u has been connected.\n", s->clients[i].number);
	else
		client_delete(s, i);
}

/* a completion of the shared receive queue: finds the client of the message */
static int
take_message(struct server *s, const struct ibv_wc *wc)
{
	unsigned slot = (unsigned)wc->wr_id;
	unsigned i = 0;

	assert(slot < RECEIVES);
	while (i < CLIENTS_MAX && !(s->clients[i].conn && s->clients[i].qp_num == wc->qp_num))
		i++;
	uint64_t value = counter_get(s->memory + slot * COUNTER_SIZE);
	/* before the reply, so that there are always enough receives */
	int ret = post_receive(s, slot);
	if (ret)
		return ret;

	/* ignore the last messages of a client that has already disconnected */
	if (i == CLIENTS_MAX)
		return 0;
	if (wc_checked(wc) || wc->byte_len != COUNTER_SIZE)
		client_delete(s, i);
	else
		client_message(s, i, value);

	return 0;
}

static int
take_messages(struct server *s)
{
	struct ibv_wc wc;

	int ret = rpma_cq_wait(s->rcq);
	while (ret == 0 && (ret = rpma_cq_get_wc(s->rcq, 1, &wc, NULL)) == 0)
		ret = take_message(s, &wc);

	return ret == RPMA_E_NO_COMPLETION ? 0 : checked("receiving", ret);
}

static int
client_watch(struct server *s, unsigned i)
{
	struct client *client = &s->clients[i];

	int ret = rpma_conn_get_event_fd(client->conn, &client->event_fd);
	if (ret == 0)
		ret = rpma_conn_get_cq(client->conn, &client->cq);
	if (ret == 0)
		ret = rpma_cq_get_fd(client->cq, &client->sent_fd);
	if (ret == 0)
		ret = rpma_conn_get_qp_num(client->conn, &client->qp_num);
	if (ret)
		return checked("asking a connection for its descriptors", ret);

	ret = watch_add(&s->watch, client->event_fd, (struct watched){ ON_EVENT, (uint16_t)i });

	return ret ? ret : watch_add(&s->watch, client->sent_fd, (struct watched){ ON_SENT, (uint16_t)i });
}

/* an error with one client does not end the server; returns true if there is a new client */
static bool
take_request(struct server *s)
{
	struct rpma_conn_req *req = NULL;
	unsigned i = 0;

	int ret = rpma_ep_next_conn_req(s->ep, s->cfg, &req);
	if (ret) {
		if (ret != RPMA_E_NO_EVENT)
			report("rpma_ep_next_conn_req", ret);
		return false;
	}
	while (i < CLIENTS_MAX && s->clients[i].conn)
		i++;
	if (i == CLIENTS_MAX) {
		(void)checked("rpma_conn_req_delete", rpma_conn_req_delete(&req)); /* rejects it */
		return false;
	}

	struct client *client = &s->clients[i];
	*client = (struct client){ .event_fd = -1, .sent_fd = -1, .number = s->count + 1 };
	if (checked("rpma_conn_req_connect", rpma_conn_req_connect(&req, NULL, &client->conn)))
		return false;
	s->connected++;
	if (client_watch(s, i)) {
		client_delete(s, i);
		return false;
	}
	s->count++;

	return true;
}

static int
end_listening(struct server *s)
{
	watch_remove(&s->watch, s->ep_fd);
	printf("Server ended listening.\n");

	return checked("rpma_ep_shutdown", rpma_ep_shutdown(&s->ep));
}

/* handles one event */
static int
handle(struct server *s, struct watched what, bool *new_client)
{
	switch (what.kind) {
	case ON_REQUEST:
		*new_client = take_request(s);
		return 0;
	case ON_EVENT:
		client_event(s, what.index);
		return 0;
	case ON_SENT:
		client_sent(s, what.index);
		return 0;
	case ON_MESSAGE:
		return take_messages(s);
	default:
		return s->ep ? end_listening(s) : RPMA_E_UNKNOWN; /* the second signal */
	}
}

static int
serve(struct server *s, int timeout_ms)
{
	int64_t end_ms = watch_now_ms() + timeout_ms;
	struct watched what;
	int ret = 0;

	while (ret == 0 && (s->ep || s->connected)) {
		int64_t left_ms = end_ms - watch_now_ms();
		bool found;
		bool new_client = false;
		if (s->ep && left_ms <= 0) {
			ret = end_listening(s);
			continue;
		}
		ret = watch_next(&s->watch, s->ep ? (int)left_ms : WATCH_FOREVER, &what, &found);
		if (ret == 0 && found)
			ret = handle(s, what, &new_client);
		if (new_client)
			end_ms = watch_now_ms() + timeout_ms;
	}
	for (unsigned i = 0; i < CLIENTS_MAX; i++) {
		if (s->clients[i].conn)
			client_delete(s, i);
	}

	return ret;
}

/* makes the shared receive queue with all its receives, and the configuration of connections that use it */
static int
configure(struct server *s, struct rpma_peer *peer)
{
	struct rpma_srq_cfg *srq_cfg = NULL;

	int ret = checked("rpma_srq_cfg_new", rpma_srq_cfg_new(&srq_cfg));
	if (ret == 0)
		ret = rpma_srq_cfg_set_rq_size(srq_cfg, RECEIVES);
	if (ret == 0)
		ret = rpma_srq_cfg_set_rcq_size(srq_cfg, RECEIVES);
	if (ret == 0)
		ret = checked("rpma_srq_new", rpma_srq_new(peer, srq_cfg, &s->srq));
	(void)rpma_srq_cfg_delete(&srq_cfg);

	if (ret == 0)
		ret = checked("rpma_srq_get_rcq", rpma_srq_get_rcq(s->srq, &s->rcq));
	if (ret == 0)
		ret = checked("rpma_conn_cfg_new", rpma_conn_cfg_new(&s->cfg));
	if (ret == 0)
		ret = checked("rpma_conn_cfg_set_srq", rpma_conn_cfg_set_srq(s->cfg, s->srq));
	for (unsigned i = 0; ret == 0 && i < RECEIVES; i++)
		ret = post_receive(s, i);

	return ret;
}

static int
watch_all(struct server *s)
{
	int fd;

	int ret = checked("rpma_ep_get_fd", rpma_ep_get_fd(s->ep, &s->ep_fd));
	if (ret == 0)
		ret = watch_add(&s->watch, s->ep_fd, (struct watched){ ON_REQUEST, 0 });
	if (ret == 0)
		ret = checked("rpma_cq_get_fd", rpma_cq_get_fd(s->rcq, &fd));
	if (ret == 0)
		ret = watch_add(&s->watch, fd, (struct watched){ ON_MESSAGE, 0 });

	return ret;
}

int
main(int argc, char *argv[])
{
	uint64_t timeout_s = TIMEOUT_S;
	struct server s = { 0 };
	struct rpma_peer *peer = NULL;

	if (argc < 3 || argc > 4 || (argc == 4 && !parse_number(argv[3], TIMEOUT_MAX_S, &timeout_s))) {
		fprintf(stderr, "usage: %s <server_address> <port> [<timeout>]\n", argv[0]);
		return 2;
	}
	show_log();

	/* before the library starts threads, so that none of them takes the signals */
	if (watch_open(&s.watch, (struct watched){ ON_STOP, 0 }))
		return 1;
	s.memory = memory_new(MEMORY_SIZE);
	int ret = s.memory ? 0 : RPMA_E_NOMEM;
	if (ret == 0)
		ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, s.memory, MEMORY_SIZE, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV,
				&s.mr));
	if (ret == 0)
		ret = configure(&s, peer);
	if (ret == 0)
		ret = checked("rpma_ep_listen", rpma_ep_listen(peer, argv[1], argv[2], &s.ep));
	if (ret == 0)
		ret = watch_all(&s);
	if (ret == 0)
		ret = serve(&s, (int)timeout_s * 1000);

	ret = first_error(ret, checked("rpma_ep_shutdown", rpma_ep_shutdown(&s.ep)));
	ret = first_error(ret, checked("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&s.cfg)));
	ret = first_error(ret, checked("rpma_srq_delete", rpma_srq_delete(&s.srq)));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&s.mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	free(s.memory);
	watch_close(&s.watch);

	return ret ? 1 : 0;
}
