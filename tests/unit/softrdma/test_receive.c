/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_receive.c -- what a connection receives, in what bounds, and how that fails
 *
 * One side is the device, the other one the device as well, or a plain socket that speaks the protocol.
 */

#include "serving.h"

#include "softrdma/base/valgrind.h"
#include "softrdma/engine/connection.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

/* bytes that have not arrived at the other side's socket yet */
static int
unsent(int fd)
{
	int bytes = 0;
	assert_int_equal(ioctl(fd, SIOCOUTQ, &bytes), 0);
	return bytes;
}

static void
test_protocol_broken(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	post_write(p.id->qp, 1, 8);
	char garbage[SOFTRDMA_FRAME_SIZE];
	memset(garbage, 'x', sizeof(garbage));
	raw_send(p.fd, garbage, sizeof(garbage));
	expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	wait_for_log("a peer sent what is no frame of the protocol");
	expect_wc(1, IBV_WC_RETRY_EXC_ERR);

	/* the event was pending when the socket was closed */
	softrdma_connection_of(p.link)->watched.turn(&softrdma_connection_of(p.link)->watched, EPOLLIN);
	raw_peer_fini(&p);
}

static void
test_receiving_fails(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	/* more interruptions than turns: other connections are served in between */
	fail_call(FAIL_THEIRS, "recv", 0, 2 * SOFTRDMA_RX_TURNS, EINTR);
	raw_write(&p, the_mem, the_mr->rkey, 4);
	raw_send(p.fd, "abcd", 4);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100);
	assert_int_equal(fail_nothing(), 2 * SOFTRDMA_RX_TURNS);
	assert_memory_equal(the_mem, "abcd", 4);

	fail_call(FAIL_THEIRS, "recv", 0, 1, ETIMEDOUT); /* the kernel has given up the peer */
	raw_frame(p.fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_READY });
	expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	fail_nothing();
	raw_peer_fini(&p);
}

