/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* world.c -- runs one seed from its plan to its end */

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "datagram.h"
#include "fds.h"
#include "fiber.h"
#include "net.h"
#include "oracle.h"
#include "sim.h"
#include "softrdma/engine/threads.h"
#include "threads.h"
#include "udp.h"
#include "world.h"

#define STEPS_MAX 3000000

/* in a thousand seeds, those without trouble, in which everything must succeed */
#define CALM 350
#define TROUBLE 180
/* with datagrams, those that have connections beside them */
#define CONNECTED 300
/* those in which the applications and the network are quick, so that the applications lead */
#define DENSE 400

struct side world_sides[SIDES];

static bool has_datagrams;

static struct {
	bool has_connection;
	struct disk_plan disk;
	bool records; /* the stream consists of records with checksums */
	unsigned no_memory;
	uint64_t power_ns; /* when a machine loses its power, after the beginning; SIM_NEVER: none does */
} plan;

/* --- what the device uses --- */

static uint64_t
now_ns(void)
{
	return sim.now_ns;
}

static int
give_random(void *buf, size_t len)
{
	sim_random_bytes(buf, len);
	return 0;
}

/* the device suppresses repeated messages across seeds, so they cannot be part of a seed's trace */
static void
ignore_log(enum softrdma_log_level level, const char *file, int line, const char *func, const char *text)
{
	(void)level;
	(void)file;
	(void)line;
	(void)func;
	SIM_CHECK(*text != '\0' && strchr(text, '\n') == NULL, "a line of the log is none");
}

static const struct driver_option own_options[] = {
	{ "datagrams", NULL,
		"other seeds: three applications with queue pairs of unreliable datagrams, and a network that loses, "
		"doubles, reorders and damages datagrams; for some seeds with a connection beside them",
		.flag = &has_datagrams },
	{ 0 },
};

const struct driver_program world_program = { "simulation",
	"Runs applications and the software device between them in a world that one seed determines: the order of\n"
	"the threads, pieces of the stream, broken streams, memory, media, power cuts.",
	own_options };

void
world_init(void)
{
	static const struct softrdma_env env = { .now_ns = now_ns, .random = give_random, .log = ignore_log };

	/* nothing is gained by polling for more in a world without time, and it costs steps */
	setenv("SOFTRDMA_SPIN_US", "0", 0);
	/* the same on each machine; with another number, each seed has another world */
	setenv("SOFTRDMA_THREADS", "1", 0);
	unsetenv("SOFTRDMA_FAULTS");
	unsetenv("SOFTRDMA_READ_FLUSHES");
	unsetenv("SOFTRDMA_UD");
	unsetenv("SOFTRDMA_TLS_CA");
	unsetenv("SOFTRDMA_TLS_CERT");
	unsetenv("SOFTRDMA_TLS_KEY");
	unsetenv("SOFTRDMA_TLS_PSK");
	softrdma_set_env(&env);
	threads_init();
	disk_init();
	if (has_datagrams)
		datagram_init();
	for (unsigned i = 0; i < SIDES; i++)
		side_init(&world_sides[i], i, &world_sides[1 - i]);
}

/* --- plans --- */

static void
plan_side(struct side_plan *side, bool calm, bool dense)
{
	struct collector_plan *collector = &side->collector;

	/* one after the other: the order of the draws belongs to the seed */
	*side = (struct side_plan){ .recvs = RECVS_MAX, .rnr_retry = 7, .collector.dense = dense };
	side->ops = sim_below(OPS_MAX + 1);
	collector->collecting = sim_below(COLLECT_WAYS);
	side->shared_queue = sim_chance(300);
	collector->two_cqs = sim_chance(500);
	side->sq_sig_all = sim_chance(200);
	side->send_wr_max = 1 + sim_below(sim_chance(500) ? 4 : OPS_MAX);
	side->recv_wr_max = 1 + sim_below(sim_chance(500) ? 4 : RECVS_MAX);
	side->rd_atom_max = 1 + sim_below(8);
	side->big = sim_chance(25) ? 2 : 0;
	collector->pause_ns = (uint64_t)1 << (10 + sim_below(20));
	collector->event_loop = sim_chance(400);
	collector->nonblocking = sim_chance(800);
	/* others block in ibv_get_cq_event() */
	collector->nonblocking = collector->nonblocking && collector->event_loop;
	if (dense)
		side->ops = OPS_MAX;
	if (calm)
		return;
	side->bad = sim_chance(side->big ? 500 : TROUBLE) ? 150 : 0;
	side->leaves_early = sim_chance(TROUBLE / 2);
	side->destroys = sim_chance(TROUBLE / 3);
	side->deregisters = sim_chance(TROUBLE);
}

static void
plan_receivers(struct side_plan sides[static SIDES])
{
	if (!sim_chance(TROUBLE))
		return;
	troubles.bad_recvs = true;
	for (unsigned i = 0; i < SIDES; i++) {
		sides[i].bad = sides[i].bad ? sides[i].bad : 50;
		if (sim_chance(300))
			sides[i].recvs = sim_below(8);
		sides[i].rnr_retry = sim_below(8);
	}
	troubles.rnr_limited = true;
}

