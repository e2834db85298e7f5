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
	struct listener l;
	struct rdma_cm_id *id; /* the device's side */
	struct softrdma_link *link;
	int fd;              /* the test's side */
	uint32_t seq;        /* the sequence number of its next request */
	uint32_t device_seq; /* that of the device's first request */
};

/* from 127.0.0.<host>; rnr_retry: what the peer asks for */
static inline void
raw_peer_init_as(struct raw_peer *p, unsigned host, uint8_t rnr_retry)
{
	uint8_t buf[BUF_MAX];
	struct softrdma_handshake hs;
	listener_init(&p->l);
	p->fd = raw_connect_from(&p->l.addr, host);
	const size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
	assert_int_equal(softrdma_handshake_decode(buf, &hs), SOFTRDMA_HANDSHAKE_OK);
	hs.rnr_retry = rnr_retry;
	softrdma_handshake_encode(&hs, buf);
	raw_send(p->fd, buf, len);
	p->id = expect_event(p->l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_qp(p->id);
	p->link = softrdma_qp_of(p->id->qp)->link;
	struct rdma_conn_param param = { .responder_resources = 4,
		.initiator_depth = 4,
		.rnr_retry_count = 7 };
	assert_int_equal(softrdma_rdma_accept(p->id, &param), 0);
	raw_recv(p->fd, buf, SOFTRDMA_HANDSHAKE_SIZE);
	assert_int_equal(softrdma_handshake_decode(buf, &hs), SOFTRDMA_HANDSHAKE_OK);
	p->device_seq = hs.seq;
	raw_frame(p->fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_READY });
	expect_event(p->l.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	p->seq = RAW_SEQ;
}

static inline void
raw_peer_init_from(struct raw_peer *p, unsigned host)
{
	raw_peer_init_as(p, host, 7);
}

static inline void
raw_peer_init(struct raw_peer *p)
{
	raw_peer_init_from(p, 1);
}

static inline void
raw_peer_fini(struct raw_peer *p)
{
	if (p->id)
		destroy(p->id);
	close(p->fd);
	listener_fini(&p->l);
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
