/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * hostile.c -- attacks a server, one attack after the other, while an honest client uses it
 *
 * Server, client and attacker are separate processes. There are two servers, each with its client: one
 * listens, the other connects its queue pairs by hand. During each attack the client must be able to connect
 * and to read back what it has written, and each of its operations must end within a second. The server must
 * keep within its cap of descriptors, close all of them afterwards, and leave other memory untouched. If the attackers flood it
 * with flushes, the client flushes as well, and once more after they have left.
 *
 * --measure checks more: the client connects within a second, and 99 % of its connections within 50 ms; 99 % of its operations
 * take less than ten times as long as without an attack, and so do half of its flushes 2 s after the attackers have left;
 * and the server's memory stays within its cap.
 */

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attacks.h"
#include "deadline.h"
#include "driver.h"
#include "figures.h"
#include "hostile.h"
#include "process.h"
#include "raw.h"

#define TIME_MS 30000
#define SAMPLE_MS 20
#define NICE_OF_ATTACKS 19
/* 127.0.0.9; the attacks have theirs from 10 on */
#define HOST_OF_NO_ATTACK 9

/* caps of the server: see check_server() */
#define CLIENTS_MAX 1024
#define FDS_OF_A_CLIENT 4
/* less than 4 KiB for a pending connection and 64 KiB for an established one, and a reserve for the allocator */
#define MEMORY_MAX_KIB (PENDING_MAX * 4 + CLIENTS_MAX * 64 + 8192)

#define CONNECT_MAX_US 1000000
#define CONNECT_P99_MAX_US 50000
/* An operation of the client that takes longer has stalled: load alone does not explain it, in any build. */
#define OPERATION_MAX_S 1
#define SLOWDOWN_MAX 10
#define AFTERWARDS_S 2
/* a measurement that is too slow is repeated: other work on the machine may be the reason */
#define MEASUREMENTS_MAX 3

struct honest {
	unsigned long connects, operations;
	unsigned connect_p99_us, longest_us, p50_us, p99_us, longest_operation_us;
};

/* a server that is attacked, and its honest client */
struct victim {
	const char *program, *client;
	bool by_hand;
	unsigned fds; /* descriptors that an attack may add */
};

static const struct victim victims[] = {
	{ SERVER, HONEST, false, PENDING_MAX + CLIENTS_MAX *FDS_OF_A_CLIENT },
	/* its port gives strangers half of its descriptors; the honest client needs few */
	{ HAND_SERVER, HAND_HONEST, true, HAND_FILES * 3 / 4 },
};

static const struct victim *victim;
static struct proc server;
static struct target target;
static unsigned client_port; /* the port that the client connects to */
static unsigned failures;
static bool measure;

static void
fail(const char *what, const char *detail)
{
	printf("FAILED: %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
	failures++;
}

/* --- the server, seen from outside --- */

static unsigned
server_fds(void)
{
	char path[64];
	unsigned count = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)server.pid);
	DIR *dir = opendir(path);
	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

static unsigned
server_kib(void)
{
	char path[64], line[256];
	unsigned kib = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)server.pid);
	FILE *f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %u kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

struct usage {
	unsigned fds, kib;
};

/* also reads the server's log: the server would block on a full pipe */
static struct usage
server_usage(void)
{
	char line[256];

	while (proc_read_line(&server, line, sizeof(line), 0) >= 0)
		;
	return (struct usage){ server_fds(), server_kib() };
}

static void
raise_to(struct usage *most, struct usage now)
{
	most->fds = now.fds > most->fds ? now.fds : most->fds;
	most->kib = now.kib > most->kib ? now.kib : most->kib;
}

