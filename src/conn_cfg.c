/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * conn_cfg.c -- how a connection is to be made
 *
 * The fields are atomic: any thread may read and set them at any time.
 */

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "conn_cfg.h"
#include "err.h"
#include "timeout.h"

#define DEFAULT_QUEUE_SIZE 10
#define DEFAULT_MAX_SGE 1
#define DEFAULT_INLINE_SIZE RPMA_ATOMIC_WRITE_ALIGNMENT /* for atomic writes on devices without native ones */

struct rpma_conn_cfg {
	_Atomic int timeout_ms;
	_Atomic uint32_t cq_size;
	_Atomic uint32_t rcq_size;
	_Atomic uint32_t sq_size;
	_Atomic uint32_t rq_size;
	_Atomic uint32_t max_sge;
	_Atomic uint32_t inline_size;
	_Atomic int connect_timeout_ms;
	_Atomic bool shared_channel;
	struct rpma_srq *_Atomic srq;
};

static void
set_defaults(struct rpma_conn_cfg *cfg)
{
	atomic_init(&cfg->timeout_ms, RPMA_DEFAULT_TIMEOUT_MS);
	atomic_init(&cfg->cq_size, DEFAULT_QUEUE_SIZE);
	atomic_init(&cfg->rcq_size, 0);
	atomic_init(&cfg->sq_size, DEFAULT_QUEUE_SIZE);
	atomic_init(&cfg->rq_size, DEFAULT_QUEUE_SIZE);
	atomic_init(&cfg->max_sge, DEFAULT_MAX_SGE);
	atomic_init(&cfg->inline_size, DEFAULT_INLINE_SIZE);
	atomic_init(&cfg->connect_timeout_ms, -1);
	atomic_init(&cfg->shared_channel, false);
	atomic_init(&cfg->srq, NULL);
}

/* verbs count the entries of a completion queue in an int */
static int
clip_to_int(uint32_t size)
{
	return size > INT_MAX ? INT_MAX : (int)size;
}

struct conn_params
rpmai_conn_cfg_params(const struct rpma_conn_cfg *cfg)
{
	struct rpma_conn_cfg defaults;
	if (cfg == NULL) {
		set_defaults(&defaults);
		cfg = &defaults;
	}
	return (struct conn_params){
		.timeout_ms = atomic_load(&cfg->timeout_ms),
		.cqe = clip_to_int(atomic_load(&cfg->cq_size)),
		.rcqe = clip_to_int(atomic_load(&cfg->rcq_size)),
		.sq_size = atomic_load(&cfg->sq_size),
		.rq_size = atomic_load(&cfg->rq_size),
		.max_sge = atomic_load(&cfg->max_sge),
		.inline_size = atomic_load(&cfg->inline_size),
		.connect_timeout_ms = atomic_load(&cfg->connect_timeout_ms),
		.shared_channel = atomic_load(&cfg->shared_channel),
		.srq = atomic_load(&cfg->srq),
	};
}

int
rpma_conn_cfg_new(struct rpma_conn_cfg **cfg_ptr)
{
	if (cfg_ptr == NULL)
		return RPMAI_FAIL_NULL();

	struct rpma_conn_cfg *cfg = malloc(sizeof(*cfg));
	if (cfg == NULL)
		return RPMAI_FAIL_NOMEM();

	set_defaults(cfg);
	*cfg_ptr = cfg;
	return 0;
}

int
rpma_conn_cfg_delete(struct rpma_conn_cfg **cfg_ptr)
{
	if (cfg_ptr == NULL)
		return RPMAI_FAIL_NULL();

	free(*cfg_ptr);
	*cfg_ptr = NULL;
	return 0;
}

int
rpma_conn_cfg_set_timeout(struct rpma_conn_cfg *cfg, int timeout_ms)
{
	if (cfg == NULL)
		return RPMAI_FAIL_NULL();
	/* message(arguments, negative-time): a negative time -> As they say. */
	if (timeout_ms < 0)
		return RPMAI_FAIL(RPMA_E_INVAL, "a timeout of %d ms: give 0 or more", timeout_ms);

	atomic_store(&cfg->timeout_ms, timeout_ms);
	return 0;
}

int
rpma_conn_cfg_get_timeout(const struct rpma_conn_cfg *cfg, int *timeout_ms)
{
	if (cfg == NULL || timeout_ms == NULL)
		return RPMAI_FAIL_NULL();

	*timeout_ms = atomic_load(&cfg->timeout_ms);
	return 0;
}

int
rpma_conn_cfg_set_cq_size(struct rpma_conn_cfg *cfg, uint32_t cq_size)
{
	if (cfg == NULL)
		return RPMAI_FAIL_NULL();

	atomic_store(&cfg->cq_size, cq_size);
	return 0;
}

int
rpma_conn_cfg_get_cq_size(const struct rpma_conn_cfg *cfg, uint32_t *cq_size)
{
	if (cfg == NULL || cq_size == NULL)
		return RPMAI_FAIL_NULL();

	*cq_size = atomic_load(&cfg->cq_size);
	return 0;
}

