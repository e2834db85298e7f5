/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * examples.c -- the examples 16 (a journal) and 14 (a journal on three keepers) under faults and power cuts
 *
 * Example 16: a client writes records around the border of two pages. A flush of the server fails, or a work
 * request of the client, and the client ends, or goes on with the same server, started again. Then a second
 * client follows, which counts the records that it sees, and appends one. At each point the power is cut, and
 * the journal must have each record that a client has printed as durable.
 *
 * Example 14: after the same faults and a power cut of all keepers, each record that the client has printed as
 * durable is in the journals of a majority.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deadline.h"
#include "driver.h"
#include "site.h"
#include "tasks.h"

#define JOURNAL_RECORDS 1000
#define JOURNAL_FILE_SIZE 65536
#define TEXT_LEN 48
#define POSITIONS_MAX 2048
#define WAIT_LOOK_MS 20

#define PER_PAGE 64 /* records */
#define KNOWN 62    /* records of the base */
#define RECORDS 4   /* of the client with the fault: the last ones of a page and the first ones of the next */

struct journal {
	unsigned count;
	char text[JOURNAL_RECORDS + 1][TEXT_LEN]; /* of records 1 to count; of the others "" */
};

static struct program client;
static struct journal acked; /* what clients have printed as durable */

/* reads lines "<before>N: text" */
static void
parse(const char *said, const char *before, struct journal *journal)
{
	for (const char *line = said; *line; line = strchrnul(line, '\n'), line += *line == '\n') {
		char text[TEXT_LEN];
		unsigned number;
		if (strncmp(line, before, strlen(before)) != 0 ||
			sscanf(line + strlen(before), "%u: %47[^\n]", &number, text) != 2 || number == 0 ||
			number > JOURNAL_RECORDS)
			continue;
		snprintf(journal->text[number], TEXT_LEN, "%s", text);
		if (number > journal->count)
			journal->count = number;
	}
}

static bool
start_server(const char *state, unsigned host, const char *program, const char *faults)
{
	char *argv[] = { (char *)(uintptr_t)program, site_addr, hosts[host].port,
		(char *)(uintptr_t)state_file(state, host), NULL };

	return host_start(host, argv, faults);
}

static void
start_client(unsigned host, const char *faults)
{
	char *argv[] = { JOURNAL_CLIENT, site_addr, hosts[host].port, NULL };

	program_start(&client, argv, faults, false);
}

/* a server prints its journal after a client has come and gone */
static void
print_journal(const char *state, unsigned host, const char *program, struct journal *journal)
{
	memset(journal, 0, sizeof(*journal));
	if (!start_server(state, host, program, NULL))
		give_up("a server does not start:\n%s", hosts[host].program.said);
	start_client(host, NULL);
	proc_close_in(&client.proc);
	if (program_end(&client, site_patience_ms()) != 0 ||
		program_end(&hosts[host].program, site_patience_ms()) != 0)
		report(REFUSED, "the journal cannot be read:\n%s\n%s", client.said, hosts[host].program.said);
	program_kill(&client);
	host_kill(host);
	parse(hosts[host].program.said, "", journal);
	totals->recoveries++;
}

/* --- example 16 --- */

enum after_fault { CLIENT_ENDS, SERVER_AGAIN, SERVER_AGAIN_AFTER_CUT, MODES };

struct run {
	const char *host_faults;
	const char *client_faults;
	unsigned mode;
	bool at_once; /* all lines at once */
	bool struck;
	bool ended; /* all is acknowledged */
	bool stuck;
};

static void
note(struct run *run)
{
	program_drain(&client);
	program_drain(&hosts[0].program);
	run->struck |= client.struck || hosts[0].program.struck;
}

/* after the fault the server has ended: true if the client may go on */
static bool
go_on(struct run *run)
{
	program_drain(&hosts[0].program);
	host_kill(0);
	note(run);
	if (run->mode == CLIENT_ENDS)
		return false;
	if (run->mode == SERVER_AGAIN_AFTER_CUT)
		state_cut("run", 0);
	if (!start_server("run", 0, JOURNAL_SERVER, NULL))
		give_up("the server does not start again:\n%s", hosts[0].program.said);
	return true;
}

