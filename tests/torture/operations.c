/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* operations.c -- scenarios of operations over a connection */

#include <string.h>
#include <unistd.h>

#include "fault.h"
#include "pattern.h"
#include "torture.h"

#define SEED 42
#define CTX ((const void *)(uintptr_t)7)
#define ALWAYS RPMA_F_COMPLETION_ALWAYS

#define SERVER_USAGE \
	(RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_RECV | \
		RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)
#define NO_RECV (SERVER_USAGE & ~RPMA_MR_USAGE_RECV)
#define CLIENT_USAGE (RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_SEND)

static struct rpma_cq *
receive_cq(const struct side *s)
{
	return s->rcq ? s->rcq : s->cq;
}

static bool
completed(struct world *w)
{
	struct ibv_wc wc;

	return world_completion(w, &w->client, w->client.cq, 7, &wc);
}

/* the payload of an operation that has succeeded must be there */
static bool
arrived(const struct world *w, const struct side *s)
{
	if (pattern_check(s->mem, w->plan.size, SEED, 0) >= 0)
		wrong("an operation has succeeded, and the payload is not there");
	return true;
}

static bool
received(struct world *w)
{
	struct ibv_wc wc;

	if (!world_completion(w, &w->server, receive_cq(&w->server), 1, &wc))
		return false;
	return true;
}

static bool
open_pair(struct world *w, int server_usage)
{
	if (!world_pair(w, server_usage, CLIENT_USAGE))
		return false;
	pattern_fill(w->client.mem, w->plan.size, SEED, 0);
	return true;
}

static bool
over(struct world *w)
{
	return world_disconnect(w, &w->client);
}

static bool
post_write(struct world *w)
{
	return judge("rpma_write",
		rpma_write(w->client.conn, w->client.remote, 0, w->client.mr, 0, w->plan.size, ALWAYS, CTX));
}

static bool
do_write(struct world *w)
{
	return open_pair(w, NO_RECV) && post_write(w) && completed(w) && arrived(w, &w->server) && over(w);
}

static bool
do_read(struct world *w)
{
	if (!open_pair(w, NO_RECV))
		return false;
	pattern_fill(w->server.mem, w->plan.size, SEED, 0);
	memset(w->client.mem, 0, w->plan.size);
	return judge("rpma_read",
		       rpma_read(w->client.conn, w->client.mr, 0, w->client.remote, 0, w->plan.size, ALWAYS,
			       CTX)) &&
		completed(w) && arrived(w, &w->client) && over(w);
}

static bool
do_write_imm(struct world *w)
{
	return open_pair(w, SERVER_USAGE) &&
		judge("rpma_write_with_imm",
			rpma_write_with_imm(w->client.conn, w->client.remote, 0, w->client.mr, 0,
				w->plan.size, ALWAYS, 1234, CTX)) &&
		completed(w) && arrived(w, &w->server) && received(w) && over(w);
}

static bool
post_send(struct world *w)
{
	return judge("rpma_send", rpma_send(w->client.conn, w->client.mr, 0, w->plan.size, ALWAYS, CTX));
}

static bool
do_send(struct world *w)
{
	return open_pair(w, SERVER_USAGE) && post_send(w) && completed(w) && received(w) &&
		arrived(w, &w->server) && over(w);
}

static bool
do_send_imm(struct world *w)
{
	return open_pair(w, SERVER_USAGE) &&
		judge("rpma_send_with_imm",
			rpma_send_with_imm(w->client.conn, w->client.mr, 0, w->plan.size, ALWAYS, 9, CTX)) &&
		completed(w) && received(w) && arrived(w, &w->server) && over(w);
}

/* the message arrives before the receive is posted */
static bool
do_send_early(struct world *w)
{
	return world_pair(w, NO_RECV, CLIENT_USAGE) &&
		judge("rpma_send", rpma_send(w->client.conn, NULL, 0, 0, ALWAYS, CTX)) &&
		judge("rpma_recv", rpma_recv(w->server.conn, NULL, 0, 0, (const void *)(uintptr_t)1)) &&
		completed(w) && received(w) && over(w);
}

