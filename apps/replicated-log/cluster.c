/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <librpma.h>

#include "clock.h"
#include "cluster.h"
#include "protocol.h"
#include "random_id.h"
#include "session.h"

/*
 * Once a majority is connected, the writer waits this long for the other replicas to connect. Once a majority
 * has promised, it waits this long for the others to promise. Records that only they have are not needed, but
 * need not be lost.
 */
#define GATHER_GRACE_MS 300
#define PROMISE_GRACE_MS 1000

/*
 * A writer that died holds its connections until the replicas have noticed. One that hangs holds them until
 * its lease is over; and attempts to connect are up to a second apart.
 */
#define BUSY_GRACE_MS (LEASE_MS + 3000)

/* at the end, a replica that makes no progress for this time is no longer waited for */
#define DRAIN_PATIENCE_MS 3000

/* longest interval between two looks at the clock and at signals */
#define LOOK_MS 200
#define GRACE_LOOK_MS 20

void
tell(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/* in one call, since several threads print at the same time */
	fprintf(stderr, "%s%s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", text);
}

void
wake(int fd)
{
	const uint64_t one = 1;

	/* it fails only if the descriptor is readable already */
	ssize_t n = write(fd, &one, sizeof(one));
	(void)n;
}

void
wake_wait(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	uint64_t value;

	if (poll(&pfd, 1, timeout_ms) > 0) {
		ssize_t n = read(fd, &value, sizeof(value));
		(void)n;
	}
}

static void
wake_members(struct cluster *c)
{
	for (unsigned i = 0; i < c->count; i++)
		wake(c->members[i].wake_fd);
}

/* parses "addr:port" or "[addr]:port", of len characters */
static bool
parse_member(struct member *m, const char *text, size_t len)
{
	const char *colon = memrchr(text, ':', len);

	if (colon == NULL || len >= sizeof(m->name))
		return false;

	size_t addr_len = (size_t)(colon - text);
	size_t port_len = len - addr_len - 1;
	snprintf(m->name, sizeof(m->name), "%.*s", (int)len, text);
	if (addr_len >= 2 && text[0] == '[' && text[addr_len - 1] == ']') {
		text++;
		addr_len -= 2;
	}
	if (addr_len == 0 || addr_len >= sizeof(m->addr) || port_len == 0 || port_len >= sizeof(m->port))
		return false;
	snprintf(m->addr, sizeof(m->addr), "%.*s", (int)addr_len, text);
	snprintf(m->port, sizeof(m->port), "%.*s", (int)port_len, colon + 1);

	return true;
}

/* a replica that is listed twice would be counted twice */
static bool
is_new(const struct cluster *c, const struct member *m)
{
	for (unsigned i = 0; i < c->count; i++)
		if (strcmp(c->members[i].addr, m->addr) == 0 && strcmp(c->members[i].port, m->port) == 0)
			return false;
	return true;
}

bool
cluster_init(struct cluster *c, const char *list)
{
	*c = (struct cluster){ .lock = PTHREAD_MUTEX_INITIALIZER,
		.main_fd = -1,
		.nonce = random_id(LOG_EPOCH_NONCE_MAX) };

	for (;;) {
		size_t len = strcspn(list, ",");
		struct member *m = &c->members[c->count];
		if (c->count == MEMBERS_MAX || !parse_member(m, list, len) || !is_new(c, m))
			return false;
		m->cluster = c;
		m->wake_fd = -1;
		c->count++;
		if (list[len] == '\0')
			return true;
		list += len + 1;
	}
}

void
cluster_destroy(struct cluster *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (c->members[i].wake_fd >= 0)
			close(c->members[i].wake_fd);
	if (c->main_fd >= 0)
		close(c->main_fd);
	if (c->image)
		munmap(c->image, c->size);
}

unsigned
cluster_majority(const struct cluster *c)
{
	return c->count / 2 + 1;
}

int
cluster_start(struct cluster *c)
{
	c->main_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->main_fd < 0) {
		perror("eventfd");
		return -1;
	}
	for (unsigned i = 0; i < c->count; i++) {
		c->members[i].wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (c->members[i].wake_fd < 0) {
			perror("eventfd");
			return -1;
		}
	}
	for (unsigned i = 0; i < c->count; i++) {
		if (pthread_create(&c->members[i].thread, NULL, session_thread, &c->members[i])) {
			/* no replica has promised anything yet, so the process may end */
			tell("no thread for %s", c->members[i].name);
			exit(1);
		}
	}

	return 0;
}

