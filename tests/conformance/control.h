/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * control.h -- what the two roles tell each other beside RDMA: short messages over a stream socket,
 * in order
 */

#ifndef CONF_CONTROL_H
#define CONF_CONTROL_H

#include "scenario.h"

#define CTL_MSG_MAX 512

/* one message; it fails the scenario when the other role does not answer in time or is gone */
void ctl_send(struct role *r, const void *msg, size_t len);
size_t ctl_recv(struct role *r, void *msg, size_t msg_len);

/* a word that the other role expects at this point of the scenario */
void ctl_put(struct role *r, const char *word);
void ctl_expect(struct role *r, const char *word);

void ctl_put_u64(struct role *r, uint64_t value);
uint64_t ctl_get_u64(struct role *r);

/* both roles have come to this point */
void ctl_sync(struct role *r);

/* has the other role sent something, or ended? Does not wait */
bool ctl_pending(struct role *r);

/* waits until the other role's process is gone */
void ctl_await_end(struct role *r);

/* check.c's: the other role is to skip as well; no answer, no failure */
void ctl_put_skip(struct role *r, const char *why);

#endif /* CONF_CONTROL_H */
