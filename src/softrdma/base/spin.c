/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* spin.c -- a thread that looks for input again and again, instead of sleeping (busy polling) */

#include <sched.h>

#include "softrdma/base/env.h"
#include "softrdma/base/pause.h"
#include "softrdma/base/spin.h"

/* input comes soon if the last two came within this many times the duration of a spin */
#define DENSE 4

/* spins in vain after which the number of occasions that pass is not doubled again */
#define VAIN_MAX 6

/* another thread has computed during a look that takes this time: the kernel's time slices are longer */
#define TAKEN_AWAY_NS SOFTRDMA_NS_PER_MS
/* for how long the thread rests then; twice as long each time that it happens again */
#define REST_MIN_NS (50 * SOFTRDMA_NS_PER_MS)
#define REST_MAX_NS (1000 * SOFTRDMA_NS_PER_MS)

/* looks without input between two offers of the processor ... */
#define LOOKS_PER_OFFER 8
/* ... and how long they take at most: a thread that does other work in between does not spin */
#define LOOKS_NS 100000
/* another thread has taken an offer that lasts for this time */
#define OFFER_TAKEN_NS 1000

struct softrdma_spin *
softrdma_spin_mine(void)
{
	static _Thread_local struct softrdma_spin mine;
	return &mine;
}

/* --- too few processors --- */

static bool
rests(const struct softrdma_spin *spin, uint64_t now_ns)
{
	return now_ns < spin->rest_until_ns;
}

/* another thread has had this processor for long */
static void
rest(struct softrdma_spin *spin, uint64_t now_ns)
{
	const bool again = now_ns - spin->rest_until_ns < REST_MAX_NS;
	spin->rest_ns = softrdma_pause_next(again ? spin->rest_ns : 0, REST_MIN_NS, REST_MAX_NS);
	spin->rest_until_ns = now_ns + spin->rest_ns;
	softrdma_spin_end(spin);
}

/* --- spinning --- */

static void
start(struct softrdma_spin *spin, uint64_t now_ns, uint64_t spin_ns)
{
	bool pays = spin_ns > 0 && spin->is_dense && !rests(spin, now_ns);
	if (pays && spin->skipped > 0) {
		spin->skipped--;
		pays = false;
	}
	spin->until_ns = pays ? now_ns + spin_ns : 0;
	spin->spin_ns = spin_ns;
	spin->looked_ns = 0;
}

/* true if the last input was not longer ago than dense ones are apart */
static bool
is_soon(const struct softrdma_spin *spin, uint64_t now_ns, uint64_t spin_ns)
{
	return now_ns - spin->input_ns <= DENSE * spin_ns;
}

void
softrdma_spin_begin(struct softrdma_spin *spin, uint64_t spin_ns)
{
	const uint64_t now_ns = softrdma_now_ns();
	spin->is_dense = spin->is_dense && is_soon(spin, now_ns, spin_ns);
	start(spin, now_ns, spin_ns);
}

void
softrdma_spin_input(struct softrdma_spin *spin, uint64_t spin_ns)
{
	const uint64_t now_ns = softrdma_now_ns();
	if (softrdma_spin_is_on(spin))
		spin->vain = spin->skipped = 0;
	spin->is_dense = is_soon(spin, now_ns, spin_ns);
	spin->input_ns = now_ns;
	start(spin, now_ns, spin_ns);
}

void
softrdma_spin_end(struct softrdma_spin *spin)
{
	spin->until_ns = 0;
	spin->looked_ns = 0;
}

void
softrdma_spin_is_busy(struct softrdma_spin *spin)
{
	spin->looked_ns = 0;
}

static void
spin_in_vain(struct softrdma_spin *spin)
{
	if (spin->vain < VAIN_MAX)
		spin->vain++;
	spin->skipped = (1u << spin->vain) - 1;
	softrdma_spin_end(spin);
}

/* true if another thread has had this processor for long since the last look; who wants long spins has one to spare */
static bool
was_taken_away(const struct softrdma_spin *spin, uint64_t now_ns)
{
	const uint64_t since_ns = spin->looked_ns ? now_ns - spin->looked_ns : 0;
	return since_ns >= TAKEN_AWAY_NS && since_ns >= spin->spin_ns;
}

bool
softrdma_spin_goes_on(struct softrdma_spin *spin)
{
	if (!softrdma_spin_is_on(spin))
		return false;
	const uint64_t now_ns = softrdma_now_ns();
	if (was_taken_away(spin, now_ns))
		rest(spin, now_ns);
	else if (now_ns >= spin->until_ns)
		spin_in_vain(spin);
	else
		spin->looked_ns = now_ns;
	return softrdma_spin_is_on(spin);
}

/* --- giving way --- */

/* returns the time after it */
static uint64_t
offer(struct softrdma_spin *spin, uint64_t now_ns)
{
	sched_yield();
	const uint64_t end_ns = softrdma_now_ns();
	const uint64_t taken_ns = end_ns - now_ns;
	spin->often = taken_ns >= OFFER_TAKEN_NS && taken_ns < TAKEN_AWAY_NS;
	if (taken_ns >= TAKEN_AWAY_NS && taken_ns >= spin->spin_ns)
		rest(spin, end_ns);
	return end_ns;
}

bool
softrdma_spin_give_way(struct softrdma_spin *spin)
{
	if (++spin->looks < LOOKS_PER_OFFER && !spin->often)
		return true;
	uint64_t now_ns = softrdma_now_ns();
	const bool spins = now_ns - spin->offered_ns < LOOKS_NS;
	const bool may = !rests(spin, now_ns);
	spin->looks = 0;
	spin->often = false;
	if (spins && may)
		now_ns = offer(spin, now_ns);
	spin->offered_ns = now_ns;
	return !spins || may;
}

void
softrdma_spin_has_woken(struct softrdma_spin *spin)
{
	spin->has_woken = true;
}

void
softrdma_spin_let_run(struct softrdma_spin *spin)
{
	if (!spin->has_woken)
		return;
	spin->has_woken = false;
	const uint64_t now_ns = softrdma_now_ns();
	if (!rests(spin, now_ns))
		offer(spin, now_ns);
}
