/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* notify_none.c -- built without libsystemd */

#include "notify.h"

void
notify(const char *state)
{
	(void)state;
}
