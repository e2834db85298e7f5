/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * run.c -- runs one scenario in processes of its own
 *
 * With one process, a child runs both roles as threads; with two, each role is a child. Their stderr (the
 * library logs every error that a scenario provokes) goes to a memfd and is shown only if the scenario
 * failed. A pipe carries the reasons of failed checks. The parent never calls librpma, so it may fork at any
 * time.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "count.h"
#include "deadline.h"
#include "remote.h"
#include "run.h"

/* how long the second role may take to end after the first has failed or skipped */
#define GRACE_MS 3000
/* how long the driver of the other host may take to reach the same scenario */
#define REMOTE_MS 120000
/* bytes of a failed scenario's stderr that are shown */
#define LOG_SHOWN 16384

/* in the environment of a role that is a program of its own: the role, descriptors, and the scenario's name */
#define RUN_AS "CONFORMANCE_RUN_AS"
#define RUN_AS_MAX 256

struct child {
	pid_t pid;
	int pidfd;
	int status;
	unsigned forgiven; /* the flag that allows it to end by SIGKILL */
};

struct run {
	const struct scenario *scenario;
	const struct run_options *opts;
	int control[2]; /* target's, initiator's */
	int report[2];
	int log;
	struct child children[2];
	int child_count;
	bool timed_out;
};

static void
role_init(struct role *r, struct run *run, bool is_target)
{
	memset(r, 0, sizeof(*r));
	r->scenario = run->scenario;
	r->addr = run->opts->addr;
	r->dir = run->opts->dir;
	r->device = run->opts->device;
	r->power_cut = run->opts->power_cut;
	r->is_target = is_target;
	r->soft = run->opts->soft;
	r->processes = run->opts->processes;
	r->logs = run->opts->closed != NULL;
	r->control = run->control[is_target ? 0 : 1];
	r->report = run->report[1];
}

static void *
role_main(void *arg)
{
	struct role *r = arg;

	check_bind(r);
	if (r->is_target)
		r->scenario->target(r);
	else
		r->scenario->initiator(r);
	/* the other role may wait for our end */
	shutdown(r->control, SHUT_RDWR);
	return NULL;
}

static void
run_both_roles(struct run *run)
{
	struct role roles[2];
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		role_init(&roles[i], run, i == 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, role_main, &roles[i]), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

static void
run_one_role(struct run *run, bool is_target)
{
	struct role r;

	/* the other role must see the end of this process as the end of the socket */
	close(run->control[is_target ? 1 : 0]);
	role_init(&r, run, is_target);
	role_main(&r);
}

static _Noreturn void
run_roles(struct run *run, bool is_target)
{
	if (run->opts->processes == 1)
		run_both_roles(run);
	else
		run_one_role(run, is_target);
	/* not _exit(): leak checkers report now */
	exit(EXIT_SUCCESS);
}

/* ---- roles that are started without some of the standard descriptors ---- */

/* pauses between two lines: enough for other threads */
#define LINE_PAUSE_NS 2000000

/* the library logs a line for each of these wrong calls */
static void *
log_lines(void *arg)
{
	const struct timespec pause = { .tv_nsec = LINE_PAUSE_NS };

	for (;;) {
		(void)rpma_conn_cfg_new(NULL);
		nanosleep(&pause, NULL);
	}
	return arg;
}

static void
set_close_on_exec(const struct run *run, bool on)
{
	const int fds[] = { run->control[0], run->control[1], run->report[1] };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		(void)fcntl(fds[i], F_SETFD, on ? FD_CLOEXEC : 0);
}

/* A program that has run for a while had them. This one is started without them, as a daemon may be. */
static _Noreturn void
start_without(struct run *run, bool is_target)
{
	char text[RUN_AS_MAX];

	snprintf(text, sizeof(text), "%d %d %d %d %s", is_target, run->control[0], run->control[1],
		run->report[1], run->scenario->name);
	setenv(RUN_AS, text, 1);
	set_close_on_exec(run, false);
	for (const char *digit = run->opts->closed; *digit; digit++) {
		if (*digit != '-')
			close(*digit - '0');
	}
	execv("/proc/self/exe", run->opts->argv);
	_exit(EXIT_FAILURE);
}

const char *
run_is_role(void)
{
	const char *text = getenv(RUN_AS);

	for (int i = 0; text && i < 4; i++)
		text = strchr(text, ' ') + 1;
	return text;
}

_Noreturn void
run_as_role(const struct scenario *s, const struct run_options *opts)
{
	struct run run = { .scenario = s, .opts = opts };
	pthread_t thread;
	char *next;

	const bool is_target = strtol(getenv(RUN_AS), &next, 10);
	run.control[0] = (int)strtol(next, &next, 10);
	run.control[1] = (int)strtol(next, &next, 10);
	run.report[1] = (int)strtol(next, &next, 10);
	unsetenv(RUN_AS);
	set_close_on_exec(&run, true);
	CHECK_EQ(pthread_create(&thread, NULL, log_lines, NULL), 0);
	run_roles(&run, is_target);
}

static _Noreturn void
child_main(struct run *run, bool is_target)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(run->report[0]);
	if (!run->opts->verbose)
		dup2(run->log, STDERR_FILENO);
	if (run->opts->closed)
		start_without(run, is_target);
	run_roles(run, is_target);
}

