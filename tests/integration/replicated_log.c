/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * replicated_log.c -- apps/replicated-log run as a user runs it: three replicas, writers, readers, and their
 * failures
 */

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "deadline.h"
#include "log_format.h"
#include "process.h"

#define REPLICAS 3
#define TIME_MS 20000
#define SIZE "4M"
#define SIZE_BYTES ((size_t)4 << 20)
#define LINE 512

static char dir[64];
static struct proc replicas[REPLICAS];
static char ports[REPLICAS][16];
static struct proc writer;
static const char *addr = "127.0.0.1";
static char last_words[4096]; /* output of the last program waited for, shown if a test fails */

/* --- files --- */

/* each test has a directory of its own and works in it */
static const char *
log_of(unsigned i)
{
	static const char *const names[REPLICAS] = { "replica0", "replica1", "replica2" };

	return names[i];
}

static void
write_file(const char *path, const void *bytes, size_t len)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

/* writes the lines from `from` to `to` - 1, all different */
static void
write_lines(const char *path, unsigned from, unsigned to)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	for (unsigned i = from; i < to; i++)
		fprintf(f, "line %u %*s\n", i, (int)(i * 7919 % 100), "");
	assert_int_equal(fclose(f), 0);
}

/* runs a shell command with the names of files and programs as $1, $2, ...; returns its exit status */
static int
shell(const char *command, const char *one, const char *two, const char *three)
{
	static struct proc p;
	char *argv[] = { "/bin/sh", "-c", (char *)(uintptr_t)command, "sh", (char *)(uintptr_t)one,
		(char *)(uintptr_t)two, (char *)(uintptr_t)three, NULL };

	assert_int_equal(proc_start(&p, argv, NULL), 0);
	int status = proc_wait(&p, TIME_MS);
	proc_kill(&p);
	return status;
}

static bool
same_file(const char *a, const char *b)
{
	return shell("cmp \"$1\" \"$2\" >/dev/null", a, b, NULL) == 0;
}

/* --- replicas --- */

/* serves that file; the first time on any free port, later on the same one; faults: SOFTRDMA_FAULTS, or "" */
static void
start_replica_with(unsigned i, const char *path, const char *faults)
{
	char line[LINE];
	char variable[LINE];
	char *argv[] = { REPLICA, (char *)(uintptr_t)addr, ports[i], (char *)(uintptr_t)path, SIZE, NULL };
	char *env[] = { variable, NULL };

	snprintf(variable, sizeof(variable), "SOFTRDMA_FAULTS=%s", faults);
	if (ports[i][0] == '\0')
		strcpy(ports[i], "0");
	assert_int_equal(proc_start(&replicas[i], argv, faults[0] ? env : NULL), 0);
	assert_int_equal(proc_wait_line(&replicas[i], "listening", line, sizeof(line), TIME_MS), 0);
	snprintf(ports[i], sizeof(ports[i]), "%s", strstr(line, " port ") + 6);
}

static void
start_replica(unsigned i)
{
	start_replica_with(i, log_of(i), "");
}

static void
start_replicas(void)
{
	for (unsigned i = 0; i < REPLICAS; i++)
		start_replica(i);
}

static void
kill_replicas(void)
{
	for (unsigned i = 0; i < REPLICAS; i++)
		proc_kill(&replicas[i]);
}

/* a replica that must not start, and must give this reason */
static void
expect_no_start(const char *why, const char *size)
{
	static struct proc p;
	char line[LINE];
	char *argv[] = { REPLICA, (char *)(uintptr_t)addr, "0", (char *)(uintptr_t)log_of(0),
		(char *)(uintptr_t)size, NULL };

	assert_int_equal(proc_start(&p, argv, NULL), 0);
	assert_int_equal(proc_wait_line(&p, why, line, sizeof(line), TIME_MS), 0);
	assert_int_equal(proc_wait(&p, TIME_MS), 1);
	proc_kill(&p);
}

/* it refuses its file, which stays unchanged */
static void
expect_refused(const char *why)
{
	assert_int_equal(shell("cp \"$1\" \"$2\"", log_of(0), "before", NULL), 0);
	expect_no_start(why, SIZE);
	assert_true(same_file(log_of(0), "before"));
	/* the reader refuses it as well */
	assert_int_equal(shell("\"$1\" -q \"$2\" 2>/dev/null", READER, log_of(0), NULL), 1);
}

/* the output of a reader of this log is exactly that file */
static void
expect_log(unsigned i, const char *path)
{
	assert_int_equal(shell("\"$1\" \"$2\" 2>/dev/null >\"$3\"", READER, log_of(i), "read"), 0);
	if (!same_file("read", path))
		fail_msg("replica %u is not what it should be; the writer said: %s", i, last_words);
}

static void
expect_logs(const char *path)
{
	for (unsigned i = 0; i < REPLICAS; i++)
		expect_log(i, path);
}

/* --- writers --- */

