/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * datagram.h -- applications with queue pairs of unreliable datagrams: their memory, their requests, and their results
 *
 * Each application has two queue pairs with common completion queues, and sends to all of them, its own ones too. A queue
 * pair has several lives: RESET ends one, and so does the destruction, after which another queue pair takes the place. A
 * request has a place of its own in memory and a pattern of its own, as in side.h.
 */

#ifndef TEST_SIMULATION_DATAGRAM_H
#define TEST_SIMULATION_DATAGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "collector.h"
#include "udp.h"

#define DATAGRAM_APPS 3
#define DATAGRAM_QPS 2
/* sends of a queue pair and receives of a receive queue, in all lives */
#define DATAGRAM_OPS 24
#define DATAGRAM_RECVS 48
#define DATAGRAM_AHS 3
/* datagrams that a queue pair reads in one life */
#define DATAGRAM_READS 1024

/* doc/softrdma-protocol.md, section 12 */
#define DATAGRAM_PAYLOAD 4096
#define DATAGRAM_HEADER 68
#define DATAGRAM_GRH 40
/* of a work request that asks for the Q_Key of its own queue pair */
#define DATAGRAM_OWN_QKEY 0x80000000u

struct datagram_op {
	bool signaled, solicited, has_imm, is_inline;
	size_t len;
	uint8_t *local;
	uint32_t lkey;
	unsigned pieces;
	uint32_t imm;
	/* where it goes */
	uint32_t to_qp, qkey;
	union ibv_gid from, to;
	uint32_t flow_label;
	uint8_t traffic_class, hop_limit;
	enum ibv_wc_status verdict;  /* the status it must have unless the queue pair has failed */
	bool refused;                /* by the system: it counts as sent */
	struct udp_message *message; /* that it became; NULL: it has not left */
};

struct datagram_recv {
	uint8_t *local;
	size_t len;
	bool bad; /* its memory is not registered */
	bool completed;
};

struct datagram_queue {
	struct datagram_recv recvs[DATAGRAM_RECVS];
	unsigned begun;    /* posts that have begun */
	unsigned posted;   /* posts that have returned */
	unsigned next;     /* the first that has not completed; unused if the queue is shared */
	unsigned readers;  /* datagrams that may have taken one */
	unsigned promised; /* datagrams that may come, if the seed is calm */
	size_t shortest;
	bool has_bad; /* a receive whose memory is not registered: it makes a queue pair fail */
	bool is_shared;
};

enum datagram_verdict {
	DATAGRAM_FOREIGN,
	DATAGRAM_DAMAGED,
	DATAGRAM_GOOD,
};

/* a datagram that the device has read, and what it may do with it */
struct datagram_read {
	struct udp_message *message;
	enum datagram_verdict verdict;
	bool may_match, may_differ; /* its Q_Key and that of the queue pair, which may just be changing */
	bool is_served;             /* the queue pair has not failed */
	unsigned recvs;             /* receives that were surely posted */
	unsigned begun;             /* and those whose posts had begun */
	unsigned readers;           /* datagrams before it that may have taken one */
	bool delivered;
};

struct datagram_qp {
	struct datagram_app *app;
	unsigned number;
	char name[4];
	struct ibv_qp *qp; /* NULL: none */
	uint32_t qp_num;
	bool leaving;            /* it is being destroyed */
	enum ibv_qp_state state; /* as far as the application knows */
	bool may_fail;           /* from here on it may come into error, or has */
	uint32_t qkeys[2];       /* that it has; two while it is changed */
	struct datagram_queue own, *queue;

	struct datagram_op ops[DATAGRAM_OPS];
	unsigned op_plan;  /* number that is to be posted */
	unsigned op_count; /* posted */
	unsigned op_next;  /* the first that has not completed */
	unsigned op_left;  /* the first that has not left */

	/* of this life */
	bool op_failed, recv_failed;
	unsigned op_first;
	unsigned refused;
	unsigned received;
	struct datagram_read reads[DATAGRAM_READS];
	unsigned read_count;
	unsigned read_next; /* all before it are delivered or dropped */
	bool has_doubles; /* two that it has read look the same, so it is not known which of them came to a receive */
};

struct datagram_ah {
	struct ibv_ah *ah;
	struct ibv_ah_attr attr;
	union ibv_gid from;
};

struct datagram_app_plan {
	struct collector_plan collector;
	unsigned ops, recvs;
	bool shared_queue, sq_sig_all;
	unsigned send_wr_max, recv_wr_max;
	unsigned bad;      /* in a thousand requests and receives, those with a mistake */
	unsigned bad_qkey; /* those with a wrong Q_Key, or to a number that no queue pair has */
	unsigned moves;    /* in a thousand actions, those that end a life */
	unsigned short_recvs;
};

struct datagram_app {
	struct datagram_app_plan plan;
	char name[2];
	struct collector collector;
	struct ibv_pd *pd;
	uint8_t *memory, *expected;
	struct ibv_mr *mr;
	struct ibv_srq *srq;
	struct datagram_queue shared;
	struct datagram_ah ahs[DATAGRAM_AHS];
	struct datagram_qp qps[DATAGRAM_QPS];
	bool lost_completions; /* a life has ended, and completions with it */
	bool done, ended;
};

extern struct datagram_app datagram_apps[DATAGRAM_APPS];

/* of all applications */
struct datagram_plan {
	bool is_calm;  /* nothing is lost, and everything must arrive */
	bool has_sums; /* each datagram has a check sum */
	uint32_t qkey; /* of all queue pairs; 0: each has its own */
};

extern struct datagram_plan datagram_plan;

/* --- world --- */

/* maps the memory, once */
void datagram_init(void);
/* decides what happens; before the fibers begin */
void datagram_begin(bool dense);
/* starts the applications; a fiber waits for their end */
void datagram_start(void);
void datagram_wait_for_end(void);
/* requests posted */
unsigned datagram_ops(void);

/* --- requests --- */

#define DATAGRAM_WR_RECV ((uint64_t)1 << 40)
#define DATAGRAM_WR_SHARED ((uint64_t)1 << 41)
/* the bits from here on are the number of the queue pair */
#define DATAGRAM_WR_QP_SHIFT 16

/* posts a few requests, if the plan has some left and the queue pair takes them */
void datagram_post(struct datagram_qp *qp);
void datagram_post_recv(struct datagram_qp *qp);
void datagram_destroy_ahs(struct datagram_app *app);
void datagram_fill(const struct datagram_qp *qp, const struct datagram_op *op, uint8_t *to, size_t len);

/* --- oracle --- */

/* reads the GIDs of the machine, once for each seed */
void datagram_oracle_begin(void);
/* checks a completion that was taken from a queue */
void datagram_completion(void *arg, const struct ibv_wc *wc);
/* the queue pair is in RESET: what happened before has no effect any longer */
void datagram_new_life(struct datagram_qp *qp);
/* true if all requests that must complete have completed */
bool datagram_is_complete(const struct datagram_qp *qp);
/* checks what the device has counted against what it has sent and read; any time */
void datagram_check_counters(const struct datagram_qp *qp);
/* all is quiet, and all completions are collected: checks that nothing is missing */
void datagram_check_end(struct datagram_qp *qp);
/* receives may have bytes whose completions went with a queue pair; from here on nothing else changes */
void datagram_allow_memory(struct datagram_app *app);
void datagram_check_memory(const struct datagram_app *app);

#endif /* TEST_SIMULATION_DATAGRAM_H */
