/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * imm.h -- immediate data: 4 bytes that come with a message or a write, and that both sides know in advance
 */

#ifndef EXAMPLES_IMM_H
#define EXAMPLES_IMM_H

#include <arpa/inet.h>
#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "connection.h"

#define IMM_SIZE 4

static inline void
imm_put(uint8_t bytes[static IMM_SIZE], uint32_t imm)
{
	imm = htole32(imm);
	memcpy(bytes, &imm, IMM_SIZE);
}

static inline uint32_t
imm_get(const uint8_t bytes[static IMM_SIZE])
{
	uint32_t imm;

	memcpy(&imm, bytes, IMM_SIZE);
	return le32toh(imm);
}

/* the number that the client of the request has announced */
static inline int
imm_announced(const struct rpma_conn_req *req, uint32_t *imm)
{
	struct rpma_conn_private_data pdata;

	int ret = checked("rpma_conn_req_get_private_data", rpma_conn_req_get_private_data(req, &pdata));
	if (ret)
		return ret;
	/* transports may pad private data, so there may be more bytes than were sent, but never fewer */
	if (pdata.ptr == NULL || pdata.len < IMM_SIZE) {
		fprintf(stderr, "the client has announced no immediate data\n");
		return RPMA_E_INVAL;
	}
	*imm = imm_get(pdata.ptr);

	return 0;
}

/* the immediate data of a completion, which must equal the announced number */
static inline int
imm_checked(const struct ibv_wc *wc, uint32_t announced, uint32_t *imm)
{
	if (!(wc->wc_flags & IBV_WC_WITH_IMM)) {
		fprintf(stderr, "it came without immediate data\n");
		return RPMA_E_INVAL;
	}
	/* a completion has it in network byte order */
	*imm = ntohl(wc->imm_data);
	if (*imm != announced) {
		fprintf(stderr, "it came with immediate data '%u', and not with '%u'\n", *imm, announced);
		return RPMA_E_INVAL;
	}

	return 0;
}

#endif /* EXAMPLES_IMM_H */
