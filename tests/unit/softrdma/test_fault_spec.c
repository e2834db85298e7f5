/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_fault_spec.c -- the syntax of SOFTRDMA_FAULTS: what each word means, what is refused, and when a fault
 * strikes
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "softrdma/faults/fault_spec.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MS UINT64_C(1000000)
#define HOUR_NS UINT64_C(3600000000000)

/* in memory of exactly this length, so that the sanitizers see a read past the end */
static bool
parse_n(const char *text, size_t len, struct softrdma_fault_spec *spec, struct softrdma_fault_error *error)
{
	char *copy = malloc(len + !len);
	assert_non_null(copy);
	memcpy(copy, text, len);
	bool ok = softrdma_fault_spec_parse(copy, len, spec, error);
	free(copy);
	return ok;
}

static struct softrdma_fault_spec
parsed(const char *text)
{
	struct softrdma_fault_spec spec;
	struct softrdma_fault_error error;
	if (!parse_n(text, strlen(text), &spec, &error))
		fail_msg("\"%s\" is refused: \"%s\": %s", text, error.word, error.why);
	return spec;
}

/* --- the grammar --- */

static void
test_every_word(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		enum softrdma_fault_word word;
		struct softrdma_fault is;
	} cases[] = {
		{ "drop-after=1000", SOFTRDMA_FAULT_DROP_AFTER, { true, 1000, 0, 1000000 } },
		{ "drop-after=0", SOFTRDMA_FAULT_DROP_AFTER, { true, 0, 0, 1000000 } },
		{ "drop-after=1,retry-timeout=500ms", SOFTRDMA_FAULT_RETRY_TIMEOUT,
			{ true, 500 * MS, 0, 1000000 } },
		{ "drop-after=1", SOFTRDMA_FAULT_RETRY_TIMEOUT, { false, 10000 * MS, 0, 0 } },
		{ "delay=2ms", SOFTRDMA_FAULT_DELAY, { true, 2 * MS, 0, 1000000 } },
		{ "delay=2us@5%", SOFTRDMA_FAULT_DELAY, { true, 2000, 0, 50000 } },
		{ "delay=3600s@7", SOFTRDMA_FAULT_DELAY, { true, HOUR_NS, 7, 1000000 } },
		{ "wc-error=rem_access@200", SOFTRDMA_FAULT_WC_ERROR,
			{ true, IBV_WC_REM_ACCESS_ERR, 200, 1000000 } },
		{ "wc-error=general@0.0001%", SOFTRDMA_FAULT_WC_ERROR, { true, IBV_WC_GENERAL_ERR, 0, 1 } },
		{ "disconnect=30s", SOFTRDMA_FAULT_DISCONNECT, { true, 30000 * MS, 0, 1000000 } },
		{ "disconnect-after=1", SOFTRDMA_FAULT_DISCONNECT_AFTER, { true, 1, 0, 1000000 } },
		{ "reject", SOFTRDMA_FAULT_REJECT, { true, 0, 0, 1000000 } },
		{ "reject@12.5%", SOFTRDMA_FAULT_REJECT, { true, 0, 0, 125000 } },
		{ "reject@100%", SOFTRDMA_FAULT_REJECT, { true, 0, 0, 1000000 } },
		{ "reject@100.0000%", SOFTRDMA_FAULT_REJECT, { true, 0, 0, 1000000 } },
		{ "slow-flush=1s@3", SOFTRDMA_FAULT_SLOW_FLUSH, { true, 1000 * MS, 3, 1000000 } },
		{ "flush-error@18446744073709551615", SOFTRDMA_FAULT_FLUSH_ERROR,
			{ true, 0, UINT64_MAX, 1000000 } },
		{ "lose@3", SOFTRDMA_FAULT_LOSE, { true, 0, 3, 1000000 } },
		{ "duplicate", SOFTRDMA_FAULT_DUPLICATE, { true, 0, 0, 1000000 } },
		{ "reorder@5%", SOFTRDMA_FAULT_REORDER, { true, 0, 0, 50000 } },
		{ "corrupt@1,connection=2", SOFTRDMA_FAULT_CORRUPT, { true, 0, 1, 1000000 } },
		{ "flush-error,connection=2", SOFTRDMA_FAULT_CONNECTION, { true, 2, 0, 1000000 } },
		{ "reject,seed=18446744073709551615", SOFTRDMA_FAULT_SEED, { true, UINT64_MAX, 0, 1000000 } },
		{ "reject,seed=007", SOFTRDMA_FAULT_SEED, { true, 7, 0, 1000000 } },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct softrdma_fault_spec spec = parsed(cases[i].text);
		const struct softrdma_fault *is = &cases[i].is, *got = &spec.word[cases[i].word];
		assert_int_equal(got->told, is->told);
		assert_true(got->value == is->value);
		assert_true(got->nth == is->nth);
		assert_int_equal(got->parts_ppm, is->parts_ppm);
	}
}

