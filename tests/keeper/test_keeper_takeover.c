/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_keeper_takeover.c -- takeovers that are never finished: the writer before goes on with what it has flushed
 *
 *	test_keeper_takeover KEEPER
 *
 * The client that takes over is a socket: it gets its acceptance, and never sends READY.
 */

#include <endian.h>
#include <poll.h>
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

#include "keeper/client.h"
#include "deadline.h"
#include "disk_case.h"
#include "hostile/raw.h"
#include "keeper_process.h"
#include "pattern.h"
#include "wait.h"

#define SIZE ((size_t)1 << 20)
#define BLOCK 4096
#define TIMEOUT_MS 60000
#define CASE_SECONDS 120
#define STRANGER UINT64_C(0x1122334455667788)

static const char *program;
static struct keeper_process keeper;
static struct disk *disk;
static struct disk_config config;
static struct disk_facts facts;
static uint8_t block[BLOCK];

static int
set_up(void **state)
{
	(void)state;
	deadline_start("a case of test_keeper_takeover", CASE_SECONDS);
	keeper_process_init(&keeper, program, SIZE);
	keeper_process_start(&keeper);
	config = case_config(&keeper, TIMEOUT_MS, DISK_JOURNAL_MIN);
	case_opens(&config, &facts, &disk);
	pattern_fill(block, BLOCK, 1, 0);
	assert_true(disk_write(disk, block, BLOCK, 0, true));
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	disk_stop(&disk);
	assert_int_equal(keeper_process_end(&keeper, SIGTERM), 0);
	keeper_process_fini(&keeper);
	deadline_stop();
	return 0;
}

/* takes the memory from the disk, up to the acceptance; the socket */
static int
takes_over(struct keeper_reply *reply)
{
	uint8_t message[RAW_MESSAGE_MAX];
	struct keeper_request request = { .want = KEEPER_WANT_WRITE | KEEPER_WANT_TAKEOVER,
		.client = STRANGER };
	const int fd = raw_connect(1, (uint16_t)atoi(keeper.port));

	assert_true(fd >= 0);
	memcpy(request.name, KEEPER_NAME, sizeof(KEEPER_NAME) - 1);
	raw_connect_message(message);
	const size_t len = keeper_request_encode(&request, message + RAW_HEADER);
	message[7] = (uint8_t)len;
	raw_sum(message);
	assert_true(raw_send(fd, message, RAW_HEADER + len));
	assert_true(raw_recv(fd, message, RAW_HEADER, WAIT_MS));
	assert_int_equal(message[6], 2); /* ACCEPT */
	assert_true(raw_recv(fd, message + RAW_HEADER, message[7], WAIT_MS));
	assert_int_equal(keeper_reply_decode(message + RAW_HEADER, message[7], reply), KEEPER_DECODED);
	return fd;
}

static void
still_has_its_data(void)
{
	uint8_t read[BLOCK];

	case_await_link(disk);
	assert_true(disk_read(disk, read, BLOCK, 0));
	assert_memory_equal(read, block, BLOCK);
	assert_true(disk_write(disk, block, BLOCK, BLOCK, true));
}

/* it writes and flushes before READY: nothing of that arrives, and the writer before resumes */
static void
writes_before_ready(void **state)
{
	(void)state;
	struct keeper_reply reply;
	const int fd = takes_over(&reply);
	uint64_t addr;
	uint32_t key;

	memcpy(&addr, reply.descriptor, sizeof(addr));
	memcpy(&key, reply.descriptor + 16, sizeof(key));
	const struct raw_frame write = { .opcode = RAW_WRITE,
		.flags = RAW_WHOLE,
		.seq = RAW_SEQ,
		.length = BLOCK,
		.key = le32toh(key),
		.addr = le64toh(addr) };
	const struct raw_frame flush = { .opcode = RAW_FLUSH,
		.flags = RAW_WHOLE,
		.code = 2,
		.seq = RAW_SEQ + 1,
		.key = write.key,
		.addr = write.addr,
		.arg = BLOCK };
	uint8_t other[BLOCK];
	memset(other, 0xee, sizeof(other));
	(void)raw_send_frame(fd, &write, other);
	(void)raw_send_frame(fd, &flush, NULL);
	assert_true(raw_ends(fd, WAIT_MS));
	raw_close(fd);
	still_has_its_data();
}

/* the keeper is stopped meanwhile: the writer before resumes at the next one */
static void
keeper_stops_meanwhile(void **state)
{
	(void)state;
	struct keeper_reply reply;
	const int fd = takes_over(&reply);

	assert_int_equal(keeper_process_end(&keeper, SIGTERM), 0);
	raw_close(fd);
	keeper_process_start(&keeper);
	still_has_its_data();
}

/* the control: it sends READY, and then the writer before is shut out */
static void
takes_over_for_good(void **state)
{
	(void)state;
	static const struct raw_frame ready = { .opcode = RAW_READY };
	struct keeper_reply reply;
	uint8_t read[BLOCK];
	const int fd = takes_over(&reply);

	assert_true(raw_send_frame(fd, &ready, NULL));
	assert_int_equal(keeper_process_end(&keeper, SIGTERM), 0);
	raw_close(fd);
	keeper_process_start(&keeper);
	assert_false(disk_read(disk, read, BLOCK, 0));
	assert_true(case_was_said("all requests fail from now on"));
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(writes_before_ready, set_up, tear_down),
		cmocka_unit_test_setup_teardown(keeper_stops_meanwhile, set_up, tear_down),
		cmocka_unit_test_setup_teardown(takes_over_for_good, set_up, tear_down),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: test_keeper_takeover KEEPER\n");
		return 2;
	}
	program = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
