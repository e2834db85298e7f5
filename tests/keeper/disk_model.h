/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * disk_model.h -- what a disk may contain, by what its clients were told: shared by processes that are killed
 *
 * A block has versions. Version 0 is its content when the model was last brought up to date; each write adds one, before the
 * disk gets it. The newest version that was answered is `answered`; no version before `durable` may be left after a power cut.
 * So a read gives one from `answered` to `issued`, and a cut leaves one from `durable` to `issued`. Each content occurs in one
 * version only, except zeros. A block belongs to one thread, which alone writes it.
 *
 * A page that is written while it is flushed may be torn: words of several versions that a cut may leave.
 */

#ifndef TEST_DISK_MODEL_H
#define TEST_DISK_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_BLOCK 512 /* smaller than a page: a flush then covers parts of pages */
#define MODEL_BLOCKS 2048
#define MODEL_SIZE ((size_t)MODEL_BLOCK * MODEL_BLOCKS)
/* versions that need not be durable, at most; one bit of `zeros` is for each */
#define MODEL_VERSIONS_MAX 60

struct model_block {
	uint64_t base; /* the content of version 0 */
	uint64_t round;
	_Atomic uint32_t durable, answered, issued;
	_Atomic uint64_t zeros; /* bit v % 64: version v is zeros */
};

struct model {
	struct model_block blocks[MODEL_BLOCKS];
};

#define MODEL_NONE (-1)
#define MODEL_TORN (-2)

/* the newest version from first to last that buf may be; MODEL_TORN: words of several; MODEL_NONE */
int64_t model_find(const struct model *m, size_t block, uint32_t first, uint32_t last, const uint8_t *buf);

/* true if the block has room for another version; else a flush must come first */
bool model_has_room(const struct model *m, size_t block);
/* adds a version, with its content in buf */
uint32_t model_issue(struct model *m, size_t block, bool zeros, uint8_t *buf);
/* the write of the version was answered */
void model_answered(struct model *m, size_t block, uint32_t version, bool durable);

/* what a flush that begins now makes durable, and that it has succeeded */
void model_flush_begins(const struct model *m, uint32_t answered[static MODEL_BLOCKS]);
void model_flushed(struct model *m, const uint32_t answered[static MODEL_BLOCKS]);

/*
 * No client is left, or the one that there is waits: a version that model_find has found is version 0 from now on. MODEL_TORN
 * and MODEL_NONE: any content may be there until the next write.
 */
void model_adopt(struct model *m, size_t block, int64_t version, uint64_t round);

#endif /* TEST_DISK_MODEL_H */
