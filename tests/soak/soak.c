/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* soak.c -- starts the processes, counts what they have when they are at rest, and judges: see soak.h */

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <librpma.h>

#include "deadline.h"
#include "options.h"
#include "soak.h"

/* memory of so short a run says nothing about an hour */
#define MEASURED_SECONDS_MIN 600
#define GROWTH_MAX 0.5 /* percent an hour */
#define DRIFT_MAX 10.0 /* percent of p99, from the first third to the last */
#define PROCESSES_MAX (1 + SOAK_CLIENTS_MAX)

struct settings {
	unsigned long seconds;
	unsigned long clients;
	unsigned long seed;
	bool measure;
	const char *dir;
};

struct rest {
	unsigned long rss_kib, fds, threads;
};

static pid_t pids[PROCESSES_MAX]; /* the server, and the clients */
static struct rest rests[PROCESSES_MAX][SOAK_WINDOWS];
static struct soak_shared *shared;

void
soak_fail(const char *what)
{
	fprintf(stderr, "soak: %s\n", what);
	exit(1);
}

void
soak_must(const char *what, int ret)
{
	if (ret == 0)
		return;
	fprintf(stderr, "soak: %s: %s: %s\n", what, rpma_err_2str(ret), rpma_errormsg());
	exit(1);
}

unsigned
soak_bucket(uint64_t ns)
{
	unsigned shift = 0;

	while (ns >> shift >= 128)
		shift++;
	return shift * 64 + (unsigned)(ns >> shift);
}

uint64_t
soak_bucket_ns(unsigned bucket)
{
	if (bucket < 128)
		return bucket;
	return (uint64_t)(64 + bucket % 64) << (bucket / 64 - 1);
}

/* ---- what a process has ---- */

static unsigned long
number_behind(const char *text, const char *name)
{
	const char *found = strstr(text, name);

	if (found == NULL)
		soak_fail(name);
	return strtoul(found + strlen(name), NULL, 10);
}

/* the text of /proc/<pid>/<name> */
static void
read_proc(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	FILE *file = fopen(path, "re");
	size_t len = file ? fread(text, 1, size - 1, file) : 0;
	if (len == 0)
		soak_fail("a process has gone");
	fclose(file);
	text[len] = '\0';
}

static struct rest
look_at(pid_t pid)
{
	struct rest rest = { 0 };
	char path[64], text[8192];

	/* counted page by page: what "status" says of it may be off by some pages of each processor */
	read_proc(pid, "smaps_rollup", text, sizeof(text));
	rest.rss_kib = number_behind(text, "\nRss:");
	read_proc(pid, "status", text, sizeof(text));
	rest.threads = number_behind(text, "\nThreads:");
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	DIR *dir = opendir(path);
	if (dir == NULL)
		soak_fail("a process has gone");
	while (readdir(dir))
		rest.fds++;
	closedir(dir);
	return rest;
}

/* ---- the course of it ---- */

