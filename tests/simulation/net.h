/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * net.h -- two sockets and the bytes between them
 *
 * Descriptors that do not exist anywhere else. What has been sent arrives later, in pieces; a socket that is
 * watched with EPOLLET reports as Linux does: when something new has come, or when room has come back to
 * somebody who was told that there is none.
 */

#ifndef TEST_SIMULATION_NET_H
#define TEST_SIMULATION_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_SIDES 2

enum net_cut {
	NET_CUT_RESET,  /* both sides are told */
	NET_CUT_FIN,    /* one direction ends there, as if its sender had ended it */
	NET_CUT_SILENT, /* nothing arrives any more, and nobody says so but the timers of TCP */
	NET_CUTS,
};

struct net_plan {
	uint32_t room;      /* what a direction holds that has not been read */
	uint32_t piece_max; /* of what arrives at once; 1: byte by byte */
	uint64_t delay_ns;  /* the longest */
	unsigned stall;     /* so often of a thousand times it takes seconds instead */
	unsigned interrupt; /* so often of a thousand calls a signal comes first */
	bool records;       /* what is sent goes in records with check sums */
};

/* nothing is open; two sockets are connected by open() */
void net_begin(const struct net_plan *plan);
/* their descriptors */
void net_connect(int sockets[static NET_SIDES]);

/* the stream breaks when so many bytes of what this side sends have arrived */
void net_cut_behind(unsigned side, uint64_t bytes, enum net_cut how);
/* one bit of this byte of what this side sends is another one when it is received: the records will tell */
void net_damage(unsigned side, uint64_t byte);
/* it breaks now, for what has not arrived */
void net_cut_now(enum net_cut how);
/* has one of these happened? */
bool net_is_cut(void);
/*
 * has a side closed its socket though there was something to read? The other one may lose what came before.
 */
bool net_was_reset(void);
/* has this side ended its stream inside of a frame, or of a record? */
bool net_is_torn(unsigned side);

/* what is due happens; the result is when something will be */
uint64_t net_happen(void);

#endif /* TEST_SIMULATION_NET_H */