static const char *
list(void)
{
	static char text[128];
	bool v6 = strchr(addr, ':') != NULL;

	text[0] = '\0';
	for (unsigned i = 0; i < REPLICAS; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s%s%s:%s", i ? "," : "",
			v6 ? "[" : "", addr, v6 ? "]" : "", ports[i]);
	return text;
}

/* input NULL: the input is a pipe that the test writes to */
static void
start_writer_with(struct proc *p, const char *input, const char *options)
{
	char command[512];

	snprintf(command, sizeof(command), "exec '%s' -a acks %s %s %s%s", WRITER, options, list(),
		input ? "<" : "", input ? input : "");
	char *argv[] = { "/bin/sh", "-c", command, NULL };
	assert_int_equal(proc_start(p, argv, NULL), 0);
}

static void
start_writer(const char *input, const char *options)
{
	start_writer_with(&writer, input, options);
}

static void
expect_line(struct proc *p, const char *text)
{
	char line[LINE];

	if (proc_wait_line(p, text, line, sizeof(line), TIME_MS))
		fail_msg("no line with: %s", text);
}

/*
 * waits for a line of the writer about this replica; the port in it tells it from lines about other replicas
 */
static void
expect_word_of(unsigned i, const char *what)
{
	char port_and_what[64];

	snprintf(port_and_what, sizeof(port_and_what), "%s: %s", ports[i], what);
	expect_line(&writer, port_and_what);
}

static void
expect_end(struct proc *p, int status)
{
	int ended_with = proc_wait(p, TIME_MS);
	size_t len = 0;
	int n;

	while (len < sizeof(last_words) - 1 &&
		(n = proc_read_line(p, last_words + len, sizeof(last_words) - 1 - len, TIME_MS)) >= 0) {
		len += (size_t)n;
		last_words[len++] = '\n';
	}
	last_words[len] = '\0';
	proc_kill(p);
	if (ended_with != status)
		fail_msg("status %d instead of %d: %s", ended_with, status, last_words);
}

/* the writer that has ended printed this about a replica */
static void
expect_told(unsigned i, const char *what)
{
	char port_and_what[128];

	snprintf(port_and_what, sizeof(port_and_what), "%s %s\n", ports[i], what);
	if (strstr(last_words, port_and_what) == NULL)
		fail_msg("not said of replica %u: %s; but: %s", i, what, last_words);
}

/* the number that the writer that has ended printed after this text */
static unsigned long
number_said(const char *text)
{
	const char *at = strstr(last_words, text);

	if (at == NULL)
		fail_msg("not said: %s; but: %s", text, last_words);
	return strtoul(at + strlen(text), NULL, 10);
}

static void
write_log(const char *input, const char *options)
{
	start_writer(input, options);
	expect_end(&writer, 0);
}

static bool
read_acks(uint64_t *records, uint64_t *bytes)
{
	FILE *f = fopen("acks", "r");

	if (f == NULL)
		return false;
	int n = fscanf(f, "%" SCNu64 " %" SCNu64, records, bytes);
	fclose(f);
	return n == 2;
}

static void
wait_acks(uint64_t wanted)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	const int64_t end = now_ms() + TIME_MS;
	uint64_t records = 0;
	uint64_t bytes;

	while (!read_acks(&records, &bytes) || records < wanted) {
		assert_true(now_ms() < end);
		nanosleep(&pause, NULL);
	}
}

/* At least a majority holds every acknowledged record, as a beginning of the input. Every log is sound. */
static void
expect_acknowledged(const char *input)
{
	uint64_t records = 0;
	uint64_t bytes = 0;
	char command[256];
	unsigned complete = 0;

	(void)read_acks(&records, &bytes);
	for (unsigned i = 0; i < REPLICAS; i++) {
		/* sound, whatever it contains */
		assert_int_equal(shell("\"$1\" -q \"$2\" 2>/dev/null", READER, log_of(i), NULL), 0);
		snprintf(command, sizeof(command),
			"\"$1\" -n %" PRIu64 " \"$2\" 2>/dev/null | head -c %" PRIu64 " | cmp -n %" PRIu64
			" - \"$3\" >/dev/null 2>&1",
			records, bytes, bytes);
		complete += shell(command, READER, log_of(i), input) == 0;
	}
	assert_true(complete >= REPLICAS / 2 + 1);
}

/* --- logs made by the test --- */

struct crafted {
	uint64_t log_id;
	uint64_t members;
	uint64_t epoch;
	const char *records; /* one letter each; small: epoch 1, capital: the epoch of the log */
};

static void
craft_log(unsigned i, const struct crafted *log)
{
	static uint8_t file[SIZE_BYTES];
	size_t tail = LOG_HEADER_SIZE;

	memset(file, 0, sizeof(file));
	log_header_encode(file, SIZE_BYTES, i + 1);
	for (uint64_t j = 0; log->records[j]; j++) {
		const struct log_record record = {
			.sequence = j,
			.epoch = log->records[j] >= 'a' ? 1 : log->epoch,
			.payload = (const uint8_t *)log->records + j,
			.length = 1,
		};
		tail += log_record_encode(file + tail, SIZE_BYTES - tail, &record);
	}
	log_word_encode(file + LOG_WORD_LOG_ID, LOG_WORD_LOG_ID, log->log_id);
	log_word_encode(file + LOG_WORD_MEMBERS, LOG_WORD_MEMBERS, log->members);
	log_word_encode(file + LOG_WORD_PROMISED, LOG_WORD_PROMISED, log->epoch);
	log_word_encode(file + LOG_WORD_EPOCH, LOG_WORD_EPOCH, log->epoch);
	log_word_encode(file + LOG_WORD_TAIL, LOG_WORD_TAIL, tail);
	write_file(log_of(i), file, sizeof(file));
}

