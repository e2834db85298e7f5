/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * credentials.h -- what a side of a connection shows, and what it wants to see, before anything else is said
 *
 * Either a certificate with its key, and the CA whose certificates are trusted, or a key that both sides have
 * been given before. They come from the environment, or from whoever embeds the device; without any, streams
 * are plain. What is asked for and cannot be had is an error, never a plain stream.
 */

#ifndef SOFTRDMA_CREDENTIALS_H
#define SOFTRDMA_CREDENTIALS_H

#include <stdatomic.h>

#include "bounds.h"
#include "softrdma.h"

struct softrdma_tls_context;

struct softrdma_credentials {
	atomic_uint refs;
	struct softrdma_tls_context *context;
};

/*
 * What the environment asks for now, with a reference; NULL with 0: nothing. The files are read when the
 * variables have changed since the last time. 0, or an errno value and the log says why.
 */
int softrdma_credentials_of_environment(struct softrdma_credentials **credentials);

/* more than one user; NULL is let through */
struct softrdma_credentials *softrdma_credentials_get(struct softrdma_credentials *credentials);

#endif /* SOFTRDMA_CREDENTIALS_H */
