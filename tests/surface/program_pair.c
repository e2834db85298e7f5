/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * program_pair.c -- two programs of a document: a server that lends a file, and a client that writes into it
 *
 * Starts the server with the file, and starts the client again until it succeeds, because the client may come
 * before the server listens. Both must succeed, and the file must begin with the text afterwards.
 *
 *	program_pair <client> <server> <text> [<program that runs each of them>]
 */

#include <librpma.h>
#include <poll.h>
#include <signal.h>

#include "two.h"

#define FILE_SIZE 4096
#define PAUSE_MS 20 /* before the client tries again */

static const char *runner; /* NULL: the programs run by themselves */

static pid_t
start(const char *program, const char *port, const char *file)
{
	pid_t pid = fork();
	TRUE(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (runner)
			execl(runner, runner, program, two_addr(), port, file, (char *)NULL);
		else
			execl(program, program, two_addr(), port, file, (char *)NULL);
		exit(127);
	}
	return pid;
}

static int
succeeds(pid_t pid)
{
	int status;
	TRUE(waitpid(pid, &status, 0) == pid);
	TRUE(WIFEXITED(status));
	return WEXITSTATUS(status) == 0;
}

/* ends if another process has taken the port before the server did */
static pid_t
start_server(const char *server, char port[8], const char *file)
{
	two_free_port(port);
	return start(server, port, file);
}

int
main(int argc, char *argv[])
{
	char port[8], text[64], file[64];

	TRUE((argc == 4 || argc == 5) && strlen(argv[3]) < sizeof(text));
	runner = argv[4];
	alarm(TWO_DEADLINE_S);
	snprintf(file, sizeof(file), "program_pair.%ld", (long)getpid()); /* tests run at the same time */
	int fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	TRUE(fd >= 0 && ftruncate(fd, FILE_SIZE) == 0);

	pid_t server = start_server(argv[2], port, file);
	while (!succeeds(start(argv[1], port, NULL))) {
		if (waitpid(server, NULL, WNOHANG) == server)
			server = start_server(argv[2], port, file);
		(void)poll(NULL, 0, PAUSE_MS);
	}
	TRUE(succeeds(server));

	memset(text, 0, sizeof(text));
	TRUE(pread(fd, text, strlen(argv[3]), 0) == (ssize_t)strlen(argv[3]));
	TRUE(strcmp(text, argv[3]) == 0);
	close(fd);
	unlink(file);
	return 0;
}