static void
flip_byte(const char *path, off_t offset)
{
	uint8_t byte;
	int fd = open(path, O_RDWR);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, offset), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
	close(fd);
}

/* --- tests --- */

static void
lines_reach_all_replicas(void **state)
{
	(void)state;
	write_lines("input", 0, 5000);
	start_replicas();
	start_writer("input", "");
	expect_line(&writer, "records: 5000");
	expect_end(&writer, 0);
	expect_logs("input");
	expect_acknowledged("input");
}

static void
a_second_run_appends(void **state)
{
	(void)state;
	write_lines("first", 0, 100);
	write_lines("second", 100, 300);
	write_lines("both", 0, 300);
	start_replicas();
	write_log("first", "");
	write_log("second", "");
	expect_logs("both");
	/* an empty input is not an error */
	write_log("/dev/null", "");
	expect_logs("both");
}

static void
records_of_fixed_size(void **state)
{
	(void)state;
	start_replicas();
	start_writer(REPLICA, "-b 4096");
	expect_end(&writer, 0);
	expect_logs(REPLICA);
}

/* the next record is read after this one is acknowledged; a percentile is shown if there are enough records for it */
static void
records_one_at_a_time(void **state)
{
	static const unsigned long counts[] = { 50, 300 };
	char bytes[4 * 300];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)('a' + i % 26);
	start_replicas();
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		write_file("input", bytes, 4 * counts[i]);
		write_log("input", i == 0 ? "-b 4 --window 1" : "-b 4 -w 1");
		/* the first one may wait for a majority to join */
		unsigned long waited = number_said("records that waited for a majority: ");
		assert_in_range(waited, 0, 1);
		assert_int_equal(number_said("latency samples: ") + waited, counts[i]);
		assert_int_equal(strstr(last_words, "latency p99: - us\n") != NULL, counts[i] < 100);
		assert_null(strstr(last_words, "latency p50: - us\n"));
	}
}

static void
ipv6(void **state)
{
	(void)state;
	addr = "::1";
	write_lines("input", 0, 100);
	start_replicas();
	write_log("input", "");
	expect_logs("input");
}

/* a majority is enough; a replica that returns is brought up to date while the writer works */
static void
a_replica_dies_and_comes_back(void **state)
{
	(void)state;
	write_lines("input", 0, 300);
	start_replicas();
	start_writer(NULL, "");
	for (unsigned i = 0; i < 300; i++) {
		char line[LINE];
		int len = snprintf(line, sizeof(line), "line %u %*s\n", i, (int)(i * 7919 % 100), "");
		assert_int_equal(proc_write(&writer, line, (size_t)len), 0);
		if (i == 99) {
			wait_acks(100);
			expect_word_of(1, "joined");
			proc_kill(&replicas[1]);
		}
		if (i == 199) {
			wait_acks(200);
			start_replica(1);
			expect_word_of(1, "lost");
			expect_word_of(1, "joined");
		}
	}
	proc_close_in(&writer);
	expect_end(&writer, 0);
	expect_logs("input");
}

/* a replica without its file, as after the loss of a disk, gets a new one, which is filled */
static void
a_replica_loses_its_file(void **state)
{
	(void)state;
	write_lines("input", 0, 3000);
	start_replicas();
	write_log("input", "");
	proc_kill(&replicas[2]);
	assert_int_equal(unlink(log_of(2)), 0);
	start_replica(2);
	write_log("/dev/null", "");
	expect_logs("input");
}

static void
the_writer_waits_for_a_majority(void **state)
{
	(void)state;
	write_lines("input", 0, 200);
	start_replicas();
	start_writer(NULL, "");
	assert_int_equal(proc_write(&writer, "one\n", 4), 0);
	wait_acks(1);
	kill_replicas();
	expect_line(&writer, "lost");
	expect_line(&writer, "lost");
	assert_int_equal(proc_write(&writer, "two\n", 4), 0);
	start_replica(0);
	expect_word_of(0, "joined");
	uint64_t records;
	uint64_t bytes;
	assert_true(read_acks(&records, &bytes));
	assert_int_equal(records, 1);
	start_replica(1);
	expect_word_of(1, "joined");
	wait_acks(2);
	start_replica(2);
	expect_word_of(2, "joined");
	proc_close_in(&writer);
	expect_end(&writer, 0);
	write_file("input", "one\ntwo\n", 8);
	expect_logs("input");
	/* the outage is no part of the latencies */
	unsigned long waited = number_said("records that waited for a majority: ");
	assert_in_range(waited, 1, 2); /* the first one may have waited for a majority to join */
	assert_int_equal(number_said("latency samples: "), 2 - waited);
}

