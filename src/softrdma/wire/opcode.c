/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* opcode.c -- what each opcode of the protocol is */

#include "softrdma/wire/opcode.h"
#include "softrdma/wire/wire.h"

#define SEGMENT (SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST)
#define MESSAGE (SEGMENT | SOFTRDMA_FRAME_IMM | SOFTRDMA_FRAME_SOLICITED | SOFTRDMA_FRAME_ACK_LATER)

/* those without a row are of kind UNKNOWN */
const struct softrdma_opcode_info softrdma_opcode_infos[SOFTRDMA_OPCODES] = {
	[SOFTRDMA_OP_SEND] = {
		.kind = SOFTRDMA_KIND_REQUEST,
		.flags = MESSAGE,
		.length_max = SOFTRDMA_SEGMENT_MAX,
		.arg = SOFTRDMA_ARG_MESSAGE,
		.wc_opcode = IBV_WC_SEND,
		.is_message = true,
		.operation = SOFTRDMA_STATS_SEND,
	},
	[SOFTRDMA_OP_WRITE] = {
		.kind = SOFTRDMA_KIND_REQUEST,
		.flags = MESSAGE,
		.length_max = SOFTRDMA_SEGMENT_MAX,
		.arg = SOFTRDMA_ARG_MESSAGE,
		.right = IBV_ACCESS_REMOTE_WRITE,
		.wc_opcode = IBV_WC_RDMA_WRITE,
		.is_message = true,
		.operation = SOFTRDMA_STATS_WRITE,
	},
	[SOFTRDMA_OP_READ] = {
		.kind = SOFTRDMA_KIND_REQUEST,
		.arg = SOFTRDMA_ARG_LENGTH,
		.right = IBV_ACCESS_REMOTE_READ,
		.wc_opcode = IBV_WC_RDMA_READ,
		.is_rd_atom = true,
		.operation = SOFTRDMA_STATS_READ,
	},
	[SOFTRDMA_OP_ATOMIC_WRITE] = {
		.kind = SOFTRDMA_KIND_REQUEST,
		.length_min = SOFTRDMA_ATOMIC_SIZE,
		.length_max = SOFTRDMA_ATOMIC_SIZE,
		.right = IBV_ACCESS_REMOTE_WRITE,
		.wc_opcode = SOFTRDMA_WC_ATOMIC_WRITE,
		.operation = SOFTRDMA_STATS_ATOMIC,
	},
	[SOFTRDMA_OP_COMPARE_SWAP] = {
		.kind = SOFTRDMA_KIND_REQUEST,
		.length_min = 2 * SOFTRDMA_ATOMIC_SIZE,
		.length_max = 2 * SOFTRDMA_ATOMIC_SIZE,
		.right = IBV_ACCESS_REMOTE_ATOMIC,
		.wc_opcode = IBV_WC_COMP_SWAP,
		.is_rd_atom = true,
		.result = SOFTRDMA_ATOMIC_SIZE,
		.operation = SOFTRDMA_STATS_ATOMIC,
	},
	[SOFTRDMA_OP_FETCH_ADD] = {
		.kind = SOFTRDMA_KIND_REQUEST,
		.length_min = SOFTRDMA_ATOMIC_SIZE,
		.length_max = SOFTRDMA_ATOMIC_SIZE,
		.right = IBV_ACCESS_REMOTE_ATOMIC,
		.wc_opcode = IBV_WC_FETCH_ADD,
		.is_rd_atom = true,
		.result = SOFTRDMA_ATOMIC_SIZE,
		.operation = SOFTRDMA_STATS_ATOMIC,
	},
	[SOFTRDMA_OP_FLUSH] = {
		.kind = SOFTRDMA_KIND_REQUEST,
		.arg = SOFTRDMA_ARG_RANGE,
		.code_min = SOFTRDMA_FLUSH_GLOBAL,
		.code_max = SOFTRDMA_FLUSH_PERSISTENT,
		.right = SOFTRDMA_ACCESS_FLUSH_GLOBAL, /* of a persistent one: right_for() */
		.wc_opcode = SOFTRDMA_WC_FLUSH,
		.is_flush = true,
		.operation = SOFTRDMA_STATS_FLUSH,
	},
	[SOFTRDMA_OP_RESYNC] = {
		.kind = SOFTRDMA_KIND_REQUEST,
	},
	[SOFTRDMA_OP_ACK] = {
		.kind = SOFTRDMA_KIND_RESPONSE,
	},
	[SOFTRDMA_OP_READ_RESPONSE] = {
		.kind = SOFTRDMA_KIND_RESPONSE,
		.flags = SEGMENT,
		.length_max = SOFTRDMA_SEGMENT_MAX,
	},
	[SOFTRDMA_OP_ATOMIC_RESPONSE] = {
		.kind = SOFTRDMA_KIND_RESPONSE,
		.length_min = SOFTRDMA_ATOMIC_SIZE,
		.length_max = SOFTRDMA_ATOMIC_SIZE,
	},
	[SOFTRDMA_OP_NAK] = {
		.kind = SOFTRDMA_KIND_RESPONSE,
		.code_min = SOFTRDMA_NAK_INVALID_REQUEST,
		.code_max = SOFTRDMA_NAK_GONE,
	},
	[SOFTRDMA_OP_RNR] = {
		.kind = SOFTRDMA_KIND_RESPONSE,
	},
	[SOFTRDMA_OP_RNR_READY] = {
		.kind = SOFTRDMA_KIND_RESPONSE,
	},
	[SOFTRDMA_OP_READY] = {
		.kind = SOFTRDMA_KIND_CONNECTION,
	},
	[SOFTRDMA_OP_DISCONNECT] = {
		.kind = SOFTRDMA_KIND_CONNECTION,
	},
	[SOFTRDMA_OP_SHM_OFFER] = {
		.kind = SOFTRDMA_KIND_CONNECTION,
		.length_min = SOFTRDMA_REGISTRY_ID_SIZE,
		.length_max = SOFTRDMA_REGISTRY_ID_SIZE,
		.arg = SOFTRDMA_ARG_OFFER,
	},
};
