/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * side.h -- one of the two applications: its memory, its requests, and their results
 *
 * Each request has a place of its own in local memory and a pattern of its own, so that content identifies
 * its request. The required content of remote memory follows from the requests of the other side alone.
 */

#ifndef TEST_SIMULATION_SIDE_H
#define TEST_SIMULATION_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector.h"
#include "disk.h"
#include "softrdma/core/cq.h"
#include "softrdma/core/link.h"
#include "softrdma/verbs/qp.h"

#define SIDES 2
#define OPS_MAX 24
#define RECVS_MAX 32
#define PIECES_MAX 3
#define SLOT_SIZE 2048
#define INLINE_MAX 128
#define BIG_SIZE ((size_t)600 * 1024) /* more than two segments */

#define BIGS_MAX 2

/* unused bytes between regions, and after each place in local memory */
#define GAP 64

/* the memory without the long places */
#define PLAIN_SMALL ((size_t)20480)
#define LOCAL_STEP (SLOT_SIZE + GAP)
#define LOCAL_SMALL ((size_t)(OPS_MAX + RECVS_MAX) * LOCAL_STEP + GAP)

/* the bit of wr_id that marks a receive */
#define WR_RECV ((uint64_t)1 << 40)

/* the memory of a side, in this order; the bytes between regions belong to none */
enum region_id {
	REGION_ALL,      /* every right but persistent flushes */
	REGION_READ,     /* remote read only */
	REGION_WRITE,    /* remote write only */
	REGION_FLEETING, /* as REGION_ALL, until it is deregistered */
	REGION_FOREIGN,  /* as REGION_ALL, in another protection domain */
	REGION_BIG,      /* as REGION_ALL; for some seeds only */
	REGION_DISK,     /* every right; memory of a file */
	REGION_LOCAL,    /* for sends, receives and responses */
	REGION_COUNT,
};

struct region {
	uint8_t *memory; /* mapped */
	size_t image;    /* its offset in an image */
	size_t size;
	int access;
	struct ibv_mr *mr;
	uint32_t key;
	bool leaving; /* deregistration has begun */
	bool gone;    /* deregistration has ended */
};

enum op_kind {
	OP_WRITE,
	OP_WRITE_IMM,
	OP_READ,
	OP_SEND,
	OP_SEND_IMM,
	OP_COMPARE_SWAP,
	OP_FETCH_ADD,
	OP_ATOMIC_WRITE,
	OP_FLUSH_GLOBAL,
	OP_FLUSH_PERSISTENT,
	OP_KINDS,
};

struct op {
	enum op_kind kind;
	bool signaled, fenced, solicited, is_inline;
	enum region_id region;
	size_t offset; /* in the region; beyond its end on purpose */
	size_t len;
	uint32_t key;
	uint64_t operand[2];
	uint32_t imm;
	uint8_t *local;
	size_t local_room;
	uint32_t lkey;
	unsigned pieces;
	enum ibv_wc_status verdict; /* the status it must have if nothing else fails */
	unsigned consumer;          /* the number of the receive it takes */
	uint64_t posted_ns;
	bool succeeded;
};

struct recv {
	uint8_t *local;
	size_t len;
	bool bad; /* its memory is not registered */
	bool succeeded;
};

struct side_plan {
	unsigned ops, recvs;
	struct collector_plan collector;
	bool shared_queue, sq_sig_all;
	unsigned send_wr_max, recv_wr_max;
	unsigned rd_atom_max;
	unsigned rnr_retry;
	unsigned big;      /* number of requests longer than a segment */
	unsigned bad;      /* in a thousand requests and receives, those with a mistake */
	bool leaves_early; /* disconnects before it is done */
	bool destroys;     /* destroys its queue pair instead */
	bool deregisters;
};

struct side {
	unsigned number;
	struct side_plan plan;
	struct side *other;
	char name[8];

	uint8_t *plain;   /* all regions except the disk's and the local one */
	size_t plain_len; /* bytes of it in use */
	uint8_t *local;
	size_t local_len;
	uint8_t *local_expected;
	struct region regions[REGION_COUNT];

	/* objects of the device */
	struct ibv_pd *pd, *foreign_pd;
	struct collector collector;
	struct ibv_srq *srq;
	struct softrdma_qp *qp; /* NULL after it was destroyed */
	uint32_t qp_num;
	unsigned events; /* completion events that are not acknowledged yet */
	unsigned ready, disconnected;

	struct op ops[OPS_MAX];
	unsigned op_count; /* posted */
	unsigned op_next;  /* the first that has not completed */
	bool op_failed;
	unsigned reasons; /* those that failed with another status than "flushed" */
	unsigned big_count;
	unsigned consumers[OPS_MAX]; /* the requests that take a receive */
	unsigned consumer_count;

	struct recv recvs[RECVS_MAX];
	unsigned recv_count, recv_next, recv_ok;
	bool recv_failed;

	bool closing;   /* it disconnects or destroys its queue pair */
	bool destroyed; /* the queue pair was destroyed early */
	bool done;      /* all its requests have their results */
	bool ended;     /* it has released all objects of the device */

	/* The content that the other side's memory has after the first image_at requests of this side. */
	uint8_t *image;
	uint8_t *scratch;
	unsigned image_at;
	unsigned executed; /* requests known to have been executed */
};

/* maps its memory, once */
void side_init(struct side *side, unsigned number, struct side *other);
void side_begin(struct side *side, const struct side_plan *plan);

/* makes its objects of the device; retries while allocations fail */
void side_open(struct side *side);
/* connects its queue pair over this socket, from the sequence number of the other side's first request on */
void side_connect(struct side *side, int fd, bool active, bool records);
/* a fiber: posts, collects, disconnects, releases everything */
void side_run(void *arg);

#endif /* TEST_SIMULATION_SIDE_H */
