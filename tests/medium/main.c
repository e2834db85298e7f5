/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * faults_and_cuts -- is every acknowledged record there after a fault and a power cut?
 *
 * Whole programs write records: the replicated log, and the examples 14 and 16. The flushes of their servers
 * reach a second file, the medium (to_medium.c), so a power cut needs no root: it replaces the file by its
 * medium. log.c and examples.c say what is tried.
 */

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deadline.h"
#include "driver.h"
#include "site.h"
#include "tasks.h"

#define JOBS_MAX 32
#define TASKS_MAX 8192
#define FINDINGS_SHOWN 40
#define TASK_S 1800
#define PREPARE_S 600

struct totals *totals;
char task_name[TASK_NAME_LEN];
char task_detail[TASK_NAME_LEN];

static struct task *tasks;
static size_t task_count;
static size_t candidates; /* those that --sample has left out, too */
static unsigned long found_in_task;
static atomic_ulong *next_task; /* shared */

static bool quick;
static bool exhaustive;
static bool random_logs;
static bool control;
static unsigned long jobs = 4;
static unsigned long sample = 1;
static unsigned long first_log = 1;

/* --- findings --- */

static const char *const finding_names[FINDINGS] = { "LOST", "WRONG", "REFUSED", "FAILED" };

void
report(enum finding finding, const char *format, ...)
{
	char text[2 * SAID_LEN];
	va_list args;

	found_in_task++;
	if (atomic_fetch_add(&totals->found[finding], 1) >= FINDINGS_SHOWN || (control && finding == LOST))
		return;
	int len = snprintf(text, sizeof(text), "%s: %s%s: ", finding_names[finding], task_name, task_detail);
	va_start(args, format);
	vsnprintf(text + len, sizeof(text) - (size_t)len, format, args);
	va_end(args);
	printf("%s\n", text);
	fflush(stdout);
}

void
give_up(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", task_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/* --- tasks --- */

bool
task_add(const struct task *task)
{
	if (!driver_admits(task->name) || candidates++ % sample)
		return false;
	if (task_count == TASKS_MAX)
		give_up("more than %d tasks", TASKS_MAX);
	tasks[task_count++] = *task;
	return true;
}

static void
run_task(const struct task *task)
{
	snprintf(task_name, TASK_NAME_LEN, "%s", task->name);
	task_detail[0] = '\0';
	deadline_start(task_name, TASK_S);
	found_in_task = 0;
	task->run(task);
	deadline_stop();
	if (found_in_task == 0) {
		totals->spared++;
		if (control)
			printf("nothing is lost: %s\n", task->name);
	}
	totals->tasks++;
}

static void
run_random_log(unsigned long number)
{
	snprintf(task_name, TASK_NAME_LEN, "random log %lu of seed %lu", number, driver.seed);
	deadline_start(task_name, TASK_S);
	log_random(number);
	deadline_stop();
	totals->tasks++;
}

static bool
has_found_nothing(void)
{
	return totals->found[LOST] + totals->found[WRONG] + totals->found[REFUSED] == 0;
}

static _Noreturn void
work(unsigned worker)
{
	char folder[32];
	unsigned long i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(folder, sizeof(folder), "worker%u", worker);
	site_open(folder, worker);
	if (random_logs)
		while (!driver_is_time_over() && has_found_nothing())
			run_random_log(atomic_fetch_add(next_task, 1));
	else
		while ((i = atomic_fetch_add(next_task, 1)) < task_count && !driver_is_time_over())
			run_task(&tasks[i]);
	exit(0);
}

static void
save(void)
{
	driver_save("%lu %lu %lu %lu %lu %lu %lu %lu %lu\n", atomic_load(next_task), totals->tasks,
		totals->runs, totals->struck, totals->states, totals->cuts, totals->recoveries,
		totals->records, totals->stalled);
}

static void
load(void)
{
	unsigned long n[9];
	char line[DRIVER_LINE_MAX];
	FILE *f = driver_open_resume(line, "%s", "");

	if (f == NULL)
		return;
	if (sscanf(line, "%lu %lu %lu %lu %lu %lu %lu %lu %lu", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5],
		    &n[6], &n[7], &n[8]) != 9)
		give_up("the resume file cannot be read");
	fclose(f);
	*next_task = n[0];
	totals->tasks = n[1];
	totals->runs = n[2];
	totals->struck = n[3];
	totals->states = n[4];
	totals->cuts = n[5];
	totals->recoveries = n[6];
	totals->records = n[7];
	totals->stalled = n[8];
}

/* waits for all workers; true if each has ended by itself */
static bool
run_workers(void)
{
	bool good = true;

	for (unsigned i = 0; i < jobs; i++) {
		pid_t pid = fork();
		if (pid < 0)
			give_up("no process: %s", strerror(errno));
		if (pid == 0)
			work(i);
	}
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);
		if (pid < 0 && errno == ECHILD)
			return good;
		if (pid > 0 && status != 0)
			good = false;
		if (pid == 0) {
			driver_progress(totals->tasks, task_count, "%lu lost", totals->found[LOST]);
			if (random_logs)
				save();
			usleep(200000);
		}
	}
}

