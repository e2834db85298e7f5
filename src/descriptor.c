/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * descriptor.c -- the codec of descriptors
 *
 * A memory region, little-endian: address u64, size u64, key u32, usage u8. Then 0xA0 | capabilities in one
 * byte, which the original library neither writes nor reads. Programs of the original reserve 24 bytes for
 * this descriptor and a peer configuration of 1 byte, so there is no room for more. A next byte without that
 * tag is ignored: it may be the program's own data.
 */

#include <assert.h>

#include "descriptor.h"

#define CAPS_TAG 0xA0
#define CAPS_TAG_MASK 0xF0

/* the bytes that are left; once there are too few, get_* fails and keeps failing */
struct cursor {
	const uint8_t *pos;
	size_t left;
};

static bool
get_le(struct cursor *c, size_t bytes, uint64_t *value)
{
	assert(bytes <= sizeof(*value));
	if (c->left < bytes) {
		c->left = 0;
		return false;
	}
	*value = 0;
	for (size_t i = 0; i < bytes; i++)
		*value |= (uint64_t)c->pos[i] << (8 * i);
	c->pos += bytes;
	c->left -= bytes;
	return true;
}

static uint8_t *
put_le(uint8_t *pos, size_t bytes, uint64_t value)
{
	for (size_t i = 0; i < bytes; i++)
		pos[i] = (uint8_t)(value >> (8 * i));
	return pos + bytes;
}

void
rpmai_mr_descriptor_encode(const struct mr_descriptor *mr, uint8_t desc[static MR_DESCRIPTOR_SIZE])
{
	assert(mr->has_caps && (mr->caps & CAPS_TAG_MASK) == 0);

	uint8_t *pos = desc;
	pos = put_le(pos, 8, mr->raddr);
	pos = put_le(pos, 8, mr->size);
	pos = put_le(pos, 4, mr->rkey);
	pos = put_le(pos, 1, mr->usage);
	pos = put_le(pos, 1, (uint64_t)(CAPS_TAG | mr->caps));
	assert(pos == desc + MR_DESCRIPTOR_SIZE);
}

bool
rpmai_mr_descriptor_decode(const uint8_t *desc, size_t desc_size, struct mr_descriptor *mr)
{
	struct cursor c = { desc, desc_size };
	uint64_t raddr, size, rkey, usage, tail;

	if (!get_le(&c, 8, &raddr) || !get_le(&c, 8, &size) || !get_le(&c, 4, &rkey) ||
		!get_le(&c, 1, &usage))
		return false;
	if (usage == 0 || size == 0 || size > SIZE_MAX || size - 1 > UINT64_MAX - raddr)
		return false;

	bool has_caps = get_le(&c, 1, &tail) && (tail & CAPS_TAG_MASK) == CAPS_TAG;

	*mr = (struct mr_descriptor){
		.raddr = raddr,
		.size = size,
		.rkey = (uint32_t)rkey,
		.usage = (uint8_t)usage,
		.has_caps = has_caps,
		.caps = has_caps ? (uint8_t)(tail & ~(uint64_t)CAPS_TAG_MASK) : 0,
	};
	return true;
}

void
rpmai_peer_cfg_descriptor_encode(bool direct_write_to_pmem, uint8_t desc[static PEER_CFG_DESCRIPTOR_SIZE])
{
	desc[0] = direct_write_to_pmem ? 1 : 0;
}

bool
rpmai_peer_cfg_descriptor_decode(const uint8_t *desc, size_t desc_size, bool *direct_write_to_pmem)
{
	if (desc_size < PEER_CFG_DESCRIPTOR_SIZE)
		return false;
	*direct_write_to_pmem = desc[0] != 0;
	return true;
}
