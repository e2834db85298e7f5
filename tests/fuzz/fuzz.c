/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* fuzz.c -- what all targets share */

#include <stdio.h>
#include <stdlib.h>

#include <librpma.h>

#include "fuzz.h"
#include "softrdma/wire/crc.h"
#include "softrdma/softrdma.h"
#include "softrdma/wire/wire.h"

/* The address sanitizer keeps freed memory from being used again. A larger quarantine only costs time. */
const char *__asan_default_options(void);

const char *
__asan_default_options(void)
{
	return "quarantine_size_mb=16:detect_leaks=1";
}

void
fuzz_failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: does not hold: %s (last error of a call: %m)\n", file, line, what);
	abort();
}

void
fuzz_skip(const char *why)
{
	printf("SKIPPED: %s\n", why);
	exit(77);
}

static void
no_log(enum softrdma_log_level level, const char *file, int line, const char *func, const char *text)
{
	(void)level;
	(void)file;
	(void)line;
	(void)func;
	(void)text;
}

void
fuzz_quieten(void)
{
	static const struct softrdma_env env = { .log = no_log };

	softrdma_set_env(&env);
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED);
}

static void
put_sum(uint8_t *at, const uint8_t *bytes, size_t len)
{
	uint32_t sum = softrdma_crc32c(0, bytes, len);

	for (unsigned i = 0; i < 4; i++)
		at[i] = (uint8_t)(sum >> 8 * i);
}

void
fuzz_put_sums(uint8_t *message, size_t len)
{
	const size_t size = SOFTRDMA_HANDSHAKE_SIZE;

	if (len < size)
		return;
	if (len - size >= message[7])
		put_sum(message + size - 8, message + size, message[7]);
	put_sum(message + size - 4, message, size - 4);
}

static uint64_t
take(struct fuzz_input *in, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes && in->left > 0; i++) {
		value |= (uint64_t)*in->at++ << (8 * i);
		in->left--;
	}
	return value;
}

uint8_t
fuzz_u8(struct fuzz_input *in)
{
	return (uint8_t)take(in, 1);
}

uint16_t
fuzz_u16(struct fuzz_input *in)
{
	return (uint16_t)take(in, 2);
}

uint64_t
fuzz_u64(struct fuzz_input *in)
{
	return take(in, 8);
}
