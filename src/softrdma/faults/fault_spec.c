/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* fault_spec.c -- injected faults: what the words of SOFTRDMA_FAULTS mean, and when each fault strikes */

#include <assert.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "softrdma/bounds.h"
#include "softrdma/faults/fault_spec.h"

#define MILLION 1000000u

/* the kind of value that follows the name */
enum form {
	NOTHING,
	NUMBER, /* from 1 */
	NUMBER_OR_0,
	TIME,
	STATUS,
};

static const struct syntax {
	const char *name;
	enum form form;
	bool has_where;
} words[] = {
	[SOFTRDMA_FAULT_DROP_AFTER] = { "drop-after", NUMBER_OR_0, false },
	[SOFTRDMA_FAULT_RETRY_TIMEOUT] = { "retry-timeout", TIME, false },
	[SOFTRDMA_FAULT_DELAY] = { "delay", TIME, true },
	[SOFTRDMA_FAULT_WC_ERROR] = { "wc-error", STATUS, true },
	[SOFTRDMA_FAULT_DISCONNECT] = { "disconnect", TIME, false },
	[SOFTRDMA_FAULT_DISCONNECT_AFTER] = { "disconnect-after", NUMBER, false },
	[SOFTRDMA_FAULT_REJECT] = { "reject", NOTHING, true },
	[SOFTRDMA_FAULT_SLOW_FLUSH] = { "slow-flush", TIME, true },
	[SOFTRDMA_FAULT_FLUSH_ERROR] = { "flush-error", NOTHING, true },
	[SOFTRDMA_FAULT_LOSE] = { "lose", NOTHING, true },
	[SOFTRDMA_FAULT_DUPLICATE] = { "duplicate", NOTHING, true },
	[SOFTRDMA_FAULT_REORDER] = { "reorder", NOTHING, true },
	[SOFTRDMA_FAULT_CORRUPT] = { "corrupt", NOTHING, true },
	[SOFTRDMA_FAULT_CONNECTION] = { "connection", NUMBER, false },
	[SOFTRDMA_FAULT_SEED] = { "seed", NUMBER_OR_0, false },
};

static_assert(sizeof(words) / sizeof(words[0]) == SOFTRDMA_FAULT_WORDS, "each word has its syntax");

/* the errors of a reliable connection's work request; not the flush error, which only follows from another */
static const struct {
	const char *name;
	enum ibv_wc_status status;
} statuses[] = {
	{ "loc_len", IBV_WC_LOC_LEN_ERR },
	{ "loc_qp_op", IBV_WC_LOC_QP_OP_ERR },
	{ "loc_prot", IBV_WC_LOC_PROT_ERR },
	{ "mw_bind", IBV_WC_MW_BIND_ERR },
	{ "bad_resp", IBV_WC_BAD_RESP_ERR },
	{ "loc_access", IBV_WC_LOC_ACCESS_ERR },
	{ "rem_inv_req", IBV_WC_REM_INV_REQ_ERR },
	{ "rem_access", IBV_WC_REM_ACCESS_ERR },
	{ "rem_op", IBV_WC_REM_OP_ERR },
	{ "retry_exc", IBV_WC_RETRY_EXC_ERR },
	{ "rnr_retry_exc", IBV_WC_RNR_RETRY_EXC_ERR },
	{ "rem_abort", IBV_WC_REM_ABORT_ERR },
	{ "fatal", IBV_WC_FATAL_ERR },
	{ "resp_timeout", IBV_WC_RESP_TIMEOUT_ERR },
	{ "general", IBV_WC_GENERAL_ERR },
};

/* --- reading --- */

/* the text that has not been parsed yet */
struct cursor {
	const char *at, *end;
};

static bool
take_char(struct cursor *c, char wanted)
{
	if (c->at == c->end || *c->at != wanted)
		return false;
	c->at++;
	return true;
}

static bool
take_text(struct cursor *c, const char *wanted)
{
	size_t len = strlen(wanted);
	if ((size_t)(c->end - c->at) < len || memcmp(c->at, wanted, len) != 0)
		return false;
	c->at += len;
	return true;
}

/* digits only: no sign, no blank, no other base. False: no digit, or a number that 64 bits cannot hold. */
static bool
take_number(struct cursor *c, uint64_t *value)
{
	const char *first = c->at;
	*value = 0;
	for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
		uint64_t digit = (uint64_t)(*c->at - '0');
		if (*value > (UINT64_MAX - digit) / 10)
			return false;
		*value = *value * 10 + digit;
	}
	return c->at > first;
}

