/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * binary09.c -- a program of the 0.9 library: its completion has 24 bytes, and no byte after them may change
 *
 * It is compiled against the distribution's header, which lacks the connection's completion calls, so it
 * declares them as 0.9 did. The reference to the symbol version is the one that such a binary has.
 */

#include <librpma.h>
#include <signal.h>

#include "two.h"

enum rpma_op {
	RPMA_OP_READ,
	RPMA_OP_WRITE,
	RPMA_OP_FLUSH,
	RPMA_OP_SEND,
	RPMA_OP_RECV,
};

struct rpma_completion {
	void *op_context;
	enum rpma_op op;
	uint32_t byte_len;
	enum ibv_wc_status op_status;
};

int rpma_conn_get_completion_fd(const struct rpma_conn *conn, int *fd);
int rpma_conn_completion_wait(struct rpma_conn *conn);
int rpma_conn_completion_get(struct rpma_conn *conn, struct rpma_completion *cmpl);
__asm__(".symver rpma_conn_completion_get, rpma_conn_completion_get@LIBRPMA_1.0");

_Static_assert(sizeof(struct rpma_completion) == 24, "as 0.9 had it");

#define GUARD 0xa5

static void
get_guarded(struct rpma_conn *conn, struct rpma_completion *cmpl)
{
	unsigned char buf[64];
	int ret, fd;
	memset(buf, GUARD, sizeof(buf));
	ZERO(rpma_conn_get_completion_fd(conn, &fd));
	TRUE(fd >= 0);
	while ((ret = rpma_conn_completion_get(conn, (struct rpma_completion *)(void *)buf)) ==
		RPMA_E_NO_COMPLETION)
		ZERO(rpma_conn_completion_wait(conn));
	ZERO(ret);
	for (size_t i = sizeof(*cmpl); i < sizeof(buf); i++)
		TRUE(buf[i] == GUARD);
	memcpy(cmpl, buf, sizeof(*cmpl));
}

static unsigned char mem[64];

static void
target(int port_fd)
{
	struct rpma_peer *peer = two_peer(RPMA_UTIL_IBV_CONTEXT_LOCAL);
	struct rpma_mr_local *mr;
	char port[8];
	ZERO(rpma_mr_reg(peer, mem, sizeof(mem), RPMA_MR_USAGE_RECV, &mr));
	struct rpma_ep *ep = two_listen(peer, port);
	two_tell_port(port_fd, port);
	struct rpma_conn *conn = two_accept(ep, NULL, NULL, 0, mr);

	struct rpma_completion cmpl;
	get_guarded(conn, &cmpl);
	TRUE(cmpl.op == RPMA_OP_RECV && cmpl.op_status == IBV_WC_SUCCESS);
	TRUE(cmpl.op_context == mr && cmpl.byte_len == 33);
	TRUE(two_check(mem, 33, 1));

	two_expect_event(conn, RPMA_CONN_CLOSED);
	ZERO(rpma_conn_disconnect(conn));
	ZERO(rpma_conn_delete(&conn));
	ZERO(rpma_ep_shutdown(&ep));
	ZERO(rpma_mr_dereg(&mr));
	ZERO(rpma_peer_delete(&peer));
}

static void
initiator(const char *port)
{
	struct rpma_peer *peer = two_peer(RPMA_UTIL_IBV_CONTEXT_REMOTE);
	struct rpma_mr_local *mr;
	two_fill(mem, sizeof(mem), 1);
	ZERO(rpma_mr_reg(peer, mem, sizeof(mem), RPMA_MR_USAGE_SEND, &mr));
	struct rpma_conn *conn = two_connect(peer, port, NULL);

	struct rpma_completion cmpl;
	ZERO(rpma_send(conn, mr, 0, 33, RPMA_F_COMPLETION_ALWAYS, mem));
	get_guarded(conn, &cmpl);
	TRUE(cmpl.op == RPMA_OP_SEND && cmpl.op_status == IBV_WC_SUCCESS && cmpl.op_context == mem);

	ZERO(rpma_conn_disconnect(conn));
	two_expect_event(conn, RPMA_CONN_CLOSED);
	ZERO(rpma_conn_delete(&conn));
	ZERO(rpma_mr_dereg(&mr));
	ZERO(rpma_peer_delete(&peer));
}

int
main(void)
{
	return two_run(target, initiator);
}