static void
the_writer_does_not_wait_for_ever(void **state)
{
	(void)state;
	start_replica(0);
	strcpy(ports[1], "1");
	strcpy(ports[2], "2");
	start_writer("/dev/null", "--timeout 1");
	expect_line(&writer, "no majority");
	expect_end(&writer, 1);
}

/* a record that only one of three has is never acknowledged */
static void
one_replica_is_not_enough(void **state)
{
	uint64_t records;
	uint64_t bytes;

	(void)state;
	start_replicas();
	start_writer(NULL, "--timeout 1");
	assert_int_equal(proc_write(&writer, "one\n", 4), 0);
	wait_acks(1);
	proc_kill(&replicas[0]);
	proc_kill(&replicas[2]);
	expect_line(&writer, "lost");
	expect_line(&writer, "lost");
	assert_int_equal(proc_write(&writer, "two\n", 4), 0);
	expect_line(&writer, "no majority");
	expect_end(&writer, 1);
	assert_true(read_acks(&records, &bytes));
	assert_int_equal(records, 1);
	assert_int_equal(bytes, 4);
	/* but the record exists, so a recovery brings it up */
	write_file("input", "one\ntwo\n", 8);
	expect_log(1, "input");
	start_replica(0);
	start_replica(2);
	write_log("/dev/null", "");
	expect_logs("input");
}

static void
a_writer_dies_and_another_one_goes_on(void **state)
{
	(void)state;
	write_lines("input", 0, 20000);
	start_replicas();
	for (unsigned i = 1; i <= 5; i++) {
		start_writer("input", "--resume");
		wait_acks(1000 * i);
		proc_kill(&writer);
		expect_acknowledged("input");
	}
	write_log("input", "--resume");
	expect_logs("input");
}

static void
a_second_writer_is_rejected(void **state)
{
	static struct proc second;

	(void)state;
	start_replicas();
	start_writer(NULL, "");
	assert_int_equal(proc_write(&writer, "one\n", 4), 0);
	wait_acks(1);
	start_writer_with(&second, "/dev/null", "");
	expect_line(&second, "refused");
	expect_end(&second, 1);
	expect_line(&replicas[0], "second writer");
	/* the first writer is not disturbed */
	assert_int_equal(proc_write(&writer, "two\n", 4), 0);
	wait_acks(2);
	/* after the first writer has died, the next one is accepted */
	proc_kill(&writer);
	write_file("three", "three\n", 6);
	write_log("three", "");
	write_file("input", "one\ntwo\nthree\n", 14);
	expect_logs("input");
}

/* a stopped writer keeps nothing for ever; when it goes on, it acknowledges nothing more */
static void
a_writer_that_hangs_loses_its_replicas(void **state)
{
	static struct proc second;
	uint64_t records;
	uint64_t bytes;

	(void)state;
	start_replicas();
	start_writer(NULL, "");
	assert_int_equal(proc_write(&writer, "one\n", 4), 0);
	wait_acks(1);
	assert_int_equal(kill(writer.pid, SIGSTOP), 0);
	assert_int_equal(proc_write(&writer, "never\n", 6), 0);
	assert_int_equal(rename("acks", "acks of the first"), 0);
	start_writer_with(&second, NULL, "");
	for (unsigned i = 0; i < REPLICAS; i++) {
		expect_line(&replicas[i], "has not renewed its lease");
		expect_line(&second, "joined");
	}
	assert_int_equal(proc_write(&second, "two\n", 4), 0);
	proc_close_in(&second);
	expect_end(&second, 0);
	assert_true(read_acks(&records, &bytes));
	assert_int_equal(records, 2);
	write_file("input", "one\ntwo\n", 8);
	expect_logs("input");
	assert_int_equal(kill(writer.pid, SIGCONT), 0);
	expect_line(&writer, "promised to another writer");
	expect_end(&writer, 1);
	assert_int_equal(rename("acks of the first", "acks"), 0);
	assert_true(read_acks(&records, &bytes));
	assert_int_equal(records, 1);
	expect_logs("input");
}

/* a busy replica rejects with that reason; a port without a listener gives none */
static void
a_busy_replica_is_told_from_one_that_is_gone(void **state)
{
	static struct proc second;

	(void)state;
	start_replicas();
	start_writer(NULL, "");
	assert_int_equal(proc_write(&writer, "one\n", 4), 0);
	wait_acks(1);
	proc_kill(&replicas[1]);
	proc_kill(&replicas[2]);
	start_writer_with(&second, "/dev/null", "--timeout 1");
	expect_end(&second, 1);
	expect_told(0, "serves another writer");
	expect_told(1, "is not there");
	expect_told(2, "is not there");
}

