/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * session.c -- the writer's side of one replica
 *
 * A session is one connection, from the request to its end. It reads top to bottom in run_session(): connect,
 * read the header, take part in recovery, bring the replica up to date, replicate. Any error ends the
 * session, and the thread begins another one after a while. Only an error that can never go away makes the
 * replica permanently unusable.
 *
 * Replication works in groups of records: write them, flush them, move the tail past them by an atomic write,
 * flush the tail. The four operations are posted at once, and only the last one gives a completion. They are
 * executed in this order: a flush covers the writes before it, and the atomic write waits for the flush
 * before it (librpma fences it). If one fails, none after it is executed. Several groups are in flight at any
 * time.
 *
 * What a new connection shows may not be durable: the last group may have been executed up to its last flush.
 * So whatever a session reads, it flushes on the same connection (session_read_durable()), before it counts.
 */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "session.h"
#include "session_link.h"

/* approximate size of a group in bytes: a flush costs about the same for fewer bytes */
#define GROUP_BYTES ((size_t)4 << 20)

#define BACKOFF_MIN_MS 50
#define BACKOFF_MAX_MS 1000

static int
read_header(struct session *s)
{
	if (s->remote.size < LOG_SIZE_MIN)
		return session_give_up(s, "its memory is no log: too small");
	if (session_read_durable(s, s->scratch_mr, 0, 0, LOG_HEADER_SIZE))
		return -1;

	enum log_status status = log_header_decode(s->scratch, LOG_HEADER_SIZE, s->remote.size, &s->header);
	if (status != LOG_OK)
		return session_give_up(s, "%s", log_status_2str(status));
	s->lease = s->header.lease;

	return 0;
}

/* the header is known, so the replica may take part, unless its file counts for another member */
static int
enter_cluster(struct session *s)
{
	struct member *m = s->m;

	pthread_mutex_lock(&s->c->lock);
	m->tried = true;
	m->fetch = false;
	m->fetched = false;
	s->entered = cluster_recognize(m, &s->header);
	/* the promise may have been executed on a connection that ended before its completion */
	bool promised = s->c->epoch && m->asked_epoch == s->c->epoch && s->header.promised == s->c->epoch;
	if (s->entered)
		m->state = promised ? MEMBER_PROMISED : MEMBER_READY;
	s->epoch = promised ? s->c->epoch : 0;
	cluster_member_changed(s->c);
	pthread_mutex_unlock(&s->c->lock);

	return s->entered ? 0 : -1;
}

static void
leave_cluster(struct session *s)
{
	struct member *m = s->m;

	pthread_mutex_lock(&s->c->lock);
	bool was_up = m->state == MEMBER_JOINED || m->state == MEMBER_SYNCING;
	if (m->state != MEMBER_UNUSABLE)
		m->state = MEMBER_AWAY;
	m->tried = true;
	m->busy = s->busy;
	m->fetch = false;
	m->fetched = false;
	if (was_up && s->c->phase == PHASE_RUN)
		tell("replica %s: lost", m->name);
	cluster_member_changed(s->c);
	pthread_mutex_unlock(&s->c->lock);
}

/* --- recovery --- */

static int
promise(struct session *s, uint64_t epoch)
{
	if (s->header.promised >= epoch)
		return session_give_up(s,
			"it was promised to another writer, which is, or was, newer than this one");
	pthread_mutex_lock(&s->c->lock);
	s->m->asked_epoch = epoch;
	pthread_mutex_unlock(&s->c->lock);
	if (session_write_word(s, LOG_WORD_PROMISED, epoch))
		return -1;

	s->header.promised = epoch;
	s->epoch = epoch;
	pthread_mutex_lock(&s->c->lock);
	s->m->header.promised = epoch;
	/* the main thread may have chosen a higher one meanwhile */
	if (s->c->epoch == epoch)
		s->m->state = MEMBER_PROMISED;
	cluster_member_changed(s->c);
	pthread_mutex_unlock(&s->c->lock);

	return 0;
}

