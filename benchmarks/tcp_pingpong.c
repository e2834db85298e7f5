/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * tcp_pingpong.c -- the time TCP itself takes for a round trip, with nothing on top
 *
 *	bench-tcp-pingpong spin|block <bytes> <seconds>    prints microseconds per round trip (mean)
 *
 * Two processes send the same bytes there and back over one connection on the loopback interface. "spin":
 * both sides read repeatedly without blocking; "block": both sides sleep in the kernel until data arrives.
 */

#include "bench.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES_MAX (1 << 20)
#define TRIPS_PER_LOOK 64 /* round trips between two looks at the clock */

static unsigned char buffer[BYTES_MAX];

static bool
is_not_yet(void)
{
	return errno == EAGAIN || errno == EINTR;
}

static void
send_all(int fd, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = send(fd, buffer + done, len - done, MSG_NOSIGNAL);
		if (n < 0 && !is_not_yet())
			bench_die("send");
		done += n > 0 ? (size_t)n : 0;
	}
}

/* false: the other side has closed the connection */
static bool
receive_all(int fd, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = recv(fd, buffer + done, len - done, 0);
		if (n == 0)
			return false;
		if (n < 0 && !is_not_yet())
			bench_die("recv");
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static void
prepare(int fd, bool spins)
{
	int on = 1;
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		bench_die("TCP_NODELAY");
	if (spins && fcntl(fd, F_SETFL, O_NONBLOCK))
		bench_die("O_NONBLOCK");
}

static void
echo(const struct sockaddr_in *addr, size_t len, bool spins)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)addr, sizeof(*addr)))
		bench_die("connect");
	prepare(fd, spins);
	while (receive_all(fd, len))
		send_all(fd, len);
	close(fd);
}

/* the mean time of a round trip, measured for this many seconds */
static double
measure(int fd, size_t len, double seconds)
{
	double begin = bench_now_s(), now = begin;
	unsigned long trips = 0;
	while (now - begin < seconds) {
		for (int i = 0; i < TRIPS_PER_LOOK; i++) {
			send_all(fd, len);
			if (!receive_all(fd, len)) {
				fprintf(stderr, "the other side has gone\n");
				exit(1);
			}
		}
		trips += TRIPS_PER_LOOK;
		now = bench_now_s();
	}
	return (now - begin) / (double)trips * 1e6;
}

int
main(int argc, char *argv[])
{
	bool spins = argc == 4 && strcmp(argv[1], "spin") == 0;
	if (argc != 4 || (!spins && strcmp(argv[1], "block") != 0)) {
		fprintf(stderr, "usage: bench-tcp-pingpong spin|block <bytes> <seconds>\n");
		return 2;
	}
	size_t len = (size_t)bench_number(argv[2], 1, BYTES_MAX);
	double seconds = bench_number(argv[3], 0.001, 1e6);

	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t addr_len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&addr, addr_len) || listen(listener, 1) ||
		getsockname(listener, (struct sockaddr *)&addr, &addr_len))
		bench_die("listen");

	pid_t child = fork();
	if (child < 0)
		bench_die("fork");
	if (child == 0) {
		close(listener);
		echo(&addr, len, spins);
		_exit(0);
	}
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		bench_die("accept");
	prepare(fd, spins);
	(void)measure(fd, len, BENCH_WARM_UP_S);
	printf("%.3f\n", measure(fd, len, seconds));
	close(fd);
	close(listener);
	(void)waitpid(child, NULL, 0);
	return 0;
}
