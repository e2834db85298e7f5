/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* side.c -- one of the two applications: its memory, its requests, and their results */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc.h"
#include "fiber.h"
#include "net.h"
#include "oracle.h"
#include "requests.h"
#include "side.h"
#include "sim.h"
#include "softrdma/cm/cm.h"
#include "softrdma/core/memory.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/lead.h"
#include "softrdma/engine/reader.h"
#include "softrdma/engine/threads.h"
#include "softrdma/verbs/device.h"
#include "world.h"

#define PLAIN_SIZE (PLAIN_SMALL + BIG_SIZE + GAP)
#define LOCAL_SIZE (LOCAL_SMALL + BIGS_MAX * (BIG_SIZE + GAP))

#define SEND_SGE_MAX PIECES_MAX
#define CQE_MAX (OPS_MAX + RECVS_MAX)

/* longer than any flush, stall or timer; a longer wait counts as endless */
#define PATIENCE_S 2000

#define ALL_RIGHTS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		IBV_ACCESS_REMOTE_ATOMIC | SOFTRDMA_ACCESS_FLUSH_GLOBAL)

/* no offset is a multiple of a page or a cache line; all are multiples of 8 */
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

/* what one side does lets the other one go on */
static void
completed(void *arg, const struct ibv_wc *wc)
{
	struct side *side = arg;

	oracle_completion(side, wc);
	side->other->collector.progress_ns = sim.now_ns;
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
		.collector = { .plan = plan->collector,
			.name = side->name,
			.completed = completed,
			.arg = side,
			.progress_ns = sim.now_ns },
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

/* --- objects of the device --- */

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
		.send_cq = side->collector.send_cq,
		.recv_cq = side->collector.recv_cq,
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

	MAKE(side->qp, softrdma_qp_new(side->pd, &attr, &softrdma_managed_qp, 0));
	side->qp_num = side->qp->qp.qp_num;
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
	collector_open(&side->collector, CQE_MAX);
	if (side->plan.shared_queue)
		make_srq(side);
	make_qp(side);
	/* the first image of the memory that this side's requests change */
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
side_connect(struct side *side, int fd, bool active, bool records)
{
	static const struct softrdma_link_ops ops = { on_ready, on_disconnected };
	struct softrdma_link *link = side->qp->link;
	const struct side *other = side->other;

	pthread_mutex_lock(&link->lock);
	softrdma_link_start(link, other->qp->link->seq, other->plan.rd_atom_max, side->plan.rd_atom_max);
	softrdma_connection_of(link)->rnr_retry = (uint8_t)other->plan.rnr_retry;
	link->ready_due = active;
	link->awaits_ready = !active;
	link->qp->state = IBV_QPS_RTS;
	link->ops = &ops;
	link->ops_arg = side;
	SIM_CHECK(softrdma_connection_attach(link, fd, NULL, records) == 0, "the connection cannot be made");
	if (active)
		softrdma_connection_send(link);
	pthread_mutex_unlock(&link->lock);
}

static void
give_back(struct side *side)
{
	for (enum region_id id = 0; id < REGION_COUNT; id++)
		dereg(&side->regions[id]);
	SIM_CHECK(side->srq == NULL || softrdma_ibv_destroy_srq(side->srq) == 0, "a queue is still in use");
	collector_close(&side->collector);
	SIM_CHECK(softrdma_ibv_dealloc_pd(side->pd) == 0 && softrdma_ibv_dealloc_pd(side->foreign_pd) == 0,
		"a protection domain is still in use");
}

bool __real_softrdma_reader_hand_over(struct softrdma_connection *conn, struct softrdma_lead *lead);
bool __wrap_softrdma_reader_hand_over(struct softrdma_connection *conn, struct softrdma_lead *lead);

bool
__wrap_softrdma_reader_hand_over(struct softrdma_connection *conn, struct softrdma_lead *lead)
{
	const bool ret = __real_softrdma_reader_hand_over(conn, lead);

	const struct side *side = conn->link.ops_arg; /* NULL: a queue pair of datagrams */

	if (ret)
		SIM_TRACE("%s: the application leads", side ? side->name : "datagrams");
	return ret;
}

/* --- the end --- */

/* does the same as rdma_disconnect() */
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
		softrdma_connection_deadline(link, SOFTRDMA_PEER_TIMEOUT_MS);
	softrdma_connection_send(link);
	pthread_mutex_unlock(&link->lock);
}

static void
destroy_qp(struct side *side)
{
	struct softrdma_qp *qp = side->qp;
	struct collector *collector = &side->collector;

	SIM_TRACE("%s destroys its queue pair", side->name);
	side->closing = true;
	side->qp = NULL;
	while (collector_take_from(collector, collector->send_cq) > 0 ||
		collector_take_from(collector, collector->recv_cq) > 0)
		;
	softrdma_qp_delete(qp);
	/* what has completed meanwhile has gone with it */
	SIM_CHECK(collector_take_from(collector, collector->send_cq) == 0 &&
			collector_take_from(collector, collector->recv_cq) == 0,
		"a completion of %s outlives its queue pair", side->name);
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
	return sim.now_ns - side->collector.progress_ns > PATIENCE_S * SIM_S;
}

static void
work(struct side *side)
{
	const unsigned leave_at = sim_below(side->plan.ops + 1);

	while (!(side->done && side->other->done) && !is_stuck(side) && !side->closing) {
		switch (sim_below(6)) {
		case 0:
			requests_post(side);
			break;
		case 1:
		case 2:
			requests_post_recv(side);
			break;
		case 3:
			deregister(side);
			break;
		default:
			collector_take_or_wait(&side->collector, side->qp != NULL);
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
	/* only a message without a receive may wait for ever */
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

/* a side that has ended its connection must get the completions of all its requests */
static void
drain(struct side *side)
{
	const uint64_t end_ns = sim.now_ns + PATIENCE_S * SIM_S;

	while (!has_all(side)) {
		SIM_CHECK(sim.now_ns < end_ns,
			"%s waits for ever for the end: %u of %u requests, %u of %u receives, %s", side->name,
			side->op_next, side->op_count, side->recv_next, side->recv_count,
			side->disconnected ? "disconnected" : "still connected");
		collector_take_or_wait(&side->collector, side->qp != NULL);
		/* requests posted after the end are flushed as well */
		if (sim_chance(20))
			requests_post_recv(side);
		if (sim_chance(20))
			requests_post(side);
	}
}

void
side_run(void *arg)
{
	struct side *side = arg;

	if (side->plan.collector.dense)
		collector_begin_densely(&side->collector);
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
