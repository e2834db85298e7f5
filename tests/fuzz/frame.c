/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* frame.c -- the header of a frame */

#include <string.h>

#include "fuzz.h"
#include "softrdma/softrdma.h"
#include "softrdma/wire/opcode.h"
#include "softrdma/wire/wire.h"

/* what the requester and the responder rely on after decoding */
static void
check_promises(const struct softrdma_frame *frame)
{
	bool last = frame->flags & SOFTRDMA_FRAME_LAST;
	bool message = frame->opcode == SOFTRDMA_OP_SEND || frame->opcode == SOFTRDMA_OP_WRITE;

	FUZZ_CHECK(frame->length <= SOFTRDMA_SEGMENT_MAX);
	FUZZ_CHECK((frame->flags & ~0x1f) == 0);
	if (!message && frame->opcode != SOFTRDMA_OP_READ_RESPONSE)
		FUZZ_CHECK(frame->flags == 0);
	if (frame->opcode == SOFTRDMA_OP_READ)
		FUZZ_CHECK(frame->arg <= SOFTRDMA_MSG_MAX);
	if (frame->opcode == SOFTRDMA_OP_NAK)
		FUZZ_CHECK(frame->code >= SOFTRDMA_NAK_INVALID_REQUEST && frame->code <= SOFTRDMA_NAK_GONE);
	if (frame->flags & (SOFTRDMA_FRAME_IMM | SOFTRDMA_FRAME_SOLICITED | SOFTRDMA_FRAME_ACK_LATER))
		FUZZ_CHECK(last && message);
	if (message && !last && (frame->flags & SOFTRDMA_FRAME_FIRST))
		FUZZ_CHECK(frame->arg > frame->length && frame->arg <= SOFTRDMA_MSG_MAX);
	if (frame->opcode == SOFTRDMA_OP_COMPARE_SWAP)
		FUZZ_CHECK(frame->length == 16);
	if (softrdma_opcode_is_request(frame->opcode))
		FUZZ_CHECK(frame->opcode < SOFTRDMA_OP_ACK);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct softrdma_frame frame, untouched;
	uint8_t again[SOFTRDMA_FRAME_SIZE];

	if (size < SOFTRDMA_FRAME_SIZE)
		return 0;
	memset(&frame, 0x5a, sizeof(frame));
	untouched = frame;
	if (softrdma_frame_decode(data, &frame)) {
		check_promises(&frame);
		softrdma_frame_encode(&frame, again);
		FUZZ_CHECK(memcmp(again, data, sizeof(again)) == 0);
	} else {
		FUZZ_CHECK(memcmp(&frame, &untouched, sizeof(frame)) == 0);
	}
	return 0;
}
