/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* datagram_requests.c -- makes random sends of datagrams and receives, valid and invalid ones, and posts them */

#include <errno.h>
#include <string.h>

#include "alloc.h"
#include "datagram.h"
#include "pattern.h"
#include "sim.h"
#include "softrdma/softrdma.h"
#include "softrdma/verbs/gid.h"

#define BATCH_MAX 4
#define PIECES_MAX 3
#define INLINE_MAX 128
#define OTHER_KEY 0x10000u
#define GAP 64
#define OP_STEP (DATAGRAM_PAYLOAD + GAP)
#define RECV_STEP (DATAGRAM_GRH + DATAGRAM_PAYLOAD + GAP)
#define RECVS_AT ((size_t)DATAGRAM_QPS * DATAGRAM_OPS * OP_STEP)
#define TARGET_TRIES 8

void
datagram_fill(const struct datagram_qp *qp, const struct datagram_op *op, uint8_t *to, size_t len)
{
	uint64_t id = ((uint64_t)(qp->app - datagram_apps) * DATAGRAM_QPS + qp->number) * DATAGRAM_OPS +
		(uint64_t)(op - qp->ops);

	pattern_fill(to, len, sim.seed ^ (id + 1) << 48, 0);
}

static void
scribble(struct datagram_app *app, const struct datagram_op *op)
{
	memset(op->local, 0xdd, op->len);
	memset(app->expected + (op->local - app->memory), 0xdd, op->len);
}

/* --- address handles --- */

static bool
is_v4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return gid->raw[0] == 0xfc || memcmp(gid->raw, mapped, sizeof(mapped)) == 0;
}

static void
get_gid(unsigned index, union ibv_gid *gid)
{
	while (softrdma_ibv_query_gid(NULL, 1, (int)index, gid) != 0)
		SIM_CHECK(errno == EMFILE, "a GID is missing: %s", strerror(errno));
}

static void
make_ah(struct datagram_app *app, struct datagram_ah *ah)
{
	const unsigned index = sim_below(softrdma_gid_count());
	struct ibv_ah_attr *attr = &ah->attr;

	*attr = (struct ibv_ah_attr){ .is_global = 1, .port_num = 1 };
	get_gid(index, &ah->from);
	do {
		get_gid(sim_below(softrdma_gid_count()), &attr->grh.dgid);
	} while (is_v4(&ah->from) != is_v4(&attr->grh.dgid));
	attr->grh.sgid_index = (uint8_t)index;
	attr->grh.flow_label = sim_below(1 << 20);
	attr->grh.traffic_class = (uint8_t)sim_below(256);
	attr->grh.hop_limit = (uint8_t)(sim_chance(300) ? 0 : sim_below(256));
	MAKE(ah->ah, softrdma_ibv_create_ah(app->pd, attr));
}

static void
destroy_ah(struct datagram_ah *ah)
{
	if (ah->ah)
		SIM_CHECK(softrdma_ibv_destroy_ah(ah->ah) == 0, "an address handle is not given back");
	ah->ah = NULL;
}

void
datagram_destroy_ahs(struct datagram_app *app)
{
	for (unsigned i = 0; i < DATAGRAM_AHS; i++)
		destroy_ah(&app->ahs[i]);
}

/* gives a handle that the application has, or a new one */
static unsigned
choose_ah(struct datagram_app *app, unsigned i)
{
	struct datagram_ah *ah = &app->ahs[i % DATAGRAM_AHS];

	if (ah->ah == NULL)
		make_ah(app, ah);
	return i % DATAGRAM_AHS;
}

/* --- sends --- */

static size_t
random_len(size_t max)
{
	if (sim_chance(100))
		return 0;
	if (sim_chance(100))
		return max;
	return 1 + sim_below((uint32_t)(sim_chance(600) ? 64 : max));
}

/* NULL: each queue pair already gets as many as it has receives */
static struct datagram_qp *
choose_target(void)
{
	for (unsigned try = 0; try < TARGET_TRIES; try++) {
		struct datagram_app *app = &datagram_apps[sim_below(DATAGRAM_APPS)];
		struct datagram_qp *qp = &app->qps[sim_below(DATAGRAM_QPS)];
		if (!datagram_plan.is_calm)
			return qp;
		if (qp->queue->promised < qp->queue->posted) {
			qp->queue->promised++;
			return qp;
		}
	}
	return NULL;
}

