/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * example_flush_to_persistent.c -- the example run as a user runs it: its output, and how it treats a lying
 * server
 */

#include <setjmp.h>
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

#define ADDR "127.0.0.1"
#define TIME_MS 20000
#define LINE 512
#define TRIES 20

static struct proc server;
static struct proc client;
static char port[NET_PORT_LEN];

static char *
text(const char *s)
{
	return (char *)(uintptr_t)s;
}

static void
expect_line(struct proc *p, const char *expected)
{
	char line[LINE];

	if (proc_wait_line(p, expected, line, sizeof(line), TIME_MS))
		fail_msg("no line with: %s", expected);
}

static void
expect_end(struct proc *p, int status)
{
	assert_int_equal(proc_wait(p, TIME_MS), status);
	proc_kill(p);
}

/* another process may take the free port before the server listens on it; then another port is tried */
static void
start_server(const char *path, const char *direct_write)
{
	for (int i = 0; i < TRIES; i++) {
		char *argv[] = { SERVER, ADDR, port, text(path), text(direct_write), NULL };
		assert_int_equal(net_free_port(ADDR, port), 0);
		assert_int_equal(proc_start(&server, argv, NULL), 0);
		if (proc_wait_line(&server, "listening", NULL, 0, TIME_MS) == 0)
			return;
		proc_kill(&server);
	}
	fail_msg("the server does not listen");
}

static void
start_client(const char *path, const char *offset)
{
	char *argv[] = { CLIENT, ADDR, port, text(path), text(offset), NULL };

	assert_int_equal(proc_start(&client, argv, NULL), 0);
}

static void
make_file(const char *path, off_t size)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(ftruncate(fileno(f), size), 0);
	assert_int_equal(fclose(f), 0);
}

static void
expect_greeting(const char *greeting, const char *translation)
{
	char line[LINE];

	snprintf(line, sizeof(line), "Next value: %s", greeting);
	expect_line(&client, line);
	expect_line(&client, "RPMA_FLUSH_TYPE_PERSISTENT is supported");
	expect_line(&client, "translating...");
	snprintf(line, sizeof(line), "Translation: %s", translation);
	expect_line(&client, line);
	expect_end(&client, 0);
	snprintf(line, sizeof(line), "New value: %s", greeting);
	expect_line(&server, line);
	expect_end(&server, 0);
}

static void
persistent(void **state)
{
	(void)state;
	make_file("server.pmem", 4096);
	make_file("client.pmem", 4096);
	start_server("server.pmem", NULL);
	start_client("client.pmem", NULL);
	expect_greeting("Hello world!", "¡Hola Mundo!");
	/* both have kept their content */
	start_server("server.pmem", "on");
	start_client("client.pmem", NULL);
	expect_greeting("¡Hola Mundo!", "Hello world!");
	start_server("server.pmem", "off");
	start_client("client.pmem", "2048");
	expect_greeting("Hello world!", "¡Hola Mundo!");
}

static void
old_value(void **state)
{
	char *argv[] = { SERVER, ADDR, port, "server.pmem", NULL };

	(void)state;
	make_file("server.pmem", 4096);
	start_server("server.pmem", NULL);
	start_client(NULL, NULL);
	expect_line(&client, "Next value: Hello world!");
	expect_end(&client, 0);
	expect_end(&server, 0);
	assert_int_equal(net_free_port(ADDR, port), 0);
	assert_int_equal(proc_start(&server, argv, NULL), 0);
	expect_line(&server, "listening");
	start_client(NULL, NULL);
	expect_end(&client, 0);
	/* standard output is a pipe here, so it is written only when the server ends */
	expect_line(&server, "Old value: Hello world!");
	expect_line(&server, "New value: Hello world!");
	expect_end(&server, 0);
}

/* memory that cannot be made durable: the client reports this and uses the weaker flush */
static void
volatile_memory(void **state)
{
	(void)state;
	start_server(NULL, NULL);
	start_client(NULL, NULL);
	expect_line(&client, "RPMA_FLUSH_TYPE_PERSISTENT is NOT supported");
	expect_line(&client, "Translation: ¡Hola Mundo!");
	expect_end(&client, 0);
	expect_line(&server, "New value: Hello world!");
	expect_end(&server, 0);
}

