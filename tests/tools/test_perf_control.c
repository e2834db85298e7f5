/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_perf_control.c -- messages arrive unchanged, and invalid ones are refused */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "control.h"

static const struct load a_load = {
	.op = OP_SEND,
	.flush_type = RPMA_FLUSH_TYPE_VISIBILITY,
	.size = 4096,
	.depth = 16,
	.signal_every = 8,
	.connections = 3,
	.threads = 2,
	.target_waits = WAY_FD,
	.verify = true,
};

static void
load_goes_through(void **state)
{
	(void)state;
	static struct control_message msg, received;
	struct load load;
	int fds[2];
	char why[WHY_MAX];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	control_begin(&msg, CONTROL_SETUP);
	control_put_load(&msg, &a_load);
	assert_true(control_send(fds[0], &msg, why));
	assert_true(control_receive(fds[1], CONTROL_SETUP, 1000, &received, NULL, why));
	assert_true(control_get_load(&received, &load));
	assert_int_equal(load.op, a_load.op);
	assert_int_equal(load.flush_type, a_load.flush_type);
	assert_int_equal(load.size, a_load.size);
	assert_int_equal(load.depth, a_load.depth);
	assert_int_equal(load.signal_every, a_load.signal_every);
	assert_int_equal(load.connections, a_load.connections);
	assert_int_equal(load.threads, a_load.threads);
	assert_int_equal(load.target_waits, a_load.target_waits);
	assert_true(load.verify);
	close(fds[0]);

	bool is_closed;
	assert_false(control_receive(fds[1], CONTROL_SETUP, 1000, &received, &is_closed, why));
	assert_true(is_closed);
	close(fds[1]);
}

static void
others_go_through(void **state)
{
	(void)state;
	static struct control_message msg;
	struct control_ready ready = { .token = UINT64_MAX - 1, .port = 7471, .memory = "DRAM" }, ready_seen;
	control_begin(&msg, CONTROL_READY);
	control_put_ready(&msg, &ready);
	assert_true(control_get_ready(&msg, &ready_seen));
	assert_int_equal(ready_seen.token, ready.token);
	assert_int_equal(ready_seen.port, ready.port);
	assert_string_equal(ready_seen.memory, "DRAM");

	struct control_result result = { .cpu = { 1, 2 }, .wrong = 3, .first_wrong = "a\033[31mb\n" },
			      result_seen;
	control_begin(&msg, CONTROL_RESULT);
	control_put_result(&msg, &result);
	assert_true(control_get_result(&msg, &result_seen));
	assert_int_equal(result_seen.cpu.system_us, 2);
	assert_int_equal(result_seen.wrong, 3);
	assert_string_equal(result_seen.first_wrong, "a?[31mb?"); /* terminals interpret some bytes */

	uint64_t counts[3] = { 1, UINT64_MAX, 7 }, counts_seen[3];
	control_begin(&msg, CONTROL_FINISH);
	control_put_counts(&msg, counts, 3);
	assert_true(control_get_counts(&msg, counts_seen, 3));
	assert_memory_equal(counts, counts_seen, sizeof(counts));
	msg.at = 0;
	assert_false(control_get_counts(&msg, counts_seen, 2));
}

static bool
is_load(const struct control_message *msg)
{
	static struct control_message copy;
	struct load load;
	copy = *msg;
	copy.at = 0;
	copy.is_bad = false;
	return control_get_load(&copy, &load);
}

/* a byte too few or too many, and each number out of its bounds */
static void
wrong_loads_are_refused(void **state)
{
	(void)state;
	static struct control_message msg;
	control_begin(&msg, CONTROL_SETUP);
	control_put_load(&msg, &a_load);
	assert_true(is_load(&msg));
	const uint32_t len = msg.len;
	for (uint32_t shorter = 0; shorter < len; shorter++) {
		msg.len = shorter;
		assert_false(is_load(&msg));
	}
	msg.len = len + 1;
	assert_false(is_load(&msg));
	msg.len = len;

	/*
	 * the highest byte of each number: operation, flush type, size, depth, signal-every, connections, threads, the
	 * target's way of waiting, verify
	 */
	static const uint32_t highest[] = { 3, 7, 15, 19, 23, 27, 31, 35, 39 };
	for (size_t i = 0; i < sizeof(highest) / sizeof(highest[0]); i++) {
		msg.payload[highest[i]] = 0x80;
		assert_false(is_load(&msg));
		msg.payload[highest[i]] = 0;
	}
	assert_true(is_load(&msg));

	struct load load = a_load;
	load.op = OP_COMPARE_AND_SWAP; /* has 8 bytes, not 4096 */
	control_begin(&msg, CONTROL_SETUP);
	control_put_load(&msg, &load);
	assert_false(is_load(&msg));

	load = a_load;
	for (int way = 0; way <= WAY_COUNT; way++) {
		load.target_waits = (enum way)way;
		control_begin(&msg, CONTROL_SETUP);
		control_put_load(&msg, &load);
		/* a target that pauses takes no messages */
		assert_int_equal(is_load(&msg), way < WAY_COUNT && way != WAY_PAUSE);
	}
	load.op = OP_WRITE;
	load.target_waits = WAY_PAUSE;
	control_begin(&msg, CONTROL_SETUP);
	control_put_load(&msg, &load);
	assert_true(is_load(&msg));
}

/* a text that claims to be longer than its message, or than the maximum */
static void
wrong_texts_are_refused(void **state)
{
	(void)state;
	static struct control_message msg;
	char sentence[CONTROL_TEXT_MAX];
	static const uint16_t lengths[] = { 6, CONTROL_TEXT_MAX, UINT16_MAX };
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		control_begin(&msg, CONTROL_ERROR);
		control_put_sentence(&msg, "hello");
		memcpy(msg.payload, &lengths[i], sizeof(lengths[i]));
		assert_false(control_get_sentence(&msg, sentence));
	}
	control_begin(&msg, CONTROL_ERROR);
	control_put_sentence(&msg, "hello");
	assert_true(control_get_sentence(&msg, sentence));
	assert_string_equal(sentence, "hello");
}

/* decoding any bytes never reads beyond the message; the sanitizers check that */
static void
any_bytes(void **state)
{
	(void)state;
	unsigned short seed[3] = { 1, 2, 3 };
	static struct control_message msg;
	for (int i = 0; i < 20000; i++) {
		struct load load;
		struct control_ready ready;
		struct control_result result;
		uint64_t counts[4];
		char sentence[CONTROL_TEXT_MAX];
		control_begin(&msg, (enum control_type)(i % 10));
		msg.len = (uint32_t)(nrand48(seed) % 64);
		for (uint32_t j = 0; j < msg.len; j++)
			msg.payload[j] = (uint8_t)(nrand48(seed) % (i % 2 ? 256 : 4));
		(void)control_get_load(&msg, &load);
		msg.at = 0;
		msg.is_bad = false;
		(void)control_get_ready(&msg, &ready);
		msg.at = 0;
		msg.is_bad = false;
		(void)control_get_result(&msg, &result);
		msg.at = 0;
		msg.is_bad = false;
		(void)control_get_counts(&msg, counts, 4);
		msg.at = 0;
		msg.is_bad = false;
		if (control_get_sentence(&msg, sentence))
			assert_true(
				strlen(sentence) + 2 == msg.len || memchr(msg.payload + 2, 0, msg.len - 2));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(load_goes_through),
		cmocka_unit_test(others_go_through),
		cmocka_unit_test(wrong_loads_are_refused),
		cmocka_unit_test(wrong_texts_are_refused),
		cmocka_unit_test(any_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
