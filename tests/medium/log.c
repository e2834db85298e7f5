/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * log.c -- apps/replicated-log under faults and power cuts
 *
 * A run begins with three files, of which the writer reaches two or three. One fault occurs in it: a flush of
 * a replica fails, or a work request of the writer. The writer must acknowledge all records nevertheless. Then
 * every process is killed, and each majority must recover the log, from copies of the files, with each subset
 * of its power cut:
 *
 *	- a writer that reaches only this majority begins with all acknowledged records, and appends one
 *	- the power of all is cut, and each majority must recover all of these
 *
 * The second step finds what the first one has counted as durable only because it was visible. Nothing here
 * knows the format of the log: a writer's file of acknowledgements tells how many records it has recovered,
 * and the reader prints them.
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "deadline.h"
#include "driver.h"
#include "site.h"
#include "tasks.h"

#define ACKS "acks"
#define ACKS_KEPT "acks.kept"
#define ACKS_RIVAL "acks.rival"
#define SIZE_SHORT "64K"
#define SIZE_LONG "2M"
#define LINES_MAX 2048
#define LINE_MAX_LEN 8192
#define TRIES_MAX 12      /* until a fault has hit the connection that it is meant for */
#define POSITIONS_MAX 512 /* of faults */

static struct program writer;
static struct program rival; /* a second writer of a random log */

/* --- the input: line i is the same in every log --- */

static char *input;
static size_t input_len;
static size_t ends[LINES_MAX + 1]; /* ends[n]: length of the first n lines */

/* len 0: each line has a length of its own */
static void
make_input(unsigned count, size_t len)
{
	free(input);
	input = malloc((size_t)count * LINE_MAX_LEN);
	if (input == NULL)
		give_up("no memory");
	input_len = 0;
	for (unsigned i = 0; i < count; i++) {
		size_t n = len ? len : i % 16 == 7 ? 5000 : 20 + i * 7919 % 100;
		ends[i] = input_len;
		int used = snprintf(input + input_len, LINE_MAX_LEN, "line %u ", i);
		memset(input + input_len + used, (int)('a' + i % 26), n - (size_t)used - 1);
		input_len += n;
		input[input_len - 1] = '\n';
	}
	ends[count] = input_len;
}

/* --- programs --- */

static bool
start_replica(const char *state, unsigned i, const char *faults)
{
	char *argv[] = { REPLICA, site_addr, hosts[i].port, (char *)(uintptr_t)state_file(state, i), NULL };

	return host_start(i, argv, faults);
}

struct writer_options {
	const char *ack_file;
	const char *window;
	bool resume;
	bool trust_empty;
	const char *faults;
	int timeout_s;
};

static void
start_writer_with(struct program *p, const struct writer_options *options)
{
	char timeout[16];
	char *argv[16] = { WRITER, "--timeout", timeout, "--window", (char *)(uintptr_t)options->window, "-a",
		(char *)(uintptr_t)options->ack_file };
	size_t count = 7;

	snprintf(timeout, sizeof(timeout), "%d", options->timeout_s);
	if (options->resume)
		argv[count++] = "--resume";
	if (options->trust_empty)
		argv[count++] = "--trust-empty";
	argv[count++] = (char *)(uintptr_t)hosts_list();
	argv[count] = NULL;
	program_start(p, argv, options->faults, false);
}

/* a writer of one record after the other, which begins the file of acknowledgements anew */
static void
start_writer(bool trust_empty, const char *faults)
{
	const struct writer_options options = {
		.ack_file = ACKS,
		.window = "1",
		.trust_empty = trust_empty,
		.faults = faults,
		.timeout_s = site_patience_ms() / 2000,
	};

	unlink(ACKS);
	start_writer_with(&writer, &options);
}

/* 0 if nothing is acknowledged */
static uint64_t
acknowledged_in(const char *ack_file)
{
	uint64_t records = 0;
	uint64_t bytes = 0;
	FILE *f = fopen(ack_file, "re");

	if (f == NULL)
		return 0;
	if (fscanf(f, "%" SCNu64 " %" SCNu64, &records, &bytes) != 2)
		records = 0;
	fclose(f);
	return records;
}

static uint64_t
acknowledged(void)
{
	return acknowledged_in(ACKS);
}

static void
pause_ms(unsigned ms)
{
	const struct timespec pause = { .tv_nsec = (long)ms * 1000000 };

	nanosleep(&pause, NULL);
}

