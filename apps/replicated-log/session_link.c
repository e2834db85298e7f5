/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>

#include "clock.h"
#include "connection.h"
#include "protocol.h"
#include "session_link.h"

#define RESOLVE_TIMEOUT_MS 500
#define CONNECT_TIMEOUT_MS 5000
#define CLOSE_TIMEOUT_MS 1000

/* its address marks the completion of a renewal of the lease */
static const char lease_context;

/* two threads must not call the functions of librpma for addresses and memory at once */
static pthread_mutex_t setup_lock = PTHREAD_MUTEX_INITIALIZER;

struct view
session_look(struct session *s)
{
	pthread_mutex_lock(&s->c->lock);
	struct view view = {
		.phase = s->c->phase,
		.question = s->c->question,
		.commit = s->c->commit,
		.epoch = s->c->epoch,
		.end = s->c->end,
		.fetch = s->m->fetch && !s->m->fetched,
	};
	pthread_mutex_unlock(&s->c->lock);

	return view;
}

static bool
is_stopped(struct session *s)
{
	return session_look(s).phase == PHASE_STOP;
}

void
session_set_state(struct session *s, enum member_state state)
{
	pthread_mutex_lock(&s->c->lock);
	s->m->state = state;
	cluster_member_changed(s->c);
	pthread_mutex_unlock(&s->c->lock);
}

void
session_set_durable(struct session *s, size_t durable)
{
	pthread_mutex_lock(&s->c->lock);
	s->m->durable = durable;
	cluster_member_changed(s->c);
	pthread_mutex_unlock(&s->c->lock);
}

__attribute__((format(printf, 2, 3))) int
session_give_up(struct session *s, const char *format, ...)
{
	va_list args;

	pthread_mutex_lock(&s->c->lock);
	va_start(args, format);
	vsnprintf(s->m->reason, sizeof(s->m->reason), format, args);
	va_end(args);
	s->m->state = MEMBER_UNUSABLE;
	cluster_member_changed(s->c);
	tell("replica %s cannot be used: %s", s->m->name, s->m->reason);
	pthread_mutex_unlock(&s->c->lock);

	return -1;
}

int
session_failed(struct session *s, const char *call, int ret)
{
	tell("replica %s: %s failed: %s", s->m->name, call, rpma_err_2str(ret));
	return -1;
}

/* --- waiting --- */

/* collects an event of the connection, if there is one */
static void
next_event(struct session *s, enum rpma_conn_event *event)
{
	int ret = rpma_conn_next_event(s->conn, event);
	if (ret == RPMA_E_NO_EVENT)
		return;
	if (ret || *event != RPMA_CONN_ESTABLISHED)
		s->closed = true;
}

/* tells the replica that this writer is at work; protocol.h has the reason */
static int
renew_lease(struct session *s)
{
	const int64_t now = now_ms();
	uint8_t bytes[LOG_WORD_SIZE];

	const struct view view = session_look(s);
	const uint64_t question = s->epoch && s->epoch == view.epoch ? view.question : 0;
	if (s->renewing || (now < s->renew_at_ms && question == s->question))
		return 0;

	s->question = question;
	s->lease = (s->lease + 1) & LOG_WORD_MAX;
	log_word_encode(bytes, LOG_WORD_LEASE, s->lease);
	int ret = rpma_atomic_write(s->conn, s->remote.mr, LOG_WORD_LEASE, (const char *)bytes,
		RPMA_F_COMPLETION_ALWAYS, &lease_context);
	if (ret)
		return session_failed(s, "rpma_atomic_write", ret);
	s->renewing = true;
	s->renew_at_ms = now + LEASE_RENEW_MS;

	return 0;
}

/* collects all completions: counts them, but for those of renewals */
static int
drain(struct session *s)
{
	struct ibv_wc wc;
	int ret;

	while ((ret = rpma_cq_get_wc(s->cq, 1, &wc, NULL)) == 0) {
		if (wc.status != IBV_WC_SUCCESS) {
			tell("replica %s: an operation failed: %s", s->m->name, ibv_wc_status_str(wc.status));
			return -1;
		}
		if (wc.wr_id != (uintptr_t)&lease_context) {
			s->completed++;
			continue;
		}
		s->renewing = false;
		cluster_answer(s->m, s->question);
	}

	return ret == RPMA_E_NO_COMPLETION ? 0 : session_failed(s, "rpma_cq_get_wc", ret);
}

