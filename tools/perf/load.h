/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * load.h -- what one step measures: one kind of operation with one size
 *
 * Each connection has depth slots, at the initiator and at the target. Operation number n uses slot n modulo
 * depth. So two operations in flight never share memory, and the final content of each slot is known.
 */

#ifndef PERF_LOAD_H
#define PERF_LOAD_H

#include <librpma.h>

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LOAD_SIZE_MAX ((uint64_t)1 << 30)
#define LOAD_DEPTH_MAX 8192       /* write+flush takes two entries of a send queue, which has at most 32768 */
#define LOAD_CONNECTIONS_MAX 4096 /* the counts of all must fit into one message of the control protocol */
#define LOAD_THREADS_MAX 256
#define LOAD_PIECES_MAX 64
#define LOAD_LINE 64 /* slots begin at cache lines */

enum op {
	OP_WRITE,
	OP_READ,
	OP_SEND,
	OP_WRITE_WITH_IMM,
	OP_ATOMIC_WRITE,
	OP_COMPARE_AND_SWAP,
	OP_WRITE_THEN_FLUSH, /* two posts; the flush completes */
	OP_WRITE_FLUSH,      /* rpma_write_flush */
	OP_PING_PONG,        /* a message, which the target answers by another one */
	OP_COUNT,
};

/* how a thread waits for completions */
enum way {
	WAY_POLL,    /* polls the completion queue */
	WAY_CQ_WAIT, /* sleeps in rpma_cq_wait */
	WAY_FD,      /* an event loop: epoll_wait(2) on the queues' descriptors, then rpma_cq_wait */
	WAY_PAUSE,   /* no thread waits: only at the target, and only if it gets no messages */
	WAY_COUNT,
};

struct load {
	enum op op;
	enum rpma_flush_type flush_type;
	uint64_t size;         /* bytes per operation, at least 1 */
	uint32_t depth;        /* operations in flight per connection */
	uint32_t batch;        /* operations posted with one doorbell */
	uint32_t signal_every; /* one of this many operations asks for a completion */
	uint32_t connections;
	uint32_t threads;
	uint32_t pieces;       /* segments of local memory per operation */
	uint32_t inline_size;  /* operations up to this size are posted inline; 0: none */
	double rate;           /* operations per second and connection; 0: as many as go */
	enum way wait;         /* of the initiator's threads */
	enum way target_waits; /* of the target's threads */
	bool verify;
};

/* as users and messages write it */
static inline const char *
load_flush_name(enum rpma_flush_type type)
{
	return type == RPMA_FLUSH_TYPE_PERSISTENT ? "persistent" : "visibility";
}

/* false if no type has this name */
static inline bool
load_flush_parse(const char *name, enum rpma_flush_type *type)
{
	*type = strcmp(name, "persistent") == 0 ? RPMA_FLUSH_TYPE_PERSISTENT : RPMA_FLUSH_TYPE_VISIBILITY;
	return strcmp(name, load_flush_name(*type)) == 0;
}

/* the number of connections of a thread: first, and every threads-th after it */
static inline uint32_t
load_thread_share(const struct load *load, uint32_t first)
{
	return (load->connections - first + load->threads - 1) / load->threads;
}

/* bytes from one slot of the target to the next */
static inline uint64_t
load_target_stride(const struct load *load)
{
	return (load->size + LOAD_LINE - 1) / LOAD_LINE * LOAD_LINE;
}

/* bytes of one connection at the target: its slots; for a ping-pong then those from which it answers */
static inline uint64_t
load_target_share(const struct load *load)
{
	return load_target_stride(load) * load->depth * (load->op == OP_PING_PONG ? 2 : 1);
}

/* bytes of the target's memory: at most 2 * 2^30 * 2^13 * 2^12, so it cannot wrap */
static inline uint64_t
load_target_size(const struct load *load)
{
	return load_target_share(load) * load->connections;
}

/* number of the last posted operation that used the slot; the slot was used if slot < posted */
static inline uint64_t
load_last_in_slot(const struct load *load, uint64_t posted, uint64_t slot)
{
	assert(load->depth > 0 && slot < posted);
	return posted - 1 - (posted - 1 - slot) % load->depth;
}

#endif /* PERF_LOAD_H */