static void
test_every_status(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		enum ibv_wc_status status;
	} cases[] = {
		{ "loc_len", IBV_WC_LOC_LEN_ERR },
		{ "loc_qp_op", IBV_WC_LOC_QP_OP_ERR },
		{ "loc_prot", IBV_WC_LOC_PROT_ERR },
		{ "mw_bind", IBV_WC_MW_BIND_ERR },
		{ "bad_resp", IBV_WC_BAD_RESP_ERR },
		{ "loc_access", IBV_WC_LOC_ACCESS_ERR },
		{ "rem_inv_req", IBV_WC_REM_INV_REQ_ERR },
		{ "rem_access", IBV_WC_REM_ACCESS_ERR },
		{ "rem_op", IBV_WC_REM_OP_ERR },
		{ "retry_exc", IBV_WC_RETRY_EXC_ERR },
		{ "rnr_retry_exc", IBV_WC_RNR_RETRY_EXC_ERR },
		{ "rem_abort", IBV_WC_REM_ABORT_ERR },
		{ "fatal", IBV_WC_FATAL_ERR },
		{ "resp_timeout", IBV_WC_RESP_TIMEOUT_ERR },
		{ "general", IBV_WC_GENERAL_ERR },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		char text[64];
		snprintf(text, sizeof(text), "wc-error=%s", cases[i].name);
		struct softrdma_fault_spec spec = parsed(text);
		assert_true(spec.word[SOFTRDMA_FAULT_WC_ERROR].value == cases[i].status);
	}
}

/* one line and a file with blanks and comments have the same meaning */
static void
test_lines_and_comments(void **state)
{
	(void)state;
	struct softrdma_fault_spec one = parsed("delay=2ms@5%,wc-error=rem_op@9,seed=7");
	static const char *const same[] = {
		"delay=2ms@5%\nwc-error=rem_op@9\nseed=7\n",
		"# all of it\n\n  delay=2ms@5% , seed=7  # and why\r\n\t\n#x\nwc-error=rem_op@9",
		"seed=7\nwc-error=rem_op@9,delay=2ms@5%",
	};
	for (size_t i = 0; i < COUNT(same); i++) {
		struct softrdma_fault_spec other = parsed(same[i]);
		assert_memory_equal(&one, &other, sizeof(one));
	}
}

