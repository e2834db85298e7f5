/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * kills.c -- a replicated log whose replicas and writer are killed with -9 at random moments
 *
 * In each round a writer streams into three replicas. The test kills some of the four processes, checks the
 * files, and starts the processes again. The page cache survives a kill, so the test also imitates a power
 * cut: if the writer is dead, it damages those bytes of a log that no acknowledgement covers. It checks:
 *
 *	- every log is sound from its beginning to its tail: no record is torn
 *	- a log contains the input, in order, and nothing else
 *	- each acknowledged record is in the logs of a majority
 *	- the next writer recovers the log and continues it; at the end each log is the whole input
 *
 * With --power-cut the test runs on a medium whose power can be cut (tests/lossy). After each kill it stops
 * the processes that are alive and cuts the power. The logs that are left on the medium must be sound, and a
 * majority of them must contain each acknowledged record.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
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
#include "log_format.h"
#include "power_cut.h"
#include "process.h"

#define REPLICAS 3
#define MAJORITY (REPLICAS / 2 + 1)
#define SIZE "4M"
#define LOG_SIZE ((size_t)4 << 20)
#define LINES 30000
#define LINE_MAX_LEN 256
/* once this many records are acknowledged, the log is completed and the next one begins */
#define LINES_ENOUGH 25000
#define TIME_MS 60000
#define ROUND_S 120
#define DAMAGE_MAX 65536
#define FINISHERS_MAX 5
#define TRIES_MAX 50

static struct proc replicas[REPLICAS];
static char ports[REPLICAS][16];
static struct proc writer;
static pid_t feeder; /* writes to the writer's standard input */
static const char *power_cut;
static bool after_power_cut; /* true while the logs on the medium are checked after a cut */

static char *input;
static size_t input_len;
static size_t ends[LINES + 1]; /* ends[n]: length of the first n lines */

static unsigned long rounds = 200;
static struct {
	unsigned long rounds, replicas, writers, damaged, logs, power_cuts;
	uint64_t acknowledged; /* records, of all logs */
	int64_t ms;
} total;

static void
fail(const char *what, unsigned replica)
{
	fprintf(stderr, "FAILED: %s%s (replica %u, round %lu, seed %lu)%s\n",
		after_power_cut ? "after a power cut: " : "", what, replica, total.rounds, driver.seed,
		power_cut ? "" : "; the files are kept");
	exit(1);
}

static long
random_below(long limit)
{
	return random() % limit;
}

static const char *
log_of(unsigned i)
{
	static const char *const names[REPLICAS] = { "replica0", "replica1", "replica2" };

	return names[i];
}

/* --- the programs --- */

static bool
try_replica(unsigned i, char line[static LINE_MAX_LEN])
{
	char *argv[] = { REPLICA, "127.0.0.1", ports[i], (char *)(uintptr_t)log_of(i), SIZE, NULL };

	if (proc_start(&replicas[i], argv, NULL))
		return false;
	while (proc_read_line(&replicas[i], line, LINE_MAX_LEN, TIME_MS) >= 0)
		if (strstr(line, "listening"))
			return true;
	proc_kill(&replicas[i]); /* line holds the last line it printed */
	return false;
}

/*
 * The first time a replica takes any free port, afterwards always the same. The port lies outside the range
 * that the kernel assigns to outgoing connections: otherwise a connection could take it while the replica is
 * dead.
 */
static void
start_replica(unsigned i)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	const bool is_new = ports[i][0] == '\0';
	char line[LINE_MAX_LEN] = "";

	for (int tries = 0; tries < TRIES_MAX; tries++) {
		if (is_new)
			snprintf(ports[i], sizeof(ports[i]), "%d", 20000 + (int)random_below(12000));
		else if (tries > 0)
			nanosleep(&pause, NULL);
		if (try_replica(i, line))
			return;
	}
	fprintf(stderr, "%s\n", line);
	fail("a replica does not start", i);
}

static void
start_dead_replicas(void)
{
	for (unsigned i = 0; i < REPLICAS; i++)
		if (replicas[i].pid == 0)
			start_replica(i);
}

/*
 * Writes the first `known` bytes at once and the rest in small pieces: at full speed a writer would finish
 * before the test kills it.
 */
static _Noreturn void
feed(int fd, size_t known)
{
	size_t at = 0;
	unsigned line = 0;
	size_t until = known;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (at < input_len) {
		ssize_t n = write(fd, input + at, until - at);
		if (n < 0)
			_exit(1); /* the writer is dead */
		at += (size_t)n;
		if (at < until)
			continue;
		const struct timespec pause = { .tv_nsec = random_below(2000000) };
		nanosleep(&pause, NULL);
		while (line < LINES && ends[line] <= at)
			line++;
		line += (unsigned)random_below(50);
		until = ends[line < LINES ? line : LINES];
	}
	_exit(0);
}

