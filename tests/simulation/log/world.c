/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * world.c -- the replicated log in a world that one seed determines
 *
 * The unchanged code of the writer (cluster.c, session.c, session_link.c, log_format.c) runs over connections,
 * replicas and media of the simulation. For some time writers come and go, connections break, replicas die,
 * lose their power or their file. Then all of them lose their power, and each majority must recover all that
 * was acknowledged. At last a writer must bring all replicas up to date.
 */

#include <stdlib.h>
#include <string.h>

#include "fds.h"
#include "fiber.h"
#include "link.h"
#include "rules.h"
#include "seeds.h"
#include "sim.h"
#include "writer.h"

#define STEPS_MAX 3000000

/* at the end, without troubles, everything must be done in this time */
#define END_NS (60 * SIM_S)

/* majorities that are tried at the end; each takes time */
#define MAJORITIES_MAX 4

static const char *broken;

static const struct driver_option own_options[] = {
	{ "break", "flush|guard|wipe",
		"a control: flushes have no effect; a replica serves two writers at once; replicas lose more files "
		"than the log survives",
		.text = &broken, .is_choice = true },
	{ 0 },
};

const struct driver_program world_program = { "log-simulation",
	"Runs the replicated log in a world that one seed determines: the order of threads and operations, broken\n"
	"connections, replicas and writers that die, media, power cuts.",
	own_options };

enum action {
	START_WRITER,
	KILL_WRITER,
	HANG_WRITER,
	CUT_LINK,
	START_REPLICA,
	KILL_REPLICA,
	CUT_POWER,
	LEAVE,
	WIPE,
	ACTIONS,
};

static struct {
	unsigned weights[ACTIONS]; /* how often they happen, relative to each other */
	uint64_t pause_ns;         /* longest time between two actions */
	uint64_t end_ns;
	unsigned writers; /* at a time */
	unsigned restarts;
	struct writer_plan writer;
} plan;

static bool
is_broken(const char *what)
{
	return broken && strcmp(broken, what) == 0;
}

void
world_init(void)
{
}

/* --- replicas --- */

/* the replica's process checks its log as log_file_open() does, and refuses a bad one; there never is one */
static void
check_log(const struct replica *r, const uint8_t *bytes)
{
	const struct log_header header = rules_header(r, bytes);
	struct log_scan scan;

	log_scan_init(&scan, bytes, (size_t)header.tail);
	SIM_CHECK(log_scan_all(&scan) == LOG_OK, "replica %u: record %u of its log is damaged", r->number,
		(unsigned)scan.records);
}

static void
start_replica(struct replica *r)
{
	if (r->is_running)
		return;
	SIM_TRACE("replica %u starts", r->number);
	r->has_power = true;
	if (r->medium.failed)
		medium_mount_again(&r->medium);
	check_log(r, r->medium.memory);
	r->is_running = true;
}

static void
end_replica(struct replica *r)
{
	if (r->is_running)
		SIM_TRACE("replica %u ends", r->number);
	r->is_running = false;
	links_replica_ends(r);
}

static void
cut_power(struct replica *r)
{
	end_replica(r);
	SIM_TRACE("replica %u loses its power", r->number);
	r->has_power = false;
	medium_cut_power(&r->medium);
	check_log(r, r->medium.memory);
}

/* true if a writer recovers the log whose user has said that no empty replica has lost anything */
static bool
is_trusted(void)
{
	for (unsigned i = 0; i < writer_count; i++)
		if (writers[i]->cluster && !writers[i]->has_recovered && writers[i]->plan.trust_empty)
			return true;
	return false;
}

static void
wipe(struct replica *r)
{
	if (!is_broken("wipe") && (!rules_may_wipe(r) || is_trusted()))
		return;
	end_replica(r);
	SIM_TRACE("replica %u gets a new file", r->number);
	rules_new_file(r);
	r->is_wiped = true;
	start_replica(r);
}

/* --- what happens --- */

static struct writer *
some_writer(void)
{
	struct writer *living[WRITERS_MAX];
	unsigned count = 0;

	for (unsigned i = 0; i < writer_count; i++)
		if (writers[i]->cluster)
			living[count++] = writers[i];
	return count ? living[sim_below(count)] : NULL;
}

static void
start_writer(void)
{
	struct writer_plan writer = plan.writer;
	unsigned living = 0;

	for (unsigned i = 0; i < writer_count; i++)
		living += writers[i]->cluster != NULL;
	if (living >= plan.writers || plan.restarts == 0)
		return;
	plan.restarts--;
	writer.trust_empty = rules_may_trust_empty() && sim_chance(200);
	writer.records = sim_below(40);
	writer.timeout_ms = 1 + (int)sim_below(20000);
	writer.patience_ns = 1 + sim_below(20) * SIM_S;
	(void)writer_start(&writer);
}

