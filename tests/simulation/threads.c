/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* threads.c -- what the device keeps in thread-local variables, for each fiber */

#include <stdbool.h>

#include "fiber.h"
#include "softrdma/base/spin.h"
#include "softrdma/core/cq.h"
#include "softrdma/engine/pace.h"
#include "threads.h"

struct own {
	struct softrdma_comp_channel *served;
	struct softrdma_spin spin;
	struct softrdma_pace pace;
};

_Static_assert(sizeof(struct own) <= FIBER_OWN_SIZE, "a fiber has room for it");

void __real_softrdma_comp_channel_serve(struct softrdma_comp_channel *channel);
void __wrap_softrdma_comp_channel_serve(struct softrdma_comp_channel *channel);

void
__wrap_softrdma_comp_channel_serve(struct softrdma_comp_channel *channel)
{
	((struct own *)fiber_own())->served = channel;
	__real_softrdma_comp_channel_serve(channel);
}

struct softrdma_spin *__wrap_softrdma_spin_mine(void);
struct softrdma_pace *__wrap_softrdma_pace_mine(void);
bool __wrap_softrdma_spin_give_way(struct softrdma_spin *spin);
void __wrap_softrdma_spin_let_run(struct softrdma_spin *spin);

struct softrdma_spin *
__wrap_softrdma_spin_mine(void)
{
	return &((struct own *)fiber_own())->spin;
}

struct softrdma_pace *
__wrap_softrdma_pace_mine(void)
{
	return &((struct own *)fiber_own())->pace;
}

bool
__wrap_softrdma_spin_give_way(struct softrdma_spin *spin)
{
	(void)spin;
	fiber_yield();
	return true;
}

void
__wrap_softrdma_spin_let_run(struct softrdma_spin *spin)
{
	(void)spin;
	fiber_yield();
}

static void
switched(void *own)
{
	__real_softrdma_comp_channel_serve(((struct own *)own)->served);
}

void
threads_init(void)
{
	fibers_switched = switched;
}