static void
test_refusals(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		unsigned line;
		const char *word;
		const char *why;
	} cases[] = {
		{ "", 0, "", "there is no fault to make" },
		{ "# nothing\n\n", 0, "", "there is no fault to make" },
		{ "seed=1", 0, "seed", "there is no fault to make" },
		{ "connection=1,reject", 0, "connection", "it needs a fault of connections" },
		{ "retry-timeout=1s,delay=1ms", 0, "retry-timeout", "it needs drop-after" },
		{ "delays=2ms", 1, "delays=2ms", "no such fault is known" },
		{ "Reject", 1, "Reject", "no such fault is known" },
		{ "rejected", 1, "rejected", "no such fault is known" },
		{ "reject reject", 1, "reject reject", "no such fault is known" },
		{ "@1", 1, "@1", "no such fault is known" },
		{ "reject,", 1, "", "a word is missing" },
		{ ",", 1, "", "a word is missing" },
		{ "reject,,seed=1", 1, "", "a word is missing" },
		{ "reject\nseed=1\nseed=1", 3, "seed=1", "it has been given already" },
		{ "reject,reject@1", 1, "reject@1", "it has been given already" },
		{ "delay", 1, "delay", "a value must follow the name, as in NAME=VALUE" },
		{ "delay@1", 1, "delay@1", "a value must follow the name, as in NAME=VALUE" },
		{ "delay=", 1, "delay=", "the value must be a time in us, ms or s, up to an hour" },
		{ "delay=2", 1, "delay=2", "the value must be a time in us, ms or s, up to an hour" },
		{ "delay=0ms", 1, "delay=0ms", "the value must be a time in us, ms or s, up to an hour" },
		{ "delay=1h", 1, "delay=1h", "the value must be a time in us, ms or s, up to an hour" },
		{ "delay=3601s", 1, "delay=3601s", "the value must be a time in us, ms or s, up to an hour" },
		{ "delay=18446744073709551615s", 1, "delay=18446744073709551615s",
			"the value must be a time in us, ms or s, up to an hour" },
		{ "delay=18446744073709551616us", 1, "delay=18446744073709551616us",
			"the value must be a time in us, ms or s, up to an hour" },
		{ "delay= 2ms", 1, "delay= 2ms", "the value must be a time in us, ms or s, up to an hour" },
		{ "delay=2ms3", 1, "delay=2ms3", "something follows that does not belong to it" },
		{ "drop-after=x", 1, "drop-after=x", "the value must be a number from 0" },
		{ "drop-after=-1", 1, "drop-after=-1", "the value must be a number from 0" },
		{ "drop-after=+1", 1, "drop-after=+1", "the value must be a number from 0" },
		{ "drop-after=1@2", 1, "drop-after=1@2", "something follows that does not belong to it" },
		{ "drop-after=0x10", 1, "drop-after=0x10", "something follows that does not belong to it" },
		{ "drop-after=18446744073709551616", 1, "drop-after=18446744073709551616",
			"the value must be a number from 0" },
		{ "drop-after=99999999999999999999999999999999999999999999", 1,
			"drop-after=9999999999999999999999999999999999999",
			"the value must be a number from 0" },
		{ "disconnect-after=0", 1, "disconnect-after=0", "the value must be a number from 1" },
		{ "disconnect-after=", 1, "disconnect-after=", "the value must be a number from 1" },
		{ "reject=5%", 1, "reject=5%", "something follows that does not belong to it" },
		{ "wc-error", 1, "wc-error", "a value must follow the name, as in NAME=VALUE" },
		{ "wc-error=success@1", 1, "wc-error=success@1",
			"the value must be the name of an error status" },
		{ "wc-error=wr_flush@1", 1, "wc-error=wr_flush@1",
			"the value must be the name of an error status" },
		{ "wc-error=rem_access_err", 1, "wc-error=rem_access_err",
			"the value must be the name of an error status" },
		{ "wc-error=@1", 1, "wc-error=@1", "the value must be the name of an error status" },
		{ "reject@", 1, "reject@",
			"behind the @ must be a number from 1, or a percentage up to 100 with a % sign" },
		{ "reject@0", 1, "reject@0",
			"behind the @ must be a number from 1, or a percentage up to 100 with a % sign" },
		{ "reject@0%", 1, "reject@0%",
			"behind the @ must be a number from 1, or a percentage up to 100 with a % sign" },
		{ "reject@0.0000%", 1, "reject@0.0000%",
			"behind the @ must be a number from 1, or a percentage up to 100 with a % sign" },
		{ "reject@.5%", 1, "reject@.5%",
			"behind the @ must be a number from 1, or a percentage up to 100 with a % sign" },
		{ "reject@5.%", 1, "reject@5.%",
			"behind the @ must be a number from 1, or a percentage up to 100 with a % sign" },
		{ "reject@5.", 1, "reject@5.",
			"behind the @ must be a number from 1, or a percentage up to 100 with a % sign" },
		{ "reject@5.12345%", 1, "reject@5.12345%",
			"behind the @ must be a number from 1, or a percentage up to 100 with a % sign" },
		{ "reject@5.5", 1, "reject@5.5",
			"behind the @ must be a number from 1, or a percentage up to 100 with a % sign" },
		{ "reject@100.0001%", 1, "reject@100.0001%",
			"behind the @ must be a number from 1, or a percentage up to 100 with a % sign" },
		{ "reject@101%", 1, "reject@101%",
			"behind the @ must be a number from 1, or a percentage up to 100 with a % sign" },
		{ "reject@18446744073709551615%", 1, "reject@18446744073709551615%",
			"behind the @ must be a number from 1, or a percentage up to 100 with a % sign" },
		{ "reject@1x", 1, "reject@1x",
			"behind the @ must be a number from 1, or a percentage up to 100 with a % sign" },
		{ "reject@1%%", 1, "reject@1%%", "something follows that does not belong to it" },
		{ "reject@1%@2", 1, "reject@1%@2", "something follows that does not belong to it" },
		{ "a\x01\x7f\xff\x1b", 1, "a????", "no such fault is known" },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct softrdma_fault_spec spec;
		struct softrdma_fault_error error;
		if (parse_n(cases[i].text, strlen(cases[i].text), &spec, &error))
			fail_msg("\"%s\" is accepted", cases[i].text);
		assert_int_equal(error.line, cases[i].line);
		assert_string_equal(error.word, cases[i].word);
		assert_string_equal(error.why, cases[i].why);
	}
}

