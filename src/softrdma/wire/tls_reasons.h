/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* tls_reasons.h -- why TLS has failed, as a sentence for the user */

#ifndef SOFTRDMA_TLS_REASONS_H
#define SOFTRDMA_TLS_REASONS_H

#include <stdbool.h>

/*
 * Translates what OpenSSL reports: its reason (ERR_GET_REASON), and the result of verifying the peer's certificate
 * (X509_V_*). has_psk: true if this side uses a pre-shared key. The sentence says which side has what, and the way
 * out; it is OpenSSL's own text for failures that credentials do not cause. The string is static. Any thread.
 */
const char *softrdma_tls_reason(bool has_psk, unsigned long error, long verified);

#endif /* SOFTRDMA_TLS_REASONS_H */