/* the records of a log, as the reader prints them; NULL if it refuses the log */
static char *
read_log(const char *path, size_t *len)
{
	static struct program reader;
	char *argv[] = { "/bin/sh", "-c", "\"$1\" \"$2\" >read", "sh", READER, (char *)(uintptr_t)path,
		NULL };

	program_start(&reader, argv, NULL, false);
	if (program_end(&reader, site_patience_ms()) != 0) {
		report(WRONG, "%s: the reader refuses it:\n%s", path, reader.said);
		return NULL;
	}
	return file_read("read", len);
}

/* the log has all of this, and with `more` perhaps also the lines that follow */
static bool
log_holds(const char *path, const char *text, size_t text_len, bool more)
{
	size_t len;
	char *log = read_log(path, &len);
	bool good = log && len >= text_len && memcmp(log, text, text_len) == 0 && (more || len == text_len);

	if (good && more)
		good = len <= input_len && memcmp(log, input, len) == 0;
	free(log);
	return good;
}

/* --- recovery --- */

enum recovered { RECOVERED, REFUSES, TORN };

/*
 * A writer recovers the log of these replicas, and appends one line if it is given. *count is what it has
 * acknowledged. Everything is killed afterwards.
 */
static enum recovered
recover(const char *state, unsigned up, bool trust_empty, const char *line, uint64_t *count)
{
	enum recovered result = RECOVERED;

	for (unsigned i = 0; i < HOSTS && result == RECOVERED; i++)
		if (up & 1u << i && !start_replica(state, i, NULL)) {
			report(WRONG, "a replica refuses its file in %s:\n%s", state, hosts[i].program.said);
			result = TORN;
		}
	if (result == RECOVERED) {
		start_writer(trust_empty, NULL);
		if (line)
			(void)proc_write(&writer.proc, line, strlen(line));
		proc_close_in(&writer.proc);
		if (program_end(&writer, site_patience_ms()) != 0)
			result = REFUSES;
		program_kill(&writer);
		*count = acknowledged();
	}
	hosts_kill();
	totals->recoveries++;
	return result;
}

static const char *
set_2str(unsigned set)
{
	static char texts[4][2 * HOSTS + 8];
	static unsigned next;
	char *text = texts[next++ % 4];

	text[0] = '\0';
	for (unsigned i = 0; i < HOSTS; i++)
		if (set & 1u << i)
			sprintf(text + strlen(text), "%s%u", text[0] ? "+" : "", i);
	return text[0] ? text : "none";
}

static bool
is_majority(unsigned set)
{
	return (unsigned)__builtin_popcount(set) == MAJORITY;
}

/* after a power cut of all, each majority must have exactly this */
static void
check_again(const char *state, const char *before, const char *text, uint64_t records, bool trust_empty)
{
	for (unsigned up = 0; up <= ALL_HOSTS; up++) {
		uint64_t count = 0;

		if (!is_majority(up))
			continue;
		state_copy(state, "again", ALL_HOSTS);
		enum recovered how = recover("again", up, trust_empty, NULL, &count);
		if (how == REFUSES)
			report(REFUSED, "%s; one more record, power cut of all, %s refused:\n%s", before,
				set_2str(up), writer.said);
		if (how != RECOVERED)
			continue;
		if (count < records) {
			report(LOST,
				"%s; one more record, power cut of all, %s recover %" PRIu64 " of %" PRIu64
				" acknowledged records",
				before, set_2str(up), count, records);
			continue;
		}
		for (unsigned i = 0; i < HOSTS; i++)
			if (up & 1u << i && !log_holds(state_file("again", i), text, strlen(text), false))
				report(WRONG,
					"%s; one more record, power cut of all, %s recover something else",
					before, set_2str(up));
	}
}

