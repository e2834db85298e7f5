/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* hand.h -- queue pairs connected by hand, as verbs programs do it; over libsoftrdma.so */

#ifndef HAND_H
#define HAND_H

#include <stdint.h>

#include <infiniband/verbs.h>

#define HAND_MEMORY 8192

/* what a program needs once */
struct hand_device {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint8_t *bytes;    /* HAND_MEMORY of them; every peer may read and write them */
	union ibv_gid gid; /* of 127.0.0.1 */
	unsigned gid_index;
};

/* what the sides exchange; both run on one machine, so it is sent as it lies in memory */
struct hand_card {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t key;
	uint32_t qp_num;
	uint32_t psn;
};

struct hand {
	const struct hand_device *device;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct hand_card card;
};

/* all of these end the program with a message if they fail */
void hand_open_device(struct hand_device *device);
void hand_close_device(struct hand_device *device);
/* in INIT */
void hand_new(const struct hand_device *device, struct hand *hand);
/* moves it to RTR: it then serves any peer that has the card of `peer` */
void hand_expect(struct hand *hand, const struct hand_card *peer);
/* moves it to RTS: it connects to the peer */
void hand_call(struct hand *hand);
void hand_delete(struct hand *hand);

void hand_fail(const char *what) __attribute__((noreturn));

#endif /* HAND_H */