/* a zero byte does not end the text: what follows it is not ignored */
static void
test_zero_byte(void **state)
{
	(void)state;
	struct softrdma_fault_spec spec;
	struct softrdma_fault_error error;
	assert_false(parse_n("reject\0,seed=1", 14, &spec, &error));
	assert_string_equal(error.word, "reject?");
}

static const char full_line[] =
	"drop-after=1000,retry-timeout=250ms,delay=2ms@5%,wc-error=rem_access@200,"
	"disconnect=30s,disconnect-after=77,reject@12.5%,slow-flush=40us@3,flush-error@4,"
	"connection=2,seed=7";

/* true if a cut at this length leaves a shorter valid text */
static bool
good_cut(size_t len)
{
	static const char *const tails[] = { "drop-after=1", "drop-after=10", "drop-after=100",
		"wc-error=rem_access@2", "wc-error=rem_access@20", "wc-error=rem_access",
		"disconnect-after=7", "delay=2ms", "delay=2ms@5", "reject", "reject@1", "reject@12",
		"slow-flush=40us", "flush-error" };
	if (len == strlen(full_line) || full_line[len] == ',')
		return true;
	size_t begin = len;
	while (begin > 0 && full_line[begin - 1] != ',')
		begin--;
	for (size_t i = 0; i < COUNT(tails); i++) {
		if (len - begin == strlen(tails[i]) && memcmp(full_line + begin, tails[i], len - begin) == 0)
			return true;
	}
	return false;
}

static void
test_every_truncation(void **state)
{
	(void)state;
	struct softrdma_fault_spec spec;
	struct softrdma_fault_error error;
	for (size_t len = 0; len <= strlen(full_line); len++) {
		bool ok = parse_n(full_line, len, &spec, &error);
		if (ok != good_cut(len))
			fail_msg("\"%.*s\" is %s", (int)len, full_line, ok ? "accepted" : error.why);
	}
}

/* each byte replaced by each other value: no crash, and each refusal gives a reason */
static void
test_every_changed_byte(void **state)
{
	(void)state;
	char text[sizeof(full_line)];
	for (size_t at = 0; at < sizeof(full_line) - 1; at++) {
		memcpy(text, full_line, sizeof(text));
		for (int byte = 0; byte < 256; byte++) {
			struct softrdma_fault_spec spec;
			struct softrdma_fault_error error;
			text[at] = (char)byte;
			if (parse_n(text, sizeof(text) - 1, &spec, &error))
				continue;
			assert_non_null(error.why);
			for (const char *c = error.word; *c; c++)
				assert_true(*c >= ' ' && *c <= '~');
		}
	}
}

/* --- decisions --- */

static void
test_any_and_concern(void **state)
{
	(void)state;
	struct softrdma_fault_spec reject = parsed("reject");
	assert_true(softrdma_fault_spec_any(&reject));
	assert_false(softrdma_fault_spec_concern(&reject, 1));
	struct softrdma_fault_spec all = parsed("flush-error"), second = parsed("delay=1ms,connection=2");
	assert_true(softrdma_fault_spec_concern(&all, 1));
	assert_true(softrdma_fault_spec_concern(&all, 2));
	assert_false(softrdma_fault_spec_concern(&second, 1));
	assert_true(softrdma_fault_spec_concern(&second, 2));
	assert_false(softrdma_fault_spec_concern(&second, 3));
}