static void
start_writer(uint64_t known)
{
	char command[512];

	/*
	 * If the writer was killed before the first acknowledgement, the log may exist on one replica only.
	 * The others then look as if they had lost it; --trust-empty tells the writer that they have not.
	 * The output goes to a file, because no process reads a pipe of it.
	 */
	snprintf(command, sizeof(command),
		"exec '%s' -a acks --resume %s 127.0.0.1:%s,127.0.0.1:%s,127.0.0.1:%s >writer.out 2>&1",
		WRITER, known ? "" : "--trust-empty", ports[0], ports[1], ports[2]);
	char *argv[] = { "/bin/sh", "-c", command, NULL };
	if (proc_start(&writer, argv, NULL))
		fail("the writer does not start", 0);
	feeder = fork();
	if (feeder < 0)
		fail("no process for the input", 0);
	if (feeder == 0)
		feed(writer.in, ends[known]);
	proc_close_in(&writer);
}

/* the feeder ends by itself once its writer has ended */
static void
await_feeder(void)
{
	while (waitpid(feeder, NULL, 0) < 0 && errno == EINTR)
		;
}

static void
kill_replica(unsigned i)
{
	if (replicas[i].pid) {
		proc_kill(&replicas[i]);
		total.replicas++;
	}
}

static void
kill_writer(void)
{
	if (writer.pid) {
		proc_kill(&writer);
		await_feeder();
		total.writers++;
	}
}

/* --- the oracle --- */

static uint64_t
acknowledged(void)
{
	uint64_t records = 0;
	uint64_t bytes = 0;
	FILE *f = fopen("acks", "r");

	if (f == NULL)
		return 0;
	if (fscanf(f, "%" SCNu64 " %" SCNu64, &records, &bytes) != 2)
		records = 0;
	fclose(f);
	if (records > LINES || (records && bytes != ends[records]))
		fail("the file of acknowledgements does not fit the input", 0);
	return records;
}

static void
wait_acknowledged(uint64_t wanted)
{
	const struct timespec pause = { .tv_nsec = 500000 };
	const int64_t end = now_ms() + TIME_MS;

	while (acknowledged() < wanted) {
		if (now_ms() > end)
			fail("no record was acknowledged in time", 0);
		nanosleep(&pause, NULL);
	}
}

/*
 * Checks that each record of a log in the folder is the input's, and returns their number. *boundary is the
 * offset of the end of the first `wanted` records.
 */
static uint64_t
check_log(const char *folder, unsigned i, uint64_t wanted, size_t *boundary)
{
	char path[4096 + 16];
	static uint8_t log[LOG_SIZE];
	struct log_header header;
	struct log_record record;
	struct log_scan scan;
	enum log_status status;
	snprintf(path, sizeof(path), "%s/%s", folder, log_of(i));
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0; /* the replica was killed before it had made its file */
	if (read(fd, log, sizeof(log)) != (ssize_t)sizeof(log))
		fail("a log has lost its size", i);
	close(fd);
	if (log_header_decode(log, sizeof(log), sizeof(log), &header) != LOG_OK)
		fail("the header of a log is damaged", i);
	log_scan_init(&scan, log, header.tail);
	*boundary = LOG_HEADER_SIZE;
	while ((status = log_scan_next(&scan, &record)) == LOG_OK) {
		if (scan.records > LINES || record.length != ends[scan.records] - ends[scan.records - 1] ||
			memcmp(record.payload, input + ends[scan.records - 1], record.length) != 0)
			fail("a record is not what was written", i);
		if (scan.records == wanted)
			*boundary = scan.offset;
	}
	if (status != LOG_END)
		fail("a record is torn", i);
	return scan.records;
}

static void
put(int fd, const void *bytes, size_t len, size_t offset, unsigned i)
{
	if (pwrite(fd, bytes, len, (off_t)offset) != (ssize_t)len)
		fail("the damage cannot be done", i);
}

/*
 * Imitates what a power cut may leave of writes that were not acknowledged: the tail is where it was before,
 * and after it lie zeros, random bytes, or bytes that look like records.
 */
