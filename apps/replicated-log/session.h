/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* session.h -- the writer's side of one replica: connect, promise, bring up to date, replicate, and again */

#ifndef SESSION_H
#define SESSION_H

/* the thread of a member (arg is a struct member); it ends when the cluster stops, or drains without it */
void *session_thread(void *arg);

#endif /* SESSION_H */
