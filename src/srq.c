/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* srq.c -- shared receive queues */

#include <errno.h>
#include <stdlib.h>

#include "err.h"
#include "inherited.h"
#include "mr.h"
#include "op.h"
#include "srq.h"
#include "srq_cfg.h"

int
rpma_srq_new(struct rpma_peer *peer, struct rpma_srq_cfg *cfg, struct rpma_srq **srq_ptr)
{
	if (peer == NULL || srq_ptr == NULL)
		return RPMAI_FAIL_NULL();
	if (rpmai_peer_is_inherited(peer))
		return rpmai_refuse_inherited();

	const struct rdma_api *rdma = peer->rdma;
	const struct srq_params params = rpmai_srq_cfg_params(cfg);
	int ret;

	struct rpma_srq *srq = malloc(sizeof(*srq));
	if (srq == NULL)
		return RPMAI_FAIL_NOMEM();

	struct ibv_srq_init_attr attr = { .attr = { .max_wr = params.rq_size, .max_sge = 1 } };
	struct ibv_srq *ibv_srq = rdma->create_srq(peer->pd, &attr);
	if (ibv_srq == NULL) {
		/* message(queues-made) */
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno,
			errno == EINVAL
				? "the number of entries may be too large for the device: set a smaller one"
				: NULL,
			"ibv_create_srq() of %u entries", params.rq_size);
		goto err_free;
	}

	struct rpma_cq *rcq = NULL;
	if (params.rcqe > 0) {
		ret = rpmai_cq_new(peer, peer->pd->context, params.rcqe, NULL, &rcq);
		if (ret)
			goto err_destroy_srq;
	}

	rpmai_peer_use(peer);
	*srq = (struct rpma_srq){ .peer = peer, .ibv_srq = ibv_srq, .rcq = rcq };
	users_init(&srq->conns);
	*srq_ptr = srq;
	return 0;

err_destroy_srq:
	(void)rdma->destroy_srq(ibv_srq);
err_free:
	free(srq);
	return ret;
}

/* frees a queue that the program has deleted and no connection uses */
static int
end(struct rpma_srq *srq)
{
	int ret = rpmai_cq_delete(&srq->rcq);
	int errnum = srq->peer->rdma->destroy_srq(srq->ibv_srq);
	/* message(queues-deleted) */
	if (errnum)
		ret = rpmai_first_error(ret,
			RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, NULL, "ibv_destroy_srq()"));
	ret = rpmai_first_error(ret, rpmai_peer_unuse(srq->peer));
	free(srq);
	return ret;
}

int
rpmai_srq_unuse(struct rpma_srq *srq)
{
	return users_drop(&srq->conns) ? end(srq) : 0;
}

int
rpma_srq_delete(struct rpma_srq **srq_ptr)
{
	if (srq_ptr == NULL)
		return RPMAI_FAIL_NULL();

	struct rpma_srq *srq = *srq_ptr;
	if (srq == NULL)
		return 0;
	*srq_ptr = NULL;
	if (rpmai_peer_is_inherited(srq->peer))
		return rpmai_bury_inherited(srq);

	/* message(arguments): rpma_srq_delete(3) too early -> Delete in the reverse order of making. */
	if (!users_close(&srq->conns))
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, EBUSY,
			"connections or requests that use it are left: delete them before it; it now ends "
			"with the last of them",
			"the shared receive queue");
	return end(srq);
}

int
rpma_srq_recv(struct rpma_srq *srq, struct rpma_mr_local *dst, size_t offset, size_t len,
	const void *op_context)
{
	if (srq == NULL)
		return RPMAI_FAIL_NULL();

	struct ibv_sge sge;
	struct ibv_recv_wr wr;
	int ret = rpmai_op_prepare_recv(dst, offset, len, op_context, &sge, &wr);
	if (ret)
		return ret;

	USDT(librpma, post_receive, 0, wr.wr_id, len);
	struct ibv_recv_wr *bad_wr;
	return rpmai_op_posted("ibv_post_srq_recv()", ibv_post_srq_recv(srq->ibv_srq, &wr, &bad_wr));
}

int
rpma_srq_get_rcq(const struct rpma_srq *srq, struct rpma_cq **rcq_ptr)
{
	if (srq == NULL || rcq_ptr == NULL)
		return RPMAI_FAIL_NULL();

	*rcq_ptr = srq->rcq;
	return 0;
}
