/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* hand.c -- a queue pair that is connected by hand */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hand.h"

#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_MASK \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK \
	(IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | \
		IBV_QP_MAX_QP_RD_ATOMIC)
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define DEPTH 16
#define PSN_MASK 0xffffffu
/* the most entries that a port can have, because an index travels in one byte */
#define GIDS_MAX 256

void
hand_fail(const char *what)
{
	fprintf(stderr, "queue pair by hand: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* true if it is the GID that the software device gives to 127.0.0.1 */
static bool
is_of_loopback(const union ibv_gid *gid)
{
	static const uint8_t kind[] = { 0xfc, 0x53, 1 };
	static const uint8_t address[] = { 127, 0, 0, 1 };

	return memcmp(gid->raw, kind, sizeof(kind)) == 0 &&
		memcmp(gid->raw + 4, address, sizeof(address)) == 0;
}

static void
find_gid(struct hand_device *device)
{
	for (device->gid_index = 0; device->gid_index < GIDS_MAX; device->gid_index++) {
		if (ibv_query_gid(device->ctx, 1, (int)device->gid_index, &device->gid))
			break;
		if (is_of_loopback(&device->gid))
			return;
	}
	hand_fail("no GID of 127.0.0.1");
}

void
hand_open_device(struct hand_device *device)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	if (devices == NULL || devices[0] == NULL)
		hand_fail("no device");
	device->ctx = ibv_open_device(devices[0]);
	ibv_free_device_list(devices);
	if (device->ctx == NULL)
		hand_fail("open the device");
	find_gid(device);
	device->pd = ibv_alloc_pd(device->ctx);
	device->bytes = aligned_alloc(4096, HAND_MEMORY);
	if (device->pd == NULL || device->bytes == NULL)
		hand_fail("protection domain");
	memset(device->bytes, 0, HAND_MEMORY);
	device->mr = ibv_reg_mr(device->pd, device->bytes, HAND_MEMORY, RIGHTS);
	if (device->mr == NULL)
		hand_fail("register");
}

void
hand_close_device(struct hand_device *device)
{
	if (ibv_dereg_mr(device->mr) || ibv_dealloc_pd(device->pd) || ibv_close_device(device->ctx))
		hand_fail("close the device");
	free(device->bytes);
}

void
hand_new(const struct hand_device *device, struct hand *hand)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = RIGHTS };

	hand->device = device;
	hand->channel = ibv_create_comp_channel(device->ctx);
	if (hand->channel == NULL)
		hand_fail("completion channel");
	hand->cq = ibv_create_cq(device->ctx, DEPTH, NULL, hand->channel, 0);
	if (hand->cq == NULL)
		hand_fail("completion queue");
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
		.send_cq = hand->cq,
		.recv_cq = hand->cq,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };
	hand->qp = ibv_create_qp(device->pd, &init);
	if (hand->qp == NULL || ibv_modify_qp(hand->qp, &attr, INIT_MASK))
		hand_fail("queue pair");
	hand->card = (struct hand_card){ .gid = device->gid,
		.addr = (uintptr_t)device->bytes,
		.key = device->mr->rkey,
		.qp_num = hand->qp->qp_num,
		.psn = (uint32_t)random() & PSN_MASK };
}

void
hand_expect(struct hand *hand, const struct hand_card *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1 } };

	attr.ah_attr.grh.dgid = peer->gid;
	attr.ah_attr.grh.sgid_index = (uint8_t)hand->device->gid_index;
	attr.ah_attr.grh.hop_limit = 1;
	if (ibv_modify_qp(hand->qp, &attr, RTR_MASK))
		hand_fail("RTR");
}

void
hand_call(struct hand *hand)
{
	/* the longest timeout for an absent peer, since it may be absent because of the attack */
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
		.timeout = 31,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.sq_psn = hand->card.psn,
		.max_rd_atomic = 4 };

	if (ibv_modify_qp(hand->qp, &attr, RTS_MASK))
		hand_fail("RTS");
}

void
hand_delete(struct hand *hand)
{
	if (ibv_destroy_qp(hand->qp) || ibv_destroy_cq(hand->cq) || ibv_destroy_comp_channel(hand->channel))
		hand_fail("delete");
}
