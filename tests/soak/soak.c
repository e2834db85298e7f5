/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* soak.c -- starts the processes, measures them when they are at rest, and judges the figures: see soak.h */

#include <dirent.h>
#include <errno.h>
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
#include "driver.h"
#include "soak.h"

/* a shorter run says nothing about the growth of memory in an hour */
#define MEASURED_SECONDS_MIN 600 /* --help names these three as well */
#define GROWTH_MAX 0.5           /* percent an hour */
#define DRIFT_MAX 10.0           /* percent of p99, from the first third to the last */
#define PROCESSES_MAX (1 + SOAK_CLIENTS_MAX)

static unsigned long client_count = 2;
static bool measure;

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

/* ---- memory, descriptors and threads of a process ---- */

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

	/* exact: VmRSS of "status" may be off by some pages for each processor */
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

/* ---- processes ---- */

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
start_all(void)
{
	int ready[2];
	char byte;

	if (pipe(ready))
		soak_fail("pipe");
	pids[0] = start();
	if (pids[0] == 0) {
		close(ready[0]);
		soak_serve(shared, driver.dir, ready[1]);
		exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		soak_fail("the server has not come up");
	close(ready[0]);
	for (unsigned i = 0; i < client_count; i++) {
		pids[1 + i] = start();
		if (pids[1 + i] == 0) {
			soak_be_client(shared, i, driver.seed,
				(unsigned)(driver.seconds * 1000 / SOAK_WINDOWS));
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

/* a process that ends before the last window is a failure */
static void
await_rest(void)
{
	const struct timespec moment = { .tv_nsec = 10000000 };
	int status;

	while (shared->resting < client_count || shared->connected) {
		if (waitpid(-1, &status, WNOHANG) > 0) {
			stop_all();
			soak_fail("a process has ended");
		}
		nanosleep(&moment, NULL);
	}
}

static bool
wait_for_all(void)
{
	bool good = true;

	for (unsigned i = 0; i < 1 + client_count; i++) {
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
p99_us(unsigned window)
{
	uint64_t total = 0, seen = 0;

	for (unsigned c = 0; c < client_count; c++)
		for (unsigned b = 0; b < SOAK_BUCKETS; b++)
			total += shared->clients[c].latencies[window].count[b];
	for (unsigned b = 0; b < SOAK_BUCKETS; b++) {
		for (unsigned c = 0; c < client_count; c++)
			seen += shared->clients[c].latencies[window].count[b];
		if (seen * 100 > total * 99)
			return (double)soak_bucket_ns(b) / 1000;
	}
	return 0;
}

static double
mean_p99(unsigned from, unsigned to)
{
	double sum = 0;

	for (unsigned i = from; i < to; i++)
		sum += p99_us(i);
	return sum / (to - from);
}

/* slope of the least squares line through the windows after the warm-up: percent an hour */
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
judge_process(unsigned process)
{
	const struct rest *windows = rests[process];
	const double grows = growth(windows, (double)driver.seconds / SOAK_WINDOWS);
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
	if (windows[SOAK_WINDOWS - 1].threads > windows[SOAK_WARM_UP].threads + 4) /* threads for flushes */
		good = complain("%s: threads become more: %.0f", who,
			(double)windows[SOAK_WINDOWS - 1].threads);
	if (driver.seconds >= MEASURED_SECONDS_MIN && grows > GROWTH_MAX)
		good = complain("%s: memory grows by %.2f %% an hour", who, grows);
	return good;
}

static int
judge(bool good)
{
	unsigned long operations = 0, connections = 0, broken = 0, bytes = 0;
	const double first = mean_p99(SOAK_WARM_UP, SOAK_WARM_UP + 3);
	const double last = mean_p99(SOAK_WINDOWS - 3, SOAK_WINDOWS);
	const double drift = first > 0 ? (last / first - 1) * 100 : 0;

	for (unsigned i = 0; i < client_count; i++) {
		operations += shared->clients[i].operations;
		connections += shared->clients[i].connections;
		broken += shared->clients[i].broken;
		bytes += shared->clients[i].bytes;
	}
	for (unsigned i = 0; i < 1 + client_count; i++)
		good &= judge_process(i);
	printf("p99 of small writes and reads: %.1f us, at the end %.1f us: %+.1f %%\n", first, last, drift);
	if (measure && drift > DRIFT_MAX)
		good = complain("p99 rises by %.1f %%", drift);
	return driver_close(good,
		"%lu seconds, %lu operations, %.1f GB, %lu connections, %lu of them broken by faults",
		driver.seconds, operations, (double)bytes / 1e9, connections, broken);
}

/* ---- the command ---- */

static const struct driver_option options[] = {
	{ DRIVER_SECONDS, .help = "seconds of work; from 600 on memory may grow by at most 0.5 % an hour" },
	{ "clients", "N", "number of client processes", .number = &client_count, .min = 1,
		.max = SOAK_CLIENTS_MAX },
	{ DRIVER_SEED },
	{ DRIVER_DIR, .help = "directory for the server's file" },
	{ "measure", NULL, "p99 may rise by at most 10 %; for a machine with nothing else to do",
		.flag = &measure },
	{ 0 },
};

static const struct driver_program soak = { "soak",
	"A server and its clients work while faults break some connections. Nothing may be lost, arrive twice or\n"
	"differ from what was written, and the descriptors of processes at rest must stay the same.",
	options };

static void
show_progress(unsigned window)
{
	unsigned long operations = 0;

	for (unsigned i = 0; i < client_count; i++)
		operations += shared->clients[i].operations;
	driver_progress(window, SOAK_WINDOWS, "windows, %lu operations", operations);
}

int
main(int argc, char *argv[])
{
	bool good;

	driver.seconds = 6;
	driver_parse(&soak, argc, argv);
	driver_print_seed();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		soak_fail("no memory");
	deadline_start("soak", (unsigned)driver.seconds + 120);
	start_all();
	for (unsigned window = 0; window < SOAK_WINDOWS; window++) {
		await_rest();
		for (unsigned i = 0; i < 1 + client_count; i++)
			rests[i][window] = look_at(pids[i]);
		show_progress(window + 1);
		shared->resting = 0;
		shared->window++;
	}
	driver_clear_progress();
	good = wait_for_all();
	deadline_stop();
	return judge(good);
}
