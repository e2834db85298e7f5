/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * tcp_pingpong.c -- the time TCP itself takes for a round trip, with nothing on top
 *
 *	bench-tcp-pingpong spin|block|poll <bytes> <seconds>
 *	bench-tcp-pingpong --clients <number> <bytes> <seconds>
 *
 * Prints microseconds per round trip: the mean, the median, and what 99 % of them do not exceed. With --clients the first
 * number is the round trips per second of all clients together.
 *
 * Two processes send the same bytes there and back over one connection on the loopback interface. "spin":
 * both sides read repeatedly without blocking; "block": both sides sleep in recv(2) until data arrives; "poll":
 * both sides sleep in poll(2), as an event loop does, and then read without blocking.
 *
 * "--clients": as many connections, each with one message in flight. One event loop on each side sleeps in epoll_wait(2),
 * and makes one recv(2) and one send(2) for each message.
 */

#include "bench.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "histogram.h"

#define BYTES_MAX (1 << 20)
#define CLIENTS_MAX 4096
/* of a message: a socket has room for it, so no send waits for the other loop */
#define CLIENTS_BYTES_MAX 4096

/* how both sides wait for bytes */
enum way { WAY_SPIN, WAY_BLOCK, WAY_POLL, WAY_COUNT };

/* a connection of an event loop */
struct client {
	int fd;
	size_t got;  /* bytes of the message that is coming */
	double sent; /* time at which the last message was sent */
};

static unsigned char buffer[BYTES_MAX];
static struct client clients[CLIENTS_MAX];
static struct epoll_event events[CLIENTS_MAX];

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

static int
connect_to(const struct sockaddr_in *addr, enum way way)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)addr, sizeof(*addr)))
		bench_die("connect");
	prepare(fd, way);
	return fd;
}

static int
accept_from(int listener, enum way way)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		bench_die("accept");
	prepare(fd, way);
	return fd;
}

static void
echo(const struct sockaddr_in *addr, size_t len, enum way way)
{
	int fd = connect_to(addr, way);
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

/* ---- event loops ---- */

/* makes the set of the first count clients */
static int
watch_clients(int count)
{
	int set = epoll_create1(EPOLL_CLOEXEC);
	if (set < 0)
		bench_die("epoll_create1");
	for (int i = 0; i < count; i++) {
		struct epoll_event event = { .events = EPOLLIN, .data.u32 = (uint32_t)i };
		if (epoll_ctl(set, EPOLL_CTL_ADD, clients[i].fd, &event))
			bench_die("epoll_ctl");
	}
	return set;
}

/* sleeps until bytes have come; returns the number of events */
static int
wait_for_clients(int set, int count)
{
	int got = epoll_wait(set, events, count, -1);
	if (got < 0 && errno != EINTR)
		bench_die("epoll_wait");
	return got > 0 ? got : 0;
}

/* takes the bytes that have come; true if the message is whole. *is_closed: none will come. */
static bool
take(struct client *client, size_t len, bool *is_closed)
{
	ssize_t n = recv(client->fd, buffer, len - client->got, 0);
	if (n < 0 && !is_not_yet())
		bench_die("recv");
	*is_closed = n == 0;
	client->got += n > 0 ? (size_t)n : 0;
	if (client->got < len)
		return false;
	client->got = 0;
	return true;
}

/* answers the messages of all clients until they have closed their connections */
static void
echo_clients(const struct sockaddr_in *addr, int count, size_t len)
{
	for (int i = 0; i < count; i++)
		clients[i] = (struct client){ .fd = connect_to(addr, WAY_POLL) };
	int set = watch_clients(count);
	for (int left = count; left > 0;) {
		int got = wait_for_clients(set, count);
		for (int i = 0; i < got; i++) {
			struct client *client = &clients[events[i].data.u32];
			bool is_closed;
			if (take(client, len, &is_closed))
				send_all(client->fd, len);
			else if (is_closed) {
				close(client->fd);
				left--;
			}
		}
	}
	close(set);
}

static void
send_message(struct client *client, size_t len, double now)
{
	client->sent = now;
	send_all(client->fd, len);
}

/*
 * Makes round trips for this many seconds, and awaits the last answers; h gets the time of each in ns. Returns the round
 * trips per second.
 */
static double
measure_clients(int set, int count, size_t len, double seconds, struct histogram *h)
{
	const double begin = bench_now_s();
	double now = begin;
	for (int i = 0; i < count; i++)
		send_message(&clients[i], len, bench_now_s());
	for (int in_flight = count; in_flight > 0;) {
		int got = wait_for_clients(set, count);
		for (int i = 0; i < got; i++) {
			struct client *client = &clients[events[i].data.u32];
			bool is_closed;
			bool is_whole = take(client, len, &is_closed);
			if (is_closed) {
				fprintf(stderr, "the other side has gone\n");
				exit(1);
			}
			if (!is_whole)
				continue;
			now = bench_now_s();
			histogram_add(h, (uint64_t)((now - client->sent) * 1e9));
			if (now - begin < seconds)
				send_message(client, len, now);
			else
				in_flight--;
		}
	}
	return (double)h->count / (now - begin);
}

/* ---- all of it ---- */

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

/* what the process that measures does: one connection, or those of the clients */
static void
measure_all(int listener, int count, enum way way, size_t len, double seconds)
{
	static struct histogram warm_up, trips;
	double first;
	for (int i = 0; i < count; i++)
		clients[i] = (struct client){ .fd = accept_from(listener, way) };
	if (way == WAY_COUNT) {
		int set = watch_clients(count);
		(void)measure_clients(set, count, len, BENCH_WARM_UP_S, &warm_up);
		first = measure_clients(set, count, len, seconds, &trips);
		close(set);
	} else {
		measure(clients[0].fd, len, way, BENCH_WARM_UP_S, &warm_up);
		measure(clients[0].fd, len, way, seconds, &trips);
		first = histogram_mean(&trips) / 1e3;
	}
	printf("%.3f %.3f %.3f\n", first, (double)histogram_quantile(&trips, 0.5) / 1e3,
		(double)histogram_quantile(&trips, 0.99) / 1e3);
	for (int i = 0; i < count; i++)
		close(clients[i].fd);
}

int
main(int argc, char *argv[])
{
	const bool is_service = argc == 5 && strcmp(argv[1], "--clients") == 0;
	enum way way = argc == 4 ? parse_way(argv[1]) : WAY_COUNT;
	if (way == WAY_COUNT && !is_service) {
		fprintf(stderr,
			"usage: bench-tcp-pingpong spin|block|poll <bytes> <seconds>\n"
			"       bench-tcp-pingpong --clients <number> <bytes> <seconds>\n");
		return 2;
	}
	int count = is_service ? (int)bench_number(argv[2], 1, CLIENTS_MAX) : 1;
	size_t len = (size_t)bench_number(argv[argc - 2], 1, is_service ? CLIENTS_BYTES_MAX : BYTES_MAX);
	double seconds = bench_number(argv[argc - 1], 0.001, 1e6);

	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t addr_len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&addr, addr_len) || listen(listener, count) ||
		getsockname(listener, (struct sockaddr *)&addr, &addr_len))
		bench_die("listen");

	pid_t child = fork();
	if (child < 0)
		bench_die("fork");
	if (child == 0) {
		close(listener);
		if (is_service)
			echo_clients(&addr, count, len);
		else
			echo(&addr, len, way);
		_exit(0);
	}
	measure_all(listener, count, way, len, seconds);
	close(listener);
	(void)waitpid(child, NULL, 0);
	return 0;
}
