/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* worker.c -- the threads that post operations and collect their completions */

#include <inttypes.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "op.h"
#include "worker.h"

#define AT_ONCE 32         /* most completions per poll */
#define DRAIN_TIMEOUT_S 30 /* time for operations in flight after the last post */

/* ---- one connection ---- */

/* true if operation number sequence asks for a completion */
static bool
is_signaled(const struct lane *lane, uint64_t sequence)
{
	return sequence + 1 - lane->signaled >= lane->initiator->load.signal_every ||
		sequence + 1 == lane->limit;
}

static bool
post_one(struct lane *lane, uint64_t since, bool signaled, bool more, char why[static WHY_MAX])
{
	const struct load *load = &lane->initiator->load;
	const struct op_kind *kind = &op_kinds[load->op];
	uint64_t sequence = lane->posted;
	int flags =
		(signaled ? RPMA_F_COMPLETION_ALWAYS : RPMA_F_COMPLETION_ON_ERROR) | (more ? RPMA_F_MORE : 0);

	if (load->verify && kind->fills_target)
		initiator_stamp(lane, sequence);
	if (load->verify && kind->reads_target)
		initiator_clear(lane, sequence);
	lane->since[sequence % load->depth] = since;
	if (kind->post(lane, sequence, flags))
		return why_rpma(why, kind->name);
	lane->posted++;
	if (signaled)
		lane->signaled = sequence + 1;
	return true;
}

/* the number of operations that can be posted together now: a whole batch, or the rest of it at the limit */
static uint64_t
room(const struct lane *lane)
{
	const struct load *load = &lane->initiator->load;
	uint64_t left = lane->limit - lane->posted;
	uint64_t batch = left < load->batch ? left : load->batch;
	if (load->depth - (lane->posted - lane->done) < batch)
		return 0;
	/* an answer does not say that the send has left its queue */
	if (op_kinds[load->op].is_answered && op_sends(load) - (lane->posted - lane->sent) < batch)
		return 0;
	return batch;
}

/* posts as many whole batches as there is room for, and as are due; sets *progress if it posted one */
static bool
fill(struct lane *lane, bool *progress, char why[static WHY_MAX])
{
	for (;;) {
		uint64_t batch = room(lane);
		if (batch == 0)
			return true;
		uint64_t since = now_ns();
		if (lane->initiator->load.rate > 0) {
			uint64_t due = pace_due(&lane->pace, lane->posted);
			if (due > since)
				return true;
			since = due; /* its latency counts from here, however late it is posted */
		}
		*progress = true;
		for (uint64_t i = 0; i < batch; i++)
			if (!post_one(lane, since, is_signaled(lane, lane->posted), i + 1 < batch, why))
				return false;
	}
}

/* retires all operations up to number sequence */
static bool
retire(struct worker *worker, struct lane *lane, uint64_t sequence, uint64_t now, char why[static WHY_MAX])
{
	const struct load *load = &lane->initiator->load;
	if (worker->phase == PHASE_MEASURE) {
		histogram_add(&worker->latency, now - lane->since[sequence % load->depth]);
		worker->ops += sequence + 1 - lane->done;
		worker->end_ns = now;
	}
	for (; lane->done <= sequence; lane->done++) {
		char wrong[WHY_MAX];
		if (load->verify && !initiator_check(lane, lane->done, wrong) && worker->wrong++ == 0)
			why_say(worker->first_wrong, "%s", wrong);
		if (op_kinds[load->op].is_answered && initiator_receive(lane, lane->done + load->depth))
			return why_rpma(why, "posting a receive");
	}
	return true;
}

