/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * cancel.h -- which calls of the device a thread can be cancelled in: ibv_get_cq_event() and rdma_get_cm_event()
 *
 * These two wait without a limit, and programs end their threads there. So does rdma-core, where nearly all other calls
 * reach no cancellation point (pthreads(7)). Here they reach many: each read and write of a socket is one. A thread that
 * ended there would leave locks taken and sockets borrowed, and the whole process would stop.
 *
 * So no other call is a cancellation point. Calls that are not fast turn cancellation off at their beginning. The fast
 * ones (post, poll, arm) turn it off only where they call the kernel, because it takes about 10 ns.
 */

#ifndef SOFTRDMA_CANCEL_H
#define SOFTRDMA_CANCEL_H

#include <pthread.h>

static inline int
softrdma_cancel_off(void)
{
	int before;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void
softrdma_cancel_back(const int *before)
{
	int off;
	pthread_setcancelstate(*before, &off);
}

/* a declaration: the thread is not cancelled before the block ends; cancel_before is the state before that */
#define SOFTRDMA_NO_CANCEL \
	const int cancel_before __attribute__((cleanup(softrdma_cancel_back), unused)) = softrdma_cancel_off()

#endif /* SOFTRDMA_CANCEL_H */