static void
a_full_log_is_an_error(void **state)
{
	uint64_t records;
	uint64_t bytes;

	(void)state;
	assert_int_equal(shell("head -c 6M /dev/urandom >\"$1\"", "input", NULL, NULL), 0);
	start_replicas();
	start_writer("input", "-b 1000");
	expect_line(&writer, "log is full");
	expect_end(&writer, 1);
	/* the log holds all that fit: 1024 bytes for each record */
	assert_true(read_acks(&records, &bytes));
	assert_int_equal(records, (SIZE_BYTES - LOG_HEADER_SIZE) / 1024);
	assert_int_equal(bytes, records * 1000);
	expect_acknowledged("input");
}

static void
foreign_short_and_damaged_files_are_refused(void **state)
{
	static const struct crafted log = { .log_id = 9,
		.members = REPLICAS,
		.epoch = 2,
		.records = "abcdef" };

	(void)state;
	write_file(log_of(0), "", 0);
	expect_refused("too short");
	write_file(log_of(0), "rpma-log", 8);
	expect_refused("too short");
	assert_int_equal(shell("cat \"$2\" \"$2\" >\"$1\"", log_of(0), READER, NULL), 0);
	expect_refused("not a log");
	assert_int_equal(shell("truncate -s 4M \"$1\"; truncate -s 0 \"$1\"; truncate -s 4M \"$1\"",
				 log_of(0), NULL, NULL),
		0);
	expect_refused("not a log");
	craft_log(0, &log);
	assert_int_equal(truncate(log_of(0), 2 << 20), 0);
	expect_refused("size");
	craft_log(0, &log);
	flip_byte(log_of(0), 8);
	expect_refused("damaged");
	craft_log(0, &log);
	flip_byte(log_of(0), LOG_WORD_TAIL);
	expect_refused("damaged");
	craft_log(0, &log);
	flip_byte(log_of(0), LOG_HEADER_SIZE + 32 * 3 + 24);
	expect_refused("record 3");
	/* an intact log is served, so the refusals above were not caused by the test itself */
	craft_log(0, &log);
	start_replica(0);
	/* only one process may serve it, and only with its own size */
	expect_no_start("another process", SIZE);
	proc_kill(&replicas[0]);
	expect_no_start("its size is", "8M");
}

/* a crash while a log was created has left the name of its draft; the log has moved, and another one takes its place */
static void
a_new_log_spares_an_earlier_one(void **state)
{
	static const struct crafted log = { 9, REPLICAS, 2, "abc" };

	(void)state;
	craft_log(0, &log);
	assert_int_equal(link(log_of(0), "replica0.new"), 0);
	assert_int_equal(rename(log_of(0), log_of(1)), 0);
	start_replica(0);
	write_file("expected", "abc", 3);
	expect_log(1, "expected");
	write_file("empty", "", 0);
	expect_log(0, "empty");
	/* it has no other name */
	assert_int_equal(shell("ls -d \"$1\".new-* 2>/dev/null", log_of(0), NULL, NULL), 2);
}

/* recovers these logs, and checks the result */
static void
check_recovery(const struct crafted logs[REPLICAS], const char *expected)
{
	for (unsigned i = 0; i < REPLICAS; i++)
		if (logs[i].records)
			craft_log(i, &logs[i]);
	start_replicas();
	write_log("/dev/null", "");
	write_file("expected", expected, strlen(expected));
	expect_logs("expected");
	kill_replicas();
	for (unsigned i = 0; i < REPLICAS; i++)
		unlink(log_of(i));
}

static void
the_right_log_is_recovered(void **state)
{
	/* the longest log of the newest epoch wins, even over a longer one of an older epoch */
	static const struct crafted older_is_longer[] = {
		{ 9, REPLICAS, 2, "abcdefgh" },
		{ 9, REPLICAS, 3, "abX" },
		{ 9, REPLICAS, 3, "abXY" },
	};
	static const struct crafted one_is_behind[] = {
		{ 9, REPLICAS, 2, "a" },
		{ 9, REPLICAS, 2, "abcd" },
		{ 9, REPLICAS, 2, "abc" },
	};
	static const struct crafted one_is_new[] = {
		{ 9, REPLICAS, 2, "abc" },
		{ 9, REPLICAS, 2, "abc" },
		{ .records = NULL },
	};
	/* the newest writer reached only one replica: its log is that of the writer before */
	static const struct crafted newest_is_alone[] = {
		{ 9, REPLICAS, 2, "abcd" },
		{ 9, REPLICAS, 5, "abc" },
		{ 9, REPLICAS, 2, "abc" },
	};

	(void)state;
	check_recovery(older_is_longer, "abXY");
	check_recovery(one_is_behind, "abcd");
	check_recovery(one_is_new, "abc");
	check_recovery(newest_is_alone, "abc");
}

/* damage to the log that would be taken over, after its replica has started */
static void
a_damaged_log_is_not_taken_over(void **state)
{
	static const struct crafted longest = { 9, REPLICAS, 2, "abcd" };
	static const struct crafted shorter = { 9, REPLICAS, 2, "abc" };

	(void)state;
	craft_log(0, &shorter);
	craft_log(1, &longest);
	craft_log(2, &shorter);
	start_replicas();
	flip_byte(log_of(1), LOG_HEADER_SIZE + 24);
	start_writer("/dev/null", "");
	expect_line(&writer, "damaged");
	expect_end(&writer, 0);
	write_file("expected", "abc", 3);
	expect_logs("expected");
}