int
rpma_conn_cfg_set_rcq_size(struct rpma_conn_cfg *cfg, uint32_t rcq_size)
{
	if (cfg == NULL)
		return RPMAI_FAIL_NULL();

	atomic_store(&cfg->rcq_size, rcq_size);
	return 0;
}

int
rpma_conn_cfg_get_rcq_size(const struct rpma_conn_cfg *cfg, uint32_t *rcq_size)
{
	if (cfg == NULL || rcq_size == NULL)
		return RPMAI_FAIL_NULL();

	*rcq_size = atomic_load(&cfg->rcq_size);
	return 0;
}

int
rpma_conn_cfg_set_sq_size(struct rpma_conn_cfg *cfg, uint32_t sq_size)
{
	if (cfg == NULL)
		return RPMAI_FAIL_NULL();

	atomic_store(&cfg->sq_size, sq_size);
	return 0;
}

int
rpma_conn_cfg_get_sq_size(const struct rpma_conn_cfg *cfg, uint32_t *sq_size)
{
	if (cfg == NULL || sq_size == NULL)
		return RPMAI_FAIL_NULL();

	*sq_size = atomic_load(&cfg->sq_size);
	return 0;
}

int
rpma_conn_cfg_set_rq_size(struct rpma_conn_cfg *cfg, uint32_t rq_size)
{
	if (cfg == NULL)
		return RPMAI_FAIL_NULL();

	atomic_store(&cfg->rq_size, rq_size);
	return 0;
}

int
rpma_conn_cfg_get_rq_size(const struct rpma_conn_cfg *cfg, uint32_t *rq_size)
{
	if (cfg == NULL || rq_size == NULL)
		return RPMAI_FAIL_NULL();

	*rq_size = atomic_load(&cfg->rq_size);
	return 0;
}

int
rpma_conn_cfg_set_compl_channel(struct rpma_conn_cfg *cfg, bool shared)
{
	if (cfg == NULL)
		return RPMAI_FAIL_NULL();

	atomic_store(&cfg->shared_channel, shared);
	return 0;
}

int
rpma_conn_cfg_get_compl_channel(const struct rpma_conn_cfg *cfg, bool *shared)
{
	if (cfg == NULL || shared == NULL)
		return RPMAI_FAIL_NULL();

	*shared = atomic_load(&cfg->shared_channel);
	return 0;
}

int
rpma_conn_cfg_set_srq(struct rpma_conn_cfg *cfg, struct rpma_srq *srq)
{
	if (cfg == NULL || srq == NULL)
		return RPMAI_FAIL_NULL();

	atomic_store(&cfg->srq, srq);
	return 0;
}

int
rpma_conn_cfg_get_srq(const struct rpma_conn_cfg *cfg, struct rpma_srq **srq_ptr)
{
	if (cfg == NULL || srq_ptr == NULL)
		return RPMAI_FAIL_NULL();

	*srq_ptr = atomic_load(&cfg->srq);
	return 0;
}

int
rpma_conn_cfg_set_max_sge(struct rpma_conn_cfg *cfg, uint32_t max_sge)
{
	if (cfg == NULL)
		return RPMAI_FAIL_NULL();
	/* message(more-than-configured) */
	if (max_sge == 0)
		return RPMAI_FAIL(RPMA_E_INVAL, "max_sge of 0: give 1 or more segments");

	atomic_store(&cfg->max_sge, max_sge);
	return 0;
}

int
rpma_conn_cfg_get_max_sge(const struct rpma_conn_cfg *cfg, uint32_t *max_sge)
{
	if (cfg == NULL || max_sge == NULL)
		return RPMAI_FAIL_NULL();

	*max_sge = atomic_load(&cfg->max_sge);
	return 0;
}

int
rpma_conn_cfg_set_inline_size(struct rpma_conn_cfg *cfg, uint32_t bytes)
{
	if (cfg == NULL)
		return RPMAI_FAIL_NULL();

	atomic_store(&cfg->inline_size, bytes);
	return 0;
}

int
rpma_conn_cfg_get_inline_size(const struct rpma_conn_cfg *cfg, uint32_t *bytes)
{
	if (cfg == NULL || bytes == NULL)
		return RPMAI_FAIL_NULL();

	*bytes = atomic_load(&cfg->inline_size);
	return 0;
}

int
rpma_conn_cfg_set_connect_timeout(struct rpma_conn_cfg *cfg, int timeout_ms)
{
	if (cfg == NULL)
		return RPMAI_FAIL_NULL();
	int ret = rpmai_timeout_check(timeout_ms);
	if (ret)
		return ret;

	atomic_store(&cfg->connect_timeout_ms, timeout_ms);
	return 0;
}

int
rpma_conn_cfg_get_connect_timeout(const struct rpma_conn_cfg *cfg, int *timeout_ms)
{
	if (cfg == NULL || timeout_ms == NULL)
		return RPMAI_FAIL_NULL();

	*timeout_ms = atomic_load(&cfg->connect_timeout_ms);
	return 0;
}
