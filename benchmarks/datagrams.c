/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * datagrams.c -- datagrams of the software device (UD), and of UDP itself, by the same program
 *
 *	bench-datagrams verbs|bare ping-pong <bytes> <seconds>
 *	bench-datagrams verbs|bare flood <bytes> <seconds>
 *
 * "ping-pong" prints microseconds per round trip: the mean, the median, and what 99 % do not exceed. "flood" prints how many
 * datagrams a second one side has received while the other one has sent as many as it could, and how many of a hundred were
 * lost. Two processes exchange them over the loopback interface, and spin. "bare" calls sendmmsg(2) and recvmmsg(2).
 */

#include "bench.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "histogram.h"

#define BYTES_MAX 4096
#define GRH 40
#define BATCH 16  /* datagrams of one call */
#define SLOTS 512 /* receives that are posted */
#define QKEY 0x1234
#define PATIENCE_S 30 /* without a datagram: the round trip is lost */
#define LOOKS 1024    /* without a datagram, between two looks at the clock and at the other process */

/* what one side tells the other: a port, or a queue pair */
struct name {
	uint16_t port;
	union ibv_gid gid;
	uint32_t qp_num;
};

struct side {
	bool verbs;
	size_t bytes;

	int fd;
	struct sockaddr_in peer;

	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	uint32_t peer_qp;
	unsigned outstanding; /* sends without a completion */
};

static unsigned char memory[(SLOTS + 1) * (GRH + BYTES_MAX)];

static void
check(bool good, const char *what)
{
	if (!good)
		bench_die(what);
}

/* --- UDP --- */

