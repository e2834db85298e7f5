/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* link.c -- the connections between writers and replicas: librpma, as far as the log uses it */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librpma.h>

#include "connection.h"
#include "exchange.h"
#include "fds.h"
#include "fiber.h"
#include "link.h"
#include "protocol.h"
#include "rules.h"
#include "sim.h"

#define LINKS_MAX 8192
#define TIMERS_MAX 1024
#define OBJECTS_MAX 512
#define OPS_MAX 64 /* more than a queue has */
#define EVENTS_MAX 4

/* the library gives up a request after this time */
#define CONNECT_MS 5000

enum op_kind { OP_READ, OP_WRITE, OP_FLUSH, OP_ATOMIC_WRITE };

static const char *const op_names[] = { "read", "write", "flush", "atomic write" };

/* everything of the library but connections */
struct object {
	bool used;
	unsigned group;
	unsigned serial; /* another one for each use */
	uint8_t *ptr;    /* of memory */
	size_t size;
	uint32_t sq_size; /* of a configuration or a request */
	uint32_t cq_size;
	unsigned replica;
};

struct op {
	enum op_kind kind;
	bool signaled;
	bool executed;
	const void *context;
	size_t offset;
	size_t len;
	uint8_t *bytes; /* written, or read */
	const struct object *local;
	unsigned local_serial;
	size_t local_offset;
	enum ibv_wc_status status;
};

struct rpma_cq {
	struct rpma_conn *conn;
};

struct rpma_conn {
	unsigned number;
	unsigned group;
	struct replica *replica;
	uint32_t sq_size;
	uint32_t cq_size;
	struct rpma_cq cq;

	/* the writer's side */
	bool is_open; /* the writer has it */
	int event_fd;
	int cq_fd;
	bool is_armed; /* the next completion makes cq_fd readable */
	bool is_established;
	bool is_told; /* the writer's side knows of its end */
	enum rpma_conn_event events[EVENTS_MAX];
	unsigned event_count;
	uint8_t answer[EXCHANGE_SIZE];
	struct rpma_conn_private_data pdata;
	/* numbers of operations, from 0: each counter is at most the one before it */
	unsigned posted;
	unsigned next;     /* to execute */
	unsigned reported; /* all before it have had their completion, if they have one */
	unsigned reaped;   /* ... and it was collected */
	struct op ops[OPS_MAX];
	struct completion {
		enum ibv_wc_status status;
		unsigned number; /* of the operation, which is reaped by it, with all before it */
	} completions[OPS_MAX];  /* to collect: a ring */
	unsigned wc_first;
	unsigned wc_count;

	/* the replica's side */
	bool is_attached; /* the replica takes it for its writer */
	bool is_cut;
	bool is_deaf;   /* it was cut, and completions get lost */
	unsigned limit; /* after it was cut, the operations that are still executed */
	bool has_failed;
	bool is_due; /* a timer will execute the next operation */
	struct writeback writeback;
	uint64_t flush_ends_ns;
	uint64_t deliver_ns; /* time of the last completion that is on its way */
};

struct timer {
	uint64_t at_ns;
	void (*fire)(struct rpma_conn *l, unsigned arg);
	struct rpma_conn *link;
	unsigned arg;
};

struct replica replicas[REPLICAS_MAX];
unsigned replica_count;
struct link_plan link_plan;
bool links_are_shared;

static struct {
	struct rpma_conn *links[LINKS_MAX];
	unsigned count;
	struct timer timers[TIMERS_MAX];
	unsigned timer_count;
	uint64_t next_ns;
	struct object objects[OBJECTS_MAX];
	unsigned serial;
	unsigned operations;
} all;

static void
at(uint64_t delay_ns, void (*fire)(struct rpma_conn *l, unsigned arg), struct rpma_conn *l, unsigned arg)
{
	const uint64_t at_ns = sim.now_ns + delay_ns;

	SIM_CHECK(all.timer_count < TIMERS_MAX, "too much is going to happen");
	all.timers[all.timer_count++] = (struct timer){ at_ns, fire, l, arg };
	if (at_ns < all.next_ns)
		all.next_ns = at_ns;
}

