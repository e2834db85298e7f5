/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* handshake.c -- the header of a handshake message */

#include <string.h>

#include "fuzz.h"
#include "softrdma/wire/wire.h"

static bool
same(const struct softrdma_handshake *a, const struct softrdma_handshake *b)
{
	uint8_t one[SOFTRDMA_HANDSHAKE_SIZE], other[SOFTRDMA_HANDSHAKE_SIZE];

	softrdma_handshake_encode(a, one);
	softrdma_handshake_encode(b, other);
	return memcmp(one, other, sizeof(one)) == 0;
}

static void
decode(const uint8_t *data)
{
	struct softrdma_handshake hs, untouched;
	uint8_t again[SOFTRDMA_HANDSHAKE_SIZE];

	memset(&hs, 0x5a, sizeof(hs));
	untouched = hs;
	switch (softrdma_handshake_decode(data, &hs)) {
	case SOFTRDMA_HANDSHAKE_OK:
		FUZZ_CHECK(hs.version == SOFTRDMA_WIRE_VERSION);
		softrdma_handshake_encode(&hs, again);
		FUZZ_CHECK(memcmp(again, data, sizeof(again)) == 0);
		break;
	case SOFTRDMA_HANDSHAKE_OTHER_VERSION:
		FUZZ_CHECK(memcmp(data, "SRDM", 4) == 0 && hs.version != SOFTRDMA_WIRE_VERSION);
		FUZZ_CHECK(hs.version == (data[4] | data[5] << 8));
		hs.version = untouched.version;
		FUZZ_CHECK(same(&hs, &untouched));
		break;
	default:
		FUZZ_CHECK(same(&hs, &untouched));
		break;
	}
}

/* Decodes the input as it is, and with the right check sum, which no fuzzer finds by itself. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t right[SOFTRDMA_HANDSHAKE_SIZE];

	if (size < SOFTRDMA_HANDSHAKE_SIZE)
		return 0;
	decode(data);
	memcpy(right, data, sizeof(right));
	fuzz_put_sums(right, sizeof(right));
	decode(right);
	return 0;
}
