/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * local_peer.h -- a local peer: another process on the same host, with its registry (registry.h) and its memory
 *
 * A local peer's memory is accessed in two ways. A file that both processes can map is mapped here too (a
 * peer map), if a store to it is as safe as one to this process's own memory. That holds for a memfd sealed
 * against truncation. To check the length of any other file before each access would cost more than the access,
 * and would leave a gap. So another file is mapped only if the user promises that it is not truncated. It must
 * also be in memory or on DAX, where a store to an allocated block cannot fail. The kernel copies all other
 * memory (process_vm_writev(2)): it refuses copies between different users and reports missing memory.
 *
 * There is one object for each process, shared by its connections. Any thread unless stated otherwise.
 */

#ifndef SOFTRDMA_LOCAL_PEER_H
#define SOFTRDMA_LOCAL_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "softrdma/samehost/registry.h"
#include "softrdma/wire/wire.h"

struct softrdma_local_peer;

/* a mapping of a local peer's file; belongs to one connection, under its lock */
struct softrdma_peer_map {
	uint64_t serial;       /* of the region that it shows; 0: none */
	uint64_t addr, length; /* of that region */
	uint64_t used;         /* number of its last use: the mapping with the lowest one is replaced */
	uint8_t *base;         /* address of the region here; NULL: its memory cannot be mapped */
	void *map;
	size_t map_length;
	uint8_t *touched; /* a byte for each block of the map */
};

/* maps the registry that the offer describes, or adds a user; NULL: it does not exist or cannot be mapped */
struct softrdma_local_peer *softrdma_local_peer_meet(const struct softrdma_shm_offer *offer);
/* removes a user; the last one unmaps the registry */
void softrdma_local_peer_leave(struct softrdma_local_peer *local_peer);

const struct softrdma_registry *softrdma_local_peer_registry(const struct softrdma_local_peer *local_peer);
/* true if the process still lives and has not executed another program; it may end right after the call */
bool softrdma_local_peer_alive(const struct softrdma_local_peer *local_peer);

/*
 * Opens a closed mapping for the region. map->base is NULL if the memory cannot be mapped. Files that can be
 * truncated are mapped only if trust_files is true.
 */
void softrdma_peer_map_open(struct softrdma_peer_map *map, const struct softrdma_local_peer *local_peer,
	const struct softrdma_registry_region *region, bool trust_files);
void softrdma_peer_map_close(struct softrdma_peer_map *map);
/* true if the blocks of len bytes from offset of the region are allocated; allocates them on first use */
bool softrdma_peer_map_holds(struct softrdma_peer_map *map, uint64_t offset, size_t len);

/* copies between ranges of this process's memory and one of the local peer's; false: not all was copied */
bool softrdma_local_peer_copy(const struct softrdma_local_peer *local_peer, const struct iovec *local,
	int count, uint64_t remote, size_t len, bool from_there);

#endif /* SOFTRDMA_LOCAL_PEER_H */
