/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * proxy.h -- stands between the two sides of the software device, and ends their TCP connection when so many
 * bytes have passed
 *
 * Every connection that the library opens leads here and from here on to where it wanted (fault_redirect()).
 * The bytes of one direction are counted as a fallible call each, FAULT_STREAM of fault.h: so fault_arm()
 * says after which of them something happens. It happens once, to the connection that has passed that byte;
 * later ones are left alone.
 */

#ifndef TORTURE_PROXY_H
#define TORTURE_PROXY_H

#include <stdbool.h>

enum cut_kind {
	CUT_RESET, /* RST to both sides */
	CUT_STALL, /* silence, both ways */
	CUT_FIN,   /* the end of the counted direction; the other one goes on */
	CUT_KINDS,
};

struct cut {
	enum cut_kind kind;
	bool to_client; /* the direction that is counted */
	int stall_ms;   /* after so long a silent connection is reset; 0: never */
};

void proxy_start(const struct cut *cut);
/* resets what there is */
void proxy_stop(void);

#endif /* TORTURE_PROXY_H */
