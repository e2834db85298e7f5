/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* attacking.c -- functions that the attacks share */

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attacking.h"
#include "deadline.h"
#include "raw.h"

#define PARALLEL_MAX 16

int
let_pass(const char *what)
{
	fprintf(stderr, "the server has let pass: %s\n", what);
	return 1;
}

bool
over(int64_t end_ms)
{
	return now_ms() >= end_ms;
}

void
pause_ms(long ms)
{
	const struct timespec pause = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	nanosleep(&pause, NULL);
}

bool
has_ended(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

int
crowd(const struct crowd *how, const struct target *target, int64_t end_ms)
{
	static int fds[CROWD_MAX];

	memset(fds, -1, sizeof(fds));
	while (!over(end_ms)) {
		for (unsigned i = 0; i < how->count && !over(end_ms); i++) {
			if (fds[i] >= 0 && has_ended(fds[i])) {
				raw_close(fds[i]);
				fds[i] = -1;
			}
			if (fds[i] >= 0)
				continue;
			fds[i] = raw_connect(how->host + i % how->hosts, target->port);
			if (fds[i] >= 0 && how->len)
				(void)raw_send(fds[i], how->bytes, how->len);
		}
		pause_ms(10);
	}
	for (unsigned i = 0; i < how->count; i++)
		if (fds[i] >= 0)
			raw_close(fds[i]);
	return 0;
}

int
crowd_of_lorises(const struct crowd *how, const struct target *target, int64_t end_ms)
{
	static struct {
		int fd;
		size_t sent;
		int64_t begin_ms;
	} lorises[CROWD_MAX];
	const uint8_t *bytes = how->bytes;
	int ret = 0;

	for (unsigned i = 0; i < how->count; i++)
		lorises[i].fd = -1;
	while (!over(end_ms) && ret == 0) {
		for (unsigned i = 0; i < how->count; i++) {
			if (lorises[i].fd >= 0 && has_ended(lorises[i].fd)) {
				raw_close(lorises[i].fd);
				lorises[i].fd = -1;
			}
			if (lorises[i].fd < 0) {
				lorises[i].fd = raw_connect(how->host + i % how->hosts, target->port);
				lorises[i].sent = 0;
				lorises[i].begin_ms = now_ms();
			}
			if (lorises[i].fd >= 0 && lorises[i].sent < how->len - 1)
				(void)raw_send(lorises[i].fd, &bytes[lorises[i].sent++], 1);
			if (now_ms() - lorises[i].begin_ms > PATIENCE_MS)
				ret = let_pass("a request that never gets finished");
		}
		pause_ms(50);
	}
	for (unsigned i = 0; i < how->count; i++)
		if (lorises[i].fd >= 0)
			raw_close(lorises[i].fd);
	return ret;
}

/* the bytes that the other side has acknowledged */
static uint64_t
taken(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) ? 0 : info.tcpi_bytes_acked;
}

uint64_t
pour(int fd, const void *bytes, size_t len, struct filler filler, int64_t end_ms)
{
	static uint8_t buf[RAW_MESSAGE_MAX + FILLER_SIZE];
	struct raw_frame frame = { .opcode = RAW_SEND,
		.flags = RAW_WHOLE,
		.seq = filler.seq,
		.length = FILLER_SIZE - RAW_HEADER };
	uint8_t *from = buf + RAW_MESSAGE_MAX - len;
	uint8_t *body = buf + RAW_MESSAGE_MAX;

	memcpy(from, bytes, len);
	do {
		if (filler.frames)
			raw_encode(&frame, body);
		frame.seq++;
		if (!raw_send_until(fd, from, (size_t)(body - from) + FILLER_SIZE, end_ms))
			break;
		from = body;
	} while (!over(end_ms));
	return taken(fd);
}

int
in_parallel(unsigned count, parallel_fn *one, const struct target *target, int64_t end_ms, void *arg)
{
	pid_t pids[PARALLEL_MAX];
	int failures = 0;

	for (unsigned i = 0; i < count && i < PARALLEL_MAX; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			srandom((unsigned)random() + i);
			_exit(one(target, end_ms, i, arg));
		}
	}
	for (unsigned i = 0; i < count && i < PARALLEL_MAX; i++) {
		int status = 1;
		while (pids[i] > 0 && waitpid(pids[i], &status, 0) < 0 && errno == EINTR)
			;
		failures += status != 0;
	}
	return failures != 0;
}