static bool
do_atomic_write(struct world *w)
{
	char bytes[8];

	pattern_fill(bytes, sizeof(bytes), SEED, 0);
	if (!open_pair(w, NO_RECV) ||
		!judge("rpma_atomic_write",
			rpma_atomic_write(w->client.conn, w->client.remote, 0, bytes, ALWAYS, CTX)) ||
		!completed(w))
		return false;
	if (memcmp(w->server.mem, bytes, sizeof(bytes)) != 0)
		wrong("an atomic write has succeeded, and is not there");
	return over(w);
}

static bool
post_flush(struct world *w, enum rpma_flush_type type)
{
	return judge("rpma_flush",
		rpma_flush(w->client.conn, w->client.remote, 0, w->plan.size, type, ALWAYS, CTX));
}

static bool
do_flush(struct world *w)
{
	return open_pair(w, NO_RECV) &&
		judge("rpma_write",
			rpma_write(w->client.conn, w->client.remote, 0, w->client.mr, 0, w->plan.size,
				RPMA_F_COMPLETION_ON_ERROR, CTX)) &&
		post_flush(w, (enum rpma_flush_type)w->plan.detail) && completed(w) &&
		arrived(w, &w->server) && over(w);
}

/* if a fault has hidden the file of a region, the region has no right to be flushed */
static bool
do_flush_persistent(struct world *w)
{
	int flush_type = 0;

	if (!open_pair(w, NO_RECV) ||
		!judge("rpma_mr_remote_get_flush_type",
			rpma_mr_remote_get_flush_type(w->client.remote, &flush_type)))
		return false;
	if (!(flush_type & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)) {
		if (!fault_used())
			wrong("a mapping of a file cannot be made durable");
		return false;
	}
	return post_write(w) && completed(w) && post_flush(w, RPMA_FLUSH_TYPE_PERSISTENT) && completed(w) &&
		arrived(w, &w->server) && post_flush(w, RPMA_FLUSH_TYPE_PERSISTENT) && completed(w) &&
		over(w);
}

/* polls often enough to own the socket, which the wait afterwards returns */
static bool
do_poll(struct world *w)
{
	struct ibv_wc wc;

	if (!open_pair(w, NO_RECV))
		return false;
	for (int i = 0; i < 100; i++) {
		int ret = rpma_cq_get_wc(w->client.cq, 1, &wc, NULL);

		if (ret != RPMA_E_NO_COMPLETION && judge("rpma_cq_get_wc", ret))
			wrong("a completion without a post");
	}
	return post_write(w) && completed(w) && arrived(w, &w->server) && over(w);
}

static bool
do_many_writes(struct world *w)
{
	struct ibv_wc wc;

	if (!open_pair(w, NO_RECV))
		return false;
	for (uintptr_t i = 0; i < 16; i++) {
		if (!judge("rpma_write",
			    rpma_write(w->client.conn, w->client.remote, 0, w->client.mr, 0, w->plan.size,
				    ALWAYS, (const void *)i)))
			return false;
	}
	for (uintptr_t i = 0; i < 16; i++) {
		if (!world_completion(w, &w->client, w->client.cq, i, &wc))
			return false;
	}
	return arrived(w, &w->server) && over(w);
}

/* the connection is deleted while the operation is under way */
static bool
do_write_and_leave(struct world *w)
{
	return open_pair(w, NO_RECV) && post_write(w) &&
		judge("rpma_conn_delete", rpma_conn_delete(&w->client.conn)) &&
		world_event(w, &w->server, RPMA_CONN_CLOSED);
}

static bool
do_dereg_under_write(struct world *w)
{
	return open_pair(w, NO_RECV) && post_write(w) &&
		judge("rpma_mr_dereg", rpma_mr_dereg(&w->client.mr)) && over(w);
}

