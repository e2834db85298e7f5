/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* control.h -- the TCP connection between client and server of a measurement, which carries control_message.h */

#ifndef PERF_CONTROL_H
#define PERF_CONTROL_H

#include "control_message.h"

#define CONTROL_PATIENCE_MS 10000 /* for a connection, for sending, and for a reply that needs no work */

/* sends a message; gives up if the other side takes nothing for CONTROL_PATIENCE_MS */
bool control_send(int fd, const struct control_message *msg, char why[static WHY_MAX]);

/* tells the other side the reason for the end, if it still listens; then the caller closes the socket */
void control_refuse(int fd, const char *sentence);

/*
 * Waits for a message for timeout_ms, or without limit if it is -1. A message of another type is an error; an error
 * message gives its sentence as the reason. If the connection was closed before the first byte, it returns false and
 * sets *is_closed (optional).
 */
bool control_receive(int fd, enum control_type type, int timeout_ms, struct control_message *msg,
	bool *is_closed, char why[static WHY_MAX]);

/* makes a socket connected to the server, within timeout_ms for all addresses of a name together */
bool control_connect(const char *addr, const char *port, int timeout_ms, int *fd, char why[static WHY_MAX]);
/* makes a listening socket; *port_got is the actual port, which the kernel chooses if port is "0" */
bool control_listen(const char *addr, const char *port, int *fd, uint16_t *port_got,
	char why[static WHY_MAX]);
/* accepts the next client and writes its address as text; waits if the process lacks descriptors or memory */
bool control_accept(int listener, int *fd, char client[static CONTROL_TEXT_MAX], char why[static WHY_MAX]);

#endif /* PERF_CONTROL_H */
