/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * run.c -- one scenario with one fault, in a process of its own
 *
 * The child runs the scenario with the fault, checks that nothing is left behind, and runs it again without a
 * fault. It reports through memory that it shares with its parent. The parent ends a child that hangs; it
 * never calls librpma, so it may fork at any time.
 */

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "count.h"
#include "deadline.h"
#include "fault.h"
#include "softrdma/wire/credentials.h"
#include "torture.h"

#define DEADLINE_S 40
/* ms for a child that hangs to report where */
#define LAST_WORDS_MS 1000
/* ms: threads leave /proc a moment after they were joined */
#define SETTLE_MS 2000
#define LOG_SHOWN 6000
#define LEAKS_MAX 4

enum exit_code {
	EXIT_WRONG = 3,
	EXIT_STOPPED = 4,
	EXIT_SKIP = 77,
};

/* written by the child */
static struct shared {
	unsigned long calls;
	bool used;
	bool again; /* true in the second attempt, which has no fault */
	char call[32];
	int error;
	char why[1024];
	void *fault[FAULT_FRAMES];
	int fault_frames;
	void *here[FAULT_FRAMES]; /* where it crashed or hung */
	int here_frames;
	struct fault_held leaks[LEAKS_MAX];
	size_t leak_count;
} * shared;

/* ---- the child ---- */

/* NOLINTBEGIN(bugprone-signal-handler,cert-sig30-c): a process that crashes or hangs has nothing to lose */
static void
remember_fault(void)
{
	shared->calls = fault_calls();
	shared->used = fault_used();
	shared->error = fault_errno();
	snprintf(shared->call, sizeof(shared->call), "%s", fault_call());
	shared->fault_frames = fault_frames(shared->fault);
}
/* NOLINTEND(bugprone-signal-handler,cert-sig30-c) */

_Noreturn void
wrong(const char *format, ...)
{
	static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
	va_list ap;

	pthread_mutex_lock(&first); /* never released: only one thread reports */
	va_start(ap, format);
	if (shared)
		vsnprintf(shared->why, sizeof(shared->why), format, ap);
	else
		vfprintf(stderr, format, ap);
	va_end(ap);
	if (shared && !shared->again)
		remember_fault();
	if (shared)
		shared->here_frames = backtrace(shared->here, FAULT_FRAMES);
	_exit(EXIT_WRONG);
}

_Noreturn void
stopped(void)
{
	remember_fault();
	_exit(EXIT_STOPPED);
}

_Noreturn void
skipped(void)
{
	_exit(EXIT_SKIP);
}

static void
on_signal(int sig)
{
	/* NOLINTNEXTLINE(bugprone-signal-handler,cert-sig30-c): as above */
	shared->here_frames = backtrace(shared->here, FAULT_FRAMES);
	if (sig == SIGUSR1) {
		remember_fault();
		_exit(EXIT_WRONG);
	}
	signal(sig, SIG_DFL);
	raise(sig);
}

static void log_to_stderr(enum rpma_log_level level, const char *file, const int line, const char *function,
	const char *format, ...) __attribute__((format(printf, 5, 6)));

static void
log_to_stderr(enum rpma_log_level level, const char *file, const int line, const char *function,
	const char *format, ...)
{
	char text[1024];
	va_list ap;

	(void)level;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	fprintf(stderr, "  | %s:%d %s: %s", file ? file : "", line, function, text);
}

/* The device keeps the credentials of the environment until it changes: so release them before counting. */
static void
forget_credentials(void)
{
	static const char *const names[] = { "SOFTRDMA_TLS_CERT", "SOFTRDMA_TLS_KEY", "SOFTRDMA_TLS_CA",
		"SOFTRDMA_TLS_PSK" };
	char *values[sizeof(names) / sizeof(names[0])] = { NULL };
	struct softrdma_credentials *none;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (getenv(names[i]))
			values[i] = strdup(getenv(names[i]));
		unsetenv(names[i]);
	}
	if (softrdma_credentials_of_environment(&none) || none)
		wrong("there are credentials for TLS without an environment that names them");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (values[i])
			setenv(names[i], values[i], 1);
		free(values[i]);
	}
}

static void
nothing_left(int fds, int threads)
{
	int n = count_settle(count_threads, threads, SETTLE_MS);

	forget_credentials();

	if (n > threads)
		wrong("%d threads are left behind", n - threads);
	shared->leak_count = fault_held(shared->leaks, LEAKS_MAX);
	if (shared->leak_count)
		wrong("%zu allocations are left behind", shared->leak_count);
	n = count_settle(count_fds, fds, SETTLE_MS);
	if (n > fds)
		wrong("%d descriptors are left behind", n - fds);
}

static void
attempt(const struct run *run, unsigned long k)
{
	struct world w;
	bool done = true;

	world_open(&w, &run->scenario->plan, run->dir);
	if (run->scenario->conformance)
		w.domains = FAULT_SYSTEM;
	fault_arm(k, run->from ? FAULT_FROM : FAULT_ONCE, w.domains, run->seed);
	if (k)
		fault_also(run->also);
	if (run->scenario->conformance)
		conformance_run(run->scenario->conformance, run->dir);
	else
		done = run->scenario->run(&w);
	if (!done && !fault_used())
		wrong("a step has failed without a fault");
	world_close(&w);
	fault_disarm();
}

