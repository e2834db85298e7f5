/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_err.c -- texts of errors, and that each error is logged once */

#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include "err.h"
#include "mock.h"

static void
texts(void **state)
{
	(void)state;
	static const struct {
		int ret;
		const char *text;
	} table[] = {
		{ 0, "Success" },
		{ RPMA_E_UNKNOWN, "Unknown error" },
		{ RPMA_E_NOSUPP, "Not supported" },
		{ RPMA_E_PROVIDER, "Provider error occurred" },
		{ RPMA_E_NOMEM, "Out of memory" },
		{ RPMA_E_INVAL, "Invalid argument" },
		{ RPMA_E_NO_COMPLETION, "No next completion available" },
		{ RPMA_E_NO_EVENT, "No next event available" },
		{ RPMA_E_AGAIN, "Temporary error, try again" },
		{ RPMA_E_SHARED_CHANNEL, "Completion channel is shared" },
		{ RPMA_E_NOT_SHARED_CHNL, "Completion channel is not shared" },
		{ 1, "Unknown error" },
		{ -1, "Unknown error" },
		{ -100010, "Unknown error" },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		assert_string_equal(rpma_err_2str(table[i].ret), table[i].text);
}

static void
a_failure_is_logged_once(void **state)
{
	(void)state;
	assert_fails(RPMA_E_INVAL, RPMAI_FAIL(RPMA_E_INVAL, "%d of %s", 3, "them"));
	assert_string_equal(mock.last_log, "3 of them\n");

	assert_fails(RPMA_E_PROVIDER, RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, ENOENT, NULL, "call(%d)", 1));
	assert_string_equal(mock.last_log, "call(1) failed: No such file or directory\n");

	assert_fails(RPMA_E_PROVIDER, RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, ENOENT, "make one", "call()"));
	assert_string_equal(mock.last_log, "call() failed: No such file or directory: make one\n");
}

/* ---- no descriptor left ---- */

static uint64_t forward_s; /* by which the clock is ahead */
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

int
__wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	int ret = __real_clock_gettime(clock, ts);
	ts->tv_sec += (time_t)forward_s;
	return ret;
}

static int
without_descriptors(int errnum)
{
	return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, NULL, "call()");
}

/* the sentence says which limit to raise, and to what it is set; a flood of failures has one line */
static void
no_descriptor_is_logged_once(void **state)
{
	(void)state;
	struct rlimit limit;
	char number[64];
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	snprintf(number, sizeof(number), "may have %llu descriptors", (unsigned long long)limit.rlim_cur);
	for (int interval = 0; interval < 3; interval++) {
		assert_fails(RPMA_E_PROVIDER, without_descriptors(EMFILE));
		assert_non_null(strstr(mock.last_log, "call() failed: Too many open files: "));
		assert_non_null(strstr(mock.last_log, number));
		assert_non_null(strstr(mock.last_log, "ulimit -n, LimitNOFILE="));
		const int errors = mock.logged[RPMA_LOG_LEVEL_ERROR];
		for (int i = 0; i < 100; i++) {
			rpmai_refuse(0, "%s", "");
			forward_s += i == 50 ? 9 : 0;
			assert_int_equal(without_descriptors(i % 2 ? EMFILE : ENFILE), RPMA_E_PROVIDER);
			assert_non_null(strstr(rpma_errormsg(), i % 2 ? "ulimit -n" : "fs.file-max"));
		}
		assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], errors);
		/* failures of another kind have a line each */
		assert_fails(RPMA_E_PROVIDER, without_descriptors(ENOMEM));
		assert_fails(RPMA_E_PROVIDER, without_descriptors(ENOMEM));
		assert_null(strstr(mock.last_log, "descriptors"));
		forward_s += 1;
	}
	/* a way out that the caller knows stays */
	forward_s += 10;
	assert_fails(RPMA_E_PROVIDER, RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, EMFILE, "close one", "call()"));
	assert_string_equal(mock.last_log, "call() failed: Too many open files: close one\n");
}

static void
the_first_error_is_kept(void **state)
{
	(void)state;
	assert_int_equal(rpmai_first_error(0, 0), 0);
	assert_int_equal(rpmai_first_error(0, -2), -2);
	assert_int_equal(rpmai_first_error(-1, -2), -1);
	assert_int_equal(rpmai_first_error(-1, 0), -1);
}

/* ---- the last failure as a sentence ---- */

static void *
of_a_thread(void *arg)
{
	(void)arg;
	bool right = rpma_errormsg() != NULL && strstr(rpma_errormsg(), "has failed") != NULL;
	right &= rpma_conn_delete(NULL) == RPMA_E_INVAL;
	right &= strstr(rpma_errormsg(), "NULL") != NULL;
	return right ? NULL : arg;
}