static bool
complete(struct worker *worker, struct lane *lane, const struct ibv_wc *wc, uint64_t now,
	char why[static WHY_MAX])
{
	const struct op_kind *kind = &op_kinds[lane->initiator->load.op];
	if (wc->status != IBV_WC_SUCCESS)
		return why_say(why, "%s failed: %s", kind->name, ibv_wc_status_str(wc->status));

	/* if there is no such operation, the subtraction wraps to the largest number */
	uint64_t sequence = wc->wr_id - 1;
	bool is_send = kind->is_answered && !(wc->opcode & IBV_WC_RECV);
	if (sequence < (is_send ? lane->sent : lane->done) || sequence >= lane->posted)
		return why_say(why, "%s: a completion of an operation that is not in flight", kind->name);
	if (!is_send)
		return retire(worker, lane, sequence, now, why);
	lane->sent = sequence + 1;
	return true;
}

static bool
collect(struct worker *worker, struct lane *lane, bool *progress, char why[static WHY_MAX])
{
	struct ibv_wc wc[AT_ONCE];
	int got;
	int ret = rpma_cq_get_wc(lane->cq, AT_ONCE, wc, &got);
	if (ret == RPMA_E_NO_COMPLETION)
		return true;
	if (ret)
		return why_rpma(why, "collecting completions");
	*progress = true;
	uint64_t now = now_ns();
	for (int i = 0; i < got; i++)
		if (!complete(worker, lane, &wc[i], now, why))
			return false;
	return true;
}

/* ---- all connections of a thread ---- */

static struct lane *
next_lane(const struct worker *worker, struct lane *lane)
{
	const struct initiator *initiator = worker->run->initiator;
	uint32_t next = lane ? lane->index + initiator->load.threads : worker->first;
	return next < initiator->load.connections ? &initiator->lanes[next] : NULL;
}

/* true if no completion will come for the last operations, and there is room for one that brings it */
static bool
needs_signal(const struct lane *lane)
{
	const struct load *load = &lane->initiator->load;
	return !op_kinds[load->op].is_answered && lane->signaled != lane->posted &&
		lane->posted - lane->done < load->depth;
}

/*
 * Waits for all operations in flight. The last ones of a connection may be unsignaled, and without an answer: then
 * one more signaled operation shows that they have completed.
 */
static bool
drain(struct worker *worker, char why[static WHY_MAX])
{
	uint64_t deadline_ns = now_ns() + (uint64_t)DRAIN_TIMEOUT_S * 1000000000;
	bool is_empty = false;
	while (!is_empty) {
		bool progress = false;
		is_empty = true;
		for (struct lane *lane = next_lane(worker, NULL); lane; lane = next_lane(worker, lane)) {
			if (needs_signal(lane) && !post_one(lane, now_ns(), true, false, why))
				return false;
			if (!collect(worker, lane, &progress, why))
				return false;
			is_empty &= lane->posted == lane->done;
		}
		if (atomic_load(&worker->run->aborted))
			return true;
		/* message(perf): the other side no longer answers -> Its log, and the network. */
		if (now_ns() > deadline_ns)
			return why_say(why, "operations have not completed within %d seconds",
				DRAIN_TIMEOUT_S);
		if (!progress && !is_empty)
			waits_briefly(&worker->waits);
	}
	return true;
}

static bool
is_limit_reached(const struct worker *worker)
{
	for (struct lane *lane = next_lane(worker, NULL); lane; lane = next_lane(worker, lane))
		if (lane->done < lane->limit)
			return false;
	return true;
}

static void
begin_pace(const struct worker *worker, uint64_t now)
{
	const struct load *load = &worker->run->initiator->load;
	for (struct lane *lane = next_lane(worker, NULL); load->rate > 0 && lane;
		lane = next_lane(worker, lane))
		pace_begin(&lane->pace, load->rate, (double)lane->index / load->connections, now,
			lane->posted);
}

