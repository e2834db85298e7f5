/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fork.h -- what a child process gets of the device when a process that has used it forks
 *
 * The child begins with a device that was never used. Its copies of the device's descriptors are closed, and nothing
 * else is done to them: the parent and its peers notice nothing. Objects that were created before the fork belong to
 * the parent. Their locks may have been held by threads that the child does not have. So a call with such an object
 * checks only which process it belongs to, and is refused.
 *
 * An object belongs to the process whose context it was created with; each process has its own context. The fast calls
 * of verbs (ibv_post_send, ibv_poll_cq, ...) go through the context's table. In the child the table of the parent's
 * context refuses them, so the check costs the parent nothing.
 *
 * vfork(2), posix_spawn(3) and system(3) do not run this, and need not.
 */

#ifndef SOFTRDMA_FORK_H
#define SOFTRDMA_FORK_H

#include <stdbool.h>

#include <infiniband/verbs.h>
#include <sys/socket.h>

/* registers the fork handlers, once. Any thread. Called with the first context. */
void softrdma_fork_prepare_for(void);

/*
 * True if the process has inherited the object from its parent; context is the one that the object was made with. The
 * call must be refused then: softrdma_fork_refuse() logs that, and returns the errno value for it. Any thread, any
 * lock.
 */
bool softrdma_is_inherited(const struct ibv_context *context);
int softrdma_fork_refuse(const char *call);

/*
 * Open, take over and close descriptors that a child is to close. Each call and its entry are one step for a fork. So a
 * child neither keeps such a descriptor nor closes one of the application's. Any thread, any lock; results and errno are
 * those of socket(2), accept4(2) and close(2). Each is 3 or higher (high_fd.h); softrdma_fork_owned() may return another
 * number than it gets, and returns -1 unchanged.
 */
int softrdma_fork_socket(int domain, int type, int protocol);
int softrdma_fork_accept(int listening, struct sockaddr *addr, socklen_t *len, int flags);
int softrdma_fork_owned(int fd);
void softrdma_fork_close(int fd);

/* keeps a pointer to memory of the parent that the child no longer uses, so that leak checkers find it */
void softrdma_fork_keep(const void *memory);

/*
 * A fork takes these locks and holds them until both processes exist, so that no other thread is in the middle of a
 * change. softrdma_cm_fork_begins() is false if the connection manager is in use.
 */
bool softrdma_cm_fork_begins(void);
void softrdma_cm_fork_ends(void);
void softrdma_mr_fork_begins(void);
void softrdma_mr_fork_ends(void);

/*
 * Each file of the device has one for the child, called on its only thread: it forgets the parent's objects and resets
 * its locks.
 */
void softrdma_registry_after_fork(void);
void softrdma_accounts_after_fork(void);
void softrdma_stats_file_after_fork(void);
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
void softrdma_incoming_after_fork(void);
void softrdma_io_after_fork(void);
void softrdma_links_after_fork(void);
void softrdma_mr_after_fork(void);
void softrdma_local_peer_after_fork(void);
void softrdma_pending_sockets_after_fork(void);
void softrdma_pending_after_fork(void);
void softrdma_qp_listener_after_fork(void);
void softrdma_qp_connect_after_fork(void);
void softrdma_source_after_fork(void);
void softrdma_workers_after_fork(void);

#endif /* SOFTRDMA_FORK_H */
