/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* server.c -- give one client memory to write to, and print it after the client has disconnected */

#include <stdio.h>
#include <string.h>

#include "connection.h"
#include "exchange.h"
#include "greeting.h"

static int
usage(const char *name)
{
	fprintf(stderr,
		"usage: %s <server_address> <port> [<pmem-path>] [direct-pmem-write]\n"
		"  direct-pmem-write  \"on\": RDMA writes go to persistent memory directly (DDIO is off);\n"
		"                     only hardware that cannot flush by itself needs to be told\n",
		name);
	return 2;
}

static int
describe(struct rpma_mr_local *mr, size_t offset, bool direct_write, uint8_t buf[static EXCHANGE_SIZE],
	struct rpma_conn_private_data *pdata)
{
	struct rpma_peer_cfg *pcfg = NULL;

	int ret = rpma_peer_cfg_new(&pcfg);
	if (ret == 0)
		ret = rpma_peer_cfg_set_direct_write_to_pmem(pcfg, direct_write);
	if (ret == 0)
		ret = exchange_pack(buf, mr, pcfg, offset, pdata);
	(void)rpma_peer_cfg_delete(&pcfg);
	if (ret)
		report("describing the memory", ret);

	return ret;
}

/* accepts one client and waits until it has disconnected: the client needs no help meanwhile */
static int
serve_client(struct rpma_peer *peer, const char *addr, const char *port,
	const struct rpma_conn_private_data *pdata)
{
	struct rpma_ep *ep = NULL;
	struct rpma_conn *conn = NULL;

	int ret = rpma_ep_listen(peer, addr, port, &ep);
	if (ret) {
		report("rpma_ep_listen", ret);
		return ret;
	}
	ret = server_accept(ep, NULL, pdata, &conn);
	if (ret == 0)
		ret = conn_wait_closed(&conn);
	if (rpma_ep_shutdown(&ep))
		ret = -1;

	return ret;
}

static int
serve_memory(struct rpma_peer *peer, const char *addr, const char *port, struct greeting_memory *mem,
	bool direct_write)
{
	int usage_flags = RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
	uint8_t buf[EXCHANGE_SIZE];
	struct rpma_conn_private_data pdata;
	struct rpma_mr_local *mr = NULL;

	if (mem->file.map)
		usage_flags |= RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
	int ret = rpma_mr_reg(peer, mem->ptr, mem->size, usage_flags, &mr);
	if (ret) {
		report("rpma_mr_reg", ret);
		return ret;
	}
	ret = describe(mr, mem->text_offset, direct_write, buf, &pdata);
	if (ret == 0)
		ret = serve_client(peer, addr, port, &pdata);
	if (rpma_mr_dereg(&mr))
		ret = -1;

	return ret;
}

int
main(int argc, char *argv[])
{
	struct greeting_memory mem;
	struct rpma_peer *peer = NULL;

	if (argc < 3 || argc > 5)
		return usage(argv[0]);
	bool direct_write = argc > 4 && strcmp(argv[4], "on") == 0;

	/* show what librpma does */
	show_log();

	if (greeting_open(argc > 3 ? argv[3] : NULL, 0, "", &mem))
		return 1;
	if (mem.file.map)
		greeting_print("Old value", &mem);

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer, NULL);
	if (ret == 0)
		ret = serve_memory(peer, argv[1], argv[2], &mem, direct_write);
	if (ret == 0)
		greeting_print("New value", &mem);

	if (rpma_peer_delete(&peer))
		ret = -1;
	greeting_close(&mem);

	return ret ? 1 : 0;
}
