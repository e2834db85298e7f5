/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* fds.h -- simulated descriptors: sockets (net.c), epoll and eventfd (fds.c) */

#ifndef TEST_SIMULATION_FDS_H
#define TEST_SIMULATION_FDS_H

#include <stdbool.h>
#include <stdint.h>

/* above all real descriptors */
#define FD_FIRST (1 << 20)
#define FDS_MAX 16

enum kind {
	KIND_NONE,
	KIND_EPOLL,
	KIND_EVENT,
	KIND_SOCKET,
};

struct fd {
	enum kind kind;
	/* KIND_EVENT */
	uint64_t count;
	int flags;
	/* KIND_SOCKET */
	unsigned side;
	int error; /* reported after everything that has arrived is read */
	bool read_shut;
	bool wants_room; /* a send has found no room */
	unsigned timeout_ms;
	/* watched by an epoll; an epoll may itself be watched */
	bool watched;
	int epoll;
	bool news; /* an edge since the last report */
	uint32_t mask;
	void *data;
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
/* an edge: wakes the waiters and marks it for its epoll */
void fds_wake(struct fd *fd);

/* true if a signal interrupts this call; then errno is set */
bool fds_is_interrupted(void);

#endif /* TEST_SIMULATION_FDS_H */
