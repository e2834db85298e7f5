/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* server.c -- give one client memory for a table, and print it after the client has disconnected */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "connection.h"
#include "counter.h"
#include "exchange.h"
#include "table.h"
#include "text.h"

/* a client wrote the table, so a row counts only if it is in the slot of its key */
static void
print_table(const uint8_t *table)
{
	char value[VALUE_SIZE];
	unsigned rows = 0;

	for (size_t slot = 0; slot < TABLE_SLOTS; slot++) {
		const uint8_t *row = table + slot * ROW_SIZE;
		uint64_t key = counter_get(row);
		if (key == 0)
			continue;
		if (key > TABLE_SLOTS || table_slot(key) != slot) {
			printf("slot %zu holds no row\n", slot);
			continue;
		}
		printf("%" PRIu64 ": %s\n", key, text_copy(value, sizeof(value), row + KEY_SIZE, VALUE_SIZE));
		rows++;
	}
	printf("rows: %u\n", rows);
}

int
main(int argc, char *argv[])
{
	uint8_t description[EXCHANGE_SIZE];
	struct rpma_conn_private_data pdata;
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *mr = NULL;
	struct rpma_ep *ep = NULL;
	struct rpma_conn *conn = NULL;

	if (argc != 3) {
		fprintf(stderr, "usage: %s <server_address> <port>\n", argv[0]);
		return 2;
	}
	show_log();

	uint8_t *table = memory_new(TABLE_SIZE);
	if (table == NULL)
		return 1;

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, table, TABLE_SIZE, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC,
				&mr));
	if (ret == 0)
		ret = checked("describing the memory", exchange_pack(description, mr, NULL, 0, &pdata));
	if (ret == 0)
		ret = checked("rpma_ep_listen", rpma_ep_listen(peer, argv[1], argv[2], &ep));
	if (ret == 0)
		ret = server_accept(ep, NULL, &pdata, &conn);
	if (ret == 0)
		ret = conn_wait_closed(&conn);
	if (ret == 0)
		print_table(table);

	ret = first_error(ret, checked("rpma_ep_shutdown", rpma_ep_shutdown(&ep)));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	free(table);

	return ret ? 1 : 0;
}
