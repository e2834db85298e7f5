/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fds.h -- the descriptors of the simulated processes, their clock and their memory
 *
 * A descriptor is an eventfd, or one of the two of a connection (link.c). One fiber polls it at a time.
 */

#ifndef TEST_SIMULATION_LOG_FDS_H
#define TEST_SIMULATION_LOG_FDS_H

#include <stdbool.h>
#include <stdint.h>

struct fd {
	bool used;
	bool is_link;    /* of a connection: it is closed with it */
	unsigned group;  /* the process */
	uint64_t count;  /* events; readable if it is not 0 */
	const void *who; /* what the fiber that polls it waits for */
};

/* begins a seed; interrupt: in a thousand calls of poll() those that a signal ends */
void fds_begin(unsigned interrupt);

int fds_open(bool is_link);
void fds_close(int number);
/* adds events, or takes all of them away */
void fds_add(int number, uint64_t count);
void fds_reset(int number);
uint64_t fds_events(int number);

/* closes what a process had open */
void fds_close_all(unsigned group);
unsigned fds_count(unsigned group);

#endif /* TEST_SIMULATION_LOG_FDS_H */
