/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* side.c -- one of the two applications: its memory, what it asks for, and what has become of that */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "fiber.h"
#include "net.h"
#include "oracle.h"
#include "side.h"
#include "sim.h"
#include "softrdma/device.h"
#include "softrdma/io.h"
#include "softrdma/memory.h"
#include "world.h"

/* between regions, and behind each place in local memory */
#define GAP 64

#define PLAIN_SMALL ((size_t)20480)
#define PLAIN_SIZE (PLAIN_SMALL + BIG_SIZE + GAP)
#define LOCAL_STEP (SLOT_SIZE + GAP)
#define LOCAL_SMALL ((size_t)(OPS_MAX + RECVS_MAX) * LOCAL_STEP + GAP)
#define BIGS_MAX 2
#define LOCAL_SIZE (LOCAL_SMALL + BIGS_MAX * (BIG_SIZE + GAP))

#define SEND_SGE_MAX PIECES_MAX
#define INLINE_MAX 128
#define BATCH_MAX 4
#define CQE_MAX (OPS_MAX + RECVS_MAX)

/* longer than any flush, stall or timer; then it is for ever */
#define PATIENCE_S 2000

#define ALL_RIGHTS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		IBV_ACCESS_REMOTE_ATOMIC | SOFTRDMA_ACCESS_FLUSH_GLOBAL)

#define OTHER_KEY 0x10000u
#define TOO_LONG (SOFTRDMA_MSG_MAX + 1u)

/* no place is a multiple of a page or of a cache line, all are of 8 */
static const struct {
	size_t offset, size;
	int access;
} layout[REGION_COUNT] = {
	[REGION_ALL] = { 1032, 8192, ALL_RIGHTS },
	[REGION_READ] = { 9480, 2048, IBV_ACCESS_REMOTE_READ },
	[REGION_WRITE] = { 11600, 2048, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE },
	[REGION_FLEETING] = { 13720, 2048, ALL_RIGHTS },
	[REGION_FOREIGN] = { 15840, 2048, ALL_RIGHTS },
	[REGION_BIG] = { PLAIN_SMALL, BIG_SIZE, ALL_RIGHTS },
	[REGION_DISK] = { 264, 12288, ALL_RIGHTS | SOFTRDMA_ACCESS_FLUSH_PERSISTENT },
	[REGION_LOCAL] = { 0, LOCAL_SMALL, IBV_ACCESS_LOCAL_WRITE },
};

/* --- memory --- */

static uint8_t *
map(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	SIM_CHECK(at != MAP_FAILED, "no memory");
	return at;
}

void
side_init(struct side *side, unsigned number, struct side *other)
{
	side->number = number;
	side->other = other;
	snprintf(side->name, sizeof(side->name), "%s", number ? "right" : "left");
	side->plain = map(PLAIN_SIZE);
	side->local = map(LOCAL_SIZE);
	side->local_expected = map(LOCAL_SIZE);
	side->image = map(DISK_SIZE + PLAIN_SIZE);
	side->scratch = map(DISK_SIZE + PLAIN_SIZE);
}

static void
begin_region(struct side *side, enum region_id id)
{
	struct region *region = &side->regions[id];

	memset(region, 0, sizeof(*region));
	region->size = layout[id].size;
	region->access = layout[id].access;
	if (id == REGION_DISK) {
		region->memory = disk_memory(side->number) + layout[id].offset;
		region->image = layout[id].offset;
	} else if (id == REGION_LOCAL) {
		region->memory = side->local;
		region->size = side->local_len;
	} else {
		region->memory = side->plain + layout[id].offset;
		region->image = DISK_SIZE + layout[id].offset;
	}
}

void
side_begin(struct side *side, const struct side_plan *plan)
{
	const struct side old = *side;

	*side = (struct side){
		.number = old.number,
		.other = old.other,
		.plan = *plan,
		.plain = old.plain,
		.local = old.local,
		.local_expected = old.local_expected,
		.image = old.image,
		.scratch = old.scratch,
		.progress_ns = sim.now_ns,
	};
	memcpy(side->name, old.name, sizeof(side->name));
	const bool big = side->plan.big > 0 || side->other->plan.big > 0;
	side->plain_len = big ? PLAIN_SIZE : PLAIN_SMALL;
	side->local_len = side->plan.big > 0 ? LOCAL_SIZE : LOCAL_SMALL;
	for (enum region_id id = 0; id < REGION_COUNT; id++)
		begin_region(side, id);
	memset(side->plain, 0x11 + (int)side->number, side->plain_len);
	memset(side->local, 0xee, side->local_len);
	memset(side->local_expected, 0xee, side->local_len);
}

/* --- what it holds of the device --- */

