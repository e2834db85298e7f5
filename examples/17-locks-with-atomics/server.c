/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * server.c -- give the accounts to any number of clients, and print the accounts at the end
 *
 * It never touches the accounts while clients are connected: the clients do everything, one-sided. It ends at
 * SIGINT or SIGTERM.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accounts.h"
#include "connection.h"
#include "counter.h"
#include "exchange.h"
#include "watch.h"

enum { ON_STOP, ON_REQUEST, ON_EVENT };

struct server {
	struct watch watch;
	struct rpma_ep *ep;
	uint8_t *shared;
	struct rpma_conn_private_data pdata;  /* tells where the accounts are */
	struct rpma_conn *conns[CLIENTS_MAX]; /* NULL: the place is free */
};

static void
drop_client(struct server *s, unsigned i)
{
	(void)rpma_conn_disconnect(s->conns[i]);
	(void)checked("rpma_conn_delete", rpma_conn_delete(&s->conns[i]));
}

static void
take_request(struct server *s)
{
	struct rpma_conn_req *req = NULL;
	unsigned i = 0;
	int fd;

	int ret = rpma_ep_next_conn_req(s->ep, NULL, &req);
	if (ret) {
		if (ret != RPMA_E_NO_EVENT)
			report("rpma_ep_next_conn_req", ret);
		return;
	}
	while (i < CLIENTS_MAX && s->conns[i])
		i++;
	if (i == CLIENTS_MAX) {
		(void)checked("rpma_conn_req_delete", rpma_conn_req_delete(&req)); /* rejects it */
		return;
	}

	if (checked("rpma_conn_req_connect", rpma_conn_req_connect(&req, &s->pdata, &s->conns[i])))
		return;
	if (checked("rpma_conn_get_event_fd", rpma_conn_get_event_fd(s->conns[i], &fd)) ||
		watch_add(&s->watch, fd, (struct watched){ ON_EVENT, (uint16_t)i }))
		drop_client(s, i);
}

static void
client_event(struct server *s, unsigned i)
{
	enum rpma_conn_event event;

	int ret = rpma_conn_next_event(s->conns[i], &event);
	if (ret == RPMA_E_NO_EVENT || (ret == 0 && event == RPMA_CONN_ESTABLISHED))
		return;
	/* if it held the lock, the other clients find out: they cannot ask whether it is dead or late */
	drop_client(s, i);
}

static int
serve(struct server *s)
{
	struct watched what;
	bool found;
	int fd;

	int ret = checked("rpma_ep_get_fd", rpma_ep_get_fd(s->ep, &fd));
	if (ret == 0)
		ret = watch_add(&s->watch, fd, (struct watched){ ON_REQUEST, 0 });
	while (ret == 0) {
		ret = watch_next(&s->watch, WATCH_FOREVER, &what, &found);
		if (ret || !found)
			continue;
		if (what.kind == ON_STOP)
			break;
		if (what.kind == ON_REQUEST)
			take_request(s);
		else
			client_event(s, what.index);
	}
	for (unsigned i = 0; i < CLIENTS_MAX; i++) {
		if (s->conns[i])
			drop_client(s, i);
	}

	return ret;
}

static void
accounts_init(uint8_t *shared)
{
	const uint64_t state = STATE(0, COPY_FIRST);

	memcpy(shared + STATE_OFFSET, &state, sizeof(state));
	for (unsigned i = 0; i < ACCOUNTS; i++)
		counter_put(shared + COPIES_OFFSET + COPY_FIRST * COPY_SIZE + i * ACCOUNT_SIZE,
			BALANCE_FIRST);
}

/* the clients have disconnected, and may have left any bytes */
static void
accounts_print(const uint8_t *shared)
{
	uint64_t state;
	uint64_t total = 0;

	memcpy(&state, shared + STATE_OFFSET, sizeof(state));
	if (STATE_COPY(state) >= COPIES) {
		printf("there are no accounts\n");
		return;
	}
	const uint8_t *copy = shared + COPIES_OFFSET + STATE_COPY(state) * COPY_SIZE;
	for (unsigned i = 0; i < ACCOUNTS; i++) {
		uint64_t balance = counter_get(copy + i * ACCOUNT_SIZE);
		printf("account %u: %" PRIu64 "\n", i, balance);
		total += balance;
	}
	printf("total: %" PRIu64 " after %" PRIu64 " transfers\n", total, STATE_TRANSFERS(state));
}

static int
needs_atomics(const struct rpma_peer *peer)
{
	uint32_t caps = 0;

	int ret = checked("rpma_peer_get_caps", rpma_peer_get_caps(peer, &caps));
	if (ret == 0 && !(caps & RPMA_CAP_ATOMICS)) {
		fprintf(stderr, "this device has no remote atomics: this example needs them\n");
		ret = RPMA_E_NOSUPP;
	}

	return ret;
}

int
main(int argc, char *argv[])
{
	/* remote atomics are allowed if the other side may both read and write */
	const int usage = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST;
	uint8_t description[EXCHANGE_SIZE];
	struct server s = { 0 };
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *mr = NULL;

	if (argc != 3) {
		fprintf(stderr, "usage: %s <server_address> <port>\n", argv[0]);
		return 2;
	}
	show_log();

	/* before the library starts threads, so that none of them takes the signals */
	if (watch_open(&s.watch, (struct watched){ ON_STOP, 0 }))
		return 1;
	s.shared = memory_new(SHARED_SIZE);
	int ret = s.shared ? 0 : RPMA_E_NOMEM;
	if (ret == 0) {
		accounts_init(s.shared);
		ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer, NULL);
	}
	if (ret == 0)
		ret = needs_atomics(peer);
	if (ret == 0)
		ret = checked("rpma_mr_reg", rpma_mr_reg(peer, s.shared, SHARED_SIZE, usage, &mr));
	if (ret == 0)
		ret = checked("describing the memory", exchange_pack(description, mr, NULL, 0, &s.pdata));
	if (ret == 0)
		ret = checked("rpma_ep_listen", rpma_ep_listen(peer, argv[1], argv[2], &s.ep));
	if (ret == 0)
		ret = serve(&s);
	if (ret == 0)
		accounts_print(s.shared);

	ret = first_error(ret, checked("rpma_ep_shutdown", rpma_ep_shutdown(&s.ep)));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	free(s.shared);
	watch_close(&s.watch);

	return ret ? 1 : 0;
}
