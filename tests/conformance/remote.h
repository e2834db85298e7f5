/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * remote.h -- the two roles on two hosts: their control channel is a TCP connection per scenario
 *
 * Both drivers go through the same list, so one connection after the other belongs to the same scenario.
 */

#ifndef CONF_REMOTE_H
#define CONF_REMOTE_H

/* where: "ADDRESS:PORT" or "[ADDRESS]:PORT". They return a descriptor, or -1 with errno */
int remote_listen(const char *where);
int remote_accept(int listener, int timeout_ms);
/* retries until the other driver listens there */
int remote_connect(const char *where, int timeout_ms);

#endif /* CONF_REMOTE_H */
