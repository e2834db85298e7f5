/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* engines.c -- which engines there are, and which of them serves a connection */

#include <assert.h>
#include <sched.h>
#include <string.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/variables.h"
#include "softrdma/bounds.h"
#include "softrdma/engine/one_engine.h"

/* how long a thread looks for more work before it sleeps, in us: a response often follows at once */
#define SPIN_US_DEFAULT 50

/* processors for which there is one thread, unless the environment says otherwise: the others are for the application */
#define PROCESSORS_PER_THREAD 4

/* the names of the threads */
static const char *const names[] = { "softrdma", "softrdma-2", "softrdma-3", "softrdma-4", "softrdma-5",
	"softrdma-6", "softrdma-7", "softrdma-8" };
static_assert(sizeof(names) / sizeof(names[0]) == SOFTRDMA_THREADS_MAX, "each thread has a name");

static struct softrdma_engine engines[SOFTRDMA_THREADS_MAX] = {
	[0 ... SOFTRDMA_THREADS_MAX - 1] = SOFTRDMA_NO_ENGINE,
};
static struct softrdma_engine *const first = &engines[0];
static atomic_uint engine_count = 1; /* of those that run, and the first */
static unsigned life = 1;            /* changed by a fork only */

static unsigned
count_engines(void)
{
	return atomic_load_explicit(&engine_count,
		memory_order_acquire); /* what start_others() wrote is seen */
}

static void
after_fork(void)
{
	for (unsigned i = 0; i < SOFTRDMA_THREADS_MAX; i++) {
		softrdma_fork_keep(engines[i].work);
		softrdma_fork_keep(engines[i].retired);
		softrdma_fork_keep(engines[i].busy.watched);
		engines[i] = (struct softrdma_engine)SOFTRDMA_NO_ENGINE;
	}
	engine_count = 1;
	life++;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

unsigned
softrdma_engines_life(void)
{
	return life;
}

struct softrdma_engine *
softrdma_engine_first(void)
{
	return first;
}

uint64_t
softrdma_engine_spin_ns(void)
{
	return first->spin_ns;
}

/* --- which engine serves a connection --- */

static struct softrdma_engine *
engine_or_null(const struct softrdma_watched *watched)
{
	return atomic_load_explicit(&watched->engine, memory_order_relaxed);
}

struct softrdma_engine *
softrdma_engine_of(const struct softrdma_watched *watched)
{
	struct softrdma_engine *engine = engine_or_null(watched);
	return engine ? engine : first;
}

static struct softrdma_engine *
least_loaded(void)
{
	struct softrdma_engine *least = first;
	for (unsigned i = 1; i < count_engines(); i++) {
		if (engines[i].connections < least->connections)
			least = &engines[i];
	}
	return least;
}

struct softrdma_engine *
softrdma_engine_join(struct softrdma_watched *watched)
{
	struct softrdma_engine *engine = engine_or_null(watched);
	if (engine == NULL) {
		engine = least_loaded();
		softrdma_beats_move(watched, first, engine);
		atomic_store_explicit(&watched->engine, engine, memory_order_relaxed);
	}
	atomic_fetch_add(&engine->connections, 1);
	return engine;
}

void
softrdma_engine_part(const struct softrdma_watched *watched)
{
	struct softrdma_engine *engine = engine_or_null(watched);
	if (engine)
		atomic_fetch_sub(&engine->connections, 1);
}

void
softrdma_engine_forget(struct softrdma_watched *watched)
{
	softrdma_beats_move(watched, softrdma_engine_of(watched), first);
	atomic_store_explicit(&watched->engine, NULL, memory_order_relaxed);
}

/* --- looks that pending sockets wait for --- */

void
softrdma_engine_ask_others(void)
{
	for (unsigned i = 1; i < count_engines(); i++)
		softrdma_one_engine_ask(&engines[i]);
}

bool
softrdma_engine_others_have_looked(void)
{
	bool have_looked = true;
	for (unsigned i = 1; i < count_engines() && have_looked; i++)
		have_looked = engines[i].look_ended == engines[i].look_asked;
	return have_looked;
}

/* --- their life --- */

/* one if the kernel does not tell the processors */
static unsigned
default_threads(void)
{
	cpu_set_t processors;
	if (sched_getaffinity(0, sizeof(processors), &processors) != 0)
		return 1;
	const unsigned threads = (unsigned)CPU_COUNT(&processors) / PROCESSORS_PER_THREAD;
	if (threads < 1)
		return 1;
	return threads < SOFTRDMA_THREADS_MAX ? threads : SOFTRDMA_THREADS_MAX;
}

static int
start_one(unsigned i, const struct softrdma_engine_calls *calls, uint64_t spin_ns)
{
	return softrdma_one_engine_run(&engines[i], names[i], calls, spin_ns);
}

static int
start_another(unsigned i, uint64_t spin_ns)
{
	static const struct softrdma_engine_calls none;
	int ret = softrdma_one_engine_open(&engines[i]);
	if (ret)
		return ret;
	ret = start_one(i, &none, spin_ns);
	if (ret)
		softrdma_one_engine_close(&engines[i]);
	return ret;
}

/* starts as many as wanted; the device works with those that can be started */
static void
start_others(unsigned wanted, uint64_t spin_ns)
{
	unsigned count = 1;
	int ret = 0;
	while (count < wanted && ret == 0) {
		ret = start_another(count, spin_ns);
		count += ret == 0;
	}
	/*
	 * message(limits): `SOFTRDMA_THREADS` -> Raise the limit of threads (`ulimit -u`, `TasksMax=`), or
	 * set fewer.
	 */
	if (ret)
		SOFTRDMA_LOG(WARNING, "only %u of %u progress threads can be started: %s", count, wanted,
			strerror(ret));
	engine_count = count;
}

int
softrdma_engine_open(void)
{
	return softrdma_one_engine_open(first);
}

int
softrdma_engine_run(const struct softrdma_engine_calls *calls)
{
	const uint64_t spin_ns = 1000 * softrdma_setting("SOFTRDMA_SPIN_US", 0, 1000000, SPIN_US_DEFAULT);
	const uint64_t wanted =
		softrdma_setting("SOFTRDMA_THREADS", 1, SOFTRDMA_THREADS_MAX, default_threads());
	int ret = start_one(0, calls, spin_ns);
	if (ret == 0)
		start_others((unsigned)wanted, spin_ns);
	return ret;
}

void
softrdma_engine_halt(void)
{
	for (unsigned i = 0; i < count_engines(); i++)
		softrdma_one_engine_stop(&engines[i]);
	for (unsigned i = 0; i < count_engines(); i++)
		softrdma_one_engine_join(&engines[i]);
}

void
softrdma_engine_drain(void)
{
	for (unsigned i = 0; i < count_engines(); i++)
		softrdma_one_engine_drain(&engines[i]);
}

void
softrdma_engine_close(void)
{
	for (unsigned i = 0; i < count_engines(); i++)
		softrdma_one_engine_close(&engines[i]);
	engine_count = 1;
}
