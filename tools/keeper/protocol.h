/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * protocol.h -- what a client and rpma-keeper tell each other when they connect (doc/keeper-protocol.md)
 *
 * Everything travels in the private data of the connection: the request with the client's request, the reply
 * with the keeper's acceptance, the refusal with its rejection. Each fits into the private data of RDMA
 * hardware. These functions are pure. They never read past the given length, and an output of a decoder is
 * untouched if the decoder fails.
 */

#ifndef KEEPER_PROTOCOL_H
#define KEEPER_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEEPER_VERSION 1
#define KEEPER_PORT_DEFAULT "7204"

#define KEEPER_NAME_MAX 32 /* characters of a name: letters, digits, '.', '_' and '-' */
#define KEEPER_IDENTITY_SIZE 16
#define KEEPER_DESCRIPTOR_MIN 21 /* a memory region's descriptor of the original library */
#define KEEPER_DESCRIPTOR_MAX 64
#define KEEPER_SENTENCE_MAX 120
#define KEEPER_BLOCK_SHIFT_MAX 21 /* the largest block size: 2 MiB */

/* the longest encoded forms, in bytes: below 50, 190 and 142, which is what RDMA hardware leaves for them */
#define KEEPER_REQUEST_MAX (16 + KEEPER_NAME_MAX)
#define KEEPER_REPLY_MAX (36 + KEEPER_DESCRIPTOR_MAX)
#define KEEPER_REFUSAL_MAX (8 + KEEPER_SENTENCE_MAX)

/* what a client asks for; combined with | */
enum keeper_want {
	KEEPER_WANT_WRITE = 1 << 0,    /* also to write: the name is then lent to this client alone */
	KEEPER_WANT_TAKEOVER = 1 << 1, /* also if another client has it: that one loses its access first */
	KEEPER_WANT_RESUME = 1 << 2,   /* only if no other client had it for writing since this one */
};

struct keeper_request {
	uint8_t want;    /* enum keeper_want */
	uint64_t client; /* a random number that the client keeps for its life; not 0 */
	char name[KEEPER_NAME_MAX + 1];
};

/* what a flush to persistence of the memory means, and what it costs */
enum keeper_persistence {
	KEEPER_VOLATILE = 0, /* nothing outlives the keeper's machine */
	KEEPER_PAGES = 1,    /* a file on a disk: each flush costs a write to the disk, whatever its length */
	KEEPER_LINES = 2,    /* persistent memory: the cost of a flush grows with its length */
};

struct keeper_reply {
	bool writable;
	bool lent; /* a client has it for writing, this one or another */
	/* enum keeper_reason: why no client may write (READ_ONLY, MEDIUM or FAILURE); 0: one may */
	uint8_t only_reading;
	enum keeper_persistence persistence;
	uint8_t block_shift; /* the block size that suits the memory is 1 << block_shift bytes */
	uint8_t peer_cfg;    /* the keeper's peer configuration, as rpma_peer_cfg_get_descriptor */
	uint64_t size;       /* in bytes */
	uint8_t identity[KEEPER_IDENTITY_SIZE]; /* of the memory: other content has another identity */
	uint8_t descriptor[KEEPER_DESCRIPTOR_MAX];
	uint8_t descriptor_size;
};

/* why a request is refused */
enum keeper_reason {
	KEEPER_REFUSED_REQUEST = 1,   /* the request is malformed */
	KEEPER_REFUSED_VERSION = 2,   /* the keeper has another version of the protocol */
	KEEPER_REFUSED_NAME = 3,      /* nothing is lent under this name */
	KEEPER_REFUSED_READ_ONLY = 4, /* it is lent for reading only */
	KEEPER_REFUSED_BUSY = 5,      /* another client has it for writing */
	KEEPER_REFUSED_SUPERSEDED =
		6,                  /* another client had it for writing since, so nothing can be resumed */
	KEEPER_REFUSED_FULL = 7,    /* the keeper has as many clients as it may have */
	KEEPER_REFUSED_MEDIUM = 8,  /* the memory can no longer be made durable */
	KEEPER_REFUSED_FAILURE = 9, /* the keeper failed to lend it */
	KEEPER_REFUSED_REPLACED =
		10, /* no client had it for writing yet, so it is not what is to be resumed */
};
#define KEEPER_REASON_MAX KEEPER_REFUSED_REPLACED

struct keeper_refusal {
	enum keeper_reason reason;
	char sentence[KEEPER_SENTENCE_MAX + 1]; /* printable ASCII */
};

enum keeper_decoded {
	KEEPER_DECODED,
	KEEPER_MALFORMED,
	KEEPER_OTHER_VERSION, /* sound as far as every version has it */
};

/* true if the characters of text may be a name */
bool keeper_name_is_valid(const char *text);

/* each encoder returns the number of bytes written; what it encodes must be valid */
size_t keeper_request_encode(const struct keeper_request *request, uint8_t bytes[static KEEPER_REQUEST_MAX]);
size_t keeper_reply_encode(const struct keeper_reply *reply, uint8_t bytes[static KEEPER_REPLY_MAX]);
/* characters of the sentence that are not printable ASCII become '?' */
size_t keeper_refusal_encode(const struct keeper_refusal *refusal, uint8_t bytes[static KEEPER_REFUSAL_MAX]);

/* zeros after the last byte are padding; data may be NULL if len is 0 */
enum keeper_decoded keeper_request_decode(const void *data, size_t len, struct keeper_request *request);
enum keeper_decoded keeper_reply_decode(const void *data, size_t len, struct keeper_reply *reply);
/* the form of a refusal is the same in all versions, so this never gives KEEPER_OTHER_VERSION */
enum keeper_decoded keeper_refusal_decode(const void *data, size_t len, struct keeper_refusal *refusal);

#endif /* KEEPER_PROTOCOL_H */
