/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_workers.c -- threads that wait for a medium: as many as needed, up to a limit, and no job is lost
 */

#include "connected.h"

#include <semaphore.h>

#include "softrdma/engine/connection.h"
#include "softrdma/engine/workers.h"

#define JOBS 12

static struct softrdma_link *links[JOBS];
static sem_t begun, may_end, other_may_end;
static atomic_uint done;

static void
wait_for_leave(struct softrdma_connection *conn)
{
	sem_post(&begun);
	sem_wait(&conn->link == links[JOBS - 1] ? &other_may_end : &may_end);
	done++;
}

static void
post_all(sem_t *sem, unsigned times)
{
	while (times-- > 0)
		sem_post(sem);
}

static void
come_from(struct softrdma_link *link, unsigned host)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000000 | host) };
	softrdma_connection_of(link)->peer.in = addr;
}

static void
submit(int i)
{
	assert_int_equal(softrdma_workers_submit(softrdma_connection_of(links[i]), wait_for_leave), 0);
}

static int
setup(void **state)
{
	sem_init(&begun, 0, 0);
	sem_init(&may_end, 0, 0);
	sem_init(&other_may_end, 0, 0);
	done = 0;
	for (int i = 0; i < JOBS; i++) {
		links[i] = softrdma_connection_new();
		come_from(links[i], (unsigned)i % 2);
	}
	return setup_test(state);
}

static int
teardown(void **state)
{
	int ret = 0;
	for (int i = 0; i < JOBS; i++) {
		if (atomic_load(&links[i]->refs) != 1)
			ret = -1; /* every reference was released */
		softrdma_link_put(links[i]);
	}
	return teardown_test(state) || ret ? -1 : 0;
}

/*
 * With more jobs than threads, the limit holds and the other jobs are done later. The end waits for all of
 * them.
 */
static void
test_limit(void **state)
{
	(void)state;
	for (int i = 0; i < JOBS; i++)
		submit(i);
	for (int i = 0; i < SOFTRDMA_FLUSH_THREADS_MAX; i++)
		sem_wait(&begun);
	assert_int_equal(count_threads(), 1 + SOFTRDMA_FLUSH_THREADS_MAX);
	assert_int_equal(done, 0);
	sem_post(&other_may_end);
	post_all(&may_end, JOBS - 1);
	softrdma_workers_stop();
	assert_int_equal(done, JOBS);
}

static bool
has_begun(void)
{
	return sem_trywait(&begun) == 0;
}

/* One address asks for all workers. It has all but one, others have that, and none of its jobs is lost or overtaken for ever. */
static void
test_one_address(void **state)
{
	(void)state;
	enum { OTHER = JOBS - 1 };
	for (int i = 0; i < OTHER; i++) {
		come_from(links[i], 7);
		submit(i);
	}
	for (int i = 0; i < SOFTRDMA_FLUSH_THREADS_OF_ADDRESS; i++)
		sem_wait(&begun);
	assert_true(softrdma_workers_are_short());
	submit(OTHER); /* the last one that came, and the only one that is begun */
	sem_wait(&begun);
	assert_int_equal(count_threads(), 1 + SOFTRDMA_FLUSH_THREADS_MAX);
	assert_false(has_begun());
	assert_int_equal(done, 0);
	/* its worker takes none of them when it is done */
	sem_post(&other_may_end);
	wait_until(done == 1);
	wait_until(atomic_load(&links[OTHER]->refs) == 1);
	assert_false(has_begun());
	/* each that ends makes room for another one */
	for (int i = SOFTRDMA_FLUSH_THREADS_OF_ADDRESS; i < OTHER; i++) {
		assert_false(has_begun());
		sem_post(&may_end);
		sem_wait(&begun);
	}
	assert_false(softrdma_workers_are_short());
	post_all(&may_end, SOFTRDMA_FLUSH_THREADS_OF_ADDRESS);
	softrdma_workers_stop();
	assert_int_equal(done, JOBS);
}

/* the jobs of an address that waited for one another are done also if the workers end */
static void
test_one_address_at_the_end(void **state)
{
	(void)state;
	for (int i = 0; i < JOBS; i++) {
		come_from(links[i], 7);
		submit(i);
	}
	sem_post(&other_may_end);
	post_all(&may_end, JOBS - 1);
	softrdma_workers_stop();
	assert_int_equal(done, JOBS);
	assert_int_equal(count_settle(count_threads, 1, PATIENCE_MS),
		1); /* the kernel may still list one that has ended */
}

/* an idle thread takes the next job; no new thread is started for it */
static void
test_idle_thread_is_used(void **state)
{
	(void)state;
	for (int i = 0; i < JOBS; i++) {
		sem_post(i == JOBS - 1 ? &other_may_end : &may_end);
		submit(i);
		wait_until(done == (unsigned)i + 1);
		wait_until(atomic_load(&links[i]->refs) == 1);
	}
	assert_true(count_threads() <= 1 + SOFTRDMA_FLUSH_THREADS_MAX);
	softrdma_workers_stop();
	softrdma_workers_stop(); /* no thread exists */
}

static void
test_no_thread(void **state)
{
	(void)state;
	fail_call(FAIL_MINE, "pthread_create", 0, 1, EAGAIN);
	assert_int_equal(softrdma_workers_submit(softrdma_connection_of(links[0]), wait_for_leave), EAGAIN);
	assert_int_equal(atomic_load(&links[0]->refs), 1);

	/* if at least one thread exists, it does all jobs */
	assert_int_equal(softrdma_workers_submit(softrdma_connection_of(links[0]), wait_for_leave), 0);
	sem_wait(&begun);
	fail_call(FAIL_MINE, "pthread_create", 0, FAIL_FOR_EVER, EAGAIN);
	assert_int_equal(softrdma_workers_submit(softrdma_connection_of(links[1]), wait_for_leave), 0);
	assert_int_equal(softrdma_workers_submit(softrdma_connection_of(links[2]), wait_for_leave), 0);
	assert_int_equal(fail_nothing(), 2);
	post_all(&may_end, 3);
	softrdma_workers_stop();
	assert_int_equal(done, 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_address, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_address_at_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_idle_thread_is_used, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_thread, setup, teardown),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
