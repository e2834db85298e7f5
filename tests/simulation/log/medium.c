/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* medium.c -- the memory of a replica, and what a power cut leaves of it */

#include <stdlib.h>
#include <string.h>

#include "medium.h"
#include "sim.h"

bool medium_is_lying;

void
medium_fill(struct medium *m, const uint8_t *bytes, size_t len)
{
	memset(m->memory, 0, m->size);
	memcpy(m->memory, bytes, len);
	memcpy(m->durable, m->memory, m->size);
	m->failed = false;
}

void
medium_flush_begin(struct medium *m, size_t offset, size_t len, struct writeback *wb)
{
	const size_t end = (offset + len + m->unit - 1) / m->unit * m->unit;

	wb->active = true;
	wb->offset = offset / m->unit * m->unit;
	wb->len = (end < m->size ? end : m->size) - wb->offset;
	wb->bytes = malloc(wb->len);
	SIM_CHECK(wb->bytes, "no memory for a flush");
	memcpy(wb->bytes, m->memory + wb->offset, wb->len);
}

void
medium_flush_end(struct medium *m, struct writeback *wb, unsigned per_mille)
{
	for (size_t at = 0; at < wb->len && !medium_is_lying; at += m->tear) {
		size_t len = wb->len - at < m->tear ? wb->len - at : m->tear;
		if (per_mille == 1000 || sim_chance(per_mille))
			memcpy(m->durable + wb->offset + at, wb->bytes + at, len);
	}
	free(wb->bytes);
	*wb = (struct writeback){ 0 };
}

static void
keep_some(struct medium *m, size_t unit, unsigned per_mille)
{
	for (size_t at = 0; at < m->size; at += unit) {
		if (memcmp(m->durable + at, m->memory + at, unit) != 0 && sim_chance(per_mille))
			memcpy(m->durable + at, m->memory + at, unit);
	}
}

void
medium_write_back_some(struct medium *m)
{
	if (!m->failed)
		keep_some(m, m->unit, 1 + sim_below(1000));
}

void
medium_mount_again(struct medium *m)
{
	memcpy(m->memory, m->durable, m->size);
	m->failed = false;
}

void
medium_cut_power(struct medium *m)
{
	if (!m->failed)
		keep_some(m, m->tear, sim_chance(300) ? 0 : sim_below(1001));
	medium_mount_again(m);
}