static void
test_strikes(void **state)
{
	(void)state;
	struct softrdma_fault_spec spec = parsed("delay=1ms,reject@3,seed=5");
	for (uint64_t n = 1; n < 100; n++) {
		assert_true(softrdma_fault_spec_strike(&spec, SOFTRDMA_FAULT_DELAY, 1, n));
		assert_int_equal(softrdma_fault_spec_strike(&spec, SOFTRDMA_FAULT_REJECT, 0, n), n == 3);
		assert_false(softrdma_fault_spec_strike(&spec, SOFTRDMA_FAULT_WC_ERROR, 1, n));
	}
}

#define DRAWS 100000

static unsigned
count_strikes(const struct softrdma_fault_spec *spec, enum softrdma_fault_word word, uint64_t stream)
{
	unsigned count = 0;
	for (uint64_t n = 1; n <= DRAWS; n++)
		count += softrdma_fault_spec_strike(spec, word, stream, n);
	return count;
}

/*
 * Allows six standard deviations. The draws are always the same, so the test always passes or always fails.
 */
static void
test_percentages(void **state)
{
	(void)state;
	struct softrdma_fault_spec spec = parsed("delay=1ms@5%,flush-error@0.1%,reject@50%,seed=1");
	unsigned delays = count_strikes(&spec, SOFTRDMA_FAULT_DELAY, 1);
	unsigned errors = count_strikes(&spec, SOFTRDMA_FAULT_FLUSH_ERROR, 1);
	unsigned rejects = count_strikes(&spec, SOFTRDMA_FAULT_REJECT, 0);
	assert_in_range(delays, 5000 - 414, 5000 + 414);
	assert_in_range(errors, 100 - 60, 100 + 60);
	assert_in_range(rejects, 50000 - 950, 50000 + 950);
}

static unsigned
differences(const struct softrdma_fault_spec *a, enum softrdma_fault_word word_a, uint64_t stream_a,
	const struct softrdma_fault_spec *b, enum softrdma_fault_word word_b, uint64_t stream_b)
{
	unsigned count = 0;
	for (uint64_t n = 1; n <= 1000; n++)
		count += softrdma_fault_spec_strike(a, word_a, stream_a, n) !=
			softrdma_fault_spec_strike(b, word_b, stream_b, n);
	return count;
}

/* the same seed gives the same draws; another seed, fault or stream gives others (half of them differ) */
static void
test_seeds_and_streams(void **state)
{
	(void)state;
	const enum softrdma_fault_word delay = SOFTRDMA_FAULT_DELAY, reject = SOFTRDMA_FAULT_REJECT;
	struct softrdma_fault_spec a = parsed("delay=1ms@50%,reject@50%,seed=1");
	struct softrdma_fault_spec b = parsed("seed=2,reject@50%,delay=9s@50%");
	struct softrdma_fault_spec again = parsed("seed=1,reject@50%,delay=9s@50%");
	assert_int_equal(differences(&a, delay, 1, &again, delay, 1), 0);
	assert_in_range(differences(&a, delay, 1, &b, delay, 1), 400, 600);
	assert_in_range(differences(&a, delay, 1, &a, reject, 1), 400, 600);
	assert_in_range(differences(&a, delay, 1, &a, delay, 2), 400, 600);
}

/* the expected values are fixed here, so that a seed means the same in every release */
static void
test_what_a_seed_means(void **state)
{
	(void)state;
	struct softrdma_fault_spec spec = parsed("delay=1ms@50%,seed=7");
	char seen[41] = "";
	for (uint64_t n = 1; n <= 40; n++)
		seen[n - 1] = softrdma_fault_spec_strike(&spec, SOFTRDMA_FAULT_DELAY, 1, n) ? 'x' : '.';
	assert_string_equal(seen, ".xxxxx.xx...xx.xx....xxx...x.xx.x.xxxxxx");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_word),
		cmocka_unit_test(test_every_status),
		cmocka_unit_test(test_lines_and_comments),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_zero_byte),
		cmocka_unit_test(test_every_truncation),
		cmocka_unit_test(test_every_changed_byte),
		cmocka_unit_test(test_any_and_concern),
		cmocka_unit_test(test_strikes),
		cmocka_unit_test(test_percentages),
		cmocka_unit_test(test_seeds_and_streams),
		cmocka_unit_test(test_what_a_seed_means),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
