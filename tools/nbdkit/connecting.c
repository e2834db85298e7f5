/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* connecting.c -- makes the connection to the keeper, and makes it again after it was lost */

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "disk_internal.h"

/* time to make one connection */
#define CONNECT_TIMEOUT_MS 5000
/* from the beginning of one attempt to connect to the next: longer each time, until a link has held */
#define PAUSE_MIN_MS 50
#define PAUSE_MAX_MS 1000
/* a link that has been up for this time has held: connecting at once is then as rare as after the longest pause */
#define HELD_MS PAUSE_MAX_MS

/* --- ending a connection --- */

void
link_break(struct disk *d, const char *why)
{
	if (d->state != LINK_UP && d->state != LINK_REPLAYING)
		return;
	disk_say(d, "%s: %s; requests wait, and fail after %d s without progress", d->config->name, why,
		d->config->timeout_ms / 1000);
	d->state = LINK_BROKEN;
	(void)eventfd_write(d->wake_fd, 1);
}

void
link_fail(struct disk *d, const char *why)
{
	disk_say(d, "%s: %s; all requests fail from now on", d->config->name, why);
	d->failing = true;
	if (d->state == LINK_DOWN) {
		d->state = LINK_FAILED;
		pthread_cond_broadcast(&d->link_changed);
	} else if (d->state != LINK_FAILED) {
		d->state = LINK_BROKEN;
		(void)eventfd_write(d->wake_fd, 1);
	}
}

/* deletes the connection; from BROKEN to DOWN or FAILED */
static void
close_link(struct disk *d)
{
	assert(d->state == LINK_BROKEN);
	/* the operations complete now, with an error, which ends a wait for completions */
	(void)rpma_conn_disconnect(d->link.conn);
	while (d->collecting)
		disk_wait(d, &d->collected, INT64_MAX);
	/* the end of the connection may be known before its last completions are collected */
	(void)ops_take(d);
	pthread_mutex_unlock(&d->lock);
	keeper_link_close(&d->link);
	pthread_mutex_lock(&d->lock);
	/* after the connection is deleted, so that the device has done with their buffers */
	ops_lost(d);
	d->state = d->failing ? LINK_FAILED : LINK_DOWN;
	pthread_cond_broadcast(&d->link_changed);
}

/* --- connecting --- */

static void
fill_request(const struct disk *d, uint8_t how, struct keeper_request *request)
{
	*request = (struct keeper_request){ .client = d->client };
	if (!d->config->read_only)
		request->want = KEEPER_WANT_WRITE | how;
	memcpy(request->name, d->config->name, strnlen(d->config->name, KEEPER_NAME_MAX));
}

/* operations of all requests, and the ranges of a flush, in pieces if hardware needs that */
static uint32_t
queue_size(uint64_t disk_size, bool is_soft)
{
	const uint64_t pieces = is_soft ? 0 : disk_size / FLUSH_MAX + 1;
	const uint64_t size = OPS_MAX + RANGES_MAX + pieces;

	return size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}

static enum keeper_opened
open_link(struct disk *d, uint8_t how, uint64_t size, struct keeper_link *link,
	struct keeper_refusal *refusal, char why[static WHY_MAX])
{
	const struct keeper_target target = {
		.host = d->config->host,
		.port = d->config->port,
		.queue_size = queue_size(size, d->is_soft),
		.timeout_ms = CONNECT_TIMEOUT_MS,
	};
	struct keeper_request request;

	fill_request(d, how, &request);
	return keeper_link_open(d->peer, &target, &request, link, refusal, why);
}

static bool
open_peer(const struct disk_config *config, struct rpma_peer **peer, char why[static WHY_MAX])
{
	struct ibv_context *context;

	if (rpma_utils_get_ibv_context(config->host, RPMA_UTIL_IBV_CONTEXT_REMOTE, &context) ||
		rpma_peer_new(context, peer))
		return why_rpma(why, config->host);
	return true;
}

static bool
check_memory(const struct disk_config *config, const struct keeper_reply *reply, char why[static WHY_MAX])
{
	if (reply->persistence != KEEPER_VOLATILE || config->volatile_allowed || config->read_only)
		return true;
	return why_say(why,
		"the memory is volatile: a flush would not make anything durable; volatile=true accepts that");
}

static const char *
why_only_reading(uint8_t reason)
{
	if (reason == KEEPER_REFUSED_READ_ONLY)
		return "the memory is lent for reading only";
	if (reason == KEEPER_REFUSED_MEDIUM)
		return "the medium of the memory has failed: see --clear-failed in rpma-keeper(1)";
	return "the access of an earlier client could not be revoked: the keeper must be started again";
}

