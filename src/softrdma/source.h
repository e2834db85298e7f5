/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * source.h -- where connections come from, and how often somebody there has reached for memory that is not
 * his
 *
 * Strangers are told apart by address. In IPv6 a host has a whole network of 64 bits to choose its address
 * from, so there the network counts; of link-local addresses and the loopback all bits do.
 */

#ifndef SOFTRDMA_SOURCE_H
#define SOFTRDMA_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct softrdma_source {
	uint8_t bytes[16]; /* an IPv6 address; IPv4 as mapped into it */
};

/* of an IPv4 or IPv6 address; of another one, or none, all bits are 0 */
struct softrdma_source softrdma_source_of(const struct sockaddr *addr);
bool softrdma_source_equal(const struct softrdma_source *one, const struct softrdma_source *other);

/* somebody there has done it (again); how often so far. Any thread, any lock. */
unsigned softrdma_source_accuse(const struct softrdma_source *source, uint64_t now_ns);

/*
 * how often so far; forgotten after SOFTRDMA_TRESPASS_MEMORY_MS without another time. Any thread, any lock.
 */
unsigned softrdma_source_accusations(const struct softrdma_source *source, uint64_t now_ns);

#endif /* SOFTRDMA_SOURCE_H */
