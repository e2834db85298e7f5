/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* completion.h -- completions, translated and returned one at a time */

#ifndef RPMAI_COMPLETION_H
#define RPMAI_COMPLETION_H

#include "public.h"

/* size in bytes of the members that struct rpma_completion had in 0.9 (with padding, the structure had 24) */
#define COMPLETION_SIZE_0_9 offsetof(struct rpma_completion, flags)

/*
 * As rpma_conn_completion_get, for a caller whose structure has only the first size bytes. RPMA_E_INVAL,
 * RPMA_E_NO_COMPLETION, RPMA_E_PROVIDER, RPMA_E_UNKNOWN, RPMA_E_NOSUPP
 */
int rpmai_conn_completion_get(struct rpma_conn *conn, struct rpma_completion *cmpl, size_t size);

#endif /* RPMAI_COMPLETION_H */