static uint64_t
some_delay(void)
{
	return sim_delay_ns(link_plan.delay_ns);
}

uint64_t
links_happen(void)
{
	while (all.next_ns <= sim.now_ns) {
		unsigned first = 0;

		/* the earliest one, since each may add others */
		for (unsigned i = 1; i < all.timer_count; i++)
			if (all.timers[i].at_ns < all.timers[first].at_ns)
				first = i;
		const struct timer timer = all.timers[first];
		all.timers[first] = all.timers[--all.timer_count];
		timer.fire(timer.link, timer.arg);
		all.next_ns = SIM_NEVER;
		for (unsigned i = 0; i < all.timer_count; i++)
			if (all.timers[i].at_ns < all.next_ns)
				all.next_ns = all.timers[i].at_ns;
	}
	return all.next_ns;
}

void
links_begin(void)
{
	all.timer_count = 0;
	all.next_ns = SIM_NEVER;
	all.count = 0;
	all.operations = 0;
	memset(all.objects, 0, sizeof(all.objects));
}

void
links_end(void)
{
	for (unsigned i = 0; i < all.count; i++) {
		for (unsigned op = 0; op < OPS_MAX; op++)
			free(all.links[i]->ops[op].bytes);
		free(all.links[i]->writeback.bytes);
		free(all.links[i]);
	}
	all.count = 0;
	all.timer_count = 0;
}

unsigned
links_operations(void)
{
	return all.operations;
}

/* --- the end of a link --- */

static void
push_event(struct rpma_conn *l, enum rpma_conn_event event)
{
	if (!l->is_open)
		return;
	SIM_CHECK(l->event_count < EVENTS_MAX, "too many events");
	l->events[l->event_count++] = event;
	fds_add(l->event_fd, 1);
}

static void
push_completion(struct rpma_conn *l, unsigned number, enum ibv_wc_status status)
{
	SIM_CHECK(l->wc_count < l->cq_size, "the completion queue is too small");
	l->completions[(l->wc_first + l->wc_count) % OPS_MAX] = (struct completion){ status, number };
	l->wc_count++;
	l->reported = number + 1;
	if (l->is_armed) {
		l->is_armed = false;
		fds_add(l->cq_fd, 1);
	}
}

static void
flush_posted(struct rpma_conn *l)
{
	while (l->reported < l->posted)
		push_completion(l, l->reported, IBV_WC_WR_FLUSH_ERR);
}

static void
tell_writer(struct rpma_conn *l, unsigned event)
{
	if (!l->is_open || l->is_told)
		return;
	l->is_told = true;
	SIM_TRACE("link %u: the writer learns that it has ended", l->number);
	flush_posted(l);
	push_event(l,
		l->is_established || event == RPMA_CONN_REJECTED ? (enum rpma_conn_event)event
								 : RPMA_CONN_UNREACHABLE);
}

static void
detach(struct rpma_conn *l)
{
	l->is_attached = false;
	if (l->replica->writer == l)
		l->replica->writer = NULL;
}

static void
tell_replica(struct rpma_conn *l, unsigned arg)
{
	(void)arg;
	if (l->is_attached) {
		SIM_TRACE("link %u: the replica learns that it has ended", l->number);
		detach(l);
	}
}

static void
cut(struct rpma_conn *l)
{
	if (l->is_cut)
		return;
	l->is_cut = true;
	l->is_deaf = sim_chance(500);
	l->limit = sim_below(l->posted - l->next + 1);
	SIM_TRACE("link %u is cut; %u operations are still on their way", l->number, l->limit);
	at(sim_delay_ns(link_plan.notice_ns), tell_writer, l,
		sim_chance(500) ? RPMA_CONN_CLOSED : RPMA_CONN_LOST);
	at(sim_delay_ns(link_plan.notice_ns), tell_replica, l, 0);
}

void
links_cut_to(struct replica *r)
{
	if (r->writer)
		cut(r->writer);
}

