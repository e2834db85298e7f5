/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * disk.h -- mapped files of two machines, and what a power cut leaves of them
 *
 * The memory is the mapping; an image beside it holds what msync() has brought to the medium. As in the
 * kernel, a line of 64 bytes that could not be written counts as written afterwards, so the next msync()
 * reports success. And each line may reach the medium by itself, at any time.
 */

#ifndef TEST_SIMULATION_DISK_H
#define TEST_SIMULATION_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISK_MACHINES 2
#define DISK_SIZE ((size_t)4 * 4096)

struct disk_plan {
	uint64_t delay_ns;  /* the longest time that msync() takes */
	unsigned interrupt; /* in a thousand calls of msync(), those that a signal interrupts */
	unsigned error;
	unsigned shrink; /* in a thousand queries of the file's size, those that find it too short */
};

/* maps the files, once */
void disk_init(void);
/* everything is 0 and durable, and the media have no faults */
void disk_begin(void);
/* from now on the media have these faults */
void disk_set_plan(const struct disk_plan *plan);

uint8_t *disk_memory(unsigned machine);

/* from now on nothing reaches the medium, except a random part of what was on its way */
void disk_cut_power(unsigned machine);
/* the content after the machine is switched on again */
const uint8_t *disk_durable(unsigned machine);

/* when the last call of msync() ended; now, while one runs */
uint64_t disk_synced_ns(void);

/* true if msync() has failed or the file has been too short */
bool disk_has_failed(unsigned machine);

#endif /* TEST_SIMULATION_DISK_H */