static void
set_phase(struct cluster *c, enum phase phase)
{
	pthread_mutex_lock(&c->lock);
	c->phase = phase;
	pthread_mutex_unlock(&c->lock);
	wake_members(c);
}

void
cluster_stop(struct cluster *c)
{
	set_phase(c, PHASE_STOP);
	for (unsigned i = 0; i < c->count; i++)
		pthread_join(c->members[i].thread, NULL);
}

static bool
is_connected(const struct member *m)
{
	return m->state != MEMBER_AWAY && m->state != MEMBER_UNUSABLE;
}

/* true if a member's file had more than this header of it tells: it went back in time */
static bool
has_lost(const struct member *m, const struct log_header *header)
{
	const uint64_t epoch = m->cluster->epoch;

	return m->lost ||
		(m->joined_epoch && m->joined_epoch == epoch &&
			(header->epoch != epoch || header->tail < m->durable));
}

bool
cluster_recognize(struct member *m, const struct log_header *header)
{
	struct cluster *c = m->cluster;
	struct member *former = NULL;

	for (unsigned i = 0; i < c->count; i++)
		if (&c->members[i] != m && c->members[i].replica_id == header->replica_id)
			former = &c->members[i];
	if (former && is_connected(former)) {
		if (!m->copy)
			tell("replica %s: not counted: its file is that of %s, or a copy of it", m->name,
				former->name);
		m->copy = true;
		return false;
	}

	const struct member *last = former ? former : m;
	m->lost = last->replica_id == header->replica_id && has_lost(last, header);
	if (former) {
		tell("replica %s: its file was at %s before", m->name, former->name);
		/* what it has promised, it has promised wherever it is */
		if (former->asked_epoch > m->asked_epoch)
			m->asked_epoch = former->asked_epoch;
		former->replica_id = 0;
		former->joined_epoch = 0;
		former->durable = 0;
	}
	if (m->replica_id != header->replica_id)
		m->damaged = false;
	/* what another file had, or this one before it went back in time, is not there */
	if (m->replica_id != header->replica_id || header->epoch != c->epoch || m->lost) {
		m->joined_epoch = 0;
		m->durable = 0;
	}
	m->replica_id = header->replica_id;
	if (header->epoch)
		m->known_id = header->replica_id;
	m->header = *header;
	m->copy = false;

	return true;
}

/* true if all replicas of the log are there, and none of them has ever had a writer */
static bool
is_new_log(const struct cluster *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (!is_connected(&c->members[i]) || c->members[i].header.epoch)
			return false;
	return true;
}

/* true if this replica counts as a witness of what was acknowledged */
static bool
is_witness(const struct cluster *c, const struct member *m)
{
	return is_connected(m) && !m->damaged && (m->header.epoch || c->trust_empty || is_new_log(c));
}

static unsigned
count_witnesses(const struct cluster *c, enum member_state state)
{
	unsigned count = 0;

	for (unsigned i = 0; i < c->count; i++)
		if (c->members[i].state == state && is_witness(c, &c->members[i]))
			count++;
	return count;
}

/* true if so few replicas are usable (or, with busy_too, not busy) that no majority is possible */
static bool
is_doomed(const struct cluster *c, bool busy_too)
{
	unsigned lost = 0;

	for (unsigned i = 0; i < c->count; i++)
		if (c->members[i].state == MEMBER_UNUSABLE || (busy_too && c->members[i].busy))
			lost++;
	return c->count - lost < cluster_majority(c);
}

static bool
all_tried(const struct cluster *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (!c->members[i].tried)
			return false;
	return true;
}

