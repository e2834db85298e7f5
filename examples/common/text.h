/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * text.h -- text that came from the other side
 *
 * It need not have an end, and control characters in it could do things to a terminal.
 */

#ifndef EXAMPLES_TEXT_H
#define EXAMPLES_TEXT_H

#include <stddef.h>

/*
 * copy the text in the src_len bytes at src (up to its end, if it has one) to dst, cut to dst_size - 1 bytes
 * and with an end; control characters become '?'. Returns dst.
 */
char *text_copy(char *dst, size_t dst_size, const void *src, size_t src_len);

#endif /* EXAMPLES_TEXT_H */
