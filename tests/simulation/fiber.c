/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* fiber.c -- threads that run one at a time, in an order that the seed decides */

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "fiber.h"
#include "sim.h"

#define FIBERS_MAX 32
#define GROUPS_MAX 64
#define STACK_SIZE ((size_t)1 << 20)

/* the longest time of a step: the clock never stands still */
#define STEP_NS_MAX 2000

enum fiber_state {
	FIBER_NONE,
	FIBER_READY,
	FIBER_WAITING,
	FIBER_ENDED, /* a thread that has not been joined */
};

struct fiber {
	enum fiber_state state;
	char name[16];
	void (*run)(void *arg);
	void *arg;
	void *(*thread)(void *arg); /* of pthread_create */
	const void *what;
	uint64_t until_ns;
	bool woken;
	int saved_errno;
	unsigned group;
	unsigned locks; /* that it holds */
	_Alignas(max_align_t) uint8_t own[FIBER_OWN_SIZE];
	ucontext_t context;
	void *stack;
	void *fake_stack; /* the address sanitizer's */
};

static struct {
	struct fiber fibers[FIBERS_MAX];
	struct fiber *running; /* NULL: the scheduler */
	ucontext_t scheduler;
	void *scheduler_fake_stack;
	const void *scheduler_stack;
	size_t scheduler_stack_size;
	unsigned live;
	unsigned used;   /* all fibers from here on have never been used */
	uint64_t frozen; /* groups, one bit each */
	unsigned preemption;
	unsigned no_thread;
	uint64_t steps_max;
} all;

/* the address sanitizer must know the current stack; without it these do nothing */
__attribute__((weak)) void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t size);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void *fake_stack, const void **bottom,
	size_t *size);

static void
leave_stack(void **fake_stack, const void *bottom, size_t size)
{
	if (__sanitizer_start_switch_fiber)
		__sanitizer_start_switch_fiber(fake_stack, bottom, size);
}

static void
enter_stack(void *fake_stack, const void **bottom, size_t *size)
{
	if (__sanitizer_finish_switch_fiber)
		__sanitizer_finish_switch_fiber(fake_stack, bottom, size);
}

/* a fiber that was killed leaves its marks on its stack */
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *start, size_t size);

void (*fibers_switched)(void *own);

void *
fiber_own(void)
{
	return all.running->own;
}

void
fibers_begin(unsigned preemption, unsigned no_thread, uint64_t steps_max)
{
	all.no_thread = no_thread;
	all.preemption = preemption;
	all.steps_max = steps_max;
	all.frozen = 0;
}

/* stops the running fiber until it is its turn again */
static void
switch_to_scheduler(void)
{
	struct fiber *self = all.running;
	bool ends = self->state == FIBER_NONE || self->state == FIBER_ENDED;

	self->saved_errno = errno;
	leave_stack(ends ? NULL : &self->fake_stack, all.scheduler_stack, all.scheduler_stack_size);
	swapcontext(&self->context, &all.scheduler);
	enter_stack(self->fake_stack, &all.scheduler_stack, &all.scheduler_stack_size);
	errno = self->saved_errno;
}

static void
begin_fiber(void)
{
	struct fiber *self = all.running;

	enter_stack(NULL, &all.scheduler_stack, &all.scheduler_stack_size);
	if (self->thread)
		self->thread(self->arg);
	else
		self->run(self->arg);
	self->state = self->thread ? FIBER_ENDED : FIBER_NONE;
	all.live--;
	fiber_wake(self);
	switch_to_scheduler();
	sim_fail("a fiber runs behind its end");
}

/* getcontext() returns twice to the eyes of a compiler, so it is called here */
static void
make_context(struct fiber *fiber)
{
	getcontext(&fiber->context);
	fiber->context.uc_stack.ss_sp = fiber->stack;
	fiber->context.uc_stack.ss_size = STACK_SIZE;
	makecontext(&fiber->context, begin_fiber, 0);
}

