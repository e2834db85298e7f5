/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* plain.h -- the byte stream of a connection as TCP carries it: without encryption, and without check sums of its own */

#ifndef SOFTRDMA_PLAIN_H
#define SOFTRDMA_PLAIN_H

#include "softrdma/wire/stream.h"

/* a part of its connection, so that nothing is allocated */
struct softrdma_plain {
	struct softrdma_stream stream; /* first */
	int fd;
};

/* makes the stream on a connected socket, which the caller still owns */
struct softrdma_stream *softrdma_plain_init(struct softrdma_plain *plain, int fd);

#endif /* SOFTRDMA_PLAIN_H */
