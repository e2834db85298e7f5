/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_external_qp.c -- two processes whose queue pairs are made by ibv_create_qp() or rdma_create_qp(), and
 * connected by the connection manager
 */

#include "two_sides.h"
#include <sys/wait.h>

#define LEN 64

/* sent as it is, so it has no padding, which would be uninitialized */
struct memory {
	uint64_t addr;
	uint64_t rkey;
};

/* the objects of a side; a side ends its process if a check fails */
struct side {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	bool owns; /* the application made the queue pair */
	_Alignas(8) char mem[LEN];
};

static void
must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "process %d: %s: errno %d\n", (int)getpid(), what, errno);
	_exit(1);
}

static struct rdma_cm_id *
expect(struct side *side, enum rdma_cm_event_type type, struct memory *memory)
{
	struct rdma_cm_event *event;
	must(rdma_get_cm_event(side->channel, &event) == 0, "rdma_get_cm_event");
	must(event->event == type, rdma_event_str(event->event));
	struct rdma_cm_id *id = event->id;
	if (memory) {
		must(event->param.conn.private_data_len >= sizeof(*memory), "private data");
		memcpy(memory, event->param.conn.private_data, sizeof(*memory));
	}
	rdma_ack_cm_event(event);
	return id;
}

static void
make_qp(struct side *side)
{
	side->cq = ibv_create_cq(side->id->verbs, 16, NULL, NULL, 0);
	side->mr = ibv_reg_mr(side->id->pd, side->mem, LEN,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC);
	must(side->cq && side->mr, "a queue and a region");
	struct ibv_qp_init_attr attr = small_qp();
	attr.qp_type = IBV_QPT_RC;
	attr.send_cq = attr.recv_cq = side->cq;
	if (side->owns)
		side->qp = ibv_create_qp(side->id->pd, &attr);
	else if (rdma_create_qp(side->id, side->id->pd, &attr) == 0)
		side->qp = side->id->qp;
	must(side->qp != NULL, "a queue pair");
}

static void
make_ready(struct side *side)
{
	const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	for (int i = 0; side->owns && i < 3; i++) {
		struct ibv_qp_attr attr = { .qp_state = states[i] };
		int mask = 0;
		must(rdma_init_qp_attr(side->id, &attr, &mask) == 0, "rdma_init_qp_attr");
		must(ibv_modify_qp(side->qp, &attr, mask) == 0, "ibv_modify_qp");
	}
}

static struct rdma_conn_param
param_of(const struct side *side, const struct memory *memory)
{
	return (struct rdma_conn_param){ .responder_resources = 2,
		.initiator_depth = 2,
		.rnr_retry_count = 7,
		.qp_num = side->owns ? side->qp->qp_num : 0,
		.private_data = memory,
		.private_data_len = memory ? sizeof(*memory) : 0 };
}

static void
expect_completion(struct side *side, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = { 0 };
	int n;
	while ((n = ibv_poll_cq(side->cq, 1, &wc)) == 0)
		;
	must(n == 1 && wc.status == IBV_WC_SUCCESS && wc.opcode == opcode, "a completion");
}

static void
post(struct side *side, enum ibv_wr_opcode opcode, const struct memory *far)
{
	struct ibv_sge sge = { .addr = (uintptr_t)side->mem, .length = 8, .lkey = side->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode }, *bad;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = far->addr;
		wr.wr.atomic.rkey = (uint32_t)far->rkey;
		wr.wr.atomic.compare_add = 1;
	} else if (far) {
		wr.wr.rdma.remote_addr = far->addr;
		wr.wr.rdma.rkey = (uint32_t)far->rkey;
	}
	wr.send_flags = IBV_SEND_SIGNALED;
	must(ibv_post_send(side->qp, &wr, &bad) == 0, "ibv_post_send");
}

static void
leave(struct side *side)
{
	if (side->owns)
		must(ibv_destroy_qp(side->qp) == 0, "ibv_destroy_qp");
	else
		rdma_destroy_qp(side->id);
	must(ibv_dereg_mr(side->mr) == 0 && ibv_destroy_cq(side->cq) == 0, "the end of what was made");
	must(rdma_destroy_id(side->id) == 0, "rdma_destroy_id");
}

