/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * control.h -- the control protocol between client and server of a measurement, over a TCP connection of its
 * own
 *
 *	client                     server
 *	HELLO            ->        the version is in every message; a wrong one ends the connection
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
 * Instead of a reply the server may send ERROR with a sentence, and close. A message has a header of 12 bytes
 * (magic, version, type, length of the payload) and a payload of at most CONTROL_PAYLOAD_MAX bytes. Numbers
 * are little-endian. Nothing that arrives is trusted: lengths are bounded, each number is checked against its
 * limits, and bytes left over at the end of a message are an error.
 */

#ifndef PERF_CONTROL_H
#define PERF_CONTROL_H

#include "cpu.h"
#include "load.h"
#include "why.h"

#define CONTROL_VERSION 2
#define CONTROL_PAYLOAD_MAX 36864 /* a count of 8 bytes for each of LOAD_CONNECTIONS_MAX, and some reserve */
#define CONTROL_TEXT_MAX 256
#define CONTROL_PATIENCE_MS 10000 /* for a reply that needs no work */

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
	uint32_t at; /* how far the payload has been read */
	bool is_bad; /* true if something did not fit */
	uint8_t payload[CONTROL_PAYLOAD_MAX];
};

struct control_ready {
	uint64_t token; /* the client shows it when it connects, so that no stranger takes a connection */
	uint16_t port;  /* of the RDMA connections */
	char memory[CONTROL_TEXT_MAX];
};

struct control_result {
	struct cpu_time cpu; /* from MARK to FINISH */
	uint64_t wrong;      /* operations with wrong data */
	char first_wrong[CONTROL_TEXT_MAX];
};

void control_begin(struct control_message *msg, enum control_type type);
void control_put_load(struct control_message *msg, const struct load *load);
void control_put_ready(struct control_message *msg, const struct control_ready *ready);
void control_put_counts(struct control_message *msg, const uint64_t *counts, uint32_t count);
void control_put_result(struct control_message *msg, const struct control_result *result);
void control_put_sentence(struct control_message *msg, const char *sentence);

/* returns false if the payload has another form, or a number in it is out of bounds */
bool control_get_load(struct control_message *msg, struct load *load);
bool control_get_ready(struct control_message *msg, struct control_ready *ready);
/* reads exactly count counts */
bool control_get_counts(struct control_message *msg, uint64_t *counts, uint32_t count);
bool control_get_result(struct control_message *msg, struct control_result *result);
/* replaces bytes that are not printable by a question mark */
bool control_get_sentence(struct control_message *msg, char sentence[static CONTROL_TEXT_MAX]);

bool control_send(int fd, const struct control_message *msg, char why[static WHY_MAX]);

/*
 * Waits for a message for timeout_ms, or without limit if it is -1. A message of another type is an error; an
 * ERROR gives its sentence as the reason. If the connection was closed before the first byte, it returns
 * false and sets *is_closed (optional).
 */
bool control_receive(int fd, enum control_type type, int timeout_ms, struct control_message *msg,
	bool *is_closed, char why[static WHY_MAX]);

/* makes a socket connected to the server */
bool control_connect(const char *addr, const char *port, int *fd, char why[static WHY_MAX]);
/* makes a listening socket; *port_got is the actual port, which the kernel chooses if port is "0" */
bool control_listen(const char *addr, const char *port, int *fd, uint16_t *port_got,
	char why[static WHY_MAX]);
/* accepts the next client and writes its address as text */
bool control_accept(int listener, int *fd, char client[static CONTROL_TEXT_MAX], char why[static WHY_MAX]);

#endif /* PERF_CONTROL_H */
