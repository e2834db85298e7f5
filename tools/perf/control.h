/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * control.h -- what client and server of a measurement tell each other, over a TCP connection of its own
 *
 *	client                     server
 *	HELLO            ->        the version is in every message; a wrong one ends it
 *	                 <-  HELLO
 *	SETUP (load)     ->        memory is made and registered
 *	                 <-  READY
 *	(RDMA connections, as many as the load has)
 *	                 <-  GO
 *	MARK             ->        the measured part begins
 *	FINISH (counts)  ->        receives are awaited, data is verified
 *	                 <-  RESULT
 *	SETUP ...                  and so on; or the connection is closed
 *
 * Instead of its answer the server may send ERROR, a sentence, and close. A message has a header of 12 bytes
 * (magic, version, type, length of the rest) and at most CONTROL_PAYLOAD_MAX bytes behind it; numbers are
 * little-endian. Nothing that arrives is believed: lengths are bounded, each number is checked against what
 * it is for, and what is left over at the end of a message is an error.
 */

#ifndef PERF_CONTROL_H
#define PERF_CONTROL_H

#include "cpu.h"
#include "load.h"
#include "why.h"

#define CONTROL_VERSION 1
#define CONTROL_PAYLOAD_MAX 36864 /* a count of 8 bytes for each of LOAD_CONNECTIONS_MAX, and some more */
#define CONTROL_TEXT_MAX 256
#define CONTROL_PATIENCE_MS 10000 /* for an answer that needs no work */

enum control_type {
	CONTROL_HELLO = 1,
	CONTROL_SETUP = 2,
	CONTROL_READY = 3,
	CONTROL_GO = 4,
	CONTROL_MARK = 5,
	CONTROL_FINISH = 6,
	CONTROL_RESULT = 7,
	CONTROL_ERROR = 8,
};

struct control_message {
	enum control_type type;
	uint32_t len;
	uint32_t at; /* how far it has been read */
	bool is_bad; /* something did not fit */
	uint8_t payload[CONTROL_PAYLOAD_MAX];
};

struct control_ready {
	uint64_t token; /* to be shown when connecting, so that no stranger takes a place */
	uint16_t port;  /* of the RDMA connections */
	char memory[CONTROL_TEXT_MAX];
};

struct control_result {
	struct cpu_time cpu; /* from MARK to FINISH */
	uint64_t wrong;      /* operations whose data was not right */
	char first_wrong[CONTROL_TEXT_MAX];
};

void control_begin(struct control_message *msg, enum control_type type);
void control_put_load(struct control_message *msg, const struct load *load);
void control_put_ready(struct control_message *msg, const struct control_ready *ready);
void control_put_counts(struct control_message *msg, const uint64_t *counts, uint32_t count);
void control_put_result(struct control_message *msg, const struct control_result *result);
void control_put_sentence(struct control_message *msg, const char *sentence);

/* false: the payload is not that, or a number in it is out of bounds */
bool control_get_load(struct control_message *msg, struct load *load);
bool control_get_ready(struct control_message *msg, struct control_ready *ready);
/* exactly count of them */
bool control_get_counts(struct control_message *msg, uint64_t *counts, uint32_t count);
bool control_get_result(struct control_message *msg, struct control_result *result);
/* what cannot be printed becomes a question mark */
bool control_get_sentence(struct control_message *msg, char sentence[static CONTROL_TEXT_MAX]);

bool control_send(int fd, const struct control_message *msg, char why[static WHY_MAX]);

/*
 * Waits for a message, -1 for ever. One of another type is an error, and an ERROR the sentence in it. A
 * connection that was closed before the first byte: false with *is_closed (optional).
 */
bool control_receive(int fd, enum control_type type, int timeout_ms, struct control_message *msg,
	bool *is_closed, char why[static WHY_MAX]);

/* a socket connected to the server */
bool control_connect(const char *addr, const char *port, int *fd, char why[static WHY_MAX]);
/* a socket that listens; *port is what the kernel gave if port is "0" */
bool control_listen(const char *addr, const char *port, int *fd, uint16_t *port_got,
	char why[static WHY_MAX]);
/* the next client, with its address as text */
bool control_accept(int listener, int *fd, char client[static CONTROL_TEXT_MAX], char why[static WHY_MAX]);

#endif /* PERF_CONTROL_H */
