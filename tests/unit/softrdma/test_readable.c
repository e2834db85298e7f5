/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_readable.c -- a descriptor that is readable while its owner wants that: by level, by edge, with sockets in it, nested */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "count.h"
#include "failing.h"
#include "softrdma/base/readable.h"

static bool
is_readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	const int n = poll(&pfd, 1, 0);
	assert_true(n >= 0);
	return n == 1;
}

static void
test_level(void **state)
{
	(void)state;
	struct softrdma_readable r;
	const int fds = count_fds();
	assert_int_equal(softrdma_readable_open(&r), 0);
	assert_true(fcntl(r.fd, F_GETFD) & FD_CLOEXEC);
	for (int i = 0; i < 3; i++) {
		assert_false(is_readable(r.fd));
		softrdma_readable_clear(&r, 0); /* as before */
		assert_false(is_readable(r.fd));
		assert_true(softrdma_readable_raise(&r));
		assert_true(is_readable(r.fd));
		assert_true(is_readable(r.fd));
		softrdma_readable_clear(&r, 0);
	}
	softrdma_readable_close(&r);
	assert_int_equal(count_fds(), fds);
}

/* an epoll of the application that is edge-triggered reports each time that it is raised, and nothing else looks meanwhile */
static void
test_edge(void **state)
{
	(void)state;
	struct softrdma_readable r;
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	const int epoll = epoll_create1(EPOLL_CLOEXEC);
	assert_int_equal(softrdma_readable_open(&r), 0);
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, r.fd, &event), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0);
		assert_true(softrdma_readable_raise(&r));
		assert_int_equal(epoll_wait(epoll, &event, 1, 0), 1);
		assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0);
		softrdma_readable_clear(&r, 0);
	}
	close(epoll);
	softrdma_readable_close(&r);
}

#define SOCKETS 100

/* sockets of the owner make it readable too, and stay after what was raised is cleared, however many have input */
static void
test_with_sockets(void **state)
{
	(void)state;
	struct softrdma_readable r;
	int ends[SOCKETS][2];
	assert_int_equal(softrdma_readable_open(&r), 0);
	for (int i = 0; i < SOCKETS; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]), 0);
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = ends[i] };
		assert_int_equal(epoll_ctl(r.fd, EPOLL_CTL_ADD, ends[i][0], &event), 0);
		assert_int_equal(write(ends[i][1], "x", 1), 1);
	}
	assert_true(is_readable(r.fd));
	assert_true(softrdma_readable_raise(&r));
	softrdma_readable_clear(&r, SOCKETS);
	assert_true(is_readable(r.fd));
	for (int i = 0; i < SOCKETS; i++) {
		char byte;
		assert_int_equal(read(ends[i][0], &byte, 1), 1);
	}
	assert_false(is_readable(r.fd));
	assert_true(softrdma_readable_raise(&r));
	assert_true(is_readable(r.fd));
	for (int i = 0; i < SOCKETS; i++) {
		close(ends[i][0]);
		close(ends[i][1]);
	}
	softrdma_readable_close(&r);
}

/* a call that finds nothing, though there is something, is made again; the application's own file is left alone in time */
static void
test_looking_in_vain(void **state)
{
	(void)state;
	struct softrdma_readable r;
	assert_int_equal(softrdma_readable_open(&r), 0);
	assert_true(softrdma_readable_raise(&r));
	fail_call(FAIL_MINE, "epoll_wait", 0, 3, EINTR);
	softrdma_readable_clear(&r, 0);
	assert_int_equal(fail_nothing(), 3);
	assert_false(is_readable(r.fd));

	int ends[2];
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(dup2(ends[0], r.fd), r.fd);
	softrdma_readable_clear(&r, 0);
	assert_true(is_readable(r.fd));
	close(ends[0]);
	close(ends[1]);
	softrdma_readable_close(&r);
}

static atomic_bool looks;

