/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * hand_server.c -- the server that hostile peers attack: a verbs program whose queue pairs are connected by
 * hand
 *
 * One queue pair waits for a peer that never comes, so its port stays open. For each client that connects to
 * a socket and sends its card, the server makes another one, which serves the client until that closes the
 * socket. The server has so few descriptors that attackers can take them all. It ends when standard input
 * does.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hand.h"
#include "hostile.h"
#include "pattern.h"

#define PORT_AT 8 /* in a GID of the software device */

static struct hand_device device;

static int
listen_for_cards(uint16_t *port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, len) || listen(fd, 8) ||
		getsockname(fd, (struct sockaddr *)&addr, &len))
		hand_fail("socket for cards");
	*port = ntohs(addr.sin_port);
	return fd;
}

/* serves one client until it has gone or standard input has ended */
static void
serve(int listening)
{
	struct hand_card peer;
	struct hand hand;
	char byte;
	int fd = accept(listening, NULL, NULL);

	if (fd < 0)
		hand_fail("no descriptor for a client");
	if (recv(fd, &peer, sizeof(peer), MSG_WAITALL) == sizeof(peer)) {
		hand_new(&device, &hand);
		hand_expect(&hand, &peer);
		if (send(fd, &hand.card, sizeof(hand.card), MSG_NOSIGNAL) == sizeof(hand.card))
			(void)recv(fd, &byte, 1, 0);
		hand_delete(&hand);
	}
	close(fd);
}

/* the card of a peer that does not exist; a client that claims to be it is an attacker */
static struct hand_card
nobody(void)
{
	struct hand_card card = { .gid = device.gid, .qp_num = 0x123456, .psn = 1 };

	card.gid.raw[PORT_AT] = 0;
	card.gid.raw[PORT_AT + 1] = 9; /* discard */
	memset(card.gid.raw + PORT_AT + 2, 0x5a, 6);
	return card;
}

int
main(void)
{
	const struct rlimit limit = { .rlim_cur = HAND_FILES, .rlim_max = HAND_FILES };
	struct hand waiting;
	uint16_t port;

	if (setrlimit(RLIMIT_NOFILE, &limit))
		hand_fail("limit of files");
	hand_open_device(&device);
	const struct hand_card peer = nobody();
	hand_new(&device, &waiting);
	hand_expect(&waiting, &peer);
	int listening = listen_for_cards(&port);
	printf("listening on %u gid ", (unsigned)device.gid.raw[PORT_AT] << 8 | device.gid.raw[PORT_AT + 1]);
	for (size_t i = 0; i < sizeof(device.gid.raw); i++)
		printf("%02x", device.gid.raw[i]);
	printf(" qp %u cards %u\n", (unsigned)waiting.qp->qp_num, (unsigned)port);
	fflush(stdout);

	for (;;) {
		struct pollfd pfds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
			{ .fd = listening, .events = POLLIN } };
		if (poll(pfds, 2, -1) < 0 && errno != EINTR)
			hand_fail("poll");
		if (pfds[0].revents)
			break;
		if (pfds[1].revents)
			serve(listening);
	}
	close(listening);
	hand_delete(&waiting);
	/* the half of the memory that the client does not write to */
	ptrdiff_t changed = pattern_check_byte(device.bytes + HAND_MEMORY / 2, HAND_MEMORY / 2, 0);
	printf("%s\n", changed < 0 ? "untouched" : "memory of nobody was touched");
	hand_close_device(&device);
	return changed < 0 ? 0 : 1;
}
