/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * mem.h -- registered memory with guards
 *
 * The payload lies between two guards, which are registered with it: a byte too many is seen, not refused.
 */

#ifndef CONF_MEM_H
#define CONF_MEM_H

#include "check.h"

#define GUARD ((size_t)64)
#define GUARD_BYTE 0xa5
#define DESC_MAX 64

struct mem {
	uint8_t *base; /* the mapping: guard, payload, guard */
	uint8_t *data; /* the payload: at offset GUARD of the region */
	size_t len;    /* of the payload */
	size_t mapped; /* and registered */
	size_t held;   /* bytes mapped: `mapped`, rounded up where a device needs it */
	int fd;        /* of the mapped file or device, or -1 */
	off_t at;      /* the offset at which the mapping begins */
	char *path;    /* of the file, or NULL if it has no name */
	struct rpma_mr_local *mr;
};

struct desc {
	uint8_t bytes[DESC_MAX];
	size_t len;
};

/* anonymous memory, guards and payload of GUARD_BYTE, registered with the role's peer */
void mem_new(struct role *r, struct mem *m, size_t len, int usage);
/* the same with another peer */
void mem_new_with(struct rpma_peer *peer, struct mem *m, size_t len, int usage);
/*
 * a shared mapping of a file, or of the device DAX that the driver was given; skips the scenario if a device
 * cannot register one
 */
void mem_new_file(struct role *r, struct mem *m, size_t len, int usage);
/* a shared mapping of memory that has a file's interface: it survives the process, not the power */
void mem_new_memfd(struct role *r, struct mem *m, size_t len, int usage);
/*
 * the content of the file, read through its descriptor, not through the mapping (a device DAX: another
 * mapping)
 */
void mem_read_file(const struct mem *m, void *buf, size_t n, size_t offset);
void mem_dereg(struct mem *m);
void mem_delete(struct mem *m);

void mem_fill(struct mem *m, uint64_t seed);

/* the payload is the seed's pattern, and the guards are intact */
#define mem_check(m, seed) mem_check_at(__FILE__, __LINE__, m, seed)
/* the payload and the guards still hold GUARD_BYTE */
#define mem_check_untouched(m) mem_check_untouched_at(__FILE__, __LINE__, m)
/* the first `head` bytes are the pattern; the rest is untouched */
#define mem_check_head(m, head, seed) mem_check_head_at(__FILE__, __LINE__, m, head, seed)
void mem_check_at(const char *file, int line, const struct mem *m, uint64_t seed);
void mem_check_untouched_at(const char *file, int line, const struct mem *m);
void mem_check_head_at(const char *file, int line, const struct mem *m, size_t head, uint64_t seed);

/*
 * To be called after a flush of the whole payload has been acknowledged as persistent. If the power of the
 * medium can be cut (--power-cut), it is cut now. The payload must then be in what is left: the pattern of
 * the seed, or what mem_new_file has put there.
 */
#define mem_check_durable(r, m, seed) mem_check_durable_at(__FILE__, __LINE__, r, m, seed)
#define mem_check_durable_untouched(r, m) mem_check_durable_untouched_at(__FILE__, __LINE__, r, m)
void mem_check_durable_at(const char *file, int line, const struct role *r, const struct mem *m,
	uint64_t seed);
void mem_check_durable_untouched_at(const char *file, int line, const struct role *r, const struct mem *m);

/* descriptors: as librpma makes them, and as an attacker or a bug would */
void desc_get(const struct mem *m, struct desc *d);
void desc_alter_key(struct desc *d);
void desc_alter_usage(struct desc *d, int usage);
void desc_alter_size(struct desc *d, int64_t difference);
void desc_alter_base(struct desc *d, int64_t difference);
struct rpma_mr_remote *desc_import(const struct desc *d);

/* over the control channel */
void desc_put(struct role *r, const struct mem *m);
void desc_take(struct role *r, struct desc *d);
/* takes and imports */
struct rpma_mr_remote *remote_take(struct role *r);

#endif /* CONF_MEM_H */
