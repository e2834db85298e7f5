/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* offender.c -- peers that use wrong keys: they are counted by address, and lose their connections */

#include <netdb.h>

#include "softrdma/base/env.h"
#include "softrdma/base/source.h"
#include "softrdma/engine/offender.h"

void
softrdma_offender_note(struct softrdma_connection *conn)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	if (!conn->link.responder.access_violation || conn->offence_noted)
		return;
	conn->offence_noted = true;
	char host[NI_MAXHOST] = "an unknown address";
	getnameinfo(&conn->peer.any, softrdma_address_length(&conn->peer.any), host, sizeof(host), NULL, 0,
		NI_NUMERICHOST);
	const struct softrdma_source source = softrdma_source_of(&conn->peer.any);
	unsigned times = softrdma_source_add_violation(&source, softrdma_now_ns());
	/*
	 * message(connected): at the owner of the memory: an operation of that address was refused -> A
	 * program error there, or an attack. The memory was not registered for the operation, was
	 * deregistered, or belongs to another peer than the connection's. The other side's operation
	 * completes with *remote access error*.
	 */
	SOFTRDMA_LOG_FEW(&limit, WARNING,
		"%s has reached for memory that it may not have (wrong key, range or right): connection closed, "
		"number %u from there",
		host, times);
}

void
softrdma_offender_close(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	if (!link->responder.access_violation || link->state != SOFTRDMA_LINK_UP)
		return;
	softrdma_link_close_after_violation(link);
	softrdma_connection_deadline(link, SOFTRDMA_PEER_TIMEOUT_MS);
}

/*
 * A wrong key costs its connection, so an address would have as many guesses as connections. This look leaves it the
 * limit. A guess is not known before it is answered, so honest peers at that address lose theirs as well.
 */
void
softrdma_offender_shut_out(struct softrdma_connection *conn)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	struct softrdma_link *link = &conn->link;
	const unsigned shut_outs = softrdma_source_shut_outs();
	if (conn->shut_outs == shut_outs)
		return;
	conn->shut_outs = shut_outs;
	/* the NAK of its own wrong key must leave, and softrdma_offender_close() ends it after that */
	if (link->state != SOFTRDMA_LINK_UP || link->responder.access_violation)
		return;
	const struct softrdma_source source = softrdma_source_of(&conn->peer.any);
	if (!softrdma_source_is_shut_out(&source, softrdma_now_ns()))
		return;
	char name[SOFTRDMA_NAME_SIZE];
	/* message(not-heard) */
	SOFTRDMA_LOG_FEW(&limit, WARNING,
		"%s is no longer heard: too many wrong keys from there, on other connections: connection closed",
		softrdma_address_name(&conn->peer.any, name, sizeof(name)));
	softrdma_link_close(link);
	softrdma_connection_deadline(link, SOFTRDMA_PEER_TIMEOUT_MS);
}
