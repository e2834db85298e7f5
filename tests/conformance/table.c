/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* table.c -- the table of all groups of scenarios */

#include "groups.h"

const struct scenario_group *const scenario_groups[] = {
	&group_ops,
	&group_order,
	&group_compl,
	&group_flush,
	&group_errors,
	&group_dereg,
	&group_lost,
	&group_disconnect,
	&group_kill,
	&group_queue,
	&group_srq,
	&group_shared,
	&group_pdata,
	&group_cm,
	&group_fds,
	&group_threads,
	&group_misc,
	&group_vectors,
	&group_inline,
	&group_batch,
	&group_write_flush,
	&group_atomics,
	&group_timeouts,
	&group_answers,
	&group_arming,
	&group_tls,
	NULL,
};