static bool
await_durable(struct run *run, unsigned number)
{
	const int64_t end = now_ms() + site_patience_ms();
	char text[32];

	snprintf(text, sizeof(text), "durable: %u: ", number);
	for (;;) {
		note(run);
		if (strstr(client.said, text))
			return true;
		if (!program_runs(&hosts[0].program) && !go_on(run))
			return false;
		/* it may end by itself, if it cannot make durable what it has found */
		run->stuck = now_ms() > end;
		if (run->stuck || !program_runs(&client))
			return false;
		(void)program_wait_line(&client, text, WAIT_LOOK_MS);
	}
}

static void
run_journal(struct run *run)
{
	char line[TEXT_LEN];

	memset(&acked, 0, sizeof(acked));
	state_copy("../journal", "run", 0);
	if (!start_server("run", 0, JOURNAL_SERVER, run->host_faults))
		give_up("the server does not start:\n%s", hosts[0].program.said);
	start_client(0, run->client_faults);
	run->struck = false;
	run->ended = true;
	run->stuck = false;
	for (unsigned i = 1; i <= RECORDS && run->ended; i++) {
		snprintf(line, sizeof(line), "line %u\n", KNOWN + i);
		(void)proc_write(&client.proc, line, strlen(line));
		if (!run->at_once || i == RECORDS)
			run->ended = await_durable(run, KNOWN + i);
	}
	proc_close_in(&client.proc);
	if (run->ended)
		run->ended = program_end(&client, site_patience_ms()) == 0;
	program_kill(&client);
	host_kill(0);
	note(run);
	parse(client.said, "durable: ", &acked);
	totals->runs++;
	totals->struck += run->struck;
}

static void
check_journal(const char *when)
{
	static struct journal journal;

	totals->states++;
	state_copy("run", "check", 1);
	print_journal("check", 0, JOURNAL_SERVER, &journal);
	for (unsigned i = 1; i <= acked.count; i++)
		if (acked.text[i][0] && strcmp(acked.text[i], journal.text[i]) != 0) {
			report(journal.text[i][0] ? WRONG : LOST,
				"power cut %s: record %u of the journal: '%s', but '%s' was durable", when, i,
				journal.text[i], acked.text[i]);
			return;
		}
	totals->records += acked.count > KNOWN ? acked.count - KNOWN : 0;
}

static void
append_one(void)
{
	static const char line[] = "one record more\n";

	if (!start_server("run", 0, JOURNAL_SERVER, NULL))
		give_up("the server does not start:\n%s", hosts[0].program.said);
	start_client(0, NULL);
	(void)proc_write(&client.proc, line, strlen(line));
	proc_close_in(&client.proc);
	if (program_end(&client, site_patience_ms()) != 0)
		report(REFUSED, "the next client fails:\n%s", client.said);
	program_kill(&client);
	host_kill(0);
	parse(client.said, "durable: ", &acked);
}

static void
check_client_and_next(struct run *run)
{
	if (run->stuck)
		report(REFUSED, "the client neither goes on nor ends:\n%s", client.said);
	if (run->mode != CLIENT_ENDS && !run->ended)
		totals->refused++;
	check_journal("after the client");
	append_one();
	check_journal("after the next client");
}

static void
fail_in_journal(const struct task *task)
{
	char faults[64];
	struct run run = { .mode = task->mode % MODES, .at_once = task->mode >= MODES };

	if (task->host) {
		snprintf(faults, sizeof(faults), "wc-error=retry_exc@%u,connection=1", task->at);
		run.client_faults = faults;
	} else {
		snprintf(faults, sizeof(faults), "flush-error@%u,connection=1", task->at);
		run.host_faults = faults;
	}
	run_journal(&run);
	if (!run.struck)
		report(FAILED, "the fault has not occurred");
	check_client_and_next(&run);
}

