/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * stream_ops.h -- the language of the stream's inputs
 *
 * An input is a header of STREAM_HEADER bytes (flags, then a seed for the places where the stream is cut),
 * followed by steps until its end. A step is a byte, whose low half is one of the values below, and its
 * arguments.
 */

#ifndef TEST_FUZZ_STREAM_OPS_H
#define TEST_FUZZ_STREAM_OPS_H

#define STREAM_HEADER 3

/* flags of the header */
enum {
	STREAM_SHARED_QUEUE = 1 << 0, /* receives come from a shared queue */
	STREAM_SMALL_CQ = 1 << 1,     /* completion queues that are overrun soon */
	STREAM_END_BY_LOSS = 1 << 2,  /* the stream breaks at the end; otherwise this side closes */
	STREAM_BYTE_BY_BYTE = 1 << 3, /* cut everywhere */
};

enum stream_step {
	/* u8 n, n bytes that come from the peer */
	STEP_RAW,
	/*
	 * A frame comes from the peer: opcode u8, flags u8, sequence number u8, region u8, offset u16, length
	 * u16, argument u16, code u8; and a payload of that length, which is made up. See frame_step().
	 */
	STEP_FRAME,
	STEP_POST,    /* a work request: kind u8, flags u8, offset u8, length u16 */
	STEP_RECV,    /* a receive: SGEs u8, offset u8, length u16 */
	STEP_SEND,    /* u16 bytes of the output are sent; 0: all */
	STEP_DELIVER, /* u16 bytes of what the peer has sent arrive; 0: all */
	STEP_FLUSHED, /* a flush in progress ends: error u8 */
	STEP_EVENT,   /* u8: enum stream_event */
	STEP_COUNT,
};

/* if this bit is set in the region, the frame has its address and a key of no region */
#define STREAM_WRONG_KEY 0x80u

/* if this bit is set in the step, the bytes from the peer do not arrive at once */
#define STEP_HOLD 0x10

enum stream_event {
	EVENT_POLL,
	EVENT_CLOSE,     /* rdma_disconnect() */
	EVENT_LOST,      /* the end of the stream, or an error of the socket */
	EVENT_DESTROYED, /* ibv_destroy_qp() */
	EVENT_RX_FAULT,  /* the kernel cannot store the received bytes */
	EVENT_REVOKE,    /* ibv_dereg_mr() of the fleeting region */
	EVENT_RNR_TIMER, /* the peer had no receive for too long */
	EVENT_COUNT,
};

/* the sequence numbers of the first request of each side */
#define STREAM_OWN_SEQ 0xfffffff0u
#define STREAM_PEER_SEQ 0xfffffffau

#endif /* TEST_FUZZ_STREAM_OPS_H */
