/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * newcomers.h -- those who are not connected yet: listeners, requests, attempts
 *
 * However many they are, connections come first. Between two looks of the progress thread at the connections
 * a few newcomers have their turn. As long as connections had something to do within the last second,
 * newcomers get a third of the time, and pause when it is used up. So a flood of them leaves processors to
 * others: it costs this thread no more than that, and the application no more than what that brings.
 *
 * Where nothing else is said: on the progress thread, or while there is none.
 */

#ifndef SOFTRDMA_NEWCOMERS_H
#define SOFTRDMA_NEWCOMERS_H

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/engine/watched.h"

/* they are waited for as one of what is in the epoll of all; 0 or an errno value */
int softrdma_newcomers_open(int epoll_of_all);
void softrdma_newcomers_close(void);

/*
 * Watches the socket of a newcomer, edge-triggered, in both directions. look_again() has what is there already
 * reported once more, after others have had their turn. 0 or an errno value. Any thread.
 */
int softrdma_newcomers_watch(int fd, struct softrdma_watched *watched);
int softrdma_newcomers_look_again(int fd, struct softrdma_watched *watched);
/*
 * The newcomer is no longer watched: handle() is not called again after what runs now, and release() follows on
 * another thread. unwatch() closes the socket, forget() leaves it open. Any thread.
 */
void softrdma_newcomers_unwatch(int fd, struct softrdma_watched *watched);
void softrdma_newcomers_forget(int fd, struct softrdma_watched *watched);

/*
 * What a peer has sent on one stream is handled before what it sends on another one after that, as on hardware,
 * where both come through one port: a client that is told that it is connected, and connects again, is
 * established before its second request is told. So the request waits for all that the connections have by now:
 * for the look at them that is under way, and for one that begins after that.
 */
uint64_t softrdma_newcomers_look_after_next(void);
/* false: that look is not over. The newcomer, if it is one, is handled again then, without an event. */
bool softrdma_newcomers_is_time(uint64_t look, int fd, struct softrdma_watched *watched);

/* a connection had something to do. Any thread. */
void softrdma_newcomers_give_way(void);
/* ends their pause if it is over; until when it lasts, in ns of softrdma_now_ns(), 0: there is none */
uint64_t softrdma_newcomers_pause(uint64_t now_ns);

#endif /* SOFTRDMA_NEWCOMERS_H */
