/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * wire.h -- the bytes between two software devices, described in doc/softrdma-protocol.md
 *
 * Pure: no state, no allocation. Decoding accepts any bytes: it gives values within their limits, or refuses
 * the bytes.
 */

#ifndef SOFTRDMA_WIRE_H
#define SOFTRDMA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softrdma/bounds.h"

#define SOFTRDMA_WIRE_VERSION 3
#define SOFTRDMA_FRAME_SIZE 32     /* header of every frame */
#define SOFTRDMA_HANDSHAKE_SIZE 32 /* header of every handshake message */
#define SOFTRDMA_ATOMIC_SIZE 8     /* bytes that an atomic operation changes, and of each of its operands */

enum softrdma_opcode {
	/* requests: executed by the responder in the order of their sequence numbers */
	SOFTRDMA_OP_SEND = 1,
	SOFTRDMA_OP_WRITE = 2,
	SOFTRDMA_OP_READ = 3,
	SOFTRDMA_OP_ATOMIC_WRITE = 4,
	SOFTRDMA_OP_COMPARE_SWAP = 5,
	SOFTRDMA_OP_FETCH_ADD = 6,
	SOFTRDMA_OP_FLUSH = 7,
	SOFTRDMA_OP_RESYNC = 8, /* the following requests start again at this sequence number */
	/* responses */
	SOFTRDMA_OP_ACK = 16,
	SOFTRDMA_OP_READ_RESPONSE = 17,
	SOFTRDMA_OP_ATOMIC_RESPONSE = 18,
	SOFTRDMA_OP_NAK = 19,
	SOFTRDMA_OP_RNR = 20,       /* receiver not ready: stop, and wait for RNR_READY */
	SOFTRDMA_OP_RNR_READY = 21, /* a receive has been posted: send RESYNC, then the requests again */
	/* the connection itself */
	SOFTRDMA_OP_READY = 32, /* the active side has seen the acceptance */
	SOFTRDMA_OP_DISCONNECT = 33,
	SOFTRDMA_OP_SHM_OFFER = 34, /* to a peer on the same host: where the sender's registry is */
};

enum softrdma_frame_flag {
	SOFTRDMA_FRAME_FIRST = 1 << 0,     /* first frame of a message */
	SOFTRDMA_FRAME_LAST = 1 << 1,      /* last frame of a message */
	SOFTRDMA_FRAME_IMM = 1 << 2,       /* arg holds immediate data (last frame of SEND and WRITE) */
	SOFTRDMA_FRAME_SOLICITED = 1 << 3, /* the receive completion is solicited */
	SOFTRDMA_FRAME_ACK_LATER = 1 << 4, /* no program waits for the ACK (last frame of SEND and WRITE) */
};

enum softrdma_nak {
	SOFTRDMA_NAK_INVALID_REQUEST = 1,
	SOFTRDMA_NAK_ACCESS = 2,
	SOFTRDMA_NAK_OPERATION = 3,
	SOFTRDMA_NAK_GONE = 4, /* the queue pair is in error and no longer serves requests */
};

struct softrdma_frame {
	uint8_t opcode;
	uint8_t flags;
	uint16_t code;   /* FLUSH: placement types; NAK: enum softrdma_nak */
	uint32_t seq;    /* sequence number of the request; responses: of the request that they are for */
	uint32_t length; /* bytes of payload that follow */
	uint32_t key;
	uint64_t addr;
	/*
	 * READ, FLUSH: number of bytes requested. SEND, WRITE: in the first of several frames the length of the
	 * whole message in bytes; in the last frame the immediate data, the four bytes of the work request.
	 */
	uint64_t arg;
};

/* encodes a header; the caller has set all fields to values that the opcode allows */
void softrdma_frame_encode(const struct softrdma_frame *frame, uint8_t buf[static SOFTRDMA_FRAME_SIZE]);

/*
 * Decodes a header and checks all that can be checked without state: the opcode and the flags are known, the
 * opcode allows the payload length, and no field is set that the opcode does not use. False: no frame of this
 * protocol.
 */
bool softrdma_frame_decode(const uint8_t buf[static SOFTRDMA_FRAME_SIZE], struct softrdma_frame *frame);

/* the content of SHM_OFFER: the sender's process, its descriptor of its registry, and the connection's slot there */
struct softrdma_shm_offer {
	uint32_t pid, fd;
	uint32_t slot;
	uint32_t number;                       /* of the connection */
	uint8_t id[SOFTRDMA_REGISTRY_ID_SIZE]; /* the payload: random bytes that the registry holds as well */
};

