/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * injected_faults.c -- a program of the library under SOFTRDMA_FAULTS: what it is told, and what reaches the
 * memory
 *
 * Both ends are in this process: the client's is connection 1, the server's is connection 2.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "deadline.h"
#include "pair.h"
#include "pattern.h"
#include "wait.h"

#define VARIABLE "SOFTRDMA_FAULTS"
#define SLOT 4096
#define SLOTS 16
#define UNTOUCHED 0xee
#define SECONDS 60

static const char *addr = "127.0.0.1";
static char log_text[8192];

__attribute__((format(printf, 5, 6))) static void
keep_log(enum rpma_log_level level, const char *file, const int line, const char *func, const char *format,
	...)
{
	(void)file;
	(void)line;
	(void)func;
	if (level > RPMA_LOG_LEVEL_WARNING)
		return;
	size_t used = strlen(log_text);
	va_list ap;
	va_start(ap, format);
	vsnprintf(log_text + used, sizeof(log_text) - used, format, ap);
	va_end(ap);
}

/* --- a client that writes to the memory of a server and flushes it --- */

struct store {
	struct pair pair;
	uint8_t *source, *target; /* SLOTS slots each; the target is a file in memory */
	struct rpma_mr_local *source_mr, *target_mr;
	struct rpma_mr_remote *remote;
};

static void
store_open(struct store *s, const char *faults)
{
	const int usage = RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
	setenv(VARIABLE, faults, 1);
	assert_int_equal(pair_open(&s->pair, addr, NULL, NULL), 0);
	int fd = memfd_create("store", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SLOTS * SLOT), 0);
	s->target = mmap(NULL, SLOTS * SLOT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(s->target, MAP_FAILED);
	close(fd);
	s->source = calloc(SLOTS, SLOT);
	assert_non_null(s->source);
	memset(s->target, UNTOUCHED, SLOTS * SLOT);
	for (unsigned n = 0; n < SLOTS; n++)
		pattern_fill(s->source + n * SLOT, SLOT, n, 0);

	assert_int_equal(rpma_mr_reg(s->pair.client.peer, s->source, SLOTS * SLOT, RPMA_MR_USAGE_WRITE_SRC,
				 &s->source_mr),
		0);
	assert_int_equal(rpma_mr_reg(s->pair.server.peer, s->target, SLOTS * SLOT, usage, &s->target_mr), 0);
	char descriptor[64];
	size_t len;
	assert_int_equal(rpma_mr_get_descriptor_size(s->target_mr, &len), 0);
	assert_true(len <= sizeof(descriptor));
	assert_int_equal(rpma_mr_get_descriptor(s->target_mr, descriptor), 0);
	assert_int_equal(rpma_mr_remote_from_descriptor(descriptor, len, &s->remote), 0);
}

static void
store_close(struct store *s)
{
	pair_close(&s->pair);
	unsetenv(VARIABLE);
	munmap(s->target, SLOTS * SLOT);
	free(s->source);
}

static void
store_forget(struct store *s)
{
	rpma_mr_remote_delete(&s->remote);
	rpma_mr_dereg(&s->source_mr);
	rpma_mr_dereg(&s->target_mr);
	store_close(s);
}

static void *
number(unsigned n)
{
	return (void *)(uintptr_t)n;
}

static void
write_slot(struct store *s, unsigned n)
{
	assert_int_equal(rpma_write(s->pair.client.conn, s->remote, n * SLOT, s->source_mr, n * SLOT, SLOT,
				 RPMA_F_COMPLETION_ALWAYS, number(n)),
		0);
}

static void
flush_slot(struct store *s, unsigned n)
{
	assert_int_equal(rpma_flush(s->pair.client.conn, s->remote, n * SLOT, SLOT,
				 RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS, number(n)),
		0);
}

static void
expect_wc(struct store *s, unsigned n, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	assert_int_equal(wait_wc(s->pair.client.cq, &wc, WAIT_MS), 0);
	assert_int_equal(wc.wr_id, n);
	assert_int_equal(wc.status, status);
}

