/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* hostile.h -- what the server, the honest client and the attackers have in common */

#ifndef HOSTILE_H
#define HOSTILE_H

#define SLOT_SIZE 8192
#define GUARD_SIZE 65536

#endif /* HOSTILE_H */
