/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * receiver.c -- the server's threads: they wait for messages, take or answer them, and repost receives
 *
 * A thread that waits in rpma_cq_wait sleeps until something completes. So the end of a step is this: all
 * messages have come; is_over is set; the connections are ended, which completes the posted receives with an
 * error. An error after is_over means nothing else.
 */

#include <arpa/inet.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "op.h"
#include "pattern.h"
#include "receiver.h"
#include "waits.h"

#define AT_ONCE 16
#define REST_LOOK_NS 200000 /* interval at which the rest of the messages is looked for */
#define REST_TIMEOUT_S 10   /* time for messages in flight after the client has finished */

struct receiver {
	struct receivers *all;
	uint32_t first; /* its connections: this one, and every threads-th after it */
	struct waits waits;
	pthread_t thread;
};

struct receivers {
	struct target *target;
	atomic_bool is_over;
	pthread_mutex_t why_lock;
	bool failed;
	char why[WHY_MAX];
	int failed_fd; /* readable once a thread has failed */
	uint32_t count;
	struct receiver list[];
};

/* what one look at the completions came to */
enum look { LOOK_NOTHING, LOOK_PROGRESS, LOOK_FAILED };

static void
tell_failure(struct receivers *all, const char *why)
{
	/* the connections are being ended */
	if (atomic_load(&all->is_over))
		return;
	pthread_mutex_lock(&all->why_lock);
	if (!all->failed)
		why_say(all->why, "%s", why);
	all->failed = true;
	pthread_mutex_unlock(&all->why_lock);
	(void)eventfd_write(all->failed_fd, 1);
}

static void
tell_wrong(struct receivers *all, const char *sentence)
{
	pthread_mutex_lock(&all->why_lock);
	if (all->target->first_wrong[0] == '\0')
		snprintf(all->target->first_wrong, sizeof(all->target->first_wrong), "%s", sentence);
	pthread_mutex_unlock(&all->why_lock);
}

/* checks a message: they come in order, and each carries its number */
static void
check(struct receivers *all, uint32_t index, uint64_t sequence, const struct ibv_wc *wc)
{
	const struct target *target = all->target;
	const struct load *load = &target->load;
	uint64_t wrong;
	char sentence[CONTROL_TEXT_MAX];

	if (load->op == OP_WRITE_WITH_IMM) {
		/* the slot may have been written again by now, so it is verified at the end */
		if (ntohl(wc->imm_data) == (uint32_t)sequence)
			return;
		snprintf(sentence, sizeof(sentence), "message %" PRIu64 " of connection %u announces %u",
			sequence, index, ntohl(wc->imm_data));
	} else {
		const uint8_t *mem = target->memory.ptr + index * load_target_share(load) +
			sequence % load->depth * load_target_stride(load);
		if (wc->byte_len == load->size &&
			pattern_check(mem, load->size, pattern_key(index, sequence), 0, &wrong))
			return;
		snprintf(sentence, sizeof(sentence),
			"message %" PRIu64 " of connection %u is not what was sent", sequence, index);
	}
	target->conns[index].wrong++;
	tell_wrong(all, sentence);
}

/* keeps the processor busy, as a program does that has work to do for each message */
static void
compute(uint64_t ns)
{
	const uint64_t until_ns = now_ns() + ns;
	while (now_ns() < until_ns)
		;
}

/* takes one message, and posts the next receive unless the answer comes first; returns an RPMA_E_* value */
static int
take(struct receivers *all, uint32_t index, const struct ibv_wc *wc)
{
	const struct target *target = all->target;
	struct target_conn *conn = &target->conns[index];
	uint64_t sequence = atomic_load_explicit(&conn->received, memory_order_relaxed);
	if (target->load.verify)
		check(all, index, sequence, wc);
	if (target->compute_ns)
		compute(target->compute_ns);
	int ret = 0;
	if (!op_kinds[target->load.op].is_answered)
		ret = target_receive(target, index, sequence + op_receives(&target->load));
	/* the last step: what is counted here may be read by the thread that waits for the rest */
	atomic_store_explicit(&conn->received, sequence + 1, memory_order_release);
	return ret;
}

/* answers the messages that have come, as far as there is room for answers; returns an RPMA_E_* value */
static int
answer(const struct receivers *all, uint32_t index)
{
	const struct target *target = all->target;
	const struct load *load = &target->load;
	struct target_conn *conn = &target->conns[index];
	int ret = 0;
	while (ret == 0 && conn->answered < atomic_load_explicit(&conn->received, memory_order_relaxed) &&
		conn->answered - conn->answers_sent < op_sends(load)) {
		ret = target_answer(target, index, conn->answered);
		if (ret == 0)
			ret = target_receive(target, index, conn->answered + op_receives(load));
		conn->answered++;
	}
	return ret;
}

static enum look
collect(struct receivers *all, uint32_t index)
{
	const struct target *target = all->target;
	const bool is_answered = op_kinds[target->load.op].is_answered;
	struct ibv_wc wc[AT_ONCE];
	char why[WHY_MAX];
	int got;

	int ret = rpma_cq_get_wc(target->conns[index].cq, AT_ONCE, wc, &got);
	if (ret == RPMA_E_NO_COMPLETION)
		return LOOK_NOTHING;
	for (int i = 0; ret == 0 && i < got; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			why_say(why, "a receive or an answer failed: %s", ibv_wc_status_str(wc[i].status));
			tell_failure(all, why);
			return LOOK_FAILED;
		}
		if (is_answered && !(wc[i].opcode & IBV_WC_RECV))
			target->conns[index].answers_sent = wc[i].wr_id;
		else
			ret = take(all, index, &wc[i]);
	}
	if (ret == 0 && is_answered)
		ret = answer(all, index);
	if (ret == 0)
		return LOOK_PROGRESS;
	why_rpma(why, "receiving");
	tell_failure(all, why);
	return LOOK_FAILED;
}

