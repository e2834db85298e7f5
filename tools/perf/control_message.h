/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * control_message.h -- the messages between client and server of a measurement, and their form: JSON, one object
 * to a line
 *
 *	client                     server
 *	hello            ->        has the version of the protocol
 *	                 <-  hello
 *	setup (load)     ->        memory is made and registered
 *	                 <-  ready
 *	(RDMA connections, as many as the load has)
 *	                 <-  go
 *	mark             ->        the measured part begins
 *	finish (counts)  ->        receives are awaited, data is verified
 *	                 <-  result
 *	setup ...                  and so on; or the connection is closed
 *
 * Instead of a reply the server may send an error with a sentence, and close. The forms of hello and error are the
 * same in all versions from 3 on; a hello of another version may have further keys. All other objects have exactly
 * the keys of their type.
 *
 * Nothing that arrives is trusted: the length of a line, the depth of its objects, each number and each text are
 * bounded.
 */

#ifndef PERF_CONTROL_MESSAGE_H
#define PERF_CONTROL_MESSAGE_H

#include <stddef.h>

#include "cpu.h"
#include "load.h"
#include "why.h"

#define CONTROL_VERSION 3
#define CONTROL_LINE_MAX \
	98304 /* a count of 20 characters for each of LOAD_CONNECTIONS_MAX, and some reserve */
#define CONTROL_TEXT_MAX 256

enum control_type {
	CONTROL_HELLO,
	CONTROL_SETUP,
	CONTROL_READY,
	CONTROL_GO,
	CONTROL_MARK,
	CONTROL_FINISH,
	CONTROL_RESULT,
	CONTROL_ERROR,
	CONTROL_TYPE_COUNT,
};

struct control_ready {
	uint64_t token; /* the client shows it when it connects, so that no stranger takes a connection */
	uint16_t port;  /* of the RDMA connections */
	char memory[CONTROL_TEXT_MAX];
};

struct control_counts {
	uint32_t count;
	uint64_t posted[LOAD_CONNECTIONS_MAX]; /* number of operations of each connection */
};

struct control_result {
	struct cpu_time cpu; /* of the server's process, from mark to finish */
	uint32_t clients;    /* the most clients that the server had at once meanwhile, with this one */
	uint64_t wrong;      /* operations with wrong data */
	char first_wrong[CONTROL_TEXT_MAX];
};

struct control_message {
	enum control_type type;
	union {
		uint32_t version;                /* hello: CONTROL_VERSION */
		struct load load;                /* setup: what concerns the target */
		struct control_ready ready;      /* ready */
		struct control_counts counts;    /* finish */
		struct control_result result;    /* result */
		char sentence[CONTROL_TEXT_MAX]; /* error */
	};
};

/* as it is written in a message */
const char *control_type_name(enum control_type type);

/* makes the line of a message, with its newline; NULL if there is no memory. free() ends it. */
char *control_encode(const struct control_message *msg);
/* reads the len bytes of a line, without a newline; false if it has another form, or a value is out of bounds */
bool control_decode(const char *line, size_t len, struct control_message *msg, char why[static WHY_MAX]);

/*
 * True if the bytes begin a message of a version before 3. They were binary, and had no newline: after the letters RPPF
 * came the version in two bytes, the lower one first.
 */
bool control_is_old(const char *bytes, size_t len, unsigned *version);
/* true if the bytes cannot begin a message of any version, or begin one of an old version: no newline need come */
bool control_is_foreign(const char *bytes, size_t len);
/* says that the versions of both sides differ; always false */
bool control_refuse_version(unsigned version, char why[static WHY_MAX]);

/* replaces bytes that are not printable by question marks: what comes from the other side is shown on terminals */
void control_make_printable(char *text);

#endif /* PERF_CONTROL_MESSAGE_H */
