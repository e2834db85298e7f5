/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* send_ring.c -- the work requests of a send queue, from their post to their completion */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softrdma/core/send_ring.h"
#include "usdt.h"

int
softrdma_send_ring_init(struct softrdma_send_ring *ring, const struct ibv_pd *pd, struct softrdma_cq *cq,
	uint32_t qp_num, const struct ibv_qp_cap *cap)
{
	memset(ring, 0, sizeof(*ring));
	ring->pd = pd;
	ring->cq = cq;
	ring->qp_num = qp_num;
	ring->capacity = cap->max_send_wr;

	uint32_t slots = 1;
	while (slots < ring->capacity)
		slots *= 2;
	ring->mask = slots - 1;

	const size_t inline_size = (cap->max_inline_data + 7u) & ~(size_t)7;
	const size_t sges_size = softrdma_send_ring_max_sge(cap) * sizeof(struct ibv_sge);
	ring->slots = calloc(slots, sizeof(*ring->slots));
	ring->storage = calloc(slots, sges_size + inline_size);
	if (ring->slots == NULL || ring->storage == NULL) {
		softrdma_send_ring_fini(ring);
		return ENOMEM;
	}
	/* the SGEs side by side, because few requests have inline data: so four of them share a cache line */
	uint8_t *sges = ring->storage, *inline_data = sges + slots * sges_size;
	for (uint32_t i = 0; i < slots; i++) {
		ring->slots[i].sge = (struct ibv_sge *)(void *)(sges + i * sges_size);
		ring->slots[i].inline_data = inline_data + i * inline_size;
	}
	return 0;
}

int
softrdma_send_ring_add_destinations(struct softrdma_send_ring *ring)
{
	ring->destinations = calloc(ring->mask + 1u, sizeof(*ring->destinations));
	if (ring->destinations == NULL)
		return ENOMEM;
	for (uint32_t i = 0; i <= ring->mask; i++)
		ring->slots[i].to = &ring->destinations[i];
	return 0;
}

void
softrdma_send_ring_fini(struct softrdma_send_ring *ring)
{
	free(ring->destinations);
	free(ring->storage);
	free(ring->slots);
	ring->destinations = NULL;
	ring->storage = NULL;
	ring->slots = NULL;
}

void
softrdma_send_ring_start(struct softrdma_send_ring *ring, uint32_t seq)
{
	assert(ring->head == ring->tail);
	ring->head = ring->tail = seq;
}

uint32_t
softrdma_send_ring_room(const struct softrdma_send_ring *ring)
{
	return ring->capacity - (ring->head - ring->tail);
}

struct softrdma_send *
softrdma_send_ring_clear_slot(struct softrdma_send_ring *ring, uint32_t seq)
{
	struct softrdma_send *send = softrdma_send_ring_slot_at(ring, seq);
	memset(send, 0, offsetof(struct softrdma_send, sge));
	if (send->to)
		send->to->address.sin6_family = AF_UNSPEC;
	return send;
}

struct softrdma_send *
softrdma_send_ring_slot(struct softrdma_send_ring *ring)
{
	return softrdma_send_ring_room(ring) ? softrdma_send_ring_clear_slot(ring, ring->head) : NULL;
}

uint32_t
softrdma_send_ring_commit(struct softrdma_send_ring *ring)
{
	assert(ring->head - ring->tail < ring->capacity);
	const struct softrdma_send *send = softrdma_send_ring_slot_at(ring, ring->head);
	(void)send; /* for the probe alone */
	USDT(softrdma, post, ring->qp_num, ring->head, send->wr_id, send->opcode, send->length);
	return ring->head++;
}

static void
count_ended(struct softrdma_send_ring *ring, const struct softrdma_send *send, enum ibv_wc_status status)
{
	const enum softrdma_stats_operation kind = softrdma_send_info(send)->operation;
	if (status == IBV_WC_SUCCESS) {
		SOFTRDMA_COUNT(&ring->counters, issued.operations[kind], 1);
		SOFTRDMA_COUNT(&ring->counters, issued.bytes[kind], send->length);
	} else {
		SOFTRDMA_COUNT(&ring->counters, failed, 1);
	}
}

void
softrdma_send_ring_complete(struct softrdma_send_ring *ring, enum ibv_wc_status status)
{
	const struct softrdma_send *send = softrdma_send_ring_at(ring, ring->tail);
	count_ended(ring, send, status);
	USDT(softrdma, complete, ring->qp_num, ring->tail, send->wr_id, send->opcode, send->length,
		(int)status);
	ring->tail++;
	if (status == IBV_WC_SUCCESS && !send->signaled)
		return;

	struct ibv_wc wc = {
		.wr_id = send->wr_id,
		.status = status,
		.opcode = (enum ibv_wc_opcode)softrdma_send_info(send)->wc_opcode,
		.byte_len = (uint32_t)send->length,
		.qp_num = ring->qp_num,
	};
	if (!softrdma_cq_push(ring->cq, &wc, status != IBV_WC_SUCCESS))
		ring->overrun = true;
}

bool
softrdma_send_has_sges(const struct softrdma_send *send)
{
	const struct softrdma_opcode_info *info = softrdma_send_info(send);
	return info->is_message || info->is_rd_atom;
}

int
softrdma_send_check(struct softrdma_send *send)
{
	const struct softrdma_opcode_info *info = softrdma_send_info(send);
	/* the SGEs must have room for what comes back */
	if ((send->is_inline && info->is_rd_atom) || send->length < info->result)
		return EINVAL;
	if (info->result > 0)
		send->length = info->result;
	return 0;
}
