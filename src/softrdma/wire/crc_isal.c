/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* crc_isal.c -- CRC32C by ISA-L, which uses the best instructions that the processor has */

#include <isa-l/crc.h>

#include "softrdma/wire/crc.h"

/* ISA-L takes the length as an int */
#define PART_MAX (1u << 30)

uint32_t
softrdma_crc32c(uint32_t crc, const void *bytes, size_t len)
{
	/* ISA-L only reads the bytes, although its parameter is not const */
	unsigned char *at = (unsigned char *)(uintptr_t)bytes;
	/* ISA-L inverts neither the initial value nor the result */
	uint32_t state = ~crc;
	while (len > 0) {
		size_t part = len < PART_MAX ? len : PART_MAX;
		state = crc32_iscsi(at, (int)part, state);
		at += part;
		len -= part;
	}
	return ~state;
}
