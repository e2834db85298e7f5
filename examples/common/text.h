/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * text.h -- text that came from the other side
 *
 * It may have no terminating zero, and control characters in it could affect a terminal.
 */

#ifndef EXAMPLES_TEXT_H
#define EXAMPLES_TEXT_H

#include <stddef.h>

/*
 * Copies the text in the src_len bytes at src (up to its terminating zero, if any) to dst. It cuts the text
 * to dst_size - 1 bytes, terminates it, and replaces control characters by '?'. Returns dst.
 */
char *text_copy(char *dst, size_t dst_size, const void *src, size_t src_len);

#endif /* EXAMPLES_TEXT_H */