static void
begin_measuring(struct worker *worker)
{
	uint64_t count = worker->run->count;
	for (struct lane *lane = next_lane(worker, NULL); lane; lane = next_lane(worker, lane))
		lane->limit = count ? lane->posted + count : UINT64_MAX;
	worker->phase = PHASE_MEASURE;
	worker->begin_ns = now_ns();
	worker->end_ns = worker->begin_ns;
	begin_pace(worker, worker->begin_ns);
	waits_all_ready(&worker->waits); /* nothing is in flight */
	atomic_fetch_add(&worker->run->entered, 1);
}

/*
 * Waits for completions; if none is to come, for the next operation that is due. An operation that is in flight is
 * signaled or answered, and it completes even if the connection breaks, so the phase need not be checked meanwhile.
 * If the target gives up, run_abort() ends the connection.
 */
static void
rest(struct worker *worker)
{
	bool is_paced = worker->run->initiator->load.rate > 0, is_idle = true;
	uint64_t due_ns = WAITS_NO_LIMIT;
	for (struct lane *lane = next_lane(worker, NULL); is_paced && lane; lane = next_lane(worker, lane)) {
		is_idle &= lane->posted == lane->done;
		if (room(lane) > 0 && pace_due(&lane->pace, lane->posted) < due_ns)
			due_ns = pace_due(&lane->pace, lane->posted);
	}
	if (is_paced && is_idle && due_ns != WAITS_NO_LIMIT)
		waits_until(due_ns);
	else
		waits_for_any(&worker->waits, due_ns);
}

/* posts and collects what it can; false after a failure. *is_over: there is nothing more to do. */
static bool
turn(struct worker *worker, bool *is_over, char why[static WHY_MAX])
{
	bool progress = false;
	for (struct lane *lane = next_lane(worker, NULL); lane; lane = next_lane(worker, lane))
		if (!fill(lane, &progress, why) || !collect(worker, lane, &progress, why))
			return false;
	atomic_store_explicit(&worker->shown_ops, worker->ops, memory_order_relaxed);
	*is_over = !progress && is_limit_reached(worker);
	if (!progress && !*is_over)
		rest(worker);
	return true;
}

/*
 * An event loop is told that a connection may have completions: it collects until none is left, and posts what it can.
 * *is_left: it has looked often enough, and there may be more.
 */
static bool
serve(struct worker *worker, struct lane *lane, bool *is_left, char why[static WHY_MAX])
{
	bool progress = true;
	for (int looks = 0; progress && looks < WAITS_LOOKS_MAX; looks++) {
		progress = false;
		bool is_posted = false; /* what is posted completes later, and then there is an event */
		if (!collect(worker, lane, &progress, why) || !fill(lane, &is_posted, why))
			return false;
	}
	*is_left |= progress;
	return true;
}

/* the same as turn(), of an event loop: it looks only at the connections that are ready */
static bool
loop_turn(struct worker *worker, bool *is_over, char why[static WHY_MAX])
{
	const struct initiator *initiator = worker->run->initiator;
	struct waits *waits = &worker->waits;
	bool is_left = false;
	for (uint32_t i = 0; i < waits->ready_count; i++) {
		waits_take(waits, i);
		uint32_t index = worker->first + waits->ready[i] * initiator->load.threads;
		if (!serve(worker, &initiator->lanes[index], &is_left, why))
			return false;
	}
	atomic_store_explicit(&worker->shown_ops, worker->ops, memory_order_relaxed);
	waits->ready_count = 0;
	*is_over = is_limit_reached(worker);
	if (!is_left && !*is_over)
		rest(worker);
	/* operations come due on connections that have no completion */
	if (is_left || initiator->load.rate > 0) {
		waits_take_all(waits);
		waits_all_ready(waits);
	}
	return true;
}

static bool
work(struct worker *worker, char why[static WHY_MAX])
{
	struct run *run = worker->run;
	bool is_over = false;

	while (!is_over && !atomic_load_explicit(&run->aborted, memory_order_relaxed)) {
		enum phase phase = atomic_load_explicit(&run->phase, memory_order_relaxed);
		if (phase != worker->phase) {
			if (!drain(worker, why))
				return false;
			if (worker->phase == PHASE_WARM_UP && phase == PHASE_MEASURE)
				begin_measuring(worker);
			else
				return true;
		}
		/* at least once in each phase, so that a measurement is never empty */
		if (!(worker->waits.is_loop ? loop_turn : turn)(worker, &is_over, why))
			return false;
	}
	return true;
}

