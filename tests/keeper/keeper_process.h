/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* keeper_process.h -- an rpma-keeper that a test starts, kills and starts again */

#ifndef TEST_KEEPER_PROCESS_H
#define TEST_KEEPER_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "net.h"

#define KEEPER_ADDRESS "127.0.0.1"
#define KEEPER_NAME "disk"

/* the keeper lends the file "disk" in its directory under that name, unless lend says otherwise */
struct keeper_process {
	const char *program;
	char dir[64]; /* made for it, in the working directory */
	char port[NET_PORT_LEN];
	const char *lend;    /* NULL: that file, of size bytes */
	const char *faults;  /* SOFTRDMA_FAULTS of the keeper; NULL: none */
	const char *clients; /* --clients; NULL: its default */
	bool medium_fails;   /* the disk cannot write back what is in memory, if seccomp(2) can be had */
	uint64_t size;
	pid_t pid; /* 0: not running */
};

void keeper_process_init(struct keeper_process *k, const char *program, uint64_t size);
/* starts it on the same port as before; returns when it listens */
void keeper_process_start(struct keeper_process *k);
/* runs it with --clear-failed, to its end; true if it succeeds */
bool keeper_process_clears_failure(const struct keeper_process *k);
/* stops all its threads, until SIGCONT */
void keeper_process_stop(const struct keeper_process *k);
/* sends the signal, and returns the exit status, or 128 + the signal that ended it */
int keeper_process_end(struct keeper_process *k, int signal);
/* ends it, and removes its directory */
void keeper_process_fini(struct keeper_process *k);

/* path of a file in its directory; the text is static */
const char *keeper_process_path(const struct keeper_process *k, const char *file);
/* true if a line of its log contains the text */
int keeper_process_logged(const struct keeper_process *k, const char *text);
/* waits for that: a client may have its answer before the line is written */
void keeper_process_await_line(const struct keeper_process *k, const char *text);

#endif /* TEST_KEEPER_PROCESS_H */
