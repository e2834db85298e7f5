/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * hand_honest.c -- the honest client of hand_server.c, which must not notice any attack: it makes a queue
 * pair, connects, writes and reads, ends, again and again
 *
 *	hand_honest <port for cards> <ms>
 *
 * It prints how long these took (figures.h). A queue pair counts as connected when its first write completes.
 * On any failure, or if a byte read differs from the one written, it ends with status 1.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deadline.h"
#include "figures.h"
#include "hand.h"
#include "options.h"
#include "pattern.h"

#define OPERATIONS 50 /* of one connection */
#define LENGTH 1024
#define WAIT_MS 20000

static struct hand_device device;
static uint64_t seed;

static void
fail(const char *what)
{
	fprintf(stderr, "honest client by hand: %s\n", what);
	exit(1);
}

/*
 * sends its own card and receives the other one; returns the socket, which keeps the other side's queue pair
 * open
 */
static int
exchange(unsigned long port, const struct hand_card *own, struct hand_card *peer)
{
	const struct timeval wait = { .tv_sec = WAIT_MS / 1000 };
	struct sockaddr_in addr = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) ||
		connect(fd, (struct sockaddr *)&addr, sizeof(addr)) ||
		send(fd, own, sizeof(*own), MSG_NOSIGNAL) != sizeof(*own) ||
		recv(fd, peer, sizeof(*peer), MSG_WAITALL) != sizeof(*peer))
		hand_fail("the server does not give its card");
	return fd;
}

static void
post(struct hand *hand, enum ibv_wr_opcode opcode, size_t from, const struct hand_card *peer, size_t at)
{
	struct ibv_sge sge = { .addr = (uintptr_t)device.bytes + from,
		.length = LENGTH,
		.lkey = device.mr->lkey };
	struct ibv_send_wr wr = { .opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = opcode == IBV_WR_RDMA_READ ? IBV_SEND_SIGNALED : 0 };
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = peer->addr + at;
	wr.wr.rdma.rkey = peer->key;
	if (ibv_post_send(hand->qp, &wr, &bad))
		fail("an operation cannot be posted");
}

static void
await_event(struct hand *hand)
{
	struct pollfd pfd = { .fd = hand->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (poll(&pfd, 1, WAIT_MS) != 1)
		fail("no completion in time");
	if (ibv_get_cq_event(hand->channel, &cq, &context))
		hand_fail("event of the completion queue");
	ibv_ack_cq_events(cq, 1);
}

static void
await(struct hand *hand)
{
	struct ibv_wc wc;
	int count = ibv_poll_cq(hand->cq, 1, &wc);

	while (count == 0) {
		if (ibv_req_notify_cq(hand->cq, 0))
			hand_fail("notification");
		count = ibv_poll_cq(hand->cq, 1, &wc); /* it may have come before the CQ was armed */
		if (count == 0) {
			await_event(hand);
			count = ibv_poll_cq(hand->cq, 1, &wc);
		}
	}
	if (count < 0 || wc.status != IBV_WC_SUCCESS)
		fail("an operation has failed");
}

/* writes bytes[0 to LENGTH) to the server, and reads them back into the bytes after those */
static void
operate(struct hand *hand, const struct hand_card *peer, size_t at)
{
	uint8_t *bytes = device.bytes;

	pattern_fill(bytes, LENGTH, ++seed, at);
	memset(bytes + LENGTH, 0, LENGTH);
	post(hand, IBV_WR_RDMA_WRITE, 0, peer, at);
	post(hand, IBV_WR_RDMA_READ, LENGTH, peer, at);
	await(hand);
	if (pattern_check(bytes + LENGTH, LENGTH, seed, at) >= 0)
		fail("what was written is not there");
}

static void
visit(unsigned long port)
{
	struct hand_card peer;
	struct hand hand;
	int64_t begin = now_us();

	hand_new(&device, &hand);
	int fd = exchange(port, &hand.card, &peer);
	hand_expect(&hand, &peer);
	hand_call(&hand);
	operate(&hand, &peer, 0);
	figures_connect(now_us() - begin);
	for (size_t i = 0; i < OPERATIONS; i++) {
		begin = now_us();
		operate(&hand, &peer, i * 64 % (HAND_MEMORY / 2 - LENGTH));
		figures_operation(now_us() - begin);
	}
	hand_delete(&hand);
	close(fd);
}

int
main(int argc, char *argv[])
{
	unsigned long port, ms;

	if (argc != 3 || !option_number(argv[1], 1, UINT16_MAX, &port) ||
		!option_number(argv[2], 1, 86400000, &ms)) {
		fprintf(stderr, "usage: hand_honest <port for cards> <ms>\n");
		return 2;
	}
	const int64_t end = now_ms() + (int64_t)ms;
	hand_open_device(&device);
	do
		visit(port);
	while (now_ms() < end);
	hand_close_device(&device);
	figures_print();
	return 0;
}
