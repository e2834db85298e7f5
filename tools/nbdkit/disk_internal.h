/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * disk_internal.h -- what the files of the disk share: disk.c has the requests, operations.c what is under way
 * on the connection, connecting.c the thread that makes the connection
 *
 * One lock guards all of it. Operations are posted with the lock held, so their order on the connection is the
 * order of the journal. The keeper's device executes them in that order.
 *
 * The link:
 *
 *	DOWN       no connection; the thread of the link tries to make one
 *	REPLAYING  connected; the thread of the link writes the journal again. Requests wait
 *	UP         requests are posted
 *	BROKEN     the connection failed, or did not answer in time; the thread of the link ends it. Nothing is
 *	           posted. Completions are collected until the connection is deleted: an operation that has
 *	           succeeded is done, and an error that no other connection can change leads to FAILED
 *	FAILED     the memory can no longer be used. All requests fail, for ever
 *
 *	DOWN -> REPLAYING -> UP; REPLAYING, UP -> BROKEN -> DOWN; BROKEN, DOWN -> FAILED
 *
 * An entry of the journal that was added before the link came up has been acknowledged by the keeper when the
 * link is up: either it was acknowledged before, or it was replayed. That holds also if the link is lost again
 * at once. Entries leave the journal only by a flush that completed with success.
 *
 * A read may show data that an earlier client has written and not flushed; the journal does not have it. So the disk
 * flushes all of the memory when it starts, before any request. From then on all that a read can show is durable, or
 * in the journal.
 */

#ifndef NBDKIT_RPMA_DISK_INTERNAL_H
#define NBDKIT_RPMA_DISK_INTERNAL_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "disk.h"
#include "journal.h"
#include "ranges.h"

/* reads and writes that may be on the connection at once */
#define OPS_MAX 256
/* and of these, writes that no thread waits for: there is room for others, whose threads wait and collect completions */
#define WRITTEN_BACK_MAX (OPS_MAX / 2)
/* a request is done in pieces of at most this size */
#define PIECE_MAX ((size_t)1 << 20)
/* buffers for reads, of PIECE_MAX bytes each; memory is used as far as they are filled */
#define READ_BUFFERS 32
/* a request waits at most this number of timeouts for its turn, also if there is progress; its operation likewise */
#define PATIENCE 10
/* bytes that are replayed at a time */
#define REPLAY_MAX (4 * PIECE_MAX)
/* the journal has an entry for each page of its buffer, and at least this number */
#define ENTRIES_MIN 1024
#define ENTRY_SIZE 4096
/* the length of a flush of RDMA hardware has 32 bits */
#define FLUSH_MAX ((uint64_t)1 << 31)

enum link_state { LINK_DOWN, LINK_REPLAYING, LINK_UP, LINK_BROKEN, LINK_FAILED };

/* an operation, or several of which the last one completes for all */
enum op_state {
	OP_POSTED, /* its owner may not go away */
	OP_DONE,
	OP_LOST, /* no completion came before the connection ended: it may have been done or not */
};

struct op {
	_Atomic enum op_state state;
	sem_t wake;        /* for its owner: the state has changed, or it is to collect completions */
	uint32_t requests; /* how many of OPS_MAX it takes, with the unsignaled ones before it */
	bool is_flush;     /* of all that was dirty */
	uint64_t flushes;  /* of a flush: when it is done, the entries before this number leave the journal */
	bool has_waiter;   /* its owner is in op_wait_and_unlock */
	struct op *next, *prev; /* in the list of those that are posted */
};

/* a thread that waits for a buffer */
struct reader {
	struct reader *next;
	int buffer; /* -1: it has none yet */
	pthread_cond_t has_buffer;
};

struct disk {
	const struct disk_config *config;
	struct keeper_reply known; /* of the first connection: the memory has to stay the same */
	uint64_t client;
	struct rpma_peer *peer;
	bool is_soft; /* the device is the software device */
	uint8_t *journal_data, *read_data, *zero_data;
	struct rpma_mr_local *journal_mr, *read_mr, *zero_mr;

	pthread_t thread;
	bool has_thread;
	int wake_fd; /* wakes the thread of the link */

