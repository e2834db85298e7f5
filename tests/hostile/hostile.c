/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * hostile.c -- one attack after the other against a server, while an honest client uses it
 *
 * Server, client and attacker are processes of their own. There are two servers, each with its client: one
 * that listens, and one whose queue pairs are connected by hand. During each attack the client must connect,
 * and read back what it has written, and no operation may take longer than a second; the server must hold no
 * more descriptors than its caps allow, give all of them back, and touch no memory of others. With --measure
 * also other times and memory count: the client connects within a second, 99 of 100 of its operations take
 * less than ten times of what they take without an attack, and the server's memory stays where its caps put
 * it.
 */

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
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
#include "figures.h"
#include "hostile.h"
#include "options.h"
#include "process.h"

#define TIME_MS 30000
#define SAMPLE_MS 20
#define NICE_OF_ATTACKS 19

/* what the server may have: see check_server() */
#define CLIENTS_MAX 1024
#define FDS_OF_A_CLIENT 4
/* a pending connection takes less than 4 KiB, an established one less than 64 KiB; the rest is the
 * allocator's */
#define MEMORY_MAX_KIB (PENDING_MAX * 4 + CLIENTS_MAX * 64 + 8192)

#define CONNECT_MAX_US 1000000
/* none of the client's operations may take longer, on a busy machine and in any build: that is no load, but a
 * stall */
#define OPERATION_MAX_S 1
#define SLOWDOWN_MAX 10
/* a measurement is made again before it counts: the machine has other things to do as well */
#define MEASUREMENTS_MAX 3

struct honest {
	unsigned long connects, operations;
	unsigned longest_us, p50_us, p99_us, longest_operation_us;
};

/* who is attacked */
struct victim {
	const char *program, *client;
	bool by_hand;
	unsigned fds; /* that it may have under an attack beside those before */
};

static const struct victim victims[] = {
	{ SERVER, HONEST, false, PENDING_MAX + CLIENTS_MAX *FDS_OF_A_CLIENT },
	/* strangers may take half of what it may have; nothing else is asked for */
	{ HAND_SERVER, HAND_HONEST, true, HAND_FILES * 3 / 4 },
};

static const struct victim *victim;
static struct proc server;
static struct target target;
static unsigned client_port; /* where the client goes */
static unsigned failures;
static struct {
	const char *only;
	unsigned long seconds; /* of each attack */
	unsigned long seed;
	bool measure;
} settings = { .seconds = 1 };

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

/* its log is read, or it would wait for that in the end */
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

static bool
start_server(void)
{
	char program[256], line[256];
	char *argv[] = { program, NULL };
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
		fail("memory of the server that it gave to nobody was touched, or it has died", NULL);
	if (proc_wait(&server, TIME_MS) != 0)
		fail("the server does not end as it should", NULL);
	proc_kill(&server);
}

/* --- one attack --- */

/* it says when it has prepared itself, and then has so long */
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
		srandom((unsigned)settings.seed);
		if (attack->prepare && attack->prepare(&target))
			_exit(1);
		/* it stands for another machine, and shall not win by taking the processor away */
		(void)!nice(NICE_OF_ATTACKS);
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		close(ready[1]);
		_exit(attack->run(&target, now_ms() + ms));
	}
	close(ready[1]);
	/* at its end without a byte it has failed, which its status tells */
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

/* the honest client for so long; what the server holds meanwhile goes to most */
static bool
visit(unsigned long ms, struct honest *honest, struct usage *most)
{
	static struct proc client;
	char program[256], port[16], text[16], line[256] = "";
	char *argv[] = { program, port, text, NULL };
	int status;

	snprintf(program, sizeof(program), "%s", victim->client);
	snprintf(port, sizeof(port), "%u", client_port);
	snprintf(text, sizeof(text), "%lu", ms);
	if (proc_start(&client, argv, NULL))
		return false;
	while ((status = proc_wait(&client, SAMPLE_MS)) == -1)
		raise_to(most, server_usage());
	bool good = status == 0 && proc_wait_line(&client, "connects ", line, sizeof(line), TIME_MS) == 0 &&
		sscanf(line, FIGURES_FORMAT, &honest->connects, &honest->longest_us, &honest->operations,
			&honest->p50_us, &honest->p99_us, &honest->longest_operation_us) == 6;
	while (!good && proc_read_line(&client, line, sizeof(line), 1000) >= 0)
		printf("%s\n", line);
	proc_kill(&client);
	return good;
}

static void
print(const char *name, const struct honest *h, const struct usage *most, const struct usage *after)
{
	printf("%-24s %5lu connects, longest %6u us; %6lu operations, p50 %5u us, p99 %6u us, longest %7u us; "
	       "server at most %4u fds %5u KiB, then %u fds %u KiB\n",
		name, h->connects, h->longest_us, h->operations, h->p50_us, h->p99_us,
		h->longest_operation_us, most->fds, most->kib, after->fds, after->kib);
	fflush(stdout);
}

