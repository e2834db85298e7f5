/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * valgrind.h -- whether valgrind runs this process
 *
 * valgrind reports system calls that refer to memory without a defined content, and answers some calls itself. The
 * instructions below are its interface for programs: they do nothing on a processor, and never change.
 */

#ifndef SOFTRDMA_VALGRIND_H
#define SOFTRDMA_VALGRIND_H

#include <stdbool.h>
#include <stdint.h>

/* "is the program running under valgrind?" */
#define SOFTRDMA_VALGRIND_QUESTION 0x1001u

#if defined(__x86_64__)

static inline bool
softrdma_under_valgrind(void)
{
	const volatile uint64_t question[6] = { SOFTRDMA_VALGRIND_QUESTION };
	uint64_t answer = 0;
	__asm__ volatile(
		"rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
		: "+d"(answer)
		: "a"(question)
		: "cc", "memory");
	return answer != 0;
}

#elif defined(__aarch64__)

static inline bool
softrdma_under_valgrind(void)
{
	const volatile uint64_t question[6] = { SOFTRDMA_VALGRIND_QUESTION };
	register uint64_t answer __asm__("x3") = 0;
	register const volatile uint64_t *at __asm__("x4") = question;
	__asm__ volatile(
		"ror x12, x12, #3; ror x12, x12, #13; ror x12, x12, #51; ror x12, x12, #61; orr x10, x10, x10"
		: "+r"(answer)
		: "r"(at)
		: "cc", "memory");
	return answer != 0;
}

#else

static inline bool
softrdma_under_valgrind(void)
{
	return false;
}

#endif

#endif /* SOFTRDMA_VALGRIND_H */
