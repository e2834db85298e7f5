/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* server.c -- reply to each number with the next one; the receives come from a shared receive queue */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "connection.h"
#include "counter.h"

/* where the receives complete */
enum receives_in {
	IN_SRQ_RCQ,  /* the shared receive queue has a completion queue */
	IN_MAIN_CQ,  /* the shared receive queue has none; the connection has one for everything */
	IN_CONN_RCQ, /* the shared receive queue has none; the connection has one for its receives */
};

#define RCQ_SIZE 10

struct server {
	struct rpma_srq *srq;
	struct rpma_conn *conn;
	struct rpma_cq *cq;  /* for sends */
	struct rpma_cq *rcq; /* for receives; may be the same */
	struct counter counter;
};

static int
post_receive(struct server *s)
{
	return checked("rpma_srq_recv", rpma_srq_recv(s->srq, s->counter.mr, 0, COUNTER_SIZE, NULL));
}

static int
find_queues(struct server *s, enum receives_in where)
{
	int ret = checked("rpma_conn_get_cq", rpma_conn_get_cq(s->conn, &s->cq));
	if (ret)
		return ret;

	switch (where) {
	case IN_SRQ_RCQ:
		ret = rpma_srq_get_rcq(s->srq, &s->rcq);
		break;
	case IN_CONN_RCQ:
		ret = rpma_conn_get_rcq(s->conn, &s->rcq);
		break;
	case IN_MAIN_CQ:
		s->rcq = s->cq;
		break;
	}

	return checked("finding the queue of receives", ret);
}

/* *value was received: sends the next number, and receives another value meanwhile */
static int
answer(struct server *s, uint64_t *value)
{
	uint64_t next = *value + 1;
	bool sent = false;
	bool received = false;
	struct ibv_wc wc;

	printf("Value received: %" PRIu64 "\n", *value);
	int ret = post_receive(s);
	if (ret == 0)
		ret = counter_send(s->conn, &s->counter, next);
	if (ret)
		return ret;
	printf("Value sent: %" PRIu64 "\n", next);

	/* if both complete in one queue, they come in any order */
	while (ret == 0 && !(sent && received)) {
		ret = cq_next(sent ? s->rcq : s->cq, &wc);
		if (ret == 0 && wc.opcode == IBV_WC_SEND) {
			sent = true;
		} else if (ret == 0) {
			ret = counter_received(&wc, &s->counter, value);
			received = true;
		}
	}

	return ret;
}

static int
play(struct server *s, enum receives_in where)
{
	struct ibv_wc wc;
	uint64_t value = 0;

	int ret = find_queues(s, where);
	if (ret == 0)
		ret = cq_next(s->rcq, &wc);
	if (ret == 0)
		ret = counter_received(&wc, &s->counter, &value);
	while (ret == 0 && value != COUNTER_END)
		ret = answer(s, &value);

	return ret;
}

/* makes the shared receive queue, and the configuration of connections that use it */
static int
configure(struct rpma_peer *peer, enum receives_in where, struct rpma_srq **srq, struct rpma_conn_cfg **cfg)
{
	struct rpma_srq_cfg *srq_cfg = NULL;

	int ret = checked("rpma_srq_cfg_new", rpma_srq_cfg_new(&srq_cfg));
	if (ret == 0 && where != IN_SRQ_RCQ)
		ret = checked("rpma_srq_cfg_set_rcq_size", rpma_srq_cfg_set_rcq_size(srq_cfg, 0));
	if (ret == 0)
		ret = checked("rpma_srq_new", rpma_srq_new(peer, srq_cfg, srq));
	(void)rpma_srq_cfg_delete(&srq_cfg);

	if (ret == 0)
		ret = checked("rpma_conn_cfg_new", rpma_conn_cfg_new(cfg));
	if (ret == 0)
		ret = checked("rpma_conn_cfg_set_srq", rpma_conn_cfg_set_srq(*cfg, *srq));
	if (ret == 0 && where == IN_CONN_RCQ)
		ret = checked("rpma_conn_cfg_set_rcq_size", rpma_conn_cfg_set_rcq_size(*cfg, RCQ_SIZE));

	return ret;
}

int
main(int argc, char *argv[])
{
	enum receives_in where = IN_SRQ_RCQ;
	struct server s = { 0 };
	struct rpma_peer *peer = NULL;
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_ep *ep = NULL;

	if (argc == 4 && strcmp(argv[3], "m") == 0)
		where = IN_MAIN_CQ;
	else if (argc == 4 && strcmp(argv[3], "r") == 0)
		where = IN_CONN_RCQ;
	else if (argc != 3) {
		fprintf(stderr,
			"usage: %s <server_address> <port> [m|r]\n"
			"where receives complete: in the queue of the shared receive queue, or of the connection\n"
			"  m  the main completion queue\n"
			"  r  the completion queue of its receives\n",
			argv[0]);
		return 2;
	}
	show_log();

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer, NULL);
	if (ret == 0)
		ret = counter_open(peer, &s.counter);
	if (ret == 0)
		ret = configure(peer, where, &s.srq, &cfg);
	/* the receive belongs to no connection, so there is no need to wait for one */
	if (ret == 0)
		ret = post_receive(&s);
	if (ret == 0)
		ret = checked("rpma_ep_listen", rpma_ep_listen(peer, argv[1], argv[2], &ep));
	if (ret == 0)
		ret = server_accept(ep, cfg, NULL, &s.conn);
	if (ret == 0) {
		ret = play(&s, where);
		ret = first_error(ret, ret ? conn_disconnect(&s.conn) : conn_wait_closed(&s.conn));
	}

	/* delete connections before the queue that they take their receives from */
	ret = first_error(ret, checked("rpma_ep_shutdown", rpma_ep_shutdown(&ep)));
	ret = first_error(ret, checked("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg)));
	ret = first_error(ret, checked("rpma_srq_delete", rpma_srq_delete(&s.srq)));
	ret = first_error(ret, counter_close(&s.counter));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));

	return ret ? 1 : 0;
}