static pid_t
start(void)
{
	fflush(NULL);
	pid_t pid = fork();

	if (pid < 0)
		soak_fail("fork");
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void
start_all(const struct settings *s)
{
	int ready[2];
	char byte;

	if (pipe(ready))
		soak_fail("pipe");
	pids[0] = start();
	if (pids[0] == 0) {
		close(ready[0]);
		soak_serve(shared, s->dir, ready[1]);
		exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		soak_fail("the server has not come up");
	close(ready[0]);
	for (unsigned i = 0; i < s->clients; i++) {
		pids[1 + i] = start();
		if (pids[1 + i] == 0) {
			soak_be_client(shared, i, s->seed, (unsigned)(s->seconds * 1000 / SOAK_WINDOWS));
			exit(0);
		}
	}
}

static void
stop_all(void)
{
	for (int i = 0; i < PROCESSES_MAX; i++)
		if (pids[i] > 0)
			kill(pids[i], SIGKILL);
}

/* nobody ends before the last window */
static void
await_rest(const struct settings *s)
{
	const struct timespec moment = { .tv_nsec = 10000000 };
	int status;

	while (shared->resting < s->clients || shared->connected) {
		if (waitpid(-1, &status, WNOHANG) > 0) {
			stop_all();
			soak_fail("a process has ended");
		}
		nanosleep(&moment, NULL);
	}
}

static bool
wait_for_all(const struct settings *s)
{
	bool good = true;

	for (unsigned i = 0; i < 1 + s->clients; i++) {
		int status;

		if (waitpid(pids[i], &status, 0) != pids[i] || status != 0) {
			fprintf(stderr, "soak: process %u has ended with status %#x\n", i, status);
			good = false;
		}
		pids[i] = 0;
	}
	return good;
}

/* ---- judging ---- */

static double
p99_us(const struct settings *s, unsigned window)
{
	uint64_t total = 0, seen = 0;

	for (unsigned c = 0; c < s->clients; c++)
		for (unsigned b = 0; b < SOAK_BUCKETS; b++)
			total += shared->clients[c].latencies[window].count[b];
	for (unsigned b = 0; b < SOAK_BUCKETS; b++) {
		for (unsigned c = 0; c < s->clients; c++)
			seen += shared->clients[c].latencies[window].count[b];
		if (seen * 100 > total * 99)
			return (double)soak_bucket_ns(b) / 1000;
	}
	return 0;
}

static double
mean_p99(const struct settings *s, unsigned from, unsigned to)
{
	double sum = 0;

	for (unsigned i = from; i < to; i++)
		sum += p99_us(s, i);
	return sum / (to - from);
}

/* how much the line of least squares through the windows behind the warm-up rises in an hour, in percent */
static double
growth(const struct rest *windows, double window_s)
{
	const unsigned n = SOAK_WINDOWS - SOAK_WARM_UP;
	double x_mean = (n - 1) / 2.0, y_mean = 0, xy = 0, xx = 0;

	for (unsigned i = 0; i < n; i++)
		y_mean += (double)windows[SOAK_WARM_UP + i].rss_kib / n;
	for (unsigned i = 0; i < n; i++) {
		xy += (i - x_mean) * ((double)windows[SOAK_WARM_UP + i].rss_kib - y_mean);
		xx += (i - x_mean) * (i - x_mean);
	}
	return xy / xx / window_s * 3600 / y_mean * 100;
}

__attribute__((format(printf, 1, 2))) static bool
complain(const char *format, ...)
{
	va_list args;

	printf("FAILED: ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	return false;
}

static bool
judge_process(const struct settings *s, unsigned process)
{
	const struct rest *windows = rests[process];
	const double grows = growth(windows, (double)s->seconds / SOAK_WINDOWS);
	const char *who = process ? "client" : "server";
	bool good = true;

	printf("%s: %lu to %lu KiB, %+.2f %% an hour; %lu descriptors, %lu threads\n", who,
		windows[SOAK_WARM_UP].rss_kib, windows[SOAK_WINDOWS - 1].rss_kib, grows,
		windows[SOAK_WINDOWS - 1].fds, windows[SOAK_WINDOWS - 1].threads);
	printf("%s, KiB and threads at the end of each window:", who);
	for (unsigned i = 0; i < SOAK_WINDOWS; i++)
		printf(" %lu/%lu", windows[i].rss_kib, windows[i].threads);
	printf("\n");
	for (unsigned i = SOAK_WARM_UP + 1; i < SOAK_WINDOWS; i++)
		if (windows[i].fds != windows[SOAK_WARM_UP].fds)
			good = complain("%s: another number of descriptors at rest: %lu", who,
				windows[i].fds);
	if (windows[SOAK_WINDOWS - 1].threads > windows[SOAK_WARM_UP].threads + 4) /* those for flushes */
		good = complain("%s: threads become more: %.0f", who,
			(double)windows[SOAK_WINDOWS - 1].threads);
	if (s->seconds >= MEASURED_SECONDS_MIN && grows > GROWTH_MAX)
		good = complain("%s: memory grows by %.2f %% an hour", who, grows);
	return good;
}

static bool
judge(const struct settings *s)
{
	unsigned long operations = 0, connections = 0, broken = 0, bytes = 0;
	const double first = mean_p99(s, SOAK_WARM_UP, SOAK_WARM_UP + 3);
	const double last = mean_p99(s, SOAK_WINDOWS - 3, SOAK_WINDOWS);
	const double drift = first > 0 ? (last / first - 1) * 100 : 0;
	bool good = true;

	for (unsigned i = 0; i < s->clients; i++) {
		operations += shared->clients[i].operations;
		connections += shared->clients[i].connections;
		broken += shared->clients[i].broken;
		bytes += shared->clients[i].bytes;
	}
	for (unsigned i = 0; i < 1 + s->clients; i++)
		good &= judge_process(s, i);
	printf("p99 of small writes and reads: %.1f us, at the end %.1f us: %+.1f %%\n", first, last, drift);
	if (s->measure && drift > DRIFT_MAX)
		good = complain("p99 rises by %.1f %%", drift);
	printf("%lu seconds, %lu operations, %.1f GB, %lu connections, %lu of them broken by faults\n",
		s->seconds, operations, (double)bytes / 1e9, connections, broken);
	return good;
}

/* ---- the command ---- */

static _Noreturn void
usage(int status)
{
	fprintf(status ? stderr : stdout,
		"usage: soak [--seconds N] [--clients N] [--seed S] [--dir DIRECTORY] [--measure]\n"
		"A server and some clients (2) work for N seconds (6): nothing may be lost, come twice, or be other\n"
		"than it was written, while some connections are broken by faults; descriptors of processes at rest\n"
		"are constant. From %d seconds on memory may grow by %.1f %% an hour.\n"
		"--measure: p99 may rise by %.0f %%; for a machine that has nothing else to do.\n",
		MEASURED_SECONDS_MIN, GROWTH_MAX, DRIFT_MAX);
	exit(status);
}

static void
parse(int argc, char *argv[], struct settings *s)
{
	static const struct option options[] = { { "seconds", required_argument, NULL, 's' },
		{ "clients", required_argument, NULL, 'c' }, { "seed", required_argument, NULL, 'e' },
		{ "dir", required_argument, NULL, 'd' }, { "measure", no_argument, NULL, 'm' },
		{ "help", no_argument, NULL, 'h' }, { 0 } };
	bool good = true;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			good &= option_number(optarg, 1, 86400, &s->seconds);
			break;
		case 'c':
			good &= option_number(optarg, 1, SOAK_CLIENTS_MAX, &s->clients);
			break;
		case 'e':
			good &= option_number(optarg, 0, UINT32_MAX, &s->seed);
			break;
		case 'd':
			s->dir = optarg;
			break;
		case 'm':
			s->measure = true;
			break;
		default:
			usage(c == 'h' ? 0 : 2);
		}
	}
	if (!good || optind != argc)
		usage(2);
}

static void
show_progress(const struct settings *s, unsigned window)
{
	unsigned long operations = 0;

	if (!isatty(STDERR_FILENO))
		return;
	for (unsigned i = 0; i < s->clients; i++)
		operations += shared->clients[i].operations;
	fprintf(stderr, "\r%u of %d windows, %lu operations ", window, SOAK_WINDOWS, operations);
	if (window == SOAK_WINDOWS)
		fputc('\n', stderr);
}

int
main(int argc, char *argv[])
{
	struct settings s = { .seconds = 6, .clients = 2, .seed = (uint32_t)time(NULL), .dir = "." };

	parse(argc, argv, &s);
	printf("seed %lu\n", s.seed);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		soak_fail("no memory");
	deadline_start("soak", (unsigned)s.seconds + 120);
	start_all(&s);
	for (unsigned window = 0; window < SOAK_WINDOWS; window++) {
		await_rest(&s);
		for (unsigned i = 0; i < 1 + s.clients; i++)
			rests[i][window] = look_at(pids[i]);
		show_progress(&s, window + 1);
		shared->resting = 0;
		shared->window++;
	}
	bool good = wait_for_all(&s);
	deadline_stop();
	return judge(&s) && good ? 0 : 1;
}
