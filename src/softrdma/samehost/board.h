/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * board.h -- what this process publishes to others on the same host: its regions, and which peers may access them
 *
 * A board is shared memory that other processes of the same user map (local_peer.h). It is sealed: it cannot be
 * resized, so reading it never raises SIGBUS, and only its owner can write to it. It holds
 *
 *	regions  the address and the access rights of each memory region, found by the key
 *	slots    one for each connection to another process on this host: whether its peer may access the
 *	         memory now, and whether this side is accessing the peer's memory
 *
 * A thread that accesses another process's memory first sets busy in its own slot, then reads the other
 * process's board, and only then copies. A thread that deregisters memory first removes the region from its
 * board, and then waits for the slots that are busy. All of these steps are sequentially consistent, so at least
 * one of the two threads sees what the other has done.
 *
 * Robust mutexes, which other processes only read, show whether a thread is inside and whether a process lives.
 * The kernel marks a robust mutex when the thread that holds it dies in any way, or executes another program.
 *
 * The content of another process's board may change between two reads. So a reader copies it and then checks the
 * copy.
 */

#ifndef SOFTRDMA_BOARD_H
#define SOFTRDMA_BOARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "softrdma/bounds.h"
#include "softrdma/wire/wire.h"

struct softrdma_mr;

#define SOFTRDMA_BOARD_MAGIC 0x31647261426d7273u /* "srmBard1" */
#define SOFTRDMA_BOARD_ALIGN 64                  /* bytes of a cache line: avoids false sharing of entries */

struct softrdma_board_region {
	_Alignas(SOFTRDMA_BOARD_ALIGN) atomic_uint key; /* 0: the entry is free, or its region is hidden */
	int32_t access;
	uint64_t serial; /* unique among all regions that the process has published */
	uint64_t addr, length;
	uint64_t pd;
};

struct softrdma_board_slot {
	_Alignas(SOFTRDMA_BOARD_ALIGN)
		atomic_uint open; /* the connection's number while its peer may access memory, else 0 */
	atomic_uint busy;         /* odd while the owner of the board accesses the peer's memory */
	pthread_mutex_t inside;   /* robust, held by the thread that does so */
	uint64_t pd;
	/* the peer's slot, whose busy a deregistration waits for: no other process may access the memory */
	uint8_t peer_id[SOFTRDMA_BOARD_ID_SIZE];
	uint32_t peer_slot, peer_number;
};

struct softrdma_board {
	uint64_t magic;
	uint8_t id[SOFTRDMA_BOARD_ID_SIZE];
	pthread_mutex_t alive; /* robust, held by a thread of the process as long as the board exists */
	struct softrdma_board_region regions[SOFTRDMA_BOARD_REGIONS];
	struct softrdma_board_slot slots[SOFTRDMA_BOARD_SLOTS];
};

/* makes the board and puts all regions on it, if the environment asks for one and there is memory */
void softrdma_board_open(void);
/* true if the user has promised that registered files are not truncated */
bool softrdma_board_trusts_files(void);
/* called by the thread that lives as long as the board, at its beginning and at its end */
void softrdma_board_live(void);
void softrdma_board_die(void);
/* the caller knows that no region and no slot is in use */
void softrdma_board_close(void);

/*
 * Puts a region on the board, if there is one: its peers of this host may then reach it without a request. A
 * region that finds no place, or that only the responder may serve, is left out. Any thread.
 */
void softrdma_board_show(struct softrdma_mr *mr);
/* hides the region: from here on no process begins to access it */
void softrdma_board_hide(const struct softrdma_mr *mr);
/* frees the entry, after all processes have ended their accesses */
void softrdma_board_forget(const struct softrdma_mr *mr);

/* takes a slot for a connection, still closed; NULL: no board, or no free slot. Any thread. */
struct softrdma_board_slot *softrdma_board_take_slot(const void *pd);
void softrdma_board_give_slot(struct softrdma_board_slot *slot);

/* true if there is a board; only a hint, which saves callers needless preparations */
bool softrdma_board_is_there(void);

/*
 * True if a live thread holds the mutex, which may be on another process's board or on this one's. Writes nothing.
 */
bool softrdma_board_is_held(const pthread_mutex_t *mutex);

/* the data with which the peer finds the slot; number is that of the connection */
struct softrdma_greeting softrdma_board_greeting(const struct softrdma_board_slot *slot, uint32_t number);

/* the index of the step-th entry of a board where a region with this key may be */
static inline uint32_t
softrdma_board_place(uint32_t key, unsigned step)
{
	return (key + step) % SOFTRDMA_BOARD_REGIONS;
}

#endif /* SOFTRDMA_BOARD_H */
