/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * registry.h -- what this process publishes to others on the same host: its regions, and which peers may access them
 *
 * A registry is shared memory that other processes of the same user map (local_peer.h). It is sealed: it cannot be
 * resized, so reading it never raises SIGBUS, and only its owner can write to it. It holds
 *
 *	regions  the address and the access rights of each memory region, found by the key
 *	slots    one for each connection to another process on this host: whether its peer may access the
 *	         memory now, and whether this side is accessing the peer's memory
 *
 * A thread that accesses another process's memory first sets busy in its own slot, then reads the other
 * process's registry, and only then copies. A thread that deregisters memory first removes the region from its
 * registry, and then waits for the slots that are busy. All of these steps are sequentially consistent, so at least
 * one of the two threads sees what the other has done.
 *
 * Robust mutexes, which other processes only read, show whether a thread is inside and whether a process lives.
 * The kernel marks a robust mutex when the thread that holds it dies in any way, or executes another program.
 *
 * The content of another process's registry may change between two reads. So a reader copies it and then checks the
 * copy.
 */

#ifndef SOFTRDMA_REGISTRY_H
#define SOFTRDMA_REGISTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "softrdma/bounds.h"
#include "softrdma/wire/wire.h"

struct softrdma_mr;

#define SOFTRDMA_REGISTRY_MAGIC 0x31647261426d7273u /* "srmBard1" */
#define SOFTRDMA_REGISTRY_ALIGN 64 /* bytes of a cache line: avoids false sharing of entries */

struct softrdma_registry_region {
	_Alignas(SOFTRDMA_REGISTRY_ALIGN) atomic_uint key; /* 0: the entry is free, or its region is hidden */
	int32_t access;
	atomic_uint_fast64_t serial; /* unique among all regions that the process has published */
	atomic_uint_fast64_t addr, length;
	uint64_t pd;
};

struct softrdma_registry_slot {
	_Alignas(SOFTRDMA_REGISTRY_ALIGN)
		atomic_uint open; /* the connection's number while its peer may access memory, else 0 */
	atomic_uint busy;         /* odd while the owner of the registry accesses the peer's memory */
	pthread_mutex_t inside;   /* robust, held by the thread that does so */
	uint64_t pd;
	/* the peer's slot, whose busy a deregistration waits for: no other process may access the memory */
	uint8_t peer_id[SOFTRDMA_REGISTRY_ID_SIZE];
	uint32_t peer_slot, peer_number;
};

struct softrdma_registry {
	uint64_t magic;
	uint8_t id[SOFTRDMA_REGISTRY_ID_SIZE];
	pthread_mutex_t alive; /* robust, held by a thread of the process as long as the registry exists */
	struct softrdma_registry_region regions[SOFTRDMA_REGISTRY_REGIONS];
	struct softrdma_registry_slot slots[SOFTRDMA_REGISTRY_SLOTS];
};

/* makes the registry and puts all regions into it, if the environment asks for one and there is memory */
void softrdma_registry_open(void);
/* true if the user has promised that registered files are not truncated */
bool softrdma_registry_trusts_files(void);
/* called by the thread that lives as long as the registry, at its beginning and at its end */
void softrdma_registry_live(void);
void softrdma_registry_die(void);
/* the caller knows that no region and no slot is in use */
void softrdma_registry_close(void);

/*
 * Puts a region into the registry, if there is one: its peers of this host may then reach it without a request. A
 * region that finds no place, or that only the responder may serve, is left out. Any thread.
 */
void softrdma_registry_show(struct softrdma_mr *mr);
/* hides the region: from here on no process begins to access it */
void softrdma_registry_hide(const struct softrdma_mr *mr);
/* frees the entry, after all processes have ended their accesses */
void softrdma_registry_forget(const struct softrdma_mr *mr);

/* takes a slot for a connection, still closed; NULL: no registry, or no free slot. Any thread. */
struct softrdma_registry_slot *softrdma_registry_take_slot(const void *pd);
void softrdma_registry_give_slot(struct softrdma_registry_slot *slot);

/* true if there is a registry; only a hint, which saves callers needless preparations */
bool softrdma_registry_is_there(void);

/*
 * True if a live thread holds the mutex, which may be in another process's registry or in this one's. Writes nothing.
 */
bool softrdma_registry_is_held(const pthread_mutex_t *mutex);

/* the data with which the peer finds the slot; number is that of the connection */
struct softrdma_shm_offer softrdma_registry_offer(const struct softrdma_registry_slot *slot, uint32_t number);

/* the index of the step-th entry of a registry where a region with this key may be */
static inline uint32_t
softrdma_registry_place(uint32_t key, unsigned step)
{
	return (key + step) % SOFTRDMA_REGISTRY_REGIONS;
}

#endif /* SOFTRDMA_REGISTRY_H */
