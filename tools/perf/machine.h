/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* machine.h -- the machine on which figures were measured */

#ifndef PERF_MACHINE_H
#define PERF_MACHINE_H

#define MACHINE_TEXT_MAX 160

struct machine {
	long cores;
	char processor[MACHINE_TEXT_MAX];
	char kernel[MACHINE_TEXT_MAX];
	char date[MACHINE_TEXT_MAX]; /* UTC, ISO 8601 */
};

/* properties that cannot be found out become "unknown" */
void machine_describe(struct machine *machine);

#endif /* PERF_MACHINE_H */
