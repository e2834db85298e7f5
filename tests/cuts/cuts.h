/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * cuts.h -- scenarios whose TCP stream ends somewhere
 *
 * They are those of ../torture, run by its run.c, with a cut for a fault; the conformance table too.
 * exchange.c has more, that account for each operation. What ../torture/torture.h says of a fault holds of a
 * cut.
 */

#ifndef TEST_CUTS_H
#define TEST_CUTS_H

#include "torture.h"

/* operations by letters, see exchange.c */
extern const struct torture_scenario exchange_scenarios[];

#endif /* TEST_CUTS_H */
