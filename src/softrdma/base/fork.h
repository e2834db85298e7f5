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

/* says which context is this process's own. Called before any object is made with it. */
void softrdma_fork_owns(const struct ibv_context *context);

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

/* the order in which hooks are called, before a fork and in the child */
enum softrdma_fork_rank {
	SOFTRDMA_FORK_DEVICE,   /* posts and polls with objects of the parent are refused */
	SOFTRDMA_FORK_REGISTRY, /* the child shows no memory under its parent's name */
	SOFTRDMA_FORK_MANAGER, /* no thread connects: TLS handshakes hold locks of OpenSSL, for ever in a child */
	SOFTRDMA_FORK_TABLE,  /* the table of regions is in no thread's hands */
	SOFTRDMA_FORK_OTHERS, /* in any order */
};

/*
 * What a file with static state does when the process forks. Both functions of a lock, or neither; a rank with a lock
 * has one hook.
 */
struct softrdma_fork_hook {
	enum softrdma_fork_rank rank;
	/* on the child's only thread: forgets the parent's objects and begins the locks anew */
	void (*in_child)(void);
	/* takes a lock that is held until both processes exist; false: it is in use, try again */
	bool (*begins)(void);
	/* gives the lock back, in both processes */
	void (*ends)(void);
	struct softrdma_fork_hook *next;
};

/* registers a hook for as long as the device is loaded; called by constructors only: SOFTRDMA_FORK_HOOK() makes one */
void softrdma_fork_register(struct softrdma_fork_hook *hook);

/* calls the hooks in the child: the device has neither objects nor threads from here on */
void softrdma_fork_forget(void);

/* at the end of a file's part about forks: its hook, which registers itself when the device is loaded */
#define SOFTRDMA_FORK_HOOK(...) \
	static struct softrdma_fork_hook fork_hook; \
	__attribute__((constructor)) static void register_fork_hook(void) \
	{ \
		softrdma_fork_register(&fork_hook); \
	} \
	static struct softrdma_fork_hook fork_hook = { __VA_ARGS__ }

#endif /* SOFTRDMA_FORK_H */
