/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* warnings.c -- counts the WARNINGs of the library, for cmocka tests */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fnmatch.h>
#include <librpma.h>
#include <pthread.h>
#include <stdio.h>

#include "warnings.h"

#define KEPT_MAX 64

static struct {
	char texts[KEPT_MAX][1024];
	unsigned count;
	pthread_mutex_t lock; /* the device's threads also log */
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

__attribute__((format(printf, 5, 6))) static void
keep(enum rpma_log_level level, const char *file_name, const int line_no, const char *function_name,
	const char *message_format, ...)
{
	(void)file_name;
	(void)line_no;
	(void)function_name;
	if (level != RPMA_LOG_LEVEL_WARNING)
		return;
	va_list ap;
	va_start(ap, message_format);
	pthread_mutex_lock(&kept.lock);
	if (kept.count < KEPT_MAX)
		vsnprintf(kept.texts[kept.count], sizeof(kept.texts[0]), message_format, ap);
	kept.count++;
	pthread_mutex_unlock(&kept.lock);
	va_end(ap);
}

void
warnings_begin(void)
{
	assert_int_equal(rpma_log_set_function(keep), 0);
}

int
warnings_like(const char *pattern)
{
	int count = 0;
	pthread_mutex_lock(&kept.lock);
	const unsigned all = kept.count;
	for (unsigned i = 0; i < all && i < KEPT_MAX; i++)
		count += fnmatch(pattern, kept.texts[i], 0) == 0;
	pthread_mutex_unlock(&kept.lock);
	assert_in_range(all, 0, KEPT_MAX); /* all were kept */
	return count;
}
