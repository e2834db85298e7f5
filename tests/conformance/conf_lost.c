/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * conf_lost.c -- memory that is registered but no longer there
 *
 * A program unmaps, moves, protects or truncates memory, and forgets to deregister it. Hardware has pinned the pages, so
 * nothing happens there. The software device must not die of it: a request that comes after the loss fails, the process
 * gets no signal, and it serves the next connection. Each scenario is one operation whose memory is lost on one side; it
 * goes through kinds of memory, ways to lose it, and lengths, with a connection for each.
 *
 * A loss during a copy may end the process: "conformance --races --repeat 10000 --only 'lost-*'" counts how often.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "groups.h"
#include "pattern.h"
#include "role.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define SIZE ((size_t)256 << 10)
#define HUGE_SIZE ((size_t)2 << 20)
#define LATE \
	((size_t)100 << 10) /* with this offset, a part of the payload has arrived before the loss shows */
#define WORD 8
#define MAX_CASES 128
#define GUARD_INSTALL 102 /* MADV_GUARD_INSTALL: Linux 6.13, for files 6.15 */

enum operation { WRITE, WRITE_IMM, ATOMIC_WRITE, SEND, READ, SWAP, FLUSH };
enum kind { ANONYMOUS, PRIVATE_FILE, SHARED_FILE, MEMFD, HUGE_PAGES, KINDS };
enum way { UNMAPPED, MOVED, PROTECTED, GUARDED, READ_ONLY, TRUNCATED, WAYS };

static const char *const kind_names[] = { "anonymous memory", "a private file", "a shared file", "a memfd",
	"huge pages" };
static const char *const way_names[] = { "unmapped", "moved", "protected", "guarded", "read-only",
	"truncated" };

struct operation_case {
	enum operation op;
	bool at_initiator; /* loses its memory; else the target does */
	bool stores;       /* the memory that is lost is stored to */
};

struct lost_case {
	enum kind kind;
	enum way way;
	size_t len;  /* of the operation */
	size_t from; /* what is lost begins here */
};

struct region {
	uint8_t *base;
	size_t size;
	int fd;
	char path[256]; /* of the file: one without a name cannot be made durable */
	void *moved;    /* NULL: it was not */
	size_t moved_size;
	struct rpma_mr_local *mr;
};

/* ---- memory ---- */

/* The sanitizer of threads gives a mapping another place if a program asks for one where its own tables are. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FIRST_PLACE 0x4000000000
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define FIRST_PLACE 0x4000000000
#endif
#ifndef FIRST_PLACE
#define FIRST_PLACE 0x200000000000
#endif

/*
 * The hole that is left must stay a hole. So each mapping asks for a place that no other one has had, far away from those
 * that the kernel gives to others.
 */
