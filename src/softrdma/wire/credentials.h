/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * credentials.h -- the credentials of a side of a connection, and those that it accepts from its peer
 *
 * Credentials are a certificate with its key and the CA whose certificates are trusted, or a pre-shared key.
 * They come from the environment or from the program that embeds the device. Without credentials streams are
 * plain. Credentials that are configured but cannot be used are an error and never lead to a plain stream.
 */

#ifndef SOFTRDMA_CREDENTIALS_H
#define SOFTRDMA_CREDENTIALS_H

#include <stdatomic.h>

#include "softrdma/bounds.h"
#include "softrdma/softrdma.h"

struct softrdma_tls_context;

struct softrdma_credentials {
	atomic_uint refs;
	struct softrdma_tls_context *context;
};

/*
 * Gives the credentials that the environment names at present, with a reference, or NULL if it names none. Reads
 * the files if the variables have changed since the last call. 0, or an errno value; a log line gives the
 * reason.
 */
int softrdma_credentials_of_environment(struct softrdma_credentials **credentials);

/* takes a reference; credentials may be NULL */
struct softrdma_credentials *softrdma_credentials_get(struct softrdma_credentials *credentials);

#endif /* SOFTRDMA_CREDENTIALS_H */
