/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * control.h -- the control channel: short messages between the two roles, in order, over a stream socket
 * beside RDMA
 */

#ifndef CONF_CONTROL_H
#define CONF_CONTROL_H

#include "scenario.h"

#define CTL_MSG_MAX 512

/* one message; the scenario fails if the other role is gone or does not answer in time */
void ctl_send(struct role *r, const void *msg, size_t len);
size_t ctl_recv(struct role *r, void *msg, size_t msg_len);

/* a word that the other role expects at this point of the scenario */
void ctl_put(struct role *r, const char *word);
void ctl_expect(struct role *r, const char *word);

void ctl_put_u64(struct role *r, uint64_t value);
uint64_t ctl_get_u64(struct role *r);

/* returns when both roles have reached this point */
void ctl_sync(struct role *r);

/* true if the other role has sent something or ended; does not wait */
bool ctl_pending(struct role *r);

/* waits until the other role's process is gone */
void ctl_await_end(struct role *r);

/* for check.c: tells the other role to skip as well; waits for no answer and never fails */
void ctl_put_skip(struct role *r, const char *why);

#endif /* CONF_CONTROL_H */