/* a majority recovers the state after a power cut of some; with `extra`, it appends that */
static void
check_majority(const char *state, unsigned up, unsigned cut, uint64_t records, bool trust_empty)
{
	static const char extra[] = "one record more\n";
	char before[128];
	uint64_t count = 0;

	snprintf(before, sizeof(before), "power cut of %s, recovered by %s", set_2str(cut), set_2str(up));
	totals->states++;
	state_copy(state, "check", cut);
	enum recovered how = recover("check", up, trust_empty, extra, &count);
	if (how == REFUSES)
		report(REFUSED, "%s: refused:\n%s", before, writer.said);
	if (how != RECOVERED)
		return;
	if (count < records + 1) {
		report(LOST, "%s: %" PRIu64 " of %" PRIu64 " acknowledged records", before, count - 1,
			records);
		return;
	}

	size_t len = count - 1 <= LINES_MAX ? ends[count - 1] : 0;
	char *text = malloc(len + sizeof(extra));
	if (text == NULL)
		give_up("no memory");
	memcpy(text, input, len);
	memcpy(text + len, extra, sizeof(extra));
	for (unsigned i = 0; i < HOSTS; i++)
		if (up & 1u << i && !log_holds(state_file("check", i), text, strlen(text), false))
			report(WRONG, "%s: replica %u has something else", before, i);
	check_again("check", before, text, count, trust_empty);
	free(text);
}

/* each majority, with each subset of its power cut that makes a difference */
static void
check_state(const char *state, uint64_t records, bool trust_empty)
{
	unsigned lossy = 0;

	for (unsigned i = 0; i < HOSTS; i++)
		lossy |= state_would_lose(state, i) ? 1u << i : 0;
	for (unsigned up = 0; up <= ALL_HOSTS; up++)
		for (unsigned cut = 0; is_majority(up) && cut <= ALL_HOSTS; cut++)
			if ((cut & ~(lossy & up)) == 0)
				check_majority(state, up, cut, records, trust_empty);
}

/* --- short logs: each fault --- */

struct log_config {
	const char *name;
	const char *base; /* state that the runs begin with */
	unsigned known;   /* records of it */
	size_t line_len;
	unsigned up;       /* the replicas that the writers reach */
	int killed_at_one; /* the replica that is killed after the first new record was acknowledged, or -1 */
	unsigned writers;  /* one after the other */
	unsigned records;  /* of each */
	bool succeeded;    /* the writer is killed by the first fault, and another one takes over */
	bool quick;        /* its faults are in the quick form */
	unsigned quick_victims; /* replicas whose flushes fail in the quick form */
	bool quick_requests;
};

#define LONG_LINE 5000 /* more than a page: what is flushed for the next record does not contain this one */
#define SHORT_LINE 40

/* clang-format off */
static const struct log_config configs[] = {
	/*
	 * name, base, known, line_len, up, killed_at_one, writers, records, succeeded, quick, quick_victims,
	 * quick_requests
	 */
	/* the third replica has never been there */
	{ "new", "new", 0, SHORT_LINE, 3, -1, 1, 2, false, true, 1, true },
	/* it has the first record */
	{ "old", "one", 1, SHORT_LINE, 3, -1, 1, 2, false, true, 1, true },
	{ "old-pages", "one-pages", 1, LONG_LINE, 3, -1, 1, 2, false, true, 1, false },
	/* the replicas live on, and the next writer finds what the first one has left */
	{ "successor", "one", 1, SHORT_LINE, 3, -1, 1, 2, true, true, 1, false },
	{ "successor-pages", "one-pages", 1, LONG_LINE, 3, -1, 1, 2, true, false, 0, false },
	{ "successor-new", "new", 0, SHORT_LINE, 3, -1, 1, 1, true, false, 0, false },
	/* a replica that lacks records of the other one is brought up to date, while a third one is away */
	{ "behind", "behind", 3, SHORT_LINE, 5, -1, 1, 1, false, true, 4, true },
	{ "behind-pages", "behind-pages", 3, LONG_LINE, 5, -1, 1, 1, false, false, 0, false },
	/* the third replica dies in the middle */
	{ "dies", "one", 1, SHORT_LINE, 7, 2, 1, 3, false, false, 0, false },
	{ "dies-pages", "one-pages", 1, LONG_LINE, 7, 2, 1, 3, false, false, 0, false },
	{ "all", "one", 1, SHORT_LINE, 7, -1, 1, 2, false, false, 0, false },
	/* one writer after the other, on connections 1, 2 and 3 of each replica */
	{ "writers", "one", 1, SHORT_LINE, 3, -1, 3, 1, false, true, 1, false },
	{ "writers-pages", "new-pages", 0, LONG_LINE, 3, -1, 3, 1, false, false, 0, false },
};
/* clang-format on */

/* an empty replica is new, and has not lost its log */
static bool
begins_new(const struct log_config *c)
{
	return c->known == 0;
}

