/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* op.c -- the kinds of operations that can be measured, and how each is posted */

#include <string.h>

#include "initiator.h"
#include "op.h"

/* sequence numbers begin at 0, but a context of NULL could not be told from a missing one */
static const void *
context_of(uint64_t sequence)
{
	return (const void *)(uintptr_t)(sequence + 1);
}

static uint64_t
target_slot(const struct lane *lane, uint64_t sequence)
{
	const struct load *load = &lane->initiator->load;
	return lane->index * load_target_share(load) + sequence % load->depth * load_target_stride(load);
}

static bool
is_inline(const struct load *load)
{
	return load->inline_size > 0 && load->size <= load->inline_size;
}

/* fills in the segments of a slot; returns their number */
static int
pieces_of(const struct lane *lane, uint64_t sequence, struct rpma_sge pieces[static LOAD_PIECES_MAX])
{
	const struct initiator *initiator = lane->initiator;
	uint64_t slot = initiator_slot(lane, sequence);
	uint64_t left = initiator->load.size;
	int count = 0;
	for (; left > 0; count++) {
		uint64_t len = left < initiator->piece_size ? left : initiator->piece_size;
		pieces[count] = (struct rpma_sge){ initiator->mr,
			slot + (uint64_t)count * initiator->piece_stride, len };
		left -= len;
	}
	return count;
}

static int
post_write(const struct lane *lane, uint64_t sequence, int flags)
{
	const struct initiator *initiator = lane->initiator;
	const struct load *load = &initiator->load;
	uint64_t dst = target_slot(lane, sequence), src = initiator_slot(lane, sequence);
	const void *context = context_of(sequence);

	if (is_inline(load))
		return rpma_write_inline(lane->conn, lane->dst, dst, initiator->mem + src, load->size, flags,
			context);
	if (load->pieces > 1) {
		struct rpma_sge pieces[LOAD_PIECES_MAX];
		int count = pieces_of(lane, sequence, pieces);
		return rpma_writev(lane->conn, lane->dst, dst, pieces, count, flags, context);
	}
	return rpma_write(lane->conn, lane->dst, dst, initiator->mr, src, load->size, flags, context);
}

static int
post_read(const struct lane *lane, uint64_t sequence, int flags)
{
	const struct initiator *initiator = lane->initiator;
	uint64_t src = target_slot(lane, sequence), dst = initiator_slot(lane, sequence);
	const void *context = context_of(sequence);

	if (initiator->load.pieces > 1) {
		struct rpma_sge pieces[LOAD_PIECES_MAX];
		int count = pieces_of(lane, sequence, pieces);
		return rpma_readv(lane->conn, pieces, count, lane->dst, src, flags, context);
	}
	return rpma_read(lane->conn, initiator->mr, dst, lane->dst, src, initiator->load.size, flags,
		context);
}

static int
post_send(const struct lane *lane, uint64_t sequence, int flags)
{
	const struct initiator *initiator = lane->initiator;
	const struct load *load = &initiator->load;
	uint64_t src = initiator_slot(lane, sequence);
	const void *context = context_of(sequence);

	if (is_inline(load))
		return rpma_send_inline(lane->conn, initiator->mem + src, load->size, flags, context);
	return rpma_send(lane->conn, initiator->mr, src, load->size, flags, context);
}

static int
post_write_with_imm(const struct lane *lane, uint64_t sequence, int flags)
{
	const struct initiator *initiator = lane->initiator;
	const struct load *load = &initiator->load;
	uint64_t dst = target_slot(lane, sequence), src = initiator_slot(lane, sequence);
	uint32_t imm = (uint32_t)sequence;
	const void *context = context_of(sequence);

	if (is_inline(load))
		return rpma_write_inline_with_imm(lane->conn, lane->dst, dst, initiator->mem + src,
			load->size, flags, imm, context);
	return rpma_write_with_imm(lane->conn, lane->dst, dst, initiator->mr, src, load->size, flags, imm,
		context);
}

static int
post_atomic_write(const struct lane *lane, uint64_t sequence, int flags)
{
	const char *src = (const char *)lane->initiator->mem + initiator_slot(lane, sequence);
	return rpma_atomic_write(lane->conn, lane->dst, target_slot(lane, sequence), src, flags,
		context_of(sequence));
}