/* "listening on <port>", and for one by hand " gid <hex> qp <number> cards <port>" */
static bool
read_target(const char *text)
{
	char gid[2 * TARGET_GID_SIZE + 1];
	unsigned port;

	if (!victim->by_hand) {
		const bool good = sscanf(text, "listening on %u", &client_port) == 1;
		target.port = (uint16_t)client_port;
		return good;
	}
	if (sscanf(text, "listening on %u gid %32s qp %u cards %u", &port, gid, &target.qp_num,
		    &client_port) != 4)
		return false;
	target.port = (uint16_t)port;
	for (size_t i = 0; i < TARGET_GID_SIZE; i++) {
		const char digits[] = { gid[2 * i], gid[2 * i + 1], 0 };
		target.gid[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return true;
}

/* the server's file, in the working directory: it has a name as long as the server may flush it */
static char file[] = "hostile.XXXXXX";

static void
remove_file(void)
{
	(void)unlink(file);
}

static bool
make_file(void)
{
	int fd = mkstemp(file);

	if (fd < 0 || atexit(remove_file))
		return false;
	close(fd);
	return true;
}

static bool
start_server(void)
{
	char program[256], line[256];
	char *argv[] = { program, victim->by_hand ? NULL : file, NULL };
	char *env[] = { "SOFTRDMA_MAX_PENDING=" PENDING_TEXT, NULL };

	snprintf(program, sizeof(program), "%s", victim->program);
	if (proc_start(&server, argv, victim->by_hand ? NULL : env) ||
		proc_wait_line(&server, "listening on ", line, sizeof(line), TIME_MS) ||
		!read_target(strstr(line, "listening on "))) {
		fail("the server does not start", NULL);
		return false;
	}
	return true;
}

static void
end_server(void)
{
	proc_close_in(&server);
	if (proc_wait_line(&server, "untouched", NULL, 0, TIME_MS))
		fail("memory of the server was touched that it has not registered for clients, or the server has died",
			NULL);
	if (proc_wait(&server, TIME_MS) != 0)
		fail("the server does not end with status 0", NULL);
	proc_kill(&server);
}

/* --- one attack --- */

/* Returns once the attack has prepared itself; it then goes on for `ms`. */
static pid_t
start_attack(const struct attack *attack, int64_t ms)
{
	int ready[2];
	char byte = 0;

	if (pipe(ready))
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready[0]);
		srandom((unsigned)driver.seed);
		if (attack->prepare && attack->prepare(&target))
			_exit(1);
		/* the attacker stands for another machine: it must not win by using this processor */
		(void)!nice(NICE_OF_ATTACKS);
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		close(ready[1]);
		_exit(attack->run(&target, now_ms() + ms));
	}
	close(ready[1]);
	/* the end of the pipe without a byte means that the attack has failed; its status tells so */
	while (pid > 0 && read(ready[0], &byte, 1) < 0 && errno == EINTR)
		;
	close(ready[0]);
	return pid;
}

