/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* process.h -- programs under test: started with pipes, read line by line, killed */

#ifndef TEST_PROCESS_H
#define TEST_PROCESS_H

#include <stddef.h>
#include <sys/types.h>

#define PROC_BUF_LEN 65536

struct proc {
	pid_t pid;              /* 0 after it was waited for */
	int in;                 /* its standard input, or -1 */
	int out;                /* its standard output and error, or -1 */
	size_t len;             /* bytes of buf that are in use */
	char buf[PROC_BUF_LEN]; /* output that was read but not returned yet */
};

/*
 * Starts argv[0] (searched in PATH). env is a list of "NAME=value" that ends with NULL and is added to our
 * own environment, or NULL. The child is killed when this process ends. Returns 0, or -1 with errno; a
 * program that cannot be executed ends with status 127.
 */
int proc_start(struct proc *p, char *const argv[], char *const env[]);

/*
 * Reads the next line without its newline, cut at line_len - 1 bytes. Returns its length, or -1 at the end of
 * the output or after timeout_ms.
 */
int proc_read_line(struct proc *p, char *line, size_t line_len, int timeout_ms);

/*
 * Skips lines up to one that contains text, and stores that one in line (which may be NULL). Returns 0 or -1.
 */
int proc_wait_line(struct proc *p, const char *text, char *line, size_t line_len, int timeout_ms);

int proc_write(struct proc *p, const void *buf, size_t len);
void proc_close_in(struct proc *p);

/* Returns the exit status, 128 + the signal, or -1 if it still runs after timeout_ms (it is left running). */
int proc_wait(struct proc *p, int timeout_ms);

/* kills the process (SIGKILL), waits for its end, and closes everything; safe on one that has ended */
void proc_kill(struct proc *p);

#endif /* TEST_PROCESS_H */
