/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* site.c -- the processes and files of one worker */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deadline.h"
#include "report.h"
#include "site.h"

#define PATIENCE_S 60
#define LINE_LEN 1024
#define PAGE 4096

struct host hosts[HOSTS];
char site_addr[SITE_ADDR_LEN];
bool site_is_control;

int
site_patience_ms(void)
{
	return (int)deadline_scaled(PATIENCE_S) * 1000;
}

void
make_folder(const char *path)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		give_up("%s cannot be created: %s", path, strerror(errno));
}

/* nothing else uses this address; the kernel gives connections to it a source address of its own */
void
site_open(const char *folder, unsigned worker)
{
	const unsigned pid = (unsigned)getpid();

	make_folder(folder);
	if (chdir(folder))
		give_up("%s: %s", folder, strerror(errno));
	snprintf(site_addr, sizeof(site_addr), "127.%u.%u.%u", 1 + (pid >> 8) % 250, pid & 0xff,
		1 + worker % 250);
	for (unsigned i = 0; i < HOSTS; i++)
		if (net_free_port(site_addr, hosts[i].port))
			give_up("no free port on %s: %s", site_addr, strerror(errno));
}

/* --- programs --- */

static void
note_line(struct program *p, const char *line)
{
	const size_t len = strlen(line);

	if (strstr(line, "injected fault: "))
		p->struck = true;
	if (len + 2 > sizeof(p->said))
		return;
	if (p->said_len + len + 2 > sizeof(p->said)) {
		/* keeps the last half */
		memmove(p->said, p->said + p->said_len / 2, p->said_len - p->said_len / 2);
		p->said_len -= p->said_len / 2;
		if (p->said_len + len + 2 > sizeof(p->said))
			p->said_len = 0;
	}
	memcpy(p->said + p->said_len, line, len);
	p->said_len += len;
	p->said[p->said_len++] = '\n';
	p->said[p->said_len] = '\0';
}

void
program_start(struct program *p, char *const argv[], const char *faults, bool serves)
{
	static char with_faults[256];
	static char preload[] = "LD_PRELOAD=" MEDIUM;
	static char control[] = "MEDIUM_CONTROL=1";
	static char level[] = "RPMA_LOG_LEVEL=notice";
	char *env[5];
	size_t count = 0;

	env[count++] = level;
	if (faults) {
		snprintf(with_faults, sizeof(with_faults), "SOFTRDMA_FAULTS=%s", faults);
		env[count++] = with_faults;
	}
	if (serves)
		env[count++] = preload;
	if (serves && site_is_control)
		env[count++] = control;
	env[count] = NULL;
	p->struck = false;
	p->said_len = 0;
	p->said[0] = '\0';
	if (proc_start(&p->proc, argv, env))
		give_up("%s cannot be started: %s", argv[0], strerror(errno));
}

bool
program_wait_line(struct program *p, const char *text, int timeout_ms)
{
	const int64_t end = now_ms() + timeout_ms;
	char line[LINE_LEN];

	while (proc_read_line(&p->proc, line, sizeof(line), left_ms(end)) >= 0) {
		note_line(p, line);
		if (strstr(line, text))
			return true;
	}
	return false;
}

void
program_drain(struct program *p)
{
	char line[LINE_LEN];

	while (p->proc.out >= 0 && proc_read_line(&p->proc, line, sizeof(line), 0) >= 0)
		note_line(p, line);
}

static void
read_to_end(struct program *p)
{
	program_drain(p);
	proc_kill(&p->proc);
}

int
program_end(struct program *p, int timeout_ms)
{
	int status = proc_wait(&p->proc, timeout_ms);

	if (status >= 0)
		read_to_end(p);
	return status;
}