static void
spoil_destination(const struct datagram_app *app, struct datagram_op *op)
{
	if (!sim_chance(app->plan.bad_qkey))
		return;
	switch (sim_below(4)) {
	case 0: /* another number of the same port */
		op->to_qp ^= 1u << sim_below(8);
		break;
	case 1: /* another port, which hardly anybody has */
		op->to_qp ^= 1u << (8 + sim_below(16));
		break;
	case 2:
		op->qkey ^= 1u << sim_below(31);
		break;
	default:
		op->qkey |= DATAGRAM_OWN_QKEY;
		break;
	}
	if (op->to_qp < 0x100)
		op->to_qp |= 0x100;
}

/* makes one mistake */
static void
spoil(const struct datagram_app *app, struct datagram_op *op)
{
	if (!sim_chance(app->plan.bad))
		return;
	if (sim_chance(500)) {
		op->len = DATAGRAM_PAYLOAD + 1 + sim_below(GAP);
		op->verdict = IBV_WC_LOC_LEN_ERR;
	} else if (op->len > 0) {
		op->lkey += OTHER_KEY;
		op->verdict = IBV_WC_LOC_PROT_ERR;
	}
}

/* makes the next request without posting it; false: each queue pair already gets as many as it has receives */
static bool
make_op(struct datagram_qp *qp, unsigned i, const struct datagram_ah *ah)
{
	struct datagram_app *app = qp->app;
	struct datagram_op *op = &qp->ops[i];
	const struct datagram_qp *target = choose_target();

	if (target == NULL)
		return false;
	*op = (struct datagram_op){
		.len = random_len(DATAGRAM_PAYLOAD),
		.local = app->memory + ((size_t)qp->number * DATAGRAM_OPS + i) * OP_STEP,
		.lkey = app->mr->lkey,
		.pieces = 1 + sim_below(PIECES_MAX),
		.to_qp = target->qp_num,
		.qkey = target->qkeys[0],
		.from = ah->from,
		.to = ah->attr.grh.dgid,
		.flow_label = ah->attr.grh.flow_label,
		.traffic_class = ah->attr.grh.traffic_class,
		.hop_limit = ah->attr.grh.hop_limit ? ah->attr.grh.hop_limit : 64,
	};
	op->signaled = i + 1 == qp->op_plan || app->plan.sq_sig_all || sim_chance(600);
	op->solicited = sim_chance(300);
	op->has_imm = sim_chance(400);
	op->imm = op->has_imm ? (uint32_t)sim_random() : 0;
	spoil_destination(app, op);
	spoil(app, op);
	op->is_inline = op->len <= INLINE_MAX && op->verdict == IBV_WC_SUCCESS && sim_chance(300);
	if (op->len <= DATAGRAM_PAYLOAD) {
		datagram_fill(qp, op, op->local, op->len);
		datagram_fill(qp, op, app->expected + (op->local - app->memory), op->len);
	}
	return true;
}

/* its SGEs in local memory; the last one gets the rest */
static int
make_pieces(uint8_t *local, size_t left, uint32_t lkey, unsigned count,
	struct ibv_sge sges[static PIECES_MAX])
{
	uint64_t at = (uintptr_t)local;

	for (unsigned i = 0; i < count; i++) {
		size_t len = i + 1 == count ? left : sim_below((uint32_t)left + 1);

		sges[i] = (struct ibv_sge){ .addr = at, .length = (uint32_t)len, .lkey = lkey };
		at += len;
		left -= len;
	}
	return (int)count;
}

static uint64_t
wr_id_of(const struct datagram_qp *qp, const struct datagram_op *op)
{
	return (uint64_t)qp->number << DATAGRAM_WR_QP_SHIFT | (uint64_t)(op - qp->ops);
}

static unsigned
flags_of(const struct datagram_op *op)
{
	return (op->signaled ? IBV_SEND_SIGNALED : 0u) | (op->solicited ? IBV_SEND_SOLICITED : 0u) |
		(op->is_inline ? IBV_SEND_INLINE : 0u);
}