static void
damage(unsigned i, size_t boundary)
{
	static uint8_t bytes[DAMAGE_MAX];
	uint8_t word[LOG_WORD_SIZE];
	size_t len = (size_t)random_below(DAMAGE_MAX);
	int fd = open(log_of(i), O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	if (len > LOG_SIZE - boundary)
		len = LOG_SIZE - boundary;
	switch (random_below(3)) {
	case 0:
		memset(bytes, 0, len);
		break;
	case 1:
		for (size_t at = 0; at < len; at++)
			bytes[at] = (uint8_t)random();
		break;
	default:
		if (pread(fd, bytes, len, LOG_HEADER_SIZE) != (ssize_t)len)
			fail("a log cannot be read", i);
	}
	log_word_encode(word, LOG_WORD_TAIL, boundary);
	put(fd, word, sizeof(word), LOG_WORD_TAIL, i);
	put(fd, bytes, len, boundary, i);
	/* a real power cut (--power-cut) must not undo the damage */
	if (fdatasync(fd) || close(fd))
		fail("the damage cannot be done", i);
	total.damaged++;
}

/* --- power cuts --- */

/* Returns when all threads have stopped: from then on nothing is acknowledged. Does not reap the process. */
static void
stop(const struct proc *p)
{
	siginfo_t info;

	if (p->pid == 0)
		return;
	if (kill(p->pid, SIGSTOP) || waitid(P_PID, (id_t)p->pid, &info, WSTOPPED | WEXITED | WNOWAIT))
		fail("a process cannot be stopped", 0);
}

static void
go_on(const struct proc *p)
{
	if (p->pid && kill(p->pid, SIGCONT))
		fail("a process cannot be continued", 0);
}

/* a log whose file did not exist yet when the power was cut counts as one without records */
static void
check_what_is_left(const char *folder, uint64_t records)
{
	unsigned complete = 0;
	size_t boundary;

	for (unsigned i = 0; i < REPLICAS; i++)
		complete += check_log(folder, i, records, &boundary) >= records;
	if (complete < MAJORITY)
		fail("an acknowledged record is lost", 0);
}

static void
cut_power(void)
{
	char folder[4096];

	for (unsigned i = 0; i < REPLICAS; i++)
		stop(&replicas[i]);
	stop(&writer);
	const uint64_t records = acknowledged();
	after_power_cut = true;
	if (!power_cut_begin(power_cut, folder, sizeof(folder)))
		fail(folder, 0);
	check_what_is_left(folder, records);
	if (!power_cut_end(power_cut, folder, sizeof(folder)))
		fail(folder, 0);
	after_power_cut = false;
	total.power_cuts++;
	for (unsigned i = 0; i < REPLICAS; i++)
		go_on(&replicas[i]);
	go_on(&writer);
}

/* --- the oracle, continued --- */

static void
check_logs(void)
{
	const uint64_t records = acknowledged();
	size_t boundaries[REPLICAS];
	unsigned complete = 0;

	for (unsigned i = 0; i < REPLICAS; i++) {
		/* a living writer changes the log while it is read: it is checked once the writer is dead */
		if (writer.pid && replicas[i].pid)
			continue;
		uint64_t have = check_log(".", i, records, &boundaries[i]);
		complete += have >= records;
		if (writer.pid == 0 && replicas[i].pid == 0 && have >= records && random_below(2))
			damage(i, boundaries[i]);
	}
	if (writer.pid == 0 && complete < MAJORITY)
		fail("an acknowledged record is lost", 0);
}

/* --- rounds --- */

/* varies the operation that a kill interrupts */
static void
random_pause(void)
{
	const struct timespec pause = { .tv_nsec = random_below(5000000) };

	nanosleep(&pause, NULL);
}

/* any of the replicas, and perhaps the writer, before or after them; at least one process */
static void
kill_something(void)
{
	const long victims = random_below(1 << REPLICAS);
	const long of_writer = random_below(3);

	random_pause();
	if (of_writer == 1 || victims == 0)
		kill_writer();
	for (unsigned i = 0; i < REPLICAS; i++) {
		if (random_below(2))
			random_pause();
		if (victims >> i & 1)
			kill_replica(i);
	}
	if (of_writer == 2)
		kill_writer();
}

static void
one_round(void)
{
	deadline_start("a round of kills", ROUND_S);
	const uint64_t before = acknowledged();
	if (writer.pid == 0)
		start_writer(before);
	/* in one round of four, kill while the writer still recovers or updates a replica */
	if (random_below(4))
		wait_acknowledged(before + (uint64_t)random_below(600));
	kill_something();
	total.rounds++;
	driver_progress(total.rounds, rounds, "rounds");
	if (power_cut)
		cut_power();
	check_logs();
	start_dead_replicas();
	deadline_stop();
}

static void
one_log(void)
{
	size_t boundary;

	for (unsigned i = 0; i < REPLICAS; i++)
		unlink(log_of(i));
	unlink("acks");
	memset(ports, 0, sizeof(ports));
	start_dead_replicas();
	while (total.rounds < rounds && acknowledged() < LINES_ENOUGH)
		one_round();

	/* A writer ends without waiting for a replica that is late. The next writer sends it the rest. */
	deadline_start("the end of a log", ROUND_S);
	bool complete = false;
	for (int tries = 0; tries < FINISHERS_MAX && !complete; tries++) {
		if (writer.pid == 0)
			start_writer(LINES);
		if (proc_wait(&writer, TIME_MS) != 0)
			fail("the writer does not end (see writer.out)", 0);
		proc_kill(&writer);
		await_feeder();
		complete = true;
		for (unsigned i = 0; i < REPLICAS; i++)
			complete = check_log(".", i, 0, &boundary) == LINES && complete;
	}
	if (!complete)
		fail("a log is not complete", 0);
	if (power_cut)
		cut_power();
	for (unsigned i = 0; i < REPLICAS; i++)
		proc_kill(&replicas[i]);
	deadline_stop();
	total.logs++;
	total.acknowledged += LINES;
}

/* --- all of it --- */

static void
make_input(void)
{
	input = malloc((size_t)LINES * LINE_MAX_LEN);
	if (input == NULL)
		fail("no memory", 0);
	for (unsigned i = 0; i < LINES; i++) {
		ends[i] = input_len;
		input_len += (size_t)snprintf(input + input_len, LINE_MAX_LEN, "line %u %*s\n", i,
			(int)(i * 7919 % 100), "");
	}
	ends[LINES] = input_len;
	FILE *f = fopen("input", "w");
	if (f == NULL || fwrite(input, 1, input_len, f) != input_len || fclose(f))
		fail("the input cannot be written", 0);
}

static void
load(void)
{
	char line[DRIVER_LINE_MAX];
	FILE *f = driver_open_resume(line, "%s", "");

	if (f == NULL)
		return;
	if (sscanf(line, "%lu %lu %lu %lu %lu %" SCNu64 " %" SCNd64, &total.rounds, &total.replicas,
		    &total.writers, &total.damaged, &total.logs, &total.acknowledged, &total.ms) != 7)
		fail("the state cannot be read", 0);
	fclose(f);
}

static void
save(void)
{
	driver_save("%lu %lu %lu %lu %lu %" PRIu64 " %" PRId64 "\n", total.rounds, total.replicas,
		total.writers, total.damaged, total.logs, total.acknowledged, total.ms);
}

static void
remove_dir(char *dir)
{
	static struct proc p;
	char *rm[] = { "rm", "-rf", dir, NULL };

	if (chdir("..") || proc_start(&p, rm, NULL))
		return;
	(void)proc_wait(&p, TIME_MS);
	proc_kill(&p);
}

static const struct driver_option options[] = {
	{ "rounds", "N", "number of rounds, with those of the resume file", .number = &rounds, .min = 1,
		.max = UINT32_MAX },
	{ DRIVER_SEED },
	{ DRIVER_SECONDS, .help = "begin no log after T seconds" },
	{ DRIVER_RESUME, .help = "keep the figures in FILE after each log, and go on from there" },
	{ "power-cut", "COMMAND", "command that cuts the power of the medium of this directory (tests/lossy)",
		.text = &power_cut },
	{ 0 },
};

static const struct driver_program kills = { "kills",
	"Kills replicas and the writer of a replicated log with -9, and looks for lost and torn records.",
	options };

int
main(int argc, char *argv[])
{
	char dir[] = "kills.XXXXXX";
	int64_t begin, before_ms;

	driver_parse(&kills, argc, argv);
	if (mkdtemp(dir) == NULL || chdir(dir))
		fail("no directory", 0);
	srandom((unsigned)driver.seed);
	load();
	printf("seed %lu, from round %lu on\n", driver.seed, total.rounds);
	fflush(stdout);
	make_input();
	begin = now_ms();
	before_ms = total.ms;
	while (total.rounds < rounds && !driver_is_time_over()) {
		one_log();
		total.ms = before_ms + now_ms() - begin;
		save();
	}
	if (power_cut)
		printf("%lu power cuts: each acknowledged record was left on a majority, and no log was torn\n",
			total.power_cuts);
	free(input);
	remove_dir(dir);
	return driver_close(true,
		"%lu rounds: %lu replicas and %lu writers killed, %lu logs damaged behind what was acknowledged; "
		"%" PRIu64 " records in %lu logs, none lost, none torn; %" PRId64 " s",
		total.rounds, total.replicas, total.writers, total.damaged, total.acknowledged, total.logs,
		total.ms / 1000);
}
