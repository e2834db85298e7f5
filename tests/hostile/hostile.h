/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* hostile.h -- what the server, the honest client and the attackers have in common */

#ifndef HOSTILE_H
#define HOSTILE_H

#define SLOT_SIZE 8192
#define GUARD_SIZE 65536

/* what the server is told to hold at most, and what of that is for one address */
#define PENDING_TEXT "512"
#define PENDING_MAX 512
#define PENDING_OF_ADDRESS 256

/* descriptors of the program whose queue pairs are connected by hand */
#define HAND_FILES 256

/* private data of requests by which attackers get from the application what others get by being many */
#define REQUEST_TO_REFUSE "refuse"
#define REQUEST_TO_HOLD "hold"       /* it is not answered */
#define REQUEST_TO_RELEASE "release" /* those are refused that were not answered, and then this one */

#endif /* HOSTILE_H */
