/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * ping.h -- the client's part of the ping-pong examples
 *
 * It sends a number, receives another one, sends that, and so on; at the end it sends COUNTER_END.
 */

#ifndef EXAMPLES_PING_H
#define EXAMPLES_PING_H

#include <stdbool.h>
#include <stdint.h>

#include "counter.h"

struct ping_options {
	uint64_t seed;
	uint64_t rounds;
	unsigned pause_s; /* in seconds, after each round */
};

/* parses <server_address> <port> <seed> <rounds> [<sleep>]; on other arguments prints the usage */
bool ping_parse(int argc, char *argv[], struct ping_options *options);

/*
 * Plays all rounds on an established connection that was configured with completions_configure(), with or
 * without a completion queue for receives. Each line on stdout is one of the labels and the number. Returns 0
 * or the librpma error, after it has told the user what went wrong.
 */
int ping_play(struct rpma_conn *conn, struct counter *counter, const struct ping_options *options,
	const char *label_sent, const char *label_received);

#endif /* EXAMPLES_PING_H */
