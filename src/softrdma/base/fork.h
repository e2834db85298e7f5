/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fork.h -- a process that has used the device forks: what the child has of it
 *
 * The child begins with a device that was never used. Its copies of the device's descriptors are closed,
 * and nothing else is done to them: the parent and its peers notice nothing. Objects that were made before
 * belong to the parent. Their locks may have been held by threads that the child does not have, so a call
 * with such an object looks at nothing but whose it is, and is refused.
 *
 * An object is of the process whose context it was made with: each process has its own, and the fast calls of
 * verbs (ibv_post_send, ibv_poll_cq, ...) go through the context's table, which in the child refuses for the
 * parent's. So they cost nothing more.
 *
 * vfork(2), posix_spawn(3) and system(3) do not come here, and need not.
 */

#ifndef SOFTRDMA_FORK_H
#define SOFTRDMA_FORK_H

#include <stdbool.h>

#include <infiniband/verbs.h>
#include <sys/socket.h>

/* what becomes of a fork is arranged once; any thread. Called with the first context. */
void softrdma_fork_prepare_for(void);

/*
 * True if the process has inherited the object from its parent; context is the one that the object was made with. The
 * call must be refused then: softrdma_fork_refuse() logs that, and returns the errno value for it. Any thread, any
 * lock.
 */
bool softrdma_is_inherited(const struct ibv_context *context);
int softrdma_fork_refuse(const char *call);

/*
 * Descriptors that a child closes. These make one, or take one over, and close it: no child is forked in
 * between, so it neither keeps one of them nor closes one of the application's. Any thread, any lock; results
 * and errno as of socket(2), accept4(2) and close(2). owned() lets -1 through.
 */
int softrdma_fork_socket(int domain, int type, int protocol);
int softrdma_fork_accept(int listening, struct sockaddr *addr, socklen_t *len, int flags);
int softrdma_fork_owned(int fd);
void softrdma_fork_close(int fd);

/* what the child has of the parent's memory and never looks at again; leak checkers find it here */
void softrdma_fork_keep(const void *memory);

/*
 * What a fork waits for, and holds until both processes are there: no other thread is in the middle of a change
 * then. softrdma_cm_fork_begins() is false if the connection manager is in use.
 */
bool softrdma_cm_fork_begins(void);
void softrdma_cm_fork_ends(void);
void softrdma_mr_fork_begins(void);
void softrdma_mr_fork_ends(void);

/*
 * What each file of the device does in the child, on its only thread: it forgets the parent's objects, and
 * its locks begin anew.
 */
void softrdma_board_after_fork(void);
void softrdma_cm_after_fork(void);
void softrdma_copy_after_fork(void);
void softrdma_credentials_after_fork(void);
void softrdma_device_after_fork(void);
void softrdma_direct_after_fork(void);
void softrdma_engine_after_fork(void);
void softrdma_event_after_fork(void);
void softrdma_fault_plan_after_fork(void);
void softrdma_file_after_fork(void);
void softrdma_dax_after_fork(void);
void softrdma_gid_after_fork(void);
void softrdma_io_after_fork(void);
void softrdma_links_after_fork(void);
void softrdma_mr_after_fork(void);
void softrdma_neighbour_after_fork(void);
void softrdma_newcomers_after_fork(void);
void softrdma_pending_after_fork(void);
void softrdma_qp_listener_after_fork(void);
void softrdma_rendezvous_after_fork(void);
void softrdma_source_after_fork(void);
void softrdma_workers_after_fork(void);

#endif /* SOFTRDMA_FORK_H */
