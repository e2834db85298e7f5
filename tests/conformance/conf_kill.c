/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * conf_kill.c -- a peer that disappears without a disconnect: kill -9
 *
 * The software device sees the end of the process at once: the first outstanding operation completes with
 * IBV_WC_RETRY_EXC_ERR, and the rest is flushed. Hardware detects it by its timeouts, or its kernel
 * disconnects in an orderly way on behalf of the dead process.
 */

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "groups.h"
#include "ledger.h"
#include "role.h"

#define LEN ((size_t)256 << 10)
#define IN_FLIGHT 32
#define RECVS 8

static _Noreturn void
die(void)
{
	raise(SIGKILL);
	_exit(1);
}

/* kills itself when the other role tells it to */
static void
dying_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new_file(r, &m, LEN, LEDGER_REGION_USAGE);
	desc_put(r, &m);
	ctl_expect(r, "die");
	die();
}

static void
close_after_death(struct role *r, struct ledger *l, struct mem *m)
{
	ledger_close(l);
	mem_delete(m);
	conn_delete(&r->conn);
	role_delete(r);
}

static void
running_initiator(struct role *r)
{
	const enum ledger_op *op = r->scenario->arg;
	struct ledger l;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST);
	ledger_open(&l, r, &m, *op, IN_FLIGHT);
	ledger_run(&l, 3 * IN_FLIGHT);
	ctl_put(r, "die");
	ledger_run_until_gone(&l);
	expect_end(r->conn);
	ledger_drain(&l);
	/* flushed if by chance no operation was under way when the target died */
	if (l.failed && !(l.first_error == IBV_WC_RETRY_EXC_ERR || l.first_error == IBV_WC_WR_FLUSH_ERR)) {
		/* a kernel may release the dead process's region before its queue pair */
		CHECK(!r->soft);
		CHECK(l.first_error == IBV_WC_REM_ACCESS_ERR || l.first_error == IBV_WC_REM_OP_ERR);
	}
	close_after_death(r, &l, &m);
}

/* the software device breaks the connection; receives stay until this side's own disconnect */
static void
expect_broken(struct role *r)
{
	expect_wc(r->cq, 0, IBV_WC_RETRY_EXC_ERR);
	for (uint64_t i = 1; i < IN_FLIGHT; i++)
		expect_wc(r->cq, i, IBV_WC_WR_FLUSH_ERR);
	CHECK_OK(rpma_conn_disconnect(r->conn));
	for (uint64_t i = 0; i < RECVS; i++)
		expect_wc(r->cq, 1000 + i, IBV_WC_WR_FLUSH_ERR);
}

/*
 * hardware after this side's own disconnect: sends in their order and receives in theirs, in any order
 * between the two
 */
static void
expect_all_flushed(struct role *r)
{
	uint64_t sends = 0, recvs = 0;

	while (sends < IN_FLIGHT || recvs < RECVS) {
		struct ibv_wc wc = next_wc(r->cq);

		if (wc.wr_id >= 1000)
			CHECK_EQ(wc.wr_id - 1000, recvs++);
		else
			CHECK_EQ(wc.wr_id, sends++);
		CHECK(wc.status == IBV_WC_WR_FLUSH_ERR || wc.status == IBV_WC_RETRY_EXC_ERR);
	}
}

/* messages that wait for a receive are certainly outstanding */
static void
waiting_initiator(struct role *r)
{
	struct ledger l;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_SEND);
	ledger_open(&l, r, &m, LEDGER_SEND, IN_FLIGHT);
	for (uint64_t i = 0; i < RECVS; i++)
		CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(1000 + i)));
	ledger_fill(&l);
	ctl_put(r, "die");
	expect_end(r->conn);
	if (r->soft)
		expect_broken(r);
	else
		expect_all_flushed(r);
	expect_none(r->cq);
	close_after_death(r, &l, &m);
}

/* nothing is outstanding: an event reports the end, and a later post does not succeed */
static void
idle_initiator(struct role *r)
{
	struct ledger l;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_SRC);
	ledger_open(&l, r, &m, LEDGER_WRITE, IN_FLIGHT);
	ledger_run(&l, 1);
	ledger_drain(&l);
	ctl_put(r, "die");
	ctl_await_end(r);
	expect_end(r->conn);
	CHECK_OK(rpma_conn_disconnect(r->conn));
	ledger_fill(&l);
	ledger_drain(&l);
	CHECK(l.failed || l.refused);
	close_after_death(r, &l, &m);
}

/* ---- a target that is stopped: no response until it is continued or killed ---- */

static void
stopped_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new_file(r, &m, LEN, LEDGER_REGION_USAGE);
	desc_put(r, &m);
	ctl_put_u64(r, (uint64_t)getpid());
	ctl_expect(r, "done");
	expect_end(r->conn);
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

