/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* notify_systemd.c -- built where libsystemd is */

#include <systemd/sd-daemon.h>

#include "notify.h"

void
notify(const char *state)
{
	(void)sd_notify(0, state);
}