void
links_replica_ends(struct replica *r)
{
	for (unsigned i = 0; i < all.count; i++) {
		struct rpma_conn *l = all.links[i];
		if (l->replica != r)
			continue;
		if (l->writeback.active)
			medium_flush_end(&r->medium, &l->writeback, r->medium.failed ? 0 : sim_below(1001));
		if (l->is_attached) {
			detach(l);
			cut(l);
		}
	}
}

void
links_kill(unsigned group)
{
	for (unsigned i = 0; i < all.count; i++) {
		struct rpma_conn *l = all.links[i];
		if (l->group != group || !l->is_open)
			continue;
		cut(l);
		l->is_open = false;
	}
	for (unsigned i = 0; i < OBJECTS_MAX; i++)
		if (all.objects[i].group == group)
			all.objects[i].used = false;
}

unsigned
links_objects(unsigned group)
{
	unsigned count = 0;

	for (unsigned i = 0; i < all.count; i++)
		count += all.links[i]->group == group && all.links[i]->is_open;
	for (unsigned i = 0; i < OBJECTS_MAX; i++)
		count += all.objects[i].used && all.objects[i].group == group;
	return count;
}

/* --- operations, at the replica --- */

enum fault {
	FAULT_NONE,
	FAULT_FAIL,
	FAULT_FAIL_AFTER,
	FAULT_CUT,
	FAULT_CUT_WITHIN,
	FAULT_CUT_AFTER,
	FAULTS,
};

static void execute(struct rpma_conn *l, unsigned arg);
static void end_flush(struct rpma_conn *l, unsigned fault);

/* the next operation begins after a while, if there is one */
static void
go_on(struct rpma_conn *l)
{
	if (l->is_due || l->next == l->posted || l->has_failed || l->writeback.active)
		return;
	l->is_due = true;
	at(some_delay(), execute, l, 0);
}

/* the completion of operation `number` arrives, and with it what the reads up to that one have read */
static void
deliver(struct rpma_conn *l, unsigned number)
{
	if (!l->is_open || l->is_told || (l->is_cut && l->is_deaf))
		return;
	SIM_CHECK(l->reported <= number, "completions out of order");
	for (unsigned i = l->reported; i <= number; i++) {
		const struct op *op = &l->ops[i % OPS_MAX];
		const struct object *local = op->local;
		if (op->kind == OP_READ && op->status == IBV_WC_SUCCESS && local->used &&
			local->serial == op->local_serial)
			memcpy(local->ptr + op->local_offset, op->bytes, op->len);
	}
	push_completion(l, number, l->ops[number % OPS_MAX].status);
}

static void
finish(struct rpma_conn *l, enum ibv_wc_status status)
{
	struct op *op = &l->ops[l->next % OPS_MAX];

	op->status = status;
	if (op->signaled || status != IBV_WC_SUCCESS) {
		const uint64_t at_ns = sim.now_ns + some_delay();
		/* in order */
		l->deliver_ns = at_ns > l->deliver_ns ? at_ns : l->deliver_ns + 1;
		at(l->deliver_ns - sim.now_ns, deliver, l, l->next);
	}
	l->next++;
	if (status == IBV_WC_SUCCESS) {
		go_on(l);
		return;
	}
	SIM_TRACE("link %u: the %s has failed", l->number, op_names[op->kind]);
	l->has_failed = true;
	/* the failed operation itself is reported, then everything ends */
	l->is_cut = true;
	l->is_deaf = false;
	at(l->deliver_ns - sim.now_ns + sim_delay_ns(link_plan.notice_ns), tell_writer, l, RPMA_CONN_CLOSED);
	at(sim_delay_ns(link_plan.notice_ns), tell_replica, l, 0);
}

/* stores the bytes of a write, or an atomic write; part: only some lines of them */
static void
store(struct rpma_conn *l, struct op *op, bool part)
{
	struct medium *m = &l->replica->medium;
	const size_t line = 64;

	if (op->executed)
		return;
	op->executed = true;
	if (op->kind == OP_ATOMIC_WRITE) {
		rules_word_changes(l->replica, op->offset, op->bytes);
		memcpy(m->memory + op->offset, op->bytes, op->len);
		return;
	}
	if (l->is_open && op->local->used && op->local->serial == op->local_serial)
		SIM_CHECK(memcmp(op->local->ptr + op->local_offset, op->bytes, op->len) == 0,
			"memory has changed while a write from it was under way");
	for (size_t from = 0; from < op->len; from += line)
		if (!part || sim_chance(500))
			memcpy(m->memory + op->offset + from, op->bytes + from,
				op->len - from < line ? op->len - from : line);
}