static _Noreturn void
child_main(const struct run *run, int log)
{
	static const int signals[] = { SIGUSR1, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };
	int fds, threads;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)fcntl(log, F_SETFL, O_APPEND); /* else the library takes it for a file of the program's own */
	dup2(log, STDERR_FILENO);
	setvbuf(stderr, NULL, _IONBF, 0);
	/* a thread that polls makes a different number of calls in each run */
	setenv("SOFTRDMA_SPIN_US", "0", 0);
	/* and so does another number of threads */
	setenv("SOFTRDMA_THREADS", "1", 0);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], on_signal);
	rpma_log_set_function(log_to_stderr);
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_INFO);
	fds = count_fds();
	threads = count_threads();

	attempt(run, run->k);
	remember_fault();
	nothing_left(fds, threads);
	shared->again = true;
	attempt(run, 0);
	nothing_left(fds, threads);
	_exit(EXIT_SUCCESS);
}

/* ---- the parent ---- */

static void
show_frames(const char *title, void *const *frames, int count)
{
	char command[1024];
	char line[1024];
	int len = snprintf(command, sizeof(command), "addr2line -sfpie /proc/%d/exe", (int)getpid());
	FILE *f;

	/* the call instruction ends right before the return address */
	for (int i = 0; i < count && len < (int)sizeof(command) - 32; i++)
		len += snprintf(command + len, sizeof(command) - (size_t)len, " %p",
			(void *)((char *)frames[i] - 1));
	if (count == 0)
		return;
	printf("  %s:\n", title);
	fflush(stdout);
	f = popen(command, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (!strstr(line, "??") && !strstr(line, "fault.c:"))
			printf("    %s", line);
	}
	if (f)
		pclose(f);
}

static void
show_log(int log)
{
	char buf[LOG_SHOWN];
	off_t size = lseek(log, 0, SEEK_END);
	ssize_t n = pread(log, buf, sizeof(buf), size > LOG_SHOWN ? size - LOG_SHOWN : 0);

	if (n > 0)
		fwrite(buf, 1, (size_t)n, stdout);
}

static void
explain(const struct run *run, int status, bool timed_out, int log)
{
	printf("not ok - %s: call %lu fails %s", run->scenario->name, run->k,
		run->from ? "and all that follow" : "once");
	if (run->also)
		printf(", and call %lu", run->also);
	printf(", seed %u%s: %s (%s)\n", run->seed, shared->again ? ", in the attempt after it" : "",
		shared->call, shared->error ? strerror(shared->error) : "no fault");
	if (timed_out)
		printf("  it hangs\n");
	else if (WIFSIGNALED(status))
		printf("  it ends by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (shared->why[0])
		printf("  %s\n", shared->why);
	else
		printf("  it ends with status %d\n", WEXITSTATUS(status));
	show_frames("the call that fails", shared->fault, shared->fault_frames);
	show_frames("where that was seen", shared->here, shared->here_frames);
	for (size_t i = 0; i < shared->leak_count && i < LEAKS_MAX; i++)
		show_frames("left behind", shared->leaks[i].frames, shared->leaks[i].frame_count);
	show_log(log);
	fflush(stdout);
}

static bool
ended(int pidfd, int timeout_ms)
{
	struct pollfd pfd = { .fd = pidfd, .events = POLLIN };
	int n;

	do
		n = poll(&pfd, 1, timeout_ms);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

/* waits for the child; false if it was killed because it did not end in time */
static bool
await(pid_t pid, int *status)
{
	int pidfd = pidfd_open(pid, 0);
	bool in_time = ended(pidfd, (int)deadline_scaled(DEADLINE_S) * 1000);

	if (!in_time) {
		kill(pid, SIGUSR1);
		ended(pidfd, LAST_WORDS_MS);
		kill(pid, SIGKILL);
	}
	waitpid(pid, status, 0);
	close(pidfd);
	return in_time;
}

enum run_result
run_one(struct run *run)
{
	int log = memfd_create("torture-log", MFD_CLOEXEC);
	bool in_time;
	int status;
	pid_t pid;
	enum run_result result = RUN_PASSED;

	if (!shared)
		shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			0);
	if (shared == MAP_FAILED || log < 0) {
		perror("torture");
		exit(EXIT_FAILURE);
	}
	memset(shared, 0, sizeof(*shared));
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		child_main(run, log);
	if (pid < 0) {
		perror("torture: fork");
		exit(EXIT_FAILURE);
	}
	in_time = await(pid, &status);
	run->calls = shared->calls;
	run->used = shared->used;
	if (in_time && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIP) {
		result = RUN_SKIPPED;
	} else if (!in_time || !WIFEXITED(status) ||
		(WEXITSTATUS(status) != EXIT_SUCCESS && WEXITSTATUS(status) != EXIT_STOPPED)) {
		result = RUN_FAILED;
		explain(run, status, !in_time, log);
	}
	close(log);
	return result;
}
