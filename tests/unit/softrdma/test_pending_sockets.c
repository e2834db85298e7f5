/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_pending_sockets.c -- pending sockets: how many are served at once, and their share of the time */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "count.h"
#include "failing.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/pending_sockets.h"

#define NS_PER_MS 1000000u
#define COUNT 20
#define TURNS 8
#define PAUSE_MAX_MS 100

/* the clock of these tests: it stands, except when a connection takes time */
static uint64_t now_ns;
uint64_t __wrap_softrdma_now_ns(void);

uint64_t
__wrap_softrdma_now_ns(void)
{
	return now_ns;
}

struct pending_socket {
	struct softrdma_watched watched;
	int fd;
	unsigned turns;
	uint64_t takes_ns;
	bool released;
};

static int epoll_of_all;
static struct pending_socket all[COUNT];

static void
take_time(struct softrdma_watched *watched, uint32_t events)
{
	struct pending_socket *pending = (struct pending_socket *)watched;
	assert_true(events & EPOLLIN);
	pending->turns++;
	now_ns += pending->takes_ns;
}

static void
release(struct softrdma_watched *watched)
{
	((struct pending_socket *)watched)->released = true;
}

static void
come(struct pending_socket *pending)
{
	assert_int_equal(eventfd_write(pending->fd, 1), 0);
}

static unsigned
turns(void)
{
	unsigned sum = 0;
	for (int i = 0; i < COUNT; i++)
		sum += all[i].turns;
	return sum;
}

/* serves like the progress thread; false if no pending socket may be served now */
static bool
serve(void)
{
	struct epoll_event event;
	int count = epoll_wait(epoll_of_all, &event, 1, 0);
	if (count == 0)
		return false;
	struct softrdma_watched *watched = event.data.ptr;
	watched->handle(watched, event.events);
	return true;
}

/* one connection is served and takes this time; returns the end of the pause that follows, or 0 */
static uint64_t
pause_after(uint64_t takes_ns)
{
	all[0].takes_ns = takes_ns;
	come(&all[0]);
	assert_true(serve());
	return softrdma_pending_sockets_pause(now_ns);
}

static int
setup(void **state)
{
	(void)state;
	now_ns = 1000u * NS_PER_MS;
	epoll_of_all = epoll_create1(EPOLL_CLOEXEC);
	assert_int_equal(softrdma_pending_sockets_open(epoll_of_all), 0);
	for (int i = 0; i < COUNT; i++) {
		all[i] = (struct pending_socket){
			.watched = { .handle = take_time, .release = release },
			.fd = eventfd(0, EFD_CLOEXEC),
		};
		assert_int_equal(eventfd_write(all[i].fd, 1), 0);
		assert_int_equal(softrdma_pending_sockets_watch(all[i].fd, &all[i].watched), 0);
	}
	while (serve())
		;
	assert_int_equal(turns(), COUNT);
	for (int i = 0; i < COUNT; i++)
		all[i].turns = 0;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	for (int i = 0; i < COUNT; i++)
		close(all[i].fd);
	softrdma_pending_sockets_close();
	close(epoll_of_all);
	return 0;
}

/* if many are ready, other work is done in between */
static void
test_few_at_a_time(void **state)
{
	(void)state;
	for (int i = 0; i < COUNT; i++)
		come(&all[i]);
	assert_true(serve());
	assert_int_equal(turns(), TURNS);
	assert_true(serve());
	assert_int_equal(turns(), 2 * TURNS);
	assert_true(serve());
	assert_int_equal(turns(), COUNT);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(all[i].turns, 1);
	assert_false(serve());
}

/* each takes long, like a signature */
static void
test_no_longer_at_a_time(void **state)
{
	(void)state;
	for (int i = 0; i < COUNT; i++) {
		all[i].takes_ns = 3 * NS_PER_MS / 10;
		come(&all[i]);
	}
	assert_true(serve());
	assert_int_equal(turns(), 2);
	assert_true(serve());
	assert_int_equal(turns(), 4);
	for (int i = 0; i < COUNT; i++)
		all[i].takes_ns = 7 * NS_PER_MS;
	assert_true(serve());
	assert_int_equal(turns(), 5);
}

/* They are reported again until they were served. So a signal must not end the turn. */
static void
test_interrupted(void **state)
{
	(void)state;
	come(&all[0]);
	fail_call(FAIL_MINE, "epoll_wait", 1, 2, EINTR); /* the first call is this test's own */
	assert_true(serve());
	assert_int_equal(fail_nothing(), 2);
	assert_int_equal(all[0].turns, 1);
	assert_false(serve());
}

static void
test_look_again_and_forget(void **state)
{
	(void)state;
	assert_int_equal(softrdma_pending_sockets_look_again(all[3].fd, &all[3].watched), 0);
	assert_true(serve());
	assert_int_equal(all[3].turns, 1);
	assert_false(serve());
	softrdma_pending_sockets_forget(all[3].fd, &all[3].watched);
	assert_true(all[3].released);
	come(&all[3]);
	assert_false(serve());
	assert_int_equal(softrdma_pending_sockets_look_again(all[3].fd, &all[3].watched), ENOENT);
	assert_int_equal(softrdma_pending_sockets_watch(-1, &all[3].watched), EBADF);
}