/* registered memory may be unmapped: the message is refused, and the process does not crash */
static void
test_memory_gone_when_receiving(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	size_t size = SOFTRDMA_SEGMENT_MAX;
	uint8_t *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr =
		softrdma_ibv_reg_mr(the_pd, mem, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(mr);
	/* a hole would be filled by what another thread maps */
	assert_int_equal(mprotect(mem, size, PROT_NONE), 0);
	raw_write(&p, mem, mr->rkey, (uint32_t)size);
	/*
	 * The header is received before there is any payload, which is then received directly into the
	 * memory.
	 */
	wait_until(locked(p.link, p.link->rx.state == SOFTRDMA_RX_PLACING));
	static uint8_t payload[SOFTRDMA_SEGMENT_MAX];
	raw_send(p.fd, payload, size);
	raw_expect_frame(p.fd, SOFTRDMA_OP_NAK, SOFTRDMA_NAK_OPERATION, 100);
	expect_state(p.id->qp, IBV_QPS_ERR);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	munmap(mem, size);
	raw_peer_fini(&p);
}

/* header and payload by one call, so that the payload is copied from the stage */
static void
raw_write_at_once(struct raw_peer *p, void *to, const struct ibv_mr *mr)
{
	uint8_t bytes[SOFTRDMA_FRAME_SIZE + 4] = { 0 };
	const struct softrdma_frame frame = next_write(p, to, mr->rkey, 4);
	softrdma_frame_encode(&frame, bytes);
	raw_send(p->fd, bytes, sizeof(bytes));
}

/* a page that was found writable for one request may be lost before the next one comes */
static void
test_memory_lost_between_requests(void **state)
{
	(void)state;
	if (softrdma_under_valgrind()) {
		print_message("skipped: under valgrind the device does not ask for pages\n");
		skip();
	}
	struct raw_peer p;
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	raw_peer_init(&p);
	uint8_t *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr =
		softrdma_ibv_reg_mr(the_pd, mem, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(mr);
	for (uint32_t i = 0; i < 3; i++) {
		raw_write_at_once(&p, mem, mr);
		raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100 + i);
	}
	assert_int_equal(mprotect(mem, size, PROT_READ), 0);
	raw_write_at_once(&p, mem, mr);
	raw_expect_frame(p.fd, SOFTRDMA_OP_NAK, SOFTRDMA_NAK_OPERATION, 103);
	expect_state(p.id->qp, IBV_QPS_ERR);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	munmap(mem, size);
	raw_peer_fini(&p);
}

/*
 * If a file was truncated, a read into its memory ends early, as if the rest had not arrived. The kernel reports
 * the fault only at the next read, for which no edge comes.
 */
static void
test_short_read_into_a_file(void **state)
{
	(void)state;
	enum { SIZE = 16384 };
	struct raw_peer p;
	raw_peer_init(&p);
	int file = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(file, SIZE), 0);
	uint8_t *mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	struct ibv_mr *mr =
		softrdma_ibv_reg_mr(the_pd, mem, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(mr);
	static uint8_t payload[SIZE];
	for (uint32_t cut = 0; cut < 2; cut++) {
		for (size_t i = 0; i < SIZE; i++)
			payload[i] = (uint8_t)(i * 7 + cut);
		struct softrdma_frame frame = { .opcode = SOFTRDMA_OP_WRITE,
			.flags = SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST,
			.seq = 100 + cut,
			.key = mr->rkey,
			.addr = (uintptr_t)mem,
			.length = SIZE };
		raw_frame(p.fd, &frame);
		wait_until(locked(p.link, p.link->rx.state == SOFTRDMA_RX_PLACING));
		if (cut)
			assert_int_equal(ftruncate(file, SIZE / 2), 0);
		/* everything has arrived before a part of it is received; the rest is received afterwards */
		pthread_mutex_lock(&p.link->lock);
		raw_send(p.fd, payload, SIZE);
		fail_call(FAIL_THEIRS, "recvmsg", 0, 1, FAIL_SHORT);
		pthread_mutex_unlock(&p.link->lock);
		assert_true(readable(p.fd, PATIENCE_MS));
		if (cut)
			raw_expect_frame(p.fd, SOFTRDMA_OP_NAK, SOFTRDMA_NAK_OPERATION, 101);
		else
			raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100);
		assert_int_equal(fail_nothing(), 1);
		assert_memory_equal(mem, payload, SIZE / 2);
	}
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	munmap(mem, SIZE);
	close(file);
	raw_peer_fini(&p);
}

/*
 * A connection with many small frames must not hold up others. While several have work, a turn ends after a
 * fixed number of frames. A READ of another connection shows how far it got.
 */
static void
test_flood_of_frames(void **state)
{
	(void)state;
	enum { FLOOD = 850, LENGTH = SOFTRDMA_FRAME_SIZE + 4 };
	struct raw_peer first, flooder, honest;
	raw_peer_init(&first);
	raw_peer_init(&flooder);
	raw_peer_init(&honest);
	uint8_t *flood = malloc((size_t)FLOOD * LENGTH);
	assert_non_null(flood);
	for (uint32_t i = 0; i < FLOOD; i++) {
		const struct softrdma_frame frame = next_write(&flooder, the_mem, the_mr->rkey, 4);
		softrdma_frame_encode(&frame, flood + (size_t)i * LENGTH);
		memcpy(flood + (size_t)i * LENGTH + SOFTRDMA_FRAME_SIZE, &i, sizeof(i));
	}

	hold_thread();
	/* the first connection's turn ends without progress, so more than one has work */
	fail_call(FAIL_THEIRS, "recv", 0, SOFTRDMA_RX_TURNS, EINTR);
	raw_write(&first, (char *)the_mem + 8, the_mr->rkey, 4);
	raw_send(first.fd, "abcd", 4);
	wait_until(unsent(first.fd) == 0); /* it has arrived first */
	raw_send(flooder.fd, flood, (size_t)FLOOD * LENGTH);
	wait_until(unsent(flooder.fd) == 0);
	raw_frame(honest.fd,
		&(struct softrdma_frame){ .opcode = SOFTRDMA_OP_READ,
			.seq = honest.seq++,
			.key = the_mr->rkey,
			.addr = (uintptr_t)the_mem,
			.arg = 4 });
	wait_until(unsent(honest.fd) == 0);
	let_thread_go();

	uint8_t answer[LENGTH];
	uint32_t last;
	raw_recv(honest.fd, answer, sizeof(answer));
	memcpy(&last, answer + SOFTRDMA_FRAME_SIZE, sizeof(last));
	assert_int_equal(fail_nothing(), SOFTRDMA_RX_TURNS);
	assert_in_range(last, SOFTRDMA_RX_FRAMES - 1, SOFTRDMA_RX_FRAMES + SOFTRDMA_STAGE_SIZE / LENGTH);
	raw_expect_frame(first.fd, SOFTRDMA_OP_ACK, 0, 100);
	wait_until(atomic_load((_Atomic(uint32_t) *)the_mem) == FLOOD - 1); /* and all of it arrives */
	free(flood);
	raw_peer_fini(&honest);
	raw_peer_fini(&flooder);
	raw_peer_fini(&first);
}

