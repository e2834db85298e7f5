/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* rules.c -- what the log's format and its documents promise: all that depends on their version */

#include <string.h>

#include "protocol.h"
#include "rules.h"
#include "sim.h"

static unsigned
majority(void)
{
	return replica_count / 2 + 1;
}

void
rules_new_file(struct replica *r)
{
	uint8_t page[LOG_HEADER_SIZE];

	log_header_encode(page, r->medium.size, 1 + (sim_random() & (LOG_WORD_MAX >> 1)));
	medium_fill(&r->medium, page, sizeof(page));
}

struct log_header
rules_header(const struct replica *r, const uint8_t *bytes)
{
	struct log_header header;
	enum log_status status = log_header_decode(bytes, r->medium.size, r->medium.size, &header);

	SIM_CHECK(status == LOG_OK, "replica %u: %s", r->number, log_status_2str(status));
	return header;
}

void
rules_word_changes(struct replica *r, size_t offset, const uint8_t bytes[static LOG_WORD_SIZE])
{
	const enum log_word word = (enum log_word)offset;
	uint64_t before;
	uint64_t after;

	if (!log_word_decode(r->medium.memory + offset, word, &before))
		before = 0;
	SIM_CHECK(log_word_decode(bytes, word, &after), "replica %u: a word is written that is damaged",
		r->number);
	SIM_TRACE("replica %u: the word at %zu becomes %llu", r->number, offset, (unsigned long long)after);
	if (word == LOG_WORD_PROMISED || word == LOG_WORD_EPOCH)
		SIM_CHECK(after >= before, "replica %u: an epoch falls", r->number);
}

static uint64_t
lease_word(const struct replica *r)
{
	uint64_t word;

	memcpy(&word, r->medium.memory + LOG_WORD_LEASE, sizeof(word));
	return word;
}

bool
rules_drops_writer(struct replica *r)
{
	const uint64_t word = lease_word(r);

	if (word != r->lease) {
		r->lease = word;
		r->lease_seen_ns = sim.now_ns;
	}
	return sim.now_ns - r->lease_seen_ns >= LEASE_MS * SIM_MS;
}

void
rules_accepted(struct replica *r)
{
	r->lease = lease_word(r);
	r->lease_seen_ns = sim.now_ns;
}

static bool
is_empty(const struct replica *r)
{
	return rules_header(r, r->medium.durable).epoch == 0;
}

/* the application's README.md: a replica gets a new file while the other ones form a majority */
bool
rules_may_wipe(const struct replica *r)
{
	unsigned empty = 1;

	for (unsigned i = 0; i < replica_count; i++)
		empty += &replicas[i] != r && is_empty(&replicas[i]);
	return empty <= replica_count - majority();
}

bool
rules_may_trust_empty(void)
{
	for (unsigned i = 0; i < replica_count; i++) {
		struct replica *r = &replicas[i];
		if (r->is_wiped && !is_empty(r))
			r->is_wiped = false;
		if (r->is_wiped)
			return false;
	}
	return true;
}

bool
rules_must_recover(unsigned mask, bool trust_empty)
{
	unsigned witnesses = 0;
	unsigned empty = 0;
	uint64_t log_id = 0;

	for (unsigned i = 0; i < replica_count; i++) {
		if ((mask >> i & 1) == 0)
			continue;
		const struct log_header header = rules_header(&replicas[i], replicas[i].medium.memory);
		if (header.epoch == 0) {
			empty++;
			continue;
		}
		/* two writers have begun a log before any of them had a majority */
		if (log_id && header.log_id != log_id)
			return false;
		log_id = header.log_id;
		witnesses++;
	}
	if (trust_empty || empty == replica_count)
		witnesses += empty;
	return witnesses >= majority();
}