/* a flush ends after all flushes that began before it, since pages are written by one at a time */
static void
begin_flush(struct rpma_conn *l, struct op *op, enum fault fault)
{
	uint64_t ends_ns = sim.now_ns + some_delay();

	for (unsigned i = 0; i < all.count; i++) {
		const struct rpma_conn *other = all.links[i];
		if (other->replica == l->replica && other->writeback.active &&
			other->flush_ends_ns >= ends_ns)
			ends_ns = other->flush_ends_ns + 1;
	}
	medium_flush_begin(&l->replica->medium, op->offset, op->len, &l->writeback);
	l->flush_ends_ns = ends_ns;
	at(ends_ns - sim.now_ns, end_flush, l, fault);
	/* writes need not wait for it */
	for (unsigned i = l->next + 1;
		i < l->posted && l->ops[i % OPS_MAX].kind == OP_WRITE && sim_chance(500); i++)
		if (!l->is_cut)
			store(l, &l->ops[i % OPS_MAX], false);
	if (fault == FAULT_CUT_WITHIN)
		cut(l);
}

static void
end_flush(struct rpma_conn *l, unsigned fault)
{
	struct medium *m = &l->replica->medium;

	/* else the replica has ended before */
	if (!l->writeback.active)
		return;
	bool fails = m->failed;
	if (!fails && sim_chance(link_plan.medium_error))
		fails = m->failed = true;
	else if (!fails && sim_chance(link_plan.flush_error))
		fails = true;
	SIM_TRACE("link %u: the flush of %zu bytes at %zu %s", l->number, l->writeback.len,
		l->writeback.offset, fails ? "fails" : "is through");
	medium_flush_end(m, &l->writeback, fails ? sim_below(1001) : 1000);
	if (!l->is_attached)
		return;
	if (fault == FAULT_CUT_AFTER)
		cut(l);
	finish(l,
		fails                               ? IBV_WC_REM_OP_ERR
			: fault == FAULT_FAIL_AFTER ? IBV_WC_RETRY_EXC_ERR
						    : IBV_WC_SUCCESS);
}

