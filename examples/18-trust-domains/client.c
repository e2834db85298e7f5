/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * client.c -- be both tenants, and use the key of one over the connection of the other
 *
 * It reads the word of each tenant over that tenant's connection. Then it reads the word of tenant 1 over the
 * connection of tenant 0, with the right key, address and length, as an attacker could who has overheard or
 * guessed them.
 */

#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "exchange.h"
#include "tenants.h"
#include "text.h"

struct client {
	struct rpma_conn *conns[TENANTS];
	struct exchange words[TENANTS];
	char *buffer;
	struct rpma_mr_local *mr;
};

/* reads a tenant's word over a tenant's connection; *status tells whether that was allowed */
static int
read_word(struct client *c, unsigned over, unsigned whose, enum ibv_wc_status *status)
{
	const struct exchange *word = &c->words[whose];
	struct rpma_cq *cq;
	struct ibv_wc wc;

	memset(c->buffer, 0, WORD_SIZE);
	int ret = checked("rpma_read",
		rpma_read(c->conns[over], c->mr, 0, word->mr, word->data_offset, WORD_SIZE,
			RPMA_F_COMPLETION_ALWAYS, NULL));
	if (ret == 0)
		ret = checked("rpma_conn_get_cq", rpma_conn_get_cq(c->conns[over], &cq));
	while (ret == 0 && (ret = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
		ret = checked("rpma_cq_wait", rpma_cq_wait(cq));
	if (ret == 0)
		*status = wc.status;

	return ret;
}

static int
print_word(struct client *c, unsigned over, unsigned whose)
{
	char text[WORD_SIZE];
	enum ibv_wc_status status;

	int ret = read_word(c, over, whose, &status);
	if (ret)
		return ret;
	if (status == IBV_WC_SUCCESS)
		printf("tenant %u reads of tenant %u: %s\n", over, whose,
			text_copy(text, sizeof(text), c->buffer, WORD_SIZE));
	else
		printf("tenant %u reads of tenant %u: refused\n", over, whose);

	return 0;
}

static int
become_tenant(struct client *c, unsigned number, struct rpma_peer *peer, const char *addr,
	const char *first_port)
{
	char port[PORT_SIZE];

	if (!port_of(first_port, number, port))
		return RPMA_E_INVAL;
	int ret = client_connect(peer, addr, port, NULL, NULL, &c->conns[number]);
	if (ret == 0)
		ret = checked("reading what the server says about its memory",
			exchange_unpack(c->conns[number], &c->words[number]));
	if (ret == 0 && c->words[number].size - c->words[number].data_offset < WORD_SIZE) {
		fprintf(stderr, "the server's memory is too small for a word\n");
		ret = RPMA_E_INVAL;
	}

	return ret;
}

int
main(int argc, char *argv[])
{
	struct client c = { 0 };
	struct rpma_peer *peer = NULL;
	char port[PORT_SIZE];

	if (argc != 3 || !port_of(argv[2], 0, port)) {
		fprintf(stderr, "usage: %s <server_address> <port>\n", argv[0]);
		return 2;
	}

	c.buffer = memory_new(WORD_SIZE);
	if (c.buffer == NULL)
		return 1;
	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, c.buffer, WORD_SIZE, RPMA_MR_USAGE_READ_DST, &c.mr));
	for (unsigned i = 0; ret == 0 && i < TENANTS; i++)
		ret = become_tenant(&c, i, peer, argv[1], argv[2]);
	for (unsigned i = 0; ret == 0 && i < TENANTS; i++)
		ret = print_word(&c, i, i);
	if (ret == 0)
		ret = print_word(&c, 0, 1);
	for (unsigned i = 0; i < TENANTS; i++) {
		if (c.words[i].mr)
			exchange_release(&c.words[i]);
		if (c.conns[i])
			ret = first_error(ret, conn_disconnect(&c.conns[i]));
	}

	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&c.mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	free(c.buffer);

	return ret ? 1 : 0;
}
