/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * operations.c -- what is under way on the connection
 *
 * No thread is there only to collect completions. Of the threads that wait for their operations, one waits for
 * the completion queue and collects for all. When its own operation is done, the next one does that. So a
 * single request costs no switch between threads.
 */

#include <assert.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <time.h>

#include "disk_internal.h"

#define COLLECT_MAX 16
/* a wait for completions ends at least this often, to see whether the link still wants it */
#define COLLECT_SLICE_MS 1000

bool
op_init(struct op *op)
{
	*op = (struct op){ .requests = 0 };
	atomic_init(&op->state, OP_LOST);
	return sem_init(&op->wake, 0, 0) == 0;
}

void
op_fini(struct op *op)
{
	assert(atomic_load(&op->state) != OP_POSTED);
	(void)sem_destroy(&op->wake);
}

/* --- posting --- */

static bool
may_post(const struct disk *d)
{
	return d->state == LINK_UP || d->state == LINK_REPLAYING;
}

static void
enter(struct disk *d, struct op *op)
{
	atomic_store(&op->state, OP_POSTED);
	op->requests = d->unsignaled;
	d->unsignaled = 0;
	op->prev = NULL;
	op->next = d->posted;
	if (op->next)
		op->next->prev = op;
	d->posted = op;
}

/* the operation has ended, and its owner may go away: setting the state is the last access to it */
static void
leave(struct disk *d, struct op *op, enum op_state state)
{
	if (op->prev)
		op->prev->next = op->next;
	else
		d->posted = op->next;
	if (op->next)
		op->next->prev = op->prev;
	d->requests -= op->requests;
	(void)sem_post(&op->wake);
	atomic_store_explicit(&op->state, state, memory_order_release);
}

/* takes the result of posting, after which op completes */
static void
posted(struct disk *d, struct op *op, int ret, uint32_t requests)
{
	char why[WHY_MAX];

	if (ret == 0) {
		d->requests += requests;
		d->unsignaled += requests;
		if (op)
			enter(d, op);
		return;
	}
	if (op)
		atomic_store(&op->state, OP_LOST);
	why_rpma(why, "an operation cannot be posted");
	/* the usual reason is a queue pair in error, whose connection has ended */
	if (ret == RPMA_E_PROVIDER)
		link_break(d, why);
	else
		link_fail(d, why);
}

void
op_post_read(struct disk *d, struct op *op, size_t at, uint64_t offset, size_t len)
{
	if (!may_post(d)) {
		atomic_store(&op->state, OP_LOST);
		return;
	}
	posted(d, op,
		rpma_read(d->link.conn, d->read_mr, at, d->link.memory, offset, len, RPMA_F_COMPLETION_ALWAYS,
			op),
		1);
}

static int
write_entry(struct disk *d, const struct journal_entry *entry, int flags, const struct op *op)
{
	return rpma_write(d->link.conn, d->link.memory, entry->offset,
		entry->zeros ? d->zero_mr : d->journal_mr, entry->zeros ? 0 : entry->at, entry->len, flags,
		op);
}

void
op_post_write(struct disk *d, struct op *op, const struct journal_entry *entry)
{
	if (!may_post(d)) {
		if (op)
			atomic_store(&op->state, OP_LOST);
		return;
	}
	int ret = op ? write_entry(d, entry, RPMA_F_COMPLETION_ALWAYS, op)
		     : write_entry(d, entry, RPMA_F_COMPLETION_ON_ERROR | RPMA_F_MORE, NULL);
	/* to leave alone needs no memory */
	if (ret == RPMA_E_NOMEM)
		ret = write_entry(d, entry, RPMA_F_COMPLETION_ON_ERROR, NULL);
	posted(d, op, ret, 1);
}

bool
op_post_write_back(struct disk *d, const struct journal_entry *entry)
{
	assert(d->state == LINK_UP);
	int ret = write_entry(d, entry, RPMA_F_COMPLETION_ALWAYS, NULL);
	if (ret) {
		posted(d, NULL, ret, 0);
		return false;
	}
	d->written_back++;
	d->requests++;
	/* no thread may ever wait for this one, so this one takes the completions of those before */
	if (d->written_back >= WRITTEN_BACK_MAX && !d->collecting)
		(void)ops_take(d);
	return d->state == LINK_UP;
}

void
op_post_flush(struct disk *d, struct op *op, const struct ranges *ranges)
{
	const enum rpma_flush_type type = d->known.persistence == KEEPER_VOLATILE
		? RPMA_FLUSH_TYPE_VISIBILITY
		: RPMA_FLUSH_TYPE_PERSISTENT;
	const uint64_t most = d->is_soft ? UINT64_MAX : FLUSH_MAX;
	int ret = 0;

	assert(ranges->count > 0);
	atomic_store(&op->state, OP_LOST);
	op->is_flush = true;
	op->flushes = d->journal.end;
	for (int i = 0; may_post(d) && i < ranges->count; i++) {
		for (uint64_t at = ranges->at[i].begin, end = ranges->at[i].end; ret == 0 && at < end;) {
			const uint64_t len = end - at < most ? end - at : most;
			const bool is_last = i == ranges->count - 1 && len == end - at;
			/* flushes are executed in order, so the last one completes for all */
			ret = rpma_flush(d->link.conn, d->link.memory, at, len, type,
				is_last ? RPMA_F_COMPLETION_ALWAYS : RPMA_F_COMPLETION_ON_ERROR, op);
			at += len;
			if (ret || is_last)
				posted(d, op, ret, 0);
		}
	}
}

/* --- completions --- */

