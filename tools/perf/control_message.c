/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* control_message.c -- the messages between client and server of a measurement, and their form: no sockets here */

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "control_message.h"
#include "op.h"
#include "waits.h"

#define DEPTH_MAX 2 /* an object, and a list in it */
#define TOKEN_DIGITS 16
#define OLD_MAGIC "RPPF"
#define OLD_MAGIC_LEN 4

static_assert(LOAD_CONNECTIONS_MAX * 20 + CONTROL_TEXT_MAX <= CONTROL_LINE_MAX, "all counts fit");
static_assert(sizeof(json_int_t) == sizeof(uint64_t), "numbers up to INT64_MAX are exact");

void
control_make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

/* ---- the keys of each type ---- */

enum form {
	FORM_U16,
	FORM_U32,
	FORM_U64,
	FORM_BOOL,
	FORM_TEXT,  /* at most CONTROL_TEXT_MAX - 1 characters */
	FORM_TOKEN, /* 16 hexadecimal digits: JSON has no exact number of 64 bits */
	FORM_OP,    /* its name, and so the next ones */
	FORM_FLUSH,
	FORM_WAY,
	FORM_COUNTS, /* a list of numbers */
};

static const struct field {
	enum control_type type;
	const char *key;
	enum form form;
	size_t offset;     /* in struct control_message */
	uint64_t min, max; /* of a number */
} fields[] = {
#define AT(member) offsetof(struct control_message, member)
	{ CONTROL_HELLO, "version", FORM_U32, AT(version), 1, UINT16_MAX },
	{ CONTROL_SETUP, "op", FORM_OP, AT(load.op), 0, 0 },
	{ CONTROL_SETUP, "flush_type", FORM_FLUSH, AT(load.flush_type), 0, 0 },
	{ CONTROL_SETUP, "size", FORM_U64, AT(load.size), 1, LOAD_SIZE_MAX },
	{ CONTROL_SETUP, "depth", FORM_U32, AT(load.depth), 1, LOAD_DEPTH_MAX },
	{ CONTROL_SETUP, "signal_every", FORM_U32, AT(load.signal_every), 1, LOAD_DEPTH_MAX },
	{ CONTROL_SETUP, "connections", FORM_U32, AT(load.connections), 1, LOAD_CONNECTIONS_MAX },
	{ CONTROL_SETUP, "threads", FORM_U32, AT(load.threads), 1, LOAD_THREADS_MAX },
	{ CONTROL_SETUP, "target_waits", FORM_WAY, AT(load.target_waits), 0, 0 },
	{ CONTROL_SETUP, "verify", FORM_BOOL, AT(load.verify), 0, 0 },
	{ CONTROL_READY, "token", FORM_TOKEN, AT(ready.token), 0, 0 },
	{ CONTROL_READY, "port", FORM_U16, AT(ready.port), 1, UINT16_MAX },
	{ CONTROL_READY, "memory", FORM_TEXT, AT(ready.memory), 0, 0 },
	{ CONTROL_FINISH, "posted", FORM_COUNTS, AT(counts), 0, INT64_MAX },
	{ CONTROL_RESULT, "cpu_user_us", FORM_U64, AT(result.cpu.user_us), 0, INT64_MAX },
	{ CONTROL_RESULT, "cpu_system_us", FORM_U64, AT(result.cpu.system_us), 0, INT64_MAX },
	{ CONTROL_RESULT, "clients", FORM_U32, AT(result.clients), 1, UINT16_MAX },
	{ CONTROL_RESULT, "wrong", FORM_U64, AT(result.wrong), 0, INT64_MAX },
	{ CONTROL_RESULT, "first_wrong", FORM_TEXT, AT(result.first_wrong), 0, 0 },
	{ CONTROL_ERROR, "sentence", FORM_TEXT, AT(sentence), 0, 0 },
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static const char *const type_names[CONTROL_TYPE_COUNT] = {
	[CONTROL_HELLO] = "hello",
	[CONTROL_SETUP] = "setup",
	[CONTROL_READY] = "ready",
	[CONTROL_GO] = "go",
	[CONTROL_MARK] = "mark",
	[CONTROL_FINISH] = "finish",
	[CONTROL_RESULT] = "result",
	[CONTROL_ERROR] = "error",
};

const char *
control_type_name(enum control_type type)
{
	assert(type < CONTROL_TYPE_COUNT);
	return type_names[type];
}

/* ---- writing ---- */

/* JSON is UTF-8, which a path in a sentence need not be */
static json_t *
encode_text(const char *text)
{
	char copy[CONTROL_TEXT_MAX];
	snprintf(copy, sizeof(copy), "%s", text);
	control_make_printable(copy);
	return json_string(copy);
}

static json_t *
encode_token(uint64_t token)
{
	char text[TOKEN_DIGITS + 1];
	snprintf(text, sizeof(text), "%0*" PRIx64, TOKEN_DIGITS, token);
	return json_string(text);
}

static json_t *
encode_counts(const struct control_counts *counts)
{
	json_t *list = json_array();
	for (uint32_t i = 0; list && i < counts->count; i++) {
		if (json_array_append_new(list, json_integer((json_int_t)counts->posted[i]))) {
			json_decref(list);
			list = NULL;
		}
	}
	return list;
}

static json_t *
encode_field(const struct field *field, const void *value)
{
	switch (field->form) {
	case FORM_U16:
		return json_integer(*(const uint16_t *)value);
	case FORM_U32:
		return json_integer(*(const uint32_t *)value);
	case FORM_U64:
		return json_integer((json_int_t) * (const uint64_t *)value);
	case FORM_BOOL:
		return json_boolean(*(const bool *)value);
	case FORM_TEXT:
		return encode_text(value);
	case FORM_TOKEN:
		return encode_token(*(const uint64_t *)value);
	case FORM_OP:
		return json_string(op_kinds[*(const enum op *)value].name);
	case FORM_FLUSH:
		return json_string(load_flush_name(*(const enum rpma_flush_type *)value));
	case FORM_WAY:
		return json_string(way_name(*(const enum way *)value));
	case FORM_COUNTS:
		return encode_counts(value);
	}
	return NULL;
}

char *
control_encode(const struct control_message *msg)
{
	char *line = NULL;
	json_t *object = json_pack("{s:s}", "type", control_type_name(msg->type));
	bool good = object != NULL;
	for (size_t i = 0; good && i < FIELDS; i++)
		if (fields[i].type == msg->type)
			good = json_object_set_new(object, fields[i].key,
				       encode_field(&fields[i], (const char *)msg + fields[i].offset)) == 0;
	char *text = good ? json_dumps(object, JSON_COMPACT) : NULL;
	if (text && asprintf(&line, "%s\n", text) < 0)
		line = NULL;
	free(text);
	json_decref(object);
	return line;
}

/* ---- reading: the other side may send anything ---- */

static bool
decode_number(const struct field *field, const json_t *json, uint64_t *value, char why[static WHY_MAX])
{
	const json_int_t number = json_integer_value(json);
	if (!json_is_integer(json))
		return why_say(why, "the other side's \"%s\" is no whole number", field->key);
	if (number < 0 || (uint64_t)number < field->min || (uint64_t)number > field->max)
		return why_say(why,
			"the other side's \"%s\" is %" JSON_INTEGER_FORMAT ": from %" PRIu64 " to %" PRIu64
			" is allowed",
			field->key, number, field->min, field->max);
	*value = (uint64_t)number;
	return true;
}

static bool
decode_text(const struct field *field, const json_t *json, char text[static CONTROL_TEXT_MAX],
	char why[static WHY_MAX])
{
	const size_t len = json_string_length(json); /* 0 if it is no text */
	if (!json_is_string(json) || len >= CONTROL_TEXT_MAX)
		return why_say(why, "the other side's \"%s\" is no text of at most %d bytes", field->key,
			CONTROL_TEXT_MAX - 1);
	memcpy(text, json_string_value(json), len + 1);
	control_make_printable(text);
	return true;
}

static bool
decode_counts(const struct field *field, const json_t *json, struct control_counts *counts,
	char why[static WHY_MAX])
{
	const size_t count = json_array_size(json); /* 0 if it is no list */
	if (count == 0 || count > LOAD_CONNECTIONS_MAX)
		return why_say(why, "the other side's \"%s\" is no list of 1 to %d numbers", field->key,
			LOAD_CONNECTIONS_MAX);
	counts->count = (uint32_t)count;
	for (size_t i = 0; i < count; i++)
		if (!decode_number(field, json_array_get(json, i), &counts->posted[i], why))
			return false;
	return true;
}

/* a name of an operation, a type of flush, a way of waiting, or a token */
static bool
decode_word(const struct field *field, const json_t *json, void *value, char why[static WHY_MAX])
{
	const char *word = json_is_string(json) ? json_string_value(json) : "";
	bool good = false;
	if (field->form == FORM_OP) {
		*(enum op *)value = op_parse(word);
		good = *(enum op *)value != OP_COUNT;
	} else if (field->form == FORM_WAY) {
		*(enum way *)value = way_parse(word);
		good = *(enum way *)value != WAY_COUNT;
	} else if (field->form == FORM_FLUSH) {
		good = load_flush_parse(word, value);
	} else if (strlen(word) == TOKEN_DIGITS && strspn(word, "0123456789abcdef") == TOKEN_DIGITS) {
		*(uint64_t *)value = strtoull(word, NULL, 16);
		good = true;
	}
	return good ? true : why_say(why, "the other side's \"%s\" is not known here", field->key);
}

static bool
decode_field(const struct field *field, const json_t *json, void *value, char why[static WHY_MAX])
{
	uint64_t number = 0;
	switch (field->form) {
	case FORM_U16:
	case FORM_U32:
	case FORM_U64:
		if (!decode_number(field, json, &number, why))
			return false;
		if (field->form == FORM_U16)
			*(uint16_t *)value = (uint16_t)number;
		else if (field->form == FORM_U32)
			*(uint32_t *)value = (uint32_t)number;
		else
			*(uint64_t *)value = number;
		return true;
	case FORM_BOOL:
		*(bool *)value = json_is_true(json);
		return json_is_boolean(json)
			? true
			: why_say(why, "the other side's \"%s\" is neither true nor false", field->key);
	case FORM_TEXT:
		return decode_text(field, json, value, why);
	case FORM_COUNTS:
		return decode_counts(field, json, value, why);
	default:
		return decode_word(field, json, value, why);
	}
}

/* values that are each allowed, but not together */
static bool
check_load(const struct load *load, char why[static WHY_MAX])
{
	const struct op_kind *kind = &op_kinds[load->op];
	if (load->target_waits == WAY_PAUSE && kind->needs_receives)
		return why_say(why, "a target that pauses cannot receive what %s sends", kind->name);
	if (load->threads > load->connections)
		return why_say(why, "%u threads are more than %u connections", load->threads,
			load->connections);
	if (kind->is_word && load->size != sizeof(uint64_t))
		return why_say(why, "%s has 8 bytes, and not %" PRIu64, kind->name, load->size);
	return true;
}

bool
control_refuse_version(unsigned version, char why[static WHY_MAX])
{
	return why_say(why,
		"versions %d and %u of the control protocol do not understand each other: use the same rpma-perf on "
		"both sides",
		CONTROL_VERSION, version);
}

static bool
decode_type(const json_t *object, enum control_type *type, char why[static WHY_MAX])
{
	const char *name = json_string_value(json_object_get(object, "type"));
	for (int i = 0; name && i < CONTROL_TYPE_COUNT; i++) {
		if (strcmp(name, type_names[i]) == 0) {
			*type = (enum control_type)i;
			return true;
		}
	}
	return why_say(why, "the other side is no rpma-perf: its message has no \"type\" that is known");
}

static bool
decode_object(const json_t *object, struct control_message *msg, char why[static WHY_MAX])
{
	size_t keys = 1;
	if (!decode_type(object, &msg->type, why))
		return false;
	if (msg->type == CONTROL_SETUP)
		msg->load = (struct load){ .batch = 1, .pieces = 1 }; /* these matter only to the initiator */
	for (size_t i = 0; i < FIELDS; i++) {
		const struct field *field = &fields[i];
		if (field->type != msg->type)
			continue;
		const json_t *value = json_object_get(object, field->key);
		if (value == NULL)
			return why_say(why, "the other side's message \"%s\" has no \"%s\"",
				type_names[msg->type], field->key);
		if (!decode_field(field, value, (char *)msg + field->offset, why))
			return false;
		keys++;
	}
	if (msg->type == CONTROL_HELLO && msg->version != CONTROL_VERSION)
		return control_refuse_version(msg->version, why);
	if (json_object_size(object) > keys && msg->type != CONTROL_HELLO && msg->type != CONTROL_ERROR)
		return why_say(why, "the other side's message \"%s\" has keys that are not known here",
			type_names[msg->type]);
	return msg->type == CONTROL_SETUP ? check_load(&msg->load, why) : true;
}

/* the most brackets that are open at once; what is no JSON is found later */
static unsigned
depth_of(const char *line, size_t len)
{
	unsigned depth = 0, most = 0;
	bool is_text = false;
	for (size_t i = 0; i < len; i++) {
		if (is_text && line[i] == '\\')
			i++;
		else if (line[i] == '"')
			is_text = !is_text;
		else if (!is_text && (line[i] == '{' || line[i] == '['))
			most = ++depth > most ? depth : most;
		else if (!is_text && (line[i] == '}' || line[i] == ']') && depth > 0)
			depth--;
	}
	return most;
}

bool
control_decode(const char *line, size_t len, struct control_message *msg, char why[static WHY_MAX])
{
	unsigned version;
	json_error_t error;
	if (control_is_old(line, len, &version))
		return control_refuse_version(version, why);
	if (depth_of(line, len) > DEPTH_MAX)
		return why_say(why, "the other side is no rpma-perf: its message is nested too deeply");
	json_t *object = json_loadb(line, len, JSON_REJECT_DUPLICATES, &error);
	bool good = json_is_object(object)
		? decode_object(object, msg, why)
		: why_say(why, "the other side is no rpma-perf: its bytes are not the control protocol's");
	json_decref(object);
	return good;
}

bool
control_is_old(const char *bytes, size_t len, unsigned *version)
{
	if (len < OLD_MAGIC_LEN + 2 || memcmp(bytes, OLD_MAGIC, OLD_MAGIC_LEN) != 0)
		return false;
	*version = (unsigned)(uint8_t)bytes[OLD_MAGIC_LEN] | (unsigned)(uint8_t)bytes[OLD_MAGIC_LEN + 1] << 8;
	return true;
}

bool
control_is_foreign(const char *bytes, size_t len)
{
	if (len == 0 || bytes[0] == '{')
		return false;
	/* the version of an old one may still be under way */
	size_t known = len < OLD_MAGIC_LEN ? len : OLD_MAGIC_LEN;
	return len >= OLD_MAGIC_LEN + 2 || memcmp(bytes, OLD_MAGIC, known) != 0;
}
