/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * server.c -- give one client persistent memory for a journal, and print it after the client has disconnected
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "connection.h"
#include "exchange.h"
#include "journal.h"
#include "persistent.h"

struct memory {
	uint8_t *ptr;
	size_t size;
	struct persistent file; /* file.map is NULL if the memory is volatile */
};

static int
open_file(const char *path, struct memory *memory)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		perror(path);
		return -1;
	}
	int ret = persistent_map(fd, path, true, &memory->file);
	close(fd);
	if (ret)
		return -1;
	if (memory->file.size < JOURNAL_SIZE) {
		fprintf(stderr, "%s: too small: %d bytes are needed\n", path, JOURNAL_SIZE);
		persistent_unmap(&memory->file);
		return -1;
	}
	memory->ptr = memory->file.ptr;
	memory->size = memory->file.size;

	return 0;
}

static int
open_memory(const char *path, struct memory *memory)
{
	if (path)
		return open_file(path, memory);

	fprintf(stderr, "no persistent memory was given: volatile memory is used\n");
	memory->ptr = memory_new(JOURNAL_SIZE);
	memory->size = JOURNAL_SIZE;

	return memory->ptr ? 0 : -1;
}

static void
close_memory(struct memory *memory)
{
	if (memory->file.map)
		persistent_unmap(&memory->file);
	else
		free(memory->ptr);
}

static void
print_journal(const uint8_t *journal)
{
	char text[RECORD_TEXT_SIZE];
	size_t count = journal_count(journal);

	printf("The journal holds:\n");
	for (size_t i = 0; i < count; i++)
		printf("%zu: %s\n", i + 1, record_text(journal + i * RECORD_SIZE, text));
}

int
main(int argc, char *argv[])
{
	int usage = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
	uint8_t description[EXCHANGE_SIZE];
	struct rpma_conn_private_data pdata;
	struct memory memory = { 0 };
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *mr = NULL;
	struct rpma_ep *ep = NULL;
	struct rpma_conn *conn = NULL;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: %s <server_address> <port> [<pmem-path>]\n", argv[0]);
		return 2;
	}
	show_log();

	if (open_memory(argc > 3 ? argv[3] : NULL, &memory))
		return 1;
	if (memory.file.map)
		usage |= RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg", rpma_mr_reg(peer, memory.ptr, memory.size, usage, &mr));
	if (ret == 0)
		ret = checked("describing the memory", exchange_pack(description, mr, NULL, 0, &pdata));
	if (ret == 0)
		ret = checked("rpma_ep_listen", rpma_ep_listen(peer, argv[1], argv[2], &ep));
	if (ret == 0)
		ret = server_accept(ep, NULL, &pdata, &conn);
	/* what the client was told to be durable is durable: the server has nothing to do for it */
	if (ret == 0)
		ret = conn_wait_closed(&conn);
	if (ret == 0)
		print_journal(memory.ptr);

	ret = first_error(ret, checked("rpma_ep_shutdown", rpma_ep_shutdown(&ep)));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	close_memory(&memory);

	return ret ? 1 : 0;
}