/*
 * Requests count as posted from before the call, because they may leave, and even complete, before the call returns.
 * unpost() takes back those that the call did not accept.
 */
static void
posted(struct datagram_qp *qp)
{
	unsigned i = qp->op_count++;
	const struct datagram_op *op = &qp->ops[i];

	if (op->verdict != IBV_WC_SUCCESS)
		qp->may_fail = true;
	SIM_TRACE("%s: request %u of %zu bytes to %06x%s%s%s%s", qp->name, i, op->len, op->to_qp,
		op->has_imm ? ", with imm" : "", op->signaled ? "" : ", unsignaled",
		op->is_inline ? ", inline" : "", op->verdict == IBV_WC_SUCCESS ? "" : ", wrong on purpose");
}

static void
unpost(struct datagram_qp *qp, unsigned count, int ret)
{
	SIM_CHECK(qp->op_next + count <= qp->op_count && qp->op_left + count <= qp->op_count,
		"a request of %s leaves or completes that was not accepted", qp->name);
	if (ret == ENOMEM)
		SIM_CHECK(qp->op_count - qp->op_next > qp->app->plan.send_wr_max,
			"a queue of %u has no room for %u", qp->app->plan.send_wr_max,
			qp->op_count - qp->op_next);
	else
		SIM_CHECK(ret == EINVAL && qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_ERR,
			"a request of %s is not taken: %s", qp->name, strerror(ret));
	qp->op_count -= count;
	SIM_TRACE("%s: %u requests are not taken", qp->name, count);
}

/* the bytes of inline data belong to the application again when the call has returned */
static void
reuse_inline(struct datagram_qp *qp, unsigned first)
{
	for (unsigned i = first; i < qp->op_count; i++) {
		if (qp->ops[i].is_inline)
			scribble(qp->app, &qp->ops[i]);
	}
}

/* posts with ibv_post_send, which accepts as many as fit */
static void
post_list(struct datagram_qp *qp, unsigned count, unsigned ah)
{
	struct ibv_send_wr wrs[BATCH_MAX], *bad = NULL;
	struct ibv_sge sges[BATCH_MAX][PIECES_MAX];
	const unsigned first = qp->op_count;

	for (unsigned i = 0; i < count; i++) {
		const struct datagram_op *op = &qp->ops[first + i];
		wrs[i] = (struct ibv_send_wr){
			.wr_id = wr_id_of(qp, op),
			.next = i + 1 < count ? &wrs[i + 1] : NULL,
			.sg_list = sges[i],
			.num_sge = make_pieces(op->local, op->len, op->lkey, op->pieces, sges[i]),
			.opcode = op->has_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
			.send_flags = flags_of(op),
			.imm_data = op->imm,
		};
		wrs[i].wr.ud.ah = qp->app->ahs[ah].ah;
		wrs[i].wr.ud.remote_qpn = op->to_qp;
		wrs[i].wr.ud.remote_qkey = op->qkey;
		posted(qp);
	}
	int ret = ibv_post_send(qp->qp, wrs, &bad);
	if (ret)
		unpost(qp, count - (unsigned)(bad - wrs), ret);
}

static void
name_op(const struct datagram_qp *qp, struct ibv_qp_ex *ex, const struct datagram_op *op, struct ibv_ah *ah)
{
	struct ibv_sge sges[PIECES_MAX];
	struct ibv_data_buf bufs[PIECES_MAX];
	const int count = make_pieces(op->local, op->len, op->lkey, op->pieces, sges);

	ex->wr_id = wr_id_of(qp, op);
	ex->wr_flags = flags_of(op) & ~(unsigned)IBV_SEND_INLINE;
	if (op->has_imm)
		ex->wr_send_imm(ex, op->imm);
	else
		ex->wr_send(ex);
	ex->wr_set_ud_addr(ex, ah, op->to_qp, op->qkey);
	for (int i = 0; i < count; i++)
		bufs[i] = (struct ibv_data_buf){ (void *)(uintptr_t)sges[i].addr, sges[i].length };
	if (op->is_inline)
		ex->wr_set_inline_data_list(ex, (size_t)count, bufs);
	else
		ex->wr_set_sge_list(ex, (size_t)count, sges);
}