/*
 * The acknowledgement of the last request has arrived when this side ends the connection, and no thread has read it yet:
 * the request succeeds. The progress thread is held meanwhile.
 */
static void
test_acknowledged_before_the_end(void **state)
{
	(void)state;
	enum { TO_ERROR, DISCONNECT, WAYS };
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	for (int i = 0; i < WAYS; i++) {
		struct pair_of_ids p;
		pair_init(&p);
		struct softrdma_link *active = softrdma_qp_of(p.active->qp)->link,
				     *passive = softrdma_qp_of(p.passive->qp)->link;
		struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 64, .lkey = the_mr->lkey };
		struct ibv_send_wr wr = { .wr_id = 5,
			.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED };
		struct ibv_send_wr *bad;
		wr.wr.rdma.remote_addr = (uintptr_t)the_mem + 4096;
		wr.wr.rdma.rkey = the_mr->rkey;
		hold_thread();
		assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
		wait_until((locked(passive, softrdma_connection_serve(softrdma_connection_of(passive))),
			readable(softrdma_connection_of(active)->fd, 0)));
		if (i == TO_ERROR)
			assert_int_equal(softrdma_ibv_modify_qp(p.active->qp, &error, IBV_QP_STATE), 0);
		else
			assert_int_equal(softrdma_rdma_disconnect(p.active), 0);
		let_thread_go();
		struct ibv_wc wc = next_wc();
		assert_int_equal(wc.wr_id, 5);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		pair_fini(&p);
	}
}

/* --- the end of a peer's stream is reported, although a read before it was short --- */

/*
 * The peer's last bytes and the end of its stream came in one event. The device read fewer bytes than it had
 * asked for, and took the socket for empty. No further edge came, so the connection was never reported as
 * closed.
 */
static int
tcp_state(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	return info.tcpi_state;
}

static void
test_end_in_the_same_event(void **state)
{
	(void)state;
	const struct softrdma_frame nothing = { .opcode = SOFTRDMA_OP_READ, .seq = RAW_SEQ };
	struct raw_peer peer, other;
	raw_peer_init(&peer);
	raw_peer_init(&other);

	/* the progress thread blocks on the other connection's lock while both arrive */
	lock_at_once(&other.link->lock);
	raw_frame(other.fd, &nothing);
	wait_until(is_wanted(&other.link->lock));
	raw_frame(peer.fd, &nothing);
	assert_int_equal(shutdown(peer.fd, SHUT_WR), 0);
	wait_until(tcp_state(softrdma_connection_of(peer.link)->fd) == TCP_CLOSE_WAIT);
	pthread_mutex_unlock(&other.link->lock);

	expect_event(peer.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	raw_peer_fini(&other);
	raw_peer_fini(&peer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_protocol_broken),
		device_test(test_receiving_fails),
		device_test(test_memory_gone_when_receiving),
		device_test(test_memory_lost_between_requests),
		device_test(test_short_read_into_a_file),
		one_thread_test(test_flood_of_frames),
		one_thread_test(test_acknowledged_before_the_end),
		one_thread_test(test_end_in_the_same_event),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