static bool
is_reached_in_journal(unsigned at, bool by_client)
{
	char faults[64];
	struct run run = { .mode = CLIENT_ENDS };

	snprintf(faults, sizeof(faults), "%s@%u,connection=1",
		by_client ? "wc-error=retry_exc" : "flush-error", at);
	*(by_client ? &run.client_faults : &run.host_faults) = faults;
	run_journal(&run);
	return run.struck;
}

static void
add_journal_tasks(bool by_client, bool quick)
{
	static const char *const modes[] = { "client-ends", "server-again", "server-again-after-cut",
		"at-once,client-ends", "at-once,server-again", "at-once,server-again-after-cut" };
	unsigned at;

	for (at = 1; at < POSITIONS_MAX && is_reached_in_journal(at, by_client); at++) {
		for (unsigned mode = 0; mode < 2 * MODES; mode++) {
			/* what the next client counts, and what the same one repeats */
			if (quick && mode != CLIENT_ENDS && (by_client || mode != SERVER_AGAIN_AFTER_CUT))
				continue;
			struct task task = { .run = fail_in_journal,
				.host = by_client,
				.at = at,
				.mode = mode };
			snprintf(task.name, sizeof(task.name), "example16/%s@%u/%s",
				by_client ? "client/wc-error" : "server/flush-error", at, modes[mode]);
			task_add(&task);
		}
	}
	if (at == 1)
		report(FAILED, "example16: there is no %s", by_client ? "work request" : "flush");
}

/* --- example 14 --- */

struct keepers_run {
	const char *faults;
	unsigned host; /* with the faults; HOSTS: the client */
	unsigned away; /* bits */
	unsigned lines;
	bool struck;
};

#define SHORT_LINES 3
#define BORDER_LINES (PER_PAGE + 2)

static void
run_keepers(struct keepers_run *run)
{
	char *argv[] = { KEEPERS_CLIENT, site_addr, hosts[0].port, site_addr, hosts[1].port, site_addr,
		hosts[2].port, NULL };
	char line[TEXT_LEN];

	memset(&acked, 0, sizeof(acked));
	state_copy("../keepers", "run", 0);
	for (unsigned i = 0; i < HOSTS; i++)
		if (!(run->away & 1u << i) &&
			!start_server("run", i, KEEPER, i == run->host ? run->faults : NULL))
			give_up("a keeper does not start:\n%s", hosts[i].program.said);
	program_start(&client, argv, run->host == HOSTS ? run->faults : NULL, false);
	for (unsigned i = 1; i <= run->lines; i++) {
		char durable[32];
		snprintf(line, sizeof(line), "line %u\n", i);
		snprintf(durable, sizeof(durable), "durable on a majority: %u: ", i);
		(void)proc_write(&client.proc, line, strlen(line));
		if (!program_wait_line(&client, durable, site_patience_ms()))
			break; /* it has ended */
	}
	proc_close_in(&client.proc);
	if (program_end(&client, site_patience_ms()) < 0)
		report(REFUSED, "the client does not end:\n%s", client.said);
	program_kill(&client);
	hosts_kill();
	run->struck = client.struck;
	for (unsigned i = 0; i < HOSTS; i++)
		run->struck |= hosts[i].program.struck;
	parse(client.said, "durable on a majority: ", &acked);
	totals->runs++;
	totals->struck += run->struck;
}

static void
check_keepers(void)
{
	static struct journal journals[HOSTS];

	totals->states++;
	state_copy("run", "check", ALL_HOSTS);
	for (unsigned i = 0; i < HOSTS; i++)
		print_journal("check", i, KEEPER, &journals[i]);
	for (unsigned n = 1; n <= acked.count; n++) {
		unsigned have = 0;
		for (unsigned i = 0; i < HOSTS; i++)
			have += strcmp(journals[i].text[n], acked.text[n]) == 0;
		if (have < MAJORITY) {
			report(LOST, "power cut of all: record %u is on %u of %u keepers", n, have, HOSTS);
			return;
		}
	}
	totals->records += acked.count;
}

