/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * perf_peer.c -- the other side of a rpma-perf client, as it should not be
 *
 *	perf_peer full            listens, and answers no request for a connection, as behind a firewall
 *	perf_peer lines [TEXT...] accepts a client, and sends it one of the texts for each line that it has received
 *
 * It prints its port. With lines it ends when the client does; full has to be killed.
 */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS 4 /* more than the queue of the listener takes */

static void
die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static int
listen_somewhere(struct sockaddr_in *addr)
{
	socklen_t len = sizeof(*addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	*addr = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (fd < 0 || bind(fd, (struct sockaddr *)addr, len) || listen(fd, 0) ||
		getsockname(fd, (struct sockaddr *)addr, &len))
		die("listening");
	return fd;
}

static void
fill_queue(const struct sockaddr_in *addr)
{
	for (int i = 0; i < CLIENTS; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0)
			die("socket");
		(void)connect(fd, (const struct sockaddr *)addr, sizeof(*addr));
	}
}

static void
serve(int listener, char **texts)
{
	char *line = NULL;
	size_t size = 0;
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
	if (in == NULL)
		die("accepting");
	while (getline(&line, &size, in) > 0) {
		if (*texts && dprintf(fd, "%s\n", *texts++) < 0)
			die("sending");
	}
	free(line);
	fclose(in);
}

int
main(int argc, char *argv[])
{
	struct sockaddr_in addr;
	int listener = listen_somewhere(&addr);
	const char *what = argc > 1 ? argv[1] : "";
	if (strcmp(what, "full") == 0)
		fill_queue(&addr);
	else if (strcmp(what, "lines") != 0)
		return 2;
	printf("port %u\n", ntohs(addr.sin_port));
	fflush(stdout);
	if (strcmp(what, "lines") == 0)
		serve(listener, argv + 2);
	else
		pause();
	return 0;
}