static bool
take_time(struct cursor *c, uint64_t *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 } };
	const uint64_t max_ns = (uint64_t)SOFTRDMA_FAULT_TIME_MAX_S * 1000000000u;
	uint64_t number;
	if (!take_number(c, &number))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (!take_text(c, units[i].name))
			continue;
		*ns = number * units[i].ns;
		return number > 0 && number <= max_ns / units[i].ns;
	}
	return false;
}

static bool
take_status(struct cursor *c, uint64_t *status)
{
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		struct cursor after = *c;
		if (!take_text(&after, statuses[i].name) || (after.at < after.end && *after.at != '@'))
			continue;
		*c = after;
		*status = statuses[i].status;
		return true;
	}
	return false;
}

/* NULL, or a description of the error */
static const char *
take_value(struct cursor *c, enum form form, uint64_t *value)
{
	if (form == NOTHING)
		return NULL;
	if (!take_char(c, '='))
		return "a value must follow the name, as in NAME=VALUE";
	switch (form) {
	case NUMBER:
		return take_number(c, value) && *value > 0 ? NULL : "the value must be a number from 1";
	case NUMBER_OR_0:
		return take_number(c, value) ? NULL : "the value must be a number from 0";
	case TIME:
		return take_time(c, value) ? NULL : "the value must be a time in us, ms or s, up to an hour";
	default:
		assert(form == STATUS);
		return take_status(c, value) ? NULL : "the value must be the name of an error status";
	}
}

/* at most four digits follow the point: the fourth digit of a percentage is one millionth */
static bool
take_rest_of_percent(struct cursor *c, uint64_t whole, uint32_t *ppm)
{
	uint32_t millionths = whole <= 100 ? (uint32_t)whole * 10000 : MILLION + 1;
	if (take_char(c, '.')) {
		const char *first = c->at;
		for (uint32_t scale = 1000; scale > 0 && c->at < c->end; scale /= 10) {
			if (*c->at < '0' || *c->at > '9')
				break;
			millionths += (uint32_t)(*c->at++ - '0') * scale;
		}
		if (c->at == first)
			return false;
	}
	*ppm = millionths;
	return take_char(c, '%') && millionths > 0 && millionths <= MILLION;
}

static bool
take_where(struct cursor *c, struct softrdma_fault *fault)
{
	uint64_t number;
	if (!take_number(c, &number))
		return false;
	if (c->at < c->end)
		return take_rest_of_percent(c, number, &fault->parts_ppm);
	fault->nth = number;
	return number > 0;
}

/*
 * Parses a known word from the end of its name. NULL, or a description of the error.
 */
static const char *
take_rest(struct cursor *c, const struct syntax *syntax, struct softrdma_fault *fault)
{
	if (fault->told)
		return "it has been given already";
	fault->told = true;
	const char *why = take_value(c, syntax->form, &fault->value);
	if (why)
		return why;
	fault->parts_ppm = MILLION; /* without an @ the fault strikes every time */
	if (syntax->has_where && take_char(c, '@') && !take_where(c, fault))
		return "behind the @ must be a number from 1, or a percentage up to 100 with a % sign";
	return c->at == c->end ? NULL : "something follows that does not belong to it";
}

