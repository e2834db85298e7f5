/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* hostile.h -- what the server, the honest client and the attackers have in common */

#ifndef HOSTILE_H
#define HOSTILE_H

#define SLOT_SIZE 8192
#define GUARD_SIZE 65536

/* the server's limit of pending connections, and the share of one address */
#define PENDING_TEXT "512"
#define PENDING_MAX 512
#define PENDING_OF_ADDRESS 256

/* bytes of the file of those that flush; the honest client has the first SLOT_SIZE of them */
#define FILE_SIZE (32 * 1024 * 1024)

/* descriptors of the server whose queue pairs are connected by hand */
#define HAND_FILES 256

/*
 * Private data of requests. With these an attacker makes the application do what otherwise takes many
 * clients.
 */
#define REQUEST_TO_REFUSE "refuse"
#define REQUEST_TO_HOLD "hold"   /* the request gets no response */
#define REQUEST_TO_FLUSH "flush" /* asks for the memory of a file, which may be flushed, instead of a slot */
#define REQUEST_TO_RELEASE "release" /* all requests without a response are refused, and then this one */

#endif /* HOSTILE_H */
