/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* requests.c -- makes random requests of an application, valid and invalid ones, and posts them */

#include <errno.h>
#include <string.h>

#include "oracle.h"
#include "requests.h"
#include "sim.h"

#define BATCH_MAX 4
#define OTHER_KEY 0x10000u
#define TOO_LONG (SOFTRDMA_MSG_MAX + 1u)

static const char *const kind_names[OP_KINDS] = { "write", "write with imm", "read", "send", "send with imm",
	"compare and swap", "fetch and add", "atomic write", "flush", "persistent flush" };

static size_t
size_of(const struct side *side, enum region_id region)
{
	return side->other->regions[region].size;
}

static bool
has_local_memory(enum op_kind kind)
{
	return kind < OP_ATOMIC_WRITE;
}

static bool
is_atomic(enum op_kind kind)
{
	return kind == OP_COMPARE_SWAP || kind == OP_FETCH_ADD || kind == OP_ATOMIC_WRITE;
}

static bool
sends_bytes(enum op_kind kind)
{
	return kind <= OP_WRITE_IMM || kind == OP_SEND || kind == OP_SEND_IMM;
}

static bool
is_message(enum op_kind kind)
{
	return kind == OP_SEND || kind == OP_SEND_IMM;
}

/* a region where this kind of operation is allowed */
static enum region_id
good_region(enum op_kind kind)
{
	static const enum region_id any[] = { REGION_ALL, REGION_FLEETING, REGION_DISK, REGION_DISK };

	if (kind == OP_FLUSH_PERSISTENT)
		return REGION_DISK;
	if ((kind <= OP_WRITE_IMM || kind == OP_ATOMIC_WRITE) && sim_chance(150))
		return REGION_WRITE;
	if (kind == OP_READ && sim_chance(150))
		return REGION_READ;
	return any[sim_below(4)];
}

/* a region where it is not */
static enum region_id
bad_region(enum op_kind kind)
{
	switch (kind) {
	case OP_WRITE:
	case OP_WRITE_IMM:
	case OP_ATOMIC_WRITE:
	case OP_FLUSH_GLOBAL:
		return REGION_READ;
	case OP_FLUSH_PERSISTENT:
		return REGION_ALL;
	default:
		return REGION_WRITE;
	}
}

static size_t
random_len(size_t max)
{
	if (sim_chance(80))
		return 0;
	return 1 + sim_below((uint32_t)(sim_chance(600) ? 64 : max));
}

static void
choose_place(struct side *side, struct op *op)
{
	op->region = is_message(op->kind) ? REGION_ALL : good_region(op->kind);
	const size_t size = size_of(side, op->region);
	if (is_atomic(op->kind)) {
		op->len = 8;
		op->offset = 8 * sim_below((uint32_t)size / 8);
	} else {
		op->len = random_len(SLOT_SIZE);
		op->offset = is_message(op->kind) ? 0 : sim_below((uint32_t)(size - op->len) + 1);
	}
	/* at a place that other requests use too, so that they overlap */
	if (sim_chance(300) && size > 256)
		op->offset &= 0xf8;
	op->key = side->other->regions[op->region].key;
}

/* makes it a long one, of several frames */
static void
make_big(struct side *side, struct op *op)
{
	if (side->big_count == side->plan.big || op->kind > OP_READ || sim_chance(700))
		return;
	op->local = side->local + LOCAL_SMALL + side->big_count++ * (BIG_SIZE + GAP);
	op->region = REGION_BIG;
	op->len = 1 + sim_below(BIG_SIZE);
	op->offset = sim_below((uint32_t)(BIG_SIZE - op->len) + 1);
	op->key = side->other->regions[op->region].key;
	op->local_room = BIG_SIZE;
}

/* makes it a flush of the bytes changed just before, as applications do */
static void
make_flush(struct side *side, struct op *op, const struct op *before)
{
	if (before->region != REGION_DISK || before->verdict != IBV_WC_SUCCESS || op->len > SLOT_SIZE)
		return;
	op->kind = OP_FLUSH_PERSISTENT;
	op->region = REGION_DISK;
	op->offset = before->offset;
	op->len = before->len;
	op->key = side->other->regions[REGION_DISK].key;
}

