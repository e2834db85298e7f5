/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* process.c -- programs under test */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deadline.h"
#include "process.h"

static void
close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static _Noreturn void
become(char *const argv[], char *const env[], int in, int out)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (; env && *env; env++)
		putenv(*env);
	if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 && dup2(out, STDERR_FILENO) >= 0)
		execvp(argv[0], argv);
	_exit(127);
}

int
proc_start(struct proc *p, char *const argv[], char *const env[])
{
	int in[2], out[2];

	memset(p, 0, sizeof(*p));
	p->in = p->out = -1;
	if (pipe2(in, O_CLOEXEC))
		return -1;
	if (pipe2(out, O_CLOEXEC))
		goto err_close_in;
	p->pid = fork();
	if (p->pid < 0)
		goto err_close_out;
	if (p->pid == 0)
		become(argv, env, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	p->in = in[1];
	p->out = out[0];
	return 0;

err_close_out:
	p->pid = 0;
	close(out[0]);
	close(out[1]);
err_close_in:
	close(in[0]);
	close(in[1]);
	return -1;
}

/* Returns a line of the buffer. If end is not 0, an unfinished line counts as well. */
static int
take_line(struct proc *p, char *line, size_t line_len, int end)
{
	char *nl = memchr(p->buf, '\n', p->len);
	size_t n = nl ? (size_t)(nl - p->buf) : p->len;
	size_t used = nl ? n + 1 : n;
	size_t copied = n < line_len ? n : line_len - 1;

	if (!nl && p->len < sizeof(p->buf) && (!end || p->len == 0))
		return -1;
	memcpy(line, p->buf, copied);
	line[copied] = '\0';
	memmove(p->buf, p->buf + used, p->len - used);
	p->len -= used;
	return (int)copied;
}

int
proc_read_line(struct proc *p, char *line, size_t line_len, int timeout_ms)
{
	struct pollfd pfd = { .fd = p->out, .events = POLLIN };
	int64_t end = now_ms() + timeout_ms;
	int len = take_line(p, line, line_len, 0);

	while (len < 0) {
		ssize_t n;

		if (poll(&pfd, 1, left_ms(end)) == 0)
			return -1;
		n = read(p->out, p->buf + p->len, sizeof(p->buf) - p->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return take_line(p, line, line_len, 1);
		p->len += (size_t)n;
		len = take_line(p, line, line_len, 0);
	}
	return len;
}

int
proc_wait_line(struct proc *p, const char *text, char *line, size_t line_len, int timeout_ms)
{
	char own[1024];
	int64_t end = now_ms() + timeout_ms;

	if (!line) {
		line = own;
		line_len = sizeof(own);
	}
	while (proc_read_line(p, line, line_len, left_ms(end)) >= 0) {
		if (strstr(line, text))
			return 0;
	}
	return -1;
}

int
proc_write(struct proc *p, const void *buf, size_t len)
{
	const char *pos = buf;

	while (len) {
		ssize_t n = write(p->in, pos, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		pos += n;
		len -= (size_t)n;
	}
	return 0;
}

void
proc_close_in(struct proc *p)
{
	close_fd(&p->in);
}

int
proc_wait(struct proc *p, int timeout_ms)
{
	struct pollfd pfd = { .fd = pidfd_open(p->pid, 0), .events = POLLIN };
	int64_t end = now_ms() + timeout_ms;
	int status;
	int n;

	if (pfd.fd < 0)
		return -1;
	do
		n = poll(&pfd, 1, left_ms(end));
	while (n < 0 && errno == EINTR);
	close(pfd.fd);
	if (n <= 0 || waitpid(p->pid, &status, 0) != p->pid)
		return -1;
	p->pid = 0;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void
proc_kill(struct proc *p)
{
	if (p->pid > 0) {
		kill(p->pid, SIGKILL);
		waitpid(p->pid, NULL, 0);
		p->pid = 0;
	}
	close_fd(&p->in);
	close_fd(&p->out);
}