void
cluster_report(struct cluster *c)
{
	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < c->count; i++) {
		const struct member *m = &c->members[i];
		if (m->state == MEMBER_UNUSABLE)
			tell("replica %s cannot be used: %s", m->name, m->reason);
		else if (m->busy)
			tell("replica %s serves another writer", m->name);
		else if (m->damaged)
			tell("replica %s holds a damaged log", m->name);
		else if (m->copy)
			tell("replica %s has the file of another one, or a copy of it", m->name);
		else if (m->state == MEMBER_AWAY)
			tell("replica %s is not there", m->name);
		else if (!is_witness(c, m))
			tell("replica %s is empty: has it lost its log? (--trust-empty if not)", m->name);
	}
	pthread_mutex_unlock(&c->lock);
}

struct recovery {
	struct member *source;   /* the replica whose log is or was fetched */
	int64_t gather_ends_ms;  /* 0 while there is no majority */
	int64_t promise_ends_ms; /* likewise */
	int64_t busy_since_ms;   /* time since which too many replicas serve another writer, or 0 */
};

/* --- recovery: each step is called with the lock held, and returns true if the next step may begin --- */

/* true if grace_ms have passed since the first call */
static bool
is_over(int64_t *ends_ms, int64_t grace_ms)
{
	if (*ends_ms == 0)
		*ends_ms = now_ms() + grace_ms;

	return now_ms() >= *ends_ms;
}

/* true if a majority is connected and the others have had their time */
static bool
gathered(struct cluster *c, struct recovery *r)
{
	if (count_witnesses(c, MEMBER_READY) + count_witnesses(c, MEMBER_PROMISED) < cluster_majority(c)) {
		r->gather_ends_ms = 0;
		return false;
	}

	return all_tried(c) || is_over(&r->gather_ends_ms, GATHER_GRACE_MS);
}

/* true if a majority has promised and the others have had their time */
static bool
promised(struct cluster *c, struct recovery *r)
{
	if (count_witnesses(c, MEMBER_PROMISED) < cluster_majority(c)) {
		r->promise_ends_ms = 0;
		return false;
	}

	return count_witnesses(c, MEMBER_READY) == 0 || is_over(&r->promise_ends_ms, PROMISE_GRACE_MS);
}

/*
 * True if a replica was promised to another writer whose epoch is not below ours: then we need a higher one
 */
static bool
epoch_too_low(const struct cluster *c)
{
	for (unsigned i = 0; i < c->count; i++) {
		const struct member *m = &c->members[i];
		if (m->state == MEMBER_READY && m->header.promised >= c->epoch)
			return true;
	}
	return false;
}

/* false if there is no higher epoch: a header that is sound, but not written by this program */
static bool
choose_epoch(struct cluster *c)
{
	uint64_t highest = c->epoch;

	for (unsigned i = 0; i < c->count; i++) {
		struct member *m = &c->members[i];
		if (is_connected(m) && m->header.promised > highest)
			highest = m->header.promised;
		/* a promise to the previous epoch no longer counts */
		if (m->state == MEMBER_PROMISED)
			m->state = MEMBER_READY;
	}
	const uint64_t round = log_epoch_round(highest);
	if (round == LOG_EPOCH_ROUND_MAX) {
		tell("the replicas were promised to the last possible writer");
		return false;
	}
	c->epoch = (round + 1) << LOG_EPOCH_ROUND_SHIFT | c->nonce;
	wake_members(c);

	return true;
}

/* true if all replicas that have a log have the same one, and it is ours */
static bool
same_log(struct cluster *c)
{
	for (unsigned i = 0; i < c->count; i++) {
		const struct member *m = &c->members[i];
		if (!is_connected(m) || m->header.epoch == 0)
			continue;
		if (m->header.members != c->count) {
			tell("the log on %s has %" PRIu64 " replicas, not %u: name all of them", m->name,
				m->header.members, c->count);
			return false;
		}
		if (c->log_id == 0)
			c->log_id = m->header.log_id;
		if (m->header.log_id != c->log_id) {
			tell("%s: another log than that of the replicas before it", m->name);
			return false;
		}
	}
	return true;
}

/* the best log of the replicas that have promised, which is the one to take over */
static struct member *
best_member(struct cluster *c)
{
	struct member *best = NULL;

	for (unsigned i = 0; i < c->count; i++) {
		struct member *m = &c->members[i];
		if (m->state != MEMBER_PROMISED || !is_witness(c, m))
			continue;
		if (best == NULL || m->header.epoch > best->header.epoch ||
			(m->header.epoch == best->header.epoch && m->header.tail > best->header.tail))
			best = m;
	}
	return best;
}

