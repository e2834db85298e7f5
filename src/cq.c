/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * cq.c -- completion queues
 *
 * A queue is armed when it is made and, unless the program arms it itself, after each event that is taken.
 * Completions that come between an event and the arming have no event of their own; the program collects them
 * after the wait. Therefore it must collect after each wait until the queue is empty, and a wait may find
 * nothing to collect.
 *
 * Events are acknowledged in batches, since each acknowledgement takes a mutex of libibverbs. The rest are
 * acknowledged before the queue is destroyed, since destroying waits for them.
 */

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "cq.h"
#include "err.h"
#include "inherited.h"
#include "usdt.h"
#include "write_flush.h"

#define ACK_BATCH 64

int
rpmai_cq_new(const struct rpma_peer *peer, struct ibv_context *ctx, int cqe,
	struct ibv_comp_channel *shared_channel, struct rpma_cq **cq_ptr)
{
	const struct rdma_api *rdma = peer->rdma;
	int ret;

	struct rpma_cq *cq = calloc(1, sizeof(*cq));
	if (cq == NULL)
		return RPMAI_FAIL_NOMEM();

	struct ibv_comp_channel *channel = shared_channel;
	if (channel == NULL) {
		channel = rdma->create_comp_channel(ctx);
		if (channel == NULL) {
			ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "ibv_create_comp_channel()");
			goto err_free;
		}
	}

	struct ibv_cq *ibv_cq = rdma->create_cq(ctx, cqe, NULL, channel, 0);
	if (ibv_cq == NULL) {
		/* message(queues-made) */
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno,
			errno != EINVAL ? NULL
				: cqe < 1
				? "set at least one entry"
				: "the number of entries may be too large for the device: set a smaller one",
			"ibv_create_cq() of %d entries", cqe);
		goto err_destroy_channel;
	}

	int errnum = ibv_req_notify_cq(ibv_cq, 0);
	if (errnum) {
		/*
		 * message(post, failed-queue): the device failed, or the object belongs to another process
		 * -> Look at the kernel's log.
		 */
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, NULL, "ibv_req_notify_cq()");
		goto err_destroy_cq;
	}

	cq->rdma = rdma;
	cq->channel = channel;
	cq->channel_is_shared = shared_channel != NULL;
	cq->ibv_cq = ibv_cq;
	atomic_init(&cq->auto_arm, true);
	rpmai_turn_init(&cq->timed);
	atomic_init(&cq->collectors, 0);
	pthread_mutex_init(&cq->lock, NULL);
	*cq_ptr = cq;
	return 0;

err_destroy_cq:
	(void)rdma->destroy_cq(ibv_cq);
err_destroy_channel:
	if (shared_channel == NULL)
		(void)rdma->destroy_comp_channel(channel);
err_free:
	free(cq);
	return ret;
}

/* acknowledges all events that have been taken */
static void
acknowledge(struct rpma_cq *cq)
{
	const unsigned int count = atomic_exchange(&cq->unacked, 0);
	if (count)
		cq->rdma->ack_cq_events(cq->ibv_cq, count);
}

int
rpmai_cq_delete(struct rpma_cq **cq_ptr)
{
	struct rpma_cq *cq = *cq_ptr;
	if (cq == NULL)
		return 0;
	*cq_ptr = NULL;

	int ret = 0;
	acknowledge(cq);
	int errnum = cq->rdma->destroy_cq(cq->ibv_cq);
	/* message(queues-deleted) */
	if (errnum)
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, NULL, "ibv_destroy_cq()");
	if (!cq->channel_is_shared) {
		errnum = cq->rdma->destroy_comp_channel(cq->channel);
		if (errnum)
			ret = rpmai_first_error(ret,
				RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, NULL,
					"ibv_destroy_comp_channel()"));
	}
	rpmai_write_parts_delete(&cq->write_parts);
	pthread_mutex_destroy(&cq->lock);
	rpmai_turn_fini(&cq->timed);
	free(cq);
	return ret;
}

/* ---- events ---- */