/* reads the replica's log into the image */
static int
fetch(struct session *s)
{
	const size_t tail = (size_t)s->header.tail;
	int ret = session_register_image(s);

	for (size_t offset = LOG_HEADER_SIZE; ret == 0 && offset < tail; offset += CHUNK)
		ret = session_read_durable(s, s->image_mr, offset, offset,
			tail - offset < CHUNK ? tail - offset : CHUNK);

	/* another image may replace this one before it is decided which log is taken over */
	session_deregister(&s->image_mr);
	if (ret)
		return -1;
	pthread_mutex_lock(&s->c->lock);
	s->m->fetched = true;
	cluster_member_changed(s->c);
	pthread_mutex_unlock(&s->c->lock);

	return 0;
}

/* 1 if it did what the main thread asked for, 0 if there was nothing to do, -1 if it failed */
static int
serve_recovery(struct session *s, const struct view *view)
{
	/* a replica promised to another writer must wait until the main thread chooses a higher epoch */
	if (view->epoch > s->epoch && (s->header.promised < view->epoch || view->phase != PHASE_RECOVER))
		return promise(s, view->epoch) ? -1 : 1;
	if (view->fetch)
		return fetch(s) ? -1 : 1;

	return 0;
}

/* runs until the main thread has recovered the log */
static int
take_part_in_recovery(struct session *s)
{
	for (;;) {
		struct view view = session_look(s);
		int done = serve_recovery(s, &view);

		if (done < 0)
			return -1;
		/* the work took time and may have used up wake-ups, so look again */
		if (done)
			continue;
		if (view.phase != PHASE_RECOVER)
			return 0;
		if (session_wait_for_change(s))
			return -1;
	}
}

/* --- bringing up to date --- */

/* checks that this replica is part of this log; an empty replica becomes part of it */
static int
check_identity(struct session *s)
{
	if (s->header.size != s->c->size)
		return session_give_up(s, "its size is %" PRIu64 ", that of the log is %zu", s->header.size,
			s->c->size);
	if (s->header.epoch == 0)
		return 0;
	if (s->header.log_id != s->c->log_id)
		return session_give_up(s, "it holds another log");
	if (s->header.members != s->c->count)
		return session_give_up(s, "it is one of %" PRIu64 " replicas, not of %u", s->header.members,
			s->c->count);

	return 0;
}

static int
claim_identity(struct session *s)
{
	if (s->header.epoch)
		return 0;

	return session_write_word(s, LOG_WORD_MEMBERS, s->c->count) ||
			session_write_word(s, LOG_WORD_LOG_ID, s->c->log_id)
		? -1
		: 0;
}

/* the number of equal bytes at the beginning, at most len */
static size_t
common_length(const uint8_t *a, const uint8_t *b, size_t len)
{
	size_t i = 0;

	if (memcmp(a, b, len) == 0)
		return len;
	while (a[i] == b[i])
		i++;
	return i;
}

/* true if the replica has a good record there, of at most len bytes, in place of ours: its own, or another writer's */
static bool
is_sound(const struct session *s, const uint8_t *bytes, size_t len, size_t at, size_t end)
{
	struct log_record record;
	struct log_record ours;

	return log_record_decode(bytes, len, &record) == LOG_OK &&
		log_record_decode(s->c->image + at, end - at, &ours) == LOG_OK &&
		record.sequence == ours.sequence;
}

/* the logs differ in the record at this offset: is that of the replica damaged? */
static int
check_record(struct session *s, size_t at, size_t end, bool *damaged)
{
	const size_t left = (size_t)s->header.tail - at;
	const size_t most = log_record_size(LOG_PAYLOAD_MAX);
	const size_t len = left < most ? left : most;
	uint8_t *bytes = malloc(len);
	int ret = 0;

	if (bytes == NULL)
		return session_failed(s, "reading a record", RPMA_E_NOMEM);
	for (size_t offset = 0; ret == 0 && offset < len; offset += CHUNK) {
		size_t part = len - offset < CHUNK ? len - offset : CHUNK;
		ret = session_read_durable(s, s->scratch_mr, 0, at + offset, part);
		if (ret == 0)
			memcpy(bytes + offset, s->scratch, part);
	}
	*damaged = ret == 0 && !is_sound(s, bytes, len, at, end);
	free(bytes);

	return ret;
}

