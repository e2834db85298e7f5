/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* flush_worker.h -- makes durable what a FLUSH asks for, on a worker if that may block */

#ifndef SOFTRDMA_FLUSH_WORKER_H
#define SOFTRDMA_FLUSH_WORKER_H

#include "softrdma/engine/connection.h"

/*
 * Makes durable the range of the FLUSH that the responder serves: at once if that cannot block, else on a worker, which
 * goes on with the connection afterwards. Until then later requests of this connection wait (head-of-line blocking),
 * and no other connection does. The link's lock is held.
 */
void softrdma_flush_start(struct softrdma_connection *conn);

#endif /* SOFTRDMA_FLUSH_WORKER_H */
