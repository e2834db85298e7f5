/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* writer.c -- the processes that write the log, and what they have acknowledged */

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fds.h"
#include "fiber.h"
#include "link.h"
#include "sim.h"
#include "writer.h"

#define HASH_BEGIN 0xcbf29ce484222325u
#define HASH_PRIME 0x100000001b3u
#define PAYLOAD_MAX 512
#define LOOK_NS (200 * SIM_MS)

struct writer *writers[WRITERS_MAX];
unsigned writer_count;

static struct {
	uint64_t hashes[RECORDS_MAX];
	uint64_t epochs[RECORDS_MAX]; /* the lowest in which it was acknowledged */
	unsigned count;
} all;

/* --- what the application prints --- */

int __wrap_fprintf(FILE *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap___fprintf_chk(FILE *stream, int flag, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int __wrap_isatty(int number);

__attribute__((format(printf, 2, 0))) static int
say(FILE *stream, const char *format, va_list ap)
{
	char text[400];

	if (!fiber_is_running())
		return vfprintf(stream, format, ap);
	int len = vsnprintf(text, sizeof(text), format, ap);
	text[strcspn(text, "\n")] = '\0';
	SIM_TRACE("says: %s", text);
	return len;
}

int
__wrap_fprintf(FILE *stream, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	int len = say(stream, format, ap);
	va_end(ap);
	return len;
}

int
__wrap___fprintf_chk(FILE *stream, int flag, const char *format, ...)
{
	va_list ap;

	(void)flag;
	va_start(ap, format);
	int len = say(stream, format, ap);
	va_end(ap);
	return len;
}

int
__wrap_isatty(int number)
{
	(void)number;
	return 0;
}

/* --- what was acknowledged --- */

unsigned
acknowledged_count(void)
{
	return all.count;
}

static uint64_t
hash_of(const struct log_record *record)
{
	uint64_t hash = HASH_BEGIN;

	for (size_t i = 0; i < record->length; i++)
		hash = (hash ^ record->payload[i]) * HASH_PRIME;
	return (hash ^ record->length) * HASH_PRIME;
}

void
acknowledged_check(const uint8_t *log, size_t end, uint64_t epoch, const char *whose)
{
	struct log_scan scan;
	struct log_record record;
	unsigned count = 0;

	/* a writer may still recover what it has read from a majority that is promised to a newer one by now */
	while (count < all.count && all.epochs[count] < epoch)
		count++;
	log_scan_init(&scan, log, end);
	while (log_scan_next(&scan, &record) == LOG_OK && record.sequence < count)
		SIM_CHECK(hash_of(&record) == all.hashes[record.sequence],
			"record %u was acknowledged, and is another one in the log of %s",
			(unsigned)record.sequence, whose);
	SIM_CHECK(scan.records >= count, "record %u was acknowledged, and is lost in the log of %s",
		(unsigned)scan.records, whose);
}

/* true if both writers have their log from one history: all that the older acknowledges is in the newer's */
static bool
is_newer(const struct writer *w, const struct writer *other)
{
	return other->has_recovered && other->epoch > w->epoch;
}

static void
acknowledge(struct writer *w)
{
	const unsigned i = w->acknowledged++;

	if (i < all.count) {
		SIM_CHECK(w->hashes[i] == all.hashes[i],
			"record %u is acknowledged by two writers, with different content", i);
		if (w->epoch < all.epochs[i])
			all.epochs[i] = w->epoch;
		return;
	}
	all.epochs[all.count] = w->epoch;
	all.hashes[all.count++] = w->hashes[i];
	SIM_TRACE("acknowledges record %u", i);
	for (unsigned k = 0; k < writer_count; k++) {
		const struct writer *other = writers[k];
		if (is_newer(w, other))
			SIM_CHECK(other->records > i && other->hashes[i] == w->hashes[i],
				"record %u is acknowledged, and a newer writer has recovered without it", i);
	}
}

static void
add_record(struct writer *w, uint64_t hash, size_t end)
{
	SIM_CHECK(w->records < RECORDS_MAX, "too many records");
	w->hashes[w->records] = hash;
	w->ends[w->records] = end;
	w->records++;
}

static void
has_recovered(struct writer *w)
{
	const struct cluster *c = w->cluster;
	struct log_scan scan;
	struct log_record record;
	char name[16];

	SIM_TRACE("has recovered %u records, of %u acknowledged", (unsigned)c->recovered.records, all.count);
	snprintf(name, sizeof(name), "writer %u", w->group);
	acknowledged_check(c->image, c->recovered_end, c->epoch, name);
	/* what it does to the replicas will be undone */
	if (w->plan.only_recovers)
		return;
	log_scan_init(&scan, c->image, c->recovered_end);
	while (log_scan_next(&scan, &record) == LOG_OK)
		add_record(w, hash_of(&record), scan.offset);
	w->epoch = c->epoch;
	w->has_recovered = true;
	for (unsigned k = 0; k < writer_count; k++)
		SIM_CHECK(writers[k] == w || !writers[k]->has_recovered || writers[k]->epoch != w->epoch,
			"two writers have one epoch");
}

/* --- a writer --- */

static bool
append_some(struct writer *w)
{
	uint8_t payload[PAYLOAD_MAX];
	unsigned count = 1 + sim_below(w->plan.batch_max);
	bool full = false;

	while (count-- > 0 && w->appended < w->plan.records && !full) {
		struct log_record record = { .payload = payload,
			.length = sim_below((uint32_t)w->plan.payload_max + 1) };
		sim_random_bytes(payload, record.length);
		full = !cluster_append(w->cluster, payload, record.length);
		if (full)
			break;
		add_record(w, hash_of(&record), w->cluster->head);
		w->appended++;
	}
	cluster_publish(w->cluster);
	return !full;
}

static void
wait(struct writer *w, uint64_t ns)
{
	struct pollfd pfd = { .fd = w->cluster->main_fd, .events = POLLIN };

	if (poll(&pfd, 1, (int)(ns / SIM_MS)) > 0)
		wake_wait(w->cluster->main_fd, 0);
}

/* true if all is acknowledged */
static bool
append_all(struct writer *w)
{
	const uint64_t end_ns = sim.now_ns + w->plan.patience_ns;
	uint64_t next_ns = sim.now_ns;
	bool full = false;

	for (;;) {
		unsigned joined;
		bool doomed;
		size_t commit = cluster_commit(w->cluster, &joined, &doomed);
		while (w->acknowledged < w->records && w->ends[w->acknowledged] <= commit)
			acknowledge(w);
		bool all_appended = full || w->appended == w->plan.records;
		if (all_appended && w->acknowledged == w->records)
			return true;
		if (doomed || sim.now_ns > end_ns)
			return false;
		bool wants = !all_appended && w->records - w->acknowledged < w->plan.window;
		if (wants && sim.now_ns >= next_ns) {
			full = !append_some(w);
			next_ns = sim.now_ns + sim_delay_ns(w->plan.pause_ns);
			continue;
		}
		wait(w, wants && next_ns - sim.now_ns < LOOK_NS ? next_ns - sim.now_ns + SIM_MS : LOOK_NS);
	}
}

static void
name_threads(const struct writer *w)
{
	char name[16];

	for (unsigned i = 0; i < w->cluster->count; i++) {
		snprintf(name, sizeof(name), "w%u/r%u", w->group, i);
		pthread_setname_np(w->cluster->members[i].thread, name);
	}
}

static void
run(void *arg)
{
	static const volatile int interrupted;
	struct writer *w = arg;
	struct cluster *c = w->cluster;

	SIM_CHECK(cluster_start(c) == 0, "a writer cannot be started");
	name_threads(w);
	bool recovered = cluster_recover(c, w->plan.timeout_ms, &interrupted) == 0;
	if (recovered) {
		has_recovered(w);
		if (w->plan.only_recovers) {
			w->result = WRITER_IS_OVER;
			fiber_wake(writers);
			fiber_wait(NULL, SIM_NEVER);
		}
		if (append_all(w))
			cluster_drain(c);
	}
	cluster_stop(c);
	cluster_destroy(c);
	SIM_CHECK(fds_count(w->group) == 0 && links_objects(w->group) == 0,
		"a writer has not given back everything");
	free(c);
	w->cluster = NULL;
	w->result = recovered ? WRITER_IS_OVER : WRITER_REFUSED;
	SIM_TRACE("ends%s", recovered ? "" : ": refused");
	fiber_wake(writers);
}

struct writer *
writer_start(const struct writer_plan *plan)
{
	char list[REPLICAS_MAX * 8] = "";
	char name[8];
	struct writer *w = calloc(1, sizeof(*w));

	SIM_CHECK(w && writer_count < WRITERS_MAX, "too many writers");
	writers[writer_count++] = w;
	w->group = writer_count;
	w->plan = *plan;
	w->cluster = calloc(1, sizeof(*w->cluster));
	SIM_CHECK(w->cluster, "no memory for a writer");
	for (unsigned i = 0; i < replica_count; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%sr%u:1", i ? "," : "", i);
	SIM_CHECK(cluster_init(w->cluster, list), "the replicas are no list");
	w->cluster->trust_empty = plan->trust_empty;
	snprintf(name, sizeof(name), "w%u", w->group);
	SIM_TRACE("writer %u starts%s", w->group, plan->trust_empty ? " with --trust-empty" : "");
	fiber_start_in(w->group, name, run, w);
	return w;
}

void
writer_kill(struct writer *w)
{
	fibers_freeze(w->group, false);
	w->is_hanging = false;
	while (!fibers_kill(w->group))
		fiber_yield();
	if (w->cluster == NULL)
		return;
	SIM_TRACE("writer %u is killed", w->group);
	links_kill(w->group);
	cluster_destroy(w->cluster);
	fds_close_all(w->group);
	free(w->cluster);
	w->cluster = NULL;
}

void
writer_hang(struct writer *w, uint64_t ns)
{
	SIM_TRACE("writer %u hangs", w->group);
	w->is_hanging = true;
	w->hangs_until_ns = sim.now_ns + ns;
	fibers_freeze(w->group, true);
}

void
writers_go_on(void)
{
	for (unsigned i = 0; i < writer_count; i++) {
		struct writer *w = writers[i];
		if (!w->is_hanging || sim.now_ns < w->hangs_until_ns)
			continue;
		SIM_TRACE("writer %u goes on", w->group);
		w->is_hanging = false;
		fibers_freeze(w->group, false);
	}
}

void
writers_begin(void)
{
	writer_count = 0;
	all.count = 0;
}

void
writers_end(void)
{
	for (unsigned i = 0; i < writer_count; i++)
		free(writers[i]);
	writer_count = 0;
}
