/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* incoming.c -- how many incoming connections are pending, from which sources, and which silent one makes room */

#include <assert.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/bounds.h"
#include "softrdma/cm/incoming.h"

/* lists of sources: with the most connections that may be pending by default, each from its own source, each has one */
#define LISTS_LOG2 10
#define LISTS (1u << LISTS_LOG2)

/* a rank has the numbers from half a power of two on: 1, 2 and 3, 4 to 7 ... */
#define RANKS 32
static_assert(sizeof(unsigned) * CHAR_BIT <= RANKS, "each number has a rank");

/* the newest comes last */
struct list {
	struct softrdma_incoming *first, *last;
};

/* a source of at least one */
struct softrdma_origin {
	struct softrdma_source source;
	unsigned count, heard;
	struct list silent;
	struct softrdma_origin *next;
};

static struct softrdma_origin *origins[LISTS];
static struct list ranks[RANKS];
static unsigned total, total_heard;
/* odd, and random where random numbers can be had, so that no stranger knows sources that share a list */
static uint64_t factors[2] = { UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xc2b2ae3d27d4eb4f) };
static bool chosen;

static void
after_fork(void)
{
	for (unsigned i = 0; i < LISTS; i++)
		softrdma_fork_keep(origins[i]);
	memset(origins, 0, sizeof(origins));
	memset(ranks, 0, sizeof(ranks));
	total = total_heard = 0;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

/* --- lists of silent ones --- */

static struct softrdma_incoming_links *
links_at(struct softrdma_incoming *one, size_t which)
{
	return (struct softrdma_incoming_links *)((char *)one + which);
}

#define OF_SOURCE offsetof(struct softrdma_incoming, of_source)
#define OF_RANK offsetof(struct softrdma_incoming, of_rank)

static void
append(struct list *list, struct softrdma_incoming *one, size_t which)
{
	*links_at(one, which) = (struct softrdma_incoming_links){ .prev = list->last };
	if (list->last)
		links_at(list->last, which)->next = one;
	else
		list->first = one;
	list->last = one;
}

static void
take_out(struct list *list, struct softrdma_incoming *one, size_t which)
{
	const struct softrdma_incoming_links links = *links_at(one, which);
	if (links.prev)
		links_at(links.prev, which)->next = links.next;
	else
		list->first = links.next;
	if (links.next)
		links_at(links.next, which)->prev = links.prev;
	else
		list->last = links.prev;
}

/* --- sources --- */

static void
choose_factors(void)
{
	if (chosen)
		return;
	chosen = true;
	(void)softrdma_random(factors, sizeof(factors));
	factors[0] |= 1;
	factors[1] |= 1;
}

static struct softrdma_origin **
list_of(const struct softrdma_source *source)
{
	uint64_t half[2];
	static_assert(sizeof(half) == sizeof(source->bytes), "a source has two halves");
	memcpy(half, source->bytes, sizeof(half));
	return &origins[(half[0] * factors[0] + half[1] * factors[1]) >> (64 - LISTS_LOG2)];
}

/* where the source's entry is, or would be */
static struct softrdma_origin **
find(const struct softrdma_source *source)
{
	struct softrdma_origin **at = list_of(source);
	while (*at && !softrdma_source_equal(&(*at)->source, source))
		at = &(*at)->next;
	return at;
}

static struct softrdma_origin *
find_or_make(const struct softrdma_source *source)
{
	choose_factors();
	struct softrdma_origin **at = find(source);
	if (*at == NULL)
		*at = calloc(1, sizeof(**at));
	if (*at)
		(*at)->source = *source;
	return *at;
}

/* --- one of them --- */

static unsigned
rank_of(unsigned number)
{
	return sizeof(unsigned) * CHAR_BIT - 1 - (unsigned)__builtin_clz(number);
}

bool
softrdma_incoming_add(struct softrdma_incoming *one, const struct softrdma_source *source)
{
	struct softrdma_origin *origin = find_or_make(source);
	if (origin == NULL)
		return false;
	total++;
	one->origin = origin;
	one->silent = true;
	one->rank = rank_of(++origin->count);
	append(&origin->silent, one, OF_SOURCE);
	append(&ranks[one->rank], one, OF_RANK);
	return true;
}

static void
leave_silent(struct softrdma_incoming *one)
{
	one->silent = false;
	take_out(&one->origin->silent, one, OF_SOURCE);
	take_out(&ranks[one->rank], one, OF_RANK);
}

bool
softrdma_incoming_may_wait(const struct softrdma_incoming *one, unsigned most, unsigned most_of_source)
{
	const uint64_t left = total_heard < most ? most - total_heard : 0;
	const uint64_t others = most_of_source < most ? most - most_of_source : 0;
	return one->origin->heard * others < most_of_source * left;
}

void
softrdma_incoming_heard(struct softrdma_incoming *one)
{
	assert(one->origin && one->silent);
	leave_silent(one);
	one->origin->heard++;
	total_heard++;
}

void
softrdma_incoming_remove(struct softrdma_incoming *one)
{
	struct softrdma_origin *origin = one->origin;
	if (one->silent) {
		leave_silent(one);
	} else {
		origin->heard--;
		total_heard--;
	}
	one->origin = NULL;
	total--;
	if (--origin->count > 0)
		return;
	struct softrdma_origin **at = find(&origin->source);
	*at = origin->next;
	free(origin);
}

const struct softrdma_source *
softrdma_incoming_source(const struct softrdma_incoming *one)
{
	return &one->origin->source;
}

/* --- all of them --- */

unsigned
softrdma_incoming_count(void)
{
	return total;
}

unsigned
softrdma_incoming_count_of(const struct softrdma_source *source)
{
	const struct softrdma_origin *origin = *find(source);
	return origin ? origin->count : 0;
}

struct softrdma_incoming *
softrdma_incoming_oldest_of(const struct softrdma_source *source)
{
	const struct softrdma_origin *origin = *find(source);
	return origin ? origin->silent.first : NULL;
}

struct softrdma_incoming *
softrdma_incoming_first_to_go(void)
{
	unsigned rank = RANKS - 1;
	while (rank > 0 && ranks[rank].first == NULL)
		rank--;
	return ranks[rank].first;
}
