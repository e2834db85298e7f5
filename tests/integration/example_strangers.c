/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * example_strangers.c -- the examples with a peer that breaks the rules
 *
 * A program must not follow wrong data out of its memory, nor accept it. It ends with status 1, or, if it
 * serves many, continues for the others.
 */

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

#include <librpma.h>

#include "deadline.h"
#include "net.h"
#include "process.h"
#include "wait.h"

#define ADDR "127.0.0.1"
#define TIME_MS 20000
#define TRIES 20
#define MEMORY 4096

static struct proc program;
static char port[NET_PORT_LEN];
static char *memory;
static struct rpma_peer *peer;
static struct rpma_mr_local *mr;

static char *
text(const char *s)
{
	return (char *)(uintptr_t)s;
}

static void
expect_end(int status)
{
	assert_int_equal(proc_wait(&program, TIME_MS), status);
	proc_kill(&program);
}

static void
expect_line(const char *expected)
{
	if (proc_wait_line(&program, expected, NULL, 0, TIME_MS))
		fail_msg("no line with: %s", expected);
}

/* another process may take the free port before the server listens on it; then another port is tried */
static void
start_server(const char *path, const char *arg)
{
	for (int i = 0; i < TRIES; i++) {
		char *argv[] = { text(path), ADDR, port, text(arg), NULL };
		assert_int_equal(net_free_port(ADDR, port), 0);
		assert_int_equal(proc_start(&program, argv, NULL), 0);
		if (proc_wait_line(&program, "listening", NULL, 0, TIME_MS) == 0)
			return;
		proc_kill(&program);
	}
	fail_msg("the server does not listen");
}

static struct rpma_ep *
listen_for_client(void)
{
	struct rpma_ep *ep = NULL;

	for (int i = 0; i < TRIES && ep == NULL; i++) {
		assert_int_equal(net_free_port(ADDR, port), 0);
		(void)rpma_ep_listen(peer, ADDR, port, &ep);
	}
	assert_non_null(ep);
	return ep;
}

static enum rpma_conn_event
next_event(struct rpma_conn *conn)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	assert_int_equal(wait_event(conn, &event, TIME_MS), 0);
	return event;
}

static struct rpma_conn *
connect_with(const void *bytes, uint8_t len, enum rpma_conn_event expected)
{
	const struct rpma_conn_private_data pdata = { (void *)(uintptr_t)bytes, len };
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;

	assert_int_equal(rpma_conn_req_new(peer, ADDR, port, NULL, &req), 0);
	assert_int_equal(rpma_conn_req_connect(&req, len ? &pdata : NULL, &conn), 0);
	assert_int_equal(next_event(conn), expected);
	return conn;
}

static void
disconnect(struct rpma_conn **conn)
{
	(void)rpma_conn_disconnect(*conn);
	assert_int_equal(rpma_conn_delete(conn), 0);
}

static void
send_bytes(struct rpma_conn *conn, const void *bytes, size_t len)
{
	assert_true(len <= MEMORY);
	memcpy(memory, bytes, len);
	assert_int_equal(rpma_send(conn, len ? mr : NULL, 0, len, RPMA_F_COMPLETION_ON_ERROR, NULL), 0);
}

/* a client of the test itself connects and sends this message; the server must end with status 1 */
static void
server_refuses(const char *path, const void *bytes, size_t len)
{
	start_server(path, NULL);
	struct rpma_conn *conn = connect_with(NULL, 0, RPMA_CONN_ESTABLISHED);
	send_bytes(conn, bytes, len);
	/* it must not wait until this side ends the connection */
	assert_int_equal(next_event(conn), RPMA_CONN_CLOSED);
	disconnect(&conn);
	expect_end(1);
}

static void
messages_of_a_wrong_length(void **state)
{
	static const char bytes[9] = { 1 };
	static const char *const servers[] = { PING_PONG, PING_PONG_SRQ, PING_PONG_RCQ, PING_PONG_SCCH };

	(void)state;
	for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
		server_refuses(servers[i], bytes, 7);
		server_refuses(servers[i], bytes, 0);
		server_refuses(servers[i], bytes, sizeof(bytes));
	}
}