static struct fiber *
new_fiber(const char *name)
{
	struct fiber *fiber = all.fibers;

	while (fiber->state != FIBER_NONE)
		SIM_CHECK(++fiber < all.fibers + FIBERS_MAX, "too many threads");
	if (fiber->stack == NULL) {
		fiber->stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		SIM_CHECK(fiber->stack != MAP_FAILED, "no memory for a stack");
	}
	if (fiber >= all.fibers + all.used)
		all.used = (unsigned)(fiber - all.fibers) + 1;
	if (__asan_unpoison_memory_region)
		__asan_unpoison_memory_region(fiber->stack, STACK_SIZE);
	void *stack = fiber->stack;
	memset(fiber, 0, sizeof(*fiber));
	fiber->stack = stack;
	fiber->state = FIBER_READY;
	fiber->group = fiber_group();
	fiber->until_ns = SIM_NEVER;
	snprintf(fiber->name, sizeof(fiber->name), "%s", name);
	make_context(fiber);
	all.live++;
	return fiber;
}

void
fiber_start(const char *name, void (*run)(void *arg), void *arg)
{
	fiber_start_in(fiber_group(), name, run, arg);
}

void
fiber_start_in(unsigned group, const char *name, void (*run)(void *arg), void *arg)
{
	struct fiber *fiber = new_fiber(name);

	SIM_CHECK(group < GROUPS_MAX, "too many processes");
	fiber->group = group;
	fiber->run = run;
	fiber->arg = arg;
}

unsigned
fiber_group(void)
{
	return all.running ? all.running->group : 0;
}

static bool
is_frozen(const struct fiber *fiber)
{
	return all.frozen >> fiber->group & 1;
}

void
fibers_freeze(unsigned group, bool frozen)
{
	if (frozen)
		all.frozen |= UINT64_C(1) << group;
	else
		all.frozen &= ~(UINT64_C(1) << group);
}

bool
fibers_kill(unsigned group)
{
	SIM_CHECK(group != fiber_group(), "a process kills itself");
	for (struct fiber *fiber = all.fibers; fiber < all.fibers + all.used; fiber++) {
		if (fiber->state != FIBER_NONE && fiber->group == group && fiber->locks)
			return false;
	}
	for (struct fiber *fiber = all.fibers; fiber < all.fibers + all.used; fiber++) {
		if (fiber->state == FIBER_NONE || fiber->group != group)
			continue;
		all.live -= fiber->state != FIBER_ENDED;
		fiber->state = FIBER_NONE;
	}
	fibers_freeze(group, false);
	return true;
}

static void
run_fiber(struct fiber *fiber)
{
	all.running = fiber;
	if (fibers_switched)
		fibers_switched(fiber->own);
	leave_stack(&all.scheduler_fake_stack, fiber->stack, STACK_SIZE);
	swapcontext(&all.scheduler, &fiber->context);
	enter_stack(all.scheduler_fake_stack, NULL, NULL);
	all.running = NULL;
}

/* wakes fibers whose time has come; returns the time of the next one */
static uint64_t
wake_sleepers(void)
{
	uint64_t next_ns = SIM_NEVER;

	for (struct fiber *fiber = all.fibers; fiber < all.fibers + all.used; fiber++) {
		if (fiber->state != FIBER_WAITING)
			continue;
		if (fiber->until_ns <= sim.now_ns)
			fiber->state = FIBER_READY;
		else if (fiber->until_ns < next_ns)
			next_ns = fiber->until_ns;
	}
	return next_ns;
}

static struct fiber *
choose(void)
{
	struct fiber *ready[FIBERS_MAX];
	uint32_t count = 0;

	for (struct fiber *fiber = all.fibers; fiber < all.fibers + all.used; fiber++) {
		if (fiber->state == FIBER_READY && !is_frozen(fiber))
			ready[count++] = fiber;
	}
	return count == 0 ? NULL : ready[count == 1 ? 0 : sim_below(count)];
}

