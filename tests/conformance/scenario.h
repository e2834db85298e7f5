/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * scenario.h -- one table of scenarios for every device
 *
 * A scenario is written as two roles, target and initiator, which speak to librpma and, beside it,
 * to each other over a control channel. So the same functions run as two threads of one process, as
 * two processes, and on any device that librpma drives. They use nothing but librpma's API: what a
 * device does is seen through it or not at all.
 *
 * A role that finds something wrong ends its process at once (check.h); the driver runs each
 * scenario in processes of its own, kills them at a deadline, and goes on with the next.
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
	TARGET_DIES = 1 << 1,   /* the target ends by SIGKILL, and that is as it should be */
	INITIATOR_DIES = 1 << 2,
	SOFT_ONLY = 1 << 3, /* shows what only the software device promises */
	ONE_HOST = 1 << 4,  /* sends signals to the other role's process */
};

struct scenario {
	const char *name;
	role_function *target;
	role_function *initiator;
	size_t size; /* payload in bytes, of scenarios that exist in several sizes */
	unsigned flags;
	const void *arg; /* what the group of scenarios makes of it */
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
	bool soft; /* over the software device: where devices may differ, its exact answer is asked for */
	int processes;
	int control; /* the socket to the other role */
	int report;  /* what check.h writes to */

	/* role.c */
	struct rpma_peer *peer;
	struct rpma_ep *ep;
	char port[NET_PORT_LEN];
	struct rpma_conn *conn; /* the first connection, for scenarios that need no more */
	struct rpma_cq *cq;     /* its main CQ */
};

#endif /* CONF_SCENARIO_H */