int
session_wait_for_change(struct session *s)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct pollfd pfds[] = {
		{ .fd = s->m->wake_fd, .events = POLLIN },
		{ .fd = s->event_fd, .events = POLLIN },
		{ .fd = s->cq_fd, .events = POLLIN },
	};

	if (renew_lease(s))
		return -1;
	if (poll(pfds, 3, LEASE_RENEW_MS) < 0 && errno != EINTR)
		return -1;
	if (pfds[0].revents)
		wake_wait(s->m->wake_fd, 0);
	if (pfds[1].revents)
		next_event(s, &event);
	if (pfds[2].revents) {
		int ret = rpma_cq_wait(s->cq);
		if (ret && ret != RPMA_E_NO_COMPLETION)
			return session_failed(s, "rpma_cq_wait", ret);
		if (drain(s))
			return -1;
	}

	return s->closed || is_stopped(s) ? -1 : 0;
}

int
session_poll_completion(struct session *s)
{
	if (drain(s))
		return -1;
	if (s->completed == 0)
		return 0;
	s->completed--;

	return 1;
}

/* waits for the completion of the only operation in flight, but for a renewal of the lease */
static int
await_completion(struct session *s)
{
	assert(s->in_flight == 0);
	for (;;) {
		int ret = session_poll_completion(s);
		if (ret)
			return ret < 0 ? -1 : 0;
		if (session_wait_for_change(s))
			return -1;
	}
}

/* --- single operations --- */

/*
 * The fence makes the flush wait until the read is done, so the flush covers what the read has shown. A flush
 * before the read could miss a write that an earlier connection has left behind.
 */
int
session_read_durable(struct session *s, struct rpma_mr_local *dst, size_t dst_offset, size_t offset,
	size_t len)
{
	int ret = rpma_read(s->conn, dst, dst_offset, s->remote.mr, offset, len, RPMA_F_COMPLETION_ON_ERROR,
		NULL);
	if (ret)
		return session_failed(s, "rpma_read", ret);
	if (session_post_flush(s, offset, len, RPMA_F_COMPLETION_ALWAYS | RPMA_F_FENCE))
		return -1;

	return await_completion(s);
}

/* makes a range of the replica durable; the completion, if any, tells when */
int
session_post_flush(struct session *s, size_t offset, size_t len, int flags)
{
	int ret = rpma_flush(s->conn, s->remote.mr, offset, len, RPMA_FLUSH_TYPE_PERSISTENT, flags, NULL);
	if (ret == RPMA_E_NOSUPP)
		return session_give_up(s, "its memory cannot be flushed to persistence");
	if (ret)
		return session_failed(s, "rpma_flush", ret);

	return 0;
}

int
session_post_word(struct session *s, enum log_word word, uint64_t value)
{
	uint8_t bytes[LOG_WORD_SIZE];

	log_word_encode(bytes, word, value);
	int ret = rpma_atomic_write(s->conn, s->remote.mr, word, (const char *)bytes,
		RPMA_F_COMPLETION_ON_ERROR, NULL);
	if (ret)
		return session_failed(s, "rpma_atomic_write", ret);

	return session_post_flush(s, word, LOG_WORD_SIZE, RPMA_F_COMPLETION_ALWAYS);
}

int
session_write_word(struct session *s, enum log_word word, uint64_t value)
{
	return session_post_word(s, word, value) || await_completion(s) ? -1 : 0;
}

/* --- connecting --- */

/* opens what lives as long as the thread: the device, and memory to read into */
static int
prepare_peer(struct session *s)
{
	if (s->scratch_mr)
		return 0;

	int ret = s->peer ? 0
			  : peer_new_by_addr(s->m->addr, RPMA_UTIL_IBV_CONTEXT_REMOTE, &s->peer, &s->device);
	if (ret)
		return -1;
	ret = rpma_mr_reg(s->peer, s->scratch, CHUNK, RPMA_MR_USAGE_READ_DST, &s->scratch_mr);

	return ret ? session_failed(s, "rpma_mr_reg", ret) : 0;
}

static int
new_request(struct session *s, struct rpma_conn_req **req)
{
	struct rpma_conn_cfg *cfg = NULL;

	int ret = rpma_conn_cfg_new(&cfg);
	if (ret == 0)
		ret = rpma_conn_cfg_set_timeout(cfg, RESOLVE_TIMEOUT_MS);
	if (ret == 0)
		ret = rpma_conn_cfg_set_connect_timeout(cfg, CONNECT_TIMEOUT_MS);
	if (ret == 0)
		ret = rpma_conn_cfg_set_sq_size(cfg, QUEUE_SIZE);
	if (ret == 0)
		ret = rpma_conn_cfg_set_cq_size(cfg, QUEUE_SIZE);
	if (ret == 0)
		ret = rpma_conn_req_new(s->peer, s->m->addr, s->m->port, cfg, req);
	(void)rpma_conn_cfg_delete(&cfg);

	return ret;
}

