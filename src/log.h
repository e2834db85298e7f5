/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* log.h -- what the library has to say */

#ifndef RPMAI_LOG_H
#define RPMAI_LOG_H

#include "public.h"

/*
 * One finished sentence without a newline: no keys, no addresses of memory, no private data. errno survives
 * it. Any thread; a message above the threshold costs a comparison.
 */
void rpmai_log(enum rpma_log_level level, const char *file, int line, const char *func, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* reads the environment and prepares for forks, once; logging does it too. Any thread. */
void rpmai_log_prepare(void);

#define RPMAI_LOG(level, ...) rpmai_log(RPMA_LOG_LEVEL_##level, __FILE__, __LINE__, __func__, __VA_ARGS__)

#endif /* RPMAI_LOG_H */
