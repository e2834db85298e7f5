/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_keeper_revocation.c -- an rpma-keeper that cannot take access back, or cannot record who gets it
 *
 *	test_keeper_revocation KEEPER	with a keeper whose calls the test lets fail (failing_calls.c)
 */

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "deadline.h"
#include "disk_case.h"
#include "keeper_process.h"
#include "pattern.h"

#define SIZE ((size_t)1 << 20)
#define BLOCK 4096
#define TIMEOUT_MS 20000
#define CASE_SECONDS 60
#define RECORD_MAX 1024

static const char *program;
static struct keeper_process keeper;

static struct disk_config
begin(const char *variable, char trigger[static 128])
{
	const struct disk_config config = case_config(&keeper, TIMEOUT_MS, DISK_JOURNAL_MIN);

	snprintf(trigger, 128, "%s", keeper_process_path(&keeper, "disk.old"));
	assert_int_equal(setenv(variable, trigger, 1), 0);
	keeper_process_start(&keeper);
	return config;
}

static void
makes_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

/* no client gets memory for writing that an earlier holder may still write; the holder resumes at the next keeper */
static void
failing_revocation(void **state)
{
	(void)state;
	struct disk *disk = NULL;
	struct disk_facts facts;
	char trigger[128];
	uint8_t buf[BLOCK], read[BLOCK];
	const struct disk_config config = begin("TEST_DEREG_FAILS", trigger);
	struct disk_config taking = config;
	taking.takeover = true;
	case_opens(&config, &facts, &disk);
	pattern_fill(buf, BLOCK, 1, 0);
	assert_true(disk_write(disk, buf, BLOCK, 0, true));

	makes_file(trigger);
	case_refuses(&taking, "could not be revoked");
	keeper_process_await_line(&keeper, "may not be revoked");
	/* it stays so, also when the call would succeed again */
	assert_int_equal(unlink(trigger), 0);
	case_refuses(&taking, "could not be revoked");
	case_refuses(&config, "could not be revoked");

	assert_int_equal(keeper_process_end(&keeper, SIGKILL), 128 + SIGKILL);
	keeper_process_start(&keeper);
	assert_true(disk_read(disk, read, BLOCK, 0));
	assert_memory_equal(read, buf, BLOCK);
	assert_true(disk_write(disk, buf, BLOCK, BLOCK, true));
	disk_stop(&disk);
}

static void
reads_record(char text[static RECORD_MAX])
{
	FILE *f = fopen(keeper_process_path(&keeper, "disk.identity"), "re");

	assert_non_null(f);
	text[fread(text, 1, RECORD_MAX - 1, f)] = '\0';
	fclose(f);
}

/* a client that cannot be recorded gets nothing, and the holder goes on, also over the next start */
static void
failing_record(void **state)
{
	(void)state;
	struct disk *disk = NULL;
	struct disk_facts facts;
	char trigger[128], before[RECORD_MAX], now[RECORD_MAX];
	uint8_t buf[BLOCK], read[BLOCK];
	const struct disk_config config = begin("TEST_NAMES_FAIL", trigger);
	struct disk_config taking = config;
	taking.takeover = true;
	case_opens(&config, &facts, &disk);
	pattern_fill(buf, BLOCK, 1, 0);
	assert_true(disk_write(disk, buf, BLOCK, 0, true));
	reads_record(before);

	makes_file(trigger);
	case_refuses(&taking, "the keeper failed to lend the memory");
	keeper_process_await_line(&keeper, "the new writer cannot be recorded");
	assert_true(disk_write(disk, buf, BLOCK, BLOCK, true));
	assert_int_equal(unlink(trigger), 0);
	/* the record may have named the other client meanwhile */
	const int64_t end = now_ms() + TIMEOUT_MS;
	do {
		assert_true(now_ms() < end);
		(void)usleep(1000);
		reads_record(now);
	} while (strcmp(now, before) != 0);

	assert_int_equal(keeper_process_end(&keeper, SIGKILL), 128 + SIGKILL);
	keeper_process_start(&keeper);
	assert_true(disk_read(disk, read, BLOCK, 0));
	assert_memory_equal(read, buf, BLOCK);
	disk_stop(&disk);
}

static int
set_up(void **state)
{
	(void)state;
	keeper_process_init(&keeper, program, SIZE);
	deadline_start("a case of test_keeper_revocation", CASE_SECONDS);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	keeper_process_fini(&keeper);
	unsetenv("TEST_DEREG_FAILS");
	unsetenv("TEST_NAMES_FAIL");
	deadline_stop();
	return 0;
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(failing_revocation, set_up, tear_down),
		cmocka_unit_test_setup_teardown(failing_record, set_up, tear_down),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: test_keeper_revocation KEEPER\n");
		return 2;
	}
	program = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