static void
read_header(unsigned i, struct log_header *header)
{
	uint8_t page[LOG_HEADER_SIZE];
	FILE *f = fopen(log_of(i), "r");

	assert_non_null(f);
	assert_int_equal(fread(page, 1, sizeof(page), f), sizeof(page));
	fclose(f);
	assert_int_equal(log_header_decode(page, sizeof(page), SIZE_BYTES, header), LOG_OK);
}

/* waits until the log of a replica has that epoch and that end */
static void
wait_header(unsigned i, uint64_t epoch, uint64_t tail)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	const int64_t end = now_ms() + TIME_MS;
	struct log_header header;

	do {
		assert_true(now_ms() < end);
		nanosleep(&pause, NULL);
		read_header(i, &header);
	} while (header.epoch != epoch || header.tail != tail);
}

/*
 * Waits until the writer has renewed its lease twice. After the first renewal it knows of all that was durable before that.
 */
static void
wait_lease(unsigned i)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	const int64_t end = now_ms() + TIME_MS;
	struct log_header header;

	read_header(i, &header);
	const uint64_t wanted = header.lease + 2;
	while (header.lease < wanted) {
		assert_true(now_ms() < end);
		nanosleep(&pause, NULL);
		read_header(i, &header);
	}
}

/*
 * The log of replica 0 is damaged. A writer cuts it back and dies. Its rest must not pass for a shorter log, which
 * could form a majority with replica 2: "d" may have been acknowledged.
 */
static void
a_damaged_log_has_no_vote(void **state)
{
	static const struct crafted log = { 9, REPLICAS, 2, "abcd" };
	static const struct crafted shorter = { 9, REPLICAS, 2, "abc" };
	const size_t record = log_record_size(1);

	(void)state;
	craft_log(0, &log);
	craft_log(1, &log);
	craft_log(2, &shorter);
	/* flushes: header, promise, log fetched, log compared, damaged record, epoch; here it hangs at that of the tail */
	start_replica_with(0, log_of(0), "slow-flush=600s@7");
	start_replica(1);
	/* header, promise; here it hangs while its log is compared */
	start_replica_with(2, log_of(2), "slow-flush=600s@3");
	flip_byte(log_of(0), (off_t)(LOG_HEADER_SIZE + record + LOG_RECORD_HEADER_SIZE));
	start_writer("/dev/null", "");
	expect_word_of(0, "its log is damaged");
	wait_header(0, 0, LOG_HEADER_SIZE + record);
	proc_kill(&writer);
	kill_replicas();
	start_replica(0);
	start_replica(2);
	start_writer("/dev/null", "--timeout 1");
	expect_end(&writer, 1);
	expect_told(0, "is empty: has it lost its log? (--trust-empty if not)");
	/* with replica 1 there is a majority, and all is filled */
	start_replica(1);
	write_log("/dev/null", "");
	write_file("expected", "abcd", 4);
	expect_logs("expected");
}

/* two of three would be a majority, but the empty one may have lost what the third one has */
static void
an_empty_replica_is_no_witness(void **state)
{
	static const struct crafted log = { 9, REPLICAS, 2, "abc" };

	(void)state;
	craft_log(0, &log);
	start_replica(0);
	start_replica(1);
	strcpy(ports[2], "1");
	start_writer("/dev/null", "--timeout 1");
	expect_line(&writer, "empty");
	expect_end(&writer, 1);
	write_log("/dev/null", "--trust-empty");
	write_file("expected", "abc", 3);
	expect_log(1, "expected");
}

/* two empty ones of three: the third one may have a log, so nothing tells that this one is new */
static void
two_empty_replicas_may_have_lost_a_log(void **state)
{
	uint64_t records;
	uint64_t bytes;

	(void)state;
	write_lines("input", 0, 10);
	start_replicas();
	write_log("input", "");
	kill_replicas();
	assert_int_equal(unlink(log_of(0)), 0);
	assert_int_equal(unlink(log_of(1)), 0);
	start_replica(0);
	start_replica(1);
	assert_int_equal(unlink("acks"), 0);
	start_writer("input", "--timeout 1");
	expect_line(&writer, "empty");
	expect_end(&writer, 1);
	assert_false(read_acks(&records, &bytes));
	/* with the third one there is a log, and still no majority that knows it */
	start_replica(2);
	start_writer("/dev/null", "--timeout 1");
	expect_line(&writer, "empty");
	expect_end(&writer, 1);
	write_log("/dev/null", "--trust-empty");
	expect_logs("input");
}