static int
start_child(struct run *run, bool is_target, unsigned forgiven)
{
	struct child *c = &run->children[run->child_count];

	c->forgiven = forgiven;
	c->pid = fork();
	if (c->pid == 0)
		child_main(run, is_target);
	if (c->pid < 0)
		return -1;
	c->pidfd = pidfd_open(c->pid, 0);
	run->child_count++;
	return c->pidfd < 0 ? -1 : 0;
}

static bool
is_remote_target(const struct run *run)
{
	return !strcmp(run->opts->role, "target");
}

static int
start_children(struct run *run)
{
	if (run->opts->role)
		return start_child(run, is_remote_target(run),
			is_remote_target(run) ? TARGET_DIES : INITIATOR_DIES);
	if (run->opts->processes == 1)
		return start_child(run, true, 0);
	return start_child(run, true, TARGET_DIES) || start_child(run, false, INITIATOR_DIES) ? -1 : 0;
}

static bool
child_is_well(const struct run *run, const struct child *c)
{
	if (WIFSIGNALED(c->status))
		return WTERMSIG(c->status) == SIGKILL && !run->timed_out &&
			(run->scenario->flags & c->forgiven);
	return WEXITSTATUS(c->status) == 0;
}

static void
reap(struct child *c)
{
	waitpid(c->pid, &c->status, 0);
	close(c->pidfd);
	c->pid = 0;
}

/* waits for one child to end; false if the time is over */
static bool
reap_some(struct run *run, int64_t end)
{
	struct pollfd pfd[2];
	struct child *of[2];
	nfds_t n = 0;

	for (int i = 0; i < run->child_count; i++) {
		if (!run->children[i].pid)
			continue;
		pfd[n] = (struct pollfd){ .fd = run->children[i].pidfd, .events = POLLIN };
		of[n++] = &run->children[i];
	}
	if (poll(pfd, n, left_ms(end)) == 0)
		return false;
	for (nfds_t i = 0; i < n; i++) {
		if (pfd[i].revents)
			reap(of[i]);
	}
	return true;
}

static int
alive(const struct run *run)
{
	int n = 0;

	for (int i = 0; i < run->child_count; i++)
		n += run->children[i].pid != 0;
	return n;
}

static bool
all_ended_are_well(const struct run *run)
{
	for (int i = 0; i < run->child_count; i++) {
		if (!run->children[i].pid && !child_is_well(run, &run->children[i]))
			return false;
	}
	return true;
}

static void
kill_children(struct run *run)
{
	for (int i = 0; i < run->child_count; i++) {
		if (run->children[i].pid)
			kill(run->children[i].pid, SIGKILL);
	}
	for (int i = 0; i < run->child_count; i++) {
		if (run->children[i].pid)
			reap(&run->children[i]);
	}
}

static void
wait_children(struct run *run)
{
	int64_t end = now_ms() + (int64_t)deadline_scaled(run->opts->deadline) * 1000;
	bool graced = false;

	while (alive(run)) {
		if (!reap_some(run, end)) {
			run->timed_out = !graced;
			break;
		}
		if (!graced && !all_ended_are_well(run)) {
			graced = true;
			end = now_ms() + GRACE_MS;
		}
	}
	kill_children(run);
}

static size_t
append(char why[RUN_WHY_LEN], size_t len, const char *text)
{
	int n = snprintf(why + len, RUN_WHY_LEN - len, "%s\n", text);

	return len + (size_t)n < RUN_WHY_LEN ? len + (size_t)n : RUN_WHY_LEN - 1;
}