static void
fail_in_keepers(const struct task *task)
{
	char faults[64];
	struct keepers_run run = { .faults = faults,
		.host = task->host,
		.away = task->mode & ALL_HOSTS,
		.lines = task->mode > ALL_HOSTS ? BORDER_LINES : SHORT_LINES };

	snprintf(faults, sizeof(faults), "%s@%u,connection=%u",
		task->host == HOSTS ? "wc-error=retry_exc" : "flush-error", task->at, task->connection);
	run_keepers(&run);
	if (!run.struck)
		report(FAILED, "the fault has not occurred");
	check_keepers();
}

static bool
is_reached_by_keepers(unsigned at, unsigned host, unsigned connection, unsigned lines)
{
	char faults[64];
	struct keepers_run run = { .faults = faults, .host = host, .lines = lines };

	snprintf(faults, sizeof(faults), "%s@%u,connection=%u",
		host == HOSTS ? "wc-error=retry_exc" : "flush-error", at, connection);
	run_keepers(&run);
	return run.struck;
}

static void
add_keepers_tasks(unsigned host, unsigned connection, unsigned away, unsigned lines)
{
	/* of the long ones only what is at the border; there is at least a flush for each record */
	unsigned first = lines > SHORT_LINES ? lines - SHORT_LINES : 1;
	unsigned at;

	for (at = first; at < POSITIONS_MAX && is_reached_by_keepers(at, host, connection, lines); at++) {
		struct task task = { .run = fail_in_keepers,
			.host = host,
			.at = at,
			.connection = connection,
			.mode = away | (lines > SHORT_LINES ? ALL_HOSTS + 1 : 0) };
		if (host == HOSTS)
			snprintf(task.name, sizeof(task.name),
				"example14/client/wc-error@%u,connection=%u,away=%u,lines=%u", at, connection,
				away, lines);
		else
			snprintf(task.name, sizeof(task.name),
				"example14/keeper%u/flush-error@%u,away=%u,lines=%u", host, at, away, lines);
		task_add(&task);
	}
	if (at == first)
		report(FAILED, "example14: the fault does not occur");
}

void
examples_add_tasks(bool quick)
{
	add_journal_tasks(false, quick);
	add_journal_tasks(true, quick);
	add_keepers_tasks(0, 1, 0, SHORT_LINES);
	add_keepers_tasks(HOSTS, 1, 0, SHORT_LINES);
	if (quick)
		return;
	for (unsigned host = 0; host < HOSTS; host++) {
		add_keepers_tasks(host, 1, host == 2 ? 0 : 4, SHORT_LINES);
		add_keepers_tasks(host, 1, 0, BORDER_LINES);
		add_keepers_tasks(HOSTS, host + 1, host == 2 ? 0 : 4, SHORT_LINES);
	}
}

/* --- bases --- */

static void
make_empty(const char *state)
{
	static const char zeros[JOURNAL_FILE_SIZE];

	make_folder(state);
	for (unsigned i = 0; i < HOSTS; i++) {
		file_write(state_file(state, i), zeros, sizeof(zeros));
		state_make_medium(state, i);
	}
}

void
examples_make_bases(void)
{
	const bool is_control = site_is_control;
	char line[TEXT_LEN];

	site_is_control = false;
	make_empty("keepers");
	make_empty("journal");
	if (!start_server("journal", 0, JOURNAL_SERVER, NULL))
		give_up("the server does not start:\n%s", hosts[0].program.said);
	start_client(0, NULL);
	for (unsigned i = 1; i <= KNOWN; i++) {
		snprintf(line, sizeof(line), "line %u\n", i);
		if (proc_write(&client.proc, line, strlen(line)))
			give_up("the client takes no input");
	}
	proc_close_in(&client.proc);
	if (program_end(&client, site_patience_ms()) != 0)
		give_up("the client fails:\n%s", client.said);
	host_kill(0);
	if (state_would_lose("journal", 0))
		give_up("a journal that was written without faults is not durable");
	site_is_control = is_control;
}
