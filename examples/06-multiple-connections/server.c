/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * server.c -- serve many clients in one thread: read the name of each, and disconnect it
 *
 * Nothing here waits for a certain client: each step is done when its descriptor becomes readable. The life
 * of a client:
 *
 *	request taken       accepted; now its connection has two descriptors, for events and for completions
 *	ESTABLISHED         the description of its memory is there: the read is posted
 *	completion          the name is there: the client is disconnected
 *	CLOSED, or trouble  deleted; its place is free for another client
 *
 * The server ends when nothing has happened for a while, or at SIGINT or SIGTERM.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "completions.h"
#include "connection.h"
#include "exchange.h"
#include "name.h"
#include "text.h"
#include "watch.h"

#define CLIENTS_MAX 10 /* at a time; more are rejected */
#define NAMES_MAX 1000 /* in total; then the server ends */
#define IDLE_MS 15000

enum { ON_STOP, ON_REQUEST, ON_EVENT, ON_COMPLETION };

struct client {
	struct rpma_conn *conn; /* NULL: the place is free */
	int event_fd;
	int completion_fd;
	struct exchange memory; /* of the client; valid from the read on */
};

struct server {
	struct watch watch;
	struct rpma_ep *ep;
	struct rpma_conn_cfg *cfg;
	char *memory; /* NAME_SIZE bytes for each client's read */
	struct rpma_mr_local *mr;
	struct client clients[CLIENTS_MAX];
	char (*names)[NAME_SIZE];
	unsigned count; /* of names */
};

static void
client_delete(struct server *s, unsigned i)
{
	struct client *client = &s->clients[i];

	watch_remove(&s->watch, client->event_fd);
	watch_remove(&s->watch, client->completion_fd);
	/* if the other side has disconnected, it waits for this */
	(void)rpma_conn_disconnect(client->conn);
	(void)checked("rpma_conn_delete", rpma_conn_delete(&client->conn));
	exchange_release(&client->memory);
}

/* the client is connected: reads the name that it has described */
static int
client_read(struct server *s, unsigned i)
{
	struct client *client = &s->clients[i];
	struct exchange *memory = &client->memory;

	/* one read for each client: if its memory is already known, this is not the first */
	if (memory->mr)
		return RPMA_E_UNKNOWN;
	int ret =
		checked("reading what a client says about its memory", exchange_unpack(client->conn, memory));
	if (ret)
		return ret;

	size_t there = memory->size - memory->data_offset;
	size_t len = there < NAME_SIZE ? there : NAME_SIZE;
	/* so that a short name is not followed by the rest of an earlier client's name */
	memset(s->memory + i * NAME_SIZE, 0, NAME_SIZE);
	return checked("rpma_read",
		rpma_read(client->conn, s->mr, i * NAME_SIZE, memory->mr, memory->data_offset, len,
			RPMA_F_COMPLETION_ALWAYS, NULL));
}

static void
client_event(struct server *s, unsigned i)
{
	enum rpma_conn_event event;

	int ret = rpma_conn_next_event(s->clients[i].conn, &event);
	if (ret == RPMA_E_NO_EVENT)
		return;
	if (ret == 0 && event == RPMA_CONN_ESTABLISHED)
		ret = client_read(s, i);
	else
		ret = RPMA_E_UNKNOWN; /* closed, for any reason */
	if (ret)
		client_delete(s, i);
}

static void
client_completion(struct server *s, unsigned i)
{
	struct client *client = &s->clients[i];
	struct ibv_wc wc;
	bool found;

	int ret = completions_notified(client->conn, &wc, &found);
	if (ret == 0 && !found)
		return;
	if (ret == 0)
		ret = wc_checked(&wc);
	if (ret) {
		client_delete(s, i);
		return;
	}

	(void)text_copy(s->names[s->count++], NAME_SIZE, s->memory + i * NAME_SIZE, NAME_SIZE);
	/* the event CLOSED will follow */
	(void)checked("rpma_conn_disconnect", rpma_conn_disconnect(client->conn));
}

