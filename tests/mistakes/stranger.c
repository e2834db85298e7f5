/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * stranger.c -- servers that a client of librpma should not have been pointed at
 *
 *	stranger http|silent|full|old|gone
 *
 * Listens on a port of 127.0.0.1, prints the port, and serves until it is killed, its parent ends, or LIFE_S have passed.
 * With "gone" it ends at once, so that the port is one on which nothing listens.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define FULL_CONNECTIONS 4 /* more than the shortest queue of a listener holds */
#define OLD_MESSAGE 32
#define LIFE_S 300

static const char http[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
/* a message of the first version of the protocol; what comes after the version does not matter */
static const char old[OLD_MESSAGE] = { 'S', 'R', 'D', 'M', 1, 0 };

static int
listen_on_loopback(int backlog, struct sockaddr_in *addr)
{
	socklen_t len = sizeof(*addr);
	*addr = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)addr, sizeof(*addr)) || listen(fd, backlog) ||
		getsockname(fd, (struct sockaddr *)addr, &len)) {
		perror("stranger");
		exit(EXIT_FAILURE);
	}
	return fd;
}

/* leaves no room in the listener's queue: the kernel then drops what comes, as many firewalls do */
static void
fill(const struct sockaddr_in *addr)
{
	for (int i = 0; i < FULL_CONNECTIONS; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		(void)connect(fd, (const struct sockaddr *)addr, sizeof(*addr)); /* not all of them succeed */
	}
}

/* responds to the first bytes of a client */
static void
answer(int listener, const char *reply, size_t len)
{
	char request[512];
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		return;
	if (recv(fd, request, sizeof(request), 0) > 0)
		(void)send(fd, reply, len, MSG_NOSIGNAL);
	(void)shutdown(fd, SHUT_WR);
	while (recv(fd, request, sizeof(request), 0) > 0)
		;
	close(fd);
}

int
main(int argc, char *argv[])
{
	static const char *const kinds[] = { "http", "silent", "full", "old", "gone" };
	const char *kind = argc == 2 ? argv[1] : "";
	size_t i = 0;
	while (i < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kind, kinds[i]) != 0)
		i++;
	if (i == sizeof(kinds) / sizeof(kinds[0])) {
		fprintf(stderr, "stranger http|silent|full|old|gone\n");
		return 2;
	}
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)alarm(LIFE_S);

	struct sockaddr_in addr;
	int listener = listen_on_loopback(strcmp(kind, "full") ? 16 : 0, &addr);
	if (!strcmp(kind, "full"))
		fill(&addr);
	printf("%u\n", ntohs(addr.sin_port));
	fflush(stdout);
	while (strcmp(kind, "gone") != 0) {
		if (!strcmp(kind, "http"))
			answer(listener, http, strlen(http));
		else if (!strcmp(kind, "old"))
			answer(listener, old, sizeof(old));
		else
			pause();
	}
	return 0;
}
