/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * ledger.h -- a stream of operations of which each completion is accounted for
 *
 * Operations are numbered. Completions must come in that order, each once: first successes, then the first
 * error, and after it only flushed ones.
 */

#ifndef CONF_LEDGER_H
#define CONF_LEDGER_H

#include "mem.h"

enum ledger_op { LEDGER_WRITE, LEDGER_READ, LEDGER_FLUSH, LEDGER_SEND };

/* what the target's region needs for all of them */
#define LEDGER_REGION_USAGE \
	(RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | \
		RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)

struct ledger {
	struct role *role;
	struct mem *m;                 /* local memory of all operations */
	struct rpma_mr_remote *remote; /* received over the control channel */
	enum ledger_op op;
	uint64_t in_flight_max;
	uint64_t posted;
	uint64_t completed;
	bool failed;  /* an error was seen */
	bool refused; /* a post was refused: the connection had ended */
	enum ibv_wc_status first_error;
};

void ledger_open(struct ledger *l, struct role *r, struct mem *m, enum ledger_op op, uint64_t in_flight_max);
void ledger_close(struct ledger *l);

/* posts until in_flight_max are outstanding */
void ledger_fill(struct ledger *l);
/* keeps it filled until that number of completions has come; all must be successes */
void ledger_run(struct ledger *l, uint64_t completions);
/* keeps it filled until something fails */
void ledger_run_until_error(struct ledger *l);
/*
 * Keeps it filled until the other side is found to be gone; it is gone now, or will be soon. The software
 * device completes an operation with an error. Hardware tries for half a minute to reach the other side, so
 * there the event of the connection ends the wait, and this side disconnects as well.
 */
void ledger_run_until_gone(struct ledger *l);
/* takes the completions of all that is outstanding; then nothing may be left */
void ledger_drain(struct ledger *l);

#endif /* CONF_LEDGER_H */
