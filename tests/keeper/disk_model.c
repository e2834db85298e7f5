/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* disk_model.c -- what a disk may contain, by what its clients were told */

#include <assert.h>
#include <string.h>

#include "disk_model.h"
#include "pattern.h"

/* contents: the seeds of patterns, and these */
#define ZEROS UINT64_C(0)
#define ANYTHING UINT64_MAX
#define WORD 8

static uint64_t
content(const struct model_block *b, uint32_t version)
{
	if (version == 0)
		return b->base;
	return atomic_load(&b->zeros) >> (version % 64) & 1 ? ZEROS : b->round << 32 | version;
}

static bool
is_content(uint64_t content, const uint8_t *buf, size_t len, uint64_t offset)
{
	if (content == ANYTHING)
		return true;
	return content == ZEROS ? pattern_check_byte(buf, len, 0) < 0
				: pattern_check(buf, len, content, offset) < 0;
}

/* the newest version that these bytes of the block may be */
static int64_t
find(const struct model_block *b, uint32_t first, uint32_t last, const uint8_t *buf, size_t len,
	uint64_t offset)
{
	for (int64_t version = last; version >= (int64_t)first; version--)
		if (is_content(content(b, (uint32_t)version), buf, len, offset))
			return version;
	return MODEL_NONE;
}

int64_t
model_find(const struct model *m, size_t block, uint32_t first, uint32_t last, const uint8_t *buf)
{
	const struct model_block *b = &m->blocks[block];
	const uint64_t offset = (uint64_t)block * MODEL_BLOCK;
	const int64_t version = find(b, first, last, buf, MODEL_BLOCK, offset);

	if (version >= 0)
		return version;
	for (size_t i = 0; i < MODEL_BLOCK; i += WORD)
		if (find(b, first, last, buf + i, WORD, offset + i) < 0)
			return MODEL_NONE;
	return MODEL_TORN;
}

bool
model_has_room(const struct model *m, size_t block)
{
	const struct model_block *b = &m->blocks[block];

	return atomic_load(&b->issued) - atomic_load(&b->durable) < MODEL_VERSIONS_MAX;
}

uint32_t
model_issue(struct model *m, size_t block, bool zeros, uint8_t *buf)
{
	struct model_block *b = &m->blocks[block];
	const uint32_t version = atomic_load(&b->issued) + 1;
	const uint64_t bit = UINT64_C(1) << (version % 64);

	atomic_store(&b->zeros, zeros ? atomic_load(&b->zeros) | bit : atomic_load(&b->zeros) & ~bit);
	atomic_store(&b->issued, version);
	if (zeros)
		memset(buf, 0, MODEL_BLOCK);
	else
		pattern_fill(buf, MODEL_BLOCK, content(b, version), (uint64_t)block * MODEL_BLOCK);
	return version;
}

static void
raise_durable(struct model_block *b, uint32_t version)
{
	uint32_t before = atomic_load(&b->durable);

	while (before < version && !atomic_compare_exchange_weak(&b->durable, &before, version))
		;
}

void
model_answered(struct model *m, size_t block, uint32_t version, bool durable)
{
	struct model_block *b = &m->blocks[block];

	assert(version > atomic_load(&b->answered) && version <= atomic_load(&b->issued));
	atomic_store(&b->answered, version);
	if (durable)
		raise_durable(b, version);
}

void
model_flush_begins(const struct model *m, uint32_t answered[static MODEL_BLOCKS])
{
	for (size_t i = 0; i < MODEL_BLOCKS; i++)
		answered[i] = atomic_load(&m->blocks[i].answered);
}

void
model_flushed(struct model *m, const uint32_t answered[static MODEL_BLOCKS])
{
	for (size_t i = 0; i < MODEL_BLOCKS; i++)
		raise_durable(&m->blocks[i], answered[i]);
}

void
model_adopt(struct model *m, size_t block, int64_t version, uint64_t round)
{
	struct model_block *b = &m->blocks[block];

	b->base = version < 0 ? ANYTHING : content(b, (uint32_t)version);
	b->round = round;
	atomic_store(&b->durable, 0);
	atomic_store(&b->answered, 0);
	atomic_store(&b->issued, 0);
	atomic_store(&b->zeros, 0);
}
