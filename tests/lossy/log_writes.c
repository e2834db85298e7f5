/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* log_writes.c -- the log of dm-log-writes */

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "log_writes.h"

#define MAGIC UINT64_C(0x6a736677736872)
#define VERSION 1

/* as drivers/md/dm-log-writes.c of Linux writes them */
struct log_head {
	uint64_t magic;
	uint64_t version;
	uint64_t entries;
	uint32_t block;
};

struct entry_head {
	uint64_t sector; /* the size of its data, in blocks */
	uint64_t sectors;
	uint64_t flags;
	uint64_t data_len;
};

size_t
log_writes_block(int fd)
{
	struct log_head head;
	if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
		return 0;
	const size_t block = le32toh(head.block);
	if (le64toh(head.magic) != MAGIC || le64toh(head.version) != VERSION ||
		block < LOG_WRITES_BLOCK_MIN || block > LOG_WRITES_BLOCK_MAX) {
		errno = EPROTO;
		return 0;
	}
	return block;
}

bool
log_writes_next(int fd, size_t block, uint64_t *position, struct log_writes_entry *entry)
{
	uint8_t bytes[LOG_WRITES_BLOCK_MAX + 1];
	struct entry_head head;
	if (pread(fd, bytes, block, (off_t)*position) != (ssize_t)block)
		return false;
	memcpy(&head, bytes, sizeof(head));
	if (!head.flags && !head.sectors)
		return false; /* zeros */
	entry->flags = le64toh(head.flags);
	entry->to = le64toh(head.sector) * block;
	entry->len = entry->flags & LOG_WRITES_DISCARD ? 0 : le64toh(head.sectors) * block;
	entry->from = *position + block;
	bytes[block] = '\0';
	memcpy(entry->mark, bytes + sizeof(head), block - sizeof(head) + 1);
	*position = entry->from + entry->len;
	return true;
}
