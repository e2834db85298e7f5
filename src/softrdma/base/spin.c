/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* spin.c -- a thread that looks for input again and again, instead of sleeping (busy polling) */

#include <sched.h>

#include "softrdma/base/env.h"
#include "softrdma/base/spin.h"

/* input comes soon if the last two came within this many times the duration of a spin */
#define DENSE 4

/* another thread has computed during a look that takes this time: the kernel's time slices are longer */
#define TAKEN_AWAY_NS SOFTRDMA_NS_PER_MS
/* the thread sleeps for this long instead of spinning; twice as long each time that it happens again */
#define REST_MIN_NS (10 * SOFTRDMA_NS_PER_MS)
#define REST_MAX_NS (1000 * SOFTRDMA_NS_PER_MS)

/* looks without input between two offers of the processor */
#define LOOKS_PER_OFFER 8
/* another thread has taken an offer that lasts for this time */
#define OFFER_TAKEN_NS 1000
/* part of the time that may be lost to threads that take an offer for long: one in this many */
#define OFFERS_PAUSE 64

/* the calling thread's offers of its processor */
static _Thread_local struct {
	unsigned looks; /* since the last offer */
	bool has_woken;
	bool often;              /* true if the last offer was taken: the next look makes another one */
	uint64_t pause_until_ns; /* a thread that computes has taken the last one: none until then */
} offers;

/* --- giving way --- */

void
softrdma_spin_has_woken(void)
{
	offers.has_woken = true;
}

void
softrdma_spin_let_run(void)
{
	if (!offers.has_woken)
		return;
	offers.has_woken = false;
	offers.looks = LOOKS_PER_OFFER;
	softrdma_spin_give_way();
}

void
softrdma_spin_give_way(void)
{
	if (++offers.looks < LOOKS_PER_OFFER && !offers.often)
		return;
	offers.looks = 0;
	const uint64_t begin_ns = softrdma_now_ns();
	if (begin_ns < offers.pause_until_ns)
		return;
	sched_yield();
	const uint64_t end_ns = softrdma_now_ns();
	const uint64_t taken_ns = end_ns - begin_ns;
	offers.often = taken_ns >= OFFER_TAKEN_NS && taken_ns < TAKEN_AWAY_NS;
	if (taken_ns >= TAKEN_AWAY_NS)
		offers.pause_until_ns = end_ns + OFFERS_PAUSE * taken_ns;
}

/* --- spinning --- */

struct softrdma_spin *
softrdma_spin_mine(void)
{
	static _Thread_local struct softrdma_spin mine;
	return &mine;
}

static void
start(struct softrdma_spin *spin, uint64_t now_ns, uint64_t spin_ns)
{
	const bool pays = spin_ns > 0 && spin->is_dense && now_ns >= spin->rest_until_ns;
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

/* true if another thread has had this processor for long since the last look; who wants long spins has one to spare */
static bool
was_taken_away(const struct softrdma_spin *spin, uint64_t now_ns)
{
	const uint64_t since_ns = spin->looked_ns ? now_ns - spin->looked_ns : 0;
	return since_ns >= TAKEN_AWAY_NS && since_ns >= spin->spin_ns;
}

static void
rest(struct softrdma_spin *spin, uint64_t now_ns)
{
	const bool again = now_ns - spin->rest_until_ns < REST_MAX_NS;
	uint64_t rest_ns = again ? 2 * spin->rest_ns : REST_MIN_NS;
	if (rest_ns > REST_MAX_NS)
		rest_ns = REST_MAX_NS;
	spin->rest_ns = rest_ns;
	spin->rest_until_ns = now_ns + rest_ns;
	softrdma_spin_end(spin);
}

void
softrdma_spin_is_busy(struct softrdma_spin *spin)
{
	spin->looked_ns = 0;
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
		softrdma_spin_end(spin);
	else
		spin->looked_ns = now_ns;
	return softrdma_spin_is_on(spin);
}