/* makes one mistake */
static void
spoil(struct side *side, struct op *op)
{
	bool remote = !is_message(op->kind) && op->len > 0;
	unsigned way = sim_below(8);

	op->verdict = IBV_WC_REM_ACCESS_ERR;
	if (way == 0 && remote) {
		op->key += OTHER_KEY;
	} else if (way == 1 && remote) {
		op->offset = size_of(side, op->region) - (is_atomic(op->kind) ? 0 : op->len - 1);
	} else if (way == 2 && remote) {
		op->region = bad_region(op->kind);
		op->offset = 0;
		op->key = side->other->regions[op->region].key;
	} else if (way == 3 && remote && op->kind != OP_FLUSH_PERSISTENT) {
		op->region = REGION_FOREIGN;
		op->offset = 0;
		op->key = side->other->regions[op->region].key;
	} else if (way == 4 && is_atomic(op->kind)) {
		op->offset = 4;
		op->verdict = IBV_WC_REM_INV_REQ_ERR;
	} else if (way == 5 && has_local_memory(op->kind) && !is_atomic(op->kind) && op->len > 0) {
		op->lkey += OTHER_KEY;
		op->verdict = IBV_WC_LOC_PROT_ERR;
	} else if (way == 6 && remote && !is_atomic(op->kind)) {
		/* the range ends after the highest address */
		op->offset = SIZE_MAX - (uintptr_t)side->other->regions[op->region].memory - op->len / 2;
	} else if (way == 7 && op->kind == OP_WRITE) {
		op->len = TOO_LONG;
		op->verdict = IBV_WC_LOC_LEN_ERR;
	} else {
		op->verdict = IBV_WC_SUCCESS;
	}
}

static void
make_operands(struct side *side, struct op *op)
{
	op->operand[0] = sim_random();
	op->operand[1] = sim_random();
	if (op->kind == OP_COMPARE_SWAP && sim_chance(700) && op->verdict == IBV_WC_SUCCESS)
		memcpy(&op->operand[0], side->other->regions[op->region].memory + op->offset, 8);
	op->imm = (uint32_t)sim_random();
}

/* makes the next request, without posting it */
static void
make_op(struct side *side, unsigned i, bool last)
{
	struct op *op = &side->ops[i];

	*op = (struct op){
		.kind = sim_below(OP_KINDS),
		.signaled = last || side->plan.sq_sig_all || sim_chance(600),
		.fenced = sim_chance(200),
		.solicited = sim_chance(300),
		.local = side->local + i * LOCAL_STEP,
		.local_room = SLOT_SIZE,
		.lkey = side->regions[REGION_LOCAL].key,
		.pieces = 1 + sim_below(PIECES_MAX),
		.posted_ns = sim.now_ns,
	};
	choose_place(side, op);
	make_big(side, op);
	if (i > 0 && sim_chance(250))
		make_flush(side, op, &side->ops[i - 1]);
	if (sim_chance(side->plan.bad))
		spoil(side, op);
	else if (op->len == 0 && sim_chance(500))
		op->key += OTHER_KEY; /* the key of an empty request is not checked */
	if (op->verdict == IBV_WC_SUCCESS && op->len > 0 && !is_message(op->kind) &&
		side->other->regions[op->region].gone)
		op->verdict = IBV_WC_REM_ACCESS_ERR;
	op->is_inline = sends_bytes(op->kind) && op->len <= INLINE_MAX &&
		op->verdict != IBV_WC_LOC_PROT_ERR && sim_chance(300);
	make_operands(side, op);
	if (sends_bytes(op->kind) && op->verdict != IBV_WC_LOC_LEN_ERR) {
		op_fill(side, op, op->local, op->len);
		op_fill(side, op, side->local_expected + (op->local - side->local), op->len);
	}
}

/* its SGEs in local memory; the last one gets the rest */
static int
make_pieces(const struct op *op, struct ibv_sge sges[static PIECES_MAX])
{
	uint64_t at = (uintptr_t)op->local;
	size_t left = op->len;
	/* an atomic may have only one */
	unsigned count = is_atomic(op->kind) || op->len == TOO_LONG ? 1 : op->pieces;

	for (unsigned i = 0; i < count; i++) {
		size_t len = i + 1 == count ? left : sim_below((uint32_t)left + 1);

		sges[i] = (struct ibv_sge){ .addr = at, .length = (uint32_t)len, .lkey = op->lkey };
		at += len;
		left -= len;
	}
	return (int)count;
}

static uint64_t
remote_addr(const struct side *side, const struct op *op)
{
	return (uintptr_t)side->other->regions[op->region].memory + op->offset;
}

static unsigned
flags_of(const struct op *op)
{
	return (op->signaled ? IBV_SEND_SIGNALED : 0u) | (op->fenced ? IBV_SEND_FENCE : 0u) |
		(op->solicited ? IBV_SEND_SOLICITED : 0u) | (op->is_inline ? IBV_SEND_INLINE : 0u);
}

