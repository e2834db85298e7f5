/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_disk_link.c -- the disk of nbdkit-rpma-plugin at the moment when its connection ends, and after it
 *
 *	test_disk_link KEEPER [FILTER]	runs the cases that match, each with a keeper of its own
 *
 * The cases hold the lock of the disk, so that no thread of it sees what happens before all of it has happened.
 */

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
#define CASE_SECONDS 60

static const char *program;

static struct keeper_process keeper;
static struct disk *disk;
static struct disk_config config;
static int
set_up(void **state)
{
	(void)state;
	keeper_process_init(&keeper, program, SIZE);
	config = case_config(&keeper, TIMEOUT_MS, SIZE);
	deadline_start("a case of test_disk_link", CASE_SECONDS);
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
writes(uint64_t seed, uint64_t offset)
{
	uint8_t buf[BLOCK];

	pattern_fill(buf, BLOCK, seed, offset);
	return disk_write(disk, buf, BLOCK, offset, false);
}

static void
has(uint64_t seed, uint64_t offset)
{
	uint8_t buf[BLOCK];

	assert_true(disk_read(disk, buf, BLOCK, offset));
	assert_int_equal(pattern_check(buf, BLOCK, seed, offset), -1);
}

/* waits without collecting anything; whatever changes op is a thread of the disk */
static enum op_state
outcome(struct op *op)
{
	const int64_t end = now_ms() + TIMEOUT_MS;

	while (atomic_load(&op->state) == OP_POSTED) {
		assert_true(now_ms() < end);
		(void)usleep(1000);
	}
	return atomic_load(&op->state);
}

/* with the lock: waits until the completion of the only operation is in the queue, and leaves it there */
static void
await_completion(void)
{
	assert_int_equal(rpma_cq_wait_timed(disk->cq, TIMEOUT_MS), 0);
}

/* posts a flush, and ends the keeper when its completion is in the queue; returns what has become of it */
static enum op_state
flush_completes_and_link_ends(void)
{
	struct op op;

	assert_true(op_init(&op));
	pthread_mutex_lock(&disk->lock);
	op_post_flush(disk, &op, &disk->dirty);
	await_completion();
	(void)keeper_process_end(&keeper, SIGKILL);
	pthread_mutex_unlock(&disk->lock);
	enum op_state state = outcome(&op);
	op_fini(&op);
	return state;
}

/* --- completions that are in the queue when the link ends --- */

/* a flush that has succeeded is done: its entries are not written again */
static void
succeeded_at_the_end(void **state)
{
	(void)state;
	starts();
	assert_true(writes(1, 0));
	assert_int_equal(flush_completes_and_link_ends(), OP_DONE);
	keeper_process_start(&keeper);
	has(1, 0);
	assert_true(case_was_said("connected again; 0 writes"));
}

/* a flush that has failed is not tried again, although the connection has ended as well */
static void
failed_at_the_end(void **state)
{
	(void)state;
	uint8_t buf[BLOCK];
	keeper.faults = "flush-error@2"; /* the first flush is that of the start */
	starts();
	assert_true(writes(1, 0));
	assert_int_equal(flush_completes_and_link_ends(), OP_LOST);
	keeper.faults = NULL;
	keeper_process_start(&keeper);
	assert_false(disk_flush(disk));
	assert_false(disk_read(disk, buf, BLOCK, 0));
	assert_true(case_was_said("an operation failed"));
	assert_true(case_was_said("all requests fail from now on"));
}

static void *
flush(void *arg)
{
	return disk_flush(disk) ? arg : NULL;
}

/* a flush that waits for the link is done when that of another thread turns out to have covered the same */
static void
covered_while_the_link_was_down(void **state)
{
	(void)state;
	pthread_t thread;
	struct op op;
	void *good = NULL;
	starts();
	assert_true(writes(1, 0));
	assert_true(op_init(&op));
	pthread_mutex_lock(&disk->lock);
	op_post_flush(disk, &op, &disk->dirty);
	await_completion();
	link_break(disk, "a test ends it");
	disk->collecting = true; /* as if a thread did that: the link is not closed before */
	pthread_mutex_unlock(&disk->lock);
	assert_int_equal(pthread_create(&thread, NULL, flush, &keeper), 0);
	(void)usleep(200000);
	pthread_mutex_lock(&disk->lock);
	disk->collecting = false;
	pthread_cond_signal(&disk->collected);
	pthread_mutex_unlock(&disk->lock);
	assert_int_equal(pthread_join(thread, &good), 0);
	assert_non_null(good);
	assert_int_equal(outcome(&op), OP_DONE);
	op_fini(&op);
}

/* an answer that is in the queue was in time, however late it is collected */
static void
collected_late(void **state)
{
	(void)state;
	struct op op;
	uint8_t buf[BLOCK];
	starts();
	assert_true(writes(1, 0));
	assert_true(op_init(&op));
	pthread_mutex_lock(&disk->lock);
	op_post_read(disk, &op, 0, 0, BLOCK);
	await_completion();
	disk->progress_ms = 0;
	op_wait_and_unlock(disk, &op, disk_now_ms() - PATIENCE * TIMEOUT_MS);
	assert_int_equal(atomic_load(&op.state), OP_DONE);
	op_fini(&op);
	memcpy(buf, disk->read_data, BLOCK);
	assert_int_equal(pattern_check(buf, BLOCK, 1, 0), -1);
	assert_int_equal(case_said_count(), 0);
}

static void *
write_a_block(void *arg)
{
	return writes(2, BLOCK) ? arg : NULL;
}

/* a write that was replayed is done, although its thread wakes only when the link is down again */
static void
replayed_before_the_end(void **state)
{
	(void)state;
	pthread_t thread;
	void *good = NULL;
	starts();
	(void)keeper_process_end(&keeper, SIGKILL);
	assert_int_equal(pthread_create(&thread, NULL, write_a_block, &keeper), 0);
	const int64_t end = now_ms() + TIMEOUT_MS;
	for (bool added = false; !added;) {
		assert_true(now_ms() < end);
		(void)usleep(1000);
		pthread_mutex_lock(&disk->lock);
		added = disk->journal.end == 1 && disk->state == LINK_DOWN;
		/* as if the keeper had been there for a moment */
		if (added) {
			disk->replayed = disk->journal.end;
			pthread_cond_broadcast(&disk->link_changed);
		}
		pthread_mutex_unlock(&disk->lock);
	}
	assert_int_equal(pthread_join(thread, &good), 0);
	assert_non_null(good);
	assert_true(now_ms() < end - TIMEOUT_MS / 2); /* it has not waited for the link */
	keeper_process_start(&keeper);
	has(2, BLOCK);
}

/* --- connecting again --- */

/* breaks the link, as if it had been up for that time, and returns the pause before a second attempt would follow */
static int64_t
pause_after_a_link_of(int64_t ms)
{
	pthread_mutex_lock(&disk->lock);
	disk->pause_ms = 400; /* as if there had been some attempts */
	disk->tried_ms = 0;
	disk->up_ms = disk_now_ms() - ms;
	link_break(disk, "a test ends it");
	pthread_mutex_unlock(&disk->lock);
	case_await_link(disk);
	pthread_mutex_lock(&disk->lock);
	const int64_t pause_ms = disk->pause_ms;
	pthread_mutex_unlock(&disk->lock);
	return pause_ms;
}

/* pauses grow as long as no link holds, and begin anew after one that did */
static void
pauses(void **state)
{
	(void)state;
	starts();
	/* less than nothing: this machine may be slow */
	assert_true(pause_after_a_link_of(-10000) >= 800);
	/* the next attempt is made at once; there may be more of them */
	assert_true(pause_after_a_link_of(10000) < 800);
	assert_true(pause_after_a_link_of(10000) > 0);
}

/* connections that end at once are not made again at once, and requests get through all the same */
static void
connections_that_end_at_once(void **state)
{
	(void)state;
	uint8_t buf[BLOCK];
	assert_int_equal(setenv("SOFTRDMA_FAULTS", "disconnect-after=1", 1), 0);
	starts();
	const int64_t begin = now_ms();
	while (now_ms() - begin < 2500)
		assert_true(disk_read(disk, buf, BLOCK, 0));
	/* two messages each; the pauses are 50, 100, 200, 400, 800 and then 1000 ms */
	const unsigned connections = case_said_count() / 2;
	if (connections < 2 || connections > (unsigned)((now_ms() - begin) / 1000) + 8)
		fail_msg("%u connections in %d ms", connections, (int)(now_ms() - begin));
}

/* --- requests that wait for their turn, and then for a keeper that does not answer --- */

struct request {
	pthread_t thread;
	bool good;
	int64_t end_ms;
};

static void *
read_in_vain(void *arg)
{
	struct request *request = arg;
	uint8_t buf[BLOCK];

	request->good = disk_read(disk, buf, BLOCK, 0);
	request->end_ms = now_ms();
	return NULL;
}

static void *
write_in_vain(void *arg)
{
	struct request *request = arg;

	request->good = writes(2, 0);
	request->end_ms = now_ms();
	return NULL;
}

static void *
flush_in_vain(void *arg)
{
	struct request *request = arg;

	request->good = disk_flush(disk);
	request->end_ms = now_ms();
	return NULL;
}

static void
begins(struct request *request, void *(*run)(void *))
{
	assert_int_equal(pthread_create(&request->thread, NULL, run, request), 0);
}

static void
ends(struct request *request)
{
	assert_int_equal(pthread_join(request->thread, NULL), 0);
}

static void
fails_no_sooner_than(const struct request *request, int64_t ms)
{
	assert_false(request->good);
	if (request->end_ms < ms)
		fail_msg("it failed %d ms too soon", (int)(ms - request->end_ms));
}

/* a request waits for longer while others complete, and for ten times as long at most */
static void
progress_prolongs(void **state)
{
	(void)state;
	int64_t until[3];
	starts();
	pthread_mutex_lock(&disk->lock);
	const int64_t deadline = disk_now_ms() + TIMEOUT_MS;
	const int64_t progress = disk->progress_ms;
	disk->progress_ms = deadline - TIMEOUT_MS - 1;
	until[0] = disk_extend(disk, deadline);
	disk->progress_ms = deadline - 1;
	until[1] = disk_extend(disk, deadline);
	disk->progress_ms = deadline + PATIENCE * TIMEOUT_MS;
	until[2] = disk_extend(disk, deadline);
	disk->progress_ms = progress;
	pthread_mutex_unlock(&disk->lock);
	assert_int_equal(until[0], deadline);
	assert_int_equal(until[1], deadline - 1 + TIMEOUT_MS);
	assert_int_equal(until[2], deadline + (PATIENCE - 1) * TIMEOUT_MS);
}

/* the time of a read or a write counts from when it is posted */
static void
turn_of_reads_and_writes(void **state)
{
	(void)state;
	struct request reading, writing;
	config.timeout_ms = 2000;
	starts();
	pthread_mutex_lock(&disk->lock);
	disk->requests += OPS_MAX; /* as if others had filled the connection */
	pthread_mutex_unlock(&disk->lock);
	keeper_process_stop(&keeper);
	begins(&reading, read_in_vain);
	begins(&writing, write_in_vain);
	(void)usleep(500000);
	pthread_mutex_lock(&disk->lock);
	const int64_t end = now_ms() + config.timeout_ms;
	disk->requests -= OPS_MAX;
	pthread_cond_broadcast(&disk->room);
	pthread_mutex_unlock(&disk->lock);
	ends(&reading);
	ends(&writing);
	fails_no_sooner_than(&reading, end);
	fails_no_sooner_than(&writing, end);
	assert_true(case_was_said("the keeper does not answer in time"));
}

/* the same of a flush that has waited for another one */
static void
turn_of_a_flush(void **state)
{
	(void)state;
	struct request flushing;
	config.timeout_ms = 300;
	starts();
	assert_true(writes(1, 0));
	pthread_mutex_lock(&disk->lock);
	disk->flushing = true; /* as if another thread did that */
	pthread_mutex_unlock(&disk->lock);
	keeper_process_stop(&keeper);
	begins(&flushing, flush_in_vain);
	(void)usleep(1000000);
	pthread_mutex_lock(&disk->lock);
	const int64_t end = now_ms() + (int64_t)PATIENCE * config.timeout_ms;
	disk->flushing = false;
	pthread_cond_broadcast(&disk->flushed);
	pthread_mutex_unlock(&disk->lock);
	ends(&flushing);
	fails_no_sooner_than(&flushing, end);
	assert_true(case_was_said("the keeper does not answer in time"));
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(succeeded_at_the_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(failed_at_the_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(covered_while_the_link_was_down, set_up, tear_down),
		cmocka_unit_test_setup_teardown(collected_late, set_up, tear_down),
		cmocka_unit_test_setup_teardown(replayed_before_the_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(pauses, set_up, tear_down),
		cmocka_unit_test_setup_teardown(connections_that_end_at_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(progress_prolongs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(turn_of_reads_and_writes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(turn_of_a_flush, set_up, tear_down),
	};

	if (argc < 2) {
		fprintf(stderr, "usage: test_disk_link KEEPER [FILTER]\n");
		return 2;
	}
	program = argv[1];
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