static void *
look_again_and_again(void *arg)
{
	while (atomic_load(&looks))
		is_readable(*(int *)arg);
	return NULL;
}

/* threads that look at the descriptor do not keep it readable */
static void
test_others_look(void **state)
{
	(void)state;
	struct softrdma_readable r;
	pthread_t threads[2];
	assert_int_equal(softrdma_readable_open(&r), 0);
	atomic_store(&looks, true);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look_again_and_again, &r.fd), 0);
	for (int i = 0; i < 10000; i++) {
		assert_true(softrdma_readable_raise(&r));
		assert_true(is_readable(r.fd));
		softrdma_readable_clear(&r, 0);
		assert_false(is_readable(r.fd));
	}
	atomic_store(&looks, false);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	softrdma_readable_close(&r);
}

#define MANY 120

/*
 * Many share one eventfd. Each is by itself, in an epoll inside another one inside a third, as the limits of the kernel
 * allow.
 */
static void
test_many(void **state)
{
	(void)state;
	static struct softrdma_readable r[MANY];
	const int before = count_fds();
	int epolls[3];
	for (int i = 0; i < 3; i++) {
		struct epoll_event event = { .events = EPOLLIN };
		epolls[i] = epoll_create1(EPOLL_CLOEXEC);
		if (i > 0)
			assert_int_equal(epoll_ctl(epolls[i], EPOLL_CTL_ADD, epolls[i - 1], &event), 0);
	}
	for (int i = 0; i < MANY; i++) {
		struct epoll_event event = { .events = EPOLLIN, .data.fd = i };
		assert_int_equal(softrdma_readable_open(&r[i]), 0);
		assert_int_equal(epoll_ctl(epolls[0], EPOLL_CTL_ADD, r[i].fd, &event), 0);
	}
	assert_true(count_fds() <= before + 3 + MANY + 3); /* one for 50 */
	for (int i = 0; i < MANY; i += 7) {
		struct epoll_event event;
		assert_false(is_readable(epolls[2]));
		assert_true(softrdma_readable_raise(&r[i]));
		assert_true(is_readable(epolls[2]));
		assert_int_equal(epoll_wait(epolls[0], &event, 1, 0), 1);
		assert_int_equal(event.data.fd, i);
		softrdma_readable_clear(&r[i], 0);
	}
	for (int i = 0; i < MANY; i++)
		softrdma_readable_close(&r[(i + 51) % MANY]); /* not in the order in which they came */
	for (int i = 0; i < 3; i++)
		close(epolls[i]);
	assert_int_equal(count_fds(), before);
}

static void
test_open_fails(void **state)
{
	(void)state;
	static const struct {
		const char *call;
		int error;
	} table[] = { { "calloc", ENOMEM }, { "eventfd", EMFILE }, { "epoll_create1", EMFILE },
		{ "epoll_ctl", ENOSPC } };
	const int fds = count_fds();
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct softrdma_readable r;
		fail_call(FAIL_MINE, table[i].call, 0, 1, table[i].error);
		assert_int_equal(softrdma_readable_open(&r), table[i].error);
		assert_int_equal(fail_nothing(), 1);
		assert_int_equal(count_fds(), fds);
	}
}

/* the application has closed it, or has given its number to another file: that one is left alone */
static void
test_closed_by_the_application(void **state)
{
	(void)state;
	struct softrdma_readable r;
	int ends[2];
	assert_int_equal(softrdma_readable_open(&r), 0);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(dup2(ends[0], r.fd), r.fd);
	assert_false(softrdma_readable_raise(&r));
	assert_false(is_readable(r.fd));
	close(ends[0]);
	close(ends[1]);
	softrdma_readable_close(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_level),
		cmocka_unit_test(test_edge),
		cmocka_unit_test(test_with_sockets),
		cmocka_unit_test(test_looking_in_vain),
		cmocka_unit_test(test_others_look),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_open_fails),
		cmocka_unit_test(test_closed_by_the_application),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
