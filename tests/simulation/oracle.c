/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* oracle.c -- the required results of requests, from a model that does not know how the device works */

#include <inttypes.h>
#include <string.h>

#include "net.h"
#include "oracle.h"
#include "pattern.h"
#include "sim.h"
#include "world.h"

/* the RNR timer */
#define RNR_MS 655

struct troubles troubles;

/* --- requests --- */

void
op_fill(const struct side *side, const struct op *op, uint8_t *to, size_t len)
{
	uint64_t id = (uint64_t)side->number * OPS_MAX + (uint64_t)(op - side->ops);

	pattern_fill(to, len, sim.seed ^ (id + 1) << 48, 0);
}

static bool
is_write(const struct op *op)
{
	return op->kind == OP_WRITE || op->kind == OP_WRITE_IMM;
}

static bool
is_send(const struct op *op)
{
	return op->kind == OP_SEND || op->kind == OP_SEND_IMM;
}

static bool
is_consumer(const struct op *op)
{
	return is_send(op) || op->kind == OP_WRITE_IMM;
}

static bool
is_local_reason(enum ibv_wc_status status)
{
	return status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_LEN_ERR;
}

/* the receive that it takes, if that has been posted */
static const struct recv *
recv_of(const struct side *side, const struct op *op)
{
	const struct side *other = side->other;

	return is_consumer(op) && op->consumer < other->recv_count ? &other->recvs[op->consumer] : NULL;
}

static bool
is_too_long(const struct side *side, const struct op *op)
{
	const struct recv *recv = recv_of(side, op);

	return is_send(op) && recv && op->len > recv->len;
}

/* its region may have been deregistered while it was on its way */
static bool
may_miss_memory(const struct side *side, const struct op *op)
{
	return !is_send(op) && op->len > 0 && side->other->regions[op->region].leaving;
}

/* --- troubles --- */

static bool
has_bad_op(const struct side *side)
{
	for (unsigned i = 0; i < side->op_count; i++) {
		if (side->ops[i].verdict != IBV_WC_SUCCESS)
			return true;
	}
	return false;
}

/*
 * true if an event on either side makes the connection fail, other than this side's own mistakes and an
 * orderly end
 */
static bool
is_broken(const struct side *side)
{
	const struct side *other = side->other;

	return net_is_cut() || net_was_reset() || troubles.power || troubles.rnr_limited ||
		troubles.bad_recvs || has_bad_op(other) || disk_has_failed(0) || disk_has_failed(1) ||
		side->regions[REGION_FLEETING].leaving || other->regions[REGION_FLEETING].leaving;
}

static bool
is_disturbed(const struct side *side)
{
	return is_broken(side) || side->closing || side->other->closing;
}

static bool
is_troubled(const struct side *side)
{
	return is_disturbed(side) || has_bad_op(side);
}

/* --- images --- */

static uint8_t *
image_of(const struct side *side, uint8_t *image, const struct op *op)
{
	return image + side->other->regions[op->region].image + op->offset;
}

static const uint8_t *
memory_of(const struct side *side, const struct op *op)
{
	return side->other->regions[op->region].memory + op->offset;
}

