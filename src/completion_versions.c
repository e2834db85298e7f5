/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * completion_versions.c -- rpma_conn_completion_get of the shared library, twice
 *
 * A program built against 0.9 asks for LIBRPMA_1.0 and has the 24 bytes of its struct rpma_completion; the
 * function fills in its four members and no others. A program built today asks for the default, LIBRPMA_2.0.
 * The version script names the function in both nodes.
 */

#include "completion.h"

#if defined(__has_attribute) && __has_attribute(symver)
#define SYMBOL_VERSION(function, version) __attribute__((visibility("default"), symver(version)))
#else /* clang: in assembly. Link-time optimization would lose that, so this file is built without it */
#define SYMBOL_VERSION(function, version) \
	__asm__(".symver " #function ", " version "\n"); \
	__attribute__((visibility("default"), used))
#endif

int rpmai_conn_completion_get_1_0(struct rpma_conn *conn, struct rpma_completion *cmpl);
int rpmai_conn_completion_get_2_0(struct rpma_conn *conn, struct rpma_completion *cmpl);

SYMBOL_VERSION(rpmai_conn_completion_get_1_0, "rpma_conn_completion_get@LIBRPMA_1.0")
int
rpmai_conn_completion_get_1_0(struct rpma_conn *conn, struct rpma_completion *cmpl)
{
	return rpmai_conn_completion_get(conn, cmpl, COMPLETION_SIZE_0_9);
}

SYMBOL_VERSION(rpmai_conn_completion_get_2_0, "rpma_conn_completion_get@@LIBRPMA_2.0")
int
rpmai_conn_completion_get_2_0(struct rpma_conn *conn, struct rpma_completion *cmpl)
{
	return rpmai_conn_completion_get(conn, cmpl, sizeof(*cmpl));
}
