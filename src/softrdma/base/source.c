/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* source.c -- the sources of connections, and how many access violations came from each */

#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>

#include "softrdma/base/env.h"
#include "softrdma/base/source.h"
#include "softrdma/base/tables_lock.h"
#include "softrdma/bounds.h"

struct offender {
	struct softrdma_source source;
	unsigned times;
	uint64_t last_ns;
};

/* when the array is full, a new source replaces the one whose last access violation is oldest */
static struct offender offenders[SOFTRDMA_OFFENDERS_MAX];
static unsigned count;

/* read without the lock: connections look at shut_outs in each turn */
static atomic_uint limit;
static atomic_uint shut_outs;

/* true for the prefixes under which all 128 bits count: IPv4 mapped, loopback and link-local addresses */
static bool
is_network_of_many(const uint8_t bytes[static 16])
{
	static const uint8_t nothing[8], link_local[8] = { 0xfe, 0x80 };
	return memcmp(bytes, nothing, 8) == 0 || memcmp(bytes, link_local, 8) == 0;
}

struct softrdma_source
softrdma_source_of(const struct sockaddr *addr)
{
	struct softrdma_source source = { { 0 } };
	if (addr->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)addr;
		memset(source.bytes + 10, 0xff, 2);
		memcpy(source.bytes + 12, &v4->sin_addr, 4);
	} else if (addr->sa_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)addr;
		memcpy(source.bytes, &v6->sin6_addr, 16);
		if (!is_network_of_many(source.bytes))
			memset(source.bytes + 8, 0, 8);
	}
	return source;
}

bool
softrdma_source_equal(const struct softrdma_source *one, const struct softrdma_source *other)
{
	return memcmp(one->bytes, other->bytes, sizeof(one->bytes)) == 0;
}

static bool
is_forgotten(const struct offender *at, uint64_t now_ns)
{
	return now_ns - at->last_ns >= (uint64_t)SOFTRDMA_OFFENDER_MEMORY_MS * SOFTRDMA_NS_PER_MS;
}

/* NULL: not known, or forgotten; the caller holds the lock */
static struct offender *
find(const struct softrdma_source *source, uint64_t now_ns)
{
	for (unsigned i = 0; i < count; i++) {
		struct offender *at = &offenders[i];
		if (softrdma_source_equal(&at->source, source))
			return is_forgotten(at, now_ns) ? NULL : at;
	}
	return NULL;
}

/* the entry of the same source, a free entry, or the one to replace; the caller holds the lock */
static struct offender *
place_for(const struct softrdma_source *source)
{
	struct offender *oldest = &offenders[0];
	for (unsigned i = 0; i < count; i++) {
		struct offender *at = &offenders[i];
		if (softrdma_source_equal(&at->source, source))
			return at;
		if (at->last_ns < oldest->last_ns)
			oldest = at;
	}
	return count < SOFTRDMA_OFFENDERS_MAX ? &offenders[count++] : oldest;
}

unsigned
softrdma_source_add_violation(const struct softrdma_source *source, uint64_t now_ns)
{
	softrdma_tables_lock();
	struct offender *at = find(source, now_ns);
	if (at == NULL) {
		at = place_for(source);
		at->source = *source;
		at->times = 0;
	}
	at->times++;
	at->last_ns = now_ns;
	unsigned times = at->times;
	softrdma_tables_unlock();
	const unsigned most = limit;
	if (most && times >= most)
		shut_outs++;
	return times;
}

unsigned
softrdma_source_violations(const struct softrdma_source *source, uint64_t now_ns)
{
	softrdma_tables_lock();
	const struct offender *at = find(source, now_ns);
	unsigned times = at ? at->times : 0;
	softrdma_tables_unlock();
	return times;
}

/* a lower limit may shut out sources that have offended before */
void
softrdma_source_set_limit(unsigned violations)
{
	if (atomic_exchange(&limit, violations) != violations)
		shut_outs++;
}

bool
softrdma_source_is_shut_out(const struct softrdma_source *source, uint64_t now_ns)
{
	const unsigned most = limit;
	return most && softrdma_source_violations(source, now_ns) >= most;
}

unsigned
softrdma_source_shut_outs(void)
{
	return atomic_load_explicit(&shut_outs, memory_order_acquire);
}
