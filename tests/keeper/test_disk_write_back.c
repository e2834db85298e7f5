/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_disk_write_back.c -- the disk of nbdkit-rpma-plugin when writes return before the keeper has them
 *
 *	test_disk_write_back KEEPER [FILTER]	runs the cases that match, each with a keeper of its own
 *
 * A keeper that is stopped (SIGSTOP) answers nothing, so whatever returns has returned early. test_disk.c runs its
 * longer cases with write-back as well.
 */

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "deadline.h"
#include "disk_case.h"
#include "disk_internal.h"
#include "keeper_process.h"
#include "pattern.h"

#define SIZE ((size_t)4 << 20)
#define BLOCK 4096
#define TIMEOUT_MS 20000
#define SHORT_TIMEOUT_MS 1000
#define CASE_SECONDS 120

static const char *program;

static struct keeper_process keeper;
static struct disk *disk;
static struct disk_config config;
static int
set_up(void **state)
{
	(void)state;
	keeper_process_init(&keeper, program, SIZE);
	config = case_config(&keeper, TIMEOUT_MS, (size_t)16 << 20);
	config.write_back = true;
	deadline_start("a case of test_disk_write_back", CASE_SECONDS);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	case_ends(&keeper, &disk);
	return 0;
}

static void
starts(void)
{
	struct disk_facts facts;

	case_starts(&keeper, &config, &facts, &disk);
}

static bool
writes(uint64_t seed, size_t block)
{
	uint8_t buf[BLOCK];

	pattern_fill(buf, BLOCK, seed, block * BLOCK);
	return disk_write(disk, buf, BLOCK, block * BLOCK, false);
}

static bool
reads(uint64_t seed, size_t block)
{
	uint8_t buf[BLOCK];

	if (!disk_read(disk, buf, BLOCK, block * BLOCK))
		return false;
	assert_int_equal(pattern_check(buf, BLOCK, seed, block * BLOCK), -1);
	return true;
}

/* the file of the keeper has these blocks, the first of which is 0 */
static void
file_has(uint64_t seed, size_t blocks)
{
	case_file_has(&keeper, seed, 0, blocks * BLOCK);
}

static void *
continue_keeper(void *arg)
{
	(void)usleep(300000);
	assert_int_equal(kill(keeper.pid, SIGCONT), 0);
	return arg;
}

static void *
stop_disk(void *arg)
{
	disk_stop(&disk);
	return arg;
}

/* --- requests --- */

/* what comes later finds the writes done, in their order */
static void
answered_at_once(void **state)
{
	(void)state;
	pthread_t thread;
	starts();
	keeper_process_stop(&keeper);
	for (uint64_t seed = 1; seed <= 5; seed++)
		for (size_t block = 0; block < 10; block++)
			assert_true(writes(seed, block));
	assert_int_equal(pthread_create(&thread, NULL, continue_keeper, NULL), 0);
	for (size_t block = 0; block < 10; block++)
		assert_true(reads(5, block));
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(disk_flush(disk));
	file_has(5, 10);
	assert_int_equal(case_said_count(), 0);
}

/* a write that must be durable waits, and so does a flush */
static void
durable_is_awaited(void **state)
{
	(void)state;
	uint8_t buf[BLOCK] = { 0 };
	config.timeout_ms = SHORT_TIMEOUT_MS;
	starts();
	assert_true(writes(1, 0));
	assert_true(disk_flush(disk)); /* the connection is in use, and idle */
	keeper_process_stop(&keeper);
	assert_true(writes(2, 0));
	assert_false(disk_flush(disk));
	assert_false(disk_write(disk, buf, BLOCK, BLOCK, true));
	assert_int_equal(kill(keeper.pid, SIGCONT), 0);
	const int64_t end = now_ms() + TIMEOUT_MS;
	while (!disk_flush(disk))
		assert_true(now_ms() < end);
	file_has(2, 1);
}

/* after WRITTEN_BACK_MAX writes the next one waits, and so notices a keeper that never answers */
static void
too_many(void **state)
{
	(void)state;
	config.timeout_ms = SHORT_TIMEOUT_MS;
	starts();
	keeper_process_stop(&keeper);
	for (size_t block = 0; block < WRITTEN_BACK_MAX; block++)
		assert_true(writes(1, block));
	const int64_t begin = now_ms();
	assert_false(writes(2, WRITTEN_BACK_MAX));
	assert_true(now_ms() - begin >= SHORT_TIMEOUT_MS);
	assert_true(case_was_said("the keeper does not answer in time"));
	assert_int_equal(kill(keeper.pid, SIGCONT), 0);
	const int64_t end = now_ms() + TIMEOUT_MS;
	for (size_t block = 0; block < WRITTEN_BACK_MAX; block++)
		while (!reads(1, block))
			assert_true(now_ms() < end);
	assert_true(disk_flush(disk));
	file_has(1, WRITTEN_BACK_MAX);
}