/* the request was accepted; its inline data belongs to the application again */
static void
posted(struct side *side)
{
	unsigned i = side->op_count++;
	struct op *op = &side->ops[i];

	SIM_TRACE("%s: request %u: %s of %zu bytes to %u+%zu%s%s%s%s", side->name, i, kind_names[op->kind],
		op->len, op->region, op->verdict == IBV_WC_SUCCESS ? op->offset : 0,
		op->signaled ? "" : ", unsignaled", op->fenced ? ", fenced" : "",
		op->is_inline ? ", inline" : "", op->verdict == IBV_WC_SUCCESS ? "" : ", wrong on purpose");
	if (is_message(op->kind) || op->kind == OP_WRITE_IMM) {
		op->consumer = side->consumer_count;
		side->consumers[side->consumer_count++] = i;
	}
	if (op->is_inline) {
		memset(op->local, 0xdd, op->len);
		memset(side->local_expected + (op->local - side->local), 0xdd, op->len);
	}
}

/*
 * Requests count as posted from before the call, because they may be executed, and even complete, before the
 * call returns. This takes back those that the call did not accept.
 */
static void
unpost(struct side *side, unsigned count)
{
	SIM_CHECK(side->op_next + count <= side->op_count, "a request completes that was not accepted");
	for (; count > 0; count--) {
		struct op *op = &side->ops[--side->op_count];
		if (is_message(op->kind) || op->kind == OP_WRITE_IMM)
			side->consumer_count--;
	}
	SIM_TRACE("%s: the queue is full", side->name);
}

static void
fill_wr(const struct side *side, const struct op *op, struct ibv_send_wr *wr, struct ibv_sge *sges)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD };

	*wr = (struct ibv_send_wr){
		.wr_id = (uint64_t)(op - side->ops),
		.sg_list = sges,
		.num_sge = make_pieces(op, sges),
		.opcode = opcodes[op->kind],
		.send_flags = flags_of(op),
		.imm_data = op->imm,
	};
	if (is_atomic(op->kind)) {
		wr->wr.atomic.remote_addr = remote_addr(side, op);
		wr->wr.atomic.rkey = op->key;
		wr->wr.atomic.compare_add = op->operand[0];
		wr->wr.atomic.swap = op->operand[1];
	} else {
		wr->wr.rdma.remote_addr = remote_addr(side, op);
		wr->wr.rdma.rkey = op->key;
	}
}

/* checks that the queue may really be full; requests without a completion may still take places */
static void
check_full(const struct side *side, int ret)
{
	if (ret == 0)
		return;
	SIM_CHECK(ret == ENOMEM, "a request is not taken: %s", strerror(ret));
	SIM_CHECK(side->op_count - side->op_next > side->plan.send_wr_max, "a queue of %u has no room for %u",
		side->plan.send_wr_max, side->op_count - side->op_next);
}

/* posts with ibv_post_send, which accepts as many as fit */
static void
post_list(struct side *side, unsigned count)
{
	struct ibv_send_wr wrs[BATCH_MAX], *bad = NULL;
	struct ibv_sge sges[BATCH_MAX][PIECES_MAX];
	const unsigned first = side->op_count;

	for (unsigned i = 0; i < count; i++) {
		fill_wr(side, &side->ops[first + i], &wrs[i], sges[i]);
		wrs[i].next = i + 1 < count ? &wrs[i + 1] : NULL;
	}
	uint8_t inline_data[BATCH_MAX][INLINE_MAX];
	for (unsigned i = 0; i < count; i++) {
		/* posted() overwrites bytes that the call has yet to read */
		struct op *op = &side->ops[first + i];
		if (op->is_inline) {
			memcpy(inline_data[i], op->local, op->len);
			uint64_t at = (uintptr_t)inline_data[i];
			for (int piece = 0; piece < wrs[i].num_sge; at += sges[i][piece++].length)
				sges[i][piece].addr = at;
		}
		posted(side);
	}
	int ret = ibv_post_send(&side->qp->qp, wrs, &bad);
	memset(inline_data, 0xcc, sizeof(inline_data));
	check_full(side, ret);
	if (ret)
		unpost(side, count - (unsigned)(bad - wrs));
}

