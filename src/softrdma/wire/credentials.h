/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * credentials.h -- the credentials of a side of a connection, and those that it accepts from its peer
 *
 * Credentials are a certificate with its key and the CA whose certificates are trusted, or a pre-shared key.
 * They come from the environment or from the program that embeds the device. Without credentials streams are
 * plain. Credentials that are configured but cannot be used are an error and never lead to a plain stream.
 *
 * Credentials can change while they are in use: those of the environment when a file changes, those of a program
 * when it loads others. Each connection begins with what they are at that moment, and keeps that.
 */

#ifndef SOFTRDMA_CREDENTIALS_H
#define SOFTRDMA_CREDENTIALS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "softrdma/bounds.h"
#include "softrdma/softrdma.h"

struct softrdma_credential_files;
struct softrdma_tls;
struct softrdma_tls_context;

struct softrdma_credentials {
	atomic_uint refs;
	pthread_mutex_t lock; /* of all below; no other lock is taken under it */
	struct softrdma_tls_context *context;
	struct softrdma_credential_files *files; /* of the environment; NULL: of the program */
};

/*
 * Gives the credentials that the environment names at present, with a reference, or NULL if it names none. Reads
 * the files if the variables have changed since the last call. 0, or an errno value; a log line gives the
 * reason.
 */
int softrdma_credentials_of_environment(struct softrdma_credentials **credentials);

/*
 * As softrdma_tls_new(), with the credentials as they are now. Reads the files of the environment again if one of them
 * has changed; if they cannot be used then, it writes a log line and uses what was read before. Any thread.
 */
int softrdma_credentials_start_tls(struct softrdma_credentials *credentials, int fd, bool active,
	struct softrdma_tls **tls);

/* takes a reference; credentials may be NULL */
struct softrdma_credentials *softrdma_credentials_get(struct softrdma_credentials *credentials);

#endif /* SOFTRDMA_CREDENTIALS_H */
