/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * readme_pair.c -- the two programs of the README
 *
 * Starts the keeper with a file, and starts the writer again until it succeeds, because the keeper does not
 * report when it listens. Both must succeed, and the file must begin with the text afterwards.
 *
 *	readme_pair <writer> <keeper> <text>
 */

#include <librpma.h>
#include <poll.h>
#include <signal.h>

#include "two.h"

#define FILE_NAME "readme.pmem"
#define FILE_SIZE 4096
#define PAUSE_MS 20 /* before the writer tries again */

static pid_t
start(const char *program, const char *port, const char *file)
{
	pid_t pid = fork();
	TRUE(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
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

/* ends if another process has taken the port before the keeper did */
static pid_t
start_keeper(const char *keeper, char port[8])
{
	two_free_port(port);
	return start(keeper, port, FILE_NAME);
}

int
main(int argc, char *argv[])
{
	char port[8], text[64];

	TRUE(argc == 4 && strlen(argv[3]) < sizeof(text));
	alarm(TWO_DEADLINE_S);
	int fd = open(FILE_NAME, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	TRUE(fd >= 0 && ftruncate(fd, FILE_SIZE) == 0);

	pid_t keeper = start_keeper(argv[2], port);
	while (!succeeds(start(argv[1], port, NULL))) {
		if (waitpid(keeper, NULL, WNOHANG) == keeper)
			keeper = start_keeper(argv[2], port);
		(void)poll(NULL, 0, PAUSE_MS);
	}
	TRUE(succeeds(keeper));

	memset(text, 0, sizeof(text));
	TRUE(pread(fd, text, strlen(argv[3]), 0) == (ssize_t)strlen(argv[3]));
	TRUE(strcmp(text, argv[3]) == 0);
	close(fd);
	unlink(FILE_NAME);
	return 0;
}
