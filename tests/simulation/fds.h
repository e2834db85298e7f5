/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* fds.h -- simulated descriptors: streams (net.c), sockets of datagrams (udp.c), epoll and eventfd (fds.c) */

#ifndef TEST_SIMULATION_FDS_H
#define TEST_SIMULATION_FDS_H

#include <stdbool.h>
#include <stdint.h>

/* above all real descriptors */
#define FD_FIRST (1 << 20)
#define FDS_MAX 64

struct udp_socket;

enum kind {
	KIND_NONE,
	KIND_EPOLL,
	KIND_EVENT,
	KIND_SOCKET,
	KIND_UDP,
	KIND_PORT, /* a socket that only keeps a port */
};

struct fd {
	enum kind kind;
	int flags; /* KIND_EVENT: of eventfd(2); otherwise those of fcntl(2) */
	/* KIND_EVENT */
	uint64_t count;
	/* KIND_SOCKET */
	unsigned side;
	int error; /* reported after everything that has arrived is read */
	bool read_shut;
	bool wants_room; /* a send has found no room */
	unsigned timeout_ms;
	/* KIND_UDP, KIND_PORT */
	bool is_v6;
	/* KIND_UDP */
	struct udp_socket *udp; /* what its copies share */
	/* KIND_PORT */
	uint16_t port;
	/* KIND_EPOLL */
	int copy_of; /* the number of another one, whose copy it is; 0: none */
};

/* a fiber that waits for one of them waits for all (fiber_wait), and checks its own when it is woken */
extern struct fd fds[FDS_MAX];

struct fd *fds_get(int number);
int fds_number(const struct fd *fd);
struct fd *fds_open(enum kind kind);
/* the number of open ones */
unsigned fds_count(void);

/* the result of poll(2) now; the values are those of epoll */
uint32_t fds_events(const struct fd *fd);
/* true if this epoll has something to report */
bool fds_has_report(const struct fd *epoll);
/* an edge: wakes the waiters and marks it for its epolls */
void fds_wake(struct fd *fd);
/* the same, for epolls that wait for one of these events: others see no edge */
void fds_wake_for(const struct fd *fd, uint32_t events);
/* true if an epoll watches it */
bool fds_is_watched(const struct fd *fd);
/* none is open */
void fds_reset(void);
/* a descriptor is closed: no epoll watches it any longer */
void fds_close(struct fd *fd);
/* another descriptor of the same epoll */
int fds_copy_epoll(int number);

/* true if a signal interrupts this call; then errno is set */
bool fds_is_interrupted(void);

#endif /* TEST_SIMULATION_FDS_H */