static void *
map(size_t size, int flags, int fd)
{
	static atomic_uintptr_t next = FIRST_PLACE;
	void *place = (void *)atomic_fetch_add(&next, 4 * HUGE_SIZE);
	void *base = mmap(place, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	CHECK(base == MAP_FAILED || base == place);
	return base;
}

static void
new_file(struct role *r, struct region *m)
{
	snprintf(m->path, sizeof(m->path), "%s/conformance-lost-XXXXXX", r->dir);
	m->fd = mkostemp(m->path, O_CLOEXEC);
	if (m->fd < 0)
		check_failed(__FILE__, __LINE__, "cannot make %s: %s", m->path, strerror(errno));
}

/* false: the machine has no huge pages to give away */
static bool
map_kind(struct role *r, enum kind kind, struct region *m)
{
	int flags = kind == SHARED_FILE || kind == MEMFD ? MAP_SHARED : MAP_PRIVATE;

	*m = (struct region){ .size = kind == HUGE_PAGES ? HUGE_SIZE : SIZE, .fd = -1 };
	if (kind == PRIVATE_FILE || kind == SHARED_FILE)
		new_file(r, m);
	if (kind == MEMFD)
		m->fd = memfd_create("conformance", MFD_CLOEXEC);
	if (kind == HUGE_PAGES)
		flags |= MAP_ANONYMOUS | MAP_HUGETLB;
	if (kind == ANONYMOUS)
		flags |= MAP_ANONYMOUS;
	if (m->fd >= 0)
		CHECK_EQ(ftruncate(m->fd, (off_t)m->size), 0);
	m->base = map(m->size, flags, m->fd);
	if (m->base == MAP_FAILED && kind == HUGE_PAGES)
		return false;
	CHECK(m->base != MAP_FAILED);
	return true;
}

static bool
region_new(struct role *r, enum kind kind, int usage, struct region *m)
{
	if (!map_kind(r, kind, m))
		return false;
	memset(m->base, GUARD_BYTE, m->size);
	CHECK_OK(rpma_mr_reg(r->peer, m->base, m->size, usage, &m->mr));
	return true;
}

static void
region_lose(struct region *m, enum way way, size_t from)
{
	uint8_t *at = m->base + from;
	size_t len = m->size - from;

	switch (way) {
	case UNMAPPED:
		CHECK_EQ(munmap(at, len), 0);
		m->size = from;
		break;
	case MOVED:
		m->moved_size = len;
		m->moved = map(len, MAP_PRIVATE | MAP_ANONYMOUS, -1); /* a place */
		CHECK(m->moved != MAP_FAILED);
		CHECK(mremap(at, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, m->moved) == m->moved);
		m->size = from;
		break;
	case PROTECTED:
		CHECK_EQ(mprotect(at, len, PROT_NONE), 0);
		break;
	case GUARDED: /* else an older kernel, or huge pages */
		if (madvise(at, len, GUARD_INSTALL) != 0)
			CHECK_EQ(mprotect(at, len, PROT_NONE), 0);
		break;
	case READ_ONLY:
		CHECK_EQ(mprotect(at, len, PROT_READ), 0);
		break;
	default:
		CHECK_EQ(ftruncate(m->fd, (off_t)from), 0);
		break;
	}
}

static void
region_delete(struct region *m)
{
	CHECK_OK(rpma_mr_dereg(&m->mr));
	if (m->moved)
		munmap(m->moved, m->moved_size);
	if (m->size > 0)
		munmap(m->base, m->size);
	if (*m->path)
		unlink(m->path);
	if (m->fd >= 0)
		close(m->fd);
}

/* ---- the cases of an operation ---- */

static bool
is_file(enum kind kind)
{
	return kind == PRIVATE_FILE || kind == SHARED_FILE || kind == MEMFD;
}

static bool
is_shared(enum kind kind)
{
	return kind == SHARED_FILE || kind == MEMFD;
}

/* The device of the initiator may have mapped the target's file itself: then it still reaches it. */
static bool
may_be_reached(const struct operation_case *o, enum kind kind)
{
	const char *same_host = getenv("SOFTRDMA_SAME_HOST");

	return same_host && strcmp(same_host, "0") != 0 && !o->at_initiator && o->op != FLUSH &&
		is_shared(kind);
}

/* true if the operation notices this loss: a flush needs no access, and only of files */
static bool
makes_a_case(const struct operation_case *o, enum kind kind, enum way way)
{
	if (may_be_reached(o, kind) || (way == READ_ONLY && !o->stores) ||
		(way == TRUNCATED && !is_file(kind)))
		return false;
	return o->op != FLUSH || (is_shared(kind) && way != PROTECTED && way != GUARDED);
}

/* huge pages move and are cut as a whole */
static size_t
list_shapes(const struct operation_case *o, enum kind kind, struct lost_case *shapes)
{
	bool is_word = o->op == ATOMIC_WRITE || o->op == SWAP;
	size_t n = 0;

	shapes[n++] = (struct lost_case){ .len = is_word ? WORD : 64 };
	if (!is_word) {
		shapes[n++] = (struct lost_case){ .len = 60000 };
		if (kind != HUGE_PAGES)
			shapes[n++] = (struct lost_case){ .len = SIZE, .from = LATE };
	}
	return n;
}

/* both sides make the same list */
static size_t
list_cases(const struct operation_case *o, struct lost_case *cases)
{
	struct lost_case shapes[3];
	size_t n = 0;

	for (int kind = 0; kind < KINDS; kind++) {
		size_t shape_count = list_shapes(o, (enum kind)kind, shapes);

		for (int way = 0; way < WAYS; way++) {
			for (size_t i = 0; i < shape_count && makes_a_case(o, (enum kind)kind, (enum way)way);
				i++) {
				CHECK(n < MAX_CASES);
				cases[n] = shapes[i];
				cases[n].kind = (enum kind)kind;
				cases[n++].way = (enum way)way;
			}
		}
	}
	return n;
}

/* ---- one case ---- */

/* the roles agree: a side without memory of this kind leaves the case out */
static bool
both_have(struct role *r, bool have)
{
	char word[8] = "";

	ctl_put(r, have ? "yes" : "no");
	ctl_recv(r, word, sizeof(word) - 1);
	return have && strcmp(word, "yes") == 0;
}

static void
post(struct role *r, const struct operation_case *o, const struct region *own, struct rpma_mr_remote *dst,
	size_t len)
{
	struct rpma_mr_local *mr = own->mr;

	switch (o->op) {
	case WRITE:
		CHECK_OK(rpma_write(r->conn, dst, 0, mr, 0, len, ALWAYS, CTX(1)));
		break;
	case WRITE_IMM:
		CHECK_OK(rpma_write_with_imm(r->conn, dst, 0, mr, 0, len, ALWAYS, 7, CTX(1)));
		break;
	case ATOMIC_WRITE:
		CHECK_OK(rpma_atomic_write(r->conn, dst, 0, "12345678", ALWAYS, CTX(1)));
		break;
	case SEND:
		CHECK_OK(rpma_send(r->conn, mr, 0, len, ALWAYS, CTX(1)));
		break;
	case READ:
		CHECK_OK(rpma_read(r->conn, mr, 0, dst, 0, len, ALWAYS, CTX(1)));
		break;
	case SWAP:
		CHECK_OK(rpma_compare_and_swap(r->conn, mr, 0, dst, 0, 1, 2, ALWAYS, CTX(1)));
		break;
	case FLUSH:
		CHECK_OK(rpma_flush(r->conn, dst, 0, len, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, CTX(1)));
		break;
	}
}

static void
connect_again(struct role *r)
{
	r->conn = r->is_target ? conn_accept(r, NULL) : conn_connect(r, NULL);
	r->cq = conn_cq(r->conn);
}

/* the connection may have ended by itself */
static void
close_broken(struct role *r)
{
	ctl_sync(r);
	if (!r->is_target)
		CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	conn_delete(&r->conn);
	ctl_sync(r);
}

/* what the operation of a case completes with */
static bool
is_expected(const struct operation_case *o, const struct lost_case *c, enum ibv_wc_status status)
{
	if (o->at_initiator)
		return status == IBV_WC_LOC_PROT_ERR;
	/* the beginning of a response may have left when the loss shows: then the connection ends */
	if (o->op == READ && c->from > 0)
		return status == IBV_WC_REM_OP_ERR || status == IBV_WC_RETRY_EXC_ERR;
	return status == IBV_WC_REM_OP_ERR;
}

static void
check_initiator(struct role *r, const struct operation_case *o, const struct lost_case *c)
{
	struct ibv_wc wc = next_wc(r->cq);

	if (wc.wr_id != 1 || !is_expected(o, c, wc.status))
		check_failed(__FILE__, __LINE__,
			"%zu bytes of %s, %s from byte %zu: completion %" PRIu64 " \"%s\"", c->len,
			kind_names[c->kind], way_names[c->way], c->from, wc.wr_id,
			ibv_wc_status_str(wc.status));
	expect_none(r->cq);
}

static void
run_case(struct role *r, const struct operation_case *o, const struct lost_case *c)
{
	const int target_usage = RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_RECV |
		(o->op == FLUSH ? RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT : 0);
	const int initiator_usage = RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_SEND;
	const bool loses = r->is_target != o->at_initiator;
	const bool takes_recv = o->op == SEND || o->op == WRITE_IMM;
	struct rpma_mr_remote *dst = NULL;
	struct region m;
	const enum kind kind = loses ? c->kind : ANONYMOUS;
	bool have = region_new(r, kind, r->is_target ? target_usage : initiator_usage, &m);

	if (!both_have(r, have)) {
		if (have)
			region_delete(&m);
		return;
	}
	connect_again(r);
	if (r->is_target) {
		struct desc d;

		CHECK_OK(rpma_mr_get_descriptor_size(m.mr, &d.len));
		CHECK_OK(rpma_mr_get_descriptor(m.mr, d.bytes));
		if (takes_recv)
			CHECK_OK(rpma_recv(r->conn, m.mr, 0, SIZE, CTX(2)));
		ctl_send(r, d.bytes, d.len);
	} else {
		dst = remote_take(r);
	}
	if (loses)
		region_lose(&m, c->way, c->from);
	ctl_sync(r);
	if (!r->is_target) {
		post(r, o, &m, dst, c->len);
		check_initiator(r, o, c);
	} else if (takes_recv && !o->at_initiator) {
		expect_wc(r->cq, 2, IBV_WC_LOC_PROT_ERR);
	}
	close_broken(r);
	if (dst)
		CHECK_OK(rpma_mr_remote_delete(&dst));
	region_delete(&m);
}

/* the process still serves, and its memory has the content that it should */
static void
run_good(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct mem m;

	connect_again(r);
	mem_new(r, &m, SIZE, r->is_target ? RPMA_MR_USAGE_WRITE_DST : RPMA_MR_USAGE_WRITE_SRC);
	if (r->is_target) {
		desc_put(r, &m);
		ctl_expect(r, "written");
		mem_check(&m, 5);
	} else {
		dst = remote_take(r);
		mem_fill(&m, 5);
		CHECK_OK(rpma_write(r->conn, dst, GUARD, m.mr, GUARD, SIZE, ALWAYS, CTX(3)));
		expect_ok(r->cq, 3);
		ctl_put(r, "written");
		CHECK_OK(rpma_mr_remote_delete(&dst));
	}
	role_disconnect(r);
	mem_delete(&m);
}

static void
lost(struct role *r)
{
	const struct operation_case *o = r->scenario->arg;
	struct lost_case cases[MAX_CASES];
	size_t count = list_cases(o, cases);

	role_open(r);
	role_listen(r);
	for (size_t i = 0; i < count; i++)
		run_case(r, o, &cases[i]);
	run_good(r);
	role_delete(r);
}

/* ---- lost during operations: a mistake that the device does not make harmless ---- */

#define RACE_WRITES 48
#define RACE_LEN ((size_t)3000)

static void
race_target(struct role *r)
{
	struct timespec pause = { 0 };
	struct region m;

	role_connect(r, NULL);
	CHECK(region_new(r, ANONYMOUS, RPMA_MR_USAGE_WRITE_DST, &m));
	struct desc d;
	CHECK_OK(rpma_mr_get_descriptor_size(m.mr, &d.len));
	CHECK_OK(rpma_mr_get_descriptor(m.mr, d.bytes));
	ctl_send(r, d.bytes, d.len);
	ctl_expect(r, "writing");
	pause.tv_nsec = getpid() % 64 * 2000; /* differs from run to run */
	nanosleep(&pause, NULL);
	region_lose(&m, UNMAPPED, 0);
	close_broken(r);
	region_delete(&m);
	role_delete(r);
}

static void
race_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct ibv_wc wc;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, RACE_LEN, RPMA_MR_USAGE_WRITE_SRC);
	dst = remote_take(r);
	ctl_put(r, "writing");
	do {
		for (uint64_t i = 0; i < RACE_WRITES; i++)
			CHECK_OK(rpma_write(r->conn, dst, i * RACE_LEN, m.mr, GUARD, RACE_LEN, ALWAYS,
				CTX(i)));
		for (uint64_t i = 0; i < RACE_WRITES; i++)
			wc = next_wc(r->cq);
	} while (wc.status == IBV_WC_SUCCESS);
	close_broken(r);
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_delete(r);
}

