/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_plain.c -- the plain stream: bytes of one piece and of several, a full socket, and the end */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softrdma/wire/plain.h"

struct ends {
	int fd[2];
	struct softrdma_plain plain[2];
	struct softrdma_stream *stream[2];
};

static void
open_ends(struct ends *e)
{
	/* blocking sockets, as those of connections are: the calls may not block all the same */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, e->fd), 0);
	for (int i = 0; i < 2; i++) {
		e->stream[i] = softrdma_plain_init(&e->plain[i], e->fd[i]);
		assert_false(softrdma_stream_copies(e->stream[i]));
	}
}

static void
close_ends(struct ends *e)
{
	for (int i = 0; i < 2; i++) {
		e->stream[i]->ops->delete (e->stream[i]);
		assert_int_equal(close(e->fd[i]), 0); /* it is the caller's */
	}
}

static ssize_t
send_pieces(struct softrdma_stream *stream, char *first, char *second)
{
	struct iovec iov[] = { { first, strlen(first) }, { second, second ? strlen(second) : 0 } };
	return stream->ops->send(stream, iov, second ? 2 : 1);
}

static void
test_pieces(void **state)
{
	(void)state;
	struct ends e;
	char one[] = "one", two[] = "two", first[4] = "", rest[9] = "";
	struct iovec iov[] = { { first, 3 }, { rest, 8 } };
	open_ends(&e);
	struct softrdma_stream *from = e.stream[0], *to = e.stream[1];
	assert_int_equal(to->ops->recv(to, iov, 1), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(to->ops->recv(to, iov, 2), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(send_pieces(from, one, NULL), 3);
	assert_int_equal(send_pieces(from, two, one), 6);
	assert_int_equal(to->ops->recv(to, iov, 2), 9);
	assert_string_equal(first, "one");
	assert_string_equal(rest, "twoone");
	assert_int_equal(send_pieces(from, two, NULL), 3);
	assert_int_equal(to->ops->recv(to, iov, 1), 3);
	assert_string_equal(first, "two");
	/* the socket reports all that is there, and nothing is kept back */
	assert_false(softrdma_stream_has_input(to));
	assert_false(softrdma_stream_wants_space(from));
	assert_null(from->ops->flush);
	close_ends(&e);
}

static void
test_full(void **state)
{
	(void)state;
	struct ends e;
	static char bytes[65536];
	struct iovec iov = { bytes, sizeof(bytes) };
	open_ends(&e);
	struct softrdma_stream *from = e.stream[0];
	while (from->ops->send(from, &iov, 1) > 0)
		;
	assert_int_equal(errno, EAGAIN);
	char one[] = "one", two[] = "two";
	assert_int_equal(send_pieces(from, one, two), -1);
	assert_int_equal(errno, EAGAIN);
	close_ends(&e);
}

/* one direction ends, and the other goes on; a peer that has gone raises no signal */
static void
test_end(void **state)
{
	(void)state;
	struct ends e;
	char one[] = "one", two[] = "two", bytes[4] = "";
	struct iovec iov = { bytes, 3 };
	open_ends(&e);
	assert_true(e.stream[0]->ops->end(e.stream[0]));
	assert_int_equal(e.stream[1]->ops->recv(e.stream[1], &iov, 1), 0);
	assert_int_equal(send_pieces(e.stream[1], one, NULL), 3);
	assert_int_equal(e.stream[0]->ops->recv(e.stream[0], &iov, 1), 3);
	assert_string_equal(bytes, "one");
	assert_int_equal(send_pieces(e.stream[0], one, NULL), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(send_pieces(e.stream[0], one, two), -1);
	assert_int_equal(errno, EPIPE);
	assert_null(e.stream[0]->ops->why);
	close_ends(&e);
}

/* a connection without a socket */
static void
test_none(void **state)
{
	(void)state;
	assert_false(softrdma_stream_has_input(NULL));
	assert_false(softrdma_stream_wants_space(NULL));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