static void *
worker_main(void *arg)
{
	struct worker *worker = arg;
	char why[WHY_MAX];
	(void)pthread_setname_np(pthread_self(), "perf-worker");
	const struct load *load = &worker->run->initiator->load;
	/* the kernel may let a thread sleep 50 us longer than it asked for, which is more than an operation takes */
	if (load->rate > 0)
		(void)prctl(PR_SET_TIMERSLACK, 1);
	begin_pace(worker, now_ns());
	bool good = waits_open(&worker->waits, load->wait, load_thread_share(load, worker->first), why);
	for (struct lane *lane = next_lane(worker, NULL); good && lane; lane = next_lane(worker, lane))
		good = waits_add(&worker->waits, lane->cq, lane->cq_fd, why);
	if (!good || !work(worker, why))
		run_abort(worker->run, why);
	waits_close(&worker->waits);
	atomic_fetch_sub(&worker->run->running, 1);
	return NULL;
}

/* ---- all threads ---- */

bool
run_start(struct run *run, struct initiator *initiator, uint64_t count, char why[static WHY_MAX])
{
	const uint32_t threads = initiator->load.threads;
	*run = (struct run){ .initiator = initiator, .count = count };
	run->workers = calloc(threads, sizeof(*run->workers));
	if (run->workers == NULL)
		return why_say(why, "out of memory");
	pthread_mutex_init(&run->why_lock, NULL);

	for (uint32_t i = 0; i < initiator->load.connections; i++)
		initiator->lanes[i].limit = UINT64_MAX; /* warm-up ends with its phase */
	for (; run->started < threads; run->started++) {
		struct worker *worker = &run->workers[run->started];
		worker->run = run;
		worker->first = run->started;
		atomic_fetch_add(&run->running, 1);
		if (pthread_create(&worker->thread, NULL, worker_main, worker)) {
			atomic_fetch_sub(&run->running, 1);
			run_abort(run, "a thread cannot be started");
			(void)run_join(run, why);
			run_free(run);
			return false;
		}
	}
	return true;
}

void
run_enter(struct run *run, enum phase phase)
{
	atomic_store(&run->phase, phase);
}

bool
run_is_over(const struct run *run)
{
	return atomic_load(&run->running) == 0;
}

bool
run_all_entered(const struct run *run)
{
	return atomic_load(&run->phase) != PHASE_MEASURE || atomic_load(&run->entered) == run->started;
}

void
run_abort(struct run *run, const char *why)
{
	pthread_mutex_lock(&run->why_lock);
	bool is_first = !atomic_load(&run->aborted);
	if (is_first)
		why_say(run->why, "%s", why);
	atomic_store(&run->aborted, true);
	pthread_mutex_unlock(&run->why_lock);
	/* a thread may sleep in rpma_cq_wait, which has no timeout */
	if (is_first)
		initiator_disconnect(run->initiator);
}

bool
run_join(struct run *run, char why[static WHY_MAX])
{
	for (uint32_t i = 0; i < run->started; i++)
		pthread_join(run->workers[i].thread, NULL);
	return atomic_load(&run->aborted) ? why_say(why, "%s", run->why) : true;
}

uint64_t
run_progress(const struct run *run)
{
	uint64_t ops = 0;
	for (uint32_t i = 0; i < run->started; i++)
		ops += atomic_load_explicit(&run->workers[i].shown_ops, memory_order_relaxed);
	return ops;
}

void
run_free(struct run *run)
{
	pthread_mutex_destroy(&run->why_lock);
	free(run->workers);
	run->workers = NULL;
}