bool
program_runs(const struct program *p)
{
	siginfo_t info = { 0 };

	return p->proc.pid > 0 && waitid(P_PID, (id_t)p->proc.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		info.si_pid == 0;
}

void
program_kill(struct program *p)
{
	if (p->proc.pid <= 0)
		return;
	kill(p->proc.pid, SIGKILL);
	if (proc_wait(&p->proc, site_patience_ms()) < 0)
		give_up("a process does not end");
	read_to_end(p);
}

/* --- hosts --- */

bool
host_start(unsigned host, char *const argv[], const char *faults)
{
	struct program *p = &hosts[host].program;

	program_start(p, argv, faults, true);
	if (program_wait_line(p, "listening on", site_patience_ms()))
		return true;
	program_kill(p);
	return false;
}

void
host_kill(unsigned host)
{
	program_kill(&hosts[host].program);
}

void
hosts_kill(void)
{
	for (unsigned i = 0; i < HOSTS; i++)
		host_kill(i);
}

const char *
hosts_list(void)
{
	static char list[HOSTS * (SITE_ADDR_LEN + NET_PORT_LEN)];

	snprintf(list, sizeof(list), "%s:%s,%s:%s,%s:%s", site_addr, hosts[0].port, site_addr, hosts[1].port,
		site_addr, hosts[2].port);
	return list;
}

/* --- files --- */

char *
file_read(const char *path, size_t *len)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st))
		give_up("%s: %s", path, strerror(errno));
	char *bytes = malloc((size_t)st.st_size + 1);
	if (bytes == NULL)
		give_up("no memory");
	for (*len = 0; *len < (size_t)st.st_size;) {
		ssize_t n = read(fd, bytes + *len, (size_t)st.st_size - *len);
		if (n <= 0)
			give_up("%s cannot be read: %s", path, strerror(errno));
		*len += (size_t)n;
	}
	close(fd);
	bytes[*len] = '\0';
	return bytes;
}

void
file_write(const char *path, const void *bytes, size_t len)
{
	FILE *f = fopen(path, "we");

	if (f == NULL || fwrite(bytes, 1, len, f) != len || fclose(f))
		give_up("%s cannot be written: %s", path, strerror(errno));
}

static void
copy_file(const char *from, const char *to)
{
	size_t len;
	char *bytes = file_read(from, &len);

	if (bytes == NULL)
		give_up("%s: %s", from, strerror(errno));
	file_write(to, bytes, len);
	free(bytes);
}

/* several texts, since one expression may need a few */
static const char *
state_path(const char *state, unsigned host, const char *suffix)
{
	static char paths[4][SITE_PATH_LEN];
	static unsigned next;
	char *path = paths[next++ % 4];

	if (snprintf(path, SITE_PATH_LEN, "%s/%u%s", state, host, suffix) >= SITE_PATH_LEN)
		give_up("%s: too long a path", state);
	return path;
}

const char *
state_file(const char *state, unsigned host)
{
	return state_path(state, host, "");
}

const char *
state_medium(const char *state, unsigned host)
{
	return state_path(state, host, ".medium");
}

void
state_make_medium(const char *state, unsigned host)
{
	copy_file(state_file(state, host), state_medium(state, host));
}

void
state_cut(const char *state, unsigned host)
{
	copy_file(state_medium(state, host), state_file(state, host));
	totals->cuts++;
}

void
state_cut_mixed(const char *state, unsigned host)
{
	size_t len, medium_len;
	char *file = file_read(state_file(state, host), &len);
	char *medium = file_read(state_medium(state, host), &medium_len);

	if (file == NULL || medium == NULL || len != medium_len)
		give_up("%s: a file and its medium do not fit", state);
	for (size_t at = 0; at < len; at += PAGE)
		if (random() % 2)
			memcpy(medium + at, file + at, len - at < PAGE ? len - at : PAGE);
	file_write(state_medium(state, host), medium, len);
	file_write(state_file(state, host), medium, len);
	free(file);
	free(medium);
	totals->cuts++;
}

void
state_copy(const char *from, const char *to, unsigned cut)
{
	make_folder(to);
	for (unsigned i = 0; i < HOSTS; i++) {
		if (access(state_file(from, i), F_OK))
			continue;
		copy_file(state_medium(from, i), state_medium(to, i));
		if (cut & 1u << i)
			state_cut(to, i);
		else
			copy_file(state_file(from, i), state_file(to, i));
	}
}

bool
state_would_lose(const char *state, unsigned host)
{
	size_t len, medium_len;
	char *file = file_read(state_file(state, host), &len);
	char *medium = file_read(state_medium(state, host), &medium_len);
	bool differs = file && medium && (len != medium_len || memcmp(file, medium, len) != 0);

	free(file);
	free(medium);
	return differs;
}