static void
perform(struct rpma_conn *l, struct op *op, enum fault fault)
{
	struct medium *m = &l->replica->medium;

	if (op->kind == OP_FLUSH) {
		begin_flush(l, op, fault);
		return;
	}
	if (op->kind == OP_READ)
		memcpy(op->bytes, m->memory + op->offset, op->len);
	else
		store(l, op, fault == FAULT_CUT_WITHIN && op->kind == OP_WRITE);
	if (fault == FAULT_CUT_AFTER || fault == FAULT_CUT_WITHIN)
		cut(l);
	if (fault == FAULT_CUT_WITHIN && op->kind == OP_WRITE) {
		l->limit = 0;
		return;
	}
	finish(l, fault == FAULT_FAIL_AFTER ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
}

static void
execute(struct rpma_conn *l, unsigned arg)
{
	(void)arg;
	l->is_due = false;
	if (!l->is_attached || l->has_failed || l->next == l->posted || l->writeback.active)
		return;
	if (l->is_cut && l->limit == 0)
		return;
	struct op *op = &l->ops[l->next % OPS_MAX];
	enum fault fault = sim_chance(link_plan.trouble) ? 1 + sim_below(FAULTS - 1) : FAULT_NONE;
	if (l->is_cut) {
		l->limit--;
		fault = FAULT_NONE;
	}
	if (fault == FAULT_CUT) {
		cut(l);
		l->limit = 0;
		return;
	}
	all.operations++;
	SIM_TRACE("link %u: %s of %zu bytes at %zu%s", l->number, op_names[op->kind], op->len, op->offset,
		fault ? ", with trouble" : "");
	if (fault == FAULT_FAIL)
		finish(l, IBV_WC_REM_ACCESS_ERR);
	else
		perform(l, op, fault);
	if (sim_chance(link_plan.write_back))
		medium_write_back_some(&l->replica->medium);
}

/* --- objects --- */

static struct object *
new_object(void)
{
	unsigned i = 0;

	while (all.objects[i].used)
		SIM_CHECK(++i < OBJECTS_MAX, "too many objects of the library");
	all.objects[i] = (struct object){ .used = true, .group = fiber_group(), .serial = ++all.serial };
	return &all.objects[i];
}

static int
delete_object(void *ptr)
{
	struct object **object = ptr;

	if (*object) {
		SIM_CHECK((*object)->used && (*object)->group == fiber_group(), "an object is deleted twice");
		(*object)->used = false;
	}
	*object = NULL;
	return 0;
}

int
peer_new_by_addr(const char *addr, enum rpma_util_ibv_context_type type, struct rpma_peer **peer,
	const char **device)
{
	(void)addr;
	(void)type;
	if (sim_chance(link_plan.post_error))
		return RPMA_E_PROVIDER;
	*peer = (struct rpma_peer *)new_object();
	*device = "a link";
	return 0;
}

int
rpma_peer_delete(struct rpma_peer **peer)
{
	return delete_object(peer);
}

int
rpma_mr_reg(struct rpma_peer *peer, void *ptr, size_t size, int usage, struct rpma_mr_local **mr)
{
	(void)peer;
	(void)usage;
	if (sim_chance(link_plan.post_error))
		return RPMA_E_PROVIDER;
	struct object *object = new_object();
	object->ptr = ptr;
	object->size = size;
	*mr = (struct rpma_mr_local *)object;
	return 0;
}

int
rpma_mr_dereg(struct rpma_mr_local **mr)
{
	return delete_object(mr);
}

/* a descriptor is the size of the memory */
int
rpma_mr_get_descriptor_size(const struct rpma_mr_local *mr, size_t *size)
{
	(void)mr;
	*size = sizeof(uint64_t);
	return 0;
}

int
rpma_mr_get_descriptor(const struct rpma_mr_local *mr, void *desc)
{
	const uint64_t size = ((const struct object *)mr)->size;

	memcpy(desc, &size, sizeof(size));
	return 0;
}

int
rpma_mr_remote_from_descriptor(const void *desc, size_t desc_size, struct rpma_mr_remote **mr)
{
	struct object *object = new_object();
	uint64_t size;

	SIM_CHECK(desc_size == sizeof(size), "a descriptor of something else");
	memcpy(&size, desc, sizeof(size));
	object->size = (size_t)size;
	*mr = (struct rpma_mr_remote *)object;
	return 0;
}

int
rpma_mr_remote_get_size(const struct rpma_mr_remote *mr, size_t *size)
{
	*size = ((const struct object *)mr)->size;
	return 0;
}

int
rpma_mr_remote_delete(struct rpma_mr_remote **mr)
{
	return delete_object(mr);
}

int
rpma_peer_cfg_get_descriptor_size(const struct rpma_peer_cfg *pcfg, size_t *size)
{
	(void)pcfg;
	*size = 1;
	return 0;
}

int
rpma_peer_cfg_get_descriptor(const struct rpma_peer_cfg *pcfg, void *desc)
{
	(void)pcfg;
	*(uint8_t *)desc = 0;
	return 0;
}

int
rpma_peer_cfg_from_descriptor(const void *desc, size_t size, struct rpma_peer_cfg **pcfg)
{
	(void)desc;
	SIM_CHECK(size == 1, "a configuration of something else");
	*pcfg = (struct rpma_peer_cfg *)new_object();
	return 0;
}

int
rpma_peer_cfg_delete(struct rpma_peer_cfg **pcfg)
{
	return delete_object(pcfg);
}

int
rpma_conn_apply_remote_peer_cfg(struct rpma_conn *conn, const struct rpma_peer_cfg *pcfg)
{
	(void)conn;
	(void)pcfg;
	return 0;
}

int
rpma_conn_cfg_new(struct rpma_conn_cfg **cfg)
{
	*cfg = (struct rpma_conn_cfg *)new_object();
	return 0;
}

int
rpma_conn_cfg_delete(struct rpma_conn_cfg **cfg)
{
	return delete_object(cfg);
}

int
rpma_conn_cfg_set_timeout(struct rpma_conn_cfg *cfg, int timeout_ms)
{
	(void)cfg;
	(void)timeout_ms;
	return 0;
}

int
rpma_conn_cfg_set_connect_timeout(struct rpma_conn_cfg *cfg, int timeout_ms)
{
	(void)cfg;
	SIM_CHECK(timeout_ms == CONNECT_MS, "another timeout");
	return 0;
}

int
rpma_conn_cfg_set_sq_size(struct rpma_conn_cfg *cfg, uint32_t size)
{
	((struct object *)cfg)->sq_size = size;
	return 0;
}

int
rpma_conn_cfg_set_cq_size(struct rpma_conn_cfg *cfg, uint32_t size)
{
	((struct object *)cfg)->cq_size = size;
	return 0;
}

int
rpma_log_get_threshold(enum rpma_log_threshold threshold, enum rpma_log_level *level)
{
	(void)threshold;
	*level = RPMA_LOG_LEVEL_WARNING;
	return 0;
}

int
rpma_log_set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level)
{
	(void)threshold;
	(void)level;
	return 0;
}

