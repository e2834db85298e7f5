/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_disk_readers.c -- the disk of nbdkit-rpma-plugin when more threads read than there are buffers
 *
 *	test_disk_readers KEEPER	each case has a keeper of its own
 *
 * A keeper that is stopped (SIGSTOP) answers nothing, so a thread that reads keeps its buffer meanwhile.
 */

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "deadline.h"
#include "disk_case.h"
#include "disk_internal.h"
#include "keeper_process.h"
#include "pattern.h"
#include "wait.h"

#define SIZE ((size_t)1 << 20)
#define BLOCK 4096
#define TIMEOUT_MS 20000
#define SHORT_TIMEOUT_MS 300
#define CASE_SECONDS 120
#define SEED 1
#define THREADS_MAX 8

static const char *program;

static struct keeper_process keeper;
static struct disk *disk;
static struct disk_config config;

struct thread {
	pthread_t thread;
	size_t block;
	bool good;
	bool ended; /* and was joined */
};

/* those that were started; and of these, those that wait for a buffer, in the order in which they asked */
static struct thread threads[THREADS_MAX];
static size_t thread_count;
static const struct reader *line[THREADS_MAX];
static size_t line_length;

static int
set_up(void **state)
{
	struct disk_facts facts;
	uint8_t all[SIZE];

	(void)state;
	keeper_process_init(&keeper, program, SIZE);
	config = case_config(&keeper, TIMEOUT_MS, (size_t)16 << 20);
	deadline_start("a case of test_disk_readers", CASE_SECONDS);
	case_starts(&keeper, &config, &facts, &disk);
	pattern_fill(all, SIZE, SEED, 0);
	assert_true(disk_write(disk, all, SIZE, 0, false));
	thread_count = line_length = 0;
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	case_ends(&keeper, &disk);
	return 0;
}

static void *
read_block(void *arg)
{
	struct thread *t = arg;
	uint8_t data[BLOCK];
	const uint64_t offset = t->block * BLOCK;

	t->good = disk_read(disk, data, BLOCK, offset) && pattern_check(data, BLOCK, SEED, offset) < 0;
	return NULL;
}

static struct thread *
start_reader(void)
{
	struct thread *t = &threads[thread_count];

	*t = (struct thread){ .block = thread_count++ };
	assert_int_equal(pthread_create(&t->thread, NULL, read_block, t), 0);
	return t;
}

static void
ends(struct thread *t, bool good)
{
	assert_int_equal(pthread_join(t->thread, NULL), 0);
	assert_int_equal(t->good, good);
	t->ended = true;
}

/* how many wait; each of them is in its place, counted from the end: the line moves at its front only */
static size_t
waiting(void)
{
	size_t count = 0;

	pthread_mutex_lock(&disk->lock);
	for (const struct reader *r = disk->readers; r; r = r->next)
		count++;
	assert_true(count <= line_length);
	size_t i = line_length - count;
	for (const struct reader *r = disk->readers; r; r = r->next)
		assert_ptr_equal(r, line[i++]);
	pthread_mutex_unlock(&disk->lock);
	return count;
}

/* starts a reader, and waits until it is the last one in line */
static struct thread *
joins(void)
{
	const struct reader *last = NULL;
	const int64_t end = disk_now_ms() + WAIT_MS;
	const struct reader *before = line_length ? line[line_length - 1] : NULL;
	struct thread *t = start_reader();

	while (last == NULL || last == before) {
		assert_true(disk_now_ms() < end);
		pthread_mutex_lock(&disk->lock);
		for (const struct reader *r = disk->readers; r; r = r->next)
			last = r;
		pthread_mutex_unlock(&disk->lock);
	}
	line[line_length++] = last;
	return t;
}

static void
set_timeout(int timeout_ms)
{
	pthread_mutex_lock(&disk->lock);
	config.timeout_ms = timeout_ms;
	pthread_mutex_unlock(&disk->lock);
}

/* a reader joins the line, and gives up after a short time */
static void
joins_for_a_short_time(size_t followers)
{
	const size_t before = line_length;
	set_timeout(SHORT_TIMEOUT_MS);
	struct thread *t = joins();
	set_timeout(TIMEOUT_MS);
	for (size_t i = 0; i < followers; i++)
		(void)joins();
	ends(t, false);
	for (size_t i = before; i < before + followers; i++)
		line[i] = line[i + 1];
	line_length = before + followers;
	assert_int_equal(waiting(), line_length);
}

/* the disk has this number of free buffers; and nothing has completed just now, which would prolong a timeout */
static void
leave_buffers(int count)
{
	pthread_mutex_lock(&disk->lock);
	disk->free_buffer_count = count;
	disk->progress_ms = 0;
	pthread_mutex_unlock(&disk->lock);
}

static void
await_free_buffers(int count)
{
	const int64_t end = disk_now_ms() + WAIT_MS;

	for (bool is_so = false; !is_so;) {
		assert_true(disk_now_ms() < end);
		pthread_mutex_lock(&disk->lock);
		is_so = disk->free_buffer_count == count;
		pthread_mutex_unlock(&disk->lock);
	}
}

/* the buffer goes to the reader that has waited for longest; one that gives up is left out, wherever it stands */
static void
in_the_order_in_which_they_asked(void **state)
{
	(void)state;
	leave_buffers(1);
	keeper_process_stop(&keeper);
	(void)start_reader();
	await_free_buffers(0);
	(void)joins();
	joins_for_a_short_time(2); /* in the middle of the line */
	joins_for_a_short_time(0); /* at its end */
	(void)joins();
	assert_int_equal(waiting(), 4);

	assert_int_equal(kill(keeper.pid, SIGCONT), 0);
	while (waiting() > 0)
		;
	for (size_t i = 0; i < thread_count; i++) {
		if (!threads[i].ended)
			ends(&threads[i], true);
	}
	await_free_buffers(1);
	leave_buffers(READ_BUFFERS);
}

/* if the disk has failed for ever, those that wait for a buffer are told at once */
static void
all_are_told_of_the_end(void **state)
{
	(void)state;
	leave_buffers(1);
	keeper_process_stop(&keeper);
	(void)start_reader();
	await_free_buffers(0);
	for (size_t i = 1; i < 4; i++)
		(void)joins();
	(void)keeper_process_end(&keeper, SIGKILL);
	assert_int_equal(unlink(keeper_process_path(&keeper, "disk")), 0);
	keeper_process_start(&keeper);
	for (size_t i = 0; i < 4; i++)
		ends(&threads[i], false);
	assert_true(case_was_said("other memory of"));
	assert_int_equal(waiting(), 0);
	await_free_buffers(1);
	leave_buffers(READ_BUFFERS);
}

int
main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(in_the_order_in_which_they_asked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(all_are_told_of_the_end, set_up, tear_down),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: test_disk_readers KEEPER\n");
		return 2;
	}
	program = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
