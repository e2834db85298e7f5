/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* groups.h -- the groups of the table, one per conf_*.c */

#ifndef CONF_GROUPS_H
#define CONF_GROUPS_H

#include "scenario.h"

extern const struct scenario_group group_ops;
extern const struct scenario_group group_order;
extern const struct scenario_group group_compl;
extern const struct scenario_group group_flush;
extern const struct scenario_group group_errors;
extern const struct scenario_group group_dereg;
extern const struct scenario_group group_lost;
extern const struct scenario_group group_disconnect;
extern const struct scenario_group group_kill;
extern const struct scenario_group group_queue;
extern const struct scenario_group group_srq;
extern const struct scenario_group group_shared;
extern const struct scenario_group group_pdata;
extern const struct scenario_group group_cm;
extern const struct scenario_group group_fds;
extern const struct scenario_group group_threads;
extern const struct scenario_group group_misc;
extern const struct scenario_group group_vectors;
extern const struct scenario_group group_inline;
extern const struct scenario_group group_batch;
extern const struct scenario_group group_write_flush;
extern const struct scenario_group group_atomics;
extern const struct scenario_group group_timeouts;
extern const struct scenario_group group_answers;
extern const struct scenario_group group_arming;
extern const struct scenario_group group_tls;

#endif /* CONF_GROUPS_H */