static void
expect_slot(const struct store *s, unsigned n, bool written)
{
	const uint8_t *slot = s->target + n * SLOT;
	assert_true(
		(written ? pattern_check(slot, SLOT, n, 0) : pattern_check_byte(slot, SLOT, UNTOUCHED)) < 0);
}

static void
expect_written(struct store *s, unsigned n)
{
	expect_wc(s, n, IBV_WC_SUCCESS);
	expect_slot(s, n, true);
}

static void
expect_closed(struct rpma_conn *conn)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	assert_int_equal(wait_event(conn, &event, WAIT_MS), 0);
	assert_int_equal(event, RPMA_CONN_CLOSED);
}

/* --- scenarios --- */

static void
no_device_with_a_wrong_word(void **state)
{
	(void)state;
	struct ibv_context *ctx = NULL;
	log_text[0] = '\0';
	setenv(VARIABLE, "drop-after=1000,delay=2", 1);
	assert_int_equal(rpma_utils_get_ibv_context(addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx),
		RPMA_E_PROVIDER);
	assert_int_equal(rpma_utils_get_ibv_context(addr, RPMA_UTIL_IBV_CONTEXT_REMOTE, &ctx),
		RPMA_E_PROVIDER);
	assert_null(ctx);
	assert_non_null(strstr(log_text, "\"delay=2\": the value must be a time"));
	unsetenv(VARIABLE);
	assert_int_equal(rpma_utils_get_ibv_context(addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx), 0);
}

static void
told_in_the_log(void **state)
{
	(void)state;
	struct store s;
	log_text[0] = '\0';
	store_open(&s, "delay=1ms@2,seed=5");
	const char *first = strstr(log_text, "faults are injected");
	assert_non_null(first);
	assert_non_null(strstr(first, "delay=1ms@2,seed=5"));
	assert_null(strstr(first + 1, "faults are injected")); /* only once */
	for (unsigned n = 0; n < 4; n++)
		write_slot(&s, n);
	for (unsigned n = 0; n < 4; n++)
		expect_written(&s, n);
	store_forget(&s);
}

static void
errors_of_operations(void **state)
{
	(void)state;
	struct store s;
	store_open(&s, "wc-error=rem_access@3,connection=1");
	for (unsigned n = 1; n <= 4; n++)
		write_slot(&s, n);
	expect_written(&s, 1);
	expect_written(&s, 2);
	expect_wc(&s, 3, IBV_WC_REM_ACCESS_ERR);
	expect_wc(&s, 4, IBV_WC_WR_FLUSH_ERR);
	expect_slot(&s, 3, false);
	expect_slot(&s, 4, false);
	store_forget(&s);
}

static void
silence(void **state)
{
	(void)state;
	struct store s;
	store_open(&s, "drop-after=2,retry-timeout=200ms,connection=1");
	for (unsigned n = 1; n <= 4; n++)
		write_slot(&s, n);
	expect_written(&s, 1);
	expect_written(&s, 2);
	expect_wc(&s, 3, IBV_WC_RETRY_EXC_ERR);
	expect_wc(&s, 4, IBV_WC_WR_FLUSH_ERR);
	expect_slot(&s, 3, false);
	expect_closed(s.pair.client.conn);
	expect_closed(s.pair.server.conn);
	s.pair.client.cq = s.pair.server.cq = NULL; /* so that store_forget() does not wait for another end */
	store_forget(&s);
}

static void
disconnects(void **state)
{
	(void)state;
	static const char *const faults[] = { "disconnect-after=2,connection=1",
		"disconnect=20ms,connection=2" };
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct store s;
		struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
		unsigned n = 0;
		store_open(&s, faults[i]);
		for (; wc.status == IBV_WC_SUCCESS; n++) {
			write_slot(&s, n % SLOTS);
			assert_int_equal(wait_wc(s.pair.client.cq, &wc, WAIT_MS), 0);
			if (wc.status == IBV_WC_SUCCESS)
				expect_slot(&s, n % SLOTS, true);
		}
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		if (i == 0)
			assert_int_equal(n, 3);
		expect_closed(s.pair.client.conn);
		expect_closed(s.pair.server.conn);
		s.pair.client.cq = s.pair.server.cq = NULL;
		store_forget(&s);
	}
}

