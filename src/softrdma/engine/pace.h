/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* pace.h -- how a thread of the program spends its time between the events that it takes */

#ifndef SOFTRDMA_PACE_H
#define SOFTRDMA_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* more threads than these share their numbers */
#define SOFTRDMA_PACE_THREADS 64

/* of one thread; zeroed memory is that of a new one */
struct softrdma_pace {
	unsigned thread;           /* its number and 1 more; 0: it has none yet */
	uint64_t since_ns, cpu_ns; /* what follows is since then, and its processor time then */
	uint64_t spun_ns;          /* how long it has looked for input meanwhile, instead of sleeping */
	unsigned events;           /* that it has taken */
	bool computes;             /* what the time before that has shown */
	/* lead.c only */
	uint64_t event_ns; /* when it last took an event */
	unsigned dense;    /* events in a row that followed each other closely */
};

/* the calling thread's */
struct softrdma_pace *softrdma_pace_mine(void);
/* its number, below SOFTRDMA_PACE_THREADS */
unsigned softrdma_pace_thread(struct softrdma_pace *pace);

/* The calling thread has taken an event. True if it computes for long between two of them: requests would wait for it. */
bool softrdma_pace_computes(struct softrdma_pace *pace, uint64_t now_ns);

#endif /* SOFTRDMA_PACE_H */
