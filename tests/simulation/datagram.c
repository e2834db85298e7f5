/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* datagram.c -- applications with queue pairs of unreliable datagrams: their plans, and the lives of their queue pairs */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "addresses.h"
#include "alloc.h"
#include "datagram.h"
#include "fiber.h"
#include "sim.h"
#include "softrdma/engine/lead.h"
#include "softrdma/softrdma.h"
#include "softrdma/verbs/device.h"
#include "udp.h"

/* room for all places of requests and receives (datagram_requests.c) */
#define MEMORY_SIZE ((size_t)DATAGRAM_QPS * (DATAGRAM_OPS + DATAGRAM_RECVS) * (DATAGRAM_PAYLOAD + 256))
#define SGE_MAX 3
#define INLINE_MAX 128
#define CQE_MAX (DATAGRAM_QPS * (DATAGRAM_OPS + DATAGRAM_RECVS))

/* as side.c: a longer wait counts as endless */
#define PATIENCE_S 2000

#define CALM 350
#define TROUBLE 250

struct datagram_app datagram_apps[DATAGRAM_APPS];
struct datagram_plan datagram_plan;

/* --- plans --- */

void
datagram_init(void)
{
	for (unsigned i = 0; i < DATAGRAM_APPS; i++) {
		struct datagram_app *app = &datagram_apps[i];
		void *at = mmap(NULL, 2 * MEMORY_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);

		SIM_CHECK(at != MAP_FAILED, "no memory");
		app->memory = at;
		app->expected = app->memory + MEMORY_SIZE;
		memset(app->memory, 0xee, MEMORY_SIZE);
	}
}

static unsigned
trouble(unsigned per_mille)
{
	return !datagram_plan.is_calm && sim_chance(TROUBLE) ? per_mille : 0;
}

static void
plan_network(bool dense)
{
	const bool calm = datagram_plan.is_calm;
	/* the six queue pairs need fewer ports than there are; of eight, a new one often gets that of an old one */
	struct udp_plan net = { .in_room = 256, .ports = sim_chance(300) ? 8 : 1000 };

	net.delay_ns = (uint64_t)1 << (10 + sim_below(dense ? 6 : 18));
	net.out_room = 1u << sim_below(9);
	net.no_memory = sim_chance(200) ? 50 : 0;
	net.no_fd = sim_chance(200) ? 50 : 0;
	net.lose = trouble(200);
	net.twice = trouble(200);
	net.damage = trouble(200);
	net.stray = trouble(200);
	net.refuse = trouble(100);
	if (!calm && sim_chance(TROUBLE))
		net.in_room = 1 + sim_below(8);
	udp_begin(&net);
}

static void
plan_app(struct datagram_app *app, bool dense)
{
	const bool calm = datagram_plan.is_calm;
	struct datagram_app_plan *plan = &app->plan;
	struct collector_plan *collector = &plan->collector;

	plan->ops = dense ? DATAGRAM_OPS : sim_below(DATAGRAM_OPS + 1);
	plan->recvs = DATAGRAM_RECVS;
	plan->shared_queue = sim_chance(300);
	plan->sq_sig_all = sim_chance(200);
	plan->send_wr_max = 1 + sim_below(sim_chance(500) ? 4 : DATAGRAM_OPS);
	plan->recv_wr_max = calm ? DATAGRAM_RECVS : 1 + sim_below(sim_chance(300) ? 4 : DATAGRAM_RECVS);
	collector->collecting = sim_below(COLLECT_WAYS);
	collector->two_cqs = sim_chance(500);
	collector->pause_ns = (uint64_t)1 << (10 + sim_below(16));
	collector->dense = dense;
	collector->event_loop = sim_chance(400);
	collector->nonblocking = collector->event_loop && sim_chance(800);
	plan->bad = trouble(50);
	plan->bad_qkey = trouble(200);
	plan->moves = trouble(50);
	plan->short_recvs = trouble(200);
	if (!calm && sim_chance(100))
		plan->recvs = sim_below(8);
}

static void
begin_qp(struct datagram_app *app, unsigned number)
{
	struct datagram_qp *qp = &app->qps[number];

	qp->app = app;
	qp->number = number;
	snprintf(qp->name, sizeof(qp->name), "%s%u", app->name, number);
	qp->qp = NULL;
	qp->qp_num = 0;
	qp->leaving = qp->may_fail = qp->has_doubles = false;
	qp->state = IBV_QPS_RESET;
	qp->op_count = qp->op_next = qp->op_left = 0;
	qp->op_plan = app->plan.ops;
	memset(qp->qkeys, 0, sizeof(qp->qkeys));
	memset(&qp->own, 0, sizeof(qp->own));
	qp->own.shortest = SIZE_MAX;
	qp->queue = app->plan.shared_queue ? &app->shared : &qp->own;
}

