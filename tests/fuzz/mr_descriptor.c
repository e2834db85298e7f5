/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* mr_descriptor.c -- the descriptor of a memory region, as it arrives from another machine */

#include <string.h>

#include <librpma.h>

#include "descriptor.h"
#include "fuzz.h"

#define CAPS_MAX 0x0F

static uint64_t
le(const uint8_t *at, size_t bytes)
{
	uint64_t value = 0;

	while (bytes-- > 0)
		value = value << 8 | at[bytes];
	return value;
}

/* True if the bytes are a valid descriptor. Written independently of the decoder. */
static bool
is_sound(const uint8_t *desc, size_t size)
{
	uint64_t end;

	return size >= MR_DESCRIPTOR_SIZE_MIN && desc[20] != 0 && le(desc + 8, 8) != 0 &&
		!__builtin_add_overflow(le(desc, 8), le(desc + 8, 8) - 1, &end);
}

static void
check_decoded(const uint8_t *desc, size_t size, const struct mr_descriptor *mr)
{
	uint8_t again[MR_DESCRIPTOR_SIZE];
	struct mr_descriptor whole = *mr;
	bool tagged = size >= MR_DESCRIPTOR_SIZE && (desc[21] & 0xF0) == 0xA0;

	FUZZ_CHECK(mr->has_caps == tagged && (tagged || mr->caps == 0));
	/*
	 * encoding an accepted descriptor again gives the same bytes; the original library's has one byte
	 * less
	 */
	whole.has_caps = true;
	rpmai_mr_descriptor_encode(&whole, again);
	FUZZ_CHECK(memcmp(again, desc, tagged ? MR_DESCRIPTOR_SIZE : MR_DESCRIPTOR_SIZE_MIN) == 0);
}

static bool
same(const struct mr_descriptor *a, const struct mr_descriptor *b)
{
	return a->raddr == b->raddr && a->size == b->size && a->rkey == b->rkey && a->usage == b->usage &&
		a->has_caps == b->has_caps && a->caps == b->caps;
}

static void
check_decoding(const uint8_t *desc, size_t size)
{
	const struct mr_descriptor before = { 1, 2, 3, 4, true, 5 };
	struct mr_descriptor mr = before;
	bool accepted = rpmai_mr_descriptor_decode(desc, size, &mr);

	FUZZ_CHECK(accepted == is_sound(desc, size));
	if (accepted)
		check_decoded(desc, size, &mr);
	else
		FUZZ_CHECK(same(&mr, &before));
}

/* any possible region: encoding and decoding it gives the same region */
static void
check_encoding(struct fuzz_input in)
{
	uint8_t desc[MR_DESCRIPTOR_SIZE];
	struct mr_descriptor decoded;
	struct mr_descriptor mr = {
		.raddr = fuzz_u64(&in),
		.size = fuzz_u64(&in),
		.rkey = (uint32_t)fuzz_u64(&in),
		.usage = fuzz_u8(&in) | 1,
		.has_caps = true,
		.caps = fuzz_u8(&in) & CAPS_MAX,
	};

	if (mr.size == 0 || mr.size - 1 > UINT64_MAX - mr.raddr)
		mr.size = 1;
	rpmai_mr_descriptor_encode(&mr, desc);
	FUZZ_CHECK(rpmai_mr_descriptor_decode(desc, sizeof(desc), &decoded));
	FUZZ_CHECK(same(&decoded, &mr));
}

/* checks the public function, which an application calls with the bytes */
static void
check_public(const uint8_t *desc, size_t size)
{
	struct rpma_mr_remote *mr = NULL;
	size_t told = 0;
	int flush_type = 0;
	int ret = rpma_mr_remote_from_descriptor(desc, size, &mr);

	FUZZ_CHECK(ret == (is_sound(desc, size) ? 0 : RPMA_E_INVAL));
	FUZZ_CHECK((ret == 0) == (mr != NULL));
	if (ret)
		return;
	FUZZ_CHECK(rpma_mr_remote_get_size(mr, &told) == 0 && told == le(desc + 8, 8));
	FUZZ_CHECK(rpma_mr_remote_get_flush_type(mr, &flush_type) == 0);
	FUZZ_CHECK(rpma_mr_remote_delete(&mr) == 0 && mr == NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool quiet;

	if (!quiet)
		fuzz_quieten();
	quiet = true;
	check_decoding(data, size);
	check_encoding((struct fuzz_input){ data, size });
	if (data)
		check_public(data, size);
	return 0;
}