/* the file of the memory is truncated: the write must fail, and no process may die */
static bool
do_write_truncated(struct world *w)
{
	struct ibv_wc wc;

	if (!open_pair(w, NO_RECV))
		return false;
	if (ftruncate(w->server.fd, 0))
		wrong("a file cannot be truncated");
	if (!post_write(w))
		return false;
	while (rpma_cq_get_wc(w->client.cq, 1, &wc, NULL) == RPMA_E_NO_COMPLETION) {
		int fd = -1;

		rpma_cq_get_fd(w->client.cq, &fd);
		world_wait(fd, "the completion of a write into a truncated file");
		(void)rpma_cq_wait(w->client.cq);
	}
	/* if a fault disables process_vm_writev(), the bytes go through a pipe, with the same result */
	if (wc.status == IBV_WC_SUCCESS)
		wrong("a write into a truncated file has succeeded");
	return true;
}

#define PERSISTENT ((int)RPMA_FLUSH_TYPE_PERSISTENT)
#define VISIBILITY ((int)RPMA_FLUSH_TYPE_VISIBILITY)

const struct torture_scenario operation_scenarios[] = {
	{ "write", do_write, { 0 }, NULL },
	{ "write-1MiB", do_write, { .size = PAYLOAD_MAX }, NULL },
	{ "write-file", do_write, { .memory = MEMORY_FILE }, NULL },
	{ "write-shared", do_write, { .rcq = true, .shared = true }, NULL },
	{ "write-many", do_many_writes, { 0 }, NULL },
	{ "write-polled", do_poll, { 0 }, NULL },
	{ "write-and-leave", do_write_and_leave, { .size = PAYLOAD_MAX }, NULL },
	{ "write-under-dereg", do_dereg_under_write, { .size = PAYLOAD_MAX }, NULL },
	{ "read", do_read, { 0 }, NULL },
	{ "read-1MiB", do_read, { .size = PAYLOAD_MAX }, NULL },
	{ "write-imm", do_write_imm, { 0 }, NULL },
	{ "write-imm-srq", do_write_imm, { .srq = true }, NULL },
	{ "send", do_send, { 0 }, NULL },
	{ "send-rcq", do_send, { .rcq = true }, NULL },
	{ "send-srq", do_send, { .srq = true }, NULL },
	{ "send-srq-without-rcq", do_send, { .srq_without_rcq = true }, NULL },
	{ "send-1MiB", do_send, { .size = PAYLOAD_MAX }, NULL },
	{ "send-early", do_send_early, { 0 }, NULL },
	{ "send-imm", do_send_imm, { 0 }, NULL },
	{ "atomic-write", do_atomic_write, { 0 }, NULL },
	{ "flush-visibility", do_flush, { .detail = VISIBILITY }, NULL },
	{ "flush-persistent-file", do_flush_persistent, { .memory = MEMORY_FILE }, NULL },
	{ "flush-persistent-memfd", do_flush_persistent, { .memory = MEMORY_MEMFD }, NULL },
	{ "write-truncated", do_write_truncated, { .memory = MEMORY_FILE }, NULL },
	{ "verbs-write", do_write, { .faulty_verbs = true }, NULL },
	{ "verbs-atomic-write", do_atomic_write, { .faulty_verbs = true }, NULL },
	{ "verbs-atomic-write-plain", do_atomic_write, { .faulty_verbs = true, .read_flushes = true }, NULL },
	{ "verbs-send-srq", do_send, { .faulty_verbs = true, .srq = true }, NULL },
	{ "verbs-flush-persistent", do_flush_persistent, { .faulty_verbs = true, .memory = MEMORY_FILE },
		NULL },
	{ "verbs-flush-plain", do_flush, { .faulty_verbs = true, .read_flushes = true, .detail = VISIBILITY },
		NULL },
	{ 0 },
};
