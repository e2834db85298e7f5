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

#include <stdint.h>

#include "watched.h"

/* they are waited for as one of what is in the epoll of all; 0 or an errno value */
int softrdma_newcomers_open(int epoll_of_all);
void softrdma_newcomers_close(void);

/* as softrdma_io_watch() and softrdma_io_look_again(), and takes out without releasing. Any thread. */
int softrdma_newcomers_watch(int fd, struct softrdma_watched *watched);
int softrdma_newcomers_look_again(int fd, struct softrdma_watched *watched);
void softrdma_newcomers_forget(int fd);

/* a connection had something to do. Any thread. */
void softrdma_newcomers_give_way(void);
/* ends their pause if it is over; until when it lasts, in ns of softrdma_now_ns(), 0: there is none */
uint64_t softrdma_newcomers_pause(uint64_t now_ns);

#endif /* SOFTRDMA_NEWCOMERS_H */
