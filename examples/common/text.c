/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <ctype.h>

#include "text.h"

char *
text_copy(char *dst, size_t dst_size, const void *src, size_t src_len)
{
	const char *bytes = src;
	size_t len = 0;

	while (len < src_len && len + 1 < dst_size && bytes[len] != '\0') {
		char c = bytes[len];
		if (iscntrl((unsigned char)c))
			c = '?';
		dst[len++] = c;
	}
	dst[len] = '\0';

	return dst;
}