bool
disk_probe(const struct disk_config *config, struct disk_facts *facts, char why[static WHY_MAX])
{
	struct disk d = { .config = config };
	struct disk_config reading = *config;
	struct keeper_link link;
	struct keeper_refusal refusal;

	reading.read_only = true; /* takes the memory from no client */
	if (!keeper_client_id(&d.client))
		return why_say(why, "getrandom: %m");
	if (!open_peer(config, &d.peer, why))
		return false;
	d.config = &reading;
	bool good = open_link(&d, 0, 0, &link, &refusal, why) == KEEPER_OPENED;
	if (good) {
		*facts = (struct disk_facts){
			.size = link.reply.size,
			.block_size = UINT32_C(1) << link.reply.block_shift,
			.persistence = link.reply.persistence,
		};
		good = check_memory(config, &link.reply, why);
		/* nbdkit cannot tell that it fails after it has forked, so what the keeper would refuse then is refused now */
		if (good && link.reply.only_reading && !config->read_only)
			good = why_say(why, "%s; readonly=true reads it",
				why_only_reading(link.reply.only_reading));
		if (good && link.reply.lent && !config->read_only && !config->takeover)
			good = why_say(why,
				"another client has the memory for writing; takeover=true takes it from that one");
		keeper_link_close(&link);
	}
	(void)rpma_peer_delete(&d.peer);
	return good;
}

static bool
register_buffers(struct disk *d, char why[static WHY_MAX])
{
	if (rpma_mr_reg(d->peer, d->journal_data, d->config->journal_size, RPMA_MR_USAGE_WRITE_SRC,
		    &d->journal_mr) ||
		rpma_mr_reg(d->peer, d->read_data, READ_BUFFERS * PIECE_MAX, RPMA_MR_USAGE_READ_DST,
			&d->read_mr) ||
		rpma_mr_reg(d->peer, d->zero_data, PIECE_MAX, RPMA_MR_USAGE_WRITE_SRC, &d->zero_mr))
		return why_rpma(why, "registering buffers");
	return true;
}

/* takes a new connection; the link is not up yet */
static void
use_link(struct disk *d, const struct keeper_link *link)
{
	d->link = *link;
	d->has_failed = false;
	d->up_ms = INT64_MAX;
	/* neither can fail: the connection exists */
	(void)rpma_conn_get_cq(d->link.conn, &d->cq);
	assert(d->cq);
}

bool
link_connect_first(struct disk *d, const struct disk_facts *facts, char why[static WHY_MAX])
{
	struct keeper_link link;
	struct keeper_refusal refusal;
	uint32_t caps = 0;

	if (!open_peer(d->config, &d->peer, why) || !register_buffers(d, why))
		return false;
	d->is_soft = rpma_peer_get_caps(d->peer, &caps) == 0 && (caps & RPMA_CAP_SOFT);
	if (open_link(d, d->config->takeover ? KEEPER_WANT_TAKEOVER : 0, facts->size, &link, &refusal, why) !=
		KEEPER_OPENED)
		return false;
	bool good = check_memory(d->config, &link.reply, why);
	if (good && link.reply.size != facts->size)
		good = why_say(why, "the memory has another size than a moment ago");
	if (!good) {
		keeper_link_close(&link);
		return false;
	}
	d->known = link.reply;
	/* each flush of pages costs a write to the disk, so one for all is best; that of lines costs by length */
	ranges_init(&d->dirty, link.reply.persistence == KEEPER_LINES ? RANGES_MAX : 1);
	d->inherits = !d->config->read_only && link.reply.persistence != KEEPER_VOLATILE;
	if (d->inherits)
		ranges_add(&d->dirty, 0, link.reply.size);
	use_link(d, &link);
	d->state = LINK_UP;
	d->up_ms = disk_now_ms();
	return true;
}

/* true if the memory is still the one that was known; else the link is given up */
static bool
is_same_memory(struct disk *d, const struct keeper_reply *reply)
{
	if (memcmp(reply->identity, d->known.identity, KEEPER_IDENTITY_SIZE) != 0)
		link_fail(d, "the keeper came back with other memory of this name");
	else if (reply->size != d->known.size)
		link_fail(d, "the memory came back with another size");
	else if (reply->persistence != d->known.persistence)
		link_fail(d, "the memory came back with another kind of persistence");
	else
		return true;
	return false;
}

/* tries to connect once; from DOWN to REPLAYING, or FAILED, or none of them */
static void
connect_again(struct disk *d)
{
	struct keeper_link link;
	struct keeper_refusal refusal;
	char why[WHY_MAX];

	pthread_mutex_unlock(&d->lock);
	enum keeper_opened opened = open_link(d, KEEPER_WANT_RESUME, d->known.size, &link, &refusal, why);
	pthread_mutex_lock(&d->lock);
	if (opened == KEEPER_UNREACHABLE ||
		(opened == KEEPER_REFUSED && keeper_reason_may_pass(refusal.reason)))
		return;
	if (opened != KEEPER_OPENED) {
		link_fail(d, why);
		return;
	}
	if (!is_same_memory(d, &link.reply)) {
		pthread_mutex_unlock(&d->lock);
		keeper_link_close(&link);
		pthread_mutex_lock(&d->lock);
		return;
	}
	use_link(d, &link);
	d->state = LINK_REPLAYING;
}

/* --- replaying --- */

