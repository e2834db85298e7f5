/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* rules.h -- what the log's format and its documents promise: all that depends on their version */

#ifndef TEST_SIMULATION_LOG_RULES_H
#define TEST_SIMULATION_LOG_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link.h"
#include "log_format.h"

/* the file of a replica that never had a writer, durable */
void rules_new_file(struct replica *r);

/* reads the header from the memory or the medium of a replica, which must be good */
struct log_header rules_header(const struct replica *r, const uint8_t *bytes);

/* an atomic write is about to change the memory: checks that promises and epochs only grow */
void rules_word_changes(struct replica *r, size_t offset, const uint8_t bytes[static LOG_WORD_SIZE]);

/* as replica.c decides: a request has come while it has a writer; it has accepted a writer */
bool rules_drops_writer(struct replica *r);
void rules_accepted(struct replica *r);

/* true if the log survives that this replica loses its file now, and is started with a new one */
bool rules_may_wipe(const struct replica *r);

/* true if a user may start a writer with --trust-empty: no empty replica has lost anything */
bool rules_may_trust_empty(void);

/*
 * True if a writer must be able to recover from these replicas (a bit each), which are all that run. Otherwise
 * it may refuse to.
 */
bool rules_must_recover(unsigned mask, bool trust_empty);

#endif /* TEST_SIMULATION_LOG_RULES_H */