const char *
rpma_err_2str(int ret)
{
	return ret == RPMA_E_PROVIDER ? "the simulation has let it fail" : "an error";
}

/* --- connecting --- */

int
rpma_conn_req_new(struct rpma_peer *peer, const char *addr, const char *port, const struct rpma_conn_cfg *cfg,
	struct rpma_conn_req **req)
{
	(void)peer;
	(void)port;
	if (sim_chance(link_plan.post_error))
		return RPMA_E_PROVIDER;
	struct object *object = new_object();
	object->sq_size = ((const struct object *)cfg)->sq_size;
	object->cq_size = ((const struct object *)cfg)->cq_size;
	object->replica = (unsigned)atoi(addr + 1);
	*req = (struct rpma_conn_req *)object;
	return 0;
}

/* the acceptance arrives */
static void
establish(struct rpma_conn *l, unsigned arg)
{
	struct object memory = { .size = l->replica->medium.size };

	(void)arg;
	if (!l->is_open || l->is_told || (l->is_cut && l->is_deaf))
		return;
	SIM_CHECK(exchange_pack(l->answer, (struct rpma_mr_local *)&memory, (struct rpma_peer_cfg *)&memory,
			  0, &l->pdata) == 0,
		"a description that does not fit");
	l->is_established = true;
	push_event(l, RPMA_CONN_ESTABLISHED);
}

static void
reject(struct rpma_conn *l, bool busy)
{
	SIM_TRACE("link %u: replica %u rejects it%s", l->number, l->replica->number, busy ? ": busy" : "");
	if (busy) {
		memcpy(l->answer, BUSY, BUSY_SIZE);
		l->pdata = (struct rpma_conn_private_data){ l->answer, BUSY_SIZE };
	}
	l->is_cut = true;
	at(some_delay(), tell_writer, l, RPMA_CONN_REJECTED);
}

/* the request arrives at the replica, whose process does as replica.c does */
static void
arrive(struct rpma_conn *l, unsigned arg)
{
	struct replica *r = l->replica;

	(void)arg;
	if (!l->is_open && !sim_chance(link_plan.late))
		return;
	if (!r->has_power || sim.now_ns < r->unreachable_ns) {
		l->is_cut = true;
		at(sim_random() % (CONNECT_MS * SIM_MS), tell_writer, l, RPMA_CONN_UNREACHABLE);
		return;
	}
	if (!r->is_running || sim_chance(link_plan.connect_error)) {
		reject(l, false);
		return;
	}
	if (r->writer && rules_drops_writer(r)) {
		SIM_TRACE("replica %u drops the writer of link %u", r->number, r->writer->number);
		cut(r->writer);
		detach(r->writer);
	}
	if (r->writer && !links_are_shared) {
		reject(l, true);
		return;
	}
	SIM_TRACE("link %u: replica %u accepts it", l->number, r->number);
	l->is_attached = true;
	r->writer = l;
	rules_accepted(r);
	/* a writer that is gone by now is noticed as any other */
	if (l->is_cut)
		at(sim_random() % (CONNECT_MS * SIM_MS), tell_replica, l, 0);
	else
		at(some_delay(), establish, l, 0);
}

