/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* tls_stream.h -- TLS as the stream of a link (stream.h) */

#ifndef SOFTRDMA_TLS_STREAM_H
#define SOFTRDMA_TLS_STREAM_H

#include "softrdma/wire/stream.h"

/* the calls of a stream that is the first member of a struct softrdma_tls */
extern const struct softrdma_stream_ops softrdma_tls_stream_ops;

#endif /* SOFTRDMA_TLS_STREAM_H */
