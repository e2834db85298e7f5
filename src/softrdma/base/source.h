/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * source.h -- the sources of connections, and how many access violations came from each
 *
 * Sources are distinguished by address. An IPv6 host can choose any address of its /64 network, so only the
 * network counts. For link-local and loopback addresses all bits count.
 */

#ifndef SOFTRDMA_SOURCE_H
#define SOFTRDMA_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct softrdma_source {
	uint8_t bytes[16]; /* an IPv6 address, or an IPv4 address mapped into one */
};

/* the source of an IPv4 or IPv6 address; all bits are 0 for an address of another family */
struct softrdma_source softrdma_source_of(const struct sockaddr *addr);
bool softrdma_source_equal(const struct softrdma_source *one, const struct softrdma_source *other);

/* counts an access violation from this source and returns the new count. Any thread, under any lock. */
unsigned softrdma_source_add_violation(const struct softrdma_source *source, uint64_t now_ns);

/*
 * The number of access violations from this source. It is forgotten SOFTRDMA_OFFENDER_MEMORY_MS after the last
 * one. Any thread, under any lock.
 */
unsigned softrdma_source_violations(const struct softrdma_source *source, uint64_t now_ns);

/* A source with this number of access violations is shut out until they are forgotten. 0: none is. Any thread. */
void softrdma_source_set_limit(unsigned violations);
bool softrdma_source_is_shut_out(const struct softrdma_source *source, uint64_t now_ns);
/*
 * A number that changes when any source is shut out: while it stays the same, a source that was not shut out is not.
 * 0: no source has ever been. Any thread, without a lock.
 */
unsigned softrdma_source_shut_outs(void);

#endif /* SOFTRDMA_SOURCE_H */