/* each slot counts its own operations: the n-th finds n and writes n + 1 */
static int
post_compare_and_swap(const struct lane *lane, uint64_t sequence, int flags)
{
	const struct initiator *initiator = lane->initiator;
	uint64_t expected = sequence / initiator->load.depth;
	return rpma_compare_and_swap(lane->conn, initiator->mr, initiator_slot(lane, sequence), lane->dst,
		target_slot(lane, sequence), expected, expected + 1, flags, context_of(sequence));
}

static int
post_write_then_flush(const struct lane *lane, uint64_t sequence, int flags)
{
	const struct initiator *initiator = lane->initiator;
	const struct load *load = &initiator->load;
	uint64_t dst = target_slot(lane, sequence), src = initiator_slot(lane, sequence);

	/*
	 * Like a program that does not know rpma_write_flush: the write rings the doorbell itself, unless it
	 * is part of a batch.
	 */
	int write_flags = RPMA_F_COMPLETION_ON_ERROR | (flags & RPMA_F_MORE);
	int ret = rpma_write(lane->conn, lane->dst, dst, initiator->mr, src, load->size, write_flags,
		context_of(sequence));
	if (ret)
		return ret;
	return rpma_flush(lane->conn, lane->dst, dst, load->size, load->flush_type, flags,
		context_of(sequence));
}

static int
post_write_flush(const struct lane *lane, uint64_t sequence, int flags)
{
	const struct initiator *initiator = lane->initiator;
	const struct load *load = &initiator->load;
	return rpma_write_flush(lane->conn, lane->dst, target_slot(lane, sequence), initiator->mr,
		initiator_slot(lane, sequence), load->size, load->flush_type, flags, context_of(sequence));
}

const struct op_kind op_kinds[OP_COUNT] = {
	[OP_WRITE] = {
		.name = "write",
		.can_inline = true,
		.has_pieces = true,
		.fills_target = true,
		.sends_per_op = 1,
		.post = post_write,
	},
	[OP_READ] = {
		.name = "read",
		.has_pieces = true,
		.reads_target = true,
		.sends_per_op = 1,
		.post = post_read,
	},
	[OP_SEND] = {
		.name = "send",
		.can_inline = true,
		.needs_receives = true,
		.fills_target = true,
		.sends_per_op = 1,
		.post = post_send,
	},
	[OP_WRITE_WITH_IMM] = {
		.name = "write-with-imm",
		.can_inline = true,
		.needs_receives = true,
		.fills_target = true,
		.sends_per_op = 1,
		.post = post_write_with_imm,
	},
	[OP_ATOMIC_WRITE] = {
		.name = "atomic-write",
		.is_word = true,
		.fills_target = true,
		.sends_per_op = 1,
		.post = post_atomic_write,
	},
	[OP_COMPARE_AND_SWAP] = {
		.name = "cas",
		.is_word = true,
		.sends_per_op = 1,
		.post = post_compare_and_swap,
	},
	[OP_WRITE_THEN_FLUSH] = {
		.name = "write+flush",
		.flushes = true,
		.fills_target = true,
		.sends_per_op = 2,
		.post = post_write_then_flush,
	},
	[OP_WRITE_FLUSH] = {
		.name = "write_flush",
		.flushes = true,
		.fills_target = true,
		.sends_per_op = 2,
		.post = post_write_flush,
	},
	[OP_PING_PONG] = {
		.name = "ping-pong",
		.needs_receives = true,
		.is_answered = true,
		.fills_target = true,
		.sends_per_op = 1,
		.post = post_send,
	},
};

uint32_t
op_sends(const struct load *load)
{
	/* after the last send that was seen to complete, there may be as many as do not ask for it */
	if (op_kinds[load->op].is_answered)
		return load->depth + load->signal_every;
	return load->depth * op_kinds[load->op].sends_per_op;
}

uint32_t
op_answers(const struct load *load)
{
	return op_kinds[load->op].is_answered ? load->depth : 0;
}

uint32_t
op_receives(const struct load *load)
{
	/* the target answers first, and posts the next receive while the answer is under way: so it has one more */
	if (op_kinds[load->op].is_answered)
		return load->depth + 1;
	if (op_kinds[load->op].needs_receives)
		return load->depth;
	return load->target_waits == WAY_PAUSE ? 0 : 1;
}

enum way
op_target_waits(const struct load *load)
{
	if (!op_kinds[load->op].needs_receives)
		return WAY_PAUSE;
	return load->wait == WAY_POLL ? WAY_POLL : WAY_FD;
}

enum op
op_parse(const char *name)
{
	for (int i = 0; i < OP_COUNT; i++)
		if (strcmp(name, op_kinds[i].name) == 0)
			return (enum op)i;
	return OP_COUNT;
}
