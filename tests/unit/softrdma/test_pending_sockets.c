/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_pending_sockets.c -- pending sockets: how long their turns are, and when they pause */

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

static bool others_have_looked;
static unsigned asked;

bool __wrap_softrdma_engine_others_have_looked(void);
void __wrap_softrdma_engine_ask_others(void);

bool
__wrap_softrdma_engine_others_have_looked(void)
{
	return others_have_looked;
}

void
__wrap_softrdma_engine_ask_others(void)
{
	asked++;
}

/* the epoll of the first engine */
static int epoll_of_all;

static int
control(struct softrdma_watched *watched, int op, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = watched };
	return epoll_ctl(epoll_of_all, op, fd, &ev) == 0 ? 0 : errno;
}

int __wrap_softrdma_engine_watch(struct softrdma_watched *watched, int fd, uint32_t events);
int __wrap_softrdma_engine_watch_again(struct softrdma_watched *watched, int fd, uint32_t events);

int
__wrap_softrdma_engine_watch(struct softrdma_watched *watched, int fd, uint32_t events)
{
	return control(watched, EPOLL_CTL_ADD, fd, events);
}

int
__wrap_softrdma_engine_watch_again(struct softrdma_watched *watched, int fd, uint32_t events)
{
	return control(watched, EPOLL_CTL_MOD, fd, events);
}

struct pending_socket {
	struct softrdma_watched watched;
	int fd;
	unsigned turns;
	uint64_t takes_ns;
	bool released;
};

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

static int
setup(void **state)
{
	(void)state;
	now_ns = 1000u * NS_PER_MS;
	others_have_looked = true;
	asked = 0;
	epoll_of_all = epoll_create1(EPOLL_CLOEXEC);
	assert_int_equal(softrdma_pending_sockets_open(), 0);
	for (int i = 0; i < COUNT; i++) {
		all[i] = (struct pending_socket){
			.watched = { .handle = take_time, .put = release },
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

/* if many are ready, other work is done in between: each turn ends in time, however long one of them takes */
static void
test_turns(void **state)
{
	(void)state;
	for (int i = 0; i < COUNT; i++) {
		all[i].takes_ns = NS_PER_MS / 10;
		come(&all[i]);
	}
	assert_true(serve());
	assert_int_equal(turns(), 3);
	assert_true(serve());
	assert_int_equal(turns(), 6);
	for (int i = 0; i < COUNT; i++)
		all[i].takes_ns = 7 * NS_PER_MS; /* like a signature */
	assert_true(serve());
	assert_int_equal(turns(), 7);
	for (int i = 0; i < COUNT; i++)
		all[i].takes_ns = 1;
	assert_true(serve());
	assert_int_equal(turns(), COUNT);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(all[i].turns, 1);
	assert_false(serve());
}

/* whatever time they have used, the next turn may follow at once */
static void
test_no_share_of_the_time(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		all[0].takes_ns = 50 * (uint64_t)NS_PER_MS;
		come(&all[0]);
		assert_true(serve());
		assert_int_equal(softrdma_pending_sockets_pause(now_ns), 0);
		assert_int_equal(all[0].turns, i + 1);
	}
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

static uint64_t look;

static void
ask(struct softrdma_watched *watched, uint32_t events)
{
	take_time(watched, events);
	look = softrdma_pending_sockets_look_after_next();
}

/* one waits for a look of all engines: all of them pause until the others have looked */
static void
test_pause(void **state)
{
	(void)state;
	all[0].watched.handle = ask;
	others_have_looked = false;
	come(&all[0]);
	assert_true(serve());
	assert_int_equal(asked, 1);
	come(&all[1]);
	assert_int_equal(softrdma_pending_sockets_pause(now_ns), 0);
	assert_false(serve());
	others_have_looked = true;
	assert_int_equal(softrdma_pending_sockets_pause(now_ns), 0);
	assert_true(serve()); /* the event was not lost */
	assert_int_equal(all[1].turns, 1);
}

/* If a pause cannot begin, they are served on. If it cannot end, it ends at the next check. */
static void
test_pause_fails(void **state)
{
	(void)state;
	all[0].watched.handle = ask;
	others_have_looked = false;
	come(&all[0]);
	fail_call(FAIL_MINE, "epoll_ctl", 0, 1, ENOMEM);
	assert_true(serve());
	assert_int_equal(fail_nothing(), 1);
	come(&all[0]);
	assert_true(serve());

	come(&all[1]);
	assert_false(serve());
	others_have_looked = true;
	fail_call(FAIL_MINE, "epoll_ctl", 0, 1, ENOMEM);
	assert_int_equal(softrdma_pending_sockets_pause(now_ns), now_ns); /* no sleep before the next check */
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
	epoll_of_all = epoll_create1(EPOLL_CLOEXEC);
	int fds = count_fds();
	for (int i = 0; i < 2; i++) {
		fail_call(FAIL_MINE, calls[i], 0, 1, ENFILE);
		assert_int_equal(softrdma_pending_sockets_open(), ENFILE);
		assert_int_equal(fail_nothing(), 1);
		assert_int_equal(count_fds(), fds);
	}
	close(epoll_of_all);
}

/* while there is no thread the object cannot be in use, so it is released at once */
static void
test_forgotten_without_thread(void **state)
{
	(void)state;
	struct pending_socket pending = { .watched = { .put = release } };
	softrdma_pending_sockets_forget(0, &pending.watched);
	assert_true(pending.released);
	assert_int_equal(softrdma_pending_sockets_watch(0, &pending.watched), EBADF);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_share_of_the_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_interrupted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_look_again_and_forget, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pause, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pause_fails, setup, teardown),
		cmocka_unit_test(test_open_fails),
		cmocka_unit_test(test_forgotten_without_thread),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
