/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fuzz.h -- targets that take any bytes
 *
 * A target is a function of the name that libFuzzer calls. With clang it is linked with libFuzzer, which
 * makes inputs up; with any compiler it is linked with replay.c, which takes them from files.
 */

#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* what must hold whatever the bytes are; ends the process */
#define FUZZ_CHECK(expr) ((expr) ? (void)0 : fuzz_failed(__FILE__, __LINE__, #expr))
_Noreturn void fuzz_failed(const char *file, int line, const char *what);

/* the target cannot run on this machine: status 77 */
_Noreturn void fuzz_skip(const char *why);

/* the library and the device say nothing: a refusal is no news here, and a line for each costs more than the
 * rest */
void fuzz_quieten(void);

/* gives a message of the handshake, as far as it is there, the check sums that it must have */
void fuzz_put_sums(uint8_t *message, size_t len);

/* what is left of an input; its end gives zeros, so that each prefix of an input is one too */
struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

uint8_t fuzz_u8(struct fuzz_input *in);
uint16_t fuzz_u16(struct fuzz_input *in);
uint64_t fuzz_u64(struct fuzz_input *in);

#endif /* TEST_FUZZ_H */