static int
client_watch(struct server *s, unsigned i)
{
	struct client *client = &s->clients[i];

	int ret = checked("rpma_conn_get_event_fd", rpma_conn_get_event_fd(client->conn, &client->event_fd));
	if (ret == 0)
		ret = completions_fd(client->conn, &client->completion_fd);
	if (ret == 0)
		ret = watch_add(&s->watch, client->event_fd, (struct watched){ ON_EVENT, (uint16_t)i });
	if (ret == 0)
		ret = watch_add(&s->watch, client->completion_fd,
			(struct watched){ ON_COMPLETION, (uint16_t)i });

	return ret;
}

/* an error with one client does not end the server: it rejects that client and takes the next */
static void
take_request(struct server *s)
{
	struct rpma_conn_req *req = NULL;
	unsigned i = 0;

	int ret = rpma_ep_next_conn_req(s->ep, s->cfg, &req);
	if (ret) {
		if (ret != RPMA_E_NO_EVENT)
			report("rpma_ep_next_conn_req", ret);
		return;
	}
	while (i < CLIENTS_MAX && s->clients[i].conn)
		i++;
	if (i == CLIENTS_MAX) {
		(void)checked("rpma_conn_req_delete", rpma_conn_req_delete(&req)); /* rejects it */
		return;
	}

	s->clients[i] = (struct client){ .event_fd = -1, .completion_fd = -1 };
	if (checked("rpma_conn_req_connect", rpma_conn_req_connect(&req, NULL, &s->clients[i].conn)) == 0 &&
		client_watch(s, i))
		client_delete(s, i);
}

static int
serve(struct server *s)
{
	struct watched what;
	bool found;

	while (s->count < NAMES_MAX) {
		if (watch_next(&s->watch, IDLE_MS, &what, &found))
			return -1;
		if (!found || what.kind == ON_STOP)
			break;
		if (what.kind == ON_REQUEST)
			take_request(s);
		else if (what.kind == ON_EVENT)
			client_event(s, what.index);
		else
			client_completion(s, what.index);
	}
	for (unsigned i = 0; i < CLIENTS_MAX; i++) {
		if (s->clients[i].conn)
			client_delete(s, i);
	}

	return 0;
}

static int
listen_and_serve(struct server *s, struct rpma_peer *peer, const char *addr, const char *port)
{
	int fd;

	int ret = checked("rpma_ep_listen", rpma_ep_listen(peer, addr, port, &s->ep));
	if (ret)
		return ret;

	ret = checked("rpma_ep_get_fd", rpma_ep_get_fd(s->ep, &fd));
	if (ret == 0)
		ret = watch_add(&s->watch, fd, (struct watched){ ON_REQUEST, 0 });
	if (ret == 0)
		ret = serve(s);

	return first_error(ret, checked("rpma_ep_shutdown", rpma_ep_shutdown(&s->ep)));
}

int
main(int argc, char *argv[])
{
	struct server s = { 0 };
	struct rpma_peer *peer = NULL;

	if (argc != 3) {
		fprintf(stderr, "usage: %s <server_address> <port>\n", argv[0]);
		return 2;
	}
	show_log();

	/* before the library starts threads, so that none of them takes the signals */
	if (watch_open(&s.watch, (struct watched){ ON_STOP, 0 }))
		return 1;
	int ret = 0;
	s.memory = memory_new(CLIENTS_MAX * NAME_SIZE);
	s.names = calloc(NAMES_MAX, NAME_SIZE);
	if (s.memory == NULL || s.names == NULL)
		ret = RPMA_E_NOMEM;
	if (ret == 0)
		ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, s.memory, CLIENTS_MAX * NAME_SIZE, RPMA_MR_USAGE_READ_DST, &s.mr));
	if (ret == 0)
		ret = checked("rpma_conn_cfg_new", rpma_conn_cfg_new(&s.cfg));
	if (ret == 0)
		ret = completions_configure(s.cfg);
	if (ret == 0)
		ret = listen_and_serve(&s, peer, argv[1], argv[2]);

	printf("Today I have got in touch with:\n");
	for (unsigned i = 0; i < s.count; i++)
		printf("- %s\n", s.names[i]);

	ret = first_error(ret, checked("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&s.cfg)));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&s.mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	free(s.names);
	free(s.memory);
	watch_close(&s.watch);

	return ret ? 1 : 0;
}
