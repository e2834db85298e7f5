/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * cluster.h -- the log and its replicas, as the writer sees them
 *
 * The writer holds an image of the whole log in memory. It encodes records into the image at the same offset
 * that they have on each replica. So bringing an old replica up to date and replicating a new record are the
 * same operation: writing a part of the image to the same offset. One thread per replica does that
 * (session.c); the main thread appends and waits.
 *
 * Why no acknowledged record is ever lost
 *
 * Each writer has an epoch, a number of its own. Before it does anything else it
 *
 *   1. reads the headers of a majority of replicas, takes an epoch of its own above all that were promised
 *      there, and has that majority promise it durably. A replica that was promised to a writer is of no use
 *      to a writer of a lower epoch any longer;
 *   2. takes over the log of the replica with the highest (epoch, tail) of that majority, and checks every
 *      record;
 *   3. brings replicas up to date, each in steps that leave a good log at any moment: it moves the tail back
 *      to the point up to which the replica's log equals its own, then appends. Only when the whole recovered
 *      log is durable there does it set the replica's epoch to its own: the replica has joined;
 *   4. acknowledges a record when the record, and the tail after it, are durable on a majority of replicas
 *      that have joined.
 *
 * A record that was acknowledged in epoch E is on a majority whose epoch is at least E. The majority of a
 * later writer overlaps that one, so the highest epoch it finds is at least E. The longest log with that
 * epoch begins with all acknowledged records: a log of epoch E itself grows only at its end, and a log of a
 * higher epoch was taken over by the same rule. Moving a tail back never cuts off an acknowledged record,
 * since that is in the common part. A log that is damaged, or an older copy of itself, is the exception:
 * before its tail is moved, its epoch is set to 0, which takes its vote until it has joined again.
 *
 * A connection is the right to write, and a replica gives it to one writer at a time. So what a writer has
 * read from a replica stays true as long as its connection lives. A writer counts what it has read as durable
 * only because it was flushed on that connection: a tail that an earlier connection has written may be
 * visible, and its flush may never have happened.
 *
 * A replica with an empty log that never joined (for example, because its disk was exchanged) is no witness:
 * it may have lost records. It is brought up to date as soon as there is a majority without it. Only if all
 * replicas are there and all are empty, the log is new.
 *
 * When an empty replica joins, it becomes a witness again, of all that it may have lost. So it joins only with
 * everything that was acknowledged before it came. And it may have lost a promise: then its new file promises
 * itself to a writer that another one has replaced. So a writer lets it join only if a majority without it is
 * still promised to this writer after it was.
 *
 * A file has one vote. It carries a random id, by which the writer recognizes it: at another address, where it
 * counts instead of at the former one, and as a copy, which does not count while the other one is there.
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
	PHASE_RECOVER, /* looking for a majority and its longest log */
	PHASE_RUN,
	PHASE_DRAIN, /* all is acknowledged: connected replicas may catch up, no session connects again */
	PHASE_STOP,
};

enum member_state {
	MEMBER_AWAY,     /* not connected */
	MEMBER_READY,    /* connected, its header was read */
	MEMBER_PROMISED, /* promised to the epoch of this writer */
	MEMBER_SYNCING,  /* being brought up to date */
	MEMBER_JOINED,   /* its durable data counts */
	MEMBER_UNUSABLE, /* permanently: see its reason */
};

/* one replica; the lock of the cluster guards everything after the first group */
struct member {
	struct cluster *cluster;
	char name[NI_MAXHOST + NI_MAXSERV + 4];
	char addr[NI_MAXHOST];
	char port[NI_MAXSERV];
	pthread_t thread;
	int wake_fd; /* eventfd: tells the session to look at the cluster again */

