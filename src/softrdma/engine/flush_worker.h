/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* flush_worker.h -- makes durable what a FLUSH asks for, on a worker where that may block */

#ifndef SOFTRDMA_FLUSH_WORKER_H
#define SOFTRDMA_FLUSH_WORKER_H

#include "softrdma/engine/connection.h"

/*
 * Makes the range durable that the responder's FLUSH asks for: at once if that cannot block, else on a worker, which
 * goes on with the connection afterwards. The link's lock is held.
 */
void softrdma_flush_start(struct softrdma_connection *conn);

#endif /* SOFTRDMA_FLUSH_WORKER_H */