/* writes some of the entries from number on, and waits for them; returns the number of the next one */
static uint64_t
replay_some(struct disk *d, uint64_t number, struct op *op)
{
	const int64_t deadline_ms = disk_now_ms() + d->config->timeout_ms;
	size_t bytes = 0;
	uint64_t after = number;

	for (int i = 0; i < OPS_MAX && after < d->journal.end && bytes < REPLAY_MAX; i++)
		bytes += journal_get(&d->journal, after++)->len;
	for (uint64_t i = number; i < after; i++)
		op_post_write(d, i == after - 1 ? op : NULL, journal_get(&d->journal, i));
	/* as op_wait, but this thread is the one that makes operations lost */
	while (op->state == OP_POSTED && d->state == LINK_REPLAYING && !d->stopping) {
		if (disk_now_ms() >= deadline_ms)
			link_break(d, "the keeper does not answer in time");
		else
			ops_collect(d, deadline_ms);
	}
	return after;
}

/* writes the journal again; from REPLAYING to UP, or BROKEN */
static void
replay(struct disk *d, struct op *op)
{
	const uint64_t first = d->journal.first;

	/* also what a flush was about when the connection was lost */
	ranges_clear(&d->dirty);
	if (d->inherits)
		ranges_add(&d->dirty, 0, d->known.size);
	for (uint64_t i = first; i < d->journal.end; i++) {
		const struct journal_entry *entry = journal_get(&d->journal, i);
		ranges_add(&d->dirty, entry->offset, entry->offset + entry->len);
	}
	/* from the first entry on, the memory may have older data than what was answered, and the end of the disk waits */
	d->owes = d->owes || first < d->journal.end;
	/* each thread that writes adds one entry at most meanwhile, and waits for the link then */
	for (uint64_t number = first; number < d->journal.end && d->state == LINK_REPLAYING && !d->stopping;)
		number = replay_some(d, number, op);
	if (d->state != LINK_REPLAYING || d->stopping)
		return;
	d->state = LINK_UP;
	d->up_ms = disk_now_ms();
	d->replayed = d->journal.end;
	d->owes = false;
	disk_say(d, "%s: connected again; %llu writes that had not been flushed were written again",
		d->config->name, (unsigned long long)(d->journal.end - first));
	pthread_cond_broadcast(&d->link_changed);
}

/* --- the thread --- */

/* waits for the end of the connection, or to be woken */
static void
watch_link(struct disk *d)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct pollfd fds[] = { { .fd = d->wake_fd, .events = POLLIN }, { .fd = -1, .events = POLLIN } };
	struct rpma_conn *conn = d->link.conn;
	eventfd_t count;

	pthread_mutex_unlock(&d->lock);
	(void)rpma_conn_get_event_fd(conn, &fds[1].fd);
	int n = poll(fds, 2, -1);
	int ret = n > 0 && fds[1].revents ? rpma_conn_next_event_timed(conn, 0, &event) : RPMA_E_NO_EVENT;
	if (fds[0].revents)
		(void)eventfd_read(d->wake_fd, &count);
	pthread_mutex_lock(&d->lock);
	if (n < 0 && errno != EINTR)
		link_break(d, "the connection cannot be watched");
	else if (ret != RPMA_E_NO_EVENT)
		link_break(d, ret ? rpma_err_2str(ret) : rpma_utils_conn_event_2str(event));
}

/* waits for the end of the pause, or of the disk; true if it is time to connect, and another pause begins */
static bool
pause_has_passed(struct disk *d)
{
	const int64_t until_ms = d->tried_ms + d->pause_ms;

	while (disk_now_ms() < until_ms && !d->stopping)
		disk_wait(d, &d->link_changed, until_ms);
	if (d->stopping)
		return false;
	d->tried_ms = disk_now_ms();
	if (d->pause_ms == 0)
		d->pause_ms = PAUSE_MIN_MS;
	else
		d->pause_ms = d->pause_ms * 2 < PAUSE_MAX_MS ? d->pause_ms * 2 : PAUSE_MAX_MS;
	return true;
}

void *
link_run(void *arg)
{
	struct disk *d = arg;
	struct op op;

	bool has_op = op_init(&op);
	pthread_mutex_lock(&d->lock);
	while (!d->stopping && d->state != LINK_FAILED) {
		switch (d->state) {
		case LINK_UP:
			watch_link(d);
			break;
		case LINK_BROKEN:
			if (disk_now_ms() - d->up_ms >= HELD_MS)
				d->pause_ms = 0;
			close_link(d);
			break;
		case LINK_DOWN:
			if (!has_op)
				link_fail(d, "out of memory");
			else if (pause_has_passed(d))
				connect_again(d);
			break;
		case LINK_REPLAYING:
			replay(d, &op);
			break;
		case LINK_FAILED:
			break;
		}
	}
	/* when the disk is stopped no request is running, but a replay may be */
	if (d->state == LINK_REPLAYING || d->state == LINK_UP)
		d->state = LINK_BROKEN;
	if (d->state == LINK_BROKEN)
		close_link(d);
	if (has_op)
		op_fini(&op);
	pthread_mutex_unlock(&d->lock);
	return NULL;
}