static void
each_thread_has_its_own(void **state)
{
	(void)state;
	pthread_t thread;
	void *wrong = NULL;
	int argument;
	assert_fails(RPMA_E_PROVIDER, RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, ENOENT, "make one", "call()"));
	assert_string_equal(rpma_errormsg(), "call() failed: No such file or directory: make one");
	assert_int_equal(pthread_create(&thread, NULL, of_a_thread, &argument), 0);
	assert_int_equal(pthread_join(thread, &wrong), 0);
	assert_null(wrong);
	assert_string_equal(rpma_errormsg(), "call() failed: No such file or directory: make one");
}

/* calls that succeed, or that only find nothing, leave it unchanged */
static void
only_failures_change_it(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = mock_conn(peer, NULL);
	struct rpma_cq *cq = NULL;
	enum rpma_conn_event event;
	struct ibv_wc wc;
	assert_fails(RPMA_E_INVAL, RPMAI_FAIL(RPMA_E_INVAL, "%d of %s", 3, "them"));
	assert_ok(rpma_conn_get_cq(conn, &cq));
	assert_int_equal(rpma_cq_get_wc(cq, 1, &wc, NULL), RPMA_E_NO_COMPLETION);
	assert_int_equal(rpma_cq_wait(cq), RPMA_E_NO_COMPLETION);
	assert_int_equal(rpma_conn_next_event(conn, &event), RPMA_E_NO_EVENT);
	assert_string_equal(rpma_errormsg(), "3 of them");
	assert_ok(rpma_conn_delete(&conn));
	assert_ok(rpma_peer_delete(&peer));
	assert_string_equal(rpma_errormsg(), "3 of them");
}

/* A refusal that a program may provoke on purpose is not logged, but has its sentence. */
static void
refusals_have_a_sentence(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_cq *cq = NULL;
	int fd;
	assert_ok(rpma_conn_cfg_new(&cfg));
	for (int shared = 0; shared < 2; shared++) {
		assert_ok(rpma_conn_cfg_set_compl_channel(cfg, shared));
		struct rpma_conn *conn = mock_conn(peer, cfg);
		assert_ok(rpma_conn_get_cq(conn, &cq));
		const int errors = mock.logged[RPMA_LOG_LEVEL_ERROR];
		if (shared) {
			assert_int_equal(rpma_cq_wait(cq), RPMA_E_SHARED_CHANNEL);
			assert_non_null(strstr(rpma_errormsg(), "rpma_conn_wait"));
			assert_int_equal(rpma_cq_wait_timed(cq, 0), RPMA_E_SHARED_CHANNEL);
		} else {
			assert_int_equal(rpma_conn_get_compl_fd(conn, &fd), RPMA_E_NOT_SHARED_CHNL);
			assert_non_null(strstr(rpma_errormsg(), "rpma_cq_wait"));
			rpmai_refuse(0, "%s", "");
			assert_int_equal(rpma_conn_wait(conn, 0, &cq, NULL), RPMA_E_NOT_SHARED_CHNL);
			assert_non_null(strstr(rpma_errormsg(), "rpma_cq_wait"));
		}
		assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], errors);
		mock_queue_event(RDMA_CM_EVENT_ADDR_CHANGE, conn->id, NULL, 0);
		enum rpma_conn_event event;
		assert_int_equal(rpma_conn_next_event(conn, &event), RPMA_E_UNKNOWN);
		assert_non_null(strstr(rpma_errormsg(), "unknown to this version"));
		assert_ok(rpma_conn_delete(&conn));
	}
	assert_ok(rpma_conn_cfg_delete(&cfg));
	rpma_peer_delete(&peer);
}

/* a sentence that is too long is cut, and is still a string */
static void
a_long_sentence(void **state)
{
	(void)state;
	char text[2000];
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_fails(RPMA_E_INVAL, RPMAI_FAIL(RPMA_E_INVAL, "%s", text));
	assert_in_range(strlen(rpma_errormsg()), 100, sizeof(text) - 2);
	assert_fails(RPMA_E_PROVIDER, RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, EIO, text, "%s", text));
	assert_in_range(strlen(rpma_errormsg()), 100, sizeof(text) - 2);
	assert_int_equal(rpmai_refuse(RPMA_E_INVAL, "%s", text), RPMA_E_INVAL);
	assert_in_range(strlen(rpma_errormsg()), 100, sizeof(text) - 2);
}

/* it exists without a log too */
static void
without_a_log(void **state)
{
	(void)state;
	assert_ok(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED));
	assert_int_equal(rpma_conn_delete(NULL), RPMA_E_INVAL);
	assert_non_null(strstr(rpma_errormsg(), "NULL"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(texts),
		rpma_test(a_failure_is_logged_once),
		rpma_test(no_descriptor_is_logged_once),
		rpma_test(the_first_error_is_kept),
		rpma_test(each_thread_has_its_own),
		rpma_test(only_failures_change_it),
		rpma_test(refusals_have_a_sentence),
		rpma_test(a_long_sentence),
		rpma_test(without_a_log),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
