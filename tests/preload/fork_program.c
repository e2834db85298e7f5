/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fork_program.c -- a verbs program that listens, forks, and goes on in both processes
 *
 * It knows nothing of the software device and is run on libsoftrdma.so. Its child connects to it, as in the
 * multi-threaded tests of other projects.
 */

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#define LEN 64
#define PORT_SPACE RDMA_PS_TCP
#define TIMEOUT_MS 2000
#define ALARM_S 30

static void
must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%d: failed: %s: %s\n", (int)getpid(), what, strerror(errno));
	exit(1);
}

static void
expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type, struct rdma_cm_id **id)
{
	struct rdma_cm_event *event;
	must(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
	must(event->event == type, rdma_event_str(event->event));
	if (id)
		*id = event->id;
	must(rdma_ack_cm_event(event) == 0, "rdma_ack_cm_event");
}

struct side {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char mem[LEN];
};

static void
make_queues(struct side *side)
{
	side->pd = ibv_alloc_pd(side->id->verbs);
	must(side->pd != NULL, "ibv_alloc_pd");
	side->cq = ibv_create_cq(side->id->verbs, 4, NULL, NULL, 0);
	must(side->cq != NULL, "ibv_create_cq");
	side->mr = ibv_reg_mr(side->pd, side->mem, LEN, IBV_ACCESS_LOCAL_WRITE);
	must(side->mr != NULL, "ibv_reg_mr");
	struct ibv_qp_init_attr attr = {
		.send_cq = side->cq,
		.recv_cq = side->cq,
		.cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	must(rdma_create_qp(side->id, side->pd, &attr) == 0, "rdma_create_qp");
}

static void
destroy(struct side *side)
{
	rdma_destroy_qp(side->id);
	must(ibv_dereg_mr(side->mr) == 0, "ibv_dereg_mr");
	must(ibv_destroy_cq(side->cq) == 0, "ibv_destroy_cq");
	must(ibv_dealloc_pd(side->pd) == 0, "ibv_dealloc_pd");
	must(rdma_destroy_id(side->id) == 0, "rdma_destroy_id");
}

static void
await_completion(struct side *side)
{
	struct ibv_wc wc;
	int count;
	while ((count = ibv_poll_cq(side->cq, 1, &wc)) == 0)
		;
	must(count == 1 && wc.status == IBV_WC_SUCCESS, "a completion");
}

/* --- the child --- */

static void
use_objects_of_the_parent(struct rdma_cm_id *listener, struct ibv_pd *pd, struct ibv_cq *cq)
{
	char mem[LEN];
	struct ibv_wc wc;
	struct rdma_cm_event *event;
	must(ibv_reg_mr(pd, mem, LEN, IBV_ACCESS_LOCAL_WRITE) == NULL && errno == ESTALE, "no ibv_reg_mr");
	must(ibv_dealloc_pd(pd) == ESTALE, "no ibv_dealloc_pd");
	must(ibv_poll_cq(cq, 1, &wc) < 0, "no ibv_poll_cq");
	must(ibv_req_notify_cq(cq, 0) == ESTALE, "no ibv_req_notify_cq");
	must(ibv_destroy_cq(cq) == ESTALE, "no ibv_destroy_cq");
	must(rdma_get_cm_event(listener->channel, &event) == -1 && errno == EBADF, "no rdma_get_cm_event");
	must(rdma_destroy_id(listener) == -1 && errno == ESTALE, "no rdma_destroy_id");
	must(rdma_destroy_id(listener) == -1 && errno == ESTALE, "no rdma_destroy_id either");
}

static void
be_the_child(struct sockaddr_in addr)
{
	struct side side = { .mem = "sent by the child" };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	must(channel != NULL, "rdma_create_event_channel");
	must(rdma_create_id(channel, &side.id, NULL, PORT_SPACE) == 0, "rdma_create_id");
	must(rdma_resolve_addr(side.id, NULL, (struct sockaddr *)&addr, TIMEOUT_MS) == 0,
		"rdma_resolve_addr");
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	must(rdma_resolve_route(side.id, TIMEOUT_MS) == 0, "rdma_resolve_route");
	expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	make_queues(&side);
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	must(rdma_connect(side.id, &param) == 0, "rdma_connect");
	expect_event(channel, RDMA_CM_EVENT_ESTABLISHED, NULL);
	struct ibv_sge sge = { .addr = (uintptr_t)side.mem, .length = LEN, .lkey = side.mr->lkey };
	struct ibv_send_wr *bad,
		wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
		};
	must(ibv_post_send(side.id->qp, &wr, &bad) == 0, "ibv_post_send");
	await_completion(&side);
	must(rdma_disconnect(side.id) == 0, "rdma_disconnect");
	expect_event(channel, RDMA_CM_EVENT_DISCONNECTED, NULL);
	destroy(&side);
	rdma_destroy_event_channel(channel);
}

/* --- the parent --- */

static void
serve(struct rdma_event_channel *channel)
{
	struct side side = { 0 };
	expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, &side.id);
	make_queues(&side);
	struct ibv_sge sge = { .addr = (uintptr_t)side.mem, .length = LEN, .lkey = side.mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };
	must(ibv_post_recv(side.id->qp, &wr, &bad) == 0, "ibv_post_recv");
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	must(rdma_accept(side.id, &param) == 0, "rdma_accept");
	expect_event(channel, RDMA_CM_EVENT_ESTABLISHED, NULL);
	await_completion(&side);
	must(strcmp(side.mem, "sent by the child") == 0, "what the child has sent");
	expect_event(channel, RDMA_CM_EVENT_DISCONNECTED, NULL);
	destroy(&side);
}

int
main(void)
{
	int status;
	struct rdma_cm_id *listener;
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	alarm(ALARM_S);
	must(ibv_fork_init() == 0, "ibv_fork_init");
	struct rdma_event_channel *channel = rdma_create_event_channel();
	must(channel != NULL, "rdma_create_event_channel");
	must(rdma_create_id(channel, &listener, NULL, PORT_SPACE) == 0, "rdma_create_id");
	must(rdma_bind_addr(listener, (struct sockaddr *)&addr) == 0, "rdma_bind_addr");
	must(rdma_listen(listener, 1) == 0, "rdma_listen");
	addr.sin_port = rdma_get_src_port(listener);
	struct ibv_pd *pd = ibv_alloc_pd(listener->verbs);
	must(pd != NULL, "ibv_alloc_pd");
	struct ibv_cq *cq = ibv_create_cq(listener->verbs, 4, NULL, NULL, 0);
	must(cq != NULL, "ibv_create_cq");

	pid_t pid = fork();
	must(pid >= 0, "fork");
	if (pid == 0) {
		alarm(ALARM_S);
		use_objects_of_the_parent(listener, pd, cq);
		be_the_child(addr);
		return 0;
	}
	serve(channel);
	must(waitpid(pid, &status, 0) == pid && status == 0, "the end of the child");
	must(ibv_fork_init() == 0, "ibv_fork_init after the fork");
	must(ibv_destroy_cq(cq) == 0, "ibv_destroy_cq");
	must(ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
	must(rdma_destroy_id(listener) == 0, "rdma_destroy_id");
	rdma_destroy_event_channel(channel);
	printf("both processes went on\n");
	return 0;
}