/* records that are acknowledged at the end of a run */
static unsigned
all_records(const struct log_config *c)
{
	return c->known + c->writers * c->records + c->succeeded;
}

#define CONFIGS (sizeof(configs) / sizeof(configs[0]))

struct run {
	const struct log_config *config;
	const char *host_faults;
	unsigned victims;          /* hosts with these faults */
	const char *writer_faults; /* of the first writer */
	bool is_probe;             /* ends at the first fault */
	bool stops_at_fault;       /* the writer does */
	/* results */
	bool host_struck;
	bool writer_struck;
	bool ended; /* everything was acknowledged */
};

static bool
struck(const struct run *run)
{
	return run->host_struck || run->writer_struck;
}

static void
look_for_faults(struct run *run)
{
	program_drain(&writer);
	run->writer_struck |= writer.struck;
	for (unsigned i = 0; i < HOSTS; i++) {
		program_drain(&hosts[i].program);
		run->host_struck |= hosts[i].program.struck;
	}
}

/* false if the run is over */
static bool
await_acknowledged(struct run *run, uint64_t wanted)
{
	const int64_t end = now_ms() + site_patience_ms();

	while (acknowledged() < wanted) {
		look_for_faults(run);
		if (run->stops_at_fault && struck(run))
			return false;
		if (now_ms() > end || !program_runs(&writer))
			return false;
		pause_ms(1);
	}
	return true;
}

/* a writer writes lines from `from` on, one after the other */
static bool
write_lines(struct run *run, unsigned from, const char *faults)
{
	const struct log_config *c = run->config;

	start_writer(begins_new(c), faults);
	for (unsigned i = from; i < from + c->records; i++) {
		(void)proc_write(&writer.proc, input + ends[i], ends[i + 1] - ends[i]);
		if (!await_acknowledged(run, i + 1))
			return false;
		if (i == from && c->killed_at_one >= 0)
			host_kill((unsigned)c->killed_at_one);
	}
	proc_close_in(&writer.proc);
	return program_end(&writer, site_patience_ms()) == 0;
}

/* a writer without faults goes on with the input of one that was killed; it has one line more */
static bool
succeed(struct run *run)
{
	const struct log_config *c = run->config;
	const struct writer_options options = {
		.ack_file = ACKS,
		.window = "1",
		.resume = true,
		.trust_empty = begins_new(c),
		.timeout_s = site_patience_ms() / 2000,
	};

	look_for_faults(run);
	program_kill(&writer);
	start_writer_with(&writer, &options);
	(void)proc_write(&writer.proc, input, ends[all_records(c)]);
	proc_close_in(&writer.proc);
	return program_end(&writer, site_patience_ms()) == 0;
}

/* leaves the files in "run" */
static void
run_writers(struct run *run)
{
	const struct log_config *c = run->config;
	char base[SITE_PATH_LEN];

	make_input(all_records(c), c->line_len);
	snprintf(base, sizeof(base), "../%s", c->base);
	state_copy(base, "run", 0);
	for (unsigned i = 0; i < HOSTS; i++)
		if (c->up & 1u << i &&
			!start_replica("run", i, run->victims & 1u << i ? run->host_faults : NULL))
			give_up("a replica does not start:\n%s", hosts[i].program.said);
	run->stops_at_fault = run->is_probe || c->succeeded;
	run->ended = true;
	for (unsigned w = 0; w < c->writers && run->ended; w++)
		run->ended = write_lines(run, c->known + w * c->records, w == 0 ? run->writer_faults : NULL);
	if (c->succeeded && !run->is_probe)
		run->ended = succeed(run);
	look_for_faults(run);
	program_kill(&writer);
	hosts_kill();
	look_for_faults(run);
	totals->runs++;
	totals->struck += struck(run);
}

static void
check_run(const struct run *run)
{
	const struct log_config *c = run->config;
	const uint64_t records = all_records(c);

	if (!run->ended) {
		report(REFUSED, "the writer does not acknowledge everything:\n%s", writer.said);
		return;
	}
	totals->records += records;
	check_state("run", records, begins_new(c));
}

static void
fail_flush(const struct task *task)
{
	char faults[64];
	struct run run = { .config = task->config, .host_faults = faults, .victims = 1u << task->host };

	snprintf(faults, sizeof(faults), "flush-error@%u,connection=%u", task->at, task->connection);
	run_writers(&run);
	if (!run.host_struck)
		report(FAILED, "the fault has not occurred");
	check_run(&run);
}