/* there is always room again, although no thread but the writer's collects completions */
static void
many_writes(void **state)
{
	(void)state;
	starts();
	for (uint64_t seed = 1; seed <= 20; seed++)
		for (size_t block = 0; block < SIZE / BLOCK; block++)
			assert_true(writes(seed, block));
	for (size_t block = 0; block < SIZE / BLOCK; block++)
		assert_true(reads(20, block));
	assert_int_equal(case_said_count(), 0);
}

/* --- the end of the disk --- */

/* what was answered is with the keeper when the disk has stopped */
static void
stopping_waits(void **state)
{
	(void)state;
	pthread_t thread;
	starts();
	keeper_process_stop(&keeper);
	for (size_t block = 0; block < 20; block++)
		assert_true(writes(1, block));
	assert_int_equal(pthread_create(&thread, NULL, continue_keeper, NULL), 0);
	disk_stop(&disk);
	assert_int_equal(pthread_join(thread, NULL), 0);
	file_has(1, 20);
	assert_int_equal(case_said_count(), 0);
}

/* writes that the keeper never got, because it was killed */
static void
lose_writes(void)
{
	starts();
	keeper_process_stop(&keeper);
	for (size_t block = 0; block < 20; block++)
		assert_true(writes(1, block));
	assert_int_equal(keeper_process_end(&keeper, SIGKILL), 128 + SIGKILL);
}

/* the same, if they have to be written again */
static void
stopping_waits_for_a_replay(void **state)
{
	(void)state;
	pthread_t thread;
	lose_writes();
	assert_int_equal(pthread_create(&thread, NULL, stop_disk, NULL), 0);
	(void)usleep(300000);
	keeper_process_start(&keeper);
	assert_int_equal(pthread_join(thread, NULL), 0);
	file_has(1, 20);
	assert_true(case_was_said("connected again; 20 writes"));
	assert_false(case_was_said("may be lost"));
}

/* not for ever, and not in silence */
static void
stopping_gives_up(void **state)
{
	(void)state;
	config.timeout_ms = SHORT_TIMEOUT_MS;
	lose_writes();
	disk_stop(&disk);
	assert_true(case_was_said("writes that had been answered and not flushed may be lost"));
}

/* also if the keeper makes progress: 100 writes take 5 s */
static void
stopping_with_a_slow_keeper(void **state)
{
	(void)state;
	config.timeout_ms = SHORT_TIMEOUT_MS;
	assert_int_equal(setenv("SOFTRDMA_FAULTS", "delay=50ms", 1), 0);
	starts();
	for (size_t block = 0; block < 100; block++)
		assert_true(writes(1, block));
	disk_stop(&disk);
	assert_true(case_was_said("writes that had been answered and not flushed may be lost"));
}

/* the same if the memory is given up */
static void
stopping_after_a_failure(void **state)
{
	(void)state;
	lose_writes();
	assert_int_equal(unlink(keeper_process_path(&keeper, "disk")), 0);
	keeper_process_start(&keeper);
	assert_false(reads(1, 0));
	assert_true(case_was_said("other memory of"));
	disk_stop(&disk);
	assert_true(case_was_said("writes that had been answered and not flushed may be lost"));
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(answered_at_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(durable_is_awaited, set_up, tear_down),
		cmocka_unit_test_setup_teardown(too_many, set_up, tear_down),
		cmocka_unit_test_setup_teardown(many_writes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(stopping_waits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(stopping_waits_for_a_replay, set_up, tear_down),
		cmocka_unit_test_setup_teardown(stopping_gives_up, set_up, tear_down),
		cmocka_unit_test_setup_teardown(stopping_with_a_slow_keeper, set_up, tear_down),
		cmocka_unit_test_setup_teardown(stopping_after_a_failure, set_up, tear_down),
	};

	if (argc < 2) {
		fprintf(stderr, "usage: test_disk_write_back KEEPER [FILTER]\n");
		return 2;
	}
	program = argv[1];
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