/* immediate data: announced with a wrong value, not announced, or not sent */
static void
immediate_data(void **state)
{
	static const uint8_t announced[4] = { 42 };

	(void)state;
	start_server(SEND_IMM, NULL);
	struct rpma_conn *conn = connect_with(NULL, 0, RPMA_CONN_REJECTED);
	disconnect(&conn);
	expect_line("announced no immediate data");
	expect_end(1);

	start_server(SEND_IMM, NULL);
	conn = connect_with(announced, 3, RPMA_CONN_REJECTED);
	disconnect(&conn);
	expect_end(1);

	start_server(SEND_IMM, NULL);
	conn = connect_with(announced, 4, RPMA_CONN_ESTABLISHED);
	assert_int_equal(rpma_send_with_imm(conn, NULL, 0, 0, RPMA_F_COMPLETION_ON_ERROR, 43, NULL), 0);
	expect_line("immediate data '43', and not with '42'");
	disconnect(&conn);
	expect_end(1);

	start_server(SEND_IMM, NULL);
	conn = connect_with(announced, 4, RPMA_CONN_ESTABLISHED);
	send_bytes(conn, "word", 5);
	expect_line("without immediate data");
	disconnect(&conn);
	expect_end(1);

	/* a message instead of a write */
	start_server(WRITE_IMM, NULL);
	conn = connect_with(NULL, 0, RPMA_CONN_ESTABLISHED);
	assert_int_equal(rpma_send_with_imm(conn, NULL, 0, 0, RPMA_F_COMPLETION_ON_ERROR, 0, NULL), 0);
	expect_line("was to write");
	disconnect(&conn);
	expect_end(1);
}

#ifdef GPSPM
/* requests to flush memory that does not exist; in bytes of protobuf: tag 8 offset, tag 16 length */
static void
flush_requests(void **state)
{
	static const struct {
		uint8_t bytes[32];
		size_t len;
	} requests[] = {
		{ { 0x08, 0x81, 0x08 }, 3 },             /* offset 1025, one past the end */
		{ { 0x10, 0x81, 0x08 }, 3 },             /* length 1025 */
		{ { 0x08, 0x01, 0x10, 0x80, 0x08 }, 5 }, /* one byte too many, from offset 1 */
		{ { 0x08, 0x80, 0x08, 0x10, 0x01 }, 5 }, /* one byte, from the end */
		{ { 0x08, 0x10, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 },
			13 }, /* wraps */
		{ { 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x10, 0x01 }, 13 },
		{ { 0x08 }, 1 },             /* cut off */
		{ { 0xff, 0xff, 0xff }, 3 }, /* not protobuf at all */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		server_refuses(GPSPM, requests[i].bytes, requests[i].len);
}
#endif

/* the description of a server's memory: offset 0, a descriptor, no configuration */
static void
describe_memory(uint8_t bytes[static 28])
{
	size_t len;

	memset(bytes, 0, 28);
	assert_int_equal(rpma_mr_get_descriptor_size(mr, &len), 0);
	assert_true(len <= 24);
	bytes[2] = (uint8_t)len;
	assert_int_equal(rpma_mr_get_descriptor(mr, bytes + 4), 0);
}

/*
 * a server of the test itself, which sends the client these private data, and waits until the client has
 * ended
 */
static void
serve_client(char *const argv[], const uint8_t *bytes, uint8_t len)
{
	const struct rpma_conn_private_data pdata = { (void *)(uintptr_t)bytes, len };
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;
	struct rpma_ep *ep = listen_for_client();

	assert_int_equal(proc_start(&program, argv, NULL), 0);
	assert_int_equal(wait_conn_req(ep, NULL, &req, TIME_MS), 0);
	assert_int_equal(rpma_conn_req_connect(&req, &pdata, &conn), 0);
	assert_int_equal(next_event(conn), RPMA_CONN_ESTABLISHED);
	assert_int_equal(next_event(conn), RPMA_CONN_CLOSED);
	disconnect(&conn);
	assert_int_equal(rpma_ep_shutdown(&ep), 0);
}

/* a log that claims to be longer than its memory */
static void
used_of_a_log(void **state)
{
	char *argv[] = { ATOMIC_WRITE, ADDR, port, "word", NULL };
	static const uint64_t used[] = { 1025, UINT64_MAX, (uint64_t)INT64_MAX + 1 };
	uint8_t bytes[28];

	(void)state;
	describe_memory(bytes);
	for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
		memset(memory, 0x5a, MEMORY);
		memcpy(memory, &used[i], sizeof(used[i]));
		serve_client(argv, bytes, sizeof(bytes));
		expect_line("no valid log");
		expect_end(1);
		/* nothing was written */
		for (size_t at = sizeof(used[i]); at < MEMORY; at++)
			assert_int_equal(memory[at], 0x5a);
	}

	/* a region with too little room for the log */
	bytes[0] = 0xf9;
	bytes[1] = 0x0b; /* from 3065 on: 1031 bytes, and 1032 are needed */
	serve_client(argv, bytes, sizeof(bytes));
	expect_line("too small");
	expect_end(1);
}

