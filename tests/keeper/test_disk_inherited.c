/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_disk_inherited.c -- what a disk of nbdkit-rpma-plugin finds in the memory, and what it leaves there
 *
 *	test_disk_inherited KEEPER [FILTER]	runs the cases that match, each with a keeper of its own
 *
 * The keeper's msync() copies to a second file, the medium (tests/medium/to_medium.c). A power cut is the end of the keeper, and
 * gives the file the content of the medium.
 */

#include <fcntl.h>
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

#define SIZE ((size_t)1 << 20)
#define BLOCK 4096
#define TIMEOUT_MS 20000
#define SHORT_TIMEOUT_MS 3000
#define TRIES 5
#define VERSIONS ((uint64_t)2 * OPS_MAX + 100)
#define CASE_SECONDS 60

static const char *program;

static struct keeper_process keeper;
static struct disk *disk;
static struct disk_config config;
static struct disk_facts facts;

static void
transfer(const char *file, uint8_t *content, bool writes)
{
	const int fd = open(keeper_process_path(&keeper, file), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(writes ? pwrite(fd, content, SIZE, 0) : pread(fd, content, SIZE, 0), SIZE);
	close(fd);
}

static int
set_up(void **state)
{
	static uint8_t zeros[SIZE];

	(void)state;
	keeper_process_init(&keeper, program, SIZE);
	transfer("disk.medium", zeros, true);
	config = case_config(&keeper, TIMEOUT_MS, SIZE);
	deadline_start("a case of test_disk_inherited", CASE_SECONDS);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	(void)unlink(keeper_process_path(&keeper, "disk.medium"));
	case_ends(&keeper, &disk);
	return 0;
}

static void
cut_power(void)
{
	static uint8_t medium[SIZE];

	(void)keeper_process_end(&keeper, SIGKILL);
	transfer("disk.medium", medium, false);
	transfer("disk", medium, true);
}

static void
writes(uint64_t seed, uint64_t offset, bool durable)
{
	uint8_t buf[BLOCK];

	pattern_fill(buf, BLOCK, seed, offset);
	assert_true(disk_write(disk, buf, BLOCK, offset, durable));
}

static void
has(uint64_t seed, uint64_t offset)
{
	uint8_t buf[BLOCK];

	assert_true(disk_read(disk, buf, BLOCK, offset));
	assert_int_equal(pattern_check(buf, BLOCK, seed, offset), -1);
}

static void
file_has(uint64_t seed, uint64_t offset)
{
	case_file_has(&keeper, seed, offset, BLOCK);
}

/* a client writes, does not flush, and is gone */
static void
earlier_client_writes(void)
{
	case_starts(&keeper, &config, &facts, &disk);
	writes(1, 0, false);
	writes(1, SIZE / 2, false);
	writes(1, SIZE - BLOCK, false);
	disk_stop(&disk);
}

static void
file_has_what_it_wrote(void)
{
	file_has(1, 0);
	file_has(1, SIZE / 2);
	file_has(1, SIZE - BLOCK);
}

/* what a read shows, and a flush has followed, stays */
static void
shown_and_flushed(void **state)
{
	(void)state;
	earlier_client_writes();
	case_opens(&config, &facts, &disk);
	has(1, SIZE / 2);
	writes(2, BLOCK, false);
	assert_true(disk_flush(disk));
	cut_power();
	file_has_what_it_wrote();
	file_has(2, BLOCK);
}

/* what was written after such a read is written again after a power cut, and its flush would hide the loss of the other */
static void
shown_before_a_cut(void **state)
{
	(void)state;
	earlier_client_writes();
	case_opens(&config, &facts, &disk);
	has(1, SIZE / 2);
	writes(2, BLOCK, false);
	cut_power();
	keeper_process_start(&keeper);
	assert_true(disk_flush(disk));
	cut_power();
	file_has_what_it_wrote();
	file_has(2, BLOCK);
}

/* the flush of the start is lost with its connection, and made again on the next one */
static void
lost_flush(void **state)
{
	(void)state;
	earlier_client_writes();
	/* the first connection of the process is that of the probe */
	assert_int_equal(setenv("SOFTRDMA_FAULTS", "wc-error=general@1,connection=2", 1), 0);
	case_opens(&config, &facts, &disk);
	assert_true(case_was_said("connected again; 0 writes"));
	cut_power();
	file_has_what_it_wrote();
}

/* if that flush fails there is no disk; another one flushes again */
static void
failed_flush(void **state)
{
	(void)state;
	keeper.faults = "flush-error@2"; /* each connection counts its own */
	earlier_client_writes();
	(void)keeper_process_end(&keeper, SIGKILL);
	keeper.faults = "flush-error@1";
	keeper_process_start(&keeper);
	case_refuses(&config, "what is in the memory cannot be made durable");
	(void)keeper_process_end(&keeper, SIGKILL);
	keeper.faults = NULL;
	case_starts(&keeper, &config, &facts, &disk);
	cut_power();
	file_has_what_it_wrote();
}

/* a disk that only reads cannot flush, and starts without */
static void
reader(void **state)
{
	(void)state;
	keeper.faults = "flush-error@2";
	earlier_client_writes();
	config.read_only = true;
	case_opens(&config, &facts, &disk);
	has(1, SIZE / 2);
	assert_int_equal(case_said_count(), 0);
}

/* waits until the replay has written something: older data than the file had */
static void
await_replay(void)
{
	uint8_t buf[SIZE];
	const int64_t end = now_ms() + TIMEOUT_MS;

	do {
		assert_true(now_ms() < end);
		(void)usleep(1000);
		transfer("disk", buf, false);
	} while (pattern_check(buf, BLOCK, VERSIONS, 0) < 0);
}

/* more than a replay posts at a time, all to one block; replays take some seconds from then on */
static void
writes_a_block_over_and_over(void)
{
	config.journal_size = (VERSIONS + 1) * BLOCK;
	case_starts(&keeper, &config, &facts, &disk);
	for (uint64_t seed = 1; seed <= VERSIONS; seed++)
		writes(seed, 0, false);
	file_has(VERSIONS, 0);
	/* for connections that are made later */
	assert_int_equal(setenv("SOFTRDMA_FAULTS", "delay=5ms", 1), 0);
}

/* a replay writes older data first: a disk that ends meanwhile waits for the end of it */
static void
stops_while_replaying(void **state)
{
	(void)state;
	writes_a_block_over_and_over();
	(void)keeper_process_end(&keeper, SIGKILL);
	keeper_process_start(&keeper);
	await_replay();
	disk_stop(&disk);
	file_has(VERSIONS, 0);
	assert_false(case_was_said("may be lost"));
}

/* the same if the keeper is gone: it does not wait for ever, and not in silence */
static void
stops_after_a_replay_was_lost(void **state)
{
	(void)state;
	config.timeout_ms = SHORT_TIMEOUT_MS;
	writes_a_block_over_and_over();
	bool owes = false;
	/* on a busy machine a replay may have ended before the keeper has */
	for (int i = 0; i < TRIES && !owes; i++) {
		(void)keeper_process_end(&keeper, SIGKILL);
		keeper_process_start(&keeper);
		await_replay();
		(void)keeper_process_end(&keeper, SIGKILL);
		pthread_mutex_lock(&disk->lock);
		owes = disk->owes;
		pthread_mutex_unlock(&disk->lock);
	}
	assert_true(owes);
	disk_stop(&disk);
	assert_true(case_was_said("writes that had been answered and not flushed may be lost"));
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(shown_and_flushed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(shown_before_a_cut, set_up, tear_down),
		cmocka_unit_test_setup_teardown(lost_flush, set_up, tear_down),
		cmocka_unit_test_setup_teardown(failed_flush, set_up, tear_down),
		cmocka_unit_test_setup_teardown(reader, set_up, tear_down),
		cmocka_unit_test_setup_teardown(stops_while_replaying, set_up, tear_down),
		cmocka_unit_test_setup_teardown(stops_after_a_replay_was_lost, set_up, tear_down),
	};

	if (argc < 2) {
		fprintf(stderr, "usage: test_disk_inherited KEEPER [FILTER]\n");
		return 2;
	}
	program = argv[1];
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
