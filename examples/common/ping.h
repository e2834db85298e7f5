/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * ping.h -- the client's part of the ping-pong examples
 *
 * It sends a number, gets another one back, sends that, and so on; COUNTER_END at the end.
 */

#ifndef EXAMPLES_PING_H
#define EXAMPLES_PING_H

#include <stdbool.h>
#include <stdint.h>

#include "counter.h"

struct ping_options {
	uint64_t seed;
	uint64_t rounds;
	unsigned pause_s; /* after each round */
};

/* <server_address> <port> <seed> <rounds> [<sleep>]; tells how it is used if it is not that */
bool ping_parse(int argc, char *argv[], struct ping_options *options);

/*
 * Plays all rounds on an established connection that has been configured with completions_configure(), with
 * or without a completion queue for receives. A line of stdout is one of the labels and the number. Returns 0
 * or the librpma error, and has told the user what went wrong.
 */
int ping_play(struct rpma_conn *conn, struct counter *counter, const struct ping_options *options,
	const char *label_sent, const char *label_received);

#endif /* EXAMPLES_PING_H */
