/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * neighbour.h -- another process of the same host, as its board (board.h) shows it, and its memory
 *
 * Its memory is reached in two ways. A file that both processes can map is mapped here too (a window), if a
 * store to it is as safe as one to memory of this process: a memfd that is sealed, so that nobody can cut it
 * short. A look at the length of another file before each access would cost more than the access, and leave a
 * gap; so others are mapped only if the user promises that they stay as long as they are, and if they are in
 * memory or on DAX, where a store cannot fail once its block is there. All other memory is copied by the
 * kernel (process_vm_writev(2)), which forbids it between different users, and tells what is not there.
 *
 * One object for each process, shared by its connections. Any thread unless said otherwise.
 */

#ifndef SOFTRDMA_NEIGHBOUR_H
#define SOFTRDMA_NEIGHBOUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "board.h"
#include "wire.h"

struct softrdma_neighbour;

/* a file of the neighbour's, mapped here; of one connection, under its lock */
struct softrdma_window {
	uint64_t serial;       /* of the region it is for; 0: none */
	uint64_t addr, length; /* of that region */
	uint64_t used;         /* the number of the last use: the least one is replaced */
	uint8_t *base;         /* of the region; NULL: its memory is no such file */
	void *map;
	size_t map_length;
	uint8_t *touched; /* a byte for each block of the map */
};

/* maps the board that the greeting is about; NULL: there is none, or it may not be had */
struct softrdma_neighbour *softrdma_neighbour_meet(const struct softrdma_greeting *greeting);
/* one user less */
void softrdma_neighbour_leave(struct softrdma_neighbour *neighbour);

const struct softrdma_board *softrdma_neighbour_board(const struct softrdma_neighbour *neighbour);
/* is it the process still that was met, and has its threads? It may have gone the moment after. */
bool softrdma_neighbour_alive(const struct softrdma_neighbour *neighbour);

/*
 * Fills in the window, which is closed, for the region; window->base says if there is any. Files that can be
 * cut short only if they are trusted not to be.
 */
void softrdma_window_open(struct softrdma_window *window, const struct softrdma_neighbour *neighbour,
	const struct softrdma_board_region *region, bool trust_files);
void softrdma_window_close(struct softrdma_window *window);
/* are the blocks there of len bytes from offset of the region? */
bool softrdma_window_holds(struct softrdma_window *window, uint64_t offset, size_t len);

/* the kernel copies between pieces of this process' memory and one of the neighbour's; false: it could not,
 * or not all */
bool softrdma_neighbour_copy(const struct softrdma_neighbour *neighbour, const struct iovec *local, int count,
	uint64_t remote, size_t len, bool from_there);

#endif /* SOFTRDMA_NEIGHBOUR_H */