int
rpma_conn_req_connect(struct rpma_conn_req **req_ptr, const struct rpma_conn_private_data *pdata,
	struct rpma_conn **conn)
{
	const struct object *req = (const struct object *)*req_ptr;
	bool fails = sim_chance(link_plan.post_error);

	SIM_CHECK(pdata_begins_with(pdata, HELLO, HELLO_SIZE), "a request without a hello");
	if (!fails) {
		struct rpma_conn *l = calloc(1, sizeof(*l));
		SIM_CHECK(l && all.count < LINKS_MAX, "too many links");
		l->number = all.count;
		all.links[all.count++] = l;
		l->group = fiber_group();
		l->replica = &replicas[req->replica];
		l->sq_size = req->sq_size;
		l->cq_size = req->cq_size;
		SIM_CHECK(l->sq_size <= OPS_MAX && l->cq_size <= OPS_MAX, "a queue is larger than here");
		l->cq.conn = l;
		l->is_open = true;
		l->is_armed = true;
		l->event_fd = fds_open(true);
		l->cq_fd = fds_open(true);
		SIM_TRACE("link %u: request to replica %u", l->number, l->replica->number);
		at(some_delay(), arrive, l, 0);
		*conn = l;
	}
	(void)delete_object(req_ptr);
	return fails ? RPMA_E_PROVIDER : 0;
}

int
rpma_conn_get_cq(const struct rpma_conn *conn, struct rpma_cq **cq)
{
	*cq = (struct rpma_cq *)(uintptr_t)&conn->cq;
	return 0;
}

int
rpma_cq_get_fd(const struct rpma_cq *cq, int *fd)
{
	*fd = cq->conn->cq_fd;
	return 0;
}

int
rpma_conn_get_event_fd(const struct rpma_conn *conn, int *fd)
{
	*fd = conn->event_fd;
	return 0;
}

int
rpma_conn_get_private_data(const struct rpma_conn *conn, struct rpma_conn_private_data *pdata)
{
	*pdata = conn->pdata;
	return 0;
}

int
rpma_conn_next_event(struct rpma_conn *conn, enum rpma_conn_event *event)
{
	SIM_CHECK(conn->is_open, "a connection is used that was deleted");
	fds_reset(conn->event_fd);
	if (conn->event_count == 0)
		return RPMA_E_NO_EVENT;
	*event = conn->events[0];
	conn->event_count--;
	memmove(conn->events, conn->events + 1, conn->event_count * sizeof(*event));
	if (conn->event_count)
		fds_add(conn->event_fd, 1);
	return 0;
}

int
rpma_conn_disconnect(struct rpma_conn *conn)
{
	SIM_CHECK(conn->is_open, "a connection is used that was deleted");
	SIM_TRACE("link %u: the writer disconnects", conn->number);
	cut(conn);
	return 0;
}

int
rpma_conn_delete(struct rpma_conn **conn)
{
	struct rpma_conn *l = *conn;

	SIM_CHECK(l->is_open && l->group == fiber_group(), "a connection is deleted twice");
	cut(l);
	l->is_open = false;
	fds_close(l->event_fd);
	fds_close(l->cq_fd);
	*conn = NULL;
	return 0;
}

/* --- operations, at the writer --- */