static void
act(enum action action)
{
	struct replica *r = &replicas[sim_below(replica_count)];
	struct writer *w = some_writer();

	switch (action) {
	case START_WRITER:
		start_writer();
		break;
	case KILL_WRITER:
		if (w)
			writer_kill(w);
		break;
	case HANG_WRITER:
		if (w && !w->is_hanging)
			writer_hang(w, sim_delay_ns(20 * SIM_S));
		break;
	case CUT_LINK:
		links_cut_to(r);
		break;
	case START_REPLICA:
		start_replica(r);
		break;
	case KILL_REPLICA:
		end_replica(r);
		break;
	case CUT_POWER:
		cut_power(r);
		break;
	case LEAVE:
		SIM_TRACE("replica %u cannot be reached", r->number);
		r->unreachable_ns = sim.now_ns + sim_delay_ns(20 * SIM_S);
		links_cut_to(r);
		break;
	case WIPE:
		wipe(r);
		break;
	case ACTIONS:
		break;
	}
}

static enum action
some_action(void)
{
	unsigned sum = 0;
	enum action action = 0;

	for (unsigned i = 0; i < ACTIONS; i++)
		sum += plan.weights[i];
	unsigned which = sim_below(sum);
	while (which >= plan.weights[action])
		which -= plan.weights[action++];
	return action;
}

/* --- the end --- */

static void
wait_for(struct writer *w)
{
	const uint64_t end_ns = sim.now_ns + END_NS;

	while (w->result == WRITER_AT_WORK && sim.now_ns < end_ns)
		(void)fiber_wait(writers, end_ns);
	SIM_CHECK(w->result != WRITER_AT_WORK, "writer %u does not end", w->group);
}

/* the replicas of the mask run, with the memory that they had at the end; all others are away */
static void
run_only(unsigned mask, uint8_t *const saved[static REPLICAS_MAX])
{
	for (unsigned i = 0; i < replica_count; i++) {
		struct replica *r = &replicas[i];
		end_replica(r);
		r->has_power = false;
		medium_fill(&r->medium, saved[i], r->medium.size);
		if (mask >> i & 1)
			start_replica(r);
	}
}

static unsigned
count_bits(unsigned mask)
{
	return (unsigned)__builtin_popcount(mask);
}

static void
recover_from(unsigned mask, uint8_t *const saved[static REPLICAS_MAX])
{
	struct writer_plan only = { .timeout_ms = 20000, .only_recovers = true };

	SIM_TRACE("recovery from the replicas %x", mask);
	run_only(mask, saved);
	only.trust_empty = rules_may_trust_empty() && sim_chance(500);
	bool must = rules_must_recover(mask, only.trust_empty);
	struct writer *w = writer_start(&only);
	wait_for(w);
	SIM_CHECK(w->result == WRITER_IS_OVER || !must,
		"a majority is there, and the writer does not recover");
	writer_kill(w);
}

static void
recover_from_majorities(uint8_t *const saved[static REPLICAS_MAX])
{
	unsigned masks[1 << REPLICAS_MAX];
	unsigned count = 0;

	for (unsigned mask = 0; mask < 1u << replica_count; mask++)
		if (count_bits(mask) == replica_count / 2 + 1)
			masks[count++] = mask;
	for (unsigned tried = 0; tried < MAJORITIES_MAX && count > 0; tried++) {
		unsigned i = sim_below(count);
		recover_from(masks[i], saved);
		masks[i] = masks[--count];
	}
}

/* all replicas are there: a writer recovers, appends, and brings all up to date */
static void
bring_up_to_date(uint8_t *const saved[static REPLICAS_MAX])
{
	struct writer_plan last = plan.writer;

	run_only((1u << replica_count) - 1, saved);
	last.trust_empty = rules_may_trust_empty();
	last.timeout_ms = (int)(END_NS / SIM_MS / 3);
	last.patience_ns = END_NS / 3;
	last.records = sim_below(10);
	bool must = rules_must_recover((1u << replica_count) - 1, last.trust_empty);
	struct writer *w = writer_start(&last);
	wait_for(w);
	SIM_CHECK(w->result == WRITER_IS_OVER || !must,
		"all replicas are there, and the writer does not recover");
	if (!must || w->result != WRITER_IS_OVER)
		return;
	SIM_CHECK(w->acknowledged == w->records, "all replicas are there, and record %u is not acknowledged",
		w->acknowledged);
	for (unsigned i = 0; i < replica_count; i++) {
		struct replica *r = &replicas[i];
		cut_power(r);
		size_t tail = (size_t)rules_header(r, r->medium.memory).tail;
		size_t end = w->records ? w->ends[w->records - 1] : LOG_HEADER_SIZE;
		SIM_CHECK(tail == end,
			"replica %u was not brought up to date: its log ends at %zu, not at %zu", i, tail,
			end);
		acknowledged_check(r->medium.memory, tail, UINT64_MAX, "a replica that is up to date");
	}
}