/*
 * The writer's threads connect in any order, and one of them may try in vain: if the connection never made
 * that work request, the next one is tried.
 */
static bool
fail_request_of_any(struct run *run, char faults[static 64], unsigned at, unsigned first)
{
	for (unsigned i = 0; i < TRIES_MAX; i++) {
		snprintf(faults, 64, "wc-error=retry_exc@%u,connection=%u", at, 1 + (first + i - 1) % HOSTS);
		run->host_struck = run->writer_struck = false;
		run_writers(run);
		if (run->writer_struck)
			return true;
	}
	report(FAILED, "the fault has not occurred in %u runs", TRIES_MAX);
	return false;
}

static void
fail_request(const struct task *task)
{
	char faults[64];
	struct run run = { .config = task->config, .writer_faults = faults };

	if (fail_request_of_any(&run, faults, task->at, task->connection))
		check_run(&run);
}

/* then also each flush of the next connection, until one is not reached */
static void
fail_request_and_flush(const struct task *task)
{
	char faults[64];
	char flush_faults[64];
	struct run run = { .config = task->config,
		.writer_faults = faults,
		.host_faults = flush_faults,
		.victims = ALL_HOSTS };

	for (unsigned flush = 1; flush < POSITIONS_MAX; flush++) {
		snprintf(flush_faults, sizeof(flush_faults), "flush-error@%u,connection=2", flush);
		if (!fail_request_of_any(&run, faults, task->at, 1) || !run.host_struck)
			return;
		snprintf(task_detail, sizeof(task_detail), ", flush %u of the next connection", flush);
		check_run(&run);
	}
}

/*
 * true if this connection of this replica flushes as often, or (connection 0) the writer has as many work
 * requests
 */
static bool
is_reached(const struct log_config *config, unsigned at, unsigned host, unsigned connection)
{
	char faults[64];
	struct run run = { .config = config, .is_probe = true };

	if (connection) {
		snprintf(faults, sizeof(faults), "flush-error@%u,connection=%u", at, connection);
		run.host_faults = faults;
		run.victims = 1u << host;
	} else {
		snprintf(faults, sizeof(faults), "wc-error=retry_exc@%u", at);
		run.writer_faults = faults;
	}
	run_writers(&run);
	return struck(&run);
}

/* the number of flushes or work requests, found by halving */
static unsigned
count_positions(const struct log_config *config, unsigned host, unsigned connection)
{
	unsigned reached = 0;
	unsigned above = 8;

	while (above < POSITIONS_MAX && is_reached(config, above, host, connection)) {
		reached = above;
		above *= 2;
	}
	while (above - reached > 1) {
		unsigned middle = reached + (above - reached) / 2;
		if (is_reached(config, middle, host, connection))
			reached = middle;
		else
			above = middle;
	}
	return reached;
}

static void
add_flushes(const struct log_config *config, unsigned host, unsigned connection)
{
	const unsigned count = count_positions(config, host, connection);

	if (count == 0)
		report(FAILED, "log/%s: connection %u of replica %u has no flush", config->name, connection,
			host);
	for (unsigned at = 1; at <= count; at++) {
		struct task task = { .run = fail_flush,
			.config = config,
			.host = host,
			.at = at,
			.connection = connection };
		snprintf(task.name, sizeof(task.name), "log/%s/replica%u/flush-error@%u,connection=%u",
			config->name, host, at, connection);
		task_add(&task);
	}
}

static void
add_requests(const struct log_config *config, bool quick)
{
	const unsigned count = count_positions(config, 0, 0);

	if (count == 0)
		report(FAILED, "log/%s: the writer has no work request", config->name);
	for (unsigned at = 1; at <= count; at++)
		for (unsigned connection = 1; connection <= (quick ? 1 : HOSTS); connection++) {
			struct task task = { .run = fail_request,
				.config = config,
				.at = at,
				.connection = connection };
			snprintf(task.name, sizeof(task.name), "log/%s/writer/wc-error@%u,connection=%u",
				config->name, at, connection);
			task_add(&task);
			task.run = fail_request_and_flush;
			snprintf(task.name, sizeof(task.name), "log/%s/writer/wc-error@%u-then-flush-error",
				config->name, at);
			if (!quick && connection == 1)
				task_add(&task);
		}
}

