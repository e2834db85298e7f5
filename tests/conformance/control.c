/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* control.c -- the control channel: two bytes of length (the highest bit says "skip"), then the message */

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "control.h"
#include "deadline.h"
#include "wait.h"

#define SKIP_BIT 0x8000u
/* longer than any wait inside a scenario, so that the role that waits for librpma fails first and says why */
#define CTL_WAIT_MS (3 * WAIT_MS)

static int
try_send(int fd, unsigned head, const void *msg, size_t len)
{
	uint8_t buf[2 + CTL_MSG_MAX];

	buf[0] = (uint8_t)(head & 0xff);
	buf[1] = (uint8_t)(head >> 8);
	memcpy(buf + 2, msg, len);
	return send(fd, buf, len + 2, MSG_NOSIGNAL) == (ssize_t)len + 2 ? 0 : -1;
}

void
ctl_send(struct role *r, const void *msg, size_t len)
{
	CHECK(len <= CTL_MSG_MAX);
	if (try_send(r->control, (unsigned)len, msg, len))
		check_orphaned();
}

void
ctl_put_skip(struct role *r, const char *why)
{
	size_t len = strlen(why);

	(void)try_send(r->control, (unsigned)len | SKIP_BIT, why, len);
}

static void
recv_all(struct role *r, void *buf, size_t len)
{
	int64_t end = now_ms() + (int64_t)deadline_scaled(CTL_WAIT_MS);
	uint8_t *p = buf;

	while (len) {
		ssize_t n;

		if (!wait_readable(r->control, left_ms(end)))
			check_failed(__FILE__, __LINE__, "the other role does not answer");
		n = recv(r->control, p, len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			check_orphaned();
		p += n;
		len -= (size_t)n;
	}
}

size_t
ctl_recv(struct role *r, void *msg, size_t msg_len)
{
	uint8_t head[2];
	unsigned word;
	char why[CTL_MSG_MAX + 1];
	size_t len;

	recv_all(r, head, sizeof(head));
	word = head[0] | (unsigned)head[1] << 8;
	len = word & ~SKIP_BIT;
	CHECK(len <= CTL_MSG_MAX);
	if (word & SKIP_BIT) {
		recv_all(r, why, len);
		why[len] = '\0';
		check_skipped_by_other(why);
	}
	CHECK(len <= msg_len);
	recv_all(r, msg, len);
	return len;
}

void
ctl_put(struct role *r, const char *word)
{
	ctl_send(r, word, strlen(word));
}

void
ctl_expect(struct role *r, const char *word)
{
	char msg[CTL_MSG_MAX + 1];
	size_t len = ctl_recv(r, msg, sizeof(msg) - 1);

	msg[len] = '\0';
	if (strcmp(msg, word))
		check_failed(__FILE__, __LINE__, "the other role says \"%s\", not \"%s\"", msg, word);
}

void
ctl_put_u64(struct role *r, uint64_t value)
{
	ctl_send(r, &value, sizeof(value));
}

uint64_t
ctl_get_u64(struct role *r)
{
	uint64_t value;

	CHECK_EQ(ctl_recv(r, &value, sizeof(value)), sizeof(value));
	return value;
}

void
ctl_sync(struct role *r)
{
	ctl_put(r, "sync");
	ctl_expect(r, "sync");
}

bool
ctl_pending(struct role *r)
{
	return wait_readable(r->control, 0);
}

void
ctl_await_end(struct role *r)
{
	char byte;

	if (!wait_readable(r->control, WAIT_MS))
		check_failed(__FILE__, __LINE__, "the other role did not end");
	CHECK(recv(r->control, &byte, 1, 0) <= 0);
}
