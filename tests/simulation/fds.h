/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* fds.h -- descriptors that exist nowhere else: sockets (net.c), epoll and eventfd (fds.c) */

#ifndef TEST_SIMULATION_FDS_H
#define TEST_SIMULATION_FDS_H

#include <stdbool.h>
#include <stdint.h>

/* where no real descriptor is */
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
	int error; /* behind what has arrived */
	bool read_shut;
	bool wants_room; /* somebody was told that there is none */
	unsigned timeout_ms;
	/* watched by an epoll, which may itself be */
	bool watched;
	int epoll;
	bool news; /* an edge since the last report */
	uint32_t mask;
	void *data;
};

/* whoever waits for one waits for all of them (fiber_wait), and looks again */
extern struct fd fds[FDS_MAX];

struct fd *fds_get(int number);
int fds_number(const struct fd *fd);
struct fd *fds_open(enum kind kind);
/* those that are open */
unsigned fds_count(void);

/* what poll(2) would say now; its values are those of epoll */
uint32_t fds_events(const struct fd *fd);
/* has this epoll something to report? */
bool fds_has_report(const struct fd *epoll);
/* something is new there */
void fds_wake(struct fd *fd);

/* does a signal come first? then errno is set */
bool fds_is_interrupted(void);

#endif /* TEST_SIMULATION_FDS_H */