static const char *
take_word(struct cursor c, struct softrdma_fault_spec *spec)
{
	for (size_t i = 0; i < SOFTRDMA_FAULT_WORDS; i++) {
		struct cursor after = c;
		if (!take_text(&after, words[i].name))
			continue;
		/* one name may be the beginning of another */
		if (after.at == after.end || *after.at == '=' || *after.at == '@')
			return take_rest(&after, &words[i], &spec->word[i]);
	}
	return c.at == c.end ? "a word is missing" : "no such fault is known";
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static struct cursor
trim(struct cursor c)
{
	while (c.at < c.end && is_blank(*c.at))
		c.at++;
	while (c.at < c.end && is_blank(c.end[-1]))
		c.end--;
	return c;
}

/* gives the part before the mark, or all of it; *rest is what follows the mark, or has at == NULL */
static struct cursor
split(struct cursor c, char mark, struct cursor *rest)
{
	const char *found = c.at < c.end ? memchr(c.at, mark, (size_t)(c.end - c.at)) : NULL;
	rest->at = found ? found + 1 : NULL;
	rest->end = c.end;
	if (found)
		c.end = found;
	return c;
}

/* copies the user's word for a log line, with control characters replaced */
static void
show_word(struct cursor c, char shown[static SOFTRDMA_FAULT_SHOWN_MAX + 1])
{
	size_t len = 0;
	for (; c.at < c.end && len < SOFTRDMA_FAULT_SHOWN_MAX; c.at++, len++) {
		shown[len] = *c.at;
		if (*c.at < ' ' || *c.at > '~')
			shown[len] = '?';
	}
	shown[len] = '\0';
}

static bool
parse_line(struct cursor line, struct softrdma_fault_spec *spec, struct softrdma_fault_error *error)
{
	struct cursor comment;
	line = trim(split(line, '#', &comment));
	if (line.at == line.end)
		return true;
	while (line.at) {
		struct cursor rest;
		struct cursor word = trim(split(line, ',', &rest));
		error->why = take_word(word, spec);
		if (error->why) {
			show_word(word, error->word);
			return false;
		}
		line = rest;
	}
	return true;
}

static bool
acts_on_connections(const struct softrdma_fault_spec *spec)
{
	static const enum softrdma_fault_word acting[] = { SOFTRDMA_FAULT_DROP_AFTER, SOFTRDMA_FAULT_DELAY,
		SOFTRDMA_FAULT_WC_ERROR, SOFTRDMA_FAULT_DISCONNECT, SOFTRDMA_FAULT_DISCONNECT_AFTER,
		SOFTRDMA_FAULT_SLOW_FLUSH, SOFTRDMA_FAULT_FLUSH_ERROR, SOFTRDMA_FAULT_LOSE,
		SOFTRDMA_FAULT_DUPLICATE, SOFTRDMA_FAULT_REORDER, SOFTRDMA_FAULT_CORRUPT };
	bool any = false;
	for (size_t i = 0; i < sizeof(acting) / sizeof(acting[0]); i++)
		any = any || spec->word[acting[i]].told;
	return any;
}

/* false if a word has no effect with the others, because the user has expected one */
static bool
check_together(const struct softrdma_fault_spec *spec, struct softrdma_fault_error *error)
{
	enum softrdma_fault_word lonely = SOFTRDMA_FAULT_WORDS;
	if (spec->word[SOFTRDMA_FAULT_RETRY_TIMEOUT].told && !spec->word[SOFTRDMA_FAULT_DROP_AFTER].told) {
		lonely = SOFTRDMA_FAULT_RETRY_TIMEOUT;
		/* message(faults) */
		error->why = "it needs drop-after";
	} else if (spec->word[SOFTRDMA_FAULT_CONNECTION].told && !acts_on_connections(spec)) {
		lonely = SOFTRDMA_FAULT_CONNECTION;
		/* message(faults) */
		error->why = "it needs a fault of connections";
	} else if (!softrdma_fault_spec_any(spec)) {
		if (spec->word[SOFTRDMA_FAULT_SEED].told)
			lonely = SOFTRDMA_FAULT_SEED;
		/* message(faults) */
		error->why = "there is no fault to make";
	} else {
		return true;
	}
	if (lonely < SOFTRDMA_FAULT_WORDS)
		strncpy(error->word, words[lonely].name, sizeof(error->word) - 1);
	error->line = 0;
	return false;
}

bool
softrdma_fault_spec_parse(const char *text, size_t len, struct softrdma_fault_spec *spec,
	struct softrdma_fault_error *error)
{
	memset(spec, 0, sizeof(*spec));
	memset(error, 0, sizeof(*error));
	spec->word[SOFTRDMA_FAULT_RETRY_TIMEOUT].value = (uint64_t)SOFTRDMA_PEER_TIMEOUT_MS * MILLION;
	struct cursor left = { text, text + len };
	while (left.at) {
		struct cursor rest;
		struct cursor line = split(left, '\n', &rest);
		error->line++;
		if (!parse_line(line, spec, error))
			return false;
		left = rest;
	}
	return check_together(spec, error);
}

/* --- deciding --- */

bool
softrdma_fault_spec_any(const struct softrdma_fault_spec *spec)
{
	return acts_on_connections(spec) || spec->word[SOFTRDMA_FAULT_REJECT].told;
}

bool
softrdma_fault_spec_concern(const struct softrdma_fault_spec *spec, uint64_t connection)
{
	const struct softrdma_fault *only = &spec->word[SOFTRDMA_FAULT_CONNECTION];
	return acts_on_connections(spec) && (!only->told || only->value == connection);
}

/* makes every bit of the result depend on every bit of x (the finalizer of splitmix64) */
static uint64_t
mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

bool
softrdma_fault_spec_strike(const struct softrdma_fault_spec *spec, enum softrdma_fault_word word,
	uint64_t stream, uint64_t n)
{
	assert(word < SOFTRDMA_FAULT_WORDS && n > 0);
	const struct softrdma_fault *fault = &spec->word[word];
	if (fault->nth)
		return n == fault->nth;
	uint64_t drawn = mix(mix(mix(mix(spec->word[SOFTRDMA_FAULT_SEED].value) + word) + stream) + n);
	return drawn % MILLION < fault->parts_ppm;
}