int
rpmai_cq_take_event(const struct rdma_api *rdma, struct ibv_comp_channel *channel, struct ibv_cq **ibv_cq)
{
	struct ibv_cq *event_cq;
	void *cq_context;

	if (rdma->get_cq_event(channel, &event_cq, &cq_context)) {
		if (errno == EAGAIN || errno == EINTR)
			return RPMA_E_NO_COMPLETION;
		/* message(failed-queue) */
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "ibv_get_cq_event()");
	}

	*ibv_cq = event_cq;
	return 0;
}

void
rpmai_cq_ack(struct rpma_cq *cq)
{
	rpmai_stats_add(&cq->stats.waits, 1);
	if (atomic_fetch_add(&cq->unacked, 1) + 1 >= ACK_BATCH)
		acknowledge(cq);
}

static int
arm(struct rpma_cq *cq)
{
	int errnum = ibv_req_notify_cq(cq->ibv_cq, 0 /* for every completion */);
	if (errnum)
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, NULL, "ibv_req_notify_cq()");
	return 0;
}

int
rpmai_cq_auto_arm(struct rpma_cq *cq)
{
	return atomic_load(&cq->auto_arm) ? arm(cq) : 0;
}

int
rpma_cq_set_auto_arm(struct rpma_cq *cq, bool enabled)
{
	if (cq == NULL)
		return RPMAI_FAIL_NULL();

	atomic_store(&cq->auto_arm, enabled);
	return 0;
}

int
rpma_cq_arm(struct rpma_cq *cq)
{
	if (cq == NULL)
		return RPMAI_FAIL_NULL();
	if (rpmai_cq_is_inherited(cq))
		return rpmai_refuse_inherited();

	return arm(cq);
}

int
rpma_cq_get_fd(const struct rpma_cq *cq, int *fd)
{
	if (cq == NULL || fd == NULL)
		return RPMAI_FAIL_NULL();

	*fd = cq->channel->fd;
	return 0;
}

static int
take_own_event(struct rpma_cq *cq)
{
	struct ibv_cq *ibv_cq;
	int ret = rpmai_cq_take_event(cq->rdma, cq->channel, &ibv_cq);
	if (ret)
		return ret;

	rpmai_cq_ack(cq);
	return rpmai_cq_auto_arm(cq);
}

static int
refuse_shared(void)
{
	/* message(wrong-wait) */
	return rpmai_refuse(RPMA_E_SHARED_CHANNEL,
		"the completion queue has no channel of its own: use rpma_conn_wait");
}

int
rpma_cq_wait(struct rpma_cq *cq)
{
	if (cq == NULL)
		return RPMAI_FAIL_NULL();
	if (rpmai_cq_is_inherited(cq))
		return rpmai_refuse_inherited();
	if (cq->channel_is_shared)
		return refuse_shared();

	return take_own_event(cq);
}

int
rpma_cq_wait_timed(struct rpma_cq *cq, int timeout_ms)
{
	if (cq == NULL)
		return RPMAI_FAIL_NULL();
	if (rpmai_cq_is_inherited(cq))
		return rpmai_refuse_inherited();
	int ret = rpmai_timeout_check(timeout_ms);
	if (ret)
		return ret;
	if (cq->channel_is_shared)
		return refuse_shared();

	const uint64_t deadline = rpmai_timeout_deadline(timeout_ms);
	if (!rpmai_turn_take(&cq->timed, deadline))
		return RPMA_E_NO_COMPLETION;
	pthread_cleanup_push(rpmai_turn_give, &cq->timed);
	ret = rpmai_timeout_readable(cq->channel->fd, deadline);
	if (ret >= 0)
		ret = ret ? take_own_event(cq) : RPMA_E_NO_COMPLETION;
	pthread_cleanup_pop(1);
	return ret;
}

/* ---- completions ---- */

/*
 * Most queues never see a durable write, and collecting from them takes no lock: the lower bits of collectors
 * only count the threads that collect. The first durable write sets IN_ORDER: threads that begin to collect take
 * the lock from then on. Each thread that makes a durable write waits until no thread collects without the lock,
 * which ALL_IN_ORDER says once and for all.
 */
#define IN_ORDER (1u << 31)
#define ALL_IN_ORDER (1u << 30)

