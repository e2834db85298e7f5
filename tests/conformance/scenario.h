/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * scenario.h -- one table of scenarios for every device
 *
 * A scenario is written as two roles, target and initiator. They use librpma, and talk to each other over a
 * control channel beside it. So the same functions run as two threads of one process, as two processes, and
 * on any device that librpma drives. They use nothing but librpma's API, so they can only check what it shows
 * of a device.
 *
 * A role that finds something wrong ends its process at once (check.h). The driver runs each scenario in
 * processes of its own, kills them at a deadline, and goes on with the next.
 */

#ifndef CONF_SCENARIO_H
#define CONF_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>

#include <librpma.h>

#include "net.h"

struct role;
typedef void role_function(struct role *r);

enum scenario_flags {
	TWO_PROCESSES = 1 << 0, /* makes no sense with both roles in one process */
	TARGET_DIES = 1 << 1,   /* the target ends by SIGKILL, as it should */
	INITIATOR_DIES = 1 << 2,
	SOFT_ONLY = 1 << 3, /* shows what only the software device promises */
	ONE_HOST = 1 << 4,  /* sends signals to the other role's process */
	KERNELS_PAGES =
		1 << 6, /* needs the kernel's answers about missing pages, which an emulator changes */
	RACES = 1 << 5, /* may end a process by a signal, which depends on chance: runs with --races only */
};

struct scenario {
	const char *name;
	role_function *target;
	role_function *initiator;
	size_t size; /* payload in bytes, of scenarios that exist in several sizes */
	unsigned flags;
	const void *arg; /* its meaning is up to the group of scenarios */
};

struct scenario_group {
	const struct scenario *list;
	size_t count;
};

/* all groups, NULL at the end; table.c */
extern const struct scenario_group *const scenario_groups[];

/* one side of a scenario that runs */
struct role {
	const struct scenario *scenario;
	const char *addr;      /* the RDMA address of the target */
	const char *dir;       /* files to be mapped are made here */
	const char *device;    /* or NULL: a device DAX that is mapped instead */
	const char *power_cut; /* or NULL: the command that cuts the power of the medium that dir is on */
	bool is_target;
	bool soft; /* over the software device: where devices may differ, its exact result is required */
	int processes;
	bool logs;   /* a thread of the process makes the library log */
	int control; /* the socket to the other role */
	int report;  /* what check.h writes to */

	/* role.c */
	struct rpma_peer *peer;
	struct rpma_ep *ep;
	char port[NET_PORT_LEN];
	struct rpma_conn *conn; /* the first connection; most scenarios need only this one */
	struct rpma_cq *cq;     /* its main CQ */
};

#endif /* CONF_SCENARIO_H */
