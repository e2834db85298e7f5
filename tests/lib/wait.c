/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* wait.c -- waiting for librpma with a time limit */

#include <errno.h>
#include <poll.h>

#include "deadline.h"
#include "wait.h"

int
wait_readable(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int64_t end = now_ms() + timeout_ms;
	int n;

	do
		n = poll(&pfd, 1, left_ms(end));
	while (n < 0 && errno == EINTR);
	return n > 0;
}

int
wait_event(struct rpma_conn *conn, enum rpma_conn_event *event, int timeout_ms)
{
	int fd;
	int ret = rpma_conn_get_event_fd(conn, &fd);

	if (ret)
		return ret;
	/* a signal may interrupt the wait, and an event may be none that the user gets */
	const int64_t end = now_ms() + timeout_ms;
	do {
		int64_t left = end - now_ms();

		if (!wait_readable(fd, left > 0 ? (int)left : 0))
			return RPMA_E_NO_EVENT;
		ret = rpma_conn_next_event(conn, event);
	} while (ret == RPMA_E_NO_EVENT && now_ms() < end);
	return ret;
}

int
wait_conn_req(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req, int timeout_ms)
{
	int fd;
	int ret = rpma_ep_get_fd(ep, &fd);

	if (ret)
		return ret;
	if (!wait_readable(fd, timeout_ms))
		return RPMA_E_NO_EVENT;
	return rpma_ep_next_conn_req(ep, cfg, req);
}

int
wait_wc(struct rpma_cq *cq, struct ibv_wc *wc, int timeout_ms)
{
	int64_t end = now_ms() + timeout_ms;
	int fd;
	int ret = rpma_cq_get_fd(cq, &fd);

	if (ret)
		return ret;
	/* an event may announce completions that were already taken, so it is only a reason to look again */
	for (;;) {
		ret = rpma_cq_get_wc(cq, 1, wc, NULL);
		if (ret != RPMA_E_NO_COMPLETION)
			return ret;
		if (!wait_readable(fd, left_ms(end)))
			return rpma_cq_get_wc(cq, 1, wc, NULL);
		ret = rpma_cq_wait(cq);
		if (ret)
			return ret;
	}
}

int
poll_wc(struct rpma_cq *cq, struct ibv_wc *wc, int timeout_ms)
{
	int64_t end = now_ms() + timeout_ms;
	int ret;

	do
		ret = rpma_cq_get_wc(cq, 1, wc, NULL);
	while (ret == RPMA_E_NO_COMPLETION && left_ms(end) > 0);
	return ret;
}