static void
begin_app(struct datagram_app *app, bool dense)
{
	uint8_t *const memory = app->memory, *const expected = app->expected;

	memset(&app->shared, 0, sizeof(app->shared));
	app->shared.shortest = SIZE_MAX;
	app->shared.is_shared = true;
	app->pd = NULL;
	app->mr = NULL;
	app->srq = NULL;
	memset(app->ahs, 0, sizeof(app->ahs));
	app->lost_completions = app->done = app->ended = false;
	memset(memory, 0xee, MEMORY_SIZE);
	memset(expected, 0xee, MEMORY_SIZE);
	snprintf(app->name, sizeof(app->name), "%c", (char)('a' + (app - datagram_apps)));
	plan_app(app, dense);
	app->collector = (struct collector){ .plan = app->plan.collector,
		.name = app->name,
		.completed = datagram_completion,
		.arg = app,
		.progress_ns = sim.now_ns };
	for (unsigned i = 0; i < DATAGRAM_QPS; i++)
		begin_qp(app, i);
}

void
datagram_begin(bool dense)
{
	datagram_plan.is_calm = sim_chance(CALM);
	datagram_plan.has_sums = sim_chance(600);
	datagram_plan.qkey = sim_chance(600) ? (uint32_t)sim_random() & ~DATAGRAM_OWN_QKEY : 0;
	addresses_have_v6 = sim_chance(800);
	/* all addresses are of one machine, for which the device makes no sums by itself */
	setenv("SOFTRDMA_CRC", datagram_plan.has_sums ? "1" : "0", 1);
	plan_network(dense);
	for (unsigned i = 0; i < DATAGRAM_APPS; i++)
		begin_app(&datagram_apps[i], dense);
}

unsigned
datagram_ops(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < DATAGRAM_APPS; i++) {
		for (unsigned k = 0; k < DATAGRAM_QPS; k++)
			count += datagram_apps[i].qps[k].op_count;
	}
	return count;
}

/* --- lives of queue pairs --- */

static uint32_t
new_qkey(void)
{
	return datagram_plan.qkey ? datagram_plan.qkey : (uint32_t)sim_random() & ~DATAGRAM_OWN_QKEY;
}

/* false: it lacks memory, a descriptor or a thread, and may be tried again */
static bool
modify(struct datagram_qp *qp, enum ibv_qp_state state, int mask, uint32_t qkey)
{
	struct ibv_qp_attr attr = { .qp_state = state, .port_num = 1, .qkey = qkey };
	const int ret = softrdma_ibv_modify_qp(qp->qp, &attr, mask);

	if (ret == 0)
		SIM_TRACE("%s is in state %d", qp->name, state);
	else if (ret == EINVAL && qp->may_fail && state != IBV_QPS_RESET && state != IBV_QPS_ERR)
		qp->state = IBV_QPS_ERR; /* it has failed meanwhile */
	else
		SIM_CHECK(ret == ENOMEM || ret == EMFILE || ret == EAGAIN, "%s does not go to state %d: %s",
			qp->name, state, strerror(ret));
	return ret == 0;
}

static void
move_on(struct datagram_qp *qp, enum ibv_qp_state state, int mask, uint32_t qkey)
{
	if (modify(qp, state, IBV_QP_STATE | mask, qkey))
		qp->state = state;
}

static void
make_qp(struct datagram_qp *qp)
{
	struct datagram_app *app = qp->app;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD,
		.send_cq = app->collector.send_cq,
		.recv_cq = app->collector.recv_cq,
		.srq = app->srq,
		.sq_sig_all = app->plan.sq_sig_all,
		.cap = { .max_send_wr = app->plan.send_wr_max,
			.max_recv_wr = app->plan.recv_wr_max,
			.max_send_sge = SGE_MAX,
			.max_recv_sge = SGE_MAX,
			.max_inline_data = INLINE_MAX },
	};

	MAKE(qp->qp, softrdma_ibv_create_qp(app->pd, &attr));
	SIM_TRACE("%s has number %06x", qp->name, qp->qp->qp_num);
	qp->qp_num = qp->qp->qp_num;
	qp->state = IBV_QPS_RESET;
	datagram_new_life(qp);
}

static enum ibv_qp_state
ask_for_state(struct datagram_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	SIM_CHECK(softrdma_ibv_query_qp(qp->qp, &attr, IBV_QP_STATE, &init) == 0, "a state is not told");
	return attr.qp_state;
}

