/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * net.h -- two simulated sockets and the bytes between them
 *
 * Bytes arrive some time after they were sent, in pieces. A socket watched with EPOLLET reports as Linux
 * does: when something new has arrived, or when there is room again after a send that found none.
 */

#ifndef TEST_SIMULATION_NET_H
#define TEST_SIMULATION_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_SIDES 2

enum net_cut {
	NET_CUT_RESET,  /* both sides see an error */
	NET_CUT_FIN,    /* one direction ends there, as if its sender had ended the stream */
	NET_CUT_SILENT, /* nothing arrives from then on, which only the timers of TCP notice */
	NET_CUTS,
};

struct net_plan {
	uint32_t room;      /* unread bytes that a direction can hold */
	uint32_t piece_max; /* the most bytes that arrive at once; 1: byte by byte */
	uint64_t delay_ns;  /* the longest delay */
	unsigned stall;     /* in a thousand arrivals, those that take seconds instead */
	unsigned interrupt; /* in a thousand calls, those that a signal interrupts */
	bool records;       /* the stream consists of records with checksums */
};

/* no socket is open; net_connect() opens two that are connected */
void net_begin(const struct net_plan *plan);
/* returns their descriptors */
void net_connect(int sockets[static NET_SIDES]);

/* the stream breaks after this number of bytes that this side sends has arrived */
void net_cut_behind(unsigned side, uint64_t bytes, enum net_cut how);
/* flips one bit of this byte, which this side sends, when it is received; records detect that */
void net_damage(unsigned side, uint64_t byte);
/* breaks the stream now, for everything that has not arrived */
void net_cut_now(enum net_cut how);
/* true if the stream has broken or a byte was damaged */
bool net_is_cut(void);
/*
 * True if a side has closed its socket with unread bytes. The other side may then lose bytes that came
 * before.
 */
bool net_was_reset(void);
/* true if this side has ended its stream inside a frame or a record */
bool net_is_torn(unsigned side);

/* does everything that is due; returns the time of the next event */
uint64_t net_happen(void);

#endif /* TEST_SIMULATION_NET_H */