static bool
make_image(struct cluster *c, size_t size)
{
	if (c->image && c->size == size)
		return true;
	/* sessions register the image only after recovery, so none has yet */
	if (c->image)
		munmap(c->image, c->size);

	void *image =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (image == MAP_FAILED) {
		c->image = NULL;
		perror("no memory for the image of the log");
		return false;
	}
	c->image = image;
	c->size = size;

	return true;
}

/* the log of the best replica is in the image: checks it and takes it over */
static bool
take_over(struct cluster *c, struct member *best)
{
	struct log_scan scan;

	log_scan_init(&scan, c->image, (size_t)best->header.tail);
	if (log_scan_all(&scan) != LOG_OK) {
		tell("replica %s: record %" PRIu64 " of its log is damaged", best->name, scan.records);
		best->damaged = true;
		return false;
	}
	if (c->log_id == 0)
		c->log_id = random_id(LOG_WORD_MAX);
	for (unsigned i = 0; i < c->count; i++)
		if (c->members[i].state == MEMBER_PROMISED && is_witness(c, &c->members[i]))
			c->members[i].known_id = c->members[i].replica_id;
	c->recovered = scan;
	c->next_sequence = scan.records;
	c->recovered_end = scan.end;
	c->head = scan.end;
	c->end = scan.end;
	c->commit = LOG_HEADER_SIZE;
	c->phase = PHASE_RUN;
	wake_members(c);

	return true;
}

/* makes one step of recovery, with the lock held: 1 done, 0 wait for a change, -1 recovery is impossible */
static int
recover_step(struct cluster *c, struct recovery *r)
{
	if (!gathered(c, r))
		return 0;
	if (!same_log(c))
		return -1;
	if ((c->epoch == 0 || epoch_too_low(c)) && !choose_epoch(c))
		return -1;
	if (!promised(c, r))
		return 0;

	/* only one session at a time may write to the image */
	if (r->source && r->source->fetch && !r->source->fetched)
		return 0;
	struct member *best = best_member(c);
	if (best == r->source && best->fetched)
		return take_over(c, best) ? 1 : 0;

	if (!make_image(c, (size_t)best->header.size))
		return -1;
	r->source = best;
	best->fetch = true;
	best->fetched = false;
	wake(best->wake_fd);

	return 0;
}

/* reports why recovery does not proceed; returns false if it never will */
static bool
recovery_is_possible(struct cluster *c, struct recovery *r)
{
	pthread_mutex_lock(&c->lock);
	bool doomed = is_doomed(c, false);
	bool busy = is_doomed(c, true);
	pthread_mutex_unlock(&c->lock);

	if (!busy)
		r->busy_since_ms = 0;
	else if (r->busy_since_ms == 0)
		r->busy_since_ms = now_ms();
	if (doomed)
		tell("too few replicas can be used");
	else if (busy && now_ms() - r->busy_since_ms >= BUSY_GRACE_MS)
		tell("refused: another writer is at work");
	else
		return true;

	return false;
}

/*
 * The library logs a warning for each failed attempt to connect. The first warnings are useful. After that
 * they are normal as long as a replica is away, so they are switched off. If the user asked for more of the
 * log, it stays on.
 */
static void
calm_library_log(struct cluster *c, bool *is_calm)
{
	enum rpma_log_level level;

	pthread_mutex_lock(&c->lock);
	bool now = !*is_calm && all_tried(c);
	pthread_mutex_unlock(&c->lock);
	if (!now)
		return;
	*is_calm = true;
	if (rpma_log_get_threshold(RPMA_LOG_THRESHOLD_AUX, &level) == 0 && level == RPMA_LOG_LEVEL_WARNING)
		(void)rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_ERROR);
}

int
cluster_recover(struct cluster *c, int timeout_ms, const volatile int *interrupted)
{
	const int64_t give_up_ms = timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms;
	struct recovery r = { 0 };
	bool is_calm = false;

	for (;;) {
		calm_library_log(c, &is_calm);
		pthread_mutex_lock(&c->lock);
		int step = recover_step(c, &r);
		pthread_mutex_unlock(&c->lock);
		if (step > 0)
			return 0;
		if (step < 0 || *interrupted || !recovery_is_possible(c, &r))
			break;
		if (now_ms() >= give_up_ms) {
			tell("no majority of the replicas in time");
			break;
		}
		wake_wait(c->main_fd, r.gather_ends_ms || r.promise_ends_ms ? GRACE_LOOK_MS : LOOK_MS);
	}

	cluster_report(c);
	return -1;
}

