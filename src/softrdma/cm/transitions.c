/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * transitions.c -- the states of a queue pair, and what ibv_modify_qp(3) must and may set on the way from one to another
 *
 * The tables have the required and optional attributes of the InfiniBand specification (vol. 1, 11.2.5.2), as in
 * ibv_modify_qp(3). The device refuses what the specification allows and it does not support (send queue draining, alternate
 * paths, rates).
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "softrdma/base/missing.h"
#include "softrdma/cm/transitions.h"

#define PLACE (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define MIGRATION (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)
#define UNSUPPORTED (MIGRATION | IBV_QP_RATE_LIMIT | IBV_QP_EN_SQD_ASYNC_NOTIFY)
#define DATAGRAM_PLACE (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)

struct transition {
	enum ibv_qp_state from, to;
	int required, optional;
};

/* clang-format off */
#define ROWS(table) table, sizeof(table) / sizeof((table)[0])
/* clang-format on */

static const struct transition reliable[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, PLACE, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, PLACE },
	{ IBV_QPS_INIT, IBV_QPS_RTR,
		IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			IBV_QP_MIN_RNR_TIMER,
		IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_RTR, IBV_QPS_RTS,
		IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			IBV_QP_MAX_QP_RD_ATOMIC,
		IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | MIGRATION |
			IBV_QP_RATE_LIMIT },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0,
		IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | MIGRATION |
			IBV_QP_RATE_LIMIT },
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
};

static const struct transition datagrams[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, DATAGRAM_PLACE, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, DATAGRAM_PLACE },
	{ IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
};

/* the ends, of all types */
static const struct transition ends[] = {
	{ IBV_QPS_RESET, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_INIT, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_RTR, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_RTS, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_ERR, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_INIT, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPS_RTR, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPS_RTS, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPS_ERR, IBV_QPS_ERR, 0, 0 },
};

static const struct transition *
find_in(const struct transition *rows, size_t count, enum ibv_qp_state from, enum ibv_qp_state to)
{
	for (size_t i = 0; i < count; i++) {
		if (rows[i].from == from && rows[i].to == to)
			return &rows[i];
	}
	return NULL;
}

static const struct transition *
find(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
	const struct transition *transition = find_in(ROWS(ends), from, to);
	if (transition)
		return transition;
	return type == IBV_QPT_UD ? find_in(ROWS(datagrams), from, to) : find_in(ROWS(reliable), from, to);
}

static bool
is_specified(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
	const struct ibv_qp_attr *attr, int mask)
{
	const struct transition *transition = find(type, from, to);
	if (transition == NULL || (mask & transition->required) != transition->required)
		return false;
	if (mask & ~(transition->required | transition->optional | IBV_QP_STATE))
		return false;
	return !(mask & IBV_QP_CUR_STATE) || attr->cur_qp_state == from;
}

int
softrdma_transition_check(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
	const struct ibv_qp_attr *attr, int mask)
{
	if (!is_specified(type, from, to, attr, mask))
		return EINVAL;
	if (to == IBV_QPS_SQD || (mask & UNSUPPORTED))
		return softrdma_missing("ibv_modify_qp", " to SQD, or with another path",
			SOFTRDMA_SEE_MANUAL);
	return 0;
}
