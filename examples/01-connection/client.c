/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * client.c -- connect to the server, exchange a message with it as private data, and disconnect
 *
 * A server that does not listen yet, or is too busy, rejects the connection. The client then tries again for
 * a while.
 */

#include <stdio.h>
#include <unistd.h>

#include "connection.h"
#include "message.h"

#define TRIES 10
#define PAUSE_S 5

static char question[] = "Hello server!";

/* makes one attempt: *event tells how it ended; *conn is set only if the connection is established */
static int
attempt(struct rpma_peer *peer, const char *addr, const char *port, struct rpma_conn **conn,
	enum rpma_conn_event *event)
{
	const struct rpma_conn_private_data pdata = { question, sizeof(question) };
	struct rpma_conn_req *req = NULL;

	int ret = checked("rpma_conn_req_new", rpma_conn_req_new(peer, addr, port, NULL, &req));
	if (ret == 0)
		ret = checked("rpma_conn_req_connect", rpma_conn_req_connect(&req, &pdata, conn));
	if (ret)
		return ret;

	ret = checked("rpma_conn_next_event", rpma_conn_next_event(*conn, event));
	if (ret || *event != RPMA_CONN_ESTABLISHED)
		ret = first_error(ret, checked("rpma_conn_delete", rpma_conn_delete(conn)));

	return ret;
}

static int
connect_patiently(struct rpma_peer *peer, const char *addr, const char *port, struct rpma_conn **conn)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	for (int i = 1; i <= TRIES; i++) {
		int ret = attempt(peer, addr, port, conn, &event);
		if (ret || event == RPMA_CONN_ESTABLISHED)
			return ret;
		fprintf(stderr, "%s\n", rpma_utils_conn_event_2str(event));
		if (event != RPMA_CONN_REJECTED)
			break;
		if (i < TRIES) {
			fprintf(stderr, "once more in %d s\n", PAUSE_S);
			sleep(PAUSE_S);
		}
	}

	return RPMA_E_UNKNOWN;
}

int
main(int argc, char *argv[])
{
	struct rpma_peer *peer = NULL;
	struct rpma_conn *conn = NULL;

	if (argc != 3) {
		fprintf(stderr, "usage: %s <server_address> <port>\n", argv[0]);
		return 2;
	}

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer, NULL);
	if (ret == 0)
		ret = connect_patiently(peer, argv[1], argv[2], &conn);
	if (ret == 0) {
		ret = print_message(conn);
		/* a connection would be used here, as in the next examples */
		ret = first_error(ret, conn_disconnect(&conn));
	}
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));

	return ret ? 1 : 0;
}