/* --- all of it --- */

static const struct driver_option options[] = {
	{ "exhaustive", NULL, "each flush and each work request fails, in each situation",
		.flag = &exhaustive },
	{ "quick", NULL, "each of them, in the situations in which most is at stake (default)",
		.flag = &quick },
	{ "random", NULL, "long logs with random faults, kills and power cuts; ends at the first loss",
		.flag = &random_logs },
	{ "control", NULL, "flushes reach no medium: losses must be found", .flag = &control },
	{ "sample", "N", "do every N-th task only", .number = &sample, .min = 1, .max = TASKS_MAX },
	{ "jobs", "N", "number of workers", .number = &jobs, .min = 1, .max = JOBS_MAX },
	{ "log", "N", "number of the first random log", .number = &first_log, .min = 1, .max = UINT32_MAX },
	{ DRIVER_SEED },
	{ DRIVER_SECONDS, .help = "begin nothing new after T seconds" },
	{ DRIVER_RESUME, .help = "with --random: keep the figures in FILE, and go on from there" },
	{ DRIVER_ONLY },
	{ DRIVER_LIST },
	{ 0 },
};

static const struct driver_program program = { "faults_and_cuts",
	"Makes flushes and work requests of logs fail, cuts the power of their servers, and looks for acknowledged "
	"records.",
	options };

static void
remove_folder(const char *folder)
{
	static struct proc p;
	char *rm[] = { "rm", "-rf", (char *)(uintptr_t)folder, NULL };

	if (proc_start(&p, rm, NULL))
		return;
	(void)proc_wait(&p, 60000);
	proc_kill(&p);
}

static void *
shared(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		give_up("no memory");
	return memory;
}

static void
prepare(void)
{
	deadline_start("preparing", PREPARE_S);
	log_make_bases();
	if (!random_logs) {
		examples_make_bases();
		make_folder("probe");
		if (chdir("probe"))
			give_up("probe: %s", strerror(errno));
		log_add_tasks(!exhaustive);
		examples_add_tasks(!exhaustive);
		if (chdir(".."))
			give_up("..: %s", strerror(errno));
		driver_refuse_if_none(task_count, "task");
	}
	deadline_stop();
}

/* the control: in each task the driver must find what flushes that do nothing lose, and nothing else */
static int
judge_control(bool workers_good)
{
	const unsigned long other = totals->found[WRONG] + totals->found[REFUSED] + totals->found[FAILED];

	return driver_close(workers_good && totals->tasks > 0 && totals->spared == 0 && other == 0,
		"control: no flush reached a medium: %lu tasks, %lu of them without a loss, %lu losses, %lu other findings",
		totals->tasks, totals->spared, totals->found[LOST], other);
}

static int
judge(bool workers_good)
{
	const unsigned long bad =
		totals->found[LOST] + totals->found[WRONG] + totals->found[REFUSED] + totals->found[FAILED];

	return driver_close(workers_good && bad == 0,
		"%lu tasks: %lu runs, a fault in %lu of them, %lu states after power cuts of %lu files, %lu recoveries, "
		"%lu records acknowledged: %lu lost, %lu wrong, %lu refused, %lu failed; %lu clients ended by themselves, "
		"%lu writers stalled",
		totals->tasks, totals->runs, totals->struck, totals->states, totals->cuts, totals->recoveries,
		totals->records, totals->found[LOST], totals->found[WRONG], totals->found[REFUSED],
		totals->found[FAILED], totals->refused, totals->stalled);
}

int
main(int argc, char *argv[])
{
	char folder[] = "faults_and_cuts.XXXXXX";

	driver_parse(&program, argc, argv);
	driver_excludes("random", "exhaustive|quick|control|only|list|sample");
	driver_excludes("exhaustive", "quick");
	driver_needs("resume", "random");
	driver_needs("log", "random");
	signal(SIGPIPE, SIG_IGN);
	setenv("RPMA_DEVICE", "soft", 1);
	totals = shared(sizeof(*totals));
	next_task = shared(sizeof(*next_task));
	tasks = calloc(TASKS_MAX, sizeof(*tasks));
	if (tasks == NULL)
		give_up("no memory");
	*next_task = random_logs ? first_log : 0;
	site_is_control = control;
	load();
	driver_print_seed();
	if (mkdtemp(folder) == NULL)
		give_up("no folder: %s", strerror(errno));
	site_open(folder, JOBS_MAX);
	snprintf(task_name, TASK_NAME_LEN, "preparing");
	prepare();
	if (driver.list) {
		for (size_t i = 0; i < task_count; i++)
			puts(tasks[i].name);
		task_count = 0;
	}
	/* what preparing did is not counted */
	totals->runs = totals->struck = totals->recoveries = totals->cuts = 0;
	bool good = driver.list || run_workers();
	if (random_logs)
		save();
	const bool keep = random_logs && !has_found_nothing();
	if (keep)
		printf("the files are kept in %s\n", folder);
	if (chdir("..") == 0 && !keep)
		remove_folder(folder);
	free(tasks);
	if (driver.list)
		return 0;
	return control ? judge_control(good) : judge(good);
}
