/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * link.h -- the connections between writers and replicas: librpma, as far as the log uses it
 *
 * link.c has the functions of librpma that a writer calls. A link is one connection. Operations wait in its
 * queue until the replica executes them, in order; a completion takes its time too. A flush has a beginning
 * and an end, and writes that were posted after it may be executed before its end. A link that is cut executes
 * some of the operations that were on their way. The writer and the replica learn of its end at different
 * times, and the replica serves no other writer before it does.
 */

#ifndef TEST_SIMULATION_LOG_LINK_H
#define TEST_SIMULATION_LOG_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "medium.h"

#define REPLICAS_MAX 5

struct rpma_conn;

struct replica {
	unsigned number;
	bool has_power;
	bool is_running;         /* its process */
	uint64_t unreachable_ns; /* the network does not lead there until this time */
	bool is_wiped;           /* its file is another one than at the beginning, and has not joined since */
	uint64_t lease;          /* for rules.c: the lease as it was seen last */
	uint64_t lease_seen_ns;  /* ... and the time since which it is so */
	struct rpma_conn *writer; /* NULL: none */
	struct medium medium;
};

extern struct replica replicas[REPLICAS_MAX];
extern unsigned replica_count;

/* probabilities are per thousand operations */
struct link_plan {
	uint64_t delay_ns;      /* longest time of a step */
	uint64_t notice_ns;     /* longest time until a side learns that a link was cut */
	unsigned trouble;       /* an operation fails, or the link is cut before, during or after it */
	unsigned flush_error;   /* a flush fails */
	unsigned medium_error;  /* a flush fails, and so do all others until the medium is mounted again */
	unsigned post_error;    /* a call fails that posts an operation, or prepares a connection */
	unsigned connect_error; /* an attempt to connect, of those that could succeed */
	unsigned late;          /* a request whose writer is gone arrives all the same */
	unsigned write_back;    /* memory that was not flushed reaches the medium */
	unsigned spurious;      /* a descriptor becomes readable without an event */
};

extern struct link_plan link_plan;

void links_begin(void);
/* what is due by now; returns the time of the next event */
uint64_t links_happen(void);
void links_end(void);

/* operations executed since links_begin() */
unsigned links_operations(void);

/* a control of the test: a replica serves a second writer while the first one is connected */
extern bool links_are_shared;

/* the process of a writer ends: its links are cut, what it has of the library is gone */
void links_kill(unsigned group);
/* objects of the library that a process has not given back */
unsigned links_objects(unsigned group);

/* cuts one link of those that lead to the replica, if there is any */
void links_cut_to(struct replica *r);
/* the replica's process ends, or its machine loses power: flushes reach a random part */
void links_replica_ends(struct replica *r);

#endif /* TEST_SIMULATION_LOG_LINK_H */
