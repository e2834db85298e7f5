/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * tcp_pingpong.c -- the time TCP itself takes for a round trip, with nothing on top
 *
 *	bench-tcp-pingpong spin|block|poll <bytes> <seconds>
 *
 * Prints microseconds per round trip: the mean, the median, and what 99 % of them do not exceed.
 *
 * Two processes send the same bytes there and back over one connection on the loopback interface. "spin":
 * both sides read repeatedly without blocking; "block": both sides sleep in recv(2) until data arrives; "poll":
 * both sides sleep in poll(2), as an event loop does, and then read without blocking.
 */

#include "bench.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "histogram.h"

#define BYTES_MAX (1 << 20)

/* how both sides wait for bytes */
enum way { WAY_SPIN, WAY_BLOCK, WAY_POLL, WAY_COUNT };

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

static void
wait_readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	if (poll(&pfd, 1, -1) < 0 && errno != EINTR)
		bench_die("poll");
}

/* false: the other side has closed the connection */
static bool
receive_all(int fd, size_t len, enum way way)
{
	for (size_t done = 0; done < len;) {
		if (way == WAY_POLL)
			wait_readable(fd);
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
prepare(int fd, enum way way)
{
	int on = 1;
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		bench_die("TCP_NODELAY");
	if (way != WAY_BLOCK && fcntl(fd, F_SETFL, O_NONBLOCK))
		bench_die("O_NONBLOCK");
}

static void
echo(const struct sockaddr_in *addr, size_t len, enum way way)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)addr, sizeof(*addr)))
		bench_die("connect");
	prepare(fd, way);
	while (receive_all(fd, len, way))
		send_all(fd, len);
	close(fd);
}

/* makes round trips for this many seconds; h gets the time of each in ns */
static void
measure(int fd, size_t len, enum way way, double seconds, struct histogram *h)
{
	double begin = bench_now_s(), now = begin;
	while (now - begin < seconds) {
		double sent = now;
		send_all(fd, len);
		if (!receive_all(fd, len, way)) {
			fprintf(stderr, "the other side has gone\n");
			exit(1);
		}
		now = bench_now_s();
		histogram_add(h, (uint64_t)((now - sent) * 1e9));
	}
}

/* WAY_COUNT: no such way */
static enum way
parse_way(const char *text)
{
	static const char *const names[WAY_COUNT] = {
		[WAY_SPIN] = "spin",
		[WAY_BLOCK] = "block",
		[WAY_POLL] = "poll",
	};
	int way = 0;
	while (way < WAY_COUNT && strcmp(text, names[way]) != 0)
		way++;
	return (enum way)way;
}

int
main(int argc, char *argv[])
{
	static struct histogram warm_up, trips;
	enum way way = argc == 4 ? parse_way(argv[1]) : WAY_COUNT;
	if (way == WAY_COUNT) {
		fprintf(stderr, "usage: bench-tcp-pingpong spin|block|poll <bytes> <seconds>\n");
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
		echo(&addr, len, way);
		_exit(0);
	}
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		bench_die("accept");
	prepare(fd, way);
	measure(fd, len, way, BENCH_WARM_UP_S, &warm_up);
	measure(fd, len, way, seconds, &trips);
	printf("%.3f %.3f %.3f\n", histogram_mean(&trips) / 1e3,
		(double)histogram_quantile(&trips, 0.5) / 1e3,
		(double)histogram_quantile(&trips, 0.99) / 1e3);
	close(fd);
	close(listener);
	(void)waitpid(child, NULL, 0);
	return 0;
}
