/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* journal.c -- what was written and is not known to be durable */

#include <assert.h>
#include <stdlib.h>

#include "journal.h"

bool
journal_init(struct journal *journal, size_t size, size_t entries_max)
{
	assert(size > 0 && entries_max > 0);
	*journal = (struct journal){ .size = size, .entries_max = entries_max };
	journal->entries = calloc(entries_max, sizeof(*journal->entries));
	return journal->entries != NULL;
}

void
journal_fini(struct journal *journal)
{
	free(journal->entries);
	journal->entries = NULL;
}

const struct journal_entry *
journal_append(struct journal *journal, uint64_t offset, size_t len, bool zeros)
{
	if (journal->end - journal->first == journal->entries_max)
		return NULL;
	/* an empty journal begins anew, so that its space is in one piece */
	if (journal->end == journal->first)
		journal->space_begin = journal->space_end = 0;
	size_t at = (size_t)(journal->space_end % journal->size);
	/* data lies in one piece; the rest of the buffer stays unused if it is too short */
	const size_t skip = len > journal->size - at ? journal->size - at : 0;
	const size_t used = (size_t)(journal->space_end - journal->space_begin);
	if (len > journal->size || skip > journal->size - used || len > journal->size - used - skip)
		return NULL;

	journal->space_end += skip + len;
	struct journal_entry *entry = &journal->entries[journal->end % journal->entries_max];
	*entry = (struct journal_entry){
		.offset = offset,
		.len = len,
		.zeros = zeros,
		.at = skip ? 0 : at,
		.space_end = journal->space_end,
	};
	journal->end++;
	return entry;
}

const struct journal_entry *
journal_get(const struct journal *journal, uint64_t number)
{
	assert(number >= journal->first && number < journal->end);
	return &journal->entries[number % journal->entries_max];
}

void
journal_drop(struct journal *journal, uint64_t number)
{
	assert(number <= journal->end);
	if (number <= journal->first)
		return;
	journal->space_begin = journal_get(journal, number - 1)->space_end;
	journal->first = number;
}
