/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "completions.h"
#include "connection.h"
#include "numbers.h"
#include "ping.h"

bool
ping_parse(int argc, char *argv[], struct ping_options *options)
{
	uint64_t pause_s = 0;

	/* no number on the way may equal the one that means the end */
	if ((argc == 5 || argc == 6) && parse_number(argv[3], UINT64_MAX, &options->seed) &&
		parse_number(argv[4], UINT64_MAX, &options->rounds) &&
		options->rounds < COUNTER_END - options->seed &&
		(argc == 5 || parse_number(argv[5], UINT32_MAX, &pause_s))) {
		options->pause_s = (unsigned)pause_s;
		return true;
	}

	fprintf(stderr, "usage: %s <server_address> <port> <seed> <rounds> [<sleep>]\n", argv[0]);
	return false;
}

/* sends one number and receives one */
static int
play_round(struct rpma_conn *conn, struct counter *counter, enum completions_of receives, uint64_t *value,
	const char *label_sent)
{
	struct ibv_wc wc;

	/* before the message, since its reply needs a receive */
	int ret = counter_receive(conn, counter);
	if (ret == 0)
		ret = counter_send(conn, counter, *value);
	if (ret)
		return ret;
	printf("%s: %" PRIu64 "\n", label_sent, *value);

	/* the reply may complete before the message does */
	for (int sent = 0, received = 0; ret == 0 && !(sent && received);) {
		ret = completions_next(conn, sent ? receives : COMPLETIONS_MAIN, &wc);
		if (ret == 0 && wc.opcode == IBV_WC_SEND) {
			sent = 1;
		} else if (ret == 0) {
			ret = counter_received(&wc, counter, value);
			received = 1;
		}
	}

	return ret;
}

int
ping_play(struct rpma_conn *conn, struct counter *counter, const struct ping_options *options,
	const char *label_sent, const char *label_received)
{
	uint64_t value = options->seed;
	struct rpma_cq *rcq;
	struct ibv_wc wc;

	int ret = checked("rpma_conn_get_rcq", rpma_conn_get_rcq(conn, &rcq));
	if (ret)
		return ret;

	enum completions_of receives = rcq ? COMPLETIONS_RECEIVES : COMPLETIONS_MAIN;
	for (uint64_t i = 0; i < options->rounds; i++) {
		ret = play_round(conn, counter, receives, &value, label_sent);
		if (ret)
			return ret;
		printf("%s: %" PRIu64 "\n", label_received, value);
		if (options->pause_s)
			sleep(options->pause_s);
	}

	ret = counter_send(conn, counter, COUNTER_END);

	return ret ? ret : completions_next(conn, COMPLETIONS_MAIN, &wc);
}
