/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* opcode.h -- what each opcode of the protocol is: a table, a row for each opcode */

#ifndef SOFTRDMA_OPCODE_H
#define SOFTRDMA_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/softrdma.h"

enum softrdma_opcode_kind {
	SOFTRDMA_KIND_UNKNOWN, /* no opcode of this version */
	SOFTRDMA_KIND_REQUEST,
	SOFTRDMA_KIND_RESPONSE,
	SOFTRDMA_KIND_CONNECTION, /* about the connection itself */
};

/* what the field arg of its frames holds */
enum softrdma_opcode_arg {
	SOFTRDMA_ARG_NONE, /* nothing: it is 0 */
	SOFTRDMA_ARG_MESSAGE, /* the message's length in the first of several frames, immediate data in the last */
	SOFTRDMA_ARG_LENGTH, /* how many bytes are requested, at most SOFTRDMA_MSG_MAX */
	SOFTRDMA_ARG_RANGE,  /* the length of a range of memory */
	SOFTRDMA_ARG_OFFER,  /* see struct softrdma_shm_offer: key, address and arg are its own */
};

struct softrdma_opcode_info {
	enum softrdma_opcode_kind kind;

	/* the frame */
	uint8_t flags;                   /* that it may carry: enum softrdma_frame_flag */
	uint32_t length_min, length_max; /* of its payload, in bytes */
	enum softrdma_opcode_arg arg;
	uint16_t code_min, code_max;

	/*
	 * requests that name memory of the responder by key and address: the right that its queue pair and its region
	 * grant, IBV_ACCESS_REMOTE_*. 0: the request names none
	 */
	int right;

	/* requests that programs post */
	int wc_opcode;   /* of its completion */
	bool is_message; /* its payload is SGEs, in as many frames as it needs */
	bool is_rd_atom; /* its response brings data, which go to SGEs: bounded by max_rd_atomic */
	bool is_flush;   /* it makes a range durable, and moves no data */
	uint32_t result; /* bytes that an atomic operation returns; 0: none */
	enum softrdma_stats_operation operation; /* that it is counted as */
};

#define SOFTRDMA_OPCODES 64
extern const struct softrdma_opcode_info softrdma_opcode_infos[SOFTRDMA_OPCODES];

/* never NULL: of any other number, all members are 0. Inline, because it runs several times for each request. */
static inline const struct softrdma_opcode_info *
softrdma_opcode_info(uint8_t opcode)
{
	return &softrdma_opcode_infos[opcode < SOFTRDMA_OPCODES ? opcode : 0];
}

static inline bool
softrdma_opcode_is_request(uint8_t opcode)
{
	return softrdma_opcode_info(opcode)->kind == SOFTRDMA_KIND_REQUEST;
}

#endif /* SOFTRDMA_OPCODE_H */
