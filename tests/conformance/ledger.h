/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * ledger.h -- a stream of operations of which each completion is accounted for
 *
 * Operations are numbered; completions must come in that order, each once, successes before errors,
 * and behind the first error nothing but flushed ones.
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
	struct rpma_mr_remote *remote; /* taken over the control channel */
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
/* keeps it filled for so many completions, which must be successes */
void ledger_run(struct ledger *l, uint64_t completions);
/* keeps it filled until something fails */
void ledger_run_until_error(struct ledger *l);
/*
 * the other side is gone, or will be soon: the software device tells by an error; hardware by the event of
 * the connection, for it tries for half a minute to reach the other side, unless we disconnect as well
 */
void ledger_run_until_gone(struct ledger *l);
/* takes the completions of all that is outstanding; then nothing may be left */
void ledger_drain(struct ledger *l);

#endif /* CONF_LEDGER_H */
