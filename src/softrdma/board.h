/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * board.h -- what this process shows to others of the same host: its regions, and who may reach them
 *
 * A board is memory that other processes of the same user map (neighbour.h). It cannot be resized, so a look
 * at it is never a SIGBUS, and nobody but its owner can write to it. On it are
 *
 *	regions  where registered memory is and what may be done with it, found by the key
 *	slots    one for each connection to another process of this host: whether its peer may touch the
 *	         memory now, and whether this side touches the peer's at the moment
 *
 * Who touches another process' memory says so in its own slot first (busy), then looks at the other's board,
 * and only then copies; who takes memory back first takes it off its board and then waits for those who are
 * busy. Both in one order for all processors, so one of the two sees the other.
 *
 * Who is inside, and whether a process lives, is told by robust mutexes, which others only look at: the
 * kernel marks them when the thread that holds one leaves its memory, by whatever death, or to become another
 * program.
 *
 * What stands on another process' board may change between two looks: it is copied, and then checked.
 */

#ifndef SOFTRDMA_BOARD_H
#define SOFTRDMA_BOARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bounds.h"
#include "wire.h"

struct softrdma_mr;

#define SOFTRDMA_BOARD_MAGIC 0x31647261426d7273u /* "srmBard1" */
#define SOFTRDMA_BOARD_ALIGN 64                  /* a cache line: neighbours on the board do not disturb */

struct softrdma_board_region {
	_Alignas(SOFTRDMA_BOARD_ALIGN) atomic_uint key; /* 0: none, or no more */
	int32_t access;
	uint64_t serial; /* no other region of the process ever had it */
	uint64_t addr, length;
	uint64_t pd;
};

struct softrdma_board_slot {
	_Alignas(SOFTRDMA_BOARD_ALIGN)
		atomic_uint open; /* the connection's number while its peer may come in; 0: it may not */
	atomic_uint busy;         /* odd while the owner of the board touches the peer's memory */
	pthread_mutex_t inside;   /* robust, held by the thread that does */
	uint64_t pd;
	/* whose busy is waited for before memory is taken back: nobody else may come in */
	uint8_t peer_id[SOFTRDMA_BOARD_ID_SIZE];
	uint32_t peer_slot, peer_number;
};

struct softrdma_board {
	uint64_t magic;
	uint8_t id[SOFTRDMA_BOARD_ID_SIZE];
	pthread_mutex_t alive; /* robust, held by a thread of the process for as long as the board is there */
	struct softrdma_board_region regions[SOFTRDMA_BOARD_REGIONS];
	struct softrdma_board_slot slots[SOFTRDMA_BOARD_SLOTS];
};

/* makes the board and puts all regions on it, if the environment asks for one and there is memory */
void softrdma_board_open(void);
/* has the user promised that files which are registered are not cut short? */
bool softrdma_board_trusts_files(void);
/* by the thread that lives as long as the board, when it begins and when it ends */
void softrdma_board_live(void);
void softrdma_board_die(void);
/* no region and no slot is in use any more */
void softrdma_board_close(void);

/*
 * Puts a region on the board, if there is one: its peers of this host may then reach it without a request. A
 * region that finds no place, or that only the responder may serve, is left out. Any thread.
 */
void softrdma_board_show(struct softrdma_mr *mr);
/* from here on nobody begins to touch it */
void softrdma_board_hide(const struct softrdma_mr *mr);
/* and nobody does any more: the place may be used again */
void softrdma_board_forget(const struct softrdma_mr *mr);

/* a slot for a connection, closed; NULL: no board, or all are taken. Any thread. */
struct softrdma_board_slot *softrdma_board_take_slot(const void *pd);
void softrdma_board_give_slot(struct softrdma_board_slot *slot);

/* is there a board? A hint, for whoever would else prepare for it. */
bool softrdma_board_is_there(void);

/*
 * does the thread live that holds the mutex of another process' board, or of the own one? Nothing is written.
 */
bool softrdma_board_is_held(const pthread_mutex_t *mutex);

/* what the peer must be told to find the slot; number is the connection's */
struct softrdma_greeting softrdma_board_greeting(const struct softrdma_board_slot *slot, uint32_t number);

/* the place on a board where a region with this key may be: the step-th one to look at */
static inline uint32_t
softrdma_board_place(uint32_t key, unsigned step)
{
	return (key + step) % SOFTRDMA_BOARD_REGIONS;
}

#endif /* SOFTRDMA_BOARD_H */
