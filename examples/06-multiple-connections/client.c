/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * client.c -- offer a name to the server, and wait until it has read it
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "connection.h"
#include "exchange.h"
#include "name.h"
#include "numbers.h"

/* the letters of the radio alphabet */
static const char *const letters[] = { "Alfa", "Bravo", "Charlie", "Delta", "Echo", "Foxtrot", "Golf",
	"Hotel", "India", "Juliett", "Kilo", "Lima", "Mike", "November", "Oscar", "Papa", "Quebec", "Romeo",
	"Sierra", "Tango", "Uniform", "Victor", "Whiskey", "X-ray", "Yankee", "Zulu" };

#define LETTERS (sizeof(letters) / sizeof(letters[0]))

int
main(int argc, char *argv[])
{
	uint8_t description[EXCHANGE_SIZE];
	struct rpma_conn_private_data pdata;
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *mr = NULL;
	struct rpma_conn *conn = NULL;
	uint64_t seed;

	if (argc != 4 || !parse_number(argv[3], UINT32_MAX, &seed)) {
		fprintf(stderr, "usage: %s <server_address> <port> <seed>\n", argv[0]);
		return 2;
	}

	char *name = memory_new(NAME_SIZE);
	if (name == NULL)
		return 1;
	/* each seed gives another name */
	snprintf(name, NAME_SIZE, "%s-%" PRIu64, letters[seed % LETTERS], seed / LETTERS);
	printf("My names is: %s\n", name);

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg", rpma_mr_reg(peer, name, NAME_SIZE, RPMA_MR_USAGE_READ_SRC, &mr));
	if (ret == 0)
		ret = checked("describing the memory", exchange_pack(description, mr, NULL, 0, &pdata));
	if (ret == 0)
		ret = client_connect(peer, argv[1], argv[2], NULL, &pdata, &conn);
	if (ret == 0)
		ret = conn_wait_closed(&conn);

	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	free(name);

	return ret ? 1 : 0;
}