/* a text without a terminating zero, and with control sequences of terminals */
static void
text_for_a_terminal(void **state)
{
	char *argv[] = { CONNECTION, ADDR, port, NULL };
	uint8_t bytes[255];
	char line[512];
	char expected[512];

	(void)state;
	memset(bytes, 'x', sizeof(bytes));
	bytes[0] = '\033';
	bytes[1] = '\n';
	serve_client(argv, bytes, sizeof(bytes));
	assert_int_equal(proc_wait_line(&program, "Received a message", line, sizeof(line), TIME_MS), 0);
	int len = snprintf(expected, sizeof(expected), "Received a message: ??");
	memset(expected + len, 'x', sizeof(bytes) - 2);
	expected[(size_t)len + sizeof(bytes) - 2] = '\0';
	assert_string_equal(line, expected);
	expect_end(0);
}

/* clients that break the rules lose their connection; the others are still served */
static void
one_of_many(void **state)
{
	static const uint64_t numbers[] = { 5, 6, 7, 8 };
	struct rpma_conn *good;
	struct rpma_conn *bad;
	struct rpma_cq *cq;
	struct ibv_wc wc;
	uint64_t answer;

	(void)state;
	start_server(MANY, "600");
	good = connect_with(NULL, 0, RPMA_CONN_ESTABLISHED);
	assert_int_equal(rpma_conn_get_cq(good, &cq), 0);

	bad = connect_with(NULL, 0, RPMA_CONN_ESTABLISHED);
	send_bytes(bad, numbers, 3);
	assert_int_equal(next_event(bad), RPMA_CONN_CLOSED);
	disconnect(&bad);

	/* the client has posted no receive for the answers; its messages continue all the same */
	bad = connect_with(NULL, 0, RPMA_CONN_ESTABLISHED);
	memcpy(memory, numbers, sizeof(numbers));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		assert_int_equal(rpma_send(bad, mr, i * 8, 8, RPMA_F_COMPLETION_ON_ERROR, NULL), 0);
	expect_line("does not wait for its answers");
	assert_int_equal(next_event(bad), RPMA_CONN_CLOSED);
	disconnect(&bad);

	assert_int_equal(rpma_recv(good, mr, 64, 8, NULL), 0);
	send_bytes(good, &numbers[0], 8);
	assert_int_equal(wait_wc(cq, &wc, TIME_MS), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	memcpy(&answer, memory + 64, sizeof(answer));
	assert_int_equal(answer, 6);
	disconnect(&good);
	proc_kill(&program);
}

/* a name in memory that is too short, and an invalid description */
static void
names(void **state)
{
	uint8_t bytes[28];
	struct rpma_conn *conn;

	(void)state;
	start_server(NAMES, NULL);
	memset(memory, 'n', MEMORY);
	describe_memory(bytes);
	bytes[0] = 0xfd;
	bytes[1] = 0x0f; /* from 4093 on: 3 bytes, without a terminating zero */
	conn = connect_with(bytes, sizeof(bytes), RPMA_CONN_ESTABLISHED);
	assert_int_equal(next_event(conn), RPMA_CONN_CLOSED);
	disconnect(&conn);
	/* lengths that end outside the private data */
	bytes[2] = 0xff;
	conn = connect_with(bytes, sizeof(bytes), RPMA_CONN_ESTABLISHED);
	assert_int_equal(next_event(conn), RPMA_CONN_CLOSED);
	disconnect(&conn);
	conn = connect_with(NULL, 0, RPMA_CONN_ESTABLISHED);
	assert_int_equal(next_event(conn), RPMA_CONN_CLOSED);
	disconnect(&conn);
	assert_int_equal(kill(program.pid, SIGTERM), 0);
	expect_line("Today I have got in touch with:");
	expect_line("- nnn");
	expect_end(0);
}

static int
setup(void **state)
{
	struct ibv_context *ctx;

	(void)state;
	deadline_start("strangers", 120);
	memory = aligned_alloc(MEMORY, MEMORY);
	if (memory == NULL || rpma_utils_get_ibv_context(ADDR, RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx) ||
		rpma_peer_new(ctx, &peer))
		return -1;
	return rpma_mr_reg(peer, memory, MEMORY,
		RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST |
			RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
		&mr);
}

static int
teardown(void **state)
{
	(void)state;
	proc_kill(&program);
	int ret = rpma_mr_dereg(&mr);
	ret = rpma_peer_delete(&peer) || ret;
	free(memory);
	deadline_stop();
	return ret;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(messages_of_a_wrong_length),
		TEST(immediate_data),
#ifdef GPSPM
		TEST(flush_requests),
#endif
		TEST(used_of_a_log),
		TEST(text_for_a_terminal),
		TEST(one_of_many),
		TEST(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