static void
wrong_arguments(void **state)
{
	static const char *const wrong[][5] = {
		{ NULL },
		{ ADDR, NULL },
		{ ADDR, "1", "client.pmem", "x", NULL },
		{ ADDR, "1", "client.pmem", "-1", NULL },
		{ ADDR, "1", "client.pmem", "99999999999999999999", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char *argv[] = { CLIENT, text(wrong[i][0]), text(wrong[i][1]), text(wrong[i][2]),
			text(wrong[i][3]), NULL };
		assert_int_equal(proc_start(&client, argv, NULL), 0);
		expect_line(&client, "usage:");
		expect_end(&client, 2);
	}
}

static void
unfit_files(void **state)
{
	(void)state;
	strcpy(port, "1");
	start_client("missing.pmem", NULL);
	expect_end(&client, 1);
	make_file("small.pmem", 1039);
	start_client("small.pmem", NULL);
	expect_line(&client, "too small");
	expect_end(&client, 1);
	make_file("client.pmem", 4096);
	start_client("client.pmem", "3057");
	expect_line(&client, "too small");
	expect_end(&client, 1);
	start_client("client.pmem", "18446744073709551615");
	expect_line(&client, "too small");
	expect_end(&client, 1);
}

/* a server of the test itself, which sends the client these private data */
static void
lie_to_client(struct rpma_ep *ep, uint8_t *bytes, uint8_t len)
{
	const struct rpma_conn_private_data pdata = { bytes, len };
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;
	enum rpma_conn_event event;

	start_client(NULL, NULL);
	assert_int_equal(rpma_ep_next_conn_req(ep, NULL, &req), 0);
	assert_int_equal(rpma_conn_req_connect(&req, len ? &pdata : NULL, &conn), 0);
	assert_int_equal(rpma_conn_next_event(conn, &event), 0);
	assert_int_equal(event, RPMA_CONN_ESTABLISHED);
	assert_int_equal(rpma_conn_next_event(conn, &event), 0);
	assert_int_equal(event, RPMA_CONN_CLOSED);
	assert_int_equal(rpma_conn_delete(&conn), 0);
	expect_end(&client, 1);
}

/*
 * offset, lengths and descriptors that point outside the private data, or outside the memory that they
 * describe: the client gives up and does nothing else
 */
static void
lies_about_the_memory(void **state)
{
	/* 28 bytes: offset, two lengths, address, size 16, key, usage (all), peer configuration */
	static const uint8_t good[28] = { 0, 0, 21, 1, [12] = 16, [20] = 1, [24] = 0xff };
	static const struct {
		size_t at;
		uint8_t value;
	} lies[] = {
		{ 2, 0 },   /* no descriptor */
		{ 2, 20 },  /* one byte too few */
		{ 2, 25 },  /* more than there is room for */
		{ 2, 255 }, /* far more */
		{ 3, 4 },   /* one byte too many in total */
		{ 3, 255 }, /* far too many in total, and more than 255 */
		{ 0, 16 },  /* the data begins at the end of the memory */
		{ 1, 255 }, /* far after the end */
		{ 0, 4 },   /* less memory than the text needs */
		{ 24, 0 },  /* memory without any right */
	};
	struct ibv_context *ctx;
	struct rpma_peer *peer = NULL;
	struct rpma_ep *ep = NULL;
	uint8_t bytes[28];

	(void)state;
	deadline_start("lies", 60);
	assert_int_equal(rpma_utils_get_ibv_context(ADDR, RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx), 0);
	assert_int_equal(rpma_peer_new(ctx, &peer), 0);
	for (int i = 0; i < TRIES && ep == NULL; i++) {
		assert_int_equal(net_free_port(ADDR, port), 0);
		(void)rpma_ep_listen(peer, ADDR, port, &ep);
	}
	assert_non_null(ep);
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		memcpy(bytes, good, sizeof(bytes));
		bytes[lies[i].at] = lies[i].value;
		lie_to_client(ep, bytes, sizeof(bytes));
	}
	memcpy(bytes, good, sizeof(bytes));
	lie_to_client(ep, bytes, 27);
	lie_to_client(ep, bytes, 0);
	/*
	 * everything is well-formed, but no region has this key: the write fails, and the client reports it
	 */
	lie_to_client(ep, bytes, sizeof(bytes));
	assert_int_equal(rpma_ep_shutdown(&ep), 0);
	assert_int_equal(rpma_peer_delete(&peer), 0);
	deadline_stop();
}

static int
setup(void **state)
{
	static char dir[32];

	snprintf(dir, sizeof(dir), "flush_to.XXXXXX");
	*state = dir;
	return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int
teardown(void **state)
{
	proc_kill(&client);
	proc_kill(&server);
	(void)unlink("server.pmem");
	(void)unlink("client.pmem");
	(void)unlink("small.pmem");
	return chdir("..") || rmdir(*state) ? -1 : 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(persistent),
		TEST(old_value),
		TEST(volatile_memory),
		TEST(wrong_arguments),
		TEST(unfit_files),
		TEST(lies_about_the_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
