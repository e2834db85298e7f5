/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "numbers.h"

/* strtoull alone would also accept blanks and a sign */
static bool
parse_digits(const char *text, const char **rest, uint64_t *value)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;

	errno = 0;
	unsigned long long number = strtoull(text, &end, 10);
	if (errno)
		return false;

	*rest = end;
	*value = number;
	return true;
}

bool
parse_number(const char *text, uint64_t max, uint64_t *value)
{
	const char *rest;
	uint64_t number;

	if (!parse_digits(text, &rest, &number) || *rest != '\0' || number > max)
		return false;

	*value = number;
	return true;
}

static unsigned
suffix_shift(char suffix)
{
	switch (suffix) {
	case 'K':
	case 'k':
		return 10;
	case 'M':
	case 'm':
		return 20;
	case 'G':
	case 'g':
		return 30;
	default:
		return 0;
	}
}

bool
parse_size(const char *text, uint64_t max, uint64_t *value)
{
	const char *rest;
	uint64_t number;

	if (!parse_digits(text, &rest, &number))
		return false;

	unsigned shift = suffix_shift(*rest);
	if (shift)
		rest++;
	if (*rest != '\0' || number > (max >> shift))
		return false;

	*value = number << shift;
	return true;
}