/* the promise was executed, and the writer did not hear of it: it recognizes its own epoch */
static void
a_promise_of_unknown_result_is_recognized(void **state)
{
	(void)state;
	start_replica(0);
	start_replica(1);
	/* the writer has the list of ports from its start on, so each replica needs one */
	start_replica(2);
	proc_kill(&replicas[2]);
	start_writer(NULL, "--trust-empty");
	assert_int_equal(proc_write(&writer, "one\n", 4), 0);
	wait_acks(1);
	/* the first flush of a connection is that of the header which is read, the second one that of the promise */
	start_replica_with(2, log_of(2), "flush-error@2,connection=1");
	expect_word_of(2, "an operation failed");
	expect_word_of(2, "joined");
	proc_kill(&replicas[0]);
	assert_int_equal(proc_write(&writer, "two\n", 4), 0);
	wait_acks(2);
	proc_close_in(&writer);
	expect_end(&writer, 0);
	write_file("input", "one\ntwo\n", 8);
	expect_log(1, "input");
	expect_log(2, "input");
}

/* one file at two addresses, one after the other and as a copy, is one replica */
static void
a_file_has_one_vote(void **state)
{
	uint64_t records;
	uint64_t bytes;

	(void)state;
	start_replicas();
	start_writer(NULL, "");
	assert_int_equal(proc_write(&writer, "one\n", 4), 0);
	wait_acks(1);
	for (unsigned i = 0; i < REPLICAS; i++)
		expect_line(&writer, "joined");
	proc_kill(&replicas[1]);
	proc_kill(&replicas[2]);
	expect_line(&writer, "lost");
	expect_line(&writer, "lost");
	/* the record is on replica 0 alone; then its file is at the address of replica 1 */
	assert_int_equal(proc_write(&writer, "two\n", 4), 0);
	assert_int_equal(shell("until \"$1\" -q -n 2 \"$2\" 2>/dev/null; do sleep 0.01; done", READER,
				 log_of(0), NULL),
		0);
	proc_kill(&replicas[0]);
	expect_word_of(0, "lost");
	start_replica_with(1, log_of(0), "");
	expect_word_of(1, "its file was at ");
	expect_word_of(1, "joined");
	/* a copy beside it */
	assert_int_equal(shell("cp \"$1\" \"$2\"", log_of(0), "copy", NULL), 0);
	start_replica_with(0, "copy", "");
	expect_word_of(0, "not counted");
	assert_true(read_acks(&records, &bytes));
	assert_int_equal(records, 1);
	/* another file makes it two votes */
	start_replica(2);
	expect_word_of(2, "joined");
	wait_acks(2);
	proc_close_in(&writer);
	expect_end(&writer, 0);
	write_file("input", "one\ntwo\n", 8);
	expect_log(0, "input");
	expect_log(2, "input");
}

/* the file of a replica comes up at an address where none has been: it recognizes the promise all the same */
static void
a_file_moves_to_a_new_address(void **state)
{
	(void)state;
	start_replicas();
	proc_kill(&replicas[2]);
	start_writer(NULL, "--trust-empty");
	assert_int_equal(proc_write(&writer, "one\n", 4), 0);
	wait_acks(1);
	expect_line(&writer, "joined");
	expect_line(&writer, "joined");
	proc_kill(&replicas[0]);
	expect_word_of(0, "lost");
	start_replica_with(2, log_of(0), "");
	expect_word_of(2, "its file was at ");
	expect_word_of(2, "joined");
	assert_int_equal(proc_write(&writer, "two\n", 4), 0);
	wait_acks(2);
	proc_close_in(&writer);
	expect_end(&writer, 0);
	write_file("input", "one\ntwo\n", 8);
	expect_log(0, "input");
	expect_log(1, "input");
}

/* a file that is an older copy of itself, of the same epoch, does not have what it had */
static void
a_file_goes_back_in_time(void **state)
{
	struct log_header header;
	uint64_t records;
	uint64_t bytes;

	(void)state;
	start_replicas();
	start_writer(NULL, "");
	assert_int_equal(proc_write(&writer, "one\n", 4), 0);
	wait_acks(1);
	for (unsigned i = 0; i < REPLICAS; i++)
		expect_line(&writer, "joined");
	proc_kill(&replicas[1]);
	proc_kill(&replicas[2]);
	expect_line(&writer, "lost");
	expect_line(&writer, "lost");
	assert_int_equal(shell("cp \"$1\" \"$2\"", log_of(0), "older", NULL), 0);
	/* the record is on replica 0 alone, and then nowhere */
	assert_int_equal(proc_write(&writer, "two\n", 4), 0);
	assert_int_equal(shell("until \"$1\" -q -n 2 \"$2\" 2>/dev/null; do sleep 0.01; done", READER,
				 log_of(0), NULL),
		0);
	wait_lease(0);
	proc_kill(&replicas[0]);
	expect_word_of(0, "lost");
	assert_int_equal(rename("older", log_of(0)), 0);
	read_header(0, &header);
	/* it is connected, and hangs while its log is compared */
	start_replica_with(0, log_of(0), "slow-flush=600s@2");
	expect_line(&replicas[0], "writer connected");
	start_replica(2);
	expect_word_of(2, "joined");
	assert_int_equal(shell("until \"$1\" -q -n 2 \"$2\" 2>/dev/null; do sleep 0.01; done", READER,
				 log_of(2), NULL),
		0);
	proc_kill(&replicas[0]);
	expect_word_of(0, "lost");
	/* only replica 2 has the record */
	assert_true(read_acks(&records, &bytes));
	assert_int_equal(records, 1);
	/* its vote is taken until it has joined again; it hangs after that: at the flush of the log's id, or of a record */
	start_replica_with(0, log_of(0), "slow-flush=600s@5");
	expect_word_of(0, "its log is an older one");
	wait_header(0, 0, header.tail);
	proc_kill(&replicas[0]);
	expect_word_of(0, "lost");
	start_replica(0);
	expect_word_of(0, "joined");
	wait_acks(2);
	proc_close_in(&writer);
	expect_end(&writer, 0);
	write_file("input", "one\ntwo\n", 8);
	expect_log(0, "input");
	expect_log(2, "input");
}