	pthread_mutex_t lock;
	enum link_state state;
	bool failing; /* the link is BROKEN, and FAILED comes next */
	bool stopping;
	struct keeper_link link;
	struct rpma_cq *cq;
	bool has_failed;             /* a completion of this link was an error: later ones do not count */
	pthread_cond_t link_changed; /* the state, and stopping */
	int64_t up_ms;               /* when the link came up; INT64_MAX: it has not been up */
	int64_t tried_ms,
		pause_ms; /* when the last attempt to connect began, and the next one waits from then on */

	struct op *posted;
	bool collecting; /* the owner of one of them waits for completions, on behalf of all */
	pthread_cond_t collected;
	int64_t progress_ms;   /* when an operation completed last */
	uint32_t requests;     /* work requests on the connection, without those of a flush */
	uint32_t written_back; /* of these, writes that no thread waits for: their calls have returned */
	uint32_t unsignaled;   /* of these, writes that complete with the next operation */
	bool owes; /* some of these were lost with the connection, or a replay has begun; none has ended since */
	pthread_cond_t room; /* there are fewer requests, or the journal has room */

	struct journal journal;
	uint64_t replayed;   /* entries before this number had been added when a replay ended */
	struct ranges dirty; /* what the next flush has to cover */
	bool inherits; /* earlier clients may have written what is not durable: all of the memory is dirty */
	bool flushing; /* a thread flushes; the others wait for it */
	pthread_cond_t flushed;
	int free_buffers[READ_BUFFERS];
	int free_buffer_count;
	struct reader *readers, **readers_end; /* who waits for a buffer, in the order in which they asked */
};

int64_t disk_now_ms(void);
/* waits with the lock, until a time of disk_now_ms at most; INT64_MAX: without a limit */
void disk_wait(struct disk *d, pthread_cond_t *cond, int64_t until_ms);
/*
 * When a request with this deadline has waited too long: while operations complete, a slow keeper is no reason
 * to give up. With the lock.
 */
int64_t disk_extend(const struct disk *d, int64_t deadline_ms);
bool disk_init_cond(pthread_cond_t *cond);
void disk_say(struct disk *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- operations.c; all with the lock --- */

bool op_init(struct op *op);
void op_fini(struct op *op);

/*
 * Each posts, and sets op. If there is no connection, or posting fails, op is OP_LOST at once. The write of an
 * entry with op NULL leaves and completes with the next operation, which the caller posts before it waits. Only the
 * thread of the link posts while it replays.
 */
void op_post_read(struct disk *d, struct op *op, size_t at, uint64_t offset, size_t len);
void op_post_write(struct disk *d, struct op *op, const struct journal_entry *entry);
/* posts the write of an entry that no thread waits for; the link must be UP. false: it no longer is, so a replay writes it */
bool op_post_write_back(struct disk *d, const struct journal_entry *entry);
/* flushes the ranges, which cover all that is in the journal */
void op_post_flush(struct disk *d, struct op *op, const struct ranges *ranges);

/*
 * Waits until op is no longer OP_POSTED, and collects completions meanwhile. If it is too late, it breaks the
 * link: the operation is lost then. The lock is free when the call returns, so that a thread that is woken
 * need not take it.
 */
void op_wait_and_unlock(struct disk *d, struct op *op, int64_t deadline_ms);

/* collects completions once, after waiting for them until that time; the link must be UP or REPLAYING */
void ops_collect(struct disk *d, int64_t until_ms);
/* collects those that are there, while the connection exists; true if an operation is done by that */
bool ops_take(struct disk *d);
/* the operations that are left are lost: the connection has been deleted */
void ops_lost(struct disk *d);

/* --- connecting.c --- */

/* connects for the first time; the thread does not run yet */
bool link_connect_first(struct disk *d, const struct disk_facts *facts, char why[static WHY_MAX]);
void *link_run(void *arg);
/* with the lock: the connection must be made anew; does nothing if the link is neither UP nor REPLAYING */
void link_break(struct disk *d, const char *why);
/* the same, and the memory is given up for ever */
void link_fail(struct disk *d, const char *why);

#endif /* NBDKIT_RPMA_DISK_INTERNAL_H */
