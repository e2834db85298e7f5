/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * torture.h -- scenarios in which one call fails
 *
 * A scenario goes on while its steps succeed, and returns false when one has failed. With any fault these hold
 * for every step:
 *
 *	- it returns 0 or an error that include/librpma.h documents for the function; without a fault, 0
 *	- the outputs of a step that has failed are unchanged
 *
 * These hold for the whole scenario:
 *
 *	- each wait ends in bounded time, with success or with an error
 *	- everything can be deleted, and then no thread, descriptor or memory is left
 *	- the same scenario succeeds afterwards in the same process, without a fault
 *
 * If one of them does not hold, the process ends at once and reports the reason: see wrong().
 */

#ifndef TORTURE_H
#define TORTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <librpma.h>

#include "net.h"

/* bytes of the largest payload; more than a frame, and more than the buffers of both sockets */
#define PAYLOAD_MAX ((size_t)1 << 20)

enum memory_kind {
	MEMORY_ANONYMOUS,
	MEMORY_FILE,
	MEMORY_MEMFD,
};

/* parameters of a scenario; a member that is 0 stands for the default in its comment */
struct plan {
	const char *addr;        /* 127.0.0.1 */
	const char *device;      /* value of RPMA_DEVICE: soft */
	enum memory_kind memory; /* of the server: anonymous */
	size_t size;             /* bytes of the payload: 64 */
	uint8_t pdata;           /* bytes of private data in each direction */
	bool rcq, shared, srq, srq_without_rcq;
	uint32_t max_sge;     /* of the client's connection: the library's default */
	uint32_t inline_size; /* bytes, of the client's connection: the library's default */
	int connect_timeout;  /* ms, of both connections: the library's default */
	bool faulty_verbs;    /* true if the device is one whose every verb may fail */
	bool read_flushes;    /* true if that device has no native flush */
	bool silence;         /* true if the fault may be that the other side falls silent */
	const char *ops;      /* operations, written as letters: exchange.c */
	int detail;           /* a parameter whose meaning the scenario defines */
};

struct scenario;
struct world;
typedef bool scenario_function(struct world *w);

struct torture_scenario {
	const char *name;
	/* returns false if a step has failed, which the step has already judged */
	scenario_function *run;
	struct plan plan;
	/* a scenario of the conformance table that runs instead, or NULL */
	const struct scenario *conformance;
};

/* one side of a connection */
struct side {
	struct rpma_peer *peer;
	struct rpma_conn_cfg *cfg;
	struct rpma_srq *srq;
	struct rpma_conn_req *req;
	struct rpma_conn *conn;
	struct rpma_cq *cq, *rcq;
	bool established;
	bool ended;   /* true once the event of the connection's end was taken */
	bool gave_up; /* true if this side has disconnected because the other one was silent */
	uint8_t *mem;
	int fd;
	char *path; /* of the file of the memory, which needs a name to be durable; or NULL */
	struct rpma_mr_local *mr;
	struct rpma_mr_remote *remote; /* the other side's memory */
};

struct world {
	struct plan plan;
	const char *dir;
	unsigned domains; /* enum fault_domain: which calls may fail */
	struct side server, client;
	struct rpma_ep *ep;
	char port[NET_PORT_LEN];
};

/* ---- run.c: one run in a process of its own ---- */

enum run_result {
	RUN_PASSED,
	RUN_FAILED,
	RUN_SKIPPED,
};

struct run {
	const struct torture_scenario *scenario;
	unsigned long k;    /* the call that fails; 0: none */
	unsigned long also; /* a later call that fails too; 0: none */
	bool from;          /* true if all calls after k fail too */
	unsigned seed;      /* chooses the error */
	const char *dir;
	/* results */
	unsigned long calls;
	bool used;
};

/* prints what did not hold to stdout */
enum run_result run_one(struct run *run);

/* reports what does not hold, and ends the process */
_Noreturn void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ends the process of a scenario that a fault has stopped, as it may; it leaves its objects behind */
_Noreturn void stopped(void);
/* ends the process of a scenario that cannot run here */
_Noreturn void skipped(void);

/* ---- conformance.c ---- */

/* runs both roles as threads; returns only if all checks have passed */
void conformance_run(const struct scenario *s, const char *dir);
/* the scenario after s, or the first after NULL, that suits one process and is small; NULL at the end */
const struct scenario *conformance_next(const struct scenario *s);
const char *conformance_name(const struct scenario *s);

/* ---- documented.c ---- */

/* reads the errors that the header documents; false with errno if it cannot be read */
bool documented_read(const char *path);
/* true if the header documents this error for the function */
bool documented(const char *function, int error);

/* ---- world.c: steps; they return false if they have failed, as they may after a fault ---- */

void world_open(struct world *w, const struct plan *plan, const char *dir);
/* deletes everything; fails if the client does not get the event of its connection's end */
void world_close(struct world *w);

bool world_context(struct world *w, bool is_server, struct ibv_context **ctx);
bool world_peer(struct world *w, struct side *s);
bool world_cfg(struct world *w, struct side *s);
bool world_memory(struct world *w, struct side *s, int usage);
bool world_remote(struct side *of, const struct side *from);
bool world_listen(struct world *w);
bool world_req_new(struct world *w, struct side *s);
bool world_req_recv(struct world *w, struct side *s, uint64_t ctx);
bool world_connect(struct world *w, struct side *s);
/* takes the client's request */
bool world_next_req(struct world *w);
/* makes server and client, and sends the client's request */
bool world_ask(struct world *w);
/* takes the next event of a connection; false also if another event came because the connection has failed */
bool world_event(struct world *w, struct side *s, enum rpma_conn_event expected);
/* takes ESTABLISHED on both sides */
bool world_established(struct world *w);
/* all of the above */
bool world_pair(struct world *w, int server_usage, int client_usage);
/* disconnects s, and takes CLOSED on both sides */
bool world_disconnect(struct world *w, struct side *s);
/* waits for one completion, which must have this context, and stores it in *wc */
bool world_completion(struct world *w, struct side *s, struct rpma_cq *cq, uint64_t ctx, struct ibv_wc *wc);
/* waits until the descriptor is readable; a wait without end is wrong() */
void world_wait(int fd, const char *what);

/* the index of the first readable one of at most four descriptors; -1 after skips_max turns without one */
int world_wait_any(const int *fds, int count, int skips_max);
/* descriptor of the connection's events; -1 if it has ended, or if there is no connection */
int world_event_fd(const struct side *s);
/* takes an event of any kind, and sets `established` or `ended` accordingly */
void world_take_event(struct side *s);

/* judges the return value of a call: true if it has succeeded; an undocumented error is wrong() */
bool judge(const char *function, int ret);
/* the same for a call with an output, which must be unchanged if the call has failed */
bool judge_output(const char *function, int ret, bool untouched);

/* value of an output before the call; no call returns it */
extern char sentinel_object;
#define SENTINEL ((void *)&sentinel_object)

/* judges function(..., &out) and moves the output to `place`; true if it has succeeded */
#define MAKES(function, ret, out, place) \
	(judge_output(function, ret, (void *)(out) == SENTINEL) ? ((place) = (out), true) : false)

/* ---- verbs.c ---- */

/* makes a peer of the software device, through a table in which every call may fail */
int faulty_peer_new(struct ibv_context *ctx, bool read_flushes, struct rpma_peer **peer);

/* ---- tables ---- */

extern const struct torture_scenario object_scenarios[];
extern const struct torture_scenario connection_scenarios[];
extern const struct torture_scenario operation_scenarios[];
extern const struct torture_scenario beyond_scenarios[];

#endif /* TORTURE_H */
