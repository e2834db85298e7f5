/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * server.c -- keep a word for each of two tenants, who do not trust each other
 *
 * Each tenant has a peer of its own: an endpoint, the connections that come through it, and memory. A key
 * works only over connections of the peer that the memory was registered with. With `shared` both tenants
 * have one peer. Then only ignorance of the key keeps one tenant out of the other's memory.
 */

#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "exchange.h"
#include "tenants.h"

struct tenant {
	struct rpma_peer *peer; /* of its own, or shared with the other tenant */
	char *word;
	struct rpma_mr_local *mr;
	struct rpma_ep *ep;
	struct rpma_conn *conn;
	uint8_t description[EXCHANGE_SIZE];
	struct rpma_conn_private_data pdata;
};

static int
open_tenant(struct tenant *t, unsigned number, const char *addr, const char *first_port)
{
	char port[PORT_SIZE];

	if (!port_of(first_port, number, port))
		return RPMA_E_INVAL;
	t->word = memory_new(WORD_SIZE);
	if (t->word == NULL)
		return RPMA_E_NOMEM;
	snprintf(t->word, WORD_SIZE, "the word of tenant %u", number);

	int ret = checked("rpma_mr_reg",
		rpma_mr_reg(t->peer, t->word, WORD_SIZE, RPMA_MR_USAGE_READ_SRC, &t->mr));
	if (ret == 0)
		ret = checked("describing the memory",
			exchange_pack(t->description, t->mr, NULL, 0, &t->pdata));

	return ret ? ret : checked("rpma_ep_listen", rpma_ep_listen(t->peer, addr, port, &t->ep));
}

static int
close_tenant(struct tenant *t, bool own_peer)
{
	int ret = checked("rpma_ep_shutdown", rpma_ep_shutdown(&t->ep));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&t->mr)));
	if (own_peer)
		ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&t->peer)));
	free(t->word);

	return ret;
}

/* serves one client that is both tenants, so it knows both keys */
static int
serve(struct tenant tenants[static TENANTS])
{
	int ret = 0;

	for (unsigned i = 0; ret == 0 && i < TENANTS; i++)
		ret = server_accept(tenants[i].ep, NULL, &tenants[i].pdata, &tenants[i].conn);
	/* the device may have closed the first one already */
	for (unsigned i = 0; i < TENANTS; i++)
		if (tenants[i].conn)
			ret = first_error(ret, conn_wait_closed(&tenants[i].conn));

	return ret;
}

int
main(int argc, char *argv[])
{
	struct tenant tenants[TENANTS] = { 0 };
	const bool shared = argc == 4 && strcmp(argv[3], "shared") == 0;
	char port[PORT_SIZE];
	int ret = 0;

	if ((argc != 3 && !shared) || !port_of(argv[2], 0, port)) {
		fprintf(stderr, "usage: %s <server_address> <port> [shared]\n", argv[0]);
		return 2;
	}
	show_log();

	for (unsigned i = 0; ret == 0 && i < TENANTS; i++) {
		if (i > 0 && shared)
			tenants[i].peer = tenants[0].peer;
		else
			ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &tenants[i].peer, NULL);
		if (ret == 0)
			ret = open_tenant(&tenants[i], i, argv[1], argv[2]);
	}
	if (ret == 0)
		ret = serve(tenants);
	/* a shared peer belongs to the first tenant, which is deleted last */
	for (unsigned i = TENANTS; i-- > 0;)
		ret = first_error(ret, close_tenant(&tenants[i], i == 0 || !shared));

	return ret ? 1 : 0;
}
