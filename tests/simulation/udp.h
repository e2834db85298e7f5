/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * udp.h -- simulated UDP sockets, and a network between them that loses, doubles, reorders and damages datagrams
 *
 * A datagram takes a place in the buffer of its sender until it leaves, and travels for a time of its own, so a later one
 * may overtake it. It takes a place in the buffer of its receiver until it is read. The network also sends
 * datagrams of its own: parts of others, the right bytes from another address, any bytes to any port.
 */

#ifndef TEST_SIMULATION_UDP_H
#define TEST_SIMULATION_UDP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct fd;

/* more than a datagram of the device has */
#define UDP_SIZE 4400

/* chances are in a thousand */
struct udp_plan {
	unsigned lose, twice, damage, stray;
	unsigned refuse;    /* sends that the system refuses, as a firewall does */
	unsigned no_memory; /* settings of the filter, and reads, for which memory is short */
	unsigned no_fd;     /* calls that open a descriptor and find none */
	uint64_t delay_ns;  /* the longest time of travel */
	unsigned in_room;   /* datagrams of a buffer */
	unsigned out_room;
	unsigned ports; /* a socket gets one of this number of ports: few of them come again soon */
};

/* one datagram as it is on the wire; addresses of IPv4 are mapped */
struct udp_message {
	struct sockaddr_in6 from;
	bool to_v6; /* it goes to an address of IPv6 */
	size_t size;
	uint8_t bytes[UDP_SIZE];
	unsigned copies;    /* on their way so far */
	unsigned delivered; /* receives that completed with it; the oracle's */
};

void udp_begin(const struct udp_plan *plan);
/* does everything that is due; returns the time of the next event */
uint64_t udp_happen(void);
/* true if no datagram is on its way, or waits to be read */
bool udp_is_quiet(void);
/* checks that each datagram is accounted for, and that no socket is open */
void udp_check_end(void);

/* --- what the oracle is told, at the moment when it happens; a socket is known by its port --- */

/* the system takes a datagram of this socket */
void udp_on_leave(uint16_t port, struct udp_message *message, const struct sockaddr_in6 *to);
/* the system refuses the next datagram of this socket */
void udp_on_refusal(uint16_t port);
/* the device reads a datagram from this socket */
void udp_on_read(uint16_t port, struct udp_message *message);

/* --- for the calls that other descriptors have, too (net.c) --- */

uint32_t udp_events(const struct fd *fd);
ssize_t udp_sendmsg(struct fd *fd, const struct msghdr *msg, int flags);
ssize_t udp_recv(struct fd *fd, int flags);
int udp_setsockopt(struct fd *fd, int level, int name, const void *value);
int udp_copy(struct fd *fd);
void udp_close(struct fd *fd);

#endif /* TEST_SIMULATION_UDP_H */