static int
post(struct rpma_conn *l, const struct op *op, const void *src, int flags, const void *context)
{
	SIM_CHECK(l->is_open && l->is_established, "an operation is posted without a connection");
	SIM_CHECK(op->len <= l->replica->medium.size && op->offset <= l->replica->medium.size - op->len,
		"an operation behind the end of the log");
	/* operations are executed in order here, with a fence or without */
	flags &= ~RPMA_F_FENCE;
	SIM_CHECK(flags == RPMA_F_COMPLETION_ALWAYS || flags == RPMA_F_COMPLETION_ON_ERROR, "other flags");
	if (sim_chance(link_plan.post_error))
		return RPMA_E_PROVIDER;
	SIM_CHECK(l->posted - l->reaped < l->sq_size, "the queue of operations is too small");

	struct op *slot = &l->ops[l->posted % OPS_MAX];
	free(slot->bytes);
	*slot = *op;
	slot->context = context;
	slot->signaled = flags == RPMA_F_COMPLETION_ALWAYS;
	if (op->kind != OP_FLUSH) {
		slot->bytes = malloc(op->len ? op->len : 1);
		SIM_CHECK(slot->bytes, "no memory for an operation");
	}
	if (src)
		memcpy(slot->bytes, src, op->len);
	l->posted++;
	if (l->is_told)
		flush_posted(l);
	else if (!l->is_cut)
		go_on(l);
	/* the device works meanwhile */
	if (sim_chance(200))
		fiber_yield();
	return 0;
}

static const uint8_t *
local_memory(const struct object *mr, size_t offset, size_t len)
{
	SIM_CHECK(mr->used && len <= mr->size && offset <= mr->size - len, "memory that is not registered");
	return mr->ptr + offset;
}

int
rpma_read(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t dst_offset,
	const struct rpma_mr_remote *src, size_t src_offset, size_t len, int flags, const void *context)
{
	const struct object *local = (const struct object *)dst;
	const struct op op = { .kind = OP_READ,
		.offset = src_offset,
		.len = len,
		.local = local,
		.local_serial = local->serial,
		.local_offset = dst_offset };

	(void)src;
	(void)local_memory(local, dst_offset, len);
	return post(conn, &op, NULL, flags, context);
}

int
rpma_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, const void *context)
{
	const struct object *local = (const struct object *)src;
	const struct op op = { .kind = OP_WRITE,
		.offset = dst_offset,
		.len = len,
		.local = local,
		.local_serial = local->serial,
		.local_offset = src_offset };

	(void)dst;
	return post(conn, &op, local_memory(local, src_offset, len), flags, context);
}

int
rpma_atomic_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const char src[8],
	int flags, const void *context)
{
	const struct op op = { .kind = OP_ATOMIC_WRITE, .offset = dst_offset, .len = 8 };

	(void)dst;
	SIM_CHECK(dst_offset % 8 == 0, "an atomic write between words");
	return post(conn, &op, src, flags, context);
}

int
rpma_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, size_t len,
	enum rpma_flush_type type, int flags, const void *context)
{
	const struct op op = { .kind = OP_FLUSH, .offset = dst_offset, .len = len };

	(void)dst;
	SIM_CHECK(type == RPMA_FLUSH_TYPE_PERSISTENT, "a flush of another type");
	return post(conn, &op, NULL, flags, context);
}

int
rpma_cq_wait(struct rpma_cq *cq)
{
	struct rpma_conn *l = cq->conn;

	SIM_CHECK(l->is_open, "a queue is used that was deleted");
	bool readable = fds_events(l->cq_fd) > 0;
	fds_reset(l->cq_fd);
	if (!readable || l->is_armed)
		return RPMA_E_NO_COMPLETION;
	l->is_armed = true;
	return 0;
}

int
rpma_cq_get_wc(struct rpma_cq *cq, int count, struct ibv_wc *wc, int *got)
{
	struct rpma_conn *l = cq->conn;

	(void)got;
	SIM_CHECK(l->is_open && count == 1, "a queue is used in another way");
	if (sim_chance(link_plan.spurious))
		fds_add(l->cq_fd, 1);
	if (l->wc_count == 0)
		return RPMA_E_NO_COMPLETION;
	const struct completion *completion = &l->completions[l->wc_first];
	*wc = (struct ibv_wc){ .status = completion->status,
		.wr_id = (uintptr_t)l->ops[completion->number % OPS_MAX].context };
	l->reaped = completion->number + 1;
	l->wc_first = (l->wc_first + 1) % OPS_MAX;
	l->wc_count--;
	return 0;
}