static void
name_op(const struct side *side, struct ibv_qp_ex *ex, const struct op *op)
{
	const uint64_t addr = remote_addr(side, op);

	ex->wr_id = (uint64_t)(op - side->ops);
	ex->wr_flags = flags_of(op) & ~(unsigned)IBV_SEND_INLINE;
	switch (op->kind) {
	case OP_WRITE:
		ex->wr_rdma_write(ex, op->key, addr);
		break;
	case OP_WRITE_IMM:
		ex->wr_rdma_write_imm(ex, op->key, addr, op->imm);
		break;
	case OP_READ:
		ex->wr_rdma_read(ex, op->key, addr);
		break;
	case OP_SEND:
		ex->wr_send(ex);
		break;
	case OP_SEND_IMM:
		ex->wr_send_imm(ex, op->imm);
		break;
	case OP_COMPARE_SWAP:
		ex->wr_atomic_cmp_swp(ex, op->key, addr, op->operand[0], op->operand[1]);
		break;
	case OP_FETCH_ADD:
		ex->wr_atomic_fetch_add(ex, op->key, addr, op->operand[0]);
		break;
	case OP_ATOMIC_WRITE:
		ex->wr_atomic_write(ex, op->key, addr, op->operand);
		break;
	default:
		softrdma_wr_flush(ex, op->key, addr, op->len,
			op->kind == OP_FLUSH_GLOBAL ? SOFTRDMA_FLUSH_GLOBAL : SOFTRDMA_FLUSH_PERSISTENT);
		break;
	}
}

static void
name_data(struct ibv_qp_ex *ex, const struct op *op)
{
	struct ibv_sge sges[PIECES_MAX];

	if (!has_local_memory(op->kind))
		return;
	int count = make_pieces(op, sges);
	if (!op->is_inline) {
		ex->wr_set_sge_list(ex, (size_t)count, sges);
		return;
	}
	struct ibv_data_buf bufs[PIECES_MAX];
	for (int i = 0; i < count; i++)
		bufs[i] = (struct ibv_data_buf){ (void *)(uintptr_t)sges[i].addr, sges[i].length };
	ex->wr_set_inline_data_list(ex, (size_t)count, bufs);
}

/*
 * posts with ibv_wr_*, which accepts all or none; the link is locked, so none completes before the result is
 * known
 */
static void
post_batch(struct side *side, unsigned count)
{
	struct ibv_qp_ex *ex = softrdma_ibv_qp_to_qp_ex(&side->qp->qp);
	const unsigned first = side->op_count;

	ex->wr_start(ex);
	for (unsigned i = 0; i < count; i++) {
		name_op(side, ex, &side->ops[first + i]);
		name_data(ex, &side->ops[first + i]);
		posted(side);
	}
	int ret = ex->wr_complete(ex);
	check_full(side, ret);
	if (ret)
		unpost(side, count);
}

void
requests_post(struct side *side)
{
	unsigned left = side->plan.ops - side->op_count;
	unsigned count = 1 + sim_below(BATCH_MAX);
	bool plain = true;

	if (left == 0 || side->qp == NULL)
		return;
	if (count > left)
		count = left;
	if (count > side->plan.send_wr_max)
		count = side->plan.send_wr_max;
	unsigned big_before = side->big_count;
	for (unsigned i = 0; i < count; i++) {
		make_op(side, side->op_count + i, i + 1 == left);
		plain = plain && side->ops[side->op_count + i].kind < OP_ATOMIC_WRITE;
	}
	unsigned before = side->op_count;
	if (plain && sim_chance(500))
		post_list(side, count);
	else
		post_batch(side, count);
	if (side->op_count < before + count && big_before < side->big_count)
		side->big_count = side->plan.big; /* their places have been written to, so they are used up */
}

void
requests_post_recv(struct side *side)
{
	struct recv *recv = &side->recvs[side->recv_count];
	struct ibv_sge sges[PIECES_MAX];
	struct ibv_recv_wr wr = { .wr_id = WR_RECV | side->recv_count, .sg_list = sges };
	struct ibv_recv_wr *bad = NULL;

	if (side->recv_count == side->plan.recvs || side->qp == NULL)
		return;
	*recv = (struct recv){ .local = side->local + (OPS_MAX + side->recv_count) * LOCAL_STEP,
		.len = SLOT_SIZE };
	if (troubles.bad_recvs && sim_chance(side->plan.bad)) {
		recv->bad = sim_chance(300);
		recv->len = random_len(SLOT_SIZE);
	}
	const struct op shape = { .local = recv->local,
		.len = recv->len,
		.lkey = side->regions[REGION_LOCAL].key + (recv->bad ? OTHER_KEY : 0),
		.pieces = 1 + sim_below(PIECES_MAX) };
	wr.num_sge = make_pieces(&shape, sges);
	side->recv_count++; /* it may be taken while it is being posted */
	int ret =
		side->srq ? ibv_post_srq_recv(side->srq, &wr, &bad) : ibv_post_recv(&side->qp->qp, &wr, &bad);
	if (ret == 0) {
		SIM_TRACE("%s: receive %u of %zu bytes", side->name, (unsigned)(recv - side->recvs),
			recv->len);
		return;
	}
	side->recv_count--;
	SIM_CHECK(ret == ENOMEM && side->recv_count - side->recv_next >= side->plan.recv_wr_max,
		"a receive is not taken: %s", strerror(ret));
}