static void
reset_qp(struct datagram_qp *qp)
{
	SIM_TRACE("%s ends its life", qp->name);
	qp->may_fail = true; /* that is what becomes of it without memory */
	if (qp->state != IBV_QPS_RESET)
		qp->app->lost_completions = true;
	if (!modify(qp, IBV_QPS_RESET, IBV_QP_STATE, 0)) {
		const enum ibv_qp_state now = ask_for_state(qp);
		SIM_CHECK(now == IBV_QPS_ERR || now == qp->state, "%s goes to state %d instead of RESET",
			qp->name, now);
		qp->state = now;
		return;
	}
	qp->state = IBV_QPS_RESET;
	datagram_new_life(qp);
}

static void
destroy_qp(struct datagram_qp *qp)
{
	SIM_TRACE("%s is destroyed", qp->name);
	qp->app->lost_completions = true;
	datagram_check_counters(qp);
	qp->leaving = true;
	SIM_CHECK(softrdma_ibv_destroy_qp(qp->qp) == 0, "a queue pair is not destroyed");
	qp->leaving = false;
	qp->qp = NULL;
	qp->state = IBV_QPS_RESET;
	datagram_new_life(qp);
	/* the number stays for those who still send to it, and it is this queue pair's no longer */
}

/* one step towards RTS */
static void
advance(struct datagram_qp *qp)
{
	if (qp->qp == NULL) {
		make_qp(qp);
		return;
	}
	switch (qp->state) {
	case IBV_QPS_RESET:
		qp->qkeys[0] = qp->qkeys[1] = new_qkey();
		move_on(qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, qp->qkeys[0]);
		break;
	case IBV_QPS_INIT:
		move_on(qp, IBV_QPS_RTR, 0, 0);
		break;
	case IBV_QPS_RTR:
		move_on(qp, IBV_QPS_RTS, IBV_QP_SQ_PSN, 0);
		break;
	case IBV_QPS_ERR:
		/* requests that are posted now are flushed */
		if (sim_chance(300))
			reset_qp(qp);
		break;
	default:
		break;
	}
}

/* while the call runs, either Q_Key may be in use */
static void
change_qkey(struct datagram_qp *qp)
{
	if (qp->qp == NULL || qp->state != IBV_QPS_RTS || datagram_plan.is_calm || datagram_plan.qkey)
		return;
	qp->qkeys[1] = new_qkey();
	if (modify(qp, IBV_QPS_RTS, IBV_QP_QKEY, qp->qkeys[1]))
		qp->qkeys[0] = qp->qkeys[1];
	else
		qp->qkeys[1] = qp->qkeys[0];
}

static void
end_life(struct datagram_qp *qp)
{
	if (qp->qp == NULL || !sim_chance(qp->app->plan.moves))
		return;
	switch (sim_below(3)) {
	case 0:
		reset_qp(qp);
		break;
	case 1:
		destroy_qp(qp);
		break;
	default:
		if (qp->state == IBV_QPS_RESET)
			break;
		SIM_TRACE("%s is told to fail", qp->name);
		qp->may_fail = true;
		move_on(qp, IBV_QPS_ERR, 0, 0);
		break;
	}
}

/* --- an application --- */

static void
make_srq(struct datagram_app *app)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = app->plan.recv_wr_max, .max_sge = SGE_MAX } };

	if (app->plan.shared_queue)
		MAKE(app->srq, softrdma_ibv_create_srq(app->pd, &attr));
}

static void
open_app(struct datagram_app *app)
{
	MAKE(app->pd, softrdma_ibv_alloc_pd(softrdma_context()));
	MAKE(app->mr, softrdma_ibv_reg_mr(app->pd, app->memory, MEMORY_SIZE, IBV_ACCESS_LOCAL_WRITE));
	collector_open(&app->collector, CQE_MAX);
	make_srq(app);
	for (unsigned i = 0; i < DATAGRAM_QPS; i++)
		make_qp(&app->qps[i]);
}

static void
close_app(struct datagram_app *app)
{
	for (unsigned i = 0; i < DATAGRAM_QPS; i++) {
		if (app->qps[i].qp)
			destroy_qp(&app->qps[i]);
	}
	SIM_CHECK(collector_take(&app->collector) == 0, "a completion of %s outlives its queue pair",
		app->name);
	datagram_destroy_ahs(app);
	SIM_CHECK(app->srq == NULL || softrdma_ibv_destroy_srq(app->srq) == 0, "a queue is still in use");
	SIM_CHECK(softrdma_ibv_dereg_mr(app->mr) == 0, "a region is not given back");
	collector_close(&app->collector);
	SIM_CHECK(softrdma_ibv_dealloc_pd(app->pd) == 0, "a protection domain is still in use");
}