static void
receive(struct receiver *self)
{
	struct receivers *all = self->all;
	while (!atomic_load_explicit(&all->is_over, memory_order_relaxed)) {
		enum look most = LOOK_NOTHING;
		for (uint32_t i = self->first; i < all->target->load.connections; i += all->count) {
			enum look look = collect(all, i);
			if (look == LOOK_FAILED)
				return;
			most = look > most ? look : most;
		}
		if (most == LOOK_NOTHING)
			waits_for_any(&self->waits, WAITS_NO_LIMIT);
	}
}

/* the same, of an event loop: it looks only at the connections that are ready, and at each until nothing is left */
static void
receive_in_loop(struct receiver *self)
{
	struct receivers *all = self->all;
	struct waits *waits = &self->waits;
	while (!atomic_load_explicit(&all->is_over, memory_order_relaxed)) {
		bool is_left = false;
		for (uint32_t i = 0; i < waits->ready_count; i++) {
			enum look look = LOOK_PROGRESS;
			waits_take(waits, i);
			for (int looks = 0; look == LOOK_PROGRESS && looks < WAITS_LOOKS_MAX; looks++)
				look = collect(all, self->first + waits->ready[i] * all->count);
			if (look == LOOK_FAILED)
				return;
			is_left |= look == LOOK_PROGRESS;
		}
		if (is_left)
			waits_all_ready(waits);
		else
			waits_for_any(waits, WAITS_NO_LIMIT);
	}
}

static void *
receiver_main(void *arg)
{
	struct receiver *self = arg;
	struct receivers *all = self->all;
	const struct load *load = &all->target->load;
	char why[WHY_MAX];
	(void)pthread_setname_np(pthread_self(), "perf-receiver");
	bool good = waits_open(&self->waits, load->target_waits, load_thread_share(load, self->first), why);
	for (uint32_t i = self->first; good && i < load->connections; i += all->count)
		good = waits_add(&self->waits, all->target->conns[i].cq, all->target->conns[i].cq_fd, why);
	if (!good)
		tell_failure(all, why);
	else if (self->waits.is_loop)
		receive_in_loop(self);
	else
		receive(self);
	waits_close(&self->waits);
	return NULL;
}

/* ends the first count threads, and frees all */
static void
stop(struct receivers *all, uint32_t count)
{
	atomic_store(&all->is_over, true);
	if (all->target->load.target_waits == WAY_CQ_WAIT)
		target_disconnect(all->target);
	for (uint32_t i = 0; i < count; i++)
		pthread_join(all->list[i].thread, NULL);
	pthread_mutex_destroy(&all->why_lock);
	close(all->failed_fd);
	free(all);
}

bool
receivers_start(struct target *target, struct receivers **receivers_ptr, char why[static WHY_MAX])
{
	*receivers_ptr = NULL;
	if (target->load.target_waits == WAY_PAUSE)
		return true;

	struct receivers *all = calloc(1, sizeof(*all) + target->load.threads * sizeof(all->list[0]));
	if (all == NULL)
		return why_say(why, "out of memory");
	all->failed_fd = eventfd(0, EFD_CLOEXEC);
	if (all->failed_fd < 0) {
		free(all);
		return why_say(why, "eventfd: %m");
	}
	all->target = target;
	pthread_mutex_init(&all->why_lock, NULL);
	/* set before the first thread begins, since each finds its share by the number of threads */
	all->count = target->load.threads;
	for (uint32_t i = 0; i < target->load.threads; i++) {
		all->list[i] = (struct receiver){ .all = all, .first = i };
		if (pthread_create(&all->list[i].thread, NULL, receiver_main, &all->list[i])) {
			stop(all, i);
			return why_say(why, "a thread cannot be started");
		}
	}
	*receivers_ptr = all;
	return true;
}

int
receivers_fd(const struct receivers *receivers)
{
	return receivers ? receivers->failed_fd : -1;
}

bool
receivers_have_failed(struct receivers *all, char why[static WHY_MAX])
{
	pthread_mutex_lock(&all->why_lock);
	bool failed = all->failed;
	if (failed)
		why_say(why, "%s", all->why);
	pthread_mutex_unlock(&all->why_lock);
	return failed;
}

static bool
is_complete(const struct receivers *all, const uint64_t *posted)
{
	const struct load *load = &all->target->load;
	for (uint32_t i = 0; op_kinds[load->op].needs_receives && i < load->connections; i++)
		if (atomic_load(&all->target->conns[i].received) < posted[i])
			return false;
	return true;
}

/* waits until all messages have come; an operation completes at the initiator before the thread sees its message */
static bool
await_rest(struct receivers *all, const uint64_t *posted, char why[static WHY_MAX])
{
	uint64_t deadline_ns = now_ns() + (uint64_t)REST_TIMEOUT_S * 1000000000;
	for (;;) {
		if (receivers_have_failed(all, why))
			return false;
		if (is_complete(all, posted))
			return true;
		if (now_ns() > deadline_ns)
			return why_say(why, "messages that were sent have not come");
		sleep_until(now_ns() + REST_LOOK_NS);
	}
}

bool
receivers_end(struct receivers *all, const uint64_t *posted, char why[static WHY_MAX])
{
	if (all == NULL)
		return true;
	bool good = posted == NULL || await_rest(all, posted, why);
	stop(all, all->count);
	return good;
}