	enum member_state state;
	bool tried;   /* true if one attempt to connect is over, successful or not */
	bool busy;    /* true if it serves another writer */
	bool damaged; /* true if its log was fetched and is damaged; false again once it has joined */
	bool lost;    /* true if its file has lost what it had; false again once it has joined */
	bool copy;    /* true if its file counts at another address */
	bool fetch;   /* true if its log is to be read into the image ... */
	bool fetched; /* ... and true if it is there */
	struct log_header header; /* from MEMBER_READY on: the header as it was read */
	uint64_t replica_id;      /* of the file that was there last; 0 before one was, and if it has moved */
	uint64_t asked_epoch; /* the last epoch that this writer asked for there: it may have been promised */
	uint64_t joined_epoch; /* the epoch of this writer, once this file has joined */
	uint64_t known_id;     /* of the file that is known to hold every promise of this replica */
	uint64_t proof;        /* the last question that its connection has answered: cluster_ask() */
	size_t durable;        /* the log is durable there up to this offset; counts if joined_epoch is set */
	char reason[REASON_SIZE]; /* why it is unusable */
};

struct cluster {
	struct member members[MEMBERS_MAX];
	unsigned count;
	bool trust_empty; /* true if an empty replica counts as having lost nothing */

	pthread_mutex_t lock; /* guards the members below */
	int main_fd;          /* eventfd: wakes the main thread */
	enum phase phase;
	uint64_t nonce; /* of this writer's epochs */
	uint64_t epoch; /* of this writer; 0 before one is chosen */
	uint64_t log_id;
	uint8_t *image; /* of the whole log; bytes below end never change */
	size_t size;    /* of the image and of each replica */
	size_t recovered_end;
	size_t end;        /* the log is complete in the image up to here */
	size_t commit;     /* the log is durable on a majority up to here */
	uint64_t question; /* number of calls of cluster_ask() */

	struct log_scan recovered; /* the recovered log; written before PHASE_RUN, then only read */
	size_t head;               /* only for the main thread: records are encoded up to here; end follows */
	uint64_t next_sequence;    /* only for the main thread */
};

/* splits "addr:port,[addr]:port,..." into members; false if the list is not valid */
bool cluster_init(struct cluster *c, const char *list);
void cluster_destroy(struct cluster *c);

unsigned cluster_majority(const struct cluster *c);

/* start and end the threads of the members; cluster_stop does not finish pending work */
int cluster_start(struct cluster *c);
void cluster_stop(struct cluster *c);

/*
 * cluster_recover -- finds a majority, becomes its writer and takes over its log
 *
 * Waits until timeout_ms have passed (-1: no limit) or *interrupted is set. Returns 0, or -1 after it has
 * told the user the reason.
 */
int cluster_recover(struct cluster *c, int timeout_ms, const volatile int *interrupted);

/* encodes one more record at the head of the image; false if the log is full */
bool cluster_append(struct cluster *c, const uint8_t *payload, size_t length);

/* lets the sessions replicate what was appended */
void cluster_publish(struct cluster *c);

/* offset durable on a majority; *joined: replicas that are up and count; *doomed: no majority is possible */
size_t cluster_commit(struct cluster *c, unsigned *joined, bool *doomed);

/* prints on stderr which replicas cannot be used and why */
void cluster_report(struct cluster *c);

/* gives replicas that are behind the time to catch up, as long as they make progress */
void cluster_drain(struct cluster *c);

/* called by sessions, with the lock held: the durable offset or the state of a member has changed */
void cluster_member_changed(struct cluster *c);

/*
 * cluster_recognize -- called by sessions, with the lock held: this header was read from the member
 *
 * Decides which votes its file has. Returns false if it has none: another member is connected to the same
 * file, or to one of which this one is a copy.
 */
bool cluster_recognize(struct member *m, const struct log_header *header);

/*
 * cluster_ask -- begins to find out whether this writer is still the newest one
 *
 * Returns a number for cluster_answer(), which a session calls after an operation has completed that it posted
 * after that, on a connection to a replica that is promised to this writer. cluster_is_newest() is true if a
 * majority has answered without m, of replicas whose promises are known. All three take the lock.
 */
uint64_t cluster_ask(struct cluster *c);
void cluster_answer(struct member *m, uint64_t question);
bool cluster_is_newest(struct member *m, uint64_t question);

/* prints a sentence on stderr, in place of the progress line if there is one */
__attribute__((format(printf, 1, 2))) void tell(const char *format, ...);

/* waits for fd (an eventfd) up to timeout_ms and resets it */
void wake_wait(int fd, int timeout_ms);
void wake(int fd);

#endif /* CLUSTER_H */
