/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * client.h -- connects to rpma-keeper
 *
 * After keeper_link_open the program uses link->conn and link->memory as those of any other connection.
 */

#ifndef KEEPER_CLIENT_H
#define KEEPER_CLIENT_H

#include <librpma.h>

#include "perf/why.h"
#include "protocol.h"

/* where to find the memory, and how to connect */
struct keeper_target {
	const char *host;
	const char *port;
	uint32_t queue_size; /* operations that may be outstanding on the connection */
	int timeout_ms;      /* to make the connection, at most */
};

/* a connection to memory of a keeper */
struct keeper_link {
	struct rpma_conn *conn;
	struct rpma_mr_remote *memory;
	struct keeper_reply reply;
};

enum keeper_opened {
	KEEPER_OPENED,
	KEEPER_REFUSED,     /* the keeper refused; refusal->reason says why */
	KEEPER_UNREACHABLE, /* there was no keeper; trying again may help */
	KEEPER_UNUSABLE,    /* what is there is no keeper of this version, or it lends what cannot be used */
};

/*
 * Connects and asks for the memory. With any result but KEEPER_OPENED, *link is untouched, and *why says what
 * happened. refusal is set with KEEPER_REFUSED only. Blocks for at most some timeout_ms.
 */
enum keeper_opened keeper_link_open(struct rpma_peer *peer, const struct keeper_target *target,
	const struct keeper_request *request, struct keeper_link *link, struct keeper_refusal *refusal,
	char why[static WHY_MAX]);

/* ends the connection, and with it all of its operations. link->conn may be NULL */
void keeper_link_close(struct keeper_link *link);

/* a random number for keeper_request.client; false if the kernel gives no random bytes */
bool keeper_client_id(uint64_t *id);

/* true if a refusal may be different later, without a change of what was asked for */
bool keeper_reason_may_pass(enum keeper_reason reason);

#endif /* KEEPER_CLIENT_H */