void softrdma_shm_offer_encode(const struct softrdma_shm_offer *offer, struct softrdma_frame *frame);
/* sets all fields but id, which is the payload */
void softrdma_shm_offer_decode(const struct softrdma_frame *frame, struct softrdma_shm_offer *offer);

enum softrdma_handshake_type {
	SOFTRDMA_HANDSHAKE_CONNECT = 1,
	SOFTRDMA_HANDSHAKE_ACCEPT = 2,
	SOFTRDMA_HANDSHAKE_REJECT = 3,
	SOFTRDMA_HANDSHAKE_JOIN = 4,    /* instead of CONNECT, for a queue pair that is connected by hand */
	SOFTRDMA_HANDSHAKE_RESOLVE = 5, /* instead of CONNECT, by a client that wants to send datagrams */
};

enum softrdma_reject_reason {
	SOFTRDMA_REJECT_CONSUMER = 28,   /* the application rejected it: IB_CM_REJ_CONSUMER_DEFINED */
	SOFTRDMA_REJECT_NO_LISTENER = 8, /* no listener, or no longer one: IB_CM_REJ_INVALID_SERVICE_ID */
	SOFTRDMA_REJECT_VERSION = 31,    /* the versions do not match: IB_CM_REJ_INVALID_CLASS_VERSION */
	SOFTRDMA_REJECT_PLAIN = 5,       /* the listener accepts only TLS: IB_CM_REJ_UNSUPPORTED */
	SOFTRDMA_REJECT_BUSY = 3,        /* too many requests are pending: IB_CM_REJ_NO_RESOURCES */
	SOFTRDMA_REJECT_DAMAGED = 6,     /* the request was damaged in transit: IB_CM_REJ_INVALID_COMM_ID */
};

/* CONNECT, JOIN: what the side wants about records with checksums; ACCEPT: 1 if they are used, else 0 */
enum softrdma_records_wish {
	SOFTRDMA_RECORDS_WANTED = 1 << 0,
	SOFTRDMA_RECORDS_SET = 1 << 1, /* set by a user, so it takes precedence over a default */
};

struct softrdma_handshake {
	uint16_t version;
	uint8_t type;
	uint8_t private_len; /* bytes of private data that follow the header */
	uint32_t qp_num;
	/* sequence number of the sender's first request; ACCEPT for RESOLVE: the queue pair's Q_Key */
	uint32_t seq;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t rnr_retry;
	uint8_t flow_control;
	uint16_t reason;      /* REJECT: enum softrdma_reject_reason */
	uint8_t records;      /* enum softrdma_records_wish */
	uint32_t private_crc; /* CRC32C of the private data */
};

#define SOFTRDMA_GID_SIZE 16
#define SOFTRDMA_JOIN_SIZE 40

/*
 * The private data of JOIN and of the ACCEPT for it. It repeats what the applications have told each other,
 * which proves that they have exchanged it.
 */
struct softrdma_join {
	uint8_t dst_gid[SOFTRDMA_GID_SIZE], src_gid[SOFTRDMA_GID_SIZE];
	uint32_t dst_qp_num;
	uint32_t expected; /* required sequence number of the other side's first request */
};

enum softrdma_handshake_result {
	SOFTRDMA_HANDSHAKE_OK,
	SOFTRDMA_HANDSHAKE_NOT_OURS,      /* the bytes are no handshake of this protocol */
	SOFTRDMA_HANDSHAKE_OTHER_VERSION, /* a handshake of a version that is not supported; only version is
					     set */
	SOFTRDMA_HANDSHAKE_DAMAGED,       /* a handshake whose checksum does not match its bytes */
};

/* these set and verify the header's own checksum; the caller does so for that of the private data */
void softrdma_handshake_encode(const struct softrdma_handshake *hs,
	uint8_t buf[static SOFTRDMA_HANDSHAKE_SIZE]);
/*
 * True, with *version, if the first len bytes of a handshake say that it is of a version that is not supported: all versions
 * begin with magic and version. Their length and the rest may differ, so these bytes are all that may be waited for.
 */
bool softrdma_handshake_is_other_version(const uint8_t *buf, size_t len, uint16_t *version);
enum softrdma_handshake_result softrdma_handshake_decode(const uint8_t buf[static SOFTRDMA_HANDSHAKE_SIZE],
	struct softrdma_handshake *hs);

void softrdma_join_encode(const struct softrdma_join *join, uint8_t buf[static SOFTRDMA_JOIN_SIZE]);
/* false: len is not the size of the encoded form */
bool softrdma_join_decode(const uint8_t *buf, size_t len, struct softrdma_join *join);

#endif /* SOFTRDMA_WIRE_H */
