/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* keeper_process.c -- an rpma-keeper that a test starts, kills and starts again */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "deadline.h"
#include "keeper_process.h"

#define START_MS 20000
#define LINE_MS 20000 /* until what has happened is in the log */
#define START_TRIES 5
#define LEND_MAX 256

const char *
keeper_process_path(const struct keeper_process *k, const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", k->dir, file);
	return path;
}

void
keeper_process_init(struct keeper_process *k, const char *program, uint64_t size)
{
	*k = (struct keeper_process){ .program = program, .size = size };
	snprintf(k->dir, sizeof(k->dir), "keeper-XXXXXX");
	assert_non_null(mkdtemp(k->dir));
	assert_int_equal(net_free_port(KEEPER_ADDRESS, k->port), 0);
}

int
keeper_process_logged(const struct keeper_process *k, const char *text)
{
	char line[2048];
	int found = 0;
	FILE *log = fopen(keeper_process_path(k, "log"), "re");

	while (log && !found && fgets(line, sizeof(line), log))
		found = strstr(line, text) != NULL;
	if (log)
		fclose(log);
	return found;
}

void
keeper_process_await_line(const struct keeper_process *k, const char *text)
{
	const int64_t end = now_ms() + LINE_MS;

	while (!keeper_process_logged(k, text)) {
		if (now_ms() >= end)
			fail_msg("the keeper does not log \"%s\"", text);
		(void)usleep(1000);
	}
}

/* every msync() of this process fails, which is how a medium shows that it has failed */
static void
let_medium_fail(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_msync, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { .len = sizeof(filter) / sizeof(filter[0]), .filter = filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		fprintf(stderr, "no seccomp: %s\n", strerror(errno));
}

static _Noreturn void
become_keeper(const struct keeper_process *k, char *const argv[], int log)
{
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (k->faults)
		setenv("SOFTRDMA_FAULTS", k->faults, 1);
	else
		unsetenv("SOFTRDMA_FAULTS");
	if (dup2(log, STDERR_FILENO) >= 0) {
		if (k->medium_fails)
			let_medium_fail();
		execv(argv[0], argv);
	}
	_exit(127);
}

/* durable: the directory of the tests may be on an overlay file system */
static void
lend_own_file(const struct keeper_process *k, char lend[static LEND_MAX])
{
	snprintf(lend, LEND_MAX, KEEPER_NAME "=%s/disk,durable,size=%" PRIu64, k->dir, k->size);
}

static void
begin(struct keeper_process *k)
{
	char listen[64], lend[LEND_MAX];
	char *argv[] = { (char *)(uintptr_t)k->program, "--listen", listen, "--lend", lend, "--clients",
		(char *)(uintptr_t)(k->clients ? k->clients : "64"), "--status",
		strdup(keeper_process_path(k, "status")), NULL };

	snprintf(listen, sizeof(listen), "%s:%s", KEEPER_ADDRESS, k->port);
	if (k->lend)
		snprintf(lend, sizeof(lend), "%s", k->lend);
	else
		lend_own_file(k, lend);
	int log = open(keeper_process_path(k, "log"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(log >= 0);
	k->pid = fork();
	assert_true(k->pid >= 0);
	if (k->pid == 0)
		become_keeper(k, argv, log);
	close(log);
	free(argv[8]);
}

/* 1: it listens; 0: it has ended */
static int
has_begun(struct keeper_process *k)
{
	const int64_t end = now_ms() + START_MS;

	while (!keeper_process_logged(k, "listening on")) {
		if (waitpid(k->pid, NULL, WNOHANG) == k->pid) {
			k->pid = 0;
			return 0;
		}
		assert_true(now_ms() < end);
		(void)poll(NULL, 0, 2);
	}
	return 1;
}

void
keeper_process_start(struct keeper_process *k)
{
	/* another process may take the port meanwhile, as the local one of a connection */
	for (int i = 0; i < START_TRIES; i++) {
		begin(k);
		if (has_begun(k))
			return;
		if (!keeper_process_logged(k, "in use"))
			break;
		(void)poll(NULL, 0, 200);
	}
	fail_msg("the keeper ends: see %s", keeper_process_path(k, "log"));
}

bool
keeper_process_clears_failure(const struct keeper_process *k)
{
	char lend[LEND_MAX];
	char *argv[] = { (char *)(uintptr_t)k->program, "--clear-failed", KEEPER_NAME, "--lend", lend, NULL };
	int status;

	lend_own_file(k, lend);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		execv(argv[0], argv);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void
keeper_process_stop(const struct keeper_process *k)
{
	int status;

	/* kill() may return before all threads have stopped */
	assert_int_equal(kill(k->pid, SIGSTOP), 0);
	assert_int_equal(waitpid(k->pid, &status, WUNTRACED), k->pid);
	assert_true(WIFSTOPPED(status));
}

int
keeper_process_end(struct keeper_process *k, int signal)
{
	int status;

	if (k->pid == 0)
		return -1;
	assert_int_equal(kill(k->pid, signal), 0);
	assert_int_equal(waitpid(k->pid, &status, 0), k->pid);
	k->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void
keeper_process_fini(struct keeper_process *k)
{
	static const char *const files[] = { "disk", "disk.identity", "disk.new", "disk.old", "log", "status",
		"status.new" };

	(void)keeper_process_end(k, SIGKILL);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		(void)unlink(keeper_process_path(k, files[i]));
	(void)rmdir(k->dir);
}