static struct name
open_bare(struct side *side)
{
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(own);
	const int size = 8 << 20;
	side->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	check(side->fd >= 0 && bind(side->fd, (struct sockaddr *)&own, sizeof(own)) == 0 &&
			getsockname(side->fd, (struct sockaddr *)&own, &len) == 0,
		"socket");
	setsockopt(side->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(side->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	return (struct name){ .port = own.sin_port };
}

static void
send_bare(struct side *side, unsigned count)
{
	struct iovec iov = { memory, side->bytes };
	struct mmsghdr msgs[BATCH];
	for (unsigned i = 0; i < count; i++)
		msgs[i].msg_hdr = (struct msghdr){ .msg_name = &side->peer,
			.msg_namelen = sizeof(side->peer),
			.msg_iov = &iov,
			.msg_iovlen = 1 };
	for (unsigned done = 0; done < count;) {
		const int n = sendmmsg(side->fd, msgs + done, count - done, 0);
		check(n >= 0 || errno == EAGAIN, "sendmmsg");
		done += n > 0 ? (unsigned)n : 0;
	}
}

static unsigned
receive_bare(struct side *side)
{
	struct iovec iov[BATCH];
	struct mmsghdr msgs[BATCH];
	for (unsigned i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ memory + (i + 1) * BYTES_MAX, BYTES_MAX };
		msgs[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	const int n = recvmmsg(side->fd, msgs, BATCH, 0, NULL);
	check(n >= 0 || errno == EAGAIN, "recvmmsg");
	return n > 0 ? (unsigned)n : 0;
}

/* --- verbs --- */

static void
post_receives(struct side *side, const struct ibv_wc *wcs, unsigned count)
{
	struct ibv_sge sge[BATCH];
	struct ibv_recv_wr wr[BATCH], *bad;
	for (unsigned i = 0; i < count; i++) {
		sge[i] = (struct ibv_sge){ (uintptr_t)memory + (1 + wcs[i].wr_id) * (GRH + BYTES_MAX),
			GRH + BYTES_MAX, side->mr->lkey };
		wr[i] = (struct ibv_recv_wr){ .wr_id = wcs[i].wr_id,
			.sg_list = &sge[i],
			.num_sge = 1,
			.next = i + 1 < count ? &wr[i + 1] : NULL };
	}
	check(ibv_post_recv(side->qp, wr, &bad) == 0, "ibv_post_recv");
}

static void
move_to(struct side *side, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = { .qp_state = state, .port_num = 1, .qkey = QKEY };
	check(ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | mask) == 0, "ibv_modify_qp");
}

static struct name
open_verbs(struct side *side)
{
	struct name name = { 0 };
	struct ibv_device **list = ibv_get_device_list(NULL);
	check(list && list[0], "ibv_get_device_list");
	side->context = ibv_open_device(list[0]);
	check(side->context, "ibv_open_device");
	side->pd = ibv_alloc_pd(side->context);
	side->send_cq = ibv_create_cq(side->context, 4 * BATCH, NULL, NULL, 0);
	side->recv_cq = ibv_create_cq(side->context, SLOTS, NULL, NULL, 0);
	check(side->pd && side->send_cq && side->recv_cq, "ibv_create_cq");
	side->mr = ibv_reg_mr(side->pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
		.send_cq = side->send_cq,
		.recv_cq = side->recv_cq,
		.cap = { 4 * BATCH, SLOTS, 1, 1, 0 } };
	side->qp = ibv_create_qp(side->pd, &init);
	check(side->mr && side->qp, "ibv_create_qp");
	move_to(side, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	for (unsigned i = 0; i < SLOTS; i++)
		post_receives(side, &(struct ibv_wc){ .wr_id = i }, 1);
	move_to(side, IBV_QPS_RTR, 0);
	move_to(side, IBV_QPS_RTS, IBV_QP_SQ_PSN);
	check(ibv_query_gid(side->context, 1, 0, &name.gid) == 0, "ibv_query_gid");
	name.qp_num = side->qp->qp_num;
	ibv_free_device_list(list);
	return name;
}

static void
send_verbs(struct side *side, unsigned count)
{
	struct ibv_sge sge = { (uintptr_t)memory, (uint32_t)side->bytes, side->mr->lkey };
	struct ibv_send_wr wr[BATCH], *bad;
	struct ibv_wc wc;
	for (unsigned i = 0; i < count; i++)
		wr[i] = (struct ibv_send_wr){ .opcode = IBV_WR_SEND,
			.sg_list = &sge,
			.num_sge = 1,
			.send_flags = i + 1 == count ? IBV_SEND_SIGNALED : 0,
			.wr.ud = { side->ah, side->peer_qp, QKEY },
			.next = i + 1 < count ? &wr[i + 1] : NULL };
	/* at most two lists at a time */
	while (side->outstanding >= 2 && ibv_poll_cq(side->send_cq, 1, &wc) >= 0) {
		check(wc.status == IBV_WC_SUCCESS, "a send");
		side->outstanding -= side->outstanding > 0;
	}
	check(ibv_post_send(side->qp, wr, &bad) == 0, "ibv_post_send");
	side->outstanding++;
}

static unsigned
receive_verbs(struct side *side)
{
	struct ibv_wc wc[BATCH];
	const int n = ibv_poll_cq(side->recv_cq, BATCH, wc);
	check(n >= 0, "ibv_poll_cq");
	if (n > 0)
		post_receives(side, wc, (unsigned)n);
	return (unsigned)n;
}

/* --- both --- */

/* tells the other process the own name and learns its */
static void
open_side(struct side *side, int other)
{
	const struct name own = side->verbs ? open_verbs(side) : open_bare(side);
	struct name peer;
	check(write(other, &own, sizeof(own)) == sizeof(own) &&
			read(other, &peer, sizeof(peer)) == sizeof(peer),
		"the other process");
	side->peer = (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = peer.port };
	if (!side->verbs)
		return;
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh.dgid = peer.gid };
	side->ah = ibv_create_ah(side->pd, &attr);
	check(side->ah, "ibv_create_ah");
	side->peer_qp = peer.qp_num;
}

static void
close_side(struct side *side)
{
	if (side->verbs)
		check(ibv_destroy_ah(side->ah) == 0 && ibv_destroy_qp(side->qp) == 0 &&
				ibv_destroy_cq(side->send_cq) == 0 && ibv_destroy_cq(side->recv_cq) == 0 &&
				ibv_dereg_mr(side->mr) == 0 && ibv_dealloc_pd(side->pd) == 0 &&
				ibv_close_device(side->context) == 0,
			"ibv_close_device");
	else
		close(side->fd);
}

static void
send_datagrams(struct side *side, unsigned count)
{
	if (side->verbs)
		send_verbs(side, count);
	else
		send_bare(side, count);
}

/* how many have come; 0: none, and the other process has ended its part, or PATIENCE_S are over */
static unsigned
receive_datagrams(struct side *side, int other)
{
	const double until = bench_now_s() + PATIENCE_S;
	bool is_over = false;
	for (;;) {
		for (int look = 0; look < LOOKS; look++) {
			const unsigned n = side->verbs ? receive_verbs(side) : receive_bare(side);
			if (n > 0)
				return n;
		}
		if (is_over || bench_now_s() > until)
			return 0;
		char byte;
		is_over = recv(other, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
	}
}

/* sends each back, until the other process has enough */
static void
echo(struct side *side, int other)
{
	unsigned n;
	while ((n = receive_datagrams(side, other)) > 0)
		send_datagrams(side, n);
}

static void
ping_pong(struct side *side, double seconds, int other)
{
	static struct histogram h;
	const double begin = bench_now_s();
	double now = begin, first = begin;
	uint64_t trips = 0;
	while (trips == 0 || now < begin + BENCH_WARM_UP_S + seconds) {
		const bool counts = now >= begin + BENCH_WARM_UP_S;
		if (!counts)
			first = now;
		send_datagrams(side, 1);
		check(receive_datagrams(side, other) == 1, "a datagram is lost");
		const double after = bench_now_s();
		if (counts) {
			histogram_add(&h, (uint64_t)((after - now) * 1e9));
			trips++;
		}
		now = after;
	}
	printf("%.3f %.3f %.3f\n", (now - first) * 1e6 / (double)trips,
		(double)histogram_quantile(&h, 0.5) / 1e3, (double)histogram_quantile(&h, 0.99) / 1e3);
}

static void
flood(struct side *side, double seconds, int other)
{
	uint64_t sent = 0;
	const double until = bench_now_s() + seconds;
	while (bench_now_s() < until) {
		send_datagrams(side, BATCH);
		sent += BATCH;
	}
	check(write(other, &sent, sizeof(sent)) == sizeof(sent), "the other process");
}

static void
count(struct side *side, int other)
{
	uint64_t received = 0, sent;
	unsigned n;
	double begin = 0, end = 0;
	while ((n = receive_datagrams(side, other)) > 0) {
		end = bench_now_s();
		if (received == 0)
			begin = end;
		received += n;
	}
	check(read(other, &sent, sizeof(sent)) == sizeof(sent), "the other process");
	printf("%.0f %.2f\n", (double)received / (end - begin),
		100.0 * (double)(sent - received) / (double)sent);
}

int
main(int argc, char *argv[])
{
	const bool verbs = argc == 5 && strcmp(argv[1], "verbs") == 0;
	const bool pings = argc == 5 && strcmp(argv[2], "ping-pong") == 0;
	if (argc != 5 || (!verbs && strcmp(argv[1], "bare") != 0) ||
		(!pings && strcmp(argv[2], "flood") != 0)) {
		fprintf(stderr, "usage: bench-datagrams verbs|bare ping-pong|flood <bytes> <seconds>\n");
		return 2;
	}
	struct side side = { .verbs = verbs, .bytes = (size_t)bench_number(argv[3], 1, BYTES_MAX) };
	const double seconds = bench_number(argv[4], 0.01, 3600);
	int pair[2];
	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
	const pid_t child = fork(); /* before either side has opened the device */
	check(child >= 0, "fork");
	close(pair[child != 0]);
	open_side(&side, pair[child == 0]);
	if (child == 0) {
		if (pings)
			echo(&side, pair[1]);
		else
			flood(&side, seconds, pair[1]);
		fflush(stdout);
		_exit(0);
	}
	if (pings)
		ping_pong(&side, seconds, pair[0]);
	else
		count(&side, pair[0]);
	close_side(&side);
	close(pair[0]); /* the other process ends */
	int status;
	waitpid(child, &status, 0);
	return status != 0;
}
