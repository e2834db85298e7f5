/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * hostile.c -- one attack after the other against a server, while an honest client uses it
 *
 * Server, client and attacker are processes of their own. During each attack the client must connect, and
 * read back what it has written; the server must hold no more descriptors than its caps allow, give all of
 * them back, and touch no memory of others. With --measure also time and memory count: the client connects
 * within a second, 99 of 100 of its operations take less than ten times of what they take without an attack,
 * and the server's memory stays where its caps put it.
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
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attacks.h"
#include "deadline.h"
#include "options.h"
#include "process.h"

#define TIME_MS 30000
#define SAMPLE_MS 20

/* what the server is told to hold at most, and what it then may have: see check_server() */
#define PENDING "512"
#define PENDING_MAX 512
#define CLIENTS_MAX 1024
#define FDS_OF_A_CLIENT 4
/* a pending connection takes less than 4 KiB, an established one less than 64 KiB; the rest is the
 * allocator's */
#define MEMORY_MAX_KIB (PENDING_MAX * 4 + CLIENTS_MAX * 64 + 8192)

#define CONNECT_MAX_US 1000000
#define SLOWDOWN_MAX 10
/* a measurement is made again before it counts: the machine has other things to do as well */
#define MEASUREMENTS_MAX 3

struct honest {
	unsigned long connects, operations;
	unsigned longest_us, p50_us, p99_us;
};

static struct proc server;
static char port[16];
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

static bool
start_server(void)
{
	char line[256];
	char *argv[] = { SERVER, NULL };
	char *env[] = { "SOFTRDMA_MAX_PENDING=" PENDING, NULL };

	if (proc_start(&server, argv, env) ||
		proc_wait_line(&server, "listening on ", line, sizeof(line), TIME_MS)) {
		fail("the server does not start", NULL);
		return false;
	}
	snprintf(port, sizeof(port), "%s", strstr(line, "listening on ") + strlen("listening on "));
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

static pid_t
start_attack(const struct attack *attack, int64_t end_ms)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* it stands for another machine, and shall not win by taking the processor away */
	setpriority(PRIO_PROCESS, 0, 19);
	srandom((unsigned)settings.seed);
	_exit(attack->run((uint16_t)strtoul(port, NULL, 10), end_ms));
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
	char text[16], line[256] = "";
	char *argv[] = { HONEST, port, text, NULL };
	int status;

	snprintf(text, sizeof(text), "%lu", ms);
	if (proc_start(&client, argv, NULL))
		return false;
	while ((status = proc_wait(&client, SAMPLE_MS)) == -1)
		raise_to(most, server_usage());
	bool good = status == 0 && proc_wait_line(&client, "connects ", line, sizeof(line), TIME_MS) == 0 &&
		sscanf(line, "connects %lu longest_us %u operations %lu p50_us %u p99_us %u",
			&honest->connects, &honest->longest_us, &honest->operations, &honest->p50_us,
			&honest->p99_us) == 5;
	while (!good && proc_read_line(&client, line, sizeof(line), 1000) >= 0)
		printf("%s\n", line);
	proc_kill(&client);
	return good;
}

static void
print(const char *name, const struct honest *h, const struct usage *most, const struct usage *after)
{
	printf("%-22s %5lu connects, longest %6u us; %6lu operations, p50 %5u us, p99 %6u us; server at most %4u fds "
	       "%5u KiB, then %u fds %u KiB\n",
		name, h->connects, h->longest_us, h->operations, h->p50_us, h->p99_us, most->fds, most->kib,
		after->fds, after->kib);
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
	if (most->fds > before->fds + PENDING_MAX + CLIENTS_MAX * FDS_OF_A_CLIENT)
		fail("the server has more descriptors than its caps allow", NULL);
	if (settings.measure && most->kib > before->kib + MEMORY_MAX_KIB)
		fail("the server has more memory than its caps allow", NULL);
	if (settings.measure && after->kib > before->kib + MEMORY_MAX_KIB / 2)
		fail("the server keeps memory", NULL);
}

static bool
is_slow(const struct honest *honest, const struct honest *idle)
{
	return honest->longest_us > CONNECT_MAX_US || honest->p99_us > SLOWDOWN_MAX * idle->p99_us;
}

/* false: the honest client was slow in it */
static bool
attack_once(const struct attack *attack, const struct honest *idle, const struct usage *before)
{
	struct honest honest;
	struct usage most = *before;
	const unsigned long ms = settings.seconds * 1000;

	deadline_start(attack->name, (unsigned)settings.seconds + 120);
	pid_t pid = start_attack(attack, now_ms() + (int64_t)ms);
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
	return !settings.measure || !is_slow(&honest, idle);
}

static void
attack_server(const struct attack *attack, const struct honest *idle, const struct usage *before)
{
	for (int i = 0; i < MEASUREMENTS_MAX; i++)
		if (attack_once(attack, idle, before))
			return;
	fail("the honest client had to wait too long", attack->name);
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

int
main(int argc, char *argv[])
{
	struct honest idle;

	settings.seed = (unsigned long)now_ms() & UINT32_MAX;
	if (!options(argc, argv)) {
		fprintf(stderr,
			"usage: hostile [--seconds T] [--seed S] [--only PATTERN[|PATTERN...]] [--measure]\n"
			"T seconds for each attack\n");
		return 2;
	}
	printf("seed %lu\n", settings.seed);
	deadline_start("before the attacks", (unsigned)settings.seconds + 60);
	if (!start_server())
		return 1;
	struct usage before = server_usage();
	struct usage most = before;
	if (!visit(settings.seconds * 1000, &idle, &most)) {
		fail("the honest client has suffered without an attack", NULL);
		return 1;
	}
	before = settle(&before);
	print("none", &idle, &most, &before);
	for (const struct attack *attack = attacks; attack->name; attack++)
		if (option_matches(settings.only, attack->name))
			attack_server(attack, &idle, &before);
	deadline_start("after the attacks", 60);
	end_server();
	deadline_stop();
	if (failures == 0)
		printf("all attacks were withstood\n");
	return failures ? 1 : 0;
}