static void
flushes(void **state)
{
	(void)state;
	struct store s;
	store_open(&s, "flush-error@3,slow-flush=1ms@50%,connection=2,seed=1");
	for (unsigned n = 1; n <= 3; n++) {
		write_slot(&s, n);
		expect_written(&s, n);
		flush_slot(&s, n);
		expect_wc(&s, n, n < 3 ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
	}
	store_forget(&s);
}

/* one client of three is rejected, and the server never sees its request */
static void
rejections(void **state)
{
	(void)state;
	struct pair p;
	setenv(VARIABLE, "reject@2", 1);
	assert_int_equal(pair_open(&p, addr, NULL, NULL), 0); /* the first one */
	for (int n = 2; n <= 3; n++) {
		struct rpma_conn_req *req = NULL;
		struct rpma_conn *conn = NULL, *server = NULL;
		enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
		assert_int_equal(rpma_conn_req_new(p.client.peer, addr, p.port, NULL, &req), 0);
		assert_int_equal(rpma_conn_req_connect(&req, NULL, &conn), 0);
		if (n == 3) {
			assert_int_equal(wait_conn_req(p.ep, NULL, &req, WAIT_MS), 0);
			assert_int_equal(rpma_conn_req_connect(&req, NULL, &server), 0);
		}
		assert_int_equal(wait_event(conn, &event, WAIT_MS), 0);
		assert_int_equal(event, n == 2 ? RPMA_CONN_REJECTED : RPMA_CONN_ESTABLISHED);
		if (n == 2)
			assert_int_equal(wait_conn_req(p.ep, NULL, &req, 0), RPMA_E_NO_EVENT);
		rpma_conn_delete(&conn);
		rpma_conn_delete(&server);
	}
	pair_close(&p);
	unsetenv(VARIABLE);
}

/* which write of each of ten connections fails first: the same for the same seed */
static void
outcomes(const char *faults, unsigned failed_at[static 10])
{
	for (unsigned i = 0; i < 10; i++) {
		struct store s;
		struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
		unsigned n = 0;
		store_open(&s, faults);
		for (; n < SLOTS && wc.status == IBV_WC_SUCCESS; n++) {
			write_slot(&s, n);
			assert_int_equal(wait_wc(s.pair.client.cq, &wc, WAIT_MS), 0);
			expect_slot(&s, n, wc.status == IBV_WC_SUCCESS);
		}
		failed_at[i] = wc.status == IBV_WC_SUCCESS ? 0 : n;
		store_forget(&s);
	}
	struct ibv_context *ctx; /* opening the device without the variable resets its count of connections */
	assert_int_equal(rpma_utils_get_ibv_context(addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx), 0);
}

static void
reproducible(void **state)
{
	(void)state;
	unsigned first[10], again[10], other[10];
	outcomes("wc-error=rem_op@10%,delay=50us@30%,seed=11", first);
	outcomes("wc-error=rem_op@10%,delay=50us@30%,seed=11", again);
	outcomes("wc-error=rem_op@10%,delay=50us@30%,seed=12", other);
	assert_memory_equal(first, again, sizeof(first));
	assert_memory_not_equal(first, other, sizeof(first));
}

static int
setup(void **state)
{
	(void)state;
	deadline_start("injected faults", SECONDS);
	return rpma_log_set_function(keep_log);
}

static int
teardown(void **state)
{
	(void)state;
	deadline_stop();
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_device_with_a_wrong_word),
		cmocka_unit_test(told_in_the_log),
		cmocka_unit_test(errors_of_operations),
		cmocka_unit_test(silence),
		cmocka_unit_test(disconnects),
		cmocka_unit_test(flushes),
		cmocka_unit_test(rejections),
		cmocka_unit_test(reproducible),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
