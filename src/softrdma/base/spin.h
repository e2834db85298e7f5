/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * spin.h -- a thread that looks for input again and again, instead of sleeping (busy polling)
 *
 * To sleep and to be woken costs some 20 us, and a look hardly one. But a thread that looks for input keeps a processor,
 * and the thread that it waits for may need that one. So there are three rules:
 *
 *	A thread of the device that could sleep looks for input for a limited time, and only if the last two inputs
 *	came shortly after each other. Each time that nothing comes in this time, it lets twice as many of the next
 *	occasions pass.
 *
 *	A thread that has found nothing offers its processor to others from time to time (sched_yield()). That costs
 *	as much as a look, so it is done after a number of looks, and after each one while others take the offers.
 *
 *	If another thread then keeps the processor for long, it computes, and there are too few processors. The kernel
 *	gives each thread whole time slices then, but lets one that has slept run at once. So the thread sleeps
 *	instead of looking for some time: it rests.
 *
 * A thread has its own experience: each call gets that of the calling thread. Any lock may be held, unless stated otherwise.
 */

#ifndef SOFTRDMA_SPIN_H
#define SOFTRDMA_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/* the experience of one thread; zeroed memory is that of a new one. spin.c only. */
struct softrdma_spin {
	uint64_t until_ns;  /* the thread looks for input until then; 0: it sleeps */
	uint64_t spin_ns;   /* for how long, from the last input on */
	uint64_t input_ns;  /* time of the last input */
	bool is_dense;      /* true if that one came soon after the one before */
	uint64_t looked_ns; /* time of the last look that found nothing; 0: none since the last input */
	unsigned vain;      /* number of spins without input in a row */
	unsigned skipped;   /* number of occasions that it lets pass because of them */

	uint64_t rest_until_ns, rest_ns; /* it rests until then, and for how long */

	/* offers of the processor */
	unsigned looks;      /* since the last one */
	uint64_t offered_ns; /* time of that */
	bool often;          /* true if it was taken: the next look makes another one */
	bool has_woken;      /* true if the thread has woken another one since */
};

/* the calling thread's */
struct softrdma_spin *softrdma_spin_mine(void);

/* the thread begins to wait for input: it looks for it for spin_ns, if it pays */
void softrdma_spin_begin(struct softrdma_spin *spin, uint64_t spin_ns);
/* input has come: the thread looks for more for spin_ns, if it pays */
void softrdma_spin_input(struct softrdma_spin *spin, uint64_t spin_ns);
/* further input is not expected */
void softrdma_spin_end(struct softrdma_spin *spin);
/* a look has found nothing; false: the thread should sleep */
bool softrdma_spin_goes_on(struct softrdma_spin *spin);
/* the thread does something else before its next look, which may take long */
void softrdma_spin_is_busy(struct softrdma_spin *spin);

/* true if the thread should not sleep */
static inline bool
softrdma_spin_is_on(const struct softrdma_spin *spin)
{
	return spin->until_ns != 0;
}

/* A look has found nothing: others may run. False: the thread rests, so it had better sleep until there is input. No lock. */
bool softrdma_spin_give_way(struct softrdma_spin *spin);
/* the thread has woken another one, which may need this processor: the next call of let_run() gives way */
void softrdma_spin_has_woken(struct softrdma_spin *spin);
/* no lock */
void softrdma_spin_let_run(struct softrdma_spin *spin);

#endif /* SOFTRDMA_SPIN_H */
