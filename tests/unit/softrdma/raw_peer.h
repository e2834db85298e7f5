/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * raw_peer.h -- a connection of the device whose other side is a plain socket of the test
 *
 * So the test decides which bytes arrive when; two applications could not.
 */

#ifndef TEST_SOFTRDMA_RAW_PEER_H
#define TEST_SOFTRDMA_RAW_PEER_H

#include "connected.h"

/* the first sequence number of the test's requests */
#define RAW_SEQ 100u

struct raw_peer {
	struct listener listener;
	struct rdma_cm_id *id; /* the device's side */
	struct softrdma_link *link;
	uint32_t seq; /* the first sequence number of the device's requests */
	int fd;       /* the test's side */
};

static inline void
raw_peer_init(struct raw_peer *p, uint8_t rnr_retry)
{
	uint8_t buf[BUF_MAX];
	struct softrdma_handshake hs = {
		.version = SOFTRDMA_WIRE_VERSION,
		.type = SOFTRDMA_HANDSHAKE_CONNECT,
		.responder_resources = 4,
		.initiator_depth = 4,
		.rnr_retry = rnr_retry,
		.qp_num = 0x1234,
		.seq = RAW_SEQ,
	};
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4 };

	listener_init(&p->listener);
	p->fd = raw_connect(&p->listener.addr);
	softrdma_handshake_encode(&hs, buf);
	raw_send(p->fd, buf, SOFTRDMA_HANDSHAKE_SIZE);
	p->id = expect_event(p->listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_qp(p->id);
	p->link = softrdma_id_of(p->id)->link;
	assert_int_equal(softrdma_rdma_accept(p->id, &param), 0);
	raw_recv(p->fd, buf, SOFTRDMA_HANDSHAKE_SIZE);
	assert_int_equal(softrdma_handshake_decode(buf, &hs), SOFTRDMA_HANDSHAKE_OK);
	p->seq = hs.seq;
	raw_frame(p->fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_READY });
	expect_event(p->listener.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static inline void
raw_peer_fini(struct raw_peer *p)
{
	destroy(p->id);
	close(p->fd);
	listener_fini(&p->listener);
}

/* reads the next frame of the device, and skips its payload */
static inline struct softrdma_frame
raw_next_frame(struct raw_peer *p)
{
	static uint8_t payload[SOFTRDMA_SEGMENT_MAX];
	uint8_t buf[SOFTRDMA_FRAME_SIZE];
	struct softrdma_frame frame;

	raw_recv(p->fd, buf, sizeof(buf));
	assert_true(softrdma_frame_decode(buf, &frame));
	raw_recv(p->fd, payload, frame.length);
	return frame;
}

/* posts a SEND or a WRITE of the first bytes of the shared memory region */
static inline void
raw_peer_post(struct raw_peer *p, enum ibv_wr_opcode opcode, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = len, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = 0x1000, .rkey = 0x77 },
	};
	struct ibv_send_wr *bad_wr;
	assert_int_equal(ibv_post_send(p->id->qp, &wr, &bad_wr), 0);
}

/*
 * Takes the mutex while it is free. A mutex that its owner had to wait for still looks contended to
 * is_wanted().
 */
static inline void
lock_at_once(pthread_mutex_t *mutex)
{
	while (pthread_mutex_trylock(mutex) != 0)
		sched_yield();
}

/* true if a thread waits for this mutex (glibc marks it so) */
static inline bool
is_wanted(const pthread_mutex_t *mutex)
{
	return __atomic_load_n(&mutex->__data.__lock, __ATOMIC_SEQ_CST) == 2;
}

#endif /* TEST_SOFTRDMA_RAW_PEER_H */
