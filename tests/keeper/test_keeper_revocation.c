/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_keeper_revocation.c -- an rpma-keeper that cannot take access back
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
#include "disk.h"
#include "keeper_process.h"
#include "pattern.h"

#define SIZE ((size_t)1 << 20)
#define BLOCK 4096
#define TIMEOUT_MS 20000
#define CASE_SECONDS 60

static const char *program;
static struct keeper_process keeper;

static void
say(const char *text)
{
	printf("%s\n", text);
}

static void
refuses(const struct disk_config *config, const char *sentence)
{
	struct disk_facts facts;
	struct disk *disk = NULL;
	char why[WHY_MAX] = "";

	assert_false(disk_probe(config, &facts, why) && disk_start(config, &facts, &disk, why));
	if (strstr(why, sentence) == NULL)
		fail_msg("does not say \"%s\" but \"%s\"", sentence, why);
}

/* no client gets memory for writing that an earlier holder may still write; the holder resumes at the next keeper */
static void
failing_revocation(void **state)
{
	(void)state;
	struct disk_facts facts;
	struct disk *disk = NULL;
	char why[WHY_MAX] = "", trigger[128];
	uint8_t buf[BLOCK], read[BLOCK];
	snprintf(trigger, sizeof(trigger), "%s", keeper_process_path(&keeper, "disk.old"));
	assert_int_equal(setenv("TEST_DEREG_FAILS", trigger, 1), 0);
	keeper_process_start(&keeper);
	struct disk_config config = {
		.host = KEEPER_ADDRESS,
		.port = keeper.port,
		.name = KEEPER_NAME,
		.timeout_ms = TIMEOUT_MS,
		.journal_size = DISK_JOURNAL_MIN,
		.say = say,
	};
	if (!disk_probe(&config, &facts, why) || !disk_start(&config, &facts, &disk, why))
		fail_msg("%s", why);
	pattern_fill(buf, BLOCK, 1, 0);
	assert_true(disk_write(disk, buf, BLOCK, 0, true));

	int fd = open(trigger, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	struct disk_config taking = config;
	taking.takeover = true;
	refuses(&taking, "could not be revoked");
	assert_true(keeper_process_logged(&keeper, "may not be revoked"));
	/* it stays so, also when the call would succeed again */
	assert_int_equal(unlink(trigger), 0);
	refuses(&taking, "could not be revoked");
	refuses(&config, "could not be revoked");

	assert_int_equal(keeper_process_end(&keeper, SIGKILL), 128 + SIGKILL);
	keeper_process_start(&keeper);
	assert_true(disk_read(disk, read, BLOCK, 0));
	assert_memory_equal(read, buf, BLOCK);
	assert_true(disk_write(disk, buf, BLOCK, BLOCK, true));
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
	deadline_stop();
	return 0;
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(failing_revocation, set_up, tear_down),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: test_keeper_revocation KEEPER\n");
		return 2;
	}
	program = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
