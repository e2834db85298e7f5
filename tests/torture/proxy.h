/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * proxy.h -- a proxy between the two sides of the software device, which cuts a TCP connection after a byte
 *
 * fault_redirect() leads every connection of the library to the proxy, which connects to the address that the
 * library wanted. Each byte of one direction counts as a fallible call of FAULT_STREAM (fault.h), so
 * fault_arm() chooses the byte after which the cut happens. It happens once, to the connection that the byte
 * belongs to; later connections are not cut.
 */

#ifndef TORTURE_PROXY_H
#define TORTURE_PROXY_H

#include <stdbool.h>

enum cut_kind {
	CUT_RESET, /* RST to both sides */
	CUT_STALL, /* silence in both directions */
	CUT_FIN,   /* the end of the counted direction; the other one goes on */
	CUT_KINDS,
};

struct cut {
	enum cut_kind kind;
	bool to_client; /* the direction that is counted */
	int stall_ms;   /* ms until a silent connection is reset; 0: never */
};

void proxy_start(const struct cut *cut);
/* resets all connections that are left */
void proxy_stop(void);

#endif /* TORTURE_PROXY_H */