static bool
await_attack(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Runs the honest client for `ms`. *most becomes the most that the server has held meanwhile. */
static bool
visit(unsigned long ms, bool flushes, struct honest *honest, struct usage *most)
{
	static struct proc client;
	char program[256], port[16], text[16], line[256] = "";
	char *argv[] = { program, port, text, flushes ? "flush" : NULL, NULL };
	int status;

	snprintf(program, sizeof(program), "%s", victim->client);
	snprintf(port, sizeof(port), "%u", client_port);
	snprintf(text, sizeof(text), "%lu", ms);
	if (proc_start(&client, argv, NULL))
		return false;
	while ((status = proc_wait(&client, SAMPLE_MS)) == -1)
		raise_to(most, server_usage());
	bool good = status == 0 && proc_wait_line(&client, "connects ", line, sizeof(line), TIME_MS) == 0 &&
		sscanf(line, FIGURES_FORMAT, &honest->connects, &honest->connect_p99_us, &honest->longest_us,
			&honest->operations, &honest->p50_us, &honest->p99_us,
			&honest->longest_operation_us) == 7;
	while (!good && proc_read_line(&client, line, sizeof(line), 1000) >= 0)
		printf("%s\n", line);
	proc_kill(&client);
	return good;
}

static void
print(const char *name, const struct honest *h, const struct usage *most, const struct usage *after)
{
	printf("%-24s %5lu connects, p99 %6u us, longest %6u us; %6lu operations, p50 %5u us, p99 %6u us, longest %7u us; "
	       "server at most %4u fds %5u KiB, then %u fds %u KiB\n",
		name, h->connects, h->connect_p99_us, h->longest_us, h->operations, h->p50_us, h->p99_us,
		h->longest_operation_us, most->fds, most->kib, after->fds, after->kib);
	fflush(stdout);
}

/* Waits until the server has closed what the attack has left: by deadlines and ends of streams. */
static struct usage
settle(const struct usage *before)
{
	const struct timespec pause = { .tv_nsec = SAMPLE_MS * 1000000 };
	const int64_t end = now_ms() + TIME_MS;
	struct usage now = server_usage();

	while (now.fds > before->fds && now_ms() < end) {
		nanosleep(&pause, NULL);
		now = server_usage();
	}
	if (now.fds != before->fds)
		fail("the server keeps descriptors", NULL);
	return now;
}

static void
check_server(const struct usage *before, const struct usage *most, const struct usage *after)
{
	if (most->fds > before->fds + victim->fds)
		fail("the server has more descriptors than its caps allow", NULL);
	if (measure && most->kib > before->kib + MEMORY_MAX_KIB)
		fail("the server has more memory than its caps allow", NULL);
	if (measure && after->kib > before->kib + MEMORY_MAX_KIB / 2)
		fail("the server keeps memory", NULL);
}

/* flushes of an honest client wait for the same medium as those of attackers, so they are measured when these have left */
static bool
is_slow(const struct attack *attack, const struct honest *honest, const struct honest *idle)
{
	if (attack->flushes)
		return false;
	if (honest->longest_operation_us > deadline_scaled(OPERATION_MAX_S) * 1000000)
		return true;
	return measure &&
		(honest->longest_us > CONNECT_MAX_US || honest->connect_p99_us > CONNECT_P99_MAX_US ||
			honest->p99_us > SLOWDOWN_MAX * idle->p99_us);
}

/* the attackers have left: their flushes must not be made any longer. False if the honest client was slow. */
static bool
flush_afterwards(const struct attack *attack, const struct honest *idle, const struct usage *before)
{
	const struct timespec pause = { .tv_sec = AFTERWARDS_S };
	struct honest honest;
	struct usage most = *before;
	char name[64];

	nanosleep(&pause, NULL);
	if (!visit(driver.seconds * 1000, true, &honest, &most)) {
		fail("the honest client failed afterwards", attack->name);
		return true;
	}
	snprintf(name, sizeof(name), "%s, after it", attack->name);
	print(name, &honest, &most, before);
	return !measure || honest.p50_us <= SLOWDOWN_MAX * idle->p50_us;
}

/* false if the honest client was slow */
static bool
attack_once(const struct attack *attack, const struct honest *idle, const struct usage *before)
{
	struct honest honest;
	struct usage most = *before;
	const unsigned long ms = driver.seconds * 1000;

	deadline_start(attack->name, (unsigned)driver.seconds + 120);
	pid_t pid = start_attack(attack, (int64_t)ms);
	if (pid < 0) {
		fail("fork failed for an attack", NULL);
		return true;
	}
	if (!visit(ms, attack->flushes, &honest, &most)) {
		fail("the honest client failed", attack->name);
		kill(pid, SIGKILL);
		(void)await_attack(pid);
		return true;
	}
	if (!await_attack(pid))
		fail("the server let the attack pass, or the attack could not be made", attack->name);
	bool quick = !attack->flushes || flush_afterwards(attack, idle, before);
	const struct usage after = settle(before);
	print(attack->name, &honest, &most, &after);
	check_server(before, &most, &after);
	deadline_stop();
	return quick && !is_slow(attack, &honest, idle);
}

static void
attack_server(const struct attack *attack, const struct honest *idle, const struct usage *before)
{
	for (int i = 0; i < MEASUREMENTS_MAX; i++)
		if (attack_once(attack, idle, before))
			return;
	fail("the honest client had to wait too long", attack->name);
}

/* a failure of one attack must not affect the next one */
static bool
renew_server(struct usage *before)
{
	proc_kill(&server);
	if (!start_server())
		return false;
	*before = server_usage();
	return true;
}

static bool
is_chosen(const struct attack *attack)
{
	const bool certificates = getenv("SOFTRDMA_TLS_CERT"), key = getenv("SOFTRDMA_TLS_PSK");
	const bool possible = attack->needs == ATTACK_NEEDS_NOTHING || certificates ||
		(key && attack->needs == ATTACK_NEEDS_TLS);

	return possible && attack->by_hand == victim->by_hand && driver_admits(attack->name);
}

/* the attacks on this victim that --only and the environment admit */
static size_t
count_chosen(void)
{
	size_t count = 0;

	for (const struct attack *attack = attacks; attack->name; attack++)
		count += is_chosen(attack);
	return count;
}

static bool
one_flushes(void)
{
	bool flushes = false;

	for (const struct attack *attack = attacks; attack->name; attack++)
		flushes = flushes || (attack->flushes && is_chosen(attack));
	return flushes;
}

/*
 * The attacks speak the protocol by hand. If the server took none of their requests, because of its version say, they would
 * attack the refusal alone, and find nothing.
 */
static void
expect_heard(void)
{
	struct raw_memory memory;
	const int fd = raw_establish(HOST_OF_NO_ATTACK, target.port, &memory);

	if (fd < 0)
		fail("the server refuses the request that the attacks begin with", NULL);
	else
		raw_close(fd);
}

static void
attack_victim(void)
{
	struct honest idle, idle_flushing = { 0 };

	deadline_start("before the attacks", (unsigned)driver.seconds * 2 + 60);
	if (!start_server())
		return;
	struct usage before = server_usage();
	struct usage most = before;
	if (!visit(driver.seconds * 1000, false, &idle, &most) ||
		(one_flushes() && !visit(driver.seconds * 1000, true, &idle_flushing, &most))) {
		fail("the honest client failed without an attack", NULL);
		return;
	}
	if (!victim->by_hand)
		expect_heard();
	before = settle(&before);
	print(victim->by_hand ? "none, by hand" : "none", &idle, &most, &before);
	if (one_flushes())
		print("none, flushes", &idle_flushing, &most, &before);
	for (const struct attack *attack = attacks; attack->name; attack++) {
		const unsigned failures_before = failures;
		if (!is_chosen(attack))
			continue;
		attack_server(attack, attack->flushes ? &idle_flushing : &idle, &before);
		if (failures > failures_before && !renew_server(&before))
			return;
	}
	deadline_start("after the attacks", 60);
	end_server();
	deadline_stop();
}

static const struct driver_option options[] = {
	{ DRIVER_SECONDS, .help = "seconds that each attack lasts" },
	{ DRIVER_SEED },
	{ DRIVER_ONLY },
	{ "measure", NULL, "check latencies and memory too; for a machine with nothing else to do",
		.flag = &measure },
	{ 0 },
};

static const struct driver_program hostile = { "hostile",
	"Attacks a server, one attack after the other, while an honest client uses it. Attacks over TLS need\n"
	"SOFTRDMA_TLS_* in the environment (tests/lib/with-certificates).",
	options };

int
main(int argc, char *argv[])
{
	const struct victim *const end = victims + sizeof(victims) / sizeof(victims[0]);
	size_t chosen = 0;

	driver.seconds = 1;
	driver_parse(&hostile, argc, argv);
	for (victim = victims; victim < end; victim++)
		chosen += count_chosen();
	driver_refuse_if_none(chosen, "attack that can be made here");
	driver_print_seed();
	if (!make_file())
		return driver_close(false, "no file can be made in the working directory");
	for (victim = victims; victim < end; victim++)
		if (count_chosen())
			attack_victim();
	if (failures)
		return driver_close(false, "%u failures", failures);
	return driver_close(true, "all attacks were withstood");
}
