/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * watch.h -- waiting for many descriptors at once: epoll, and SIGINT and SIGTERM as events among the others
 *
 * The descriptors of librpma become non-blocking, because a descriptor may have become readable for nothing.
 * All functions return 0 or -1, and have told the user what went wrong.
 */

#ifndef EXAMPLES_WATCH_H
#define EXAMPLES_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#define WATCH_FOREVER (-1)

/* what a descriptor is, and whose: both are the program's own */
struct watched {
	uint16_t kind;
	uint16_t index;
};

struct watch {
	int epoll_fd;
	int signal_fd;
	struct watched stop;
};

/* SIGINT and SIGTERM come out as stop from now on, and do not end the process any more */
int watch_open(struct watch *watch, struct watched stop);
void watch_close(struct watch *watch);

int watch_add(struct watch *watch, int fd, struct watched what);
void watch_remove(struct watch *watch, int fd);

/* wait for the next one, at most timeout_ms; *found says whether one came */
int watch_next(struct watch *watch, int timeout_ms, struct watched *what, bool *found);

/* for timeouts */
int64_t watch_now_ms(void);

#endif /* EXAMPLES_WATCH_H */
