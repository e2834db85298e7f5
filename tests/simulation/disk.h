/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * disk.h -- mapped files of two machines, and what a power cut leaves of them
 *
 * Memory is as it is mapped; what msync() has brought to the medium is an image beside it. As in the kernel,
 * a line of 64 bytes that could not be written counts as written all the same, so that whoever asks again is
 * told that all is well; and any line may reach the medium by itself, at any time.
 */

#ifndef TEST_SIMULATION_DISK_H
#define TEST_SIMULATION_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISK_MACHINES 2
#define DISK_SIZE ((size_t)4 * 4096)

struct disk_plan {
	uint64_t delay_ns;  /* msync() takes so long at most */
	unsigned interrupt; /* of a thousand calls */
	unsigned error;
	unsigned shrink; /* of a thousand looks at its size, the file is too short */
};

/* maps them, once */
void disk_init(void);
/* all is 0 and durable, and the media are without fault */
void disk_begin(void);
/* until they are like this */
void disk_set_plan(const struct disk_plan *plan);

uint8_t *disk_memory(unsigned machine);

/* from now on nothing reaches the medium but a chance choice of what was on its way */
void disk_cut_power(unsigned machine);
/* what whoever switches it on again finds */
const uint8_t *disk_durable(unsigned machine);

/* has msync() failed, or has the file been too short? */
bool disk_has_failed(unsigned machine);

#endif /* TEST_SIMULATION_DISK_H */