/* clang-format off */
#define AT_TARGET(op_, stores_) &(const struct operation_case){ .op = (op_), .stores = (stores_) }
#define AT_INITIATOR(op_, stores_) \
	&(const struct operation_case){ .op = (op_), .at_initiator = true, .stores = (stores_) }
/* clang-format on */

/* in one process the memory of the other role could take the place of what was lost */
#define LOST (SOFT_ONLY | TWO_PROCESSES | KERNELS_PAGES)

static const struct scenario scenarios[] = {
	{ "lost-write", lost, lost, 0, LOST, AT_TARGET(WRITE, true) },
	{ "lost-write-with-imm", lost, lost, 0, LOST, AT_TARGET(WRITE_IMM, true) },
	{ "lost-atomic-write", lost, lost, 0, LOST, AT_TARGET(ATOMIC_WRITE, true) },
	{ "lost-compare-and-swap", lost, lost, 0, LOST, AT_TARGET(SWAP, true) },
	{ "lost-receive", lost, lost, 0, LOST, AT_TARGET(SEND, true) },
	{ "lost-read", lost, lost, 0, LOST, AT_TARGET(READ, false) },
	{ "lost-flush", lost, lost, 0, LOST, AT_TARGET(FLUSH, false) },
	{ "lost-source-of-write", lost, lost, 0, LOST, AT_INITIATOR(WRITE, false) },
	{ "lost-source-of-message", lost, lost, 0, LOST, AT_INITIATOR(SEND, false) },
	{ "lost-result-of-read", lost, lost, 0, LOST, AT_INITIATOR(READ, true) },
	{ "lost-result-of-swap", lost, lost, 0, LOST, AT_INITIATOR(SWAP, true) },
	{ "lost-during-writes", race_target, race_initiator, 0, SOFT_ONLY | RACES | TWO_PROCESSES, NULL },
};

const struct scenario_group group_lost = { scenarios, sizeof(scenarios) / sizeof(scenarios[0]) };
