/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * lease.h -- which client may use a name: the rules, without any input or output
 *
 * A name is lent for writing to one client at a time, its holder. The last writer is the client that was the
 * holder last. It stays known after the holder has left, also over restarts of the keeper: a client that
 * resumes writes again what it had not flushed, and that must not overwrite what another client has written
 * since.
 *
 * A client may be gone before its request is answered, for example because revoking the access of the holder took
 * long. Then it has never had the memory, and the writer before it gets its right back.
 */

#ifndef KEEPER_LEASE_H
#define KEEPER_LEASE_H

#include "protocol.h"

struct lease {
	bool writable;        /* the memory may be lent for writing */
	bool failed;          /* its medium has failed */
	bool unrevoked;       /* the access of an earlier holder could not be revoked */
	bool held;            /* a client has it for writing */
	bool settled;         /* the holder is established, or was the last writer before */
	uint64_t last_writer; /* the client that has or had it; 0: none yet */
};

enum lease_verdict {
	LEASE_GRANT,
	LEASE_REVOKE_FIRST, /* grant it after the holder's access has been revoked */
	LEASE_REFUSE,
};

/* decides on a valid request; *reason is set with LEASE_REFUSE only */
enum lease_verdict lease_decide(const struct lease *lease, const struct keeper_request *request,
	enum keeper_reason *reason);

/* true if granting the request makes another client the last writer, which must be on record before that */
bool lease_changes_writer(const struct lease *lease, const struct keeper_request *request);

#endif /* KEEPER_LEASE_H */