/* true if the keeper's device says that it cannot do this: no other connection can change that */
static bool
is_for_ever(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_REM_OP_ERR: /* a flush that failed, or a file without room for a page */
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_QP_OP_ERR:
		return true;
	default:
		/* among them REM_ACCESS_ERR: the access was revoked, and the keeper says why when it is asked */
		return false;
	}
}

/* the connection cannot be used any longer */
static void
handle_failure(struct disk *d, enum ibv_wc_status status)
{
	char why[WHY_MAX];

	d->has_failed = true;
	if (status == IBV_WC_WR_FLUSH_ERR) {
		link_break(d, "the connection was lost");
		return;
	}
	why_say(why, "an operation failed: %s", ibv_wc_status_str(status));
	if (is_for_ever(status))
		link_fail(d, why);
	else
		link_break(d, why);
}

static void
handle(struct disk *d, const struct ibv_wc *wc)
{
	struct op *op = (struct op *)(uintptr_t)wc->wr_id;

	if (wc->status != IBV_WC_SUCCESS) {
		handle_failure(d, wc->status);
		return;
	}
	if (op) {
		assert(atomic_load(&op->state) == OP_POSTED);
		/*
		 * Here, and not by the thread that flushes: before that one wakes, the connection may be lost and made
		 * again. A replay of durable entries would put old data in the place of newer ones for a moment.
		 */
		journal_drop(&d->journal, op->flushes);
		d->inherits = d->inherits && !op->is_flush;
		leave(d, op, OP_DONE);
	} else {
		/* others without an owner complete only with an error */
		assert(d->written_back > 0);
		d->written_back--;
		d->requests--;
	}
	d->progress_ms = disk_now_ms();
	pthread_cond_broadcast(&d->room);
}

bool
ops_take(struct disk *d)
{
	struct ibv_wc wc[COLLECT_MAX];
	bool is_done = false;
	char why[WHY_MAX];

	/* bounded: the lock keeps others from posting, so at most one comes for each request of the send queue */
	while (!d->has_failed) {
		int count = 0;
		int ret = rpma_cq_get_wc(d->cq, COLLECT_MAX, wc, &count);
		if (ret == RPMA_E_NO_COMPLETION)
			break;
		if (ret) {
			why_rpma(why, "collecting completions");
			d->has_failed = true;
			link_break(d, why);
			break;
		}
		for (int i = 0; i < count && !d->has_failed; i++) {
			handle(d, &wc[i]);
			is_done = is_done || !d->has_failed;
		}
	}
	return is_done;
}

void
ops_collect(struct disk *d, int64_t until_ms)
{
	const int64_t left_ms = until_ms - disk_now_ms();
	struct rpma_cq *cq = d->cq;
	char why[WHY_MAX];

	assert(may_post(d) && !d->collecting);
	d->collecting = true;
	pthread_mutex_unlock(&d->lock);
	int ret = rpma_cq_wait_timed(cq,
		left_ms < 0                          ? 0
			: left_ms < COLLECT_SLICE_MS ? (int)left_ms
						     : COLLECT_SLICE_MS);
	const bool good = ret == 0 || ret == RPMA_E_NO_COMPLETION;
	if (!good)
		why_rpma(why, "waiting for completions");
	pthread_mutex_lock(&d->lock);
	/* also if the link is BROKEN: it is not closed before this thread has done */
	(void)ops_take(d);
	if (!good)
		link_break(d, why);
	d->collecting = false;
	/* the thread of the link may wait for this, to delete the connection */
	pthread_cond_signal(&d->collected);
}

/* --- waiting --- */

/* lets another owner collect; the newest, whose operation is the last to complete */
static void
hand_over(struct disk *d)
{
	for (struct op *op = d->posted; op; op = op->next) {
		if (op->has_waiter) {
			(void)sem_post(&op->wake);
			return;
		}
	}
}

static bool
is_posted(struct op *op)
{
	return atomic_load_explicit(&op->state, memory_order_acquire) == OP_POSTED;
}

/* sleeps without the lock, until a time of disk_now_ms; INT64_MAX: without a limit */
static void
sleep_until(struct op *op, int64_t until_ms)
{
	const struct timespec until = { .tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000 };

	if (until_ms == INT64_MAX)
		(void)sem_wait(&op->wake);
	else
		(void)sem_clockwait(&op->wake, CLOCK_MONOTONIC, &until);
}

void
op_wait_and_unlock(struct disk *d, struct op *op, int64_t deadline_ms)
{
	op->has_waiter = true;
	while (is_posted(op)) {
		int64_t until_ms = disk_extend(d, deadline_ms);
		if (disk_now_ms() >= until_ms) {
			/* what is in the queue was in time, and only this machine is late to look */
			if (may_post(d) && ops_take(d))
				continue;
			link_break(d, "the keeper does not answer in time");
			/* the thread of the link ends the connection, and with it the operation */
			until_ms = INT64_MAX;
		}
		if (may_post(d) && !d->collecting) {
			ops_collect(d, until_ms);
			continue;
		}
		pthread_mutex_unlock(&d->lock);
		sleep_until(op, until_ms);
		if (!is_posted(op))
			return;
		pthread_mutex_lock(&d->lock);
	}
	if (may_post(d) && !d->collecting)
		hand_over(d);
	pthread_mutex_unlock(&d->lock);
}

void
ops_lost(struct disk *d)
{
	assert(!may_post(d) && !d->collecting);
	while (d->posted) {
		struct op *op = d->posted;
		leave(d, op, OP_LOST);
	}
	d->owes = d->owes || d->written_back > 0;
	d->requests -= d->written_back;
	d->written_back = 0;
	d->requests -= d->unsignaled;
	d->unsignaled = 0;
	assert(d->requests == 0);
	pthread_cond_broadcast(&d->room);
}
