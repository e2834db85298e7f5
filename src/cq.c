/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * cq.c -- completion queues
 *
 * A queue is armed when it is made and after each event that is taken. Between an event and the arming
 * completions may come without an event of their own; they are there to be collected after the wait. So a
 * wait is followed by collecting until nothing is left, and may turn out to have been for nothing.
 */

#include <errno.h>
#include <stdlib.h>

#include "cq.h"
#include "err.h"

int
rpmai_cq_new(const struct rpma_peer *peer, struct ibv_context *ctx, int cqe,
	struct ibv_comp_channel *shared_channel, struct rpma_cq **cq_ptr)
{
	const struct rdma_api *rdma = peer->rdma;
	int ret;

	struct rpma_cq *cq = malloc(sizeof(*cq));
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
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno,
			errno == EINVAL ? "the device may not have so many entries" : NULL,
			"ibv_create_cq() of %d entries", cqe);
		goto err_destroy_channel;
	}

	int errnum = ibv_req_notify_cq(ibv_cq, 0);
	if (errnum) {
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, NULL, "ibv_req_notify_cq()");
		goto err_destroy_cq;
	}

	*cq = (struct rpma_cq){
		.rdma = rdma,
		.channel = channel,
		.channel_is_shared = shared_channel != NULL,
		.ibv_cq = ibv_cq,
	};
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

int
rpmai_cq_delete(struct rpma_cq **cq_ptr)
{
	struct rpma_cq *cq = *cq_ptr;
	if (cq == NULL)
		return 0;
	*cq_ptr = NULL;

	int ret = 0;
	int errnum = cq->rdma->destroy_cq(cq->ibv_cq);
	if (errnum)
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, NULL, "ibv_destroy_cq()");
	if (!cq->channel_is_shared) {
		errnum = cq->rdma->destroy_comp_channel(cq->channel);
		if (errnum)
			ret = rpmai_first_error(ret,
				RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, NULL,
					"ibv_destroy_comp_channel()"));
	}
	free(cq);
	return ret;
}

int
rpmai_cq_take_event(const struct rdma_api *rdma, struct ibv_comp_channel *channel, struct ibv_cq **ibv_cq)
{
	struct ibv_cq *event_cq;
	void *cq_context;

	if (rdma->get_cq_event(channel, &event_cq, &cq_context)) {
		if (errno == EAGAIN || errno == EINTR)
			return RPMA_E_NO_COMPLETION;
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "ibv_get_cq_event()");
	}

	rdma->ack_cq_events(event_cq, 1); /* first of all: destroying a queue waits for it */
	*ibv_cq = event_cq;
	return 0;
}

int
rpmai_cq_arm(struct rpma_cq *cq)
{
	int errnum = ibv_req_notify_cq(cq->ibv_cq, 0 /* for every completion */);
	if (errnum)
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, NULL, "ibv_req_notify_cq()");
	return 0;
}

int
rpma_cq_get_fd(const struct rpma_cq *cq, int *fd)
{
	if (cq == NULL || fd == NULL)
		return RPMAI_FAIL_NULL();

	*fd = cq->channel->fd;
	return 0;
}

int
rpma_cq_wait(struct rpma_cq *cq)
{
	if (cq == NULL)
		return RPMAI_FAIL_NULL();
	if (cq->channel_is_shared)
		return RPMA_E_SHARED_CHANNEL;

	struct ibv_cq *ibv_cq;
	int ret = rpmai_cq_take_event(cq->rdma, cq->channel, &ibv_cq);
	if (ret)
		return ret;

	return rpmai_cq_arm(cq);
}

int
rpma_cq_get_wc(struct rpma_cq *cq, int num_entries, struct ibv_wc *wc, int *num_entries_got)
{
	if (cq == NULL || wc == NULL)
		return RPMAI_FAIL_NULL();
	if (num_entries < 1)
		return RPMAI_FAIL(RPMA_E_INVAL, "%d is no number of completions", num_entries);
	if (num_entries > 1 && num_entries_got == NULL)
		return RPMAI_FAIL_NULL();

	int got = ibv_poll_cq(cq->ibv_cq, num_entries, wc);
	if (got == 0)
		return RPMA_E_NO_COMPLETION;
	if (got < 0)
		return RPMAI_FAIL(RPMA_E_PROVIDER, "ibv_poll_cq() failed with %d", got);
	if (got > num_entries)
		return RPMAI_FAIL(RPMA_E_UNKNOWN, "ibv_poll_cq() gave %d completions into %d", got,
			num_entries);

	if (num_entries_got)
		*num_entries_got = got;
	return 0;
}