void
log_add_tasks(bool quick)
{
	for (const struct log_config *c = configs; c < configs + CONFIGS; c++) {
		if (quick && !c->quick)
			continue;
		for (unsigned host = 0; host < HOSTS; host++)
			for (unsigned connection = 1; connection <= c->writers; connection++)
				if ((quick ? c->quick_victims : c->up) & 1u << host)
					add_flushes(c, host, connection);
		if (!quick || c->quick_requests)
			add_requests(c, quick);
	}
}

/* --- bases --- */

/* the file is as a power cut would leave it: the replica syncs it before it listens */
static void
make_new(const char *state, const char *size)
{
	make_folder(state);
	for (unsigned i = 0; i < HOSTS; i++) {
		char *argv[] = { REPLICA, site_addr, hosts[i].port, (char *)(uintptr_t)state_file(state, i),
			(char *)(uintptr_t)size, NULL };
		if (!host_start(i, argv, NULL))
			give_up("a replica does not start:\n%s", hosts[i].program.said);
		host_kill(i);
		state_make_medium(state, i);
	}
}

/* lines are appended by a writer that reaches these replicas */
static void
append_to_base(const char *state, unsigned up, unsigned from, unsigned to)
{
	for (unsigned i = 0; i < HOSTS; i++)
		if (up & 1u << i && !start_replica(state, i, NULL))
			give_up("a replica does not start:\n%s", hosts[i].program.said);
	start_writer(false, NULL);
	if (proc_write(&writer.proc, input + ends[from], ends[to] - ends[from]))
		give_up("the writer takes no input");
	proc_close_in(&writer.proc);
	if (program_end(&writer, site_patience_ms()) != 0)
		give_up("the writer fails:\n%s", writer.said);
	hosts_kill();
	for (unsigned i = 0; i < HOSTS; i++)
		if (state_would_lose(state, i))
			give_up("%s: a log that was written without faults is not durable", state);
}

static void
make_bases_of(const char *suffix, size_t line_len)
{
	char new[32], one[32], behind[32];

	snprintf(new, sizeof(new), "new%s", suffix);
	snprintf(one, sizeof(one), "one%s", suffix);
	snprintf(behind, sizeof(behind), "behind%s", suffix);
	make_input(4, line_len);
	make_new(new, SIZE_SHORT);
	state_copy(new, one, 0);
	append_to_base(one, ALL_HOSTS, 0, 1);
	state_copy(one, behind, 0);
	append_to_base(behind, 3, 1, 3);
}

void
log_make_bases(void)
{
	const bool is_control = site_is_control;

	site_is_control = false;
	make_bases_of("", SHORT_LINE);
	make_bases_of("-pages", LONG_LINE);
	make_new("long", SIZE_LONG);
	site_is_control = is_control;
}

/* --- long logs: random faults, kills and power cuts --- */

#define RANDOM_LINES 1500
#define ROUNDS_MAX 40
#define PROGRESS_MS 15000 /* without progress for this time under faults, the round goes on with its kills */

static long
random_below(long limit)
{
	return random() % limit;
}

static bool
one_in(long n)
{
	return random_below(n) == 0;
}

/* NULL: none; the text is static */
static const char *
random_replica_faults(void)
{
	static char text[96];

	switch (random_below(6)) {
	case 0:
	case 1:
		return NULL;
	case 2:
		snprintf(text, sizeof(text), "flush-error@%ld,connection=%ld", 1 + random_below(15),
			1 + random_below(4));
		break;
	case 3:
		snprintf(text, sizeof(text), "flush-error@%ld", 8 + random_below(40));
		break;
	case 4:
		snprintf(text, sizeof(text), "flush-error@%ld%%,seed=%ld", 1 + random_below(8),
			random_below(1 << 30));
		break;
	default:
		snprintf(text, sizeof(text), "slow-flush=%ldms@30%%,flush-error@%ld%%,seed=%ld",
			1 + random_below(20), 1 + random_below(4), random_below(1 << 30));
	}
	return text;
}

