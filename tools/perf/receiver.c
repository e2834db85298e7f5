/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* receiver.c -- the server's threads that take messages and repost receives */

#include <arpa/inet.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "op.h"
#include "pattern.h"
#include "receiver.h"

#define AT_ONCE 16
#define LOOK_MS 100       /* interval at which a sleeping thread checks whether to end */
#define REST_TIMEOUT_S 10 /* time for messages in flight after the client has finished */

struct receiver {
	struct receivers *all;
	uint32_t first; /* its connections: this one, and every threads-th after it */
	pthread_t thread;
};

struct receivers {
	struct target *target;
	atomic_int is_over;
	const uint64_t *posted; /* written before is_over; NULL: end at once */
	pthread_mutex_t why_lock;
	bool failed;
	char why[WHY_MAX];
	uint32_t count;
	struct receiver list[];
};

static void
tell_failure(struct receivers *all, const char *why)
{
	pthread_mutex_lock(&all->why_lock);
	if (!all->failed)
		why_say(all->why, "%s", why);
	all->failed = true;
	pthread_mutex_unlock(&all->why_lock);
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
check(struct receivers *all, uint32_t index, const struct ibv_wc *wc)
{
	const struct target *target = all->target;
	const struct load *load = &target->load;
	struct target_conn *conn = &target->conns[index];
	uint64_t sequence = conn->received, wrong;
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
	conn->wrong++;
	tell_wrong(all, sentence);
}

/* returns false if there was no completion; an error sets *failed */
static bool
collect(struct receivers *all, uint32_t index, bool *failed)
{
	struct target *target = all->target;
	struct target_conn *conn = &target->conns[index];
	struct ibv_wc wc[AT_ONCE];
	char why[WHY_MAX];
	int got;

	int ret = rpma_cq_get_wc(conn->cq, AT_ONCE, wc, &got);
	if (ret == RPMA_E_NO_COMPLETION)
		return false;
	for (int i = 0; ret == 0 && i < got; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			why_say(why, "a receive failed: %s", ibv_wc_status_str(wc[i].status));
			goto fail;
		}
		if (target->load.verify)
			check(all, index, &wc[i]);
		conn->received++;
		ret = target_receive(target, index, conn->received - 1 + target->load.depth);
	}
	if (ret == 0)
		return true;
	why_rpma(why, "receiving");
fail:
	tell_failure(all, why);
	*failed = true;
	return true;
}

/* true if it has received all messages that it should */
static bool
is_complete(const struct receiver *self)
{
	const struct receivers *all = self->all;
	if (all->posted == NULL)
		return true;
	for (uint32_t i = self->first; i < all->target->load.connections; i += all->count)
		if (all->target->conns[i].received < all->posted[i])
			return false;
	return true;
}

/* sleeps until one of the queues has an event, and takes it */
static void
wait_for_any(const struct receiver *self, struct pollfd *pfds)
{
	struct target *target = self->all->target;
	nfds_t count = 0;
	for (uint32_t i = self->first; i < target->load.connections; i += self->all->count)
		pfds[count++] = (struct pollfd){ .fd = target->conns[i].cq_fd, .events = POLLIN };
	if (poll(pfds, count, LOOK_MS) <= 0)
		return;
	count = 0;
	for (uint32_t i = self->first; i < target->load.connections; i += self->all->count)
		if (pfds[count++].revents)
			(void)rpma_cq_wait_timed(target->conns[i].cq, 0); /* an empty queue is not an error */
}

static void *
run(void *arg)
{
	struct receiver *self = arg;
	struct receivers *all = self->all;
	const struct load *load = &all->target->load;
	uint64_t deadline_ns = 0;
	bool failed = false;

	struct pollfd *pfds = calloc(load->connections, sizeof(*pfds));
	if (pfds == NULL) {
		tell_failure(all, "out of memory");
		return NULL;
	}
	while (!failed) {
		bool progress = false;
		for (uint32_t i = self->first; i < load->connections && !failed; i += all->count)
			progress |= collect(all, i, &failed);
		if (progress)
			continue;
		if (atomic_load(&all->is_over)) {
			if (is_complete(self))
				break;
			if (deadline_ns == 0)
				deadline_ns = now_ns() + (uint64_t)REST_TIMEOUT_S * 1000000000;
			if (now_ns() > deadline_ns) {
				tell_failure(all, "messages that were sent have not come");
				break;
			}
		}
		if (load->wait)
			wait_for_any(self, pfds);
	}
	free(pfds);
	return NULL;
}

bool
receivers_start(struct target *target, struct receivers **receivers_ptr, char why[static WHY_MAX])
{
	*receivers_ptr = NULL;
	if (!op_kinds[target->load.op].needs_receives)
		return true;

	struct receivers *all = calloc(1, sizeof(*all) + target->load.threads * sizeof(all->list[0]));
	if (all == NULL)
		return why_say(why, "out of memory");
	all->target = target;
	pthread_mutex_init(&all->why_lock, NULL);
	/* set before the first thread begins, since each finds its share by the number of threads */
	all->count = target->load.threads;
	for (uint32_t i = 0; i < target->load.threads; i++) {
		all->list[i] = (struct receiver){ .all = all, .first = i };
		if (pthread_create(&all->list[i].thread, NULL, run, &all->list[i])) {
			why_say(why, "a thread cannot be started");
			atomic_store(&all->is_over, 1);
			for (uint32_t j = 0; j < i; j++)
				pthread_join(all->list[j].thread, NULL);
			pthread_mutex_destroy(&all->why_lock);
			free(all);
			return false;
		}
	}
	*receivers_ptr = all;
	return true;
}

bool
receivers_end(struct receivers *all, const uint64_t *posted, char why[static WHY_MAX])
{
	if (all == NULL)
		return true;
	all->posted = posted;
	atomic_store(&all->is_over, 1);
	for (uint32_t i = 0; i < all->count; i++)
		pthread_join(all->list[i].thread, NULL);

	bool good = !all->failed || posted == NULL;
	if (!good)
		why_say(why, "%s", all->why);
	pthread_mutex_destroy(&all->why_lock);
	free(all);
	return good;
}