/* what is made must be made, or tell that there is no memory, and then be made at another try */
#define MAKE(what, call) \
	do { \
		errno = 0; \
		(what) = (call); \
		SIM_CHECK((what) != NULL || errno == ENOMEM, "%s: %s", #call, strerror(errno)); \
	} while ((what) == NULL)

static void
reg(struct side *side, enum region_id id)
{
	struct region *region = &side->regions[id];
	struct ibv_pd *pd = id == REGION_FOREIGN ? side->foreign_pd : side->pd;

	MAKE(region->mr, softrdma_ibv_reg_mr(pd, region->memory, region->size, region->access));
	region->key = region->mr->rkey;
}

static void
dereg(struct region *region)
{
	if (region->mr)
		SIM_CHECK(softrdma_ibv_dereg_mr(region->mr) == 0, "a region is not given back");
	region->mr = NULL;
}

static void
make_srq(struct side *side)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = side->plan.recv_wr_max, .max_sge = PIECES_MAX },
	};

	MAKE(side->srq, softrdma_ibv_create_srq(side->pd, &attr));
}

static void
make_qp(struct side *side)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = side->send_cq,
		.recv_cq = side->recv_cq,
		.srq = side->srq,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = side->pd,
		.sq_sig_all = side->plan.sq_sig_all,
		.cap = { .max_send_wr = side->plan.send_wr_max,
			.max_recv_wr = side->plan.recv_wr_max,
			.max_send_sge = SEND_SGE_MAX,
			.max_recv_sge = PIECES_MAX,
			.max_inline_data = INLINE_MAX },
	};

	MAKE(side->qp, softrdma_qp_new(side->pd, &attr));
	side->qp_num = side->qp->qp.qp_num;
}

static struct ibv_cq *
new_cq(const struct side *side)
{
	return softrdma_ibv_create_cq(softrdma_context(), CQE_MAX, NULL, side->channel, 0);
}

void
side_open(struct side *side)
{
	struct ibv_context *context = softrdma_context();
	const bool big = side->plan.big > 0 || side->other->plan.big > 0;

	MAKE(side->pd, softrdma_ibv_alloc_pd(context));
	MAKE(side->foreign_pd, softrdma_ibv_alloc_pd(context));
	for (enum region_id id = 0; id < REGION_COUNT; id++) {
		if (id != REGION_BIG || big)
			reg(side, id);
	}
	if (side->plan.collecting == COLLECT_WAIT)
		MAKE(side->channel, softrdma_ibv_create_comp_channel(context));
	MAKE(side->send_cq, new_cq(side));
	if (side->plan.two_cqs)
		MAKE(side->recv_cq, new_cq(side));
	else
		side->recv_cq = side->send_cq;
	if (side->plan.shared_queue)
		make_srq(side);
	make_qp(side);
	/* the first image of what this side's requests change */
	memcpy(side->image, disk_memory(side->other->number), DISK_SIZE);
	memcpy(side->image + DISK_SIZE, side->other->plain, side->other->plain_len);
}

static void
on_ready(struct softrdma_link *link, void *arg)
{
	struct side *side = arg;

	(void)link;
	SIM_TRACE("%s: connected", side->name);
	SIM_CHECK(side->ready++ == 0, "%s is connected twice", side->name);
}

static void
on_disconnected(struct softrdma_link *link, void *arg)
{
	struct side *side = arg;

	(void)link;
	SIM_TRACE("%s: disconnected", side->name);
	SIM_CHECK(side->disconnected++ == 0, "%s is disconnected twice", side->name);
}

void
side_connect(struct side *side, int fd, bool active)
{
	static const struct softrdma_link_ops ops = { on_ready, on_disconnected };
	struct softrdma_link *link = side->qp->link;
	const struct side *other = side->other;

	pthread_mutex_lock(&link->lock);
	softrdma_link_start(link, other->qp->link->seq, other->plan.rd_atom_max, side->plan.rd_atom_max);
	link->rnr_retry = (uint8_t)other->plan.rnr_retry;
	link->ready_due = active;
	link->qp->state = IBV_QPS_RTS;
	link->ops = &ops;
	link->ops_arg = side;
	SIM_CHECK(softrdma_io_attach(link, fd, NULL) == 0, "the connection cannot be made");
	if (active)
		softrdma_io_send(link);
	pthread_mutex_unlock(&link->lock);
}