static const char *
random_writer_faults(void)
{
	static char text[96];

	switch (random_below(7)) {
	case 0:
	case 1:
		return NULL;
	case 2:
		snprintf(text, sizeof(text), "wc-error=retry_exc@%ld,connection=%ld", 1 + random_below(40),
			1 + random_below(8));
		break;
	case 3:
		snprintf(text, sizeof(text), "wc-error=retry_exc@%ld%%,seed=%ld", 1 + random_below(5),
			random_below(1 << 30));
		break;
	case 4:
		snprintf(text, sizeof(text), "wc-error=rem_op@%ld", 16 + random_below(60));
		break;
	case 5:
		snprintf(text, sizeof(text), "drop-after=%ld,retry-timeout=%ldms,connection=%ld",
			1 + random_below(80), 10 + random_below(100), 1 + random_below(5));
		break;
	default:
		snprintf(text, sizeof(text), "disconnect-after=%ld", 16 + random_below(80));
	}
	return text;
}

static pid_t feeders[2]; /* of the writer and of its rival */

/* the lines come at random moments, so that a kill finds the writer at work */
static void
feed(struct program *p, pid_t *feeder)
{
	*feeder = fork();
	if (*feeder < 0)
		give_up("no process for the input");
	if (*feeder > 0) {
		proc_close_in(&p->proc);
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_DFL);
	for (size_t at = 0; at < input_len;) {
		size_t len = (size_t)(1 + random_below(4000));
		if (len > input_len - at)
			len = input_len - at;
		if (proc_write(&p->proc, input + at, len))
			_exit(1);
		at += len;
		if (one_in(3))
			pause_ms((unsigned)random_below(8));
	}
	_exit(0);
}

static void
end_fed(struct program *p, pid_t *feeder)
{
	if (*feeder == 0)
		return;
	program_kill(p);
	totals->struck += p->struck;
	kill(*feeder, SIGKILL);
	while (waitpid(*feeder, NULL, 0) < 0 && errno == EINTR)
		;
	*feeder = 0;
}

static void
end_writer(void)
{
	end_fed(&writer, &feeders[0]);
}

static void
start_fed(struct program *p, pid_t *feeder, const char *ack_file)
{
	static const char *const windows[] = { "1", "300", "20000", "8M" };
	const struct writer_options options = {
		.ack_file = ack_file,
		.window = windows[random_below(4)],
		.resume = true,
		.trust_empty = true, /* no file is ever exchanged, so an empty one is new */
		.faults = random_writer_faults(),
		.timeout_s = 3600,
	};

	start_writer_with(p, &options);
	feed(p, feeder);
}

static void
drain_all(void)
{
	program_drain(&writer);
	program_drain(&rival);
	for (unsigned i = 0; i < HOSTS; i++)
		program_drain(&hosts[i].program);
}

static void
await_progress(const struct program *p, const char *ack_file, uint64_t wanted)
{
	const int64_t end = now_ms() + PROGRESS_MS;

	while (acknowledged_in(ack_file) < wanted && program_runs(p)) {
		drain_all();
		if (now_ms() > end) {
			totals->stalled++;
			return;
		}
		pause_ms(1);
	}
}

static void
kill_replica(unsigned i)
{
	totals->struck += hosts[i].program.proc.pid && hosts[i].program.struck;
	host_kill(i);
}

static void
start_dead_replicas(void)
{
	for (unsigned i = 0; i < HOSTS; i++)
		if (hosts[i].program.proc.pid == 0 && !start_replica("run", i, random_replica_faults()))
			report(WRONG, "a replica refuses its file:\n%s", hosts[i].program.said);
}

static void
cut_at_random(const char *state, unsigned i)
{
	switch (random_below(3)) {
	case 0:
		break; /* only the process was killed */
	case 1:
		state_cut(state, i);
		break;
	default:
		state_cut_mixed(state, i);
	}
}

/*
 * The writer is stopped, and a rival takes over: it gets the connections of replicas that die, and the others
 * once the writer's lease is over. Then both go on for a while. Returns what the rival has acknowledged.
 */
static uint64_t
let_rival_take_over(uint64_t records)
{
	if (kill(writer.proc.pid, SIGSTOP))
		return 0;
	unlink(ACKS_RIVAL);
	start_fed(&rival, &feeders[1], ACKS_RIVAL);
	for (unsigned i = 0; i < HOSTS; i++)
		if (one_in(2)) {
			kill_replica(i);
			cut_at_random("run", i);
		}
	start_dead_replicas();
	await_progress(&rival, ACKS_RIVAL, records + (uint64_t)random_below(40));
	kill(writer.proc.pid, SIGCONT);
	pause_ms((unsigned)random_below(200));
	end_fed(&rival, &feeders[1]);
	return acknowledged_in(ACKS_RIVAL);
}

