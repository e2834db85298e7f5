/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* lease.c -- which client may use a name */

#include "lease.h"

static enum lease_verdict
refuse(enum keeper_reason because, enum keeper_reason *reason)
{
	*reason = because;
	return LEASE_REFUSE;
}

enum lease_verdict
lease_decide(const struct lease *lease, const struct keeper_request *request, enum keeper_reason *reason)
{
	if (!(request->want & KEEPER_WANT_WRITE))
		return LEASE_GRANT;
	if (!lease->writable)
		return refuse(KEEPER_REFUSED_READ_ONLY, reason);
	/* a later flush may succeed although its data is not on the medium; reading is for rescue */
	if (lease->failed)
		return refuse(KEEPER_REFUSED_MEDIUM, reason);
	/* the earlier holder may still change the memory, as long as this process lives */
	if (lease->unrevoked)
		return refuse(KEEPER_REFUSED_FAILURE, reason);
	/* whether the writer before gets its right back is known in a moment */
	if (lease->held && !lease->settled)
		return refuse(KEEPER_REFUSED_BUSY, reason);
	if (request->want & KEEPER_WANT_RESUME) {
		if (lease->last_writer == 0)
			return refuse(KEEPER_REFUSED_REPLACED, reason);
		if (lease->last_writer != request->client)
			return refuse(KEEPER_REFUSED_SUPERSEDED, reason);
		/* the holder is this client: its earlier connection has not ended here yet */
		return lease->held ? LEASE_REVOKE_FIRST : LEASE_GRANT;
	}
	if (!lease->held)
		return LEASE_GRANT;
	return request->want & KEEPER_WANT_TAKEOVER ? LEASE_REVOKE_FIRST
						    : refuse(KEEPER_REFUSED_BUSY, reason);
}

bool
lease_changes_writer(const struct lease *lease, const struct keeper_request *request)
{
	return (request->want & KEEPER_WANT_WRITE) && lease->last_writer != request->client;
}
