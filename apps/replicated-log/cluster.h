/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * cluster.h -- the log and its replicas, as the writer sees them
 *
 * The writer holds an image of the whole log in memory. Records are encoded into it at the very offset that
 * they have on each replica, so bringing an old replica up to date and replicating a new record is the same
 * thing: writing a piece of the image to where it belongs. One thread per replica does that (session.c); the
 * main thread appends and waits.
 *
 * Why no acknowledged record is ever lost
 *
 * Each writer has an epoch, a number of its own. Before it does anything else it
 *
 *   1. reads the headers of a majority of replicas, takes an epoch above all that were promised there, and
 *      has that majority promise it durably. Two writers never get the same epoch, because their majorities
 *      overlap;
 *   2. takes over the log of the replica with the highest (epoch, tail) of that majority, every record
 *      checked;
 *   3. brings replicas up to date, each in steps that leave a good log at any moment: it moves the tail back
 *      to where the replica's log and its own are the same, then appends; and only when the whole recovered
 *      log is durable there it sets the replica's epoch to its own: the replica has joined;
 *   4. acknowledges a record when it, and the tail behind it, are durable on a majority of replicas that have
 *      joined.
 *
 * A record that was acknowledged in epoch E is on a majority whose epoch is at least E. A later writer's
 * majority overlaps that one, so the highest epoch it finds is at least E; and whatever has that epoch, and
 * is the longest, begins with all that was acknowledged: a log of epoch E itself grows only at its end, and a
 * log of a higher epoch was taken over by the same rule. Moving a tail back never cuts off an acknowledged
 * record, as that is in the common part.
 *
 * A connection is the right to write and a replica gives it to one writer at a time, so what a writer has
 * read of a replica stays true as long as its connection lives.
 *
 * A replica with an empty log that never joined (its disk was exchanged, say) is not asked for its opinion
 * when others have a log: it may have lost records. It is brought up to date as soon as a majority is there
 * without it.
 */

#ifndef CLUSTER_H
#define CLUSTER_H

#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log_format.h"

#define MEMBERS_MAX 15 /* replicas of one log; more would only be slower */
#define REASON_SIZE 160

enum phase {
	PHASE_RECOVER, /* a majority is looked for, and its longest log */
	PHASE_RUN,
	PHASE_DRAIN, /* all is acknowledged: who is behind may catch up, nobody connects any more */
	PHASE_STOP,
};

enum member_state {
	MEMBER_AWAY,     /* not connected */
	MEMBER_READY,    /* connected, its header was read */
	MEMBER_PROMISED, /* promised to the epoch of this writer */
	MEMBER_SYNCING,  /* is being brought up to date */
	MEMBER_JOINED,   /* what is durable there counts */
	MEMBER_UNUSABLE, /* for good: see its reason */
};

/* one replica; all but the first group is under the lock of the cluster */
struct member {
	struct cluster *cluster;
	char name[NI_MAXHOST + NI_MAXSERV + 4];
	char addr[NI_MAXHOST];
	char port[NI_MAXSERV];
	pthread_t thread;
	int wake_fd; /* eventfd: look at the cluster again */

	enum member_state state;
	bool tried;               /* one attempt to connect is over, whatever came of it */
	bool busy;                /* it serves another writer */
	bool damaged;             /* its log was fetched and is no good */
	bool fetch;               /* its log is wanted in the image ... */
	bool fetched;             /* ... and is there */
	struct log_header header; /* from MEMBER_READY on: as it was read */
	uint64_t promised_epoch;  /* the last one that this writer was promised there */
	uint64_t joined_epoch; /* the epoch of this writer, once the replica has joined; never taken back */
	size_t durable;        /* the log is durable there up to this offset; counts if joined_epoch is set */
	char reason[REASON_SIZE]; /* why it is unusable */
};

struct cluster {
	struct member members[MEMBERS_MAX];
	unsigned count;
	bool trust_empty; /* an empty replica has lost nothing */

	pthread_mutex_t lock; /* of all below */
	int main_fd;          /* eventfd: wakes the main thread */
	enum phase phase;
	uint64_t epoch; /* of this writer; 0 as long as none is chosen */
	uint64_t log_id;
	uint8_t *image; /* of the whole log; bytes below end never change */
	size_t size;    /* of the image and of each replica */
	size_t recovered_end;
	size_t end;    /* the log is complete in the image up to here */
	size_t commit; /* and durable on a majority up to here */

	struct log_scan recovered; /* what was recovered; written before PHASE_RUN, then read only */
	size_t head;               /* the main thread's: records are encoded up to here, end follows */
	uint64_t next_sequence;    /* likewise */
};

/* split "addr:port,[addr]:port,..." into members; false if it cannot be done */
bool cluster_init(struct cluster *c, const char *list);
void cluster_destroy(struct cluster *c);

unsigned cluster_majority(const struct cluster *c);

/* start and end the threads of the members; cluster_stop leaves what is not done undone */
int cluster_start(struct cluster *c);
void cluster_stop(struct cluster *c);

/*
 * cluster_recover -- find a majority, become its writer and take over its log
 *
 * Waits until timeout_ms (-1: for ever) or until *interrupted. Returns 0, or -1 after it has told the user
 * why.
 */
int cluster_recover(struct cluster *c, int timeout_ms, const volatile int *interrupted);

/* encode one more record at the head of the image: false if the log is full */
bool cluster_append(struct cluster *c, const uint8_t *payload, size_t length);

/* give what was appended to the replicas */
void cluster_publish(struct cluster *c);

/* what is durable on a majority; *joined: how many replicas are up and count, *doomed: too few ever can */
size_t cluster_commit(struct cluster *c, unsigned *joined, bool *doomed);

/* say on stderr which replicas cannot be used and why */
void cluster_report(struct cluster *c);

/* give replicas that are behind the time to catch up, as long as they make progress */
void cluster_drain(struct cluster *c);

/* for sessions, with the lock held: a member's durable offset or state has changed */
void cluster_member_changed(struct cluster *c);

/* a sentence on stderr, in the place of the progress if that is shown there */
__attribute__((format(printf, 1, 2))) void tell(const char *format, ...);

/* wait for fd (an eventfd) up to timeout_ms and reset it */
void wake_wait(int fd, int timeout_ms);
void wake(int fd);

int64_t now_ms(void);

#endif /* CLUSTER_H */
