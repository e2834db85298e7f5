/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* stderr_line.c -- lines of a log on standard error, and never into anything else */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "softrdma/base/high_fd.h"
#include "softrdma/base/stderr_line.h"

#define NOTE_MAX 80 /* bytes of the line that counts what is missing */

/* what descriptor 2 was at the load; not changed after that */
static struct {
	bool is_open;
	struct stat st;
} at_start;

static atomic_uint missing; /* lines that found no room since the last one that did */

__attribute__((constructor)) static void
look_at_start(void)
{
	at_start.is_open = fstat(STDERR_FILENO, &at_start.st) == 0;
}

static bool
is_as_at_start(const struct stat *st)
{
	return st->st_dev == at_start.st.st_dev && st->st_ino == at_start.st.st_ino &&
		((st->st_mode ^ at_start.st.st_mode) & S_IFMT) == 0;
}

/* a log is never open for reading too, unless it is appended to: a file that a program works in is */
static bool
is_written_only(void)
{
	const int flags = fcntl(STDERR_FILENO, F_GETFL);
	return flags >= 0 && ((flags & O_ACCMODE) == O_WRONLY || flags & O_APPEND);
}

/* true if lines may be written to descriptor 2 */
static bool
is_for_lines(const struct stat *st)
{
	const mode_t type = st->st_mode & S_IFMT;
	if (type == 0)
		return false; /* an eventfd, an epoll or the like: all have one inode */
	if (is_as_at_start(st))
		return true;
	switch (type) {
	case S_IFIFO:
		return true;
	case S_IFCHR:
		return isatty(STDERR_FILENO);
	case S_IFREG:
		return is_written_only();
	default:
		return false;
	}
}

/* true if there is room; not more than a hint, because others write too */
static bool
has_room(int fd, int patience_ms)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };
	int ready;
	do {
		ready = poll(&room, 1, patience_ms);
	} while (ready < 0 && errno == EINTR);
	return ready > 0;
}

static ssize_t
write_some(int fd, bool is_socket, const char *line, size_t len)
{
	return is_socket ? send(fd, line, len, MSG_DONTWAIT | MSG_NOSIGNAL) : write(fd, line, len);
}

/* false: no room in time. Without a reader, or on a full disk, there is nothing to wait for. */
static bool
write_all(int fd, bool is_socket, const char *line, size_t len, int patience_ms)
{
	while (len > 0) {
		const ssize_t n = write_some(fd, is_socket, line, len);
		if (n > 0) {
			line += n;
			len -= (size_t)n;
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			return true;
		} else if (errno == EAGAIN && !has_room(fd, patience_ms)) {
			return false;
		}
	}
	return true;
}

/*
 * The same pipe or terminal once more, as a description of its own: O_NONBLOCK of descriptor 2 itself would also be that of
 * other programs. -1: not possible, without /proc or with the terminal of another user.
 */
static int
open_again(void)
{
	return softrdma_high_fd(open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

/* first how many lines are missing, if any, then the line */
static void
write_with_note(int fd, bool is_socket, const char *line, size_t len, int patience_ms)
{
	const unsigned count = atomic_exchange(&missing, 0);
	char note[NOTE_MAX];
	bool room = true;
	if (count) {
		const int note_len = snprintf(note, sizeof(note),
			"(%u lines are missing here: standard error was not read)\n", count);
		room = write_all(fd, is_socket, note, (size_t)note_len, patience_ms);
	}
	if (!room)
		atomic_fetch_add(&missing, count);
	if (!room || !write_all(fd, is_socket, line, len, patience_ms))
		atomic_fetch_add(&missing, 1);
}

/* to a pipe or a terminal, whose reader may have stopped or gone */
static void
write_to_reader(const char *line, size_t len, int patience_ms)
{
	const int again = open_again();
	/* else the next call may wait: there was room when it was asked for */
	if (again < 0 && !has_room(STDERR_FILENO, patience_ms))
		atomic_fetch_add(&missing, 1);
	else
		write_with_note(again < 0 ? STDERR_FILENO : again, false, line, len, patience_ms);
	if (again >= 0)
		close(again);
}

void
softrdma_stderr_line(const char *line, size_t len, int patience_ms)
{
	struct stat st;
	if (!at_start.is_open || fstat(STDERR_FILENO, &st) != 0 || !is_for_lines(&st))
		return;
	if (patience_ms > 0 && atomic_load(&missing))
		patience_ms = 0;
	if (S_ISSOCK(st.st_mode)) {
		write_with_note(STDERR_FILENO, true, line, len, patience_ms);
		return;
	}
	/* a pipe raises SIGPIPE for the writing thread; one that the program has already stays */
	static const struct timespec no_time;
	sigset_t sigpipe, before, pending;
	sigemptyset(&sigpipe);
	sigaddset(&sigpipe, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &sigpipe, &before);
	if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode))
		write_to_reader(line, len, patience_ms);
	else
		write_with_note(STDERR_FILENO, false, line, len, patience_ms);
	if (!sigismember(&pending, SIGPIPE))
		while (sigtimedwait(&sigpipe, NULL, &no_time) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}