/* all that the attack has left must go by itself: deadlines, and ends of streams */
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
	if (settings.measure && most->kib > before->kib + MEMORY_MAX_KIB)
		fail("the server has more memory than its caps allow", NULL);
	if (settings.measure && after->kib > before->kib + MEMORY_MAX_KIB / 2)
		fail("the server keeps memory", NULL);
}

static bool
is_slow(const struct honest *honest, const struct honest *idle)
{
	if (honest->longest_operation_us > deadline_scaled(OPERATION_MAX_S) * 1000000)
		return true;
	return settings.measure &&
		(honest->longest_us > CONNECT_MAX_US || honest->p99_us > SLOWDOWN_MAX * idle->p99_us);
}

/* false: the honest client was slow in it */
static bool
attack_once(const struct attack *attack, const struct honest *idle, const struct usage *before)
{
	struct honest honest;
	struct usage most = *before;
	const unsigned long ms = settings.seconds * 1000;

	deadline_start(attack->name, (unsigned)settings.seconds + 120);
	pid_t pid = start_attack(attack, (int64_t)ms);
	if (pid < 0) {
		fail("no process for an attack", NULL);
		return true;
	}
	if (!visit(ms, &honest, &most)) {
		fail("the honest client has suffered", attack->name);
		kill(pid, SIGKILL);
		(void)await_attack(pid);
		return true;
	}
	if (!await_attack(pid))
		fail("the attack was let pass, or not carried out", attack->name);
	const struct usage after = settle(before);
	print(attack->name, &honest, &most, &after);
	check_server(before, &most, &after);
	deadline_stop();
	return !is_slow(&honest, idle);
}

static void
attack_server(const struct attack *attack, const struct honest *idle, const struct usage *before)
{
	for (int i = 0; i < MEASUREMENTS_MAX; i++)
		if (attack_once(attack, idle, before))
			return;
	fail("the honest client had to wait too long", attack->name);
}

/* what one attack has broken is not the next one's */
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
options(int argc, char *argv[])
{
	static const struct option names[] = {
		{ "seconds", required_argument, NULL, 't' },
		{ "seed", required_argument, NULL, 's' },
		{ "only", required_argument, NULL, 'o' },
		{ "measure", no_argument, NULL, 'm' },
		{ NULL, 0, NULL, 0 },
	};
	bool good = true;
	int option;

	while (good && (option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (option) {
		case 't':
			good = option_number(optarg, 1, 86400, &settings.seconds);
			break;
		case 's':
			good = option_number(optarg, 0, UINT32_MAX, &settings.seed);
			break;
		case 'o':
			settings.only = optarg;
			break;
		case 'm':
			settings.measure = true;
			break;
		default:
			good = false;
		}
	}
	return good && optind == argc;
}

static bool
is_chosen(const struct attack *attack)
{
	const bool certificates = getenv("SOFTRDMA_TLS_CERT"), key = getenv("SOFTRDMA_TLS_PSK");
	const bool possible = attack->needs == ATTACK_NEEDS_NOTHING || certificates ||
		(key && attack->needs == ATTACK_NEEDS_TLS);

	return possible && attack->by_hand == victim->by_hand && option_matches(settings.only, attack->name);
}

static bool
is_any_chosen(void)
{
	for (const struct attack *attack = attacks; attack->name; attack++)
		if (is_chosen(attack))
			return true;
	return false;
}

static void
attack_victim(void)
{
	struct honest idle;

	deadline_start("before the attacks", (unsigned)settings.seconds + 60);
	if (!start_server())
		return;
	struct usage before = server_usage();
	struct usage most = before;
	if (!visit(settings.seconds * 1000, &idle, &most)) {
		fail("the honest client has suffered without an attack", NULL);
		return;
	}
	before = settle(&before);
	print(victim->by_hand ? "none, by hand" : "none", &idle, &most, &before);
	for (const struct attack *attack = attacks; attack->name; attack++) {
		const unsigned failures_before = failures;
		if (!is_chosen(attack))
			continue;
		attack_server(attack, &idle, &before);
		if (failures > failures_before && !renew_server(&before))
			return;
	}
	deadline_start("after the attacks", 60);
	end_server();
	deadline_stop();
}

int
main(int argc, char *argv[])
{
	settings.seed = (unsigned long)now_ms() & UINT32_MAX;
	if (!options(argc, argv)) {
		fprintf(stderr,
			"usage: hostile [--seconds T] [--seed S] [--only PATTERN[|PATTERN...]] [--measure]\n"
			"T seconds for each attack\n");
		return 2;
	}
	printf("seed %lu\n", settings.seed);
	for (victim = victims; victim < victims + sizeof(victims) / sizeof(victims[0]); victim++)
		if (is_any_chosen())
			attack_victim();
	if (failures == 0)
		printf("all attacks were withstood\n");
	return failures ? 1 : 0;
}