/*
 * Finds the last record boundary up to which the replica's log equals ours; that part is durable there then. The log
 * is damaged if what follows is not a good record of another writer.
 */
static int
compare_logs(struct session *s, size_t *common, bool *damaged)
{
	const size_t end = session_look(s).end;
	const size_t tail = (size_t)s->header.tail;
	const size_t limit = tail < end ? tail : end;
	size_t offset = LOG_HEADER_SIZE;

	while (offset < limit) {
		size_t len = limit - offset < CHUNK ? limit - offset : CHUNK;
		if (session_read_durable(s, s->scratch_mr, 0, offset, len))
			return -1;
		size_t same = common_length(s->scratch, s->c->image + offset, len);
		offset += same;
		if (same < len)
			break;
	}
	*common = log_boundary_before(s->c->image, offset, end);
	*damaged = false;

	return *common < limit ? check_record(s, *common, end, damaged) : 0;
}

/*
 * Takes the vote of a replica whose log is damaged, or has gone back: what it lacks may have been acknowledged. Without
 * an epoch it counts as one that has lost its log, until it joins again. Else the next writer would believe the shorter
 * log.
 */
static int
take_vote(struct session *s, const char *what, size_t common)
{
	pthread_mutex_lock(&s->c->lock);
	tell("replica %s: its log is %s: it is filled again from offset %zu", s->m->name, what, common);
	s->m->joined_epoch = 0;
	s->m->header.epoch = 0;
	pthread_mutex_unlock(&s->c->lock);
	if (s->header.epoch && session_write_word(s, LOG_WORD_EPOCH, 0))
		return -1;
	s->header.epoch = 0;

	return 0;
}

/* keeps the part of the replica's log that equals ours; replication then continues from there */
static int
cut_back(struct session *s)
{
	size_t common;
	bool damaged;

	pthread_mutex_lock(&s->c->lock);
	bool lost = s->m->lost;
	pthread_mutex_unlock(&s->c->lock);
	if (check_identity(s) || session_register_image(s))
		return -1;
	/* compared even if it had joined before: the file may be another one by now */
	if (compare_logs(s, &common, &damaged))
		return -1;
	if ((damaged || lost) && take_vote(s, damaged ? "damaged" : "an older one", common))
		return -1;
	if (common < s->header.tail && session_write_word(s, LOG_WORD_TAIL, common))
		return -1;
	if (claim_identity(s))
		return -1;
	s->sent = common;
	session_set_durable(s, common);

	return 0;
}

/*
 * An empty file does not know what the replica in its place was promised to. So this writer may have been
 * replaced by a newer one, of which only the lost file knew. It has not if a majority without this replica is
 * still promised to it.
 */
static int
await_proof(struct session *s)
{
	pthread_mutex_lock(&s->c->lock);
	bool known = s->m->known_id == s->m->replica_id;
	pthread_mutex_unlock(&s->c->lock);
	if (known)
		return 0;

	const uint64_t question = cluster_ask(s->c);
	while (!cluster_is_newest(s->m, question))
		if (session_wait_for_change(s))
			return -1;

	return 0;
}

/* all that was acknowledged before it came is durable there: from now on the replica counts */
static int
join(struct session *s)
{
	if (s->header.epoch != s->epoch && session_write_word(s, LOG_WORD_EPOCH, s->epoch))
		return -1;

	s->header.epoch = s->epoch;
	pthread_mutex_lock(&s->c->lock);
	s->m->joined_epoch = s->epoch;
	s->m->header.epoch = s->epoch;
	s->m->damaged = false;
	s->m->lost = false;
	tell("replica %s: joined over %s at offset %zu of the log", s->m->name, s->device, s->m->durable);
	pthread_mutex_unlock(&s->c->lock);
	session_set_state(s, MEMBER_JOINED);

	return 0;
}

/* --- replicating --- */

static int
post_group(struct session *s, size_t end)
{
	const size_t group_end = log_boundary(s->c->image, s->sent, s->sent + GROUP_BYTES, end);
	const size_t len = group_end - s->sent;

	int ret = rpma_write(s->conn, s->remote.mr, s->sent, s->image_mr, s->sent, len,
		RPMA_F_COMPLETION_ON_ERROR, NULL);
	if (ret)
		return session_failed(s, "rpma_write", ret);
	if (session_post_flush(s, s->sent, len, RPMA_F_COMPLETION_ON_ERROR) ||
		session_post_word(s, LOG_WORD_TAIL, group_end))
		return -1;

	s->groups[(s->first + s->in_flight) % GROUPS_MAX] = group_end;
	s->in_flight++;
	s->sent = group_end;

	return 0;
}