static void
give_back(struct side *side)
{
	for (enum region_id id = 0; id < REGION_COUNT; id++)
		dereg(&side->regions[id]);
	SIM_CHECK(side->srq == NULL || softrdma_ibv_destroy_srq(side->srq) == 0, "a queue is still in use");
	if (side->recv_cq != side->send_cq)
		SIM_CHECK(softrdma_ibv_destroy_cq(side->recv_cq) == 0, "a queue is still in use");
	SIM_CHECK(softrdma_ibv_destroy_cq(side->send_cq) == 0, "a queue is still in use");
	SIM_CHECK(side->channel == NULL || softrdma_ibv_destroy_comp_channel(side->channel) == 0,
		"a channel is still in use");
	SIM_CHECK(softrdma_ibv_dealloc_pd(side->pd) == 0 && softrdma_ibv_dealloc_pd(side->foreign_pd) == 0,
		"a protection domain is still in use");
}

/* --- requests --- */

static const char *const kind_names[OP_KINDS] = { "write", "write with imm", "read", "send", "send with imm",
	"compare and swap", "fetch and add", "atomic write", "flush", "persistent flush" };

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

/* where an operation of this kind is allowed */
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

/* and where it is not */
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
	const size_t size = layout[op->region].size;
	if (is_atomic(op->kind)) {
		op->len = 8;
		op->offset = 8 * sim_below((uint32_t)size / 8);
	} else {
		op->len = random_len(SLOT_SIZE);
		op->offset = is_message(op->kind) ? 0 : sim_below((uint32_t)(size - op->len) + 1);
	}
	/* where others have been, so that they meet */
	if (sim_chance(300) && size > 256)
		op->offset &= 0xf8;
	op->key = side->other->regions[op->region].key;
}

/* a long one, of several frames */
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

/* what has just been changed is made durable, as applications do */
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