/* no established connection exists, or all were silent for a second: there is no reason to pause */
static void
test_no_connections(void **state)
{
	(void)state;
	assert_int_equal(pause_after(5 * NS_PER_MS), 0);
	softrdma_pending_sockets_give_way(softrdma_engine_first());
	now_ns += 1000 * NS_PER_MS; /* time used long ago does not count */
	assert_int_equal(pause_after(NS_PER_MS / 4), 0);
	now_ns += 1000 * NS_PER_MS;
	assert_int_equal(pause_after(5 * NS_PER_MS), 0);
	now_ns += 1;
	softrdma_pending_sockets_give_way(softrdma_engine_first());
	assert_int_not_equal(pause_after(5 * NS_PER_MS), 0);
}

/* pending sockets get a third of the time; a pause lasts until they have used at most a third */
static void
test_third_of_the_time(void **state)
{
	(void)state;
	uint64_t begin_ns = now_ns;
	softrdma_pending_sockets_give_way(softrdma_engine_first());
	assert_int_equal(pause_after(2 * NS_PER_MS), begin_ns + 6 * NS_PER_MS);
	come(&all[1]);
	assert_false(serve());
	now_ns = begin_ns + 6 * NS_PER_MS - 1;
	assert_int_equal(softrdma_pending_sockets_pause(now_ns), begin_ns + 6 * NS_PER_MS);
	assert_false(serve());
	assert_int_equal(all[1].turns, 0);

	now_ns = begin_ns + 6 * NS_PER_MS;
	assert_int_equal(softrdma_pending_sockets_pause(now_ns), 0);
	assert_true(serve()); /* the event was not lost */
	assert_int_equal(all[1].turns, 1);
}

/*
 * They may exceed their share by a millisecond, so that a single one is not delayed. But the excess adds up.
 */
static void
test_ahead_of_it(void **state)
{
	(void)state;
	uint64_t begin_ns = now_ns;
	softrdma_pending_sockets_give_way(softrdma_engine_first());
	assert_int_equal(pause_after(NS_PER_MS / 2), 0);
	assert_int_equal(pause_after(NS_PER_MS / 4), begin_ns + 9 * (NS_PER_MS / 4));
	now_ns += 9 * NS_PER_MS;
	assert_int_equal(softrdma_pending_sockets_pause(now_ns), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(pause_after(NS_PER_MS / 2), 0);
		now_ns += NS_PER_MS;
	}
}

/* the process was stopped meanwhile, or had to wait: the pause is limited */
static void
test_longest_pause(void **state)
{
	(void)state;
	softrdma_pending_sockets_give_way(softrdma_engine_first());
	uint64_t until_ns = pause_after(3600000 * (uint64_t)NS_PER_MS);
	assert_int_equal(until_ns, now_ns + PAUSE_MAX_MS * NS_PER_MS);
}

/* If a pause cannot begin, they are served on. If it cannot end, it ends at the next check. */
static void
test_pause_fails(void **state)
{
	(void)state;
	softrdma_pending_sockets_give_way(softrdma_engine_first());
	fail_call(FAIL_MINE, "epoll_ctl", 0, 1, ENOMEM);
	assert_int_equal(pause_after(2 * NS_PER_MS), 0);
	assert_int_equal(fail_nothing(), 1);

	uint64_t until_ns = pause_after(2 * NS_PER_MS);
	assert_int_not_equal(until_ns, 0);
	come(&all[1]);
	now_ns = until_ns;
	fail_call(FAIL_MINE, "epoll_ctl", 0, 1, ENOMEM);
	assert_int_equal(softrdma_pending_sockets_pause(now_ns), until_ns);
	assert_int_equal(fail_nothing(), 1);
	assert_false(serve());
	assert_int_equal(softrdma_pending_sockets_pause(now_ns), 0);
	assert_true(serve());
	assert_int_equal(all[1].turns, 1);
}

static void
test_open_fails(void **state)
{
	(void)state;
	static const char *const calls[] = { "epoll_create1", "epoll_ctl" };
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	int fds = count_fds();
	for (int i = 0; i < 2; i++) {
		fail_call(FAIL_MINE, calls[i], 0, 1, ENFILE);
		assert_int_equal(softrdma_pending_sockets_open(epoll_fd), ENFILE);
		assert_int_equal(fail_nothing(), 1);
		assert_int_equal(count_fds(), fds);
	}
	close(epoll_fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_few_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_longer_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_interrupted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_look_again_and_forget, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_connections, setup, teardown),
		cmocka_unit_test_setup_teardown(test_third_of_the_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ahead_of_it, setup, teardown),
		cmocka_unit_test_setup_teardown(test_longest_pause, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pause_fails, setup, teardown),
		cmocka_unit_test(test_open_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
