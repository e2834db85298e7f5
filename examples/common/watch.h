/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * watch.h -- waiting for many descriptors at once: epoll, with SIGINT and SIGTERM as events like the others
 *
 * The descriptors of librpma become non-blocking, because a descriptor may become readable without an event.
 * All functions return 0 or -1, after they have told the user what went wrong.
 */

#ifndef EXAMPLES_WATCH_H
#define EXAMPLES_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#define WATCH_FOREVER (-1)

/* the kind of a descriptor, and its owner: the program chooses both */
struct watched {
	uint16_t kind;
	uint16_t index;
};

struct watch {
	int epoll_fd;
	int signal_fd;
	struct watched stop;
};

/* from now on, SIGINT and SIGTERM are reported as stop, and no longer end the process */
int watch_open(struct watch *watch, struct watched stop);
void watch_close(struct watch *watch);

int watch_add(struct watch *watch, int fd, struct watched what);
void watch_remove(struct watch *watch, int fd);

/* waits for the next event, at most timeout_ms; *found is true if one came */
int watch_next(struct watch *watch, int timeout_ms, struct watched *what, bool *found);

/* for timeouts */
int64_t watch_now_ms(void);

#endif /* EXAMPLES_WATCH_H */