/*
 * True if the writer refuses for a good reason: nothing was acknowledged, so a majority with empty files has
 * begun a new log by --trust-empty, and a replica that was not there has the beginning of the one before it.
 */
static bool
refuses_another_log(uint64_t records)
{
	return records == 0 &&
		strstr(writer.said, ": another log than that of the replicas before it") != NULL;
}

/*
 * each majority recovers what is acknowledged, and then one of them again after a power cut of all; false if
 * it does not
 */
static bool
check_random_state(uint64_t records)
{
	for (unsigned up = 0; up <= ALL_HOSTS; up++) {
		uint64_t count = 0;
		uint64_t again = 0;
		unsigned other = up;

		if (!is_majority(up))
			continue;
		totals->states++;
		state_copy("run", "check", 0);
		for (unsigned i = 0; i < HOSTS; i++)
			cut_at_random("check", i);
		enum recovered how = recover("check", up, true, NULL, &count);
		if (how == REFUSES)
			report(REFUSED, "%s refused:\n%s", set_2str(up), writer.said);
		if (how != RECOVERED)
			return false;
		if (count < records) {
			report(LOST, "%s recover %" PRIu64 " of %" PRIu64 " acknowledged records",
				set_2str(up), count, records);
			return false;
		}
		for (unsigned i = 0; i < HOSTS; i++)
			if (up & 1u << i && !log_holds(state_file("check", i), input, ends[count], true)) {
				report(WRONG, "%s: replica %u does not hold the input", set_2str(up), i);
				return false;
			}
		while (other == up || !is_majority(other))
			other = (unsigned)random_below(ALL_HOSTS);
		state_copy("check", "again", ALL_HOSTS);
		how = recover("again", other, true, NULL, &again);
		if (how == REFUSES && refuses_another_log(count))
			continue;
		if (how != RECOVERED) {
			report(REFUSED, "%s, power cut of all, %s refused:\n%s", set_2str(up),
				set_2str(other), writer.said);
			return false;
		}
		if (again < count) {
			report(LOST,
				"%s, power cut of all, %s recover %" PRIu64 " of %" PRIu64
				" acknowledged records",
				set_2str(up), set_2str(other), again, count);
			return false;
		}
	}
	return true;
}

/* returns true if all is well; *records only grows */
static bool
random_round(uint64_t *records)
{
	const bool everything = one_in(2);
	const unsigned victims = everything ? ALL_HOSTS : (unsigned)random_below(ALL_HOSTS + 1);
	uint64_t now = 0;
	bool good = true;

	start_dead_replicas();
	if (feeders[0] && !program_runs(&writer))
		end_writer();
	if (feeders[0] == 0)
		start_fed(&writer, &feeders[0], ACKS);
	/* in some rounds, kill while the writer still recovers */
	if (one_in(4))
		pause_ms((unsigned)random_below(60));
	else
		await_progress(&writer, ACKS, *records + (uint64_t)random_below(80));
	if (one_in(8))
		now = let_rival_take_over(*records);
	if (everything || one_in(3))
		end_writer();
	for (unsigned i = 0; i < HOSTS; i++)
		if (victims & 1u << i)
			kill_replica(i);
	if (now > *records)
		*records = now;
	now = acknowledged();
	if (now > *records)
		*records = now;
	if (everything) {
		/* recoveries have files of acknowledgements of their own */
		rename(ACKS, ACKS_KEPT);
		good = check_random_state(*records);
		rename(ACKS_KEPT, ACKS);
	}
	for (unsigned i = 0; i < HOSTS && good; i++)
		if (victims & 1u << i)
			cut_at_random("run", i);
	totals->runs++;
	return good;
}

void
log_random(unsigned long number)
{
	uint64_t records = 0;

	srandom((unsigned)(driver.seed * 1000003 + number));
	make_input(RANDOM_LINES, 0);
	state_copy("../long", "run", 0);
	unlink(ACKS);
	for (unsigned round = 0; round < ROUNDS_MAX && records < RANDOM_LINES; round++)
		if (!random_round(&records))
			break;
	end_writer();
	hosts_kill();
	totals->records += records;
}