/* makes a descriptor non-blocking, since it may become readable without an event */
static int
set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? -1 : 0;
}

static int
open_descriptors(struct session *s)
{
	int ret = rpma_conn_get_cq(s->conn, &s->cq);
	if (ret == 0)
		ret = rpma_cq_get_fd(s->cq, &s->cq_fd);
	if (ret == 0)
		ret = rpma_conn_get_event_fd(s->conn, &s->event_fd);
	if (ret)
		return session_failed(s, "getting the descriptors", ret);

	return set_nonblocking(s->cq_fd) || set_nonblocking(s->event_fd) ? -1 : 0;
}

/* true if a replica rejected the request because it serves another writer (an unused port sends no data) */
static bool
is_busy(struct session *s)
{
	struct rpma_conn_private_data pdata;

	return rpma_conn_get_private_data(s->conn, &pdata) == 0 && pdata_begins_with(&pdata, BUSY, BUSY_SIZE);
}

/* the library guarantees an event in time */
static int
await_established(struct session *s)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	while (event != RPMA_CONN_ESTABLISHED && !s->closed) {
		struct pollfd pfds[] = {
			{ .fd = s->event_fd, .events = POLLIN },
			{ .fd = s->m->wake_fd, .events = POLLIN },
		};
		if (is_stopped(s) || (poll(pfds, 2, -1) < 0 && errno != EINTR))
			return -1;
		if (pfds[0].revents)
			next_event(s, &event);
		if (pfds[1].revents)
			wake_wait(s->m->wake_fd, 0);
	}
	s->busy = event == RPMA_CONN_REJECTED && is_busy(s);

	return s->closed ? -1 : 0;
}

/* reads where the replica's memory is */
static int
read_answer(struct session *s)
{
	int ret = exchange_unpack(s->conn, &s->remote);
	if (ret)
		return session_give_up(s, "it is no replica");
	if (s->remote.pcfg)
		ret = rpma_conn_apply_remote_peer_cfg(s->conn, s->remote.pcfg);

	return ret ? session_failed(s, "rpma_conn_apply_remote_peer_cfg", ret) : 0;
}

int
session_open_connection(struct session *s)
{
	const struct rpma_conn_private_data hello = { (void *)(uintptr_t)HELLO, HELLO_SIZE };
	struct rpma_conn_req *req = NULL;

	pthread_mutex_lock(&setup_lock);
	int ret = prepare_peer(s);
	if (ret == 0)
		ret = new_request(s, &req);
	pthread_mutex_unlock(&setup_lock);
	if (ret)
		return -1;

	ret = rpma_conn_req_connect(&req, &hello, &s->conn);
	if (ret)
		return session_failed(s, "rpma_conn_req_connect", ret);

	return open_descriptors(s) || await_established(s) || read_answer(s) ? -1 : 0;
}

void
session_close_connection(struct session *s)
{
	if (s->conn == NULL)
		return;

	const int64_t deadline_ms = now_ms() + CLOSE_TIMEOUT_MS;
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct pollfd pfd = { .fd = s->event_fd, .events = POLLIN };

	bool closing = !s->closed && rpma_conn_disconnect(s->conn) == 0;
	while (closing && !s->closed && now_ms() < deadline_ms &&
		poll(&pfd, 1, (int)(deadline_ms - now_ms())) > 0)
		next_event(s, &event);
	int ret = rpma_conn_delete(&s->conn);
	if (ret)
		(void)session_failed(s, "rpma_conn_delete", ret);
}

/* --- memory --- */

int
session_register_image(struct session *s)
{
	if (s->image_mr)
		return 0;

	pthread_mutex_lock(&setup_lock);
	int ret = rpma_mr_reg(s->peer, s->c->image, s->c->size,
		RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC, &s->image_mr);
	pthread_mutex_unlock(&setup_lock);

	return ret ? session_failed(s, "rpma_mr_reg", ret) : 0;
}

void
session_deregister(struct rpma_mr_local **mr)
{
	pthread_mutex_lock(&setup_lock);
	(void)rpma_mr_dereg(mr);
	pthread_mutex_unlock(&setup_lock);
}
