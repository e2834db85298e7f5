/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* numbers.c -- numbers as users write and read them */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"

/* parses the digits at the beginning of text; *end becomes the byte after them */
static bool
digits(const char *text, uint64_t *value, const char **end)
{
	if (*text < '0' || *text > '9') /* strtoull would accept signs and spaces */
		return false;
	char *stop;
	errno = 0;
	unsigned long long parsed = strtoull(text, &stop, 10);
	if (errno)
		return false;
	*value = parsed;
	*end = stop;
	return true;
}

bool
number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
	uint64_t parsed;
	const char *end;
	if (!digits(text, &parsed, &end) || *end != '\0' || parsed < min || parsed > max)
		return false;
	*value = parsed;
	return true;
}

bool
size_parse(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
	static const char units[] = "kmgKMG";
	uint64_t parsed;
	const char *end;
	if (!digits(text, &parsed, &end))
		return false;

	unsigned int shift = 0;
	if (*end != '\0') {
		const char *unit = strchr(units, *end);
		if (unit == NULL || end[1] != '\0')
			return false;
		shift = 10 * (unsigned int)((unit - units) % 3 + 1);
	}
	if (parsed > (UINT64_MAX >> shift) || parsed << shift < min || parsed << shift > max)
		return false;
	*value = parsed << shift;
	return true;
}

bool
decimal_parse(const char *text, double min, double max, double *value)
{
	if (strspn(text, "0123456789.") != strlen(text)) /* neither signs nor exponents nor "inf" */
		return false;
	char *end;
	double parsed = strtod(text, &end);
	if (end == text || *end != '\0' || !isfinite(parsed) || parsed < min || parsed > max)
		return false;
	*value = parsed;
	return true;
}

/* parses one element of a list: a size, or a range of sizes */
static bool
element_parse(char *text, uint64_t min, uint64_t max, uint64_t *list, int capacity, int *count)
{
	uint64_t first, last;
	char *colon = strchr(text, ':');
	if (colon)
		*colon = '\0';
	if (!size_parse(text, min, max, &first) || !size_parse(colon ? colon + 1 : text, first, max, &last))
		return false;
	if (first == 0 && last != 0)
		return false; /* doubling 0 stays 0 */

	for (uint64_t size = first;; size *= 2) {
		if (*count == capacity)
			return false;
		list[(*count)++] = size;
		if (size == last || size > last / 2)
			return true;
	}
}

bool
sizes_parse(const char *text, uint64_t min, uint64_t max, uint64_t *list, int capacity, int *count)
{
	char *copy = strdup(text);
	if (copy == NULL)
		return false;

	bool good = true;
	*count = 0;
	char *rest = copy;
	for (char *element; good && (element = strsep(&rest, ",")) != NULL;)
		good = element_parse(element, min, max, list, capacity, count);
	free(copy);
	return good;
}

void
size_text(uint64_t size, char text[static SIZE_TEXT_MAX])
{
	const char *unit = "";
	for (const char *larger = "kmg"; *larger && size >= 1024 && size % 1024 == 0; larger++) {
		size /= 1024;
		unit = larger;
	}
	snprintf(text, SIZE_TEXT_MAX, "%" PRIu64 "%.1s", size, unit);
}
