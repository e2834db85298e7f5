/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * torture.h -- scenarios in which one call fails
 *
 * A scenario goes on as long as its steps succeed and says when one does not. Whatever happens, these hold of
 * every step: its result is 0 or an error that include/librpma.h documents for the function; without a fault
 * it is 0; outputs of a step that failed are as they were. And of the whole: what is waited for comes, as
 * success or as an error, in bounded time; everything can be deleted; nothing is left behind then; and the
 * same scenario succeeds in the same process when nothing fails any more.
 *
 * What does not hold ends the process at once, with the reason on the report.
 */

#ifndef TORTURE_H
#define TORTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <librpma.h>

#include "net.h"

/* of one scenario's payload; larger than a frame and than the socket's buffers in sum */
#define PAYLOAD_MAX ((size_t)1 << 20)

enum memory_kind {
	MEMORY_ANONYMOUS,
	MEMORY_FILE,
	MEMORY_MEMFD,
};

/* what differs between scenarios that are otherwise the same; zero members mean the usual */
struct plan {
	const char *addr;        /* 127.0.0.1 */
	const char *device;      /* RPMA_DEVICE: soft */
	enum memory_kind memory; /* of the server */
	size_t size;             /* of the payload: 64 bytes */
	uint8_t pdata;           /* bytes of private data, each way */
	bool rcq, shared, srq, srq_without_rcq;
	uint32_t max_sge;     /* of the client's connection; 0: the library's default, likewise below */
	uint32_t inline_size; /* bytes, likewise */
	int connect_timeout;  /* ms, of both connections */
	bool faulty_verbs;    /* the library over a device whose every verb may fail */
	bool read_flushes;    /* that device has no flush of its own */
	bool silence;         /* the fault may be that the other side says nothing any more */
	const char *ops;      /* operations by letters, of scenarios that have many kinds of them */
	int detail;           /* what the scenario makes of it */
};

struct scenario;
struct world;
typedef bool scenario_function(struct world *w);

struct torture_scenario {
	const char *name;
	/* false: a step has failed, which was looked at already */
	scenario_function *run;
	struct plan plan;
	/* NULL, or one of the conformance table, which is run instead */
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
	bool ended;   /* the event of the connection's end has been seen */
	bool gave_up; /* this side has ended the connection, for the other one was silent */
	uint8_t *mem;
	int fd;
	char *path; /* of its file, which must have a name to be durable; NULL: none */
	struct rpma_mr_local *mr;
	struct rpma_mr_remote *remote; /* the other side's memory */
};

struct world {
	struct plan plan;
	const char *dir;
	unsigned domains; /* whose calls may fail */
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
	unsigned long also; /* a later one that fails too; 0: none */
	bool from;          /* it and all that follow */
	unsigned seed;      /* of how it fails */
	const char *dir;
	/* results */
	unsigned long calls;
	bool used;
};

/* explains on stdout what did not hold */
enum run_result run_one(struct run *run);

/* what does not hold; ends the process */
_Noreturn void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* the scenario has come to an end that it may come to, and leaves things behind; ends the process */
_Noreturn void stopped(void);
/* it cannot run here */
_Noreturn void skipped(void);

/* ---- conformance.c ---- */

/* both roles, as threads; comes back if no check of them has failed */
void conformance_run(const struct scenario *s, const char *dir);
/* the next one that runs in one process and is small enough, NULL at the end; after NULL: the first */
const struct scenario *conformance_next(const struct scenario *s);
const char *conformance_name(const struct scenario *s);

/* ---- documented.c ---- */

/* reads what the header says of each function; false with errno: it cannot be read */
bool documented_read(const char *path);
/* may the function return this error? */
bool documented(const char *function, int error);

/* ---- world.c: steps. false: the step has failed, as it may ---- */

void world_open(struct world *w, const struct plan *plan, const char *dir);
/* deletes everything; the client must have heard of its connection's end */
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
/* client, server, and the client's request */
bool world_ask(struct world *w);
/* the next event of one of the connections; false also if it is none that belongs to a working connection */
bool world_event(struct world *w, struct side *s, enum rpma_conn_event expected);
/* both ways: ESTABLISHED on both sides */
bool world_established(struct world *w);
/* all of the above */
bool world_pair(struct world *w, int server_usage, int client_usage);
/* disconnected by s, seen by both */
bool world_disconnect(struct world *w, struct side *s);
/* one completion with this context; *wc is it */
bool world_completion(struct world *w, struct side *s, struct rpma_cq *cq, uint64_t ctx, struct ibv_wc *wc);
/* waits for the descriptor; false: a scenario that waits in vain is wrong */
void world_wait(int fd, const char *what);

/* the index of the first of at most four descriptors that is readable; -1: none is in so many turns of
 * patience */
int world_wait_any(const int *fds, int count, int skips_max);
/* of the connection's events, until its end has been told; -1: it has, or there is no connection */
int world_event_fd(const struct side *s);
/* whatever the event is: the connection is known to have come to its end, or not */
void world_take_event(struct side *s);

/* a call of the library: true: it has succeeded. What it may not return is wrong. */
bool judge(const char *function, int ret);
/* the same, of a call that has an output, which is still the sentinel if it has failed */
bool judge_output(const char *function, int ret, bool untouched);

/* an output before the call: nobody returns it */
extern char sentinel_object;
#define SENTINEL ((void *)&sentinel_object)

/* calls function(..., &out), keeps what it makes in place; true: it has succeeded */
#define MAKES(function, ret, out, place) \
	(judge_output(function, ret, (void *)(out) == SENTINEL) ? ((place) = (out), true) : false)

/* ---- verbs.c ---- */

/* a peer of the software device through a table in which every call may fail */
int faulty_peer_new(struct ibv_context *ctx, bool read_flushes, struct rpma_peer **peer);

/* ---- tables ---- */

extern const struct torture_scenario object_scenarios[];
extern const struct torture_scenario connection_scenarios[];
extern const struct torture_scenario operation_scenarios[];
extern const struct torture_scenario beyond_scenarios[];

#endif /* TORTURE_H */
