/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * serving.h -- shared by the tests of what serves connections: the progress thread, and what it calls
 *
 * A plain socket that speaks the protocol is the peer. Writes show that a connection works. The progress thread can be
 * held. Each test includes it once.
 */

#ifndef TEST_SOFTRDMA_SERVING_H
#define TEST_SOFTRDMA_SERVING_H

#include "raw_peer.h"
#include "softrdma/engine/engine.h"

/* --- writes of the device --- */

static inline bool
write_works(struct ibv_qp *qp)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 64, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED },
			   *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)the_mem + 4096;
	wr.wr.rdma.rkey = the_mr->rkey;
	memset(the_mem, ++the_mem[0], 64);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	return next_wc().status == IBV_WC_SUCCESS && memcmp(the_mem, the_mem + 4096, 64) == 0;
}

static inline void
post_write(struct ibv_qp *qp, uint64_t wr_id, size_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = (uint32_t)len, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id,
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED },
			   *bad;
	/* to another place than its source, which may still be read when the write arrives */
	wr.wr.rdma.remote_addr = (uintptr_t)the_mem + 4096;
	wr.wr.rdma.rkey = the_mr->rkey;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

static inline void
expect_wc(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

/* --- frames of a plain socket --- */

/* waits for a frame without payload */
static inline void
raw_expect_frame(int fd, uint8_t opcode, uint16_t code, uint32_t seq)
{
	uint8_t buf[SOFTRDMA_FRAME_SIZE];
	struct softrdma_frame frame;
	raw_recv(fd, buf, sizeof(buf));
	assert_true(softrdma_frame_decode(buf, &frame));
	assert_int_equal(frame.opcode, opcode);
	assert_int_equal(frame.code, code);
	assert_int_equal(frame.seq, seq);
}

/* the peer's next request, a WRITE */
static inline struct softrdma_frame
next_write(struct raw_peer *p, const void *to, uint32_t key, uint32_t len)
{
	return (struct softrdma_frame){ .opcode = SOFTRDMA_OP_WRITE,
		.flags = SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST,
		.seq = p->seq++,
		.length = len,
		.key = key,
		.addr = (uintptr_t)to };
}

static inline void
raw_write(struct raw_peer *p, const void *to, uint32_t key, uint32_t len)
{
	const struct softrdma_frame frame = next_write(p, to, key, len);
	raw_frame(p->fd, &frame);
}

static inline void
raw_expect_alive(struct raw_peer *p)
{
	raw_write(p, the_mem, the_mr->rkey, 4);
	raw_send(p->fd, "abcd", 4);
	raw_expect_frame(p->fd, SOFTRDMA_OP_ACK, 0, p->seq - 1);
}

/* the peer's request gets no response, and the connection ends */
static inline void
raw_expect_shut_out(struct raw_peer *p)
{
	raw_expect_frame(p->fd, SOFTRDMA_OP_DISCONNECT, 0, 0);
	raw_expect_end(p->fd);
	expect_no_event(p->l.channel);
	raw_frame(p->fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_DISCONNECT });
	expect_event(p->l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
}

/* --- the progress thread is held --- */

static pthread_mutex_t tick_gate = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool at_gate; /* the progress thread waits there; it clears this under the lock */
static atomic_uint ticks;

static inline void
tick_through_gate(uint64_t now_ns)
{
	(void)now_ns;
	at_gate = true;
	pthread_mutex_lock(&tick_gate);
	at_gate = false;
	ticks++;
	pthread_mutex_unlock(&tick_gate);
}

/* stops the progress thread at its next tick, until let_thread_go() */
static inline void
hold_thread(void)
{
	pthread_mutex_lock(&tick_gate);
	softrdma_engine_at_beat(SOFTRDMA_BEAT_DEADLINES, tick_through_gate);
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, 1);
	wait_until(at_gate);
}

static inline void
let_thread_go(void)
{
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, -1);
	pthread_mutex_unlock(&tick_gate);
}

#endif /* TEST_SOFTRDMA_SERVING_H */
