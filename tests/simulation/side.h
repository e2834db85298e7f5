/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * side.h -- one of the two applications: its memory, what it asks for, and what has become of that
 *
 * Each request has a place of its own in local memory, and a pattern of its own, so that content tells whose
 * it is. What remote memory must hold follows from the requests of the other side alone.
 */

#ifndef TEST_SIMULATION_SIDE_H
#define TEST_SIMULATION_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "disk.h"
#include "softrdma/cq.h"
#include "softrdma/link.h"
#include "softrdma/qp.h"

#define SIDES 2
#define OPS_MAX 24
#define RECVS_MAX 32
#define PIECES_MAX 3
#define SLOT_SIZE 2048
#define INLINE_MAX 128
#define BIG_SIZE ((size_t)600 * 1024) /* more than two segments */

#define BIGS_MAX 2

/* between regions, and behind each place in local memory: nobody's */
#define GAP 64

/* memory without what is long */
#define PLAIN_SMALL ((size_t)20480)
#define LOCAL_STEP (SLOT_SIZE + GAP)
#define LOCAL_SMALL ((size_t)(OPS_MAX + RECVS_MAX) * LOCAL_STEP + GAP)

/* bit of wr_id: of a receive */
#define WR_RECV ((uint64_t)1 << 40)

/* memory of a side, in this order; bytes between regions are nobody's */
enum region_id {
	REGION_ALL,      /* every right but persistent flushes */
	REGION_READ,     /* remote read alone */
	REGION_WRITE,    /* remote write alone */
	REGION_FLEETING, /* as REGION_ALL, until it is deregistered */
	REGION_FOREIGN,  /* as REGION_ALL, in another protection domain */
	REGION_BIG,      /* as REGION_ALL; of some seeds only */
	REGION_DISK,     /* every right; of a file */
	REGION_LOCAL,    /* for sends, receives and answers */
	REGION_COUNT,
};

struct region {
	uint8_t *memory; /* mapped */
	size_t image;    /* the same in an image */
	size_t size;
	int access;
	struct ibv_mr *mr;
	uint32_t key;
	bool leaving; /* deregistration has begun */
	bool gone;    /* and ended */
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
	size_t offset; /* in the region; beyond it on purpose */
	size_t len;
	uint32_t key;
	uint64_t operand[2];
	uint32_t imm;
	uint8_t *local;
	size_t local_room;
	uint32_t lkey;
	unsigned pieces;
	enum ibv_wc_status verdict; /* what it must come to by itself */
	unsigned consumer;          /* which receive it takes */
	uint64_t posted_ns;
	bool succeeded;
};

struct recv {
	uint8_t *local;
	size_t len;
	bool bad; /* its memory is not registered */
	bool succeeded;
};

/* how the application learns of completions */
enum collecting {
	COLLECT_POLL, /* ibv_poll_cq, which does the device's work too */
	COLLECT_WAIT, /* a completion channel */
	COLLECT_IDLE, /* neither: the progress thread must do all of it */
	COLLECT_WAYS,
};

struct side_plan {
	unsigned ops, recvs;
	enum collecting collecting;
	bool shared_queue, two_cqs, sq_sig_all;
	unsigned send_wr_max, recv_wr_max;
	unsigned rd_atom_max;
	unsigned rnr_retry;
	unsigned big;      /* requests that are longer than a segment */
	unsigned bad;      /* of a thousand requests, and of receives */
	bool leaves_early; /* disconnects in the middle */
	bool destroys;     /* its queue pair, instead */
	bool deregisters;
	uint64_t pause_ns; /* between what it does */
};

struct side {
	unsigned number;
	struct side_plan plan;
	struct side *other;
	char name[8];

	uint8_t *plain;   /* all regions but the disk's and the local one */
	size_t plain_len; /* of it in use */
	uint8_t *local;
	size_t local_len;
	uint8_t *local_expected;
	struct region regions[REGION_COUNT];

	/* what it holds of the device */
	struct ibv_pd *pd, *foreign_pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct softrdma_qp *qp; /* NULL: destroyed */
	uint32_t qp_num;
	unsigned events; /* of completion, not acknowledged yet */
	unsigned ready, disconnected;

	struct op ops[OPS_MAX];
	unsigned op_count; /* posted */
	unsigned op_next;  /* has not completed yet */
	bool op_failed;
	unsigned reasons; /* that failed with another status than "flushed" */
	unsigned big_count;
	unsigned consumers[OPS_MAX]; /* those that take a receive */
	unsigned consumer_count;

	struct recv recvs[RECVS_MAX];
	unsigned recv_count, recv_next, recv_ok;
	bool recv_failed;

	bool closing;         /* it disconnects or destroys */
	bool destroyed;       /* the queue pair has been, before its time */
	bool done;            /* all that it has to ask for has been answered */
	bool ended;           /* it holds nothing of the device any more */
	uint64_t progress_ns; /* when something has completed last */

	/*
	 * what the other side's memory holds when the first image_at requests of this one have been executed
	 */
	uint8_t *image;
	uint8_t *scratch;
	unsigned image_at;
	unsigned executed; /* so many are known to have been */
};

/* its memory, once */
void side_init(struct side *side, unsigned number, struct side *other);
void side_begin(struct side *side, const struct side_plan *plan);

/* makes what it needs of the device; while memory fails, it tries again */
void side_open(struct side *side);
/* with the number of the other side's first request */
void side_connect(struct side *side, int fd, bool active, bool records);
/* a fiber: posts, collects, disconnects, gives everything back */
void side_run(void *arg);

#endif /* TEST_SIMULATION_SIDE_H */
