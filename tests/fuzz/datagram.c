/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * datagram.c -- an unreliable datagram: what a queue pair does with one whose source was believed
 *
 * The first byte of an input says which receive is posted (none, a short one, a long one), the rest is the datagram.
 */

#include <string.h>

#include "fuzz.h"
#include "softrdma/core/datagram.h"
#include "softrdma/verbs/device.h"
#include "softrdma/verbs/qp.h"

#define QKEY 0x1234
#define GUARD 64
#define ROOM (SOFTRDMA_GRH_SIZE + SOFTRDMA_DATAGRAM_MAX)
#define FILL 0x5a

static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static uint8_t memory[GUARD + ROOM + GUARD];

static void
set_up(void)
{
	struct ibv_context *context = softrdma_context();
	fuzz_quieten();
	FUZZ_CHECK(context);
	struct ibv_pd *pd = softrdma_ibv_alloc_pd(context);
	FUZZ_CHECK(pd);
	mr = softrdma_ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	cq = softrdma_ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { 1, 1, 1, 1, 0 } };
	qp = mr && cq ? softrdma_ibv_create_qp(pd, &init) : NULL;
	if (qp == NULL)
		fuzz_skip("no queue pair of datagrams can be made");
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	FUZZ_CHECK(softrdma_ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
}

/* posts a receive of this length, unless one is there already */
static void
post(uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)memory + GUARD, length, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = length, .sg_list = &sge, .num_sge = 1 }, *bad;
	ibv_post_recv(qp, &wr, &bad);
}

static void
check_completion(const struct ibv_wc *wc, const struct softrdma_datagram *datagram, const uint8_t *payload)
{
	FUZZ_CHECK(wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV);
	FUZZ_CHECK(wc->byte_len == SOFTRDMA_GRH_SIZE + datagram->length && wc->byte_len <= wc->wr_id);
	FUZZ_CHECK(wc->src_qp == datagram->from_qp && wc->src_qp <= 0xffffff);
	FUZZ_CHECK(datagram->qkey == QKEY);
	FUZZ_CHECK(memcmp(memory + GUARD + SOFTRDMA_GRH_SIZE, payload, datagram->length) == 0);
}

static void
check_untouched(const uint8_t *from, size_t length)
{
	for (size_t i = 0; i < length; i++)
		FUZZ_CHECK(from[i] == FILL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t receives[] = { 0, SOFTRDMA_GRH_SIZE, SOFTRDMA_GRH_SIZE + 8u, ROOM };
	static uint8_t bytes[SOFTRDMA_DATAGRAM_HEADER + SOFTRDMA_DATAGRAM_MAX];
	struct softrdma_datagram datagram;
	uint8_t again[SOFTRDMA_DATAGRAM_HEADER];
	struct ibv_wc wc;
	if (qp == NULL)
		set_up();
	if (size < 1 || size - 1 > sizeof(bytes))
		return 0;
	memcpy(bytes, data + 1, size - 1);
	if (!softrdma_datagram_decode(bytes, size - 1, &datagram))
		return 0;
	softrdma_datagram_encode(&datagram, again);
	FUZZ_CHECK(memcmp(again, bytes, sizeof(again)) == 0);
	if (!softrdma_datagram_is_whole(&datagram, bytes))
		return 0;

	memset(memory, FILL, sizeof(memory));
	if (receives[data[0] % 4])
		post(receives[data[0] % 4]);
	struct softrdma_link *link = softrdma_qp_lock_link(softrdma_qp_of(qp));
	softrdma_datagram_deliver(link, &datagram, bytes);
	pthread_mutex_unlock(&link->lock);
	const int count = ibv_poll_cq(cq, 1, &wc);
	FUZZ_CHECK(count == 0 || count == 1);
	if (count == 1)
		check_completion(&wc, &datagram, data + 1 + SOFTRDMA_DATAGRAM_HEADER);
	const size_t used = count == 1 ? wc.byte_len : 0;
	check_untouched(memory, GUARD);
	check_untouched(memory + GUARD + used, sizeof(memory) - GUARD - used);
	return 0;
}
