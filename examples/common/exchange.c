/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <string.h>

#include "exchange.h"

/* writes the descriptor of mr to dst if it fits into room bytes */
static int
pack_mr(const struct rpma_mr_local *mr, uint8_t *dst, size_t room, size_t *len)
{
	int ret = rpma_mr_get_descriptor_size(mr, len);
	if (ret)
		return ret;
	if (*len > room)
		return RPMA_E_INVAL;

	return rpma_mr_get_descriptor(mr, dst);
}

static int
pack_pcfg(const struct rpma_peer_cfg *pcfg, uint8_t *dst, size_t room, size_t *len)
{
	*len = 0;
	if (pcfg == NULL)
		return 0;

	int ret = rpma_peer_cfg_get_descriptor_size(pcfg, len);
	if (ret)
		return ret;
	if (*len > room)
		return RPMA_E_INVAL;

	return rpma_peer_cfg_get_descriptor(pcfg, dst);
}

int
exchange_pack(uint8_t buf[static EXCHANGE_SIZE], const struct rpma_mr_local *mr,
	const struct rpma_peer_cfg *pcfg, size_t data_offset, struct rpma_conn_private_data *pdata)
{
	uint8_t *descriptors = buf + EXCHANGE_HEADER_SIZE;
	size_t mr_len;
	size_t pcfg_len;

	if (data_offset > UINT16_MAX)
		return RPMA_E_INVAL;

	memset(buf, 0, EXCHANGE_SIZE);
	int ret = pack_mr(mr, descriptors, EXCHANGE_DESCRIPTORS_MAX, &mr_len);
	if (ret)
		return ret;
	ret = pack_pcfg(pcfg, descriptors + mr_len, EXCHANGE_DESCRIPTORS_MAX - mr_len, &pcfg_len);
	if (ret)
		return ret;

	buf[0] = (uint8_t)(data_offset & 0xff);
	buf[1] = (uint8_t)(data_offset >> 8);
	buf[2] = (uint8_t)mr_len;
	buf[3] = (uint8_t)pcfg_len;
	pdata->ptr = buf;
	pdata->len = EXCHANGE_SIZE;

	return 0;
}

static int
import(const uint8_t *descriptors, size_t mr_len, size_t pcfg_len, struct exchange *ex)
{
	int ret = rpma_mr_remote_from_descriptor(descriptors, mr_len, &ex->mr);
	if (ret)
		return ret;
	ret = rpma_mr_remote_get_size(ex->mr, &ex->size);
	if (ret)
		return ret;
	if (ex->data_offset >= ex->size)
		return RPMA_E_INVAL;

	return pcfg_len ? rpma_peer_cfg_from_descriptor(descriptors + mr_len, pcfg_len, &ex->pcfg) : 0;
}

int
exchange_unpack(const struct rpma_conn *conn, struct exchange *ex)
{
	struct rpma_conn_private_data pdata;

	int ret = rpma_conn_get_private_data(conn, &pdata);
	if (ret)
		return ret;

	/* transports may pad private data, so there may be more bytes than were sent, but never fewer */
	const uint8_t *buf = pdata.ptr;
	if (buf == NULL || pdata.len < EXCHANGE_SIZE)
		return RPMA_E_INVAL;
	size_t mr_len = buf[2];
	size_t pcfg_len = buf[3];
	if (mr_len > EXCHANGE_DESCRIPTORS_MAX || pcfg_len > EXCHANGE_DESCRIPTORS_MAX - mr_len)
		return RPMA_E_INVAL;

	*ex = (struct exchange){ .data_offset = (size_t)(buf[0] | buf[1] << 8) };
	ret = import(buf + EXCHANGE_HEADER_SIZE, mr_len, pcfg_len, ex);
	if (ret)
		exchange_release(ex);

	return ret;
}

void
exchange_release(struct exchange *ex)
{
	(void)rpma_peer_cfg_delete(&ex->pcfg);
	(void)rpma_mr_remote_delete(&ex->mr);
}