/* what the checks reported, then the ends of processes that no check could report */
static void
explain(struct run *run, char why[RUN_WHY_LEN])
{
	ssize_t n = read(run->report[0], why, RUN_WHY_LEN - 1);
	size_t len = n > 0 ? (size_t)n : 0;
	char text[64];

	why[len] = '\0';
	if (run->timed_out)
		len = append(why, len, "it hangs: ended by the deadline");
	for (int i = 0; i < run->child_count && !run->timed_out; i++) {
		const struct child *c = &run->children[i];

		if (child_is_well(run, c) ||
			(WIFEXITED(c->status) && WEXITSTATUS(c->status) == CHECK_EXIT_FAILED) ||
			(WIFEXITED(c->status) && WEXITSTATUS(c->status) == CHECK_EXIT_ORPHANED))
			continue;
		snprintf(text, sizeof(text), "a process ended by %s %d",
			WIFSIGNALED(c->status) ? "signal" : "status",
			WIFSIGNALED(c->status) ? WTERMSIG(c->status) : WEXITSTATUS(c->status));
		len = append(why, len, text);
	}
	if (!len)
		append(why, len, "the other role ended first");
}

static void
show_log(const struct run *run)
{
	char buf[LOG_SHOWN];
	off_t size = lseek(run->log, 0, SEEK_END);
	off_t from = size > LOG_SHOWN ? size - LOG_SHOWN : 0;
	ssize_t n = pread(run->log, buf, sizeof(buf), from);

	if (n > 0)
		fwrite(buf, 1, (size_t)n, stderr);
	fflush(stderr);
}

static bool
skipped(const struct run *run)
{
	for (int i = 0; i < run->child_count; i++) {
		int status = run->children[i].status;

		if (WIFEXITED(status) && WEXITSTATUS(status) == CHECK_EXIT_SKIPPED)
			return true;
	}
	return false;
}

static enum run_result
judge(struct run *run, char why[RUN_WHY_LEN])
{
	why[0] = '\0';
	if (!run->timed_out && all_ended_are_well(run))
		return RUN_PASSED;
	if (!run->timed_out && skipped(run)) {
		ssize_t n = read(run->report[0], why, RUN_WHY_LEN - 1);

		why[n > 0 ? n : 0] = '\0';
		return RUN_SKIPPED;
	}
	explain(run, why);
	if (!run->opts->verbose)
		show_log(run);
	return RUN_FAILED;
}

static const char *
reason_to_skip(const struct scenario *s, const struct run_options *opts)
{
	if ((s->flags & TWO_PROCESSES) && opts->processes == 1)
		return "needs two processes";
	if ((s->flags & ONE_HOST) && opts->role)
		return "needs both roles on one host";
	if ((s->flags & KERNELS_PAGES) && in_emulator())
		return "needs the kernel's answers about missing pages";
	if ((s->flags & SOFT_ONLY) && !opts->soft)
		return "promised by the software device only";
	return NULL;
}

/* the ends of the control channel: two here, or one here and one on another host */
static int
open_control(struct run *run)
{
	const struct run_options *opts = run->opts;

	run->control[0] = run->control[1] = -1;
	if (!opts->role)
		return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, run->control);
	if (is_remote_target(run))
		run->control[0] = remote_accept(opts->listener, REMOTE_MS);
	else
		run->control[1] = remote_connect(opts->control, REMOTE_MS);
	return run->control[0] < 0 && run->control[1] < 0 ? -1 : 0;
}

static int
run_open(struct run *run)
{
	run->log = memfd_create("conformance-log", MFD_CLOEXEC);
	/* appended to, because the library takes another file that is open for reading too for one of the program's */
	if (run->log < 0 || fcntl(run->log, F_SETFL, O_APPEND) || open_control(run))
		return -1;
	return pipe2(run->report, O_CLOEXEC | O_NONBLOCK);
}

static void
close_controls(struct run *run)
{
	close(run->control[0]);
	close(run->control[1]);
}

enum run_result
run_scenario(const struct scenario *s, const struct run_options *opts, char why[RUN_WHY_LEN])
{
	const char *reason = reason_to_skip(s, opts);
	struct run run = { .scenario = s, .opts = opts };
	enum run_result result;

	if (reason) {
		snprintf(why, RUN_WHY_LEN, "%s", reason);
		return RUN_SKIPPED;
	}
	fflush(NULL); /* otherwise the children print our buffers again */
	if (run_open(&run) || start_children(&run)) {
		snprintf(why, RUN_WHY_LEN, "cannot start: %s", strerror(errno));
		kill_children(&run);
		return RUN_FAILED;
	}
	close_controls(&run);
	wait_children(&run);
	result = judge(&run, why);
	close(run.report[0]);
	close(run.report[1]);
	close(run.log);
	return result;
}