static void
check_end(void)
{
	uint8_t *saved[REPLICAS_MAX] = { NULL };

	for (unsigned i = 0; i < writer_count; i++)
		writer_kill(writers[i]);
	link_plan.trouble = link_plan.flush_error = link_plan.medium_error = 0;
	link_plan.post_error = link_plan.connect_error = link_plan.late = 0;
	if (link_plan.delay_ns > 10 * SIM_MS)
		link_plan.delay_ns = 10 * SIM_MS;
	if (link_plan.notice_ns > SIM_S)
		link_plan.notice_ns = SIM_S;
	for (unsigned i = 0; i < replica_count; i++) {
		struct replica *r = &replicas[i];
		r->unreachable_ns = 0;
		cut_power(r);
		saved[i] = malloc(r->medium.size);
		SIM_CHECK(saved[i], "no memory for a replica's bytes");
		memcpy(saved[i], r->medium.memory, r->medium.size);
	}
	recover_from_majorities(saved);
	bring_up_to_date(saved);
	for (unsigned i = 0; i < replica_count; i++)
		free(saved[i]);
}

static void
live(void *arg)
{
	(void)arg;
	start_writer();
	while (sim.now_ns < plan.end_ns) {
		fiber_sleep_ns(sim_delay_ns(plan.pause_ns));
		writers_go_on();
		act(some_action());
	}
	check_end();
}

/* --- plans --- */

static void
plan_replicas(void)
{
	static const unsigned counts[] = { 1, 2, 3, 3, 3, 3, 3, 4, 5, 5 };
	static const size_t units[] = { 64, 4096 };
	const size_t size = LOG_SIZE_MIN + sim_below(5) * 4096;

	replica_count = counts[sim_below(sizeof(counts) / sizeof(counts[0]))];
	for (unsigned i = 0; i < replica_count; i++) {
		struct replica *r = &replicas[i];
		const size_t unit = units[sim_below(2)];
		r->number = i;
		r->has_power = r->is_running = true;
		r->is_wiped = false;
		r->unreachable_ns = 0;
		r->writer = NULL;
		r->medium.size = size;
		r->medium.unit = unit;
		r->medium.tear = sim_chance(300) ? MEDIUM_PIECE
			: unit == 64             ? 64
			: sim_chance(500)        ? 512
						 : 4096;
		rules_new_file(r);
	}
}

static unsigned
some_weight(unsigned per_mille, unsigned max)
{
	return sim_chance(per_mille) ? 1 + sim_below(max) : 0;
}

static void
plan_troubles(void)
{
	link_plan = (struct link_plan){
		.delay_ns = (uint64_t)1 << (12 + sim_below(18)),
		.notice_ns = (uint64_t)1 << (16 + sim_below(16)),
		.trouble = sim_chance(700) ? 1u << sim_below(9) : 0,
		.flush_error = some_weight(200, 100),
		.medium_error = some_weight(100, 20),
		.post_error = some_weight(200, 20),
		.connect_error = some_weight(200, 300),
		.late = 500,
		.write_back = some_weight(500, 200),
		.spurious = some_weight(200, 200),
	};
	plan.weights[START_WRITER] = 10;
	plan.weights[START_REPLICA] = 1 + sim_below(20);
	plan.weights[KILL_WRITER] = some_weight(600, 5);
	plan.weights[HANG_WRITER] = some_weight(400, 5);
	plan.weights[CUT_LINK] = some_weight(600, 20);
	plan.weights[KILL_REPLICA] = some_weight(500, 5);
	plan.weights[CUT_POWER] = some_weight(700, 8);
	plan.weights[LEAVE] = some_weight(400, 5);
	plan.weights[WIPE] = some_weight(400, 5);
}

static void
make_plan(void)
{
	memset(&plan, 0, sizeof(plan));
	plan_replicas();
	plan_troubles();
	plan.pause_ns = (uint64_t)1 << (22 + sim_below(10));
	plan.end_ns = sim.now_ns + (1 + sim_below(20)) * SIM_S;
	if (plan.end_ns > sim.now_ns + 60 * plan.pause_ns)
		plan.end_ns = sim.now_ns + 60 * plan.pause_ns;
	plan.writers = 1 + sim_below(3);
	plan.restarts = WRITERS_MAX - MAJORITIES_MAX - 1;
	plan.writer = (struct writer_plan){
		.batch_max = 1 + sim_below(6),
		.payload_max = 1 + sim_below(sim_chance(300) ? 500 : 60),
		.window = 1 + sim_below(10),
		.pause_ns = (uint64_t)1 << (16 + sim_below(14)),
	};
}

unsigned
world_run(void)
{
	medium_is_lying = is_broken("flush");
	links_are_shared = is_broken("guard");
	links_begin();
	writers_begin();
	make_plan();
	fds_begin(sim_chance(200) ? 5 : 0);
	fibers_begin(sim_chance(500) ? 1u << sim_below(9) : 0, 0, STEPS_MAX);
	fiber_start("live", live, NULL);
	fibers_run(links_happen);
	unsigned operations = links_operations();
	links_end();
	writers_end();
	return operations;
}