static int
post_groups(struct session *s, size_t end)
{
	while (s->in_flight < GROUPS_MAX && s->sent < end)
		if (post_group(s, end))
			return -1;
	return 0;
}

/* completions come in order, so this one belongs to the oldest group */
static int
collect_groups(struct session *s)
{
	size_t durable = 0;
	int ret;

	while (s->in_flight && (ret = session_poll_completion(s)) != 0) {
		if (ret < 0)
			return -1;
		durable = s->groups[s->first];
		s->first = (s->first + 1) % GROUPS_MAX;
		s->in_flight--;
	}
	if (durable)
		session_set_durable(s, durable);

	return 0;
}

/* replicates up to end or, if follow is true, also what is appended later */
static int
replicate(struct session *s, size_t end, bool follow)
{
	for (;;) {
		struct view view = session_look(s);
		if (follow)
			end = view.end;
		if (post_groups(s, end) || collect_groups(s))
			return -1;
		if (s->in_flight == 0 && s->sent >= end && !follow)
			return 0;
		/* else the collected groups have made room for more */
		if ((s->in_flight == GROUPS_MAX || s->sent >= end) && session_wait_for_change(s))
			return -1;
	}
}

static int
run_session(struct session *s)
{
	if (session_open_connection(s) || read_header(s) || enter_cluster(s))
		return -1;

	if (take_part_in_recovery(s))
		return -1;

	session_set_state(s, MEMBER_SYNCING);
	if (await_proof(s) || cut_back(s))
		return -1;
	const size_t commit = session_look(s).commit;
	const size_t recovered = s->c->recovered_end;
	if (replicate(s, commit > recovered ? commit : recovered, false) || join(s))
		return -1;

	return replicate(s, 0, true);
}

/* frees everything of one connection; the device and its registered memory stay */
static void
end_session(struct session *s)
{
	session_close_connection(s);
	exchange_release(&s->remote);
	leave_cluster(s);
	s->event_fd = -1;
	s->closed = false;
	s->busy = false;
	s->entered = false;
	s->epoch = 0;
	s->first = 0;
	s->in_flight = 0;
	s->renew_at_ms = 0;
	s->renewing = false;
	s->question = 0;
	s->completed = 0;
}

/* sleeps before the next attempt; false if there will be none */
static bool
back_off(struct session *s, int ms)
{
	const int64_t until_ms = now_ms() + ms;

	for (;;) {
		pthread_mutex_lock(&s->c->lock);
		bool over = s->c->phase >= PHASE_DRAIN || s->m->state == MEMBER_UNUSABLE;
		pthread_mutex_unlock(&s->c->lock);
		int64_t left_ms = until_ms - now_ms();
		if (over || left_ms <= 0)
			return !over;
		wake_wait(s->m->wake_fd, (int)left_ms);
	}
}

void *
session_thread(void *arg)
{
	struct member *m = arg;
	struct session s = { .m = m, .c = m->cluster, .event_fd = -1 };
	int backoff_ms = BACKOFF_MIN_MS;

	s.scratch = aligned_alloc(LOG_HEADER_SIZE, CHUNK);
	if (s.scratch == NULL) {
		(void)session_give_up(&s, "out of memory");
		return NULL;
	}

	do {
		(void)run_session(&s);
		/* an attempt that came this far did not fail */
		backoff_ms = s.entered ? BACKOFF_MIN_MS : backoff_ms * 2;
		if (backoff_ms > BACKOFF_MAX_MS)
			backoff_ms = BACKOFF_MAX_MS;
		end_session(&s);
	} while (back_off(&s, backoff_ms));

	session_deregister(&s.image_mr);
	session_deregister(&s.scratch_mr);
	(void)rpma_peer_delete(&s.peer);
	free(s.scratch);

	return NULL;
}