void
fibers_run(uint64_t (*happen)(void))
{
	while (all.live > 0) {
		uint64_t next_ns = happen();
		uint64_t sleepers_ns = wake_sleepers();
		struct fiber *fiber = choose();

		SIM_CHECK(++sim.steps < all.steps_max, "it goes on and on");
		if (fiber) {
			sim.now_ns += 1 + sim_below(STEP_NS_MAX);
			run_fiber(fiber);
			continue;
		}
		if (sleepers_ns < next_ns)
			next_ns = sleepers_ns;
		SIM_CHECK(next_ns != SIM_NEVER, "everybody waits, and nothing can happen any more");
		sim.now_ns = next_ns;
	}
}

bool
fiber_is_running(void)
{
	return all.running != NULL;
}

const char *
fiber_name(void)
{
	return all.running ? all.running->name : "world";
}

void
fiber_yield(void)
{
	switch_to_scheduler();
}

bool
fiber_wait(const void *what, uint64_t until_ns)
{
	struct fiber *self = all.running;

	self->what = what;
	self->until_ns = until_ns;
	self->woken = false;
	self->state = FIBER_WAITING;
	switch_to_scheduler();
	self->what = NULL;
	return self->woken;
}

void
fiber_wake(const void *what)
{
	for (struct fiber *fiber = all.fibers; fiber < all.fibers + all.used; fiber++) {
		if (fiber->state == FIBER_WAITING && fiber->what == what) {
			fiber->state = FIBER_READY;
			fiber->woken = true;
		}
	}
}

void
fiber_sleep_ns(uint64_t ns)
{
	fiber_wait(NULL, sim.now_ns + ns);
}

/* --- threads of the code under test --- */

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);

int
__wrap_sched_yield(void)
{
	if (all.running == NULL) /* a sanitizer, at the end of the process */
		return __real_sched_yield();
	fiber_yield();
	return 0;
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	(void)attr;
	if (all.live > 3 && sim_chance(all.no_thread)) {
		SIM_TRACE("no thread");
		return EAGAIN;
	}
	struct fiber *fiber = new_fiber("thread");
	fiber->thread = run;
	fiber->arg = arg;
	*thread = (pthread_t)(fiber - all.fibers);
	return 0;
}

int
__wrap_pthread_join(pthread_t thread, void **result)
{
	struct fiber *fiber = &all.fibers[thread];

	(void)result;
	while (fiber->state != FIBER_ENDED)
		fiber_wait(fiber, SIM_NEVER);
	fiber->state = FIBER_NONE;
	return 0;
}

int
__wrap_pthread_setname_np(pthread_t thread, const char *name)
{
	struct fiber *fiber = &all.fibers[thread];

	snprintf(fiber->name, sizeof(fiber->name), "%.*s", (int)sizeof(fiber->name) - 1, name);
	return 0;
}

int
__wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	if (all.running == NULL)
		return __real_pthread_mutex_lock(mutex);
	if (sim_chance(all.preemption))
		fiber_yield();
	while (pthread_mutex_trylock(mutex) != 0)
		fiber_wait(mutex, SIM_NEVER);
	all.running->locks++;
	return 0;
}

int
__wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	int ret = __real_pthread_mutex_unlock(mutex);

	if (all.running)
		all.running->locks--;
	fiber_wake(mutex);
	return ret;
}

int
__wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	__wrap_pthread_mutex_unlock(mutex);
	fiber_wait(cond, SIM_NEVER);
	return __wrap_pthread_mutex_lock(mutex);
}

/*
 * wakes all waiters, all but one of them spuriously, as POSIX allows: choosing one would cost a random step
 */
int
__wrap_pthread_cond_signal(pthread_cond_t *cond)
{
	fiber_wake(cond);
	return 0;
}

int
__wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	fiber_wake(cond);
	return 0;
}