/* the third field of /proc/PID/stat, after a name in parentheses */
static char
process_state(pid_t pid)
{
	char path[64];
	char text[512] = "";
	FILE *file;
	char *name_end;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	CHECK(file != NULL);
	CHECK(fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	name_end = strrchr(text, ')');
	CHECK(name_end && name_end[1] == ' ');
	return name_end[2];
}

/* kill() returns before the process has stopped, and no event tells when it has */
static void
stop_process(pid_t pid)
{
	CHECK_EQ(kill(pid, SIGSTOP), 0);
	while (process_state(pid) != 'T')
		sched_yield();
}

/*
 * True if the target's device stops with its process. Hardware does not, and operations that the initiator
 * does itself (same-host path) do not either.
 */
static bool
stops_with_process(const struct role *r)
{
	const char *same_host = getenv("SOFTRDMA_SAME_HOST");
	bool direct =
		same_host && *same_host != '0' && *(const enum ledger_op *)r->scenario->arg != LEDGER_FLUSH;

	return r->soft && !direct;
}

/* the target is stopped while as many operations as possible are under way */
static pid_t
open_stopped(struct role *r, struct ledger *l, struct mem *m)
{
	pid_t pid;

	role_connect(r, NULL);
	mem_new(r, m, LEN, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST);
	ledger_open(l, r, m, *(const enum ledger_op *)r->scenario->arg, IN_FLIGHT);
	pid = (pid_t)ctl_get_u64(r);
	ledger_run(l, IN_FLIGHT);
	ledger_drain(l);
	stop_process(pid);
	ledger_fill(l);
	if (stops_with_process(r))
		expect_none(r->cq);
	return pid;
}

static void
stopped_and_killed_initiator(struct role *r)
{
	struct ledger l;
	struct mem m;
	pid_t pid = open_stopped(r, &l, &m);

	CHECK_EQ(kill(pid, SIGKILL), 0);
	if (stops_with_process(r)) {
		ledger_drain(&l);
		CHECK(l.failed);
		CHECK_EQ(l.first_error, IBV_WC_RETRY_EXC_ERR);
		expect_end(r->conn);
	} else {
		expect_end(r->conn);
		ledger_drain(&l);
		CHECK(!l.failed || l.first_error == IBV_WC_WR_FLUSH_ERR);
	}
	close_after_death(r, &l, &m);
}

static void
stopped_and_continued_initiator(struct role *r)
{
	struct ledger l;
	struct mem m;
	pid_t pid = open_stopped(r, &l, &m);

	CHECK_EQ(kill(pid, SIGCONT), 0);
	ledger_drain(&l);
	CHECK(!l.failed);
	ctl_put(r, "done");
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	close_after_death(r, &l, &m);
}

/* ---- the initiator dies: the target serves the next one ---- */

static void
surviving_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new_file(r, &m, LEN, LEDGER_REGION_USAGE);
	for (uint64_t i = 0; i < RECVS; i++)
		CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(i)));
	desc_put(r, &m);
	expect_end(r->conn);
	CHECK_OK(rpma_conn_disconnect(r->conn));
	for (uint64_t i = 0; i < RECVS; i++)
		expect_wc(r->cq, i, IBV_WC_WR_FLUSH_ERR);
	expect_none(r->cq);
	conn_delete(&r->conn);
	mem_delete(&m);
	role_delete(r);
}

static void
dying_initiator(struct role *r)
{
	struct ledger l;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST);
	ledger_open(&l, r, &m, *(const enum ledger_op *)r->scenario->arg, IN_FLIGHT);
	ledger_run(&l, IN_FLIGHT);
	ledger_fill(&l);
	die();
}

static const enum ledger_op writes = LEDGER_WRITE;
static const enum ledger_op reads = LEDGER_READ;
static const enum ledger_op flushes = LEDGER_FLUSH;

#define DIES(name, initiator, arg) \
	{ \
		"kill-" name, dying_target, initiator, LEN, TWO_PROCESSES | TARGET_DIES, arg \
	}
#define STOPPED(name, initiator, dies, arg) \
	{ \
		"stopped-target-" name, stopped_target, initiator, LEN, \
			TWO_PROCESSES | SOFT_ONLY | ONE_HOST | (dies), arg \
	}
#define SURVIVES(name, arg) \
	{ \
		"kill-" name, surviving_target, dying_initiator, LEN, TWO_PROCESSES | INITIATOR_DIES, arg \
	}

static const struct scenario list[] = {
	DIES("target-under-writes", running_initiator, &writes),
	DIES("target-under-reads", running_initiator, &reads),
	DIES("target-under-flushes", running_initiator, &flushes),
	DIES("target-with-waiting-sends", waiting_initiator, NULL),
	DIES("idle-target", idle_initiator, NULL),
	STOPPED("killed-under-writes", stopped_and_killed_initiator, TARGET_DIES, &writes),
	STOPPED("killed-under-reads", stopped_and_killed_initiator, TARGET_DIES, &reads),
	STOPPED("killed-under-flushes", stopped_and_killed_initiator, TARGET_DIES, &flushes),
	STOPPED("goes-on-under-writes", stopped_and_continued_initiator, 0, &writes),
	STOPPED("goes-on-under-reads", stopped_and_continued_initiator, 0, &reads),
	STOPPED("goes-on-under-flushes", stopped_and_continued_initiator, 0, &flushes),
	SURVIVES("initiator-under-writes", &writes),
	SURVIVES("initiator-under-reads", &reads),
	SURVIVES("initiator-under-flushes", &flushes),
};

const struct scenario_group group_kill = { list, sizeof(list) / sizeof(list[0]) };
