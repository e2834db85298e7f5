/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* crc_table.c -- CRC32C by tables, eight bytes at a time, for builds without ISA-L */

#include <endian.h>
#include <pthread.h>
#include <string.h>

#include "softrdma/wire/crc.h"

/* the polynomial bit-reversed: CRC32C takes the lowest bit of each byte first */
#define POLYNOMIAL 0x82f63b78u

#define TABLES 8

/* table[n]: the CRC of each byte value followed by n zero bytes */
static uint32_t table[TABLES][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t
crc_of_byte(uint32_t byte)
{
	uint32_t crc = byte;
	for (int bit = 0; bit < 8; bit++)
		crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
	return crc;
}

static void
make_tables(void)
{
	for (uint32_t byte = 0; byte < 256; byte++)
		table[0][byte] = crc_of_byte(byte);
	for (int n = 1; n < TABLES; n++) {
		for (uint32_t byte = 0; byte < 256; byte++) {
			uint32_t before = table[n - 1][byte];
			table[n][byte] = before >> 8 ^ table[0][before & 0xff];
		}
	}
}

/* processes eight bytes at once: the lowest byte is the first one, and seven follow it */
static uint32_t
eight_bytes(uint32_t state, const uint8_t *at)
{
	uint64_t bytes;
	memcpy(&bytes, at, sizeof(bytes));
	bytes = le64toh(bytes) ^ state;
	/* written out, because compilers do not unroll a loop here */
	return table[7][bytes & 0xff] ^ table[6][bytes >> 8 & 0xff] ^ table[5][bytes >> 16 & 0xff] ^
		table[4][bytes >> 24 & 0xff] ^ table[3][bytes >> 32 & 0xff] ^ table[2][bytes >> 40 & 0xff] ^
		table[1][bytes >> 48 & 0xff] ^ table[0][bytes >> 56];
}

uint32_t
softrdma_crc32c(uint32_t crc, const void *bytes, size_t len)
{
	pthread_once(&once, make_tables);
	const uint8_t *at = bytes;
	uint32_t state = ~crc;
	for (; len >= TABLES; len -= TABLES, at += TABLES)
		state = eight_bytes(state, at);
	for (; len > 0; len--, at++)
		state = state >> 8 ^ table[0][(state ^ *at) & 0xff];
	return ~state;
}
