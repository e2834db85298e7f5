/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* wait.h -- waiting for librpma with a time limit: on descriptors, never by sleeping */

#ifndef TEST_WAIT_H
#define TEST_WAIT_H

#include <librpma.h>

/* milliseconds that anything that must happen may take; a test that waits longer has failed */
#define WAIT_MS 20000

/* 1 if fd became readable, 0 if it did not in time */
int wait_readable(int fd, int timeout_ms);

/* the result of rpma_conn_next_event(), or RPMA_E_NO_EVENT if the time ran out */
int wait_event(struct rpma_conn *conn, enum rpma_conn_event *event, int timeout_ms);

/* the result of rpma_ep_next_conn_req(), or RPMA_E_NO_EVENT if the time ran out */
int wait_conn_req(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req,
	int timeout_ms);

/*
 * Takes one completion from a CQ that has its own channel. Returns 0, RPMA_E_NO_COMPLETION if the time ran
 * out, or another error.
 */
int wait_wc(struct rpma_cq *cq, struct ibv_wc *wc, int timeout_ms);

/* the same, only by polling */
int poll_wc(struct rpma_cq *cq, struct ibv_wc *wc, int timeout_ms);

#endif /* TEST_WAIT_H */
