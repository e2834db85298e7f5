/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* variables.c -- the settings that the device takes from the environment */

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "softrdma/base/env.h"
#include "softrdma/base/variables.h"

#define PREFIX "SOFTRDMA_"
#define SHOWN_MAX 32 /* characters of a wrong name or value in a log line */

/* all of softrdma(7) and softrdma-run(1), in the order of the alphabet */
static struct variable {
	const char *name;
	_Atomic uint64_t told; /* the hash of the wrong value that the last WARNING was about; 0: none */
} variables[] = {
	{ "SOFTRDMA_CRC", 0 },
	{ "SOFTRDMA_FAULTS", 0 },
	{ "SOFTRDMA_LIBRARY", 0 },
	{ "SOFTRDMA_MAX_PENDING", 0 },
	{ "SOFTRDMA_MAX_PENDING_PER_ADDRESS", 0 },
	{ "SOFTRDMA_MAX_WRONG_KEYS", 0 },
	{ "SOFTRDMA_READ_FLUSHES", 0 },
	{ "SOFTRDMA_SAME_HOST", 0 },
	{ "SOFTRDMA_SPIN_US", 0 },
	{ "SOFTRDMA_STATS_FILE", 0 },
	{ "SOFTRDMA_STATS_SECONDS", 0 },
	{ "SOFTRDMA_THREADS", 0 },
	{ "SOFTRDMA_TLS_CA", 0 },
	{ "SOFTRDMA_TLS_CERT", 0 },
	{ "SOFTRDMA_TLS_KEY", 0 },
	{ "SOFTRDMA_TLS_PSK", 0 },
	{ "SOFTRDMA_UD", 0 },
};

/* the variable whose name has len characters; NULL: there is no such variable */
static struct variable *
find(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		if (strlen(variables[i].name) == len && memcmp(variables[i].name, name, len) == 0)
			return &variables[i];
	}
	return NULL;
}

/* FNV-1a; never 0 */
static uint64_t
hash_of(const char *text)
{
	uint64_t hash = UINT64_C(14695981039346656037);
	for (const char *c = text; *c; c++)
		hash = (hash ^ (uint8_t)*c) * UINT64_C(1099511628211);
	return hash ? hash : 1;
}

const char *
softrdma_variable(const char *name)
{
	assert(find(name, strlen(name)));
	const char *text = secure_getenv(name);
	return text && *text ? text : NULL;
}

/* many connections read the same setting, so one line about a value is enough */
static bool
is_news(const char *name, const char *text)
{
	struct variable *variable = find(name, strlen(name));
	const uint64_t hash = hash_of(text);
	return atomic_exchange(&variable->told, hash) != hash;
}

uint64_t
softrdma_setting(const char *name, uint64_t min, uint64_t max, uint64_t def)
{
	const char *text = softrdma_variable(name);
	if (text == NULL)
		return def;

	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (errno == 0 && *end == '\0' && strchr(text, '-') == NULL && value >= min && value <= max)
		return value;
	/*
	 * message(environment): once for each value: a variable of the software device -> Set a number of
	 * this range.
	 */
	if (is_news(name, text))
		SOFTRDMA_LOG(WARNING, "%s is \"%.*s\", which is no number from %llu to %llu: %llu is used",
			name, SHOWN_MAX, text, (unsigned long long)min, (unsigned long long)max,
			(unsigned long long)def);
	return def;
}

void
softrdma_variables_check(void)
{
	static struct softrdma_log_limit unknown = SOFTRDMA_LOG_LIMIT;
	if (environ == NULL || getauxval(AT_SECURE))
		return; /* the device reads no variable then */
	for (char **at = environ; *at; at++) {
		const size_t len = strcspn(*at, "=");
		if (strncmp(*at, PREFIX, strlen(PREFIX)) != 0 || find(*at, len))
			continue;
		/*
		 * message(environment): a name that begins with `SOFTRDMA_`, and that the device does not
		 * know -> Correct the name, or unset it.
		 */
		SOFTRDMA_LOG_FEW(&unknown, WARNING,
			"%.*s is no variable of the software device, and has no effect: softrdma(7) lists them",
			len < SHOWN_MAX ? (int)len : SHOWN_MAX, *at);
	}
}
