/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * cuts.h -- torture --cut: scenarios whose TCP stream ends after a chosen byte
 *
 * run.c runs the scenarios of torture and of the conformance table, with a cut as the fault. The scenarios of
 * exchange.c run only here: they account for each operation. The promises of torture.h hold for a cut as for
 * any other fault.
 */

#ifndef TORTURE_CUTS_H
#define TORTURE_CUTS_H

#include "torture.h"

/* the program, after --cut; argv[0] is skipped as usual */
int cuts_main(int argc, char **argv);

/* exchange.c: several operations at a time, written as letters */
extern const struct torture_scenario exchange_scenarios[];

#endif /* TORTURE_CUTS_H */
