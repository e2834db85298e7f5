/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * srq_cfg.c -- how a shared receive queue is to be made
 *
 * The fields are atomic: any thread may read and set them at any time.
 */

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "err.h"
#include "srq_cfg.h"

#define DEFAULT_QUEUE_SIZE 20

struct rpma_srq_cfg {
	_Atomic uint32_t rq_size;
	_Atomic uint32_t rcq_size;
};

static void
set_defaults(struct rpma_srq_cfg *cfg)
{
	atomic_init(&cfg->rq_size, DEFAULT_QUEUE_SIZE);
	atomic_init(&cfg->rcq_size, DEFAULT_QUEUE_SIZE);
}

struct srq_params
rpmai_srq_cfg_params(const struct rpma_srq_cfg *cfg)
{
	struct rpma_srq_cfg defaults;
	if (cfg == NULL) {
		set_defaults(&defaults);
		cfg = &defaults;
	}

	uint32_t rcq_size = atomic_load(&cfg->rcq_size);
	return (struct srq_params){
		.rq_size = atomic_load(&cfg->rq_size),
		.rcqe = rcq_size > INT_MAX ? INT_MAX : (int)rcq_size,
	};
}

int
rpma_srq_cfg_new(struct rpma_srq_cfg **cfg_ptr)
{
	if (cfg_ptr == NULL)
		return RPMAI_FAIL_NULL();

	struct rpma_srq_cfg *cfg = malloc(sizeof(*cfg));
	if (cfg == NULL)
		return RPMAI_FAIL_NOMEM();

	set_defaults(cfg);
	*cfg_ptr = cfg;
	return 0;
}

int
rpma_srq_cfg_delete(struct rpma_srq_cfg **cfg_ptr)
{
	if (cfg_ptr == NULL)
		return RPMAI_FAIL_NULL();

	free(*cfg_ptr);
	*cfg_ptr = NULL;
	return 0;
}

int
rpma_srq_cfg_set_rq_size(struct rpma_srq_cfg *cfg, uint32_t rq_size)
{
	if (cfg == NULL)
		return RPMAI_FAIL_NULL();

	atomic_store(&cfg->rq_size, rq_size);
	return 0;
}

int
rpma_srq_cfg_get_rq_size(const struct rpma_srq_cfg *cfg, uint32_t *rq_size)
{
	if (cfg == NULL || rq_size == NULL)
		return RPMAI_FAIL_NULL();

	*rq_size = atomic_load(&cfg->rq_size);
	return 0;
}

int
rpma_srq_cfg_set_rcq_size(struct rpma_srq_cfg *cfg, uint32_t rcq_size)
{
	if (cfg == NULL)
		return RPMAI_FAIL_NULL();

	atomic_store(&cfg->rcq_size, rcq_size);
	return 0;
}

int
rpma_srq_cfg_get_rcq_size(const struct rpma_srq_cfg *cfg, uint32_t *rcq_size)
{
	if (cfg == NULL || rcq_size == NULL)
		return RPMAI_FAIL_NULL();

	*rcq_size = atomic_load(&cfg->rcq_size);
	return 0;
}
