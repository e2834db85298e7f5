/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* descriptor.h -- what peers tell each other, encoded as bytes */

#ifndef RPMAI_DESCRIPTOR_H
#define RPMAI_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_DESCRIPTOR_SIZE_MIN 21 /* written by the original library */
#define MR_DESCRIPTOR_SIZE 22     /* with the capabilities */
#define PEER_CFG_DESCRIPTOR_SIZE 1

/* what the device of a memory region can do */
enum {
	MR_CAP_NATIVE_FLUSH = 1 << 0,
	MR_CAP_NATIVE_ATOMIC_WRITE = 1 << 1,
	MR_CAP_REMOTE_ATOMICS = 1 << 2, /* the region allows compare-and-swap and fetch-and-add */
};

struct mr_descriptor {
	uint64_t raddr;
	uint64_t size; /* in bytes */
	uint32_t rkey;
	uint8_t usage; /* RPMA_MR_USAGE_* */
	bool has_caps; /* false if the original library made the descriptor */
	uint8_t caps;  /* MR_CAP_*; 0 without has_caps */
};

/* mr->has_caps must be true */
void rpmai_mr_descriptor_encode(const struct mr_descriptor *mr, uint8_t desc[static MR_DESCRIPTOR_SIZE]);

/* returns false and leaves *mr untouched if it is too short, has no usage or size 0, or its range wraps */
bool rpmai_mr_descriptor_decode(const uint8_t *desc, size_t desc_size, struct mr_descriptor *mr);

void rpmai_peer_cfg_descriptor_encode(bool direct_write_to_pmem,
	uint8_t desc[static PEER_CFG_DESCRIPTOR_SIZE]);
bool rpmai_peer_cfg_descriptor_decode(const uint8_t *desc, size_t desc_size, bool *direct_write_to_pmem);

#endif /* RPMAI_DESCRIPTOR_H */
