/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * instructions.c -- operations over a device that returns at once, so that callgrind counts what the library
 * adds
 *
 *	instructions <what> <times>
 *		what: write, read, send, get_wc, and bare_write ... bare_get_wc, which build the same work
 *		request and give it to verbs themselves
 *
 * The process connects to itself over the software device. Then the post and poll functions of the connection
 * are replaced. Count only loop() (callgrind --toggle-collect=loop). It calls only functions that the
 * original library has too, so it runs with either librpma.
 */

#include <librpma.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SIZE 4096
#define LEN 64
#define BATCH 16

#define OK(call) \
	do { \
		int ok_ret = (call); \
		if (ok_ret) { \
			fprintf(stderr, "%s: %s\n", #call, rpma_err_2str(ok_ret)); \
			exit(1); \
		} \
	} while (0)

static const char addr[] = "127.0.0.1";

struct side {
	struct rpma_peer *peer;
	struct rpma_ep *ep;
	struct rpma_conn *conn;
};

/* the parameters of verbs, without the library */
struct bare {
	struct ibv_qp qp;
	struct ibv_cq cq;
	uint64_t raddr, laddr;
	uint32_t rkey, lkey;
};

struct fixture {
	struct rpma_conn *conn;
	struct rpma_cq *cq;
	struct rpma_mr_local *mr;
	struct rpma_mr_remote *remote;
	struct bare bare;
	struct ibv_wc wc[BATCH];
};

/* ---- the device that returns at once ---- */

static int
post_nothing(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	(void)qp;
	(void)wr;
	(void)bad_wr;
	return 0;
}

/* returns the completions that are already prepared */
static int
poll_all(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	(void)cq;
	(void)wc;
	return count;
}

/* ---- the counted operations ---- */

typedef int op(struct fixture *f);

static int
library_write(struct fixture *f)
{
	return rpma_write(f->conn, f->remote, 0, f->mr, 0, LEN, RPMA_F_COMPLETION_ALWAYS, f);
}

static int
library_read(struct fixture *f)
{
	return rpma_read(f->conn, f->mr, 0, f->remote, 0, LEN, RPMA_F_COMPLETION_ALWAYS, f);
}

static int
library_send(struct fixture *f)
{
	return rpma_send(f->conn, f->mr, 0, LEN, RPMA_F_COMPLETION_ALWAYS, f);
}

static int
library_get_wc(struct fixture *f)
{
	int got;
	return rpma_cq_get_wc(f->cq, BATCH, f->wc, &got);
}

static int
bare_post(struct fixture *f, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { .addr = f->bare.laddr, .length = LEN, .lkey = f->bare.lkey };
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)f,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad_wr;

	if (opcode != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = f->bare.raddr;
		wr.wr.rdma.rkey = f->bare.rkey;
	}
	return ibv_post_send(&f->bare.qp, &wr, &bad_wr);
}

static int
bare_write(struct fixture *f)
{
	return bare_post(f, IBV_WR_RDMA_WRITE);
}

static int
bare_read(struct fixture *f)
{
	return bare_post(f, IBV_WR_RDMA_READ);
}

static int
bare_send(struct fixture *f)
{
	return bare_post(f, IBV_WR_SEND);
}

static int
bare_get_wc(struct fixture *f)
{
	return ibv_poll_cq(&f->bare.cq, BATCH, f->wc) == BATCH ? 0 : -1;
}

__attribute__((noinline)) static int
loop(op *run, struct fixture *f, long times)
{
	int ret = 0;
	for (long i = 0; i < times; i++)
		ret |= run(f);
	return ret;
}

static const struct {
	const char *name;
	op *run;
} ops[] = {
	{ "write", library_write },
	{ "read", library_read },
	{ "send", library_send },
	{ "get_wc", library_get_wc },
	{ "bare_write", bare_write },
	{ "bare_read", bare_read },
	{ "bare_send", bare_send },
	{ "bare_get_wc", bare_get_wc },
};

/* ---- the connection ---- */

static void
wait_established(struct rpma_conn *conn)
{
	enum rpma_conn_event event;

	OK(rpma_conn_next_event(conn, &event));
	if (event != RPMA_CONN_ESTABLISHED) {
		fprintf(stderr, "%s\n", rpma_utils_conn_event_2str(event));
		exit(1);
	}
}

static void *
serve(void *arg)
{
	struct side *side = arg;
	struct rpma_conn_req *req;

	OK(rpma_ep_next_conn_req(side->ep, NULL, &req));
	OK(rpma_conn_req_connect(&req, NULL, &side->conn));
	wait_established(side->conn);
	return NULL;
}

/* finds a port on which no process listens */
static void
free_port(char port[8])
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || inet_pton(AF_INET, addr, &sin.sin_addr) != 1 ||
		bind(fd, (struct sockaddr *)&sin, len) || getsockname(fd, (struct sockaddr *)&sin, &len)) {
		perror(addr);
		exit(1);
	}
	snprintf(port, 8, "%u", (unsigned int)ntohs(sin.sin_port));
	close(fd);
}

static void
connect_to_itself(struct ibv_context *dev, struct side *server, struct side *client)
{
	struct rpma_conn_req *req;
	pthread_t thread;
	char port[8];

	free_port(port);
	OK(rpma_peer_new(dev, &server->peer));
	OK(rpma_peer_new(dev, &client->peer));
	OK(rpma_ep_listen(server->peer, addr, port, &server->ep));
	if (pthread_create(&thread, NULL, serve, server))
		exit(1);
	OK(rpma_conn_req_new(client->peer, addr, port, NULL, &req));
	OK(rpma_conn_req_connect(&req, NULL, &client->conn));
	wait_established(client->conn);
	pthread_join(thread, NULL);
}

int
main(int argc, char *argv[])
{
	static uint8_t memory[SIZE] __attribute__((aligned(SIZE)));
	struct side server = { 0 };
	struct side client = { 0 };
	struct fixture f = { 0 };
	struct ibv_context *dev;
	uint8_t desc[64];
	size_t desc_size;
	op *run = NULL;

	for (size_t i = 0; argc == 3 && i < sizeof(ops) / sizeof(ops[0]); i++)
		if (strcmp(ops[i].name, argv[1]) == 0)
			run = ops[i].run;
	if (run == NULL) {
		fprintf(stderr, "usage: %s <what> <times>\n", argv[0]);
		return 2;
	}

	OK(rpma_utils_get_ibv_context(addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &dev));
	connect_to_itself(dev, &server, &client);
	f.conn = client.conn;
	OK(rpma_conn_get_cq(f.conn, &f.cq));
	OK(rpma_mr_reg(client.peer, memory, SIZE,
		RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC |
			RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_SEND,
		&f.mr));
	OK(rpma_mr_get_descriptor_size(f.mr, &desc_size));
	OK(rpma_mr_get_descriptor(f.mr, desc));
	OK(rpma_mr_remote_from_descriptor(desc, desc_size, &f.remote));
	f.bare = (struct bare){ .qp.context = dev,
		.cq.context = dev,
		.raddr = (uintptr_t)memory,
		.laddr = (uintptr_t)memory };

	dev->ops.post_send = post_nothing;
	dev->ops.poll_cq = poll_all;
	int ret = loop(run, &f, strtol(argv[2], NULL, 10));

	/* no cleanup: the device no longer works */
	_exit(ret ? 1 : 0);
}
