/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* documented.c -- the errors that the public header documents for each function */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torture.h"

#define FUNCTIONS_MAX 128
#define NAME_LEN 64

#define ERROR(name) \
	{ \
#name, name \
	}
static const struct {
	const char *name;
	int value;
} errors[] = {
	ERROR(RPMA_E_UNKNOWN),
	ERROR(RPMA_E_NOSUPP),
	ERROR(RPMA_E_PROVIDER),
	ERROR(RPMA_E_NOMEM),
	ERROR(RPMA_E_INVAL),
	ERROR(RPMA_E_NO_COMPLETION),
	ERROR(RPMA_E_NO_EVENT),
	ERROR(RPMA_E_AGAIN),
	ERROR(RPMA_E_SHARED_CHANNEL),
	ERROR(RPMA_E_NOT_SHARED_CHNL),
};
#define ERRORS (sizeof(errors) / sizeof(errors[0]))

static struct function {
	char name[NAME_LEN];
	unsigned errors; /* bit i stands for errors[i] */
} functions[FUNCTIONS_MAX];
static size_t function_count;

static const struct function *
find(const char *name)
{
	for (size_t i = 0; i < function_count; i++) {
		if (!strcmp(functions[i].name, name))
			return &functions[i];
	}
	return NULL;
}

static size_t
word_length(const char *text)
{
	return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

/* the errors that a comment names, and those of the functions that it names */
static unsigned
errors_in(const char *comment, const char *end)
{
	unsigned bits = 0;

	for (const char *p = comment; p < end; p++) {
		size_t len = word_length(p);

		for (size_t i = 0; i < ERRORS; i++) {
			if (len == strlen(errors[i].name) && !strncmp(p, errors[i].name, len))
				bits |= 1u << i;
		}
		if (len > 5 && len < NAME_LEN && !strncmp(p, "rpma_", 5)) {
			char name[NAME_LEN];
			const struct function *other;

			snprintf(name, sizeof(name), "%.*s", (int)len, p);
			other = find(name);
			if (other)
				bits |= other->errors;
		}
		if (len)
			p += len - 1;
	}
	return bits;
}

/* takes the prototype at line, "int rpma_...", and the comment right above it */
static void
take_prototype(const char *text, const char *line)
{
	const char *name = line + strlen("int ");
	const char *end = line;
	const char *begin;
	struct function *f = &functions[function_count];

	if (function_count == FUNCTIONS_MAX)
		wrong("more functions in the header than there is room for");
	snprintf(f->name, sizeof(f->name), "%.*s", (int)word_length(name), name);
	while (end > text && (end[-1] == '\n' || end[-1] == '\t'))
		end--;
	for (begin = end; begin > text && strncmp(begin, "/*", 2) != 0; begin--)
		;
	f->errors = errors_in(begin, end);
	function_count++;
}

bool
documented_read(const char *path)
{
	static char text[256 * 1024];
	FILE *f = fopen(path, "re");
	size_t len;

	if (!f)
		return false;
	len = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[len] = '\0';
	for (const char *line = strstr(text, "\nint rpma_"); line; line = strstr(line + 1, "\nint rpma_"))
		take_prototype(text, line + 1);
	return function_count > 0;
}

bool
documented(const char *function, int error)
{
	const struct function *f = find(function);

	if (!f)
		wrong("%s is not in the header", function);
	for (size_t i = 0; i < ERRORS; i++) {
		if (errors[i].value == error)
			return f->errors & 1u << i;
	}
	return false;
}
