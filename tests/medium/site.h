/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * site.h -- the processes and files of one worker of faults_and_cuts
 *
 * A state is a folder with the files "0", "1" and "2", of the hosts with these numbers, and the medium of each
 * (to_medium.c). A site has an address of its own (in 127.0.0.0/8), so that a port of it that nothing listens
 * on stays unused while other tests run.
 */

#ifndef MEDIUM_SITE_H
#define MEDIUM_SITE_H

#include <stdbool.h>
#include <stddef.h>

#include "net.h"
#include "process.h"

#define HOSTS 3
#define MAJORITY (HOSTS / 2 + 1)
#define ALL_HOSTS ((1u << HOSTS) - 1)
#define SITE_ADDR_LEN 24
#define SITE_PATH_LEN 64
#define SAID_LEN 8192

/* a program that runs, or has run */
struct program {
	struct proc proc;
	bool struck; /* true if a fault of SOFTRDMA_FAULTS has occurred in it */
	size_t said_len;
	char said[SAID_LEN]; /* the end of its output */
};

struct host {
	char port[NET_PORT_LEN];
	struct program program;
};

extern struct host hosts[HOSTS];
extern char site_addr[SITE_ADDR_LEN];
extern bool site_is_control; /* flushes reach no medium */

/* enters a folder of its own, which it creates, and chooses address and ports */
void site_open(const char *folder, unsigned worker);

/* milliseconds that anything that must happen may take */
int site_patience_ms(void);

/*
 * Starts a program. faults is a value of SOFTRDMA_FAULTS, or NULL for none. A program that serves files copies
 * what it flushes to their media.
 */
void program_start(struct program *p, char *const argv[], const char *faults, bool serves);
/* reads lines until one contains the text; false at the end of the output or after the time */
bool program_wait_line(struct program *p, const char *text, int timeout_ms);
/* reads what has been printed so far */
void program_drain(struct program *p);
/* the exit status, 128 + the signal, or -1 if it still runs after the time; reads its output to the end */
int program_end(struct program *p, int timeout_ms);
bool program_runs(const struct program *p);
/* with SIGKILL, and reads the output to the end; safe on one that has ended */
void program_kill(struct program *p);

/* starts a server of a file; false if it does not listen (its output tells why) */
bool host_start(unsigned host, char *const argv[], const char *faults);
void host_kill(unsigned host);
void hosts_kill(void);
/* "address:port,address:port,address:port" */
const char *hosts_list(void);

/* path of a host's file, or of its medium, in a state; the text is static */
const char *state_file(const char *state, unsigned host);
const char *state_medium(const char *state, unsigned host);
/* copies a state; the power of these hosts is cut meanwhile */
void state_copy(const char *from, const char *to, unsigned cut);
void state_cut(const char *state, unsigned host);
/* as after a power cut before which the kernel has written some of the pages back by itself */
void state_cut_mixed(const char *state, unsigned host);
/* true if a power cut would change the host's file */
bool state_would_lose(const char *state, unsigned host);
void state_make_medium(const char *state, unsigned host);

void make_folder(const char *path);
/* the content of a file, to be freed by the caller; NULL if it does not exist */
char *file_read(const char *path, size_t *len);
void file_write(const char *path, const void *bytes, size_t len);

#endif /* MEDIUM_SITE_H */