bool
cluster_append(struct cluster *c, const uint8_t *payload, size_t length)
{
	const struct log_record record = {
		.sequence = c->next_sequence,
		.epoch = c->epoch,
		.payload = payload,
		.length = length,
	};

	size_t size = log_record_encode(c->image + c->head, c->size - c->head, &record);
	if (size == 0)
		return false;
	c->head += size;
	c->next_sequence++;

	return true;
}

void
cluster_publish(struct cluster *c)
{
	pthread_mutex_lock(&c->lock);
	c->end = c->head;
	pthread_mutex_unlock(&c->lock);
	wake_members(c);
}

uint64_t
cluster_ask(struct cluster *c)
{
	pthread_mutex_lock(&c->lock);
	uint64_t question = ++c->question;
	pthread_mutex_unlock(&c->lock);
	wake_members(c);

	return question;
}

void
cluster_answer(struct member *m, uint64_t question)
{
	pthread_mutex_lock(&m->cluster->lock);
	bool is_new = question > m->proof;
	if (is_new)
		m->proof = question;
	pthread_mutex_unlock(&m->cluster->lock);
	if (is_new)
		wake_members(m->cluster);
}

bool
cluster_is_newest(struct member *m, uint64_t question)
{
	struct cluster *c = m->cluster;
	unsigned count = 0;

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < c->count; i++) {
		const struct member *other = &c->members[i];
		if (other != m && other->known_id == other->replica_id && other->proof >= question)
			count++;
	}
	bool is_newest = count >= cluster_majority(c);
	if (is_newest)
		m->known_id = m->replica_id;
	pthread_mutex_unlock(&c->lock);

	return is_newest;
}

static int
compare_descending(const void *a, const void *b)
{
	size_t x = *(const size_t *)a;
	size_t y = *(const size_t *)b;

	return (x < y) - (x > y);
}

/* durable data stays durable: a replica that has joined counts with what it had, even while it is away */
void
cluster_member_changed(struct cluster *c)
{
	size_t durable[MEMBERS_MAX] = { 0 };

	for (unsigned i = 0; i < c->count; i++)
		if (c->epoch && c->members[i].joined_epoch == c->epoch)
			durable[i] = c->members[i].durable;
	qsort(durable, c->count, sizeof(durable[0]), compare_descending);
	if (durable[cluster_majority(c) - 1] > c->commit)
		c->commit = durable[cluster_majority(c) - 1];
	wake(c->main_fd);
}

size_t
cluster_commit(struct cluster *c, unsigned *joined, bool *doomed)
{
	pthread_mutex_lock(&c->lock);
	size_t commit = c->commit;
	*doomed = is_doomed(c, false);
	*joined = 0;
	for (unsigned i = 0; i < c->count; i++)
		*joined += c->members[i].state == MEMBER_JOINED;
	pthread_mutex_unlock(&c->lock);

	return commit;
}

/* sums up what the replicas have; returns false if all connected ones have everything */
static bool
is_behind(struct cluster *c, size_t *sum)
{
	bool behind = false;

	*sum = 0;
	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < c->count; i++) {
		const struct member *m = &c->members[i];
		*sum += m->durable;
		behind = behind || (is_connected(m) && (m->state != MEMBER_JOINED || m->durable < c->end));
	}
	pthread_mutex_unlock(&c->lock);

	return behind;
}

void
cluster_drain(struct cluster *c)
{
	int64_t patience_ends_ms = now_ms() + DRAIN_PATIENCE_MS;
	size_t last = 0;
	size_t sum;

	set_phase(c, PHASE_DRAIN);
	while (is_behind(c, &sum) && now_ms() < patience_ends_ms) {
		if (sum != last)
			patience_ends_ms = now_ms() + DRAIN_PATIENCE_MS;
		last = sum;
		wake_wait(c->main_fd, LOOK_MS);
	}
}
