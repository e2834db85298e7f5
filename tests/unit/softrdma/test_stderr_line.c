/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_stderr_line.c -- lines go to standard error, follow it where a daemon leads it, and go into nothing else
 *
 * The program starts itself again for what depends on descriptor 2 at the start.
 */

#include "connected.h"

#include <assert.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "softrdma/base/stderr_line.h"

#define LINE "a line of the log\n"

static char self[256];
static int kept = -1; /* standard error of the test */

static int
setup(void **state)
{
	if (setup_test(state))
		return -1;
	kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	return kept < 0;
}

static int
teardown(void **state)
{
	dup2(kept, STDERR_FILENO);
	close(kept);
	return teardown_test(state);
}

#define line_test(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static void
put(const char *line)
{
	softrdma_stderr_line(line, strlen(line), SOFTRDMA_STDERR_PATIENCE_MS);
}

/* fd becomes standard error */
static void
redirect(int fd)
{
	assert_true(fd > STDERR_FILENO);
	assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	close(fd);
}

/* what can be read of fd at once */
static const char *
read_now(int fd)
{
	static char text[4096];
	const ssize_t n = readable(fd, 0) ? read(fd, text, sizeof(text) - 1) : 0;
	text[n > 0 ? n : 0] = '\0';
	return text;
}

/* --- where lines go --- */

static void
test_pipe(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	redirect(ends[1]);
	put(LINE);
	assert_string_equal(read_now(ends[0]), LINE);
	/* without /proc, or in a sandbox */
	fail_call(FAIL_MINE, "open", 0, 1, EACCES);
	put(LINE);
	assert_int_equal(fail_nothing(), 1);
	assert_string_equal(read_now(ends[0]), LINE);
	/* the description of the other programs stays as it was */
	assert_int_equal(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
	/* a call that is interrupted is made again */
	fail_call(FAIL_MINE, "write", 0, 2, EINTR);
	put(LINE);
	assert_int_equal(fail_nothing(), 2);
	assert_string_equal(read_now(ends[0]), LINE);
	close(ends[0]);
}

/* the flags that a file is opened with, and whether lines go there */
static void
test_files(void **state)
{
	(void)state;
	static const struct {
		int flags;
		bool lines;
	} table[] = {
		{ O_WRONLY, true },
		{ O_WRONLY | O_APPEND, true },
		{ O_RDWR | O_APPEND, true },
		{ O_RDWR, false }, /* what the program works in: a database, a journal */
		{ O_RDONLY, false },
	};
	char name[] = "stderr-line-XXXXXX", text[64];
	const int made = mkstemp(name);
	assert_true(made >= 0);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		assert_int_equal(ftruncate(made, 0), 0);
		redirect(open(name, table[i].flags | O_CLOEXEC));
		put(LINE);
		const ssize_t n = pread(made, text, sizeof(text) - 1, 0);
		text[n > 0 ? n : 0] = '\0';
		assert_string_equal(text, table[i].lines ? LINE : "");
	}
	/* a full disk */
	redirect(open(name, O_WRONLY | O_CLOEXEC));
	fail_call(FAIL_MINE, "write", 0, 1, ENOSPC);
	put(LINE);
	assert_int_equal(fail_nothing(), 1);
	close(made);
	unlink(name);
}

static void
test_terminal(void **state)
{
	(void)state;
	const int reader = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (reader < 0 || grantpt(reader) || unlockpt(reader))
		skip();
	redirect(open(ptsname(reader), O_RDWR | O_NOCTTY | O_CLOEXEC));
	put(LINE);
	assert_true(readable(reader, PATIENCE_MS));
	assert_non_null(strstr(read_now(reader), "a line of the log"));
	/* its reader does not read: lines are dropped, and no call waits for ever */
	for (int i = 0; i < 2000; i++)
		put(LINE);
	close(reader);
	put(LINE); /* nor where the reader has gone */
}

static void
test_not_into_others(void **state)
{
	(void)state;
	struct sockaddr_in addr;
	eventfd_t value = 0;
	const int listening = raw_listen(&addr);
	const int client = raw_connect(&addr);
	redirect(raw_accept(listening));
	put(LINE);
	assert_string_equal(read_now(client), "");
	assert_int_equal(send(STDERR_FILENO, "x", 1, MSG_NOSIGNAL),
		1); /* the first byte that comes is this one */
	raw_recv(client, &value, 1);
	assert_int_equal(value, 'x');
	close(client);
	close(listening);

	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	redirect(ends[1]);
	put(LINE);
	assert_string_equal(read_now(ends[0]), "");
	close(ends[0]);

	redirect(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	put("eight by");
	assert_int_equal(eventfd_read(STDERR_FILENO, &value), -1);

	redirect(epoll_create1(EPOLL_CLOEXEC));
	put(LINE);
	redirect(memfd_create("memory", MFD_CLOEXEC));
	put(LINE);
	struct stat st;
	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	assert_int_equal(st.st_size, 0);
	redirect(open("/dev/zero", O_RDWR | O_CLOEXEC));
	put(LINE);
	close(STDERR_FILENO);
	put(LINE);
	assert_int_equal(fcntl(STDERR_FILENO, F_GETFD), -1);
}

/* --- readers that do not read --- */

static atomic_int sigpipes;

static void
count_sigpipe(int signal)
{
	(void)signal;
	sigpipes++;
}

static void
test_reader_has_gone(void **state)
{
	(void)state;
	int ends[2];
	sigset_t set, pending;
	struct sigaction act = { .sa_handler = count_sigpipe }, before;
	sigaction(SIGPIPE, &act, &before);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	redirect(ends[1]);
	close(ends[0]);
	put(LINE);
	fail_call(FAIL_MINE, "open", 0, 1, EACCES);
	put(LINE);
	fail_nothing();
	assert_int_equal(sigpipes, 0);

	/* one that the program has blocked and not taken yet stays */
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_kill(pthread_self(), SIGPIPE);
	put(LINE);
	sigpending(&pending);
	assert_int_equal(sigismember(&pending, SIGPIPE), 1);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	assert_int_equal(sigpipes, 1);
	sigaction(SIGPIPE, &before, NULL);
}

/* fills a pipe that is standard error; returns its other end, whose reads do not wait */
static int
full_pipe(void)
{
	int ends[2];
	const char bytes[4096] = "";
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	while (write(ends[1], bytes, sizeof(bytes)) > 0)
		;
	assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0); /* a write would wait */
	redirect(ends[1]);
	return ends[0];
}

