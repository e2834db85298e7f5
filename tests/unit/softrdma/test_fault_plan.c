/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_fault_plan.c -- the faults in force: the variable, the file that it names, and values that are refused
 */

#include "connected.h"

#include "softrdma/faults/fault_plan.h"

#define VARIABLE "SOFTRDMA_FAULTS"

static int
no_faults(void **state)
{
	unsetenv(VARIABLE);
	return softrdma_fault_plan_read() ? -1 : teardown_test(state);
}

#define plan_test(function) cmocka_unit_test_setup_teardown(function, setup_test, no_faults)

/* a file with this text; its name is valid until the next call */
static const char *
file_with(const void *text, size_t len)
{
	static char setting[64];
	strcpy(setting, "@test_fault_plan.XXXXXX");
	int fd = mkstemp(setting + 1);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), (ssize_t)len);
	close(fd);
	return setting;
}

static void
test_nothing_is_asked_for(void **state)
{
	(void)state;
	unsetenv(VARIABLE);
	assert_int_equal(softrdma_fault_plan_read(), 0);
	assert_null(softrdma_fault_plan_get());
	setenv(VARIABLE, "", 1);
	assert_int_equal(softrdma_fault_plan_read(), 0);
	assert_null(softrdma_fault_plan_get());
	assert_false(softrdma_fault_plan_rejects());
	softrdma_fault_plan_put(NULL);
	assert_string_equal(log_text, "");
}

/* logged once, as a WARNING; connections keep the plan under which they were made */
static void
test_in_force(void **state)
{
	(void)state;
	setenv(VARIABLE, "delay=1ms,\tseed=9", 1);
	assert_int_equal(softrdma_fault_plan_read(), 0);
	assert_int_equal(log_worst, SOFTRDMA_LOG_WARNING);
	assert_string_equal(log_text,
		"faults are injected into this process, as SOFTRDMA_FAULTS asks: "
		"delay=1ms,?seed=9 (seed 9)\n");
	struct softrdma_fault_plan *plan = softrdma_fault_plan_get();
	assert_non_null(plan);
	assert_true(plan->spec.word[SOFTRDMA_FAULT_DELAY].told);
	log_clear();
	assert_int_equal(softrdma_fault_plan_read(), 0);
	assert_string_equal(log_text, "");
	struct softrdma_fault_plan *same = softrdma_fault_plan_get();
	assert_ptr_equal(plan, same);
	softrdma_fault_plan_put(same);

	setenv(VARIABLE, "delay=2ms,\tseed=9", 1); /* a value of the same length */
	assert_int_equal(softrdma_fault_plan_read(), 0);
	assert_true(log_has("delay=2ms"));
	struct softrdma_fault_plan *other = softrdma_fault_plan_get();
	assert_ptr_not_equal(plan, other);
	assert_true(other->spec.word[SOFTRDMA_FAULT_DELAY].value == 2000000);
	assert_true(plan->spec.word[SOFTRDMA_FAULT_DELAY].value == 1000000);
	softrdma_fault_plan_put(other);
	softrdma_fault_plan_put(plan);
	unsetenv(VARIABLE);
	assert_int_equal(softrdma_fault_plan_read(), 0);
	assert_null(softrdma_fault_plan_get());
}

static void
test_long_setting_is_cut(void **state)
{
	(void)state;
	char setting[400];
	memset(setting, ' ', sizeof(setting));
	strcpy(setting + 390, "reject");
	setenv(VARIABLE, setting, 1);
	assert_int_equal(softrdma_fault_plan_read(), 0);
	assert_false(log_has("reject"));
	assert_true(log_has("(seed 0)"));
}

/* calls that need the device fail, and the plan in force stays */
static void
test_wrong_words(void **state)
{
	(void)state;
	setenv(VARIABLE, "reject@1", 1);
	assert_int_equal(softrdma_fault_plan_read(), 0);
	setenv(VARIABLE, "reject@1,\nrejekt", 1);
	log_clear();
	assert_int_equal(softrdma_fault_plan_read(), EINVAL);
	assert_int_equal(log_worst, SOFTRDMA_LOG_ERROR);
	assert_string_equal(log_text, "SOFTRDMA_FAULTS, line 1: \"\": a word is missing\n");
	log_clear();
	setenv(VARIABLE, "reject@1\nreject=2", 1);
	assert_int_equal(softrdma_fault_plan_read(), EINVAL);
	assert_string_equal(log_text, "SOFTRDMA_FAULTS, line 2: \"reject=2\": it has been given already\n");
	log_clear();
	setenv(VARIABLE, "seed=3", 1);
	assert_int_equal(softrdma_fault_plan_read(), EINVAL);
	assert_string_equal(log_text, "SOFTRDMA_FAULTS: \"seed\": there is no fault to make\n");
	struct softrdma_fault_plan *plan = softrdma_fault_plan_get();
	assert_non_null(plan);
	assert_int_equal(plan->spec.word[SOFTRDMA_FAULT_REJECT].nth, 1);
	softrdma_fault_plan_put(plan);
}