/* posts with ibv_wr_*, which accepts all or none */
static void
post_batch(struct datagram_qp *qp, unsigned count, unsigned ah)
{
	struct ibv_qp_ex *ex = softrdma_ibv_qp_to_qp_ex(qp->qp);
	const unsigned first = qp->op_count;

	ex->wr_start(ex);
	for (unsigned i = 0; i < count; i++) {
		name_op(qp, ex, &qp->ops[first + i], qp->app->ahs[ah].ah);
		posted(qp);
	}
	int ret = ex->wr_complete(ex);
	if (ret)
		unpost(qp, count, ret);
}

void
datagram_post(struct datagram_qp *qp)
{
	struct datagram_app *app = qp->app;
	const unsigned left = qp->op_plan - qp->op_count, first = qp->op_count;
	unsigned most = 1 + sim_below(BATCH_MAX), count = 0;

	if (left == 0 || qp->qp == NULL ||
		(qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_ERR && !sim_chance(50)))
		return;
	most = most < left ? most : left;
	most = most < app->plan.send_wr_max ? most : app->plan.send_wr_max;
	const unsigned ah = choose_ah(app, sim_below(DATAGRAM_AHS));
	while (count < most && make_op(qp, first + count, &app->ahs[ah]))
		count++;
	if (count == 0) {
		qp->op_plan = qp->op_count; /* all receives are promised */
		return;
	}
	if (sim_chance(500))
		post_list(qp, count, ah);
	else
		post_batch(qp, count, ah);
	reuse_inline(qp, first);
	if (sim_chance(300))
		destroy_ah(&app->ahs[ah]);
}

/* --- receives --- */

static void
fail_later(struct datagram_qp *qp)
{
	qp->queue->has_bad = true;
	if (!qp->queue->is_shared)
		qp->may_fail = true;
	for (unsigned i = 0; qp->queue->is_shared && i < DATAGRAM_QPS; i++)
		qp->app->qps[i].may_fail = true;
}

void
datagram_post_recv(struct datagram_qp *qp)
{
	struct datagram_app *app = qp->app;
	struct datagram_queue *queue = qp->queue;
	struct datagram_recv *recv = &queue->recvs[queue->begun];
	struct ibv_sge sges[PIECES_MAX];
	struct ibv_recv_wr *bad = NULL;
	const unsigned i = queue->begun;

	if (i == app->plan.recvs || (!app->srq && (qp->qp == NULL || qp->state == IBV_QPS_RESET)))
		return;
	*recv = (struct datagram_recv){ .len = DATAGRAM_GRH + DATAGRAM_PAYLOAD,
		.local = app->memory + RECVS_AT +
			((size_t)(app->srq ? 0 : qp->number) * DATAGRAM_RECVS + i) * RECV_STEP };
	if (sim_chance(app->plan.short_recvs))
		recv->len = sim_below(DATAGRAM_GRH + 64);
	recv->bad = sim_chance(app->plan.bad / 2);
	if (recv->bad)
		fail_later(qp);
	struct ibv_recv_wr wr = {
		.wr_id = DATAGRAM_WR_RECV | (app->srq ? DATAGRAM_WR_SHARED : 0) |
			(uint64_t)qp->number << DATAGRAM_WR_QP_SHIFT | i,
		.sg_list = sges,
		.num_sge = make_pieces(recv->local, recv->len, app->mr->lkey + (recv->bad ? OTHER_KEY : 0),
			1 + sim_below(PIECES_MAX), sges),
	};
	queue->begun++; /* it may be taken while it is being posted */
	const size_t shortest = queue->shortest;
	if (recv->len < shortest)
		queue->shortest = recv->len;
	int ret = app->srq ? ibv_post_srq_recv(app->srq, &wr, &bad) : ibv_post_recv(qp->qp, &wr, &bad);
	if (ret == 0) {
		queue->posted = queue->begun;
		SIM_TRACE("%s: receive %u of %zu bytes", qp->name, i, recv->len);
		return;
	}
	queue->begun--;
	SIM_CHECK(ret == ENOMEM && (app->srq || i - queue->next >= app->plan.recv_wr_max),
		"a receive of %s is not taken: %s", qp->name, strerror(ret));
}
