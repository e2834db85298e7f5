/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* run.h -- runs one scenario in processes of its own */

#ifndef CONF_RUN_H
#define CONF_RUN_H

#include "scenario.h"

#define RUN_WHY_LEN 1024

struct run_options {
	const char *addr;
	const char *dir;
	const char *device;
	const char *power_cut;
	int processes;
	bool soft;
	bool verbose; /* the roles' stderr is shown at once */
	/*
	 * NULL, or the digits of the standard descriptors that the roles are started without, as programs of their own.
	 * Meanwhile the library logs.
	 */
	const char *closed;
	char *const *argv; /* of this program; for closed */
	unsigned deadline; /* seconds per scenario */

	/* NULL: both roles are here; otherwise this driver runs one role, and the other is on another host */
	const char *role;    /* "target" or "initiator" */
	const char *control; /* where the target's driver listens */
	int listener;        /* the target's */
};

enum run_result { RUN_PASSED, RUN_FAILED, RUN_SKIPPED };

/* why[] gets a line for each finding, or why it was skipped; it is empty if the scenario passed */
enum run_result run_scenario(const struct scenario *s, const struct run_options *opts, char why[RUN_WHY_LEN]);

/* In a program that run_scenario() has started with other descriptors: runs its role, and does not return. NULL: it is not one. */
const char *run_is_role(void);
_Noreturn void run_as_role(const struct scenario *s, const struct run_options *opts);

#endif /* CONF_RUN_H */