static void
plan_net(bool calm, bool big, bool dense)
{
	struct net_plan net = {
		.room = 1u << (6 + sim_below(11)),
		.piece_max = sim_chance(100) ? 1 : 1u << sim_below(17),
		.delay_ns = (uint64_t)1 << (10 + sim_below(18)),
		.stall = sim_chance(200) ? 5 : 0,
		.interrupt = sim_chance(300) ? 20 : 0,
		.records = plan.records,
	};

	if (big) { /* keeps the run short */
		net.room = 1u << 16;
		net.piece_max = 1u << 16;
		net.delay_ns = 20 * SIM_US;
	}
	if (dense) {
		net.delay_ns = (uint64_t)1 << (10 + sim_below(6));
		net.stall = 0;
	}
	net_begin(&net);
	if (!calm && sim_chance(TROUBLE))
		net_cut_behind(sim_below(NET_SIDES), sim_below(sim_chance(500) ? 200 : 20000),
			sim_below(NET_CUTS));
	if (!calm && plan.records && sim_chance(2 * TROUBLE))
		net_damage(sim_below(NET_SIDES), sim_below(sim_chance(500) ? 200 : 20000));
}

static void
make_plan(struct side_plan sides[static SIDES])
{
	const bool calm = sim_chance(CALM), dense = sim_chance(DENSE);

	memset(&plan, 0, sizeof(plan));
	memset(&troubles, 0, sizeof(troubles));
	for (unsigned i = 0; i < SIDES; i++)
		plan_side(&sides[i], calm, dense);
	if (!calm)
		plan_receivers(sides);
	plan.records = sim_chance(400);
	plan_net(calm, sides[0].big > 0 || sides[1].big > 0, dense);
	plan.no_memory = sim_chance(300) ? 100 : 0;
	plan.disk.delay_ns = sim_chance(200) ? 0 : (uint64_t)1 << (10 + sim_below(20));
	if (sim_chance(40)) /* longer than TCP waits for a peer that does not read */
		plan.disk.delay_ns = 60 * SIM_S;
	plan.disk.interrupt = sim_chance(300) ? 100 : 0;
	plan.power_ns = SIM_NEVER;
	plan.has_connection = !has_datagrams || sim_chance(CONNECTED);
	if (has_datagrams)
		datagram_begin(dense);
	if (calm)
		return;
	plan.disk.error = sim_chance(TROUBLE) ? 150 : 0;
	plan.disk.shrink = sim_chance(TROUBLE / 2) ? 100 : 0;
	if (sim_chance(2 * TROUBLE))
		plan.power_ns = sim_delay_ns(100 * SIM_MS);
}

/* --- fibers --- */

static void
cut_power(void *arg)
{
	unsigned machine = sim_below(SIDES);

	(void)arg;
	fiber_sleep_ns(plan.power_ns);
	troubles.power = true;
	disk_cut_power(machine);
	net_cut_now(sim_chance(500) ? NET_CUT_RESET : NET_CUT_SILENT);
}

static void
connect_sides(void)
{
	int sockets[NET_SIDES];

	net_connect(sockets);
	for (unsigned i = 0; i < SIDES; i++)
		side_connect(&world_sides[i], sockets[i], i == 0, plan.records);
}

static void
start_sides(void)
{
	for (unsigned i = 0; i < SIDES; i++)
		side_open(&world_sides[i]);
	SIM_CHECK(softrdma_threads_start() == 0, "the device cannot be started");
	alloc_begin(0); /* without memory there would be no connection, and nothing to check */
	connect_sides();
	alloc_begin(plan.no_memory);
	disk_set_plan(&plan.disk);
	fiber_start("left", side_run, &world_sides[0]);
	fiber_start("right", side_run, &world_sides[1]);
	if (plan.power_ns != SIM_NEVER)
		fiber_start("power", cut_power, NULL);
}

static void
wait_for_sides(void)
{
	while (!world_sides[0].ended || !world_sides[1].ended)
		fiber_wait(&world_sides, SIM_NEVER);
	for (unsigned i = 0; i < SIDES; i++)
		oracle_check_end(&world_sides[i]);
	softrdma_threads_stop();
}

static void
live(void *arg)
{
	(void)arg;
	alloc_begin(plan.no_memory);
	if (plan.has_connection)
		start_sides();
	if (has_datagrams)
		datagram_start();
	if (plan.has_connection)
		wait_for_sides();
	if (has_datagrams)
		datagram_wait_for_end();
}

static uint64_t
happen(void)
{
	const uint64_t stream_ns = net_happen();
	const uint64_t datagram_ns = has_datagrams ? udp_happen() : SIM_NEVER;

	return stream_ns < datagram_ns ? stream_ns : datagram_ns;
}

unsigned
world_run(void)
{
	struct side_plan sides[SIDES];

	make_plan(sides);
	disk_begin();
	for (unsigned i = 0; i < SIDES; i++) {
		world_sides[i].plan = sides[i]; /* both plans are set before either side begins */
		world_sides[1 - i].plan = sides[1 - i];
	}
	for (unsigned i = 0; i < SIDES; i++)
		side_begin(&world_sides[i], &sides[i]);
	/* without a worker a flush holds up all connections, and TCP ends them if it takes too long */
	fibers_begin(sim_chance(500) ? 1u << sim_below(9) : 0, plan.disk.delay_ns < 10 * SIM_S ? 100 : 0,
		STEPS_MAX);
	fiber_start("main", live, NULL);
	fibers_run(happen);
	SIM_CHECK(fds_count() == 0, "%u descriptors are still open", fds_count());
	SIM_CHECK(alloc_count() == 0, "%zu pieces of memory have not been given back", alloc_count());
	return world_sides[0].op_count + world_sides[1].op_count + (has_datagrams ? datagram_ops() : 0);
}