static void
empty_pipe(int fd)
{
	char bytes[4096];
	while (read(fd, bytes, sizeof(bytes)) > 0)
		;
}

static void
test_full_pipe(void **state)
{
	(void)state;
	const int reader = full_pipe();
	put("lost 1\n");
	put("lost 2\n");
	fail_call(FAIL_MINE, "open", 0, 1, EACCES);
	put("lost 3\n");
	fail_nothing();
	empty_pipe(reader);
	put(LINE);
	assert_string_equal(read_now(reader),
		"(3 lines are missing here: standard error was not read)\n" LINE);
	put(LINE);
	assert_string_equal(read_now(reader), LINE);
	close(reader);
}

static void *
write_patiently(void *arg)
{
	softrdma_stderr_line(LINE, strlen(LINE), -1);
	return arg;
}

/* with patience for ever the line is there when there is room */
static void
test_patient(void **state)
{
	(void)state;
	static char text[1 << 17]; /* more than a pipe has */
	pthread_t thread;
	const int reader = full_pipe();
	assert_int_equal(pthread_create(&thread, NULL, write_patiently, NULL), 0);
	size_t len = 0;
	while (len < strlen(LINE) || memcmp(text + len - strlen(LINE), LINE, strlen(LINE)) != 0) {
		assert_true(readable(reader, PATIENCE_MS));
		const ssize_t n = read(reader, text + len, sizeof(text) - len);
		assert_true(n > 0);
		len += (size_t)n;
	}
	pthread_join(thread, NULL);
	close(reader);
}

/* --- what descriptor 2 was at the start --- */

/* in the program that was started again: writes its lines, and makes of 2 what the test is about */
static int
run_again(const char *how)
{
	put(LINE);
	if (strcmp(how, "redirected") == 0) {
		redirect(open("/dev/null", O_WRONLY | O_CLOEXEC));
		put("not a terminal\n");
	} else if (strcmp(how, "closed") == 0) {
		/* descriptor 2 was closed at the start: what is there now is the program's, whatever it is */
		int ends[2];
		if (fcntl(STDERR_FILENO, F_GETFD) >= 0 || pipe2(ends, O_NONBLOCK))
			return 1;
		const int reader = fcntl(ends[0], F_DUPFD, 10);
		if (dup2(ends[1], STDERR_FILENO) != STDERR_FILENO)
			return 1;
		put(LINE);
		char byte;
		return read(reader, &byte, 1) != -1 || errno != EAGAIN;
	}
	return 0;
}

/* fd: what it has as standard error; -1: nothing. Returns its exit status. */
static int
start_again(const char *how, int fd)
{
	int status = -1;
	const pid_t pid = fork();
	if (pid == 0) {
		if (fd >= 0)
			dup2(fd, STDERR_FILENO);
		else
			close(STDERR_FILENO);
		execl(self, self, "again", how, NULL);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void
test_start(void **state)
{
	(void)state;
	int ends[2];
	if (in_emulator()) {
		print_message("skipped: the kernel cannot start a program of another processor\n");
		skip();
	}
	assert_int_equal(start_again("closed", -1), 0);

	/* a socket that was there at the start, as that of a journal, is standard error */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(start_again("socket", ends[1]), 0);
	assert_string_equal(read_now(ends[0]), LINE);
	close(ends[0]);
	assert_int_equal(start_again("socket", ends[1]), 0); /* its reader has gone: no SIGPIPE */
	close(ends[1]);

	/* so is a file that is open for reading too, until it is another one */
	const int fd = memfd_create("log", MFD_CLOEXEC);
	assert_int_equal(start_again("redirected", fd), 0);
	char text[64] = "";
	assert_int_equal(pread(fd, text, sizeof(text) - 1, 0), strlen(LINE));
	assert_string_equal(text, LINE);
	close(fd);

	/* an eventfd never is */
	const int counter = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	eventfd_t value;
	assert_int_equal(start_again("counter", counter), 0);
	assert_int_equal(eventfd_read(counter, &value), -1);
	close(counter);
}

int
main(int argc, char *argv[])
{
	if (argc == 3 && strcmp(argv[1], "again") == 0)
		return run_again(argv[2]);
	assert(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	const struct CMUnitTest tests[] = {
		line_test(test_pipe),
		line_test(test_files),
		line_test(test_terminal),
		line_test(test_not_into_others),
		line_test(test_reader_has_gone),
		line_test(test_full_pipe),
		line_test(test_patient),
		line_test(test_start),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
