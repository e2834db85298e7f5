/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * disk.c -- reads, writes and flushes of the disk
 *
 * A write goes into the journal and, if the link is up, to the keeper, under the lock. Then its thread waits.
 * If the link is lost before the write has completed, the write is done when the thread of the link has replayed
 * the journal. With write-back the thread does not wait, if the link is up: all that comes later on the connection finds
 * the write done, and a replay comes before all that comes later on another connection. Too many such writes make the next
 * one wait, so the thread of that one collects completions.
 *
 * The time that an operation has to complete begins when it is posted, and the time before that has a limit of
 * its own. An operation that is late breaks the link, so it must not be late from the beginning.
 *
 * A flush covers all that is in the journal when it starts. The keeper's device executes it after the writes
 * that were posted before, so it need not wait for their completions. When it has completed with success,
 * those entries leave the journal. A write that must be durable is followed by such a flush. Flushing its own
 * bytes only would be wrong: if an older write to the same bytes was replayed later, it would undo durable
 * data for a moment, and the keeper's machine could fail in that moment.
 */

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "disk_internal.h"

int64_t
disk_now_ms(void)
{
	struct timespec now = { 0 };

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void
disk_wait(struct disk *d, pthread_cond_t *cond, int64_t until_ms)
{
	const struct timespec until = { .tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000 };

	if (until_ms == INT64_MAX)
		pthread_cond_wait(cond, &d->lock);
	else
		(void)pthread_cond_timedwait(cond, &d->lock, &until);
}

bool
disk_init_cond(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	if (pthread_condattr_init(&attr))
		return false;
	bool good =
		pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 && pthread_cond_init(cond, &attr) == 0;
	pthread_condattr_destroy(&attr);
	return good;
}

void
disk_say(struct disk *d, const char *format, ...)
{
	char text[WHY_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	d->config->say(text);
}

static int64_t
deadline(const struct disk *d)
{
	return disk_now_ms() + d->config->timeout_ms;
}

int64_t
disk_extend(const struct disk *d, int64_t deadline_ms)
{
	const int64_t most_ms = deadline_ms + (int64_t)d->config->timeout_ms * (PATIENCE - 1);
	int64_t until_ms = d->progress_ms + d->config->timeout_ms;

	/* while the keeper's machine writes to its disk, nothing completes */
	if (d->flushing)
		return most_ms;
	if (until_ms < deadline_ms)
		until_ms = deadline_ms;
	return until_ms < most_ms ? until_ms : most_ms;
}

static bool
is_in_time(const struct disk *d, int64_t deadline_ms)
{
	return disk_now_ms() < disk_extend(d, deadline_ms);
}

/* waits for a change; false: it is too late. The caller looks again what has changed */
static bool
wait_for(struct disk *d, pthread_cond_t *cond, int64_t deadline_ms)
{
	if (!is_in_time(d, deadline_ms))
		return false;
	disk_wait(d, cond, disk_extend(d, deadline_ms));
	return true;
}

/* waits until the link is up; false if it is given up, or it is too late */
static bool
wait_for_link(struct disk *d, int64_t deadline_ms)
{
	while (d->state != LINK_UP)
		if (d->state == LINK_FAILED || !wait_for(d, &d->link_changed, deadline_ms))
			return false;
	return true;
}

/* --- flushing --- */

/* flushes all that is in the journal; the link is up, and no other thread flushes */
static void
flush_once(struct disk *d, struct op *op)
{
	const struct ranges ranges = d->dirty;

	d->flushing = true;
	/* if the flush is lost, the thread of the link finds out again what is dirty */
	ranges_clear(&d->dirty);
	op_post_flush(d, op, &ranges);
	op_wait_and_unlock(d, op, deadline(d));
	pthread_mutex_lock(&d->lock);
	d->flushing = false;
	pthread_cond_broadcast(&d->flushed);
	pthread_cond_broadcast(&d->room);
}

/* true if the entries of the journal before number are durable, and all that earlier clients have written */
static bool
is_durable(const struct disk *d, uint64_t number)
{
	return d->journal.first >= number && !d->inherits;
}

/* waits until that is so */
static bool
flush_until(struct disk *d, uint64_t number)
{
	const int64_t deadline_ms = deadline(d);
	struct op op;

	if (!op_init(&op))
		return false;
	while (!is_durable(d, number)) {
		/* after the wait look again: the flush of another thread may have completed */
		if (d->state != LINK_UP) {
			if (!wait_for_link(d, deadline_ms))
				break;
			continue;
		}
		if (d->flushing) {
			if (!wait_for(d, &d->flushed, deadline_ms))
				break;
			continue;
		}
		flush_once(d, &op);
		/* links that break again and again do not prolong it */
		if (atomic_load(&op.state) == OP_LOST && !is_in_time(d, deadline_ms))
			break;
	}
	op_fini(&op);
	return is_durable(d, number);
}

bool
disk_flush(struct disk *d)
{
	pthread_mutex_lock(&d->lock);
	bool good = d->state != LINK_FAILED && flush_until(d, d->journal.end);
	pthread_mutex_unlock(&d->lock);
	return good;
}

/* --- writing --- */

/* adds an entry to the journal, after making room for it; NULL: not in time */
static const struct journal_entry *
append(struct disk *d, uint64_t offset, size_t len, bool zeros)
{
	const int64_t deadline_ms = deadline(d);

	for (;;) {
		if (d->state == LINK_FAILED)
			return NULL;
		if (d->requests >= OPS_MAX) {
			if (!wait_for(d, &d->room, deadline_ms))
				return NULL;
			continue;
		}
		const struct journal_entry *entry = journal_append(&d->journal, offset, len, zeros);
		if (entry)
			return entry;
		/* half of the journal makes room for more than one write */
		if (!flush_until(d, d->journal.first + (d->journal.end - d->journal.first + 1) / 2))
			return NULL;
	}
}

/* waits until the journal was replayed up to this number: writes that were lost are done then */
static bool
await_replay(struct disk *d, uint64_t number, int64_t deadline_ms)
{
	pthread_mutex_lock(&d->lock);
	while (d->replayed < number && d->state != LINK_FAILED)
		if (!wait_for(d, &d->link_changed, deadline_ms))
			break;
	const bool good = d->replayed >= number;
	pthread_mutex_unlock(&d->lock);
	return good;
}

/* data NULL: zeros */
static bool
write_piece(struct disk *d, const uint8_t *data, size_t len, uint64_t offset, bool durable)
{
	struct op op;
	bool good = false, on_its_way = false;

	if (!op_init(&op))
		return false;
	pthread_mutex_lock(&d->lock);
	const struct journal_entry *entry = append(d, offset, len, data == NULL);
	if (entry == NULL) {
		pthread_mutex_unlock(&d->lock);
		op_fini(&op);
		return false;
	}
	const uint64_t after = d->journal.end;
	/* it may have waited for long before there was room */
	const int64_t deadline_ms = deadline(d);
	if (data)
		memcpy(d->journal_data + entry->at, data, len);
	ranges_add(&d->dirty, offset, offset + len);
	/* while the journal is replayed, this entry has its turn there */
	if (d->state == LINK_UP && d->config->write_back && !durable && d->written_back < WRITTEN_BACK_MAX)
		on_its_way = op_post_write_back(d, entry);
	else if (d->state == LINK_UP)
		/* the flush that comes at once completes for the write as well, if no other flush has to come first */
		op_post_write(d, durable && !d->flushing ? NULL : &op, entry);
	if (durable)
		good = flush_until(d, after);
	op_wait_and_unlock(d, &op, deadline_ms);
	if (!durable)
		good = on_its_way || op.state == OP_DONE || await_replay(d, after, deadline_ms);
	op_fini(&op);
	return good;
}

bool
disk_write(struct disk *d, const void *buf, size_t len, uint64_t offset, bool durable)
{
	const uint8_t *data = buf;

	for (bool is_last = len == 0; !is_last;) {
		const size_t piece = len < PIECE_MAX ? len : PIECE_MAX;
		is_last = piece == len;
		/* the flush of the last piece covers the others */
		if (!write_piece(d, data, piece, offset, durable && is_last))
			return false;
		data += piece;
		offset += piece;
		len -= piece;
	}
	return true;
}

bool
disk_zero(struct disk *d, uint64_t len, uint64_t offset, bool durable)
{
	for (bool is_last = len == 0; !is_last;) {
		const size_t piece = len < PIECE_MAX ? (size_t)len : PIECE_MAX;
		is_last = piece == len;
		if (!write_piece(d, NULL, piece, offset, durable && is_last))
			return false;
		offset += piece;
		len -= piece;
	}
	return true;
}

/* --- reading --- */

static void
join_line(struct disk *d, struct reader *self)
{
	*d->readers_end = self;
	d->readers_end = &self->next;
}

static void
leave_line(struct disk *d, struct reader *self)
{
	struct reader **link = &d->readers;

	while (*link != self)
		link = &(*link)->next;
	*link = self->next;
	if (d->readers_end == &self->next)
		d->readers_end = link;
}

/* stands in line for a buffer; -1: not in time */
static int
await_buffer(struct disk *d, int64_t deadline_ms)
{
	struct reader self = { .buffer = -1 };

	if (!disk_init_cond(&self.has_buffer))
		return -1;
	join_line(d, &self);
	while (self.buffer < 0 && wait_for(d, &self.has_buffer, deadline_ms))
		;
	if (self.buffer < 0)
		leave_line(d, &self);
	pthread_cond_destroy(&self.has_buffer);
	return self.buffer;
}

/* takes a buffer; -1: not in time. None is free while readers wait, so this one overtakes none of them */
static int
take_buffer(struct disk *d, int64_t deadline_ms)
{
	if (d->free_buffer_count > 0)
		return d->free_buffers[--d->free_buffer_count];
	return await_buffer(d, deadline_ms);
}

/* the reader that has waited for longest gets it */
static void
put_buffer(struct disk *d, int buffer)
{
	struct reader *next = d->readers;

	if (next == NULL) {
		d->free_buffers[d->free_buffer_count++] = buffer;
		return;
	}
	leave_line(d, next);
	next->buffer = buffer;
	pthread_cond_signal(&next->has_buffer);
}

/* waits until an operation can be posted; false: not in time, or the link is given up */
static bool
wait_for_room(struct disk *d, int64_t deadline_ms)
{
	for (;;) {
		if (!wait_for_link(d, deadline_ms))
			return false;
		if (d->requests < OPS_MAX)
			return true;
		if (!wait_for(d, &d->room, deadline_ms))
			return false;
	}
}

static bool
read_piece(struct disk *d, uint8_t *data, size_t len, uint64_t offset)
{
	const int64_t deadline_ms = deadline(d);
	struct op op;
	bool good = false;

	if (!op_init(&op))
		return false;
	pthread_mutex_lock(&d->lock);
	const int buffer = take_buffer(d, deadline_ms);
	while (buffer >= 0 && !good && is_in_time(d, deadline_ms) && wait_for_room(d, deadline_ms)) {
		const size_t at = (size_t)buffer * PIECE_MAX;
		op_post_read(d, &op, at, offset, len);
		op_wait_and_unlock(d, &op, deadline(d));
		good = op.state == OP_DONE;
		if (good)
			memcpy(data, d->read_data + at, len);
		pthread_mutex_lock(&d->lock);
	}
	if (buffer >= 0)
		put_buffer(d, buffer);
	pthread_mutex_unlock(&d->lock);
	op_fini(&op);
	return good;
}

bool
disk_read(struct disk *d, void *buf, size_t len, uint64_t offset)
{
	uint8_t *data = buf;

	while (len > 0) {
		const size_t piece = len < PIECE_MAX ? len : PIECE_MAX;
		if (!read_piece(d, data, piece, offset))
			return false;
		data += piece;
		offset += piece;
		len -= piece;
	}
	return true;
}

/* --- starting and stopping --- */

static bool
map_buffer(size_t size, uint8_t **buffer, char why[static WHY_MAX])
{
	void *ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (ptr == MAP_FAILED)
		return why_say(why, "%zu bytes of memory: %m", size);
	*buffer = ptr;
	return true;
}

static bool
init_sync(struct disk *d)
{
	return pthread_mutex_init(&d->lock, NULL) == 0 && disk_init_cond(&d->link_changed) &&
		disk_init_cond(&d->collected) && disk_init_cond(&d->room) && disk_init_cond(&d->flushed);
}

static bool
start(struct disk *d, const struct disk_facts *facts, char why[static WHY_MAX])
{
	const struct disk_config *config = d->config;
	const size_t entries = config->journal_size / ENTRY_SIZE;

	for (int i = 0; i < READ_BUFFERS; i++)
		d->free_buffers[d->free_buffer_count++] = i;
	d->readers_end = &d->readers;
	if (!journal_init(&d->journal, config->journal_size, entries < ENTRIES_MIN ? ENTRIES_MIN : entries) ||
		!init_sync(d))
		return why_say(why, "out of memory");
	d->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->wake_fd < 0 || !keeper_client_id(&d->client))
		return why_say(why, "preparing the connection: %m");
	if (!map_buffer(config->journal_size, &d->journal_data, why) ||
		!map_buffer(READ_BUFFERS * PIECE_MAX, &d->read_data, why) ||
		!map_buffer(PIECE_MAX, &d->zero_data, why))
		return false;
	if (!link_connect_first(d, facts, why))
		return false;
	int errnum = pthread_create(&d->thread, NULL, link_run, d);
	if (errnum)
		return why_say(why, "starting a thread: %s", strerror(errnum));
	d->has_thread = true;
	/*
	 * message(keeper): nbdkit-rpma-plugin does not start: its first flush, of what earlier clients have
	 * written, has failed or takes too long -> If that line is about time: start it again, with a
	 * longer `timeout=`. Else look at the keeper's log.
	 */
	return disk_flush(d) ||
		why_say(why,
			"what is in the memory cannot be made durable: the line before this one says why");
}

bool
disk_start(const struct disk_config *config, const struct disk_facts *facts, struct disk **disk_ptr,
	char why[static WHY_MAX])
{
	struct disk *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return why_say(why, "out of memory");
	d->config = config;
	d->wake_fd = -1;
	if (!start(d, facts, why)) {
		disk_stop(&d);
		return false;
	}
	*disk_ptr = d;
	return true;
}

/* waits until the keeper has what was written back */
static void
finish_writing(struct disk *d)
{
	const int64_t deadline_ms = deadline(d);

	/* progress does not prolong it: whatever ends nbdkit has little patience */
	while ((d->written_back > 0 || d->owes) && d->state != LINK_FAILED && disk_now_ms() < deadline_ms) {
		if (d->state == LINK_UP)
			ops_collect(d, deadline_ms);
		else
			disk_wait(d, &d->link_changed, deadline_ms);
	}
	if (d->written_back > 0 || d->owes)
		disk_say(d, "%s: writes that had been answered and not flushed may be lost", d->config->name);
}

void
disk_stop(struct disk **disk_ptr)
{
	struct disk *d = *disk_ptr;

	*disk_ptr = NULL;
	if (d == NULL)
		return;
	if (d->has_thread) {
		pthread_mutex_lock(&d->lock);
		finish_writing(d);
		d->stopping = true;
		pthread_cond_broadcast(&d->link_changed);
		(void)eventfd_write(d->wake_fd, 1);
		pthread_mutex_unlock(&d->lock);
		pthread_join(d->thread, NULL);
	}
	keeper_link_close(&d->link);
	(void)rpma_mr_dereg(&d->journal_mr);
	(void)rpma_mr_dereg(&d->read_mr);
	(void)rpma_mr_dereg(&d->zero_mr);
	(void)rpma_peer_delete(&d->peer);
	if (d->journal_data)
		munmap(d->journal_data, d->config->journal_size);
	if (d->read_data)
		munmap(d->read_data, READ_BUFFERS * PIECE_MAX);
	if (d->zero_data)
		munmap(d->zero_data, PIECE_MAX);
	if (d->wake_fd >= 0)
		close(d->wake_fd);
	journal_fini(&d->journal);
	/* the lock and the conditions hold no resources on Linux */
	free(d);
}
