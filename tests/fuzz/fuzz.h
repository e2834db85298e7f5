/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fuzz.h -- targets that take any bytes
 *
 * A target is a function with the name that libFuzzer calls. With clang it is linked with libFuzzer, which
 * makes up the inputs; with any compiler it is linked with replay.c, which reads them from files.
 */

#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* checks what must hold for any input; ends the process if it does not */
#define FUZZ_CHECK(expr) ((expr) ? (void)0 : fuzz_failed(__FILE__, __LINE__, #expr))
_Noreturn void fuzz_failed(const char *file, int line, const char *what);

/* ends the process with status 77: the target cannot run on this machine */
_Noreturn void fuzz_skip(const char *why);

/*
 * Turns the logs of the library and of the device off. Refusals are expected here, and logging each of them
 * would cost more time than all the rest.
 */
void fuzz_quieten(void);

/* writes the right check sums into a handshake message; a part that the input does not have is left out */
void fuzz_put_sums(uint8_t *message, size_t len);

/* The rest of an input. Past its end all values are 0, so each prefix of an input is an input as well. */
struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

uint8_t fuzz_u8(struct fuzz_input *in);
uint16_t fuzz_u16(struct fuzz_input *in);
uint64_t fuzz_u64(struct fuzz_input *in);

#endif /* TEST_FUZZ_H */