static uint64_t
get(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/* executes a request on an image */
static void
apply(const struct side *side, const struct op *op, uint8_t *image, size_t len)
{
	if (op->verdict != IBV_WC_SUCCESS || side->other->regions[op->region].gone)
		return;
	uint8_t *at = image_of(side, image, op);
	uint64_t value;
	switch (op->kind) {
	case OP_WRITE:
	case OP_WRITE_IMM:
		op_fill(side, op, at, len);
		break;
	case OP_COMPARE_SWAP:
		if (get(at) == op->operand[0])
			memcpy(at, &op->operand[1], 8);
		break;
	case OP_FETCH_ADD:
		value = get(at) + op->operand[0];
		memcpy(at, &value, 8);
		break;
	case OP_ATOMIC_WRITE:
		memcpy(at, op->operand, 8);
		break;
	default:
		break;
	}
}

/* compares the real memory with an image; true if all is equal */
static bool
matches(const struct side *side, const uint8_t *image)
{
	const struct side *other = side->other;

	return memcmp(image, disk_memory(other->number), DISK_SIZE) == 0 &&
		memcmp(image + DISK_SIZE, other->plain, other->plain_len) == 0;
}

/*
 * True if the beginning of a write has arrived, up to the first byte that differs. The scratch image then has
 * the beginning as well; the whole write follows later.
 */
static bool
matches_in_part(struct side *side, const struct op *op)
{
	static uint8_t bytes[BIG_SIZE];
	size_t n = 0;

	if (!is_write(op) || op->verdict != IBV_WC_SUCCESS || side->other->regions[op->region].gone)
		return false;
	const uint8_t *now = memory_of(side, op);
	op_fill(side, op, bytes, op->len);
	while (n < op->len && now[n] == bytes[n])
		n++;
	memcpy(image_of(side, side->scratch, op), bytes, n);
	return matches(side, side->scratch);
}

/* the offset of the first wrong byte */
static size_t
first_difference(const struct side *side, const uint8_t *image)
{
	const struct side *other = side->other;
	size_t at = 0;

	while (at < DISK_SIZE && image[at] == disk_memory(other->number)[at])
		at++;
	while (at >= DISK_SIZE && at < DISK_SIZE + other->plain_len &&
		image[at] == other->plain[at - DISK_SIZE])
		at++;
	return at;
}

void
oracle_check_target(struct side *side)
{
	memcpy(side->scratch, side->image, DISK_SIZE + side->other->plain_len);
	for (unsigned i = side->image_at;; i++) {
		if (i >= side->executed && matches(side, side->scratch))
			return;
		SIM_CHECK(i < side->op_count,
			"memory of %s is not what its peer's requests make of it (byte %zu)",
			side->other->name, first_difference(side, side->scratch));
		const struct op *op = &side->ops[i];
		if (i >= side->executed && matches_in_part(side, op))
			return;
		/*
		 * this side's memory for a response is checked only when the response comes, so the other
		 * side continues
		 */
		SIM_CHECK(op->verdict == IBV_WC_SUCCESS ||
				(op->kind == OP_READ && op->verdict == IBV_WC_LOC_PROT_ERR),
			"memory of %s has changed though request %u was refused (byte %zu)",
			side->other->name, i, first_difference(side, side->scratch));
		apply(side, op, side->scratch, op->len);
	}
}

void
oracle_region_gone(struct side *side, struct region *region)
{
	oracle_check_target(side->other);
	memcpy(side->other->image + region->image, region->memory, region->size);
	region->gone = true;
}

/*
 * Checks that the bytes are those of request i's memory at its turn, or what later requests have made of
 * them; image_at is i. If a fence follows, no later request is executed before the response has come.
 */
static void
check_bytes(struct side *side, unsigned i, const uint8_t *bytes, bool until_fence, const char *what)
{
	const struct op *op = &side->ops[i];
	const uint8_t *then = image_of(side, side->image, op);
	const uint8_t *later = image_of(side, side->scratch, op);
	static bool good[BIG_SIZE];

	if (memcmp(bytes, then, op->len) == 0)
		return;
	for (size_t at = 0; at < op->len; at++)
		good[at] = bytes[at] == then[at];
	memcpy(side->scratch, side->image, DISK_SIZE + side->other->plain_len);
	for (unsigned next = i + 1; next < side->op_count; next++) {
		if (until_fence && side->ops[next].fenced)
			break;
		apply(side, &side->ops[next], side->scratch, side->ops[next].len);
		for (size_t at = 0; at < op->len; at++)
			good[at] = good[at] || bytes[at] == later[at];
	}
	for (size_t at = 0; at < op->len; at++)
		SIM_CHECK(good[at],
			"%s of request %u of %s: byte %zu is neither what was there then nor what came later",
			what, i, side->name, at);
}

/* --- successes --- */

static void
expect_local(struct side *side, const struct op *op, const void *bytes, size_t len)
{
	memcpy(side->local_expected + (op->local - side->local), bytes, len);
}

static void
check_result(struct side *side, unsigned i)
{
	const struct op *op = &side->ops[i];
	const struct region *region = &side->other->regions[op->region];

	switch (op->kind) {
	case OP_READ:
		if (!region->gone)
			check_bytes(side, i, op->local, true, "read");
		expect_local(side, op, op->local, op->len);
		break;
	case OP_COMPARE_SWAP:
	case OP_FETCH_ADD:
		SIM_CHECK(region->gone || get(op->local) == get(image_of(side, side->image, op)),
			"atomic %u of %s has found another value", i, side->name);
		expect_local(side, op, op->local, 8);
		break;
	case OP_FLUSH_PERSISTENT:
		check_bytes(side, i, disk_durable(side->other->number) + region->image + op->offset, false,
			"durable range");
		break;
	default:
		break;
	}
}

static void
op_succeeded(struct side *side, unsigned i)
{
	struct op *op = &side->ops[i];

	SIM_CHECK(op->verdict == IBV_WC_SUCCESS, "request %u of %s succeeds, which it must not", i,
		side->name);
	SIM_CHECK(!is_too_long(side, op), "send %u of %s fits where it is too long", i, side->name);
	while (side->image_at < i) {
		apply(side, &side->ops[side->image_at], side->image, side->ops[side->image_at].len);
		side->image_at++;
	}
	check_result(side, i);
	op->succeeded = true;
	if (side->executed < i + 1)
		side->executed = i + 1;
}

/* --- completions of requests --- */

static enum ibv_wc_opcode
opcode_of(const struct op *op)
{
	static const int opcodes[OP_KINDS] = { IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ,
		IBV_WC_SEND, IBV_WC_SEND, IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD, SOFTRDMA_WC_ATOMIC_WRITE,
		SOFTRDMA_WC_FLUSH, SOFTRDMA_WC_FLUSH };

	return (enum ibv_wc_opcode)opcodes[op->kind];
}

/*
 * a mistake of this side that is found here before or while it disconnects, which flushes requests without a
 * response
 */
static bool
has_local_mistake(const struct side *side, unsigned from)
{
	for (unsigned i = from; i < side->op_count; i++) {
		if (is_local_reason(side->ops[i].verdict))
			return true;
	}
	return false;
}

static bool
may_be_first(const struct side *side, unsigned i, enum ibv_wc_status status)
{
	const struct op *op = &side->ops[i];
	const struct recv *recv = recv_of(side, op);

	switch (status) {
	case IBV_WC_WR_FLUSH_ERR:
		return is_disturbed(side) || has_local_mistake(side, i);
	case IBV_WC_RETRY_EXC_ERR:
		/*
		 * A refusal, or DISCONNECT, is lost if the other side stopped in the middle of a frame that
		 * it could not complete, or destroyed its queue pair before everything was sent.
		 */
		return is_broken(side) || side->other->qp == NULL || net_is_torn(side->other->number);
	case IBV_WC_REM_ACCESS_ERR:
		return op->verdict == status || may_miss_memory(side, op);
	case IBV_WC_REM_INV_REQ_ERR:
		return op->verdict == status || is_too_long(side, op);
	case IBV_WC_REM_OP_ERR:
		/* a cut may end one direction alone: then the other side does not make the flush, and its refusal comes */
		return (op->kind == OP_FLUSH_PERSISTENT &&
			       (disk_has_failed(side->other->number) || net_is_cut())) ||
			(is_send(op) && recv && recv->bad) || may_miss_memory(side, op);
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_LEN_ERR:
		return op->verdict == status;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return is_consumer(op) && side->other->plan.rnr_retry < 7 &&
			sim.now_ns - op->posted_ns >= (side->other->plan.rnr_retry + 1) * RNR_MS * SIM_MS;
	default:
		return false;
	}
}

static void
op_failed(struct side *side, unsigned i, enum ibv_wc_status status)
{
	bool first = !side->op_failed;
	const char *text = ibv_wc_status_str(status);

	side->op_failed = true;
	if (first)
		SIM_CHECK(may_be_first(side, i, status), "request %u of %s has no reason to fail: %s", i,
			side->name, text);
	else if (status != IBV_WC_WR_FLUSH_ERR)
		SIM_CHECK(is_local_reason(status) && side->ops[i].verdict == status,
			"request %u of %s fails for a reason behind another failure: %s", i, side->name,
			text);
	if (status != IBV_WC_WR_FLUSH_ERR)
		SIM_CHECK(side->reasons++ == 0, "%s fails for two reasons", side->name);
}

static void
op_completion(struct side *side, const struct ibv_wc *wc)
{
	unsigned i = (unsigned)wc->wr_id;
	bool success = wc->status == IBV_WC_SUCCESS;

	SIM_TRACE("%s: request %u: %s", side->name, i, ibv_wc_status_str(wc->status));
	SIM_CHECK(wc->wr_id < side->op_count && i >= side->op_next,
		"request %" PRIu64 " of %s completes out of order, or twice", wc->wr_id, side->name);
	while (side->op_next < i) {
		SIM_CHECK(!side->ops[side->op_next].signaled && !side->op_failed,
			"request %u of %s has not completed", side->op_next, side->name);
		op_succeeded(side, side->op_next++);
	}
	side->op_next = i + 1;
	SIM_CHECK(wc->qp_num == side->qp_num, "a completion of another queue pair");
	if (!success) {
		op_failed(side, i, wc->status);
		return;
	}
	const struct op *op = &side->ops[i];
	SIM_CHECK(!side->op_failed, "request %u of %s succeeds behind a failure", i, side->name);
	SIM_CHECK(op->signaled, "request %u of %s was not to be reported", i, side->name);
	SIM_CHECK(wc->opcode == opcode_of(op) && wc->byte_len == (uint32_t)op->len,
		"request %u of %s: the completion is of another one", i, side->name);
	op_succeeded(side, i);
	oracle_check_target(side);
}

/* --- completions of receives --- */

static void
recv_succeeded(struct side *side, unsigned i, const struct ibv_wc *wc)
{
	struct side *other = side->other;
	struct recv *recv = &side->recvs[i];
	static uint8_t bytes[BIG_SIZE];

	SIM_CHECK(!side->recv_failed, "receive %u of %s succeeds behind a failure", i, side->name);
	SIM_CHECK(i < other->consumer_count, "receive %u of %s: nothing was sent for it", i, side->name);
	unsigned number = other->consumers[i];
	const struct op *op = &other->ops[number];
	bool has_imm = op->kind != OP_SEND;
	SIM_CHECK(op->verdict == IBV_WC_SUCCESS && !is_too_long(other, op),
		"receive %u of %s is of a request that is wrong", i, side->name);
	SIM_CHECK(wc->opcode == (is_send(op) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM) &&
			wc->byte_len == op->len && !!(wc->wc_flags & IBV_WC_WITH_IMM) == has_imm &&
			(!has_imm || wc->imm_data == op->imm),
		"receive %u of %s: the completion is of another message", i, side->name);
	if (is_send(op)) {
		SIM_CHECK(!recv->bad || op->len == 0, "receive %u of %s has no memory", i, side->name);
		op_fill(other, op, bytes, op->len);
		SIM_CHECK(memcmp(bytes, recv->local, op->len) == 0, "receive %u of %s: other content", i,
			side->name);
		memcpy(side->local_expected + (recv->local - side->local), bytes, op->len);
	}
	recv->succeeded = true;
	side->recv_ok++;
	if (other->executed < number + 1)
		other->executed = number + 1;
	oracle_check_target(other);
}

static bool
recv_may_fail_first(const struct side *side, unsigned i, enum ibv_wc_status status)
{
	const struct side *other = side->other;
	const struct op *op = i < other->consumer_count ? &other->ops[other->consumers[i]] : NULL;

	switch (status) {
	case IBV_WC_WR_FLUSH_ERR:
		return is_troubled(side);
	case IBV_WC_LOC_LEN_ERR:
		return op && is_too_long(other, op);
	case IBV_WC_LOC_PROT_ERR:
		return op && ((is_send(op) && side->recvs[i].bad) || may_miss_memory(other, op));
	default:
		return false;
	}
}

static void
recv_completion(struct side *side, const struct ibv_wc *wc)
{
	uint64_t number = wc->wr_id & ~WR_RECV;
	unsigned i = (unsigned)number;

	SIM_TRACE("%s: receive %u: %s", side->name, i, ibv_wc_status_str(wc->status));
	SIM_CHECK(number == side->recv_next && i < side->recv_count,
		"receive %" PRIu64 " of %s completes out of order, or twice", number, side->name);
	side->recv_next++;
	SIM_CHECK(wc->qp_num == side->qp_num, "a completion of another queue pair");
	if (wc->status == IBV_WC_SUCCESS) {
		recv_succeeded(side, i, wc);
		return;
	}
	bool first = !side->recv_failed;
	side->recv_failed = true;
	SIM_CHECK(first ? recv_may_fail_first(side, i, wc->status) : wc->status == IBV_WC_WR_FLUSH_ERR,
		"receive %u of %s has no reason to fail: %s", i, side->name, ibv_wc_status_str(wc->status));
}

void
oracle_completion(struct side *side, const struct ibv_wc *wc)
{
	if (wc->wr_id & WR_RECV)
		recv_completion(side, wc);
	else
		op_completion(side, wc);
}

/* --- the end --- */

bool
oracle_is_complete(const struct side *side)
{
	for (unsigned i = side->op_next; i < side->op_count; i++) {
		if (side->ops[i].signaled || side->op_failed)
			return false;
	}
	return true;
}

/* the place of a failed request or receive may hold anything */
static void
allow_local(struct side *side)
{
	for (unsigned i = 0; i < side->op_count; i++) {
		const struct op *op = &side->ops[i];
		if (!op->succeeded && op->local)
			expect_local(side, op, op->local, op->local_room);
	}
	for (unsigned i = 0; i < side->recv_count; i++) {
		const struct recv *recv = &side->recvs[i];
		if (!recv->succeeded)
			memcpy(side->local_expected + (recv->local - side->local), recv->local, recv->len);
	}
}

void
oracle_check_end(struct side *side)
{
	unsigned taken = 0;

	if (!side->destroyed) {
		SIM_CHECK(oracle_is_complete(side), "a request of %s has not completed: %u of %u have",
			side->name, side->op_next, side->op_count);
		while (side->op_next < side->op_count)
			op_succeeded(side, side->op_next++);
		SIM_CHECK(side->srq || side->recv_next == side->recv_count,
			"a receive of %s has not completed: %u of %u have", side->name, side->recv_next,
			side->recv_count);
	}
	for (unsigned i = 0; i < side->consumer_count; i++)
		taken += side->ops[side->consumers[i]].succeeded;
	/* completions that were not collected have gone with the queue pair */
	SIM_CHECK(side->other->destroyed || taken <= side->other->recv_ok,
		"%s has sent more than has been received", side->name);
	oracle_check_target(side);
	allow_local(side);
	SIM_CHECK(memcmp(side->local, side->local_expected, side->local_len) == 0,
		"local memory of %s has changed where nothing was asked for", side->name);
}