/* waits until all applications have come this far */
static void
meet(unsigned *arrived)
{
	++*arrived;
	fiber_wake(arrived);
	while (*arrived < DATAGRAM_APPS)
		fiber_wait(arrived, SIM_NEVER);
}

static struct {
	unsigned ready, settled, checked;
} meetings;

/* all queue pairs are in RTS, with all receives */
static void
get_ready(struct datagram_app *app)
{
	for (unsigned i = 0; i < DATAGRAM_QPS; i++) {
		struct datagram_qp *qp = &app->qps[i];
		while (qp->state != IBV_QPS_RTS)
			advance(qp);
		while (qp->queue->begun < app->plan.recvs)
			datagram_post_recv(qp);
	}
	meet(&meetings.ready);
}

static bool
has_finished(const struct datagram_app *app)
{
	for (unsigned i = 0; i < DATAGRAM_QPS; i++) {
		if (app->qps[i].op_count < app->qps[i].op_plan || !datagram_is_complete(&app->qps[i]))
			return false;
	}
	return true;
}

static bool
all_are_done(void)
{
	for (unsigned i = 0; i < DATAGRAM_APPS; i++) {
		if (!datagram_apps[i].done)
			return false;
	}
	return true;
}

static void
act(struct datagram_app *app)
{
	struct datagram_qp *qp = &app->qps[sim_below(DATAGRAM_QPS)];

	switch (sim_below(10)) {
	case 0:
	case 1:
		datagram_post(qp);
		break;
	case 2:
	case 3:
	case 4:
		datagram_post_recv(qp);
		break;
	case 5:
		advance(qp);
		break;
	case 6:
		if (!app->done)
			end_life(qp);
		break;
	case 7:
		if (qp->qp && sim_chance(100))
			datagram_check_counters(qp);
		if (!app->done && sim_chance(100))
			change_qkey(qp);
		break;
	default:
		collector_take_or_wait(&app->collector, true);
		break;
	}
}

static void
work(struct datagram_app *app)
{
	const uint64_t begin_ns = sim.now_ns;

	while (!all_are_done() || !udp_is_quiet()) {
		act(app);
		if (!app->done && has_finished(app)) {
			SIM_TRACE("%s is done", app->name);
			app->done = true;
		}
		SIM_CHECK(sim.now_ns - begin_ns < PATIENCE_S * SIM_S,
			"%s waits for ever: %u and %u of %u requests have completed", app->name,
			app->qps[0].op_next, app->qps[1].op_next, app->plan.ops);
	}
}

/* what has been read has its result when the link's lock is free */
static void
settle(struct datagram_app *app)
{
	for (unsigned i = 0; i < DATAGRAM_QPS; i++) {
		if (app->qps[i].qp)
			datagram_check_counters(&app->qps[i]);
	}
	while (collector_take_from(&app->collector, app->collector.send_cq) > 0 ||
		collector_take_from(&app->collector, app->collector.recv_cq) > 0)
		;
}

static void
run(void *arg)
{
	struct datagram_app *app = arg;

	open_app(app);
	if (app->plan.collector.dense)
		collector_begin_densely(&app->collector);
	if (datagram_plan.is_calm)
		get_ready(app);
	work(app);
	settle(app);
	/* the check asks what others have received */
	meet(&meetings.settled);
	for (unsigned i = 0; i < DATAGRAM_QPS; i++)
		datagram_check_end(&app->qps[i]);
	datagram_allow_memory(app);
	meet(&meetings.checked);
	close_app(app);
	datagram_check_memory(app);
	app->ended = true;
	fiber_wake(datagram_apps);
}

void
datagram_start(void)
{
	memset(&meetings, 0, sizeof(meetings));
	datagram_oracle_begin();
	for (unsigned i = 0; i < DATAGRAM_APPS; i++)
		fiber_start(datagram_apps[i].name, run, &datagram_apps[i]);
}

void
datagram_wait_for_end(void)
{
	for (unsigned i = 0; i < DATAGRAM_APPS; i++) {
		while (!datagram_apps[i].ended)
			fiber_wait(datagram_apps, SIM_NEVER);
	}
	softrdma_release_gids(); /* their ports are of this seed */
	softrdma_lead_end_all(); /* threads that polled after the progress thread had stopped have left their marks */
	udp_check_end();
}