/* a file and its copy, for a new writer, which has seen neither before */
static void
a_copy_is_no_majority(void **state)
{
	(void)state;
	write_lines("input", 0, 10);
	start_replicas();
	write_log("input", "");
	kill_replicas();
	assert_int_equal(shell("cp \"$1\" \"$2\"", log_of(0), "copy", NULL), 0);
	start_replica(0);
	start_replica_with(1, "copy", "");
	start_writer("/dev/null", "--timeout 1");
	expect_line(&writer, "not counted");
	expect_end(&writer, 1);
}

static void
logs_are_not_mixed_up(void **state)
{
	static const struct crafted log = { 9, REPLICAS, 2, "abc" };
	static const struct crafted other = { 10, REPLICAS, 2, "xyz" };
	static const struct crafted larger = { 9, 5, 2, "abc" };

	(void)state;
	craft_log(0, &log);
	craft_log(1, &log);
	craft_log(2, &other);
	start_replicas();
	start_writer("/dev/null", "");
	expect_line(&writer, "another log");
	expect_end(&writer, 1);
	write_file("expected", "xyz", 3);
	expect_log(2, "expected");
	proc_kill(&replicas[2]);
	craft_log(2, &larger);
	start_replica(2);
	start_writer("/dev/null", "");
	expect_line(&writer, "5 replicas");
	expect_end(&writer, 1);
}

static void
another_input_is_no_resumption(void **state)
{
	(void)state;
	write_lines("first", 0, 100);
	write_lines("other", 1, 101);
	start_replicas();
	write_log("first", "");
	start_writer("other", "--resume");
	expect_line(&writer, "differs");
	expect_end(&writer, 1);
	expect_logs("first");
}

static void
a_replica_ends_cleanly(void **state)
{
	(void)state;
	start_replicas();
	start_writer(NULL, "");
	assert_int_equal(proc_write(&writer, "one\n", 4), 0);
	wait_acks(1);
	for (unsigned i = 0; i < REPLICAS; i++) {
		assert_int_equal(kill(replicas[i].pid, SIGTERM), 0);
		assert_int_equal(proc_wait(&replicas[i], TIME_MS), 0);
	}
}

static int
setup(void **state)
{
	(void)state;
	addr = "127.0.0.1";
	memset(ports, 0, sizeof(ports));
	snprintf(dir, sizeof(dir), "replicated_log.XXXXXX");
	return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int
teardown(void **state)
{
	(void)state;
	proc_kill(&writer);
	kill_replicas();
	if (chdir(".."))
		return -1;
	return shell("rm -rf \"$1\"", dir, NULL, NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		TEST(lines_reach_all_replicas),
		TEST(a_second_run_appends),
		TEST(records_one_at_a_time),
		TEST(records_of_fixed_size),
		TEST(ipv6),
		TEST(a_replica_dies_and_comes_back),
		TEST(a_replica_loses_its_file),
		TEST(the_writer_waits_for_a_majority),
		TEST(the_writer_does_not_wait_for_ever),
		TEST(one_replica_is_not_enough),
		TEST(a_writer_dies_and_another_one_goes_on),
		TEST(a_second_writer_is_rejected),
		TEST(a_writer_that_hangs_loses_its_replicas),
		TEST(a_busy_replica_is_told_from_one_that_is_gone),
		TEST(a_full_log_is_an_error),
		TEST(foreign_short_and_damaged_files_are_refused),
		TEST(a_new_log_spares_an_earlier_one),
		TEST(the_right_log_is_recovered),
		TEST(a_damaged_log_is_not_taken_over),
		TEST(a_damaged_log_has_no_vote),
		TEST(an_empty_replica_is_no_witness),
		TEST(two_empty_replicas_may_have_lost_a_log),
		TEST(a_promise_of_unknown_result_is_recognized),
		TEST(a_file_has_one_vote),
		TEST(a_file_moves_to_a_new_address),
		TEST(a_file_goes_back_in_time),
		TEST(a_copy_is_no_majority),
		TEST(logs_are_not_mixed_up),
		TEST(another_input_is_no_resumption),
		TEST(a_replica_ends_cleanly),
	};

	/* an argument selects one test of the table by its name */
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