static void
test_device_is_refused(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	struct sockaddr_in addr = loopback(0);
	setenv(VARIABLE, "delay=2", 1);
	for (int i = 0; i < 2; i++) { /* not only the first time */
		log_clear();
		errno = 0;
		assert_null(softrdma_ibv_alloc_pd(softrdma_context()));
		assert_int_equal(errno, EINVAL);
		assert_true(log_has("\"delay=2\""));
		log_clear();
		errno = 0;
		assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&addr), -1);
		assert_int_equal(errno, EINVAL);
		assert_true(log_has("\"delay=2\""));
		log_clear();
		errno = 0;
		assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000), -1);
		assert_int_equal(errno, EINVAL);
		assert_true(log_has("\"delay=2\""));
		log_clear();
		errno = 0;
		assert_int_equal(softrdma_rdma_listen(id, 0), -1);
		assert_int_equal(errno, EINVAL);
		assert_true(log_has("\"delay=2\""));
	}
	assert_null(id->verbs);
	expect_no_event(channel);
	/* after a correction the calls succeed */
	setenv(VARIABLE, "delay=2ms", 1);
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&addr), 0);
	assert_int_equal(softrdma_rdma_listen(id, 0), 0);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

static void
test_file(void **state)
{
	(void)state;
	static const char text[] = "# what breaks\n\ndelay=1ms@5%   # sometimes\nseed=4\n";
	const char *setting = file_with(text, strlen(text));
	setenv(VARIABLE, setting, 1);
	assert_int_equal(softrdma_fault_plan_read(), 0);
	assert_true(log_has("asks: @test_fault_plan."));
	assert_true(log_has("(seed 4)"));
	struct softrdma_fault_plan *plan = softrdma_fault_plan_get();
	assert_non_null(plan);
	assert_int_equal(plan->spec.word[SOFTRDMA_FAULT_DELAY].parts_ppm, 50000);

	/* the file is read again each time */
	int fd = open(setting + 1, O_WRONLY | O_TRUNC);
	assert_int_equal(write(fd, "reject", 6), 6);
	close(fd);
	assert_int_equal(softrdma_fault_plan_read(), 0);
	struct softrdma_fault_plan *other = softrdma_fault_plan_get();
	assert_true(other->spec.word[SOFTRDMA_FAULT_REJECT].told);
	softrdma_fault_plan_put(other);
	softrdma_fault_plan_put(plan);
	unlink(setting + 1);
}

static void
test_file_that_cannot_be_read(void **state)
{
	(void)state;
	setenv(VARIABLE, "@", 1);
	assert_int_equal(softrdma_fault_plan_read(), EINVAL);
	assert_true(log_has(" cannot be read: No such file or directory"));
	log_clear();
	setenv(VARIABLE, "@.", 1);
	assert_int_equal(softrdma_fault_plan_read(), EINVAL);
	assert_true(log_has(" cannot be read: Is a directory"));

	const char *setting = file_with("reject", 6);
	setenv(VARIABLE, setting, 1);
	fail_call(FAIL_MINE, "read", 0, 1, EINTR);
	assert_int_equal(softrdma_fault_plan_read(), 0);
	assert_int_equal(fail_nothing(), 1);
	fail_call(FAIL_MINE, "malloc", 0, 1, ENOMEM);
	assert_int_equal(softrdma_fault_plan_read(), ENOMEM);
	assert_int_equal(fail_nothing(), 1);
	setenv(VARIABLE, "reject@2", 1);
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_int_equal(softrdma_fault_plan_read(), ENOMEM);
	assert_int_equal(fail_nothing(), 1);
	unlink(setting + 1);
}

/* the longest permitted file, and one byte more */
static void
test_length_of_a_file(void **state)
{
	(void)state;
	char *text = malloc(SOFTRDMA_FAULT_TEXT_MAX + 1);
	assert_non_null(text);
	memset(text, ' ', SOFTRDMA_FAULT_TEXT_MAX + 1);
	memcpy(text + SOFTRDMA_FAULT_TEXT_MAX - 8, "reject@3", 8);
	const char *setting = file_with(text, SOFTRDMA_FAULT_TEXT_MAX);
	setenv(VARIABLE, setting, 1);
	assert_int_equal(softrdma_fault_plan_read(), 0);
	struct softrdma_fault_plan *plan = softrdma_fault_plan_get();
	assert_int_equal(plan->spec.word[SOFTRDMA_FAULT_REJECT].nth, 3);
	softrdma_fault_plan_put(plan);
	unlink(setting + 1);
	setting = file_with(text, SOFTRDMA_FAULT_TEXT_MAX + 1);
	setenv(VARIABLE, setting, 1);
	assert_int_equal(softrdma_fault_plan_read(), EINVAL);
	assert_true(log_has(" cannot be read: File too large"));
	unlink(setting + 1);
	free(text);
}

static void
test_rejects(void **state)
{
	(void)state;
	setenv(VARIABLE, "reject@2", 1);
	for (int i = 0; i < 2; i++) { /* a plan that comes into force again counts from the start */
		assert_int_equal(softrdma_fault_plan_read(), 0);
		assert_false(softrdma_fault_plan_rejects());
		assert_int_equal(softrdma_fault_plan_read(), 0);
		assert_true(softrdma_fault_plan_rejects());
		assert_false(softrdma_fault_plan_rejects());
		unsetenv(VARIABLE);
		assert_int_equal(softrdma_fault_plan_read(), 0);
		assert_false(softrdma_fault_plan_rejects());
		setenv(VARIABLE, "reject@2", 1);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		plan_test(test_nothing_is_asked_for),
		plan_test(test_in_force),
		plan_test(test_long_setting_is_cut),
		plan_test(test_wrong_words),
		plan_test(test_device_is_refused),
		plan_test(test_file),
		plan_test(test_file_that_cannot_be_read),
		plan_test(test_length_of_a_file),
		plan_test(test_rejects),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