/* serves until the other side has gone; then the memory has the content that the other side has written */
static void
serve(bool owns, int port_fd)
{
	struct side side = { .owns = owns };
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_cm_id *listener = NULL;
	side.channel = rdma_create_event_channel();
	must(side.channel && rdma_create_id(side.channel, &listener, NULL, RDMA_PS_TCP) == 0, "an id");
	must(rdma_bind_addr(listener, (struct sockaddr *)&addr) == 0 && rdma_listen(listener, 1) == 0,
		"a port");
	const uint16_t port = rdma_get_src_port(listener);
	must(write(port_fd, &port, sizeof(port)) == sizeof(port), "write");

	side.id = expect(&side, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	make_qp(&side);
	make_ready(&side);
	struct ibv_sge sge = { .addr = (uintptr_t)side.mem + 8, .length = 8, .lkey = side.mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad;
	must(ibv_post_recv(side.qp, &recv, &bad) == 0, "ibv_post_recv");
	const struct memory memory = { (uintptr_t)side.mem, side.mr->rkey };
	struct rdma_conn_param param = param_of(&side, &memory);
	must(rdma_accept(side.id, &param) == 0, "rdma_accept");
	expect(&side, RDMA_CM_EVENT_ESTABLISHED, NULL);
	expect_completion(&side, IBV_WC_RECV);
	expect(&side, RDMA_CM_EVENT_DISCONNECTED, NULL);
	uint64_t words[2];
	memcpy(words, side.mem, sizeof(words));
	must(words[0] == 1001 && words[1] == 1000, "what was written, added to and sent");
	leave(&side);
	must(rdma_destroy_id(listener) == 0, "rdma_destroy_id");
	rdma_destroy_event_channel(side.channel);
}

static void
use(bool owns, int port_fd)
{
	struct side side = { .owns = owns };
	struct memory far;
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	must(read(port_fd, &addr.sin_port, sizeof(addr.sin_port)) == sizeof(addr.sin_port), "read");
	side.channel = rdma_create_event_channel();
	must(side.channel && rdma_create_id(side.channel, &side.id, NULL, RDMA_PS_TCP) == 0, "an id");
	must(rdma_resolve_addr(side.id, NULL, (struct sockaddr *)&addr, 1000) == 0, "rdma_resolve_addr");
	expect(&side, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	must(rdma_resolve_route(side.id, 1000) == 0, "rdma_resolve_route");
	expect(&side, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	make_qp(&side);
	struct rdma_conn_param param = param_of(&side, NULL);
	must(rdma_connect(side.id, &param) == 0, "rdma_connect");
	expect(&side, owns ? RDMA_CM_EVENT_CONNECT_RESPONSE : RDMA_CM_EVENT_ESTABLISHED, &far);
	make_ready(&side);
	if (owns)
		must(rdma_establish(side.id) == 0, "rdma_establish");

	uint64_t word = 1000;
	memcpy(side.mem, &word, sizeof(word));
	post(&side, IBV_WR_RDMA_WRITE, &far);
	expect_completion(&side, IBV_WC_RDMA_WRITE);
	post(&side, IBV_WR_ATOMIC_FETCH_AND_ADD, &far);
	expect_completion(&side, IBV_WC_FETCH_ADD);
	memcpy(&word, side.mem, sizeof(word));
	must(word == 1000, "the value before");
	post(&side, IBV_WR_RDMA_READ, &far);
	expect_completion(&side, IBV_WC_RDMA_READ);
	memcpy(&word, side.mem, sizeof(word));
	must(word == 1001, "the value after");
	word = 1000;
	memcpy(side.mem, &word, sizeof(word));
	post(&side, IBV_WR_SEND, NULL);
	expect_completion(&side, IBV_WC_SEND);
	must(rdma_disconnect(side.id) == 0, "rdma_disconnect");
	expect(&side, RDMA_CM_EVENT_DISCONNECTED, NULL);
	leave(&side);
	rdma_destroy_event_channel(side.channel);
}

static void
test_two_processes(void **state)
{
	(void)state;
	for (int owners = 0; owners < 4; owners++) {
		int ends[2], status[2] = { -1, -1 };
		pid_t pids[2];
		assert_int_equal(pipe(ends), 0);
		fflush(NULL);
		for (int i = 0; i < 2; i++) {
			pids[i] = fork();
			assert_true(pids[i] >= 0);
			if (pids[i] > 0)
				continue;
			alarm(30);
			if (i == 0)
				serve(owners & 1, ends[1]);
			else
				use(owners & 2, ends[0]);
			exit(0);
		}
		close(ends[0]);
		close(ends[1]);
		for (int i = 0; i < 2; i++)
			assert_int_equal(waitpid(pids[i], &status[i], 0), pids[i]);
		assert_int_equal(status[0], 0);
		assert_int_equal(status[1], 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_two_processes) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