/* one mistake */
static void
spoil(struct side *side, struct op *op)
{
	bool remote = !is_message(op->kind) && op->len > 0;
	unsigned way = sim_below(8);

	op->verdict = IBV_WC_REM_ACCESS_ERR;
	if (way == 0 && remote) {
		op->key += OTHER_KEY;
	} else if (way == 1 && remote) {
		op->offset = layout[op->region].size - (is_atomic(op->kind) ? 0 : op->len - 1);
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
		/* the end of the range is beyond the end of all addresses */
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

/* the next request, which is not posted yet */
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
		op->key += OTHER_KEY; /* nobody looks at it */
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

/* its pieces of local memory; the last one has the rest */
static int
make_pieces(const struct op *op, struct ibv_sge sges[static PIECES_MAX])
{
	uint64_t at = (uintptr_t)op->local;
	size_t left = op->len;
	/* of an atomic nothing else is allowed */
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

/* it has been accepted; inline data belongs to the application again */
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
 * Requests count as posted from before the call, for they may be executed, and even complete, while it has
 * not returned yet; what it did not take is taken back.
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

/* may there be no room for one more? what nobody has heard of may still be there */
static void
check_full(const struct side *side, int ret)
{
	if (ret == 0)
		return;
	SIM_CHECK(ret == ENOMEM, "a request is not taken: %s", strerror(ret));
	SIM_CHECK(side->op_count - side->op_next > side->plan.send_wr_max, "a queue of %u has no room for %u",
		side->plan.send_wr_max, side->op_count - side->op_next);
}

/* by ibv_post_send, which takes what fits */
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
		/* posted() writes over what the call is still to read */
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

/* by ibv_wr_*, which takes all or nothing; the link is locked, so nothing completes before it is known */
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

static void
post_some(struct side *side)
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
		side->big_count = side->plan.big; /* their places have been written to */
}

static void
post_recv(struct side *side)
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

/* --- completions --- */

/* what is there, up to a few, without or with the device's help */
static unsigned
take(struct side *side, struct ibv_cq *cq)
{
	struct ibv_wc wc[4];
	int max = 1 + (int)sim_below(4);
	int n = side->plan.collecting == COLLECT_IDLE ? softrdma_cq_pop(softrdma_cq_of(cq), max, wc)
						      : ibv_poll_cq(cq, max, wc);

	SIM_CHECK(n >= 0, "a completion queue of %s is overrun", side->name);
	for (int i = 0; i < n; i++)
		oracle_completion(side, &wc[i]);
	if (n > 0)
		side->progress_ns = side->other->progress_ns = sim.now_ns;
	return (unsigned)n;
}

static unsigned
collect(struct side *side)
{
	unsigned n = take(side, side->send_cq);

	if (side->recv_cq != side->send_cq)
		n += take(side, side->recv_cq);
	return n;
}

static void
check_armed(const struct side *side, struct ibv_cq *ibv_cq)
{
	const struct softrdma_cq *cq = softrdma_cq_of(ibv_cq);

	SIM_CHECK(cq->armed == SOFTRDMA_NOT_ARMED || cq->count == 0, "%s: a completion has raised no event",
		side->name);
}

/* arms the queues, looks once more, and waits */
static void
wait_for_event(struct side *side)
{
	struct ibv_cq *cq;
	void *context;

	ibv_req_notify_cq(side->send_cq, 0);
	if (side->recv_cq != side->send_cq)
		ibv_req_notify_cq(side->recv_cq, 0);
	if (collect(side) > 0)
		return;
	if (softrdma_ibv_get_cq_event(side->channel, &cq, &context) == 0) {
		softrdma_ibv_ack_cq_events(cq, 1);
		return;
	}
	SIM_CHECK(errno == EINTR, "waiting for an event fails: %s", strerror(errno));
	check_armed(side, side->send_cq);
	check_armed(side, side->recv_cq);
}

static void
collect_or_wait(struct side *side)
{
	if (collect(side) > 0)
		return;
	if (side->channel && side->qp && sim_chance(700))
		wait_for_event(side);
	else /* longer and longer, while nothing happens */
		fiber_sleep_ns(sim_delay_ns(sim_chance(100) ? SIM_S : side->plan.pause_ns) +
			(sim.now_ns - side->progress_ns) / 32);
}

/* --- the end --- */

/* as rdma_disconnect() */
static void
disconnect(struct side *side)
{
	struct softrdma_link *link = side->qp->link;

	SIM_TRACE("%s disconnects", side->name);
	side->closing = true;
	pthread_mutex_lock(&link->lock);
	bool up = link->state == SOFTRDMA_LINK_UP;
	softrdma_link_close(link);
	if (up)
		softrdma_io_deadline(link, SOFTRDMA_PEER_TIMEOUT_MS);
	softrdma_io_send(link);
	pthread_mutex_unlock(&link->lock);
}

static void
destroy_qp(struct side *side)
{
	struct softrdma_qp *qp = side->qp;

	SIM_TRACE("%s destroys its queue pair", side->name);
	side->closing = true;
	side->qp = NULL;
	softrdma_qp_delete(qp);
	while (take(side, side->send_cq) > 0 || take(side, side->recv_cq) > 0)
		;
}

static void
deregister(struct side *side)
{
	struct region *region = &side->regions[REGION_FLEETING];

	if (!side->plan.deregisters || region->leaving || !sim_chance(100))
		return;
	SIM_TRACE("%s deregisters a region", side->name);
	region->leaving = true;
	dereg(region);
	SIM_TRACE("%s: a region is gone", side->name);
	oracle_region_gone(side, region);
}

static bool
is_stuck(const struct side *side)
{
	return sim.now_ns - side->progress_ns > PATIENCE_S * SIM_S;
}

static void
work(struct side *side)
{
	const unsigned leave_at = sim_below(side->plan.ops + 1);

	while (!(side->done && side->other->done) && !is_stuck(side) && !side->closing) {
		switch (sim_below(6)) {
		case 0:
			post_some(side);
			break;
		case 1:
		case 2:
			post_recv(side);
			break;
		case 3:
			deregister(side);
			break;
		default:
			collect_or_wait(side);
			break;
		}
		if (side->op_count == side->plan.ops && oracle_is_complete(side))
			side->done = true;
		if (side->op_count < leave_at || sim_chance(900))
			continue;
		if (side->plan.destroys) {
			side->destroyed = true;
			destroy_qp(side);
		} else if (side->plan.leaves_early) {
			disconnect(side);
		}
	}
	/* for ever is only what waits for a receive that is not posted */
	SIM_CHECK(!is_stuck(side) || troubles.bad_recvs,
		"%s waits for ever: %u of %u requests have completed", side->name, side->op_next,
		side->op_count);
	side->done = true;
}

static bool
has_all(const struct side *side)
{
	return oracle_is_complete(side) && (side->srq || side->recv_next == side->recv_count) &&
		side->disconnected > 0;
}

/* whoever has ended a connection is told of the end of all that it has asked for */
static void
drain(struct side *side)
{
	const uint64_t end_ns = sim.now_ns + PATIENCE_S * SIM_S;

	while (!has_all(side)) {
		SIM_CHECK(sim.now_ns < end_ns,
			"%s waits for ever for the end: %u of %u requests, %u of %u receives, %s", side->name,
			side->op_next, side->op_count, side->recv_next, side->recv_count,
			side->disconnected ? "disconnected" : "still connected");
		collect_or_wait(side);
		/* what comes behind the end is flushed as well */
		if (sim_chance(20))
			post_recv(side);
		if (sim_chance(20))
			post_some(side);
	}
}

void
side_run(void *arg)
{
	struct side *side = arg;

	work(side);
	if (side->qp && !side->closing && !sim_chance(100))
		disconnect(side);
	if (side->qp && side->closing)
		drain(side);
	else
		side->destroyed = true;
	if (side->qp)
		destroy_qp(side);
	give_back(side);
	side->ended = true;
	fiber_wake(&world_sides);
}
