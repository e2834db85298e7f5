/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* missing.h -- what programs of others ask for, and the device does not have */

#ifndef SOFTRDMA_MISSING_H
#define SOFTRDMA_MISSING_H

#define SOFTRDMA_SEE_MANUAL "PROGRAMS OF OTHERS in softrdma(7) says what it has"

/*
 * Logs that the device lacks a call, or a part of it, with the way out; once in a process for each kind. part is what
 * follows "call()" in the sentence, with its space; an empty string is the whole call. The texts must live for ever. Returns
 * EOPNOTSUPP. Any thread, any lock.
 */
int softrdma_missing(const char *call, const char *part, const char *way_out);

#endif /* SOFTRDMA_MISSING_H */