void
rpmai_cq_keep_order(struct rpma_cq *cq)
{
	const struct timespec moment = { .tv_nsec = 1000 };

	if (atomic_load(&cq->collectors) & ALL_IN_ORDER)
		return;
	atomic_fetch_or(&cq->collectors, IN_ORDER);
	/* sleeps instead of yielding: the threads may have a lower priority. They do not block */
	while (atomic_load(&cq->collectors) & ~(IN_ORDER | ALL_IN_ORDER))
		nanosleep(&moment, NULL);
	atomic_fetch_or(&cq->collectors, ALL_IN_ORDER);
}

/* collects so that a durable write has one completion, whatever happens to its parts */
static int
collect_in_order(struct rpma_cq *cq, int num_entries, struct ibv_wc *wc)
{
	int got, kept;
	if (rpmai_cq_is_inherited(cq))
		return ibv_poll_cq(cq->ibv_cq, num_entries, wc); /* refused there; the lock may be held */
	pthread_mutex_lock(&cq->lock);
	do {
		got = kept = ibv_poll_cq(cq->ibv_cq, num_entries, wc);
		if (got > 0 && got <= num_entries)
			kept = rpmai_write_parts_merge(cq->write_parts, wc, got);
	} while (got > 0 && kept == 0);
	pthread_mutex_unlock(&cq->lock);
	return kept;
}

/* as ibv_poll_cq */
static int
collect(struct rpma_cq *cq, int num_entries, struct ibv_wc *wc)
{
	const bool in_order = atomic_fetch_add(&cq->collectors, 1) & IN_ORDER;
	const int got = in_order ? 0 : ibv_poll_cq(cq->ibv_cq, num_entries, wc);

	atomic_fetch_sub(&cq->collectors, 1);
	return __builtin_expect(in_order, 0) ? collect_in_order(cq, num_entries, wc) : got;
}

static void
count_completions(struct rpma_cq *cq, const struct ibv_wc *wc, int count)
{
	unsigned any = IBV_WC_SUCCESS;

	for (int i = 0; i < count; i++) {
		any |= wc[i].status;
		USDT(librpma, complete, wc[i].qp_num, wc[i].wr_id, (int)wc[i].opcode, wc[i].byte_len,
			(int)wc[i].status);
	}
	rpmai_stats_add(&cq->stats.completions, (uint64_t)count);
	if (any == IBV_WC_SUCCESS)
		return;

	for (int i = 0; i < count; i++)
		if (wc[i].status != IBV_WC_SUCCESS)
			rpmai_stats_add(&cq->stats.errors, 1);
}

int
rpma_cq_get_wc(struct rpma_cq *cq, int num_entries, struct ibv_wc *wc, int *num_entries_got)
{
	if (cq == NULL || wc == NULL)
		return RPMAI_FAIL_NULL();
	/* message(post): rpma_cq_get_wc(3) -> Correct the program. */
	if (num_entries < 1)
		return RPMAI_FAIL(RPMA_E_INVAL, "%d completions asked for: give 1 or more", num_entries);
	if (num_entries > 1 && num_entries_got == NULL)
		return RPMAI_FAIL_NULL();

	int got = collect(cq, num_entries, wc);
	if (got == 0)
		return RPMA_E_NO_COMPLETION;
	if (got < 0 && rpmai_cq_is_inherited(cq))
		return rpmai_refuse_inherited();
	/*
	 * message(post): more operations completed than the queue holds, or the device failed ->
	 * rpma_conn_cfg_set_cq_size(3), and disconnect what completes in the queue; else look at the
	 * kernel's log.
	 */
	if (got < 0)
		return RPMAI_FAIL(RPMA_E_PROVIDER,
			"ibv_poll_cq() failed with %d: the queue was overrun (rpma_conn_cfg_set_cq_size), or the device has failed",
			got);
	/* message(failed-queue) */
	if (got > num_entries)
		return RPMAI_FAIL(RPMA_E_UNKNOWN, "ibv_poll_cq() gave %d completions into %d", got,
			num_entries);

	count_completions(cq, wc, got);
	if (num_entries_got)
		*num_entries_got = got;
	return 0;
}
