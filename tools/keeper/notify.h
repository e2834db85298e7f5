/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* notify.h -- tells the service manager how the keeper is; without one, it does nothing */

#ifndef KEEPER_NOTIFY_H
#define KEEPER_NOTIFY_H

/* state is as sd_notify(3) has it, such as "READY=1" */
void notify(const char *state);

#endif /* KEEPER_NOTIFY_H */
