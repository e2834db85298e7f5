/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_perf_control.c -- messages arrive unchanged, invalid ones are refused, and no wait is without an end */

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "control.h"

#define WHILE_MS 1000 /* for what comes at once */

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

static const char a_setup[] =
	"{\"type\":\"setup\",\"op\":\"send\",\"flush_type\":\"visibility\",\"size\":4096,\"depth\":16,\"signal_every\":8,"
	"\"connections\":3,\"threads\":2,\"target_waits\":\"fd\",\"verify\":true}\n";

static struct control_message msg, received;
static int fds[2];

static int
open_pair(void **state)
{
	(void)state;
	return socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
}

static int
close_pair(void **state)
{
	(void)state;
	return close(fds[0]) || close(fds[1]);
}

static void
encoded(const struct control_message *message, char text[static CONTROL_LINE_MAX])
{
	char *line = control_encode(message);
	assert_non_null(line);
	assert_true(strlen(line) < CONTROL_LINE_MAX);
	strcpy(text, line);
	free(line);
}

static bool
decode(const char *line)
{
	char why[WHY_MAX];
	return control_decode(line, strlen(line), &received, why);
}

static void
refuses(const char *line, const char *reason)
{
	char why[WHY_MAX] = "";
	assert_false(control_decode(line, strlen(line), &received, why));
	if (strstr(why, reason) == NULL)
		fail_msg("\"%s\" is refused by \"%s\" and not by \"%s\"", line, why, reason);
}

/* ---- the form ---- */

static void
load_goes_through(void **state)
{
	(void)state;
	static char line[CONTROL_LINE_MAX];
	msg = (struct control_message){ .type = CONTROL_SETUP, .load = a_load };
	encoded(&msg, line);
	assert_string_equal(line, a_setup);
	assert_true(decode(line));
	assert_int_equal(received.type, CONTROL_SETUP);
	const struct load *load = &received.load;
	assert_int_equal(load->op, a_load.op);
	assert_int_equal(load->flush_type, a_load.flush_type);
	assert_int_equal(load->size, a_load.size);
	assert_int_equal(load->depth, a_load.depth);
	assert_int_equal(load->signal_every, a_load.signal_every);
	assert_int_equal(load->connections, a_load.connections);
	assert_int_equal(load->threads, a_load.threads);
	assert_int_equal(load->target_waits, a_load.target_waits);
	assert_true(load->verify);
	assert_int_equal(load->batch, 1);
	assert_int_equal(load->pieces, 1);
}

static void
others_go_through(void **state)
{
	(void)state;
	static char line[CONTROL_LINE_MAX];
	msg = (struct control_message){ .type = CONTROL_READY,
		.ready = { .token = UINT64_MAX - 1, .port = 7471, .memory = "DRAM" } };
	encoded(&msg, line);
	assert_true(decode(line));
	assert_true(received.ready.token == UINT64_MAX - 1);
	assert_int_equal(received.ready.port, 7471);
	assert_string_equal(received.ready.memory, "DRAM");

	/* terminals interpret some bytes, and some are no UTF-8 */
	msg = (struct control_message){
		.type = CONTROL_RESULT,
		.result = { .cpu = { 1, 2 }, .clients = 3, .wrong = 4, .first_wrong = "a\033[31mb\n\377\"\\" }
	};
	encoded(&msg, line);
	assert_true(decode(line));
	assert_int_equal(received.result.cpu.user_us, 1);
	assert_int_equal(received.result.cpu.system_us, 2);
	assert_int_equal(received.result.clients, 3);
	assert_int_equal(received.result.wrong, 4);
	assert_string_equal(received.result.first_wrong, "a?[31mb??\"\\");

	msg = (struct control_message){ .type = CONTROL_ERROR };
	memset(msg.sentence, 'x', sizeof(msg.sentence) - 1);
	encoded(&msg, line);
	assert_true(decode(line));
	assert_string_equal(received.sentence, msg.sentence);
	for (int type = CONTROL_GO; type <= CONTROL_MARK; type++) {
		msg = (struct control_message){ .type = (enum control_type)type };
		encoded(&msg, line);
		assert_true(decode(line));
		assert_int_equal(received.type, type);
	}
}

/* the largest counts of the most connections fit into a line */
static void
counts_go_through(void **state)
{
	(void)state;
	static char line[CONTROL_LINE_MAX];
	msg = (struct control_message){ .type = CONTROL_FINISH };
	msg.counts.count = LOAD_CONNECTIONS_MAX;
	for (uint32_t i = 0; i < LOAD_CONNECTIONS_MAX; i++)
		msg.counts.posted[i] = INT64_MAX - i;
	encoded(&msg, line);
	assert_true(decode(line));
	assert_int_equal(received.counts.count, LOAD_CONNECTIONS_MAX);
	assert_memory_equal(received.counts.posted, msg.counts.posted, sizeof(msg.counts.posted));

	assert_true(decode("{\"type\":\"finish\",\"posted\":[7]}"));
	assert_int_equal(received.counts.count, 1);
	refuses("{\"type\":\"finish\",\"posted\":[]}", "no list of 1 to 4096");
	refuses("{\"type\":\"finish\",\"posted\":7}", "no list");
	refuses("{\"type\":\"finish\",\"posted\":[-1]}", "is -1");
	refuses("{\"type\":\"finish\",\"posted\":[1,2.0]}", "no whole number");
	refuses("{\"type\":\"finish\",\"posted\":[1,\"2\"]}", "no whole number");
	strcpy(line, "{\"type\":\"finish\",\"posted\":[0");
	for (int i = 0; i < LOAD_CONNECTIONS_MAX; i++)
		strcat(line + 2 * i, ",0");
	strcat(line, "]}");
	refuses(line, "no list of 1 to 4096");
}

/* the line of a_setup with something else in the place of a part of it */
static const char *
changed(const char *part, const char *with)
{
	static char line[2048];
	const char *at = strstr(a_setup, part);
	assert_non_null(at);
	snprintf(line, sizeof(line), "%.*s%s%s", (int)(at - a_setup), a_setup, with, at + strlen(part));
	return line;
}

static void
wrong_loads_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *part, *with, *reason;
	} cases[] = {
		{ "\"send\"", "\"fly\"", "\"op\" is not known" },
		{ "\"send\"", "1", "\"op\" is not known" },
		{ "\"visibility\"", "\"never\"", "\"flush_type\" is not known" },
		{ "\"fd\"", "\"nap\"", "\"target_waits\" is not known" },
		{ "4096", "0", "\"size\" is 0: from 1 to 1073741824" },
		{ "4096", "1073741825", "\"size\" is 1073741825" },
		{ "4096", "-1", "\"size\" is -1" },
		{ "4096", "4096.0", "\"size\" is no whole number" },
		{ "4096", "\"4096\"", "\"size\" is no whole number" },
		{ "4096", "18446744073709551615", "not the control protocol's" },
		{ "4096", "1e3", "\"size\" is no whole number" },
		{ ":16", ":0", "\"depth\" is 0" },
		{ ":16", ":8193", "\"depth\" is 8193" },
		{ ":8,", ":0,", "\"signal_every\" is 0" },
		{ ":8,", ":8193,", "\"signal_every\" is 8193" },
		{ ":3,", ":0,", "\"connections\" is 0" },
		{ ":3,", ":4097,", "\"connections\" is 4097" },
		{ ":2,", ":0,", "\"threads\" is 0" },
		{ ":2,", ":257,", "\"threads\" is 257" },
		{ ":2,", ":4,", "4 threads are more than 3 connections" },
		{ "true", "1", "\"verify\" is neither" },
		{ "true", "null", "\"verify\" is neither" },
		{ "\"send\"", "\"cas\"", "cas has 8 bytes" },
		{ "\"fd\"", "\"pause\"", "pauses" },
		{ "\"depth\":16,", "", "has no \"depth\"" },
		{ "\"depth\":16,", "\"depth\":16,\"more\":1,", "keys that are not known" },
		{ "\"depth\":16,", "\"depth\":16,\"depth\":17,", "not the control protocol's" },
		{ "true}", "true}}", "not the control protocol's" },
		{ "true}", "true", "not the control protocol's" },
		{ "\"type\":\"setup\",", "", "no \"type\" that is known" },
		{ "\"type\":\"setup\"", "\"type\":\"\"", "no \"type\" that is known" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		refuses(changed(cases[i].part, cases[i].with), cases[i].reason);
	/* a target may pause if it gets no messages */
	msg = (struct control_message){ .type = CONTROL_SETUP, .load = a_load };
	msg.load.op = OP_WRITE;
	msg.load.target_waits = WAY_PAUSE;
	static char line[CONTROL_LINE_MAX];
	encoded(&msg, line);
	assert_true(decode(line));
}

/* a line that ends early is no message, wherever that is */
static void
cut_lines_are_refused(void **state)
{
	(void)state;
	char why[WHY_MAX];
	const size_t len = strlen(a_setup) - 1; /* the newline is not needed */
	for (size_t i = 0; i < len; i++)
		assert_false(control_decode(a_setup, i, &received, why));
	assert_true(control_decode(a_setup, len, &received, why));
}

static void
wrong_texts_are_refused(void **state)
{
	(void)state;
	char line[1024];
	snprintf(line, sizeof(line), "{\"type\":\"error\",\"sentence\":\"%0256d\"}", 0);
	refuses(line, "no text of at most 255 bytes");
	refuses("{\"type\":\"error\",\"sentence\":1}", "no text");
	refuses("{\"type\":\"error\",\"sentence\":\"a\\u0000b\"}", "not the control protocol's");
	refuses("{\"type\":\"error\",\"sentence\":\"\377\"}", "not the control protocol's");
	refuses("{\"type\":\"ready\",\"token\":\"12\",\"port\":1,\"memory\":\"\"}", "\"token\" is not known");
	refuses("{\"type\":\"ready\",\"token\":\"0123456789ABCDEF\",\"port\":1,\"memory\":\"\"}",
		"\"token\" is not known");
	refuses("{\"type\":\"ready\",\"token\":\"0123456789abcdef\",\"port\":0,\"memory\":\"\"}",
		"\"port\" is 0");
	assert_true(decode("{\"type\":\"error\",\"sentence\":\"a\\u001b[31m\\u00e9\"}"));
	assert_string_equal(received.sentence, "a?[31m??");
}

/* brackets in a text do not count */
static void
deep_lines_are_refused(void **state)
{
	(void)state;
	static char line[CONTROL_LINE_MAX];
	assert_true(decode("{\"type\":\"error\",\"sentence\":\"[[[{{{\\\"[[[\"}"));
	assert_string_equal(received.sentence, "[[[{{{\"[[[");
	refuses("{\"type\":\"finish\",\"posted\":[[1]]}", "nested too deeply");
	memset(line, '[', sizeof(line) - 1);
	refuses(line, "nested too deeply");
}

static void
versions_differ(void **state)
{
	(void)state;
	unsigned version;
	assert_true(decode("{\"type\":\"hello\",\"version\":3}"));
	/* what a later version says besides is of no interest */
	refuses("{\"type\":\"hello\",\"version\":4,\"more\":[1]}",
		"versions 3 and 4 of the control protocol");
	refuses("{\"type\":\"hello\",\"version\":2}", "versions 3 and 2");
	refuses("{\"type\":\"hello\"}", "has no \"version\"");
	assert_true(decode("{\"type\":\"error\",\"sentence\":\"go away\",\"more\":1}"));
	refuses("GET / HTTP/1.1", "no rpma-perf");
	refuses("[]", "no rpma-perf");
	refuses("", "no rpma-perf");

	assert_true(control_is_old("RPPF\002\001", 6, &version));
	assert_int_equal(version, 258);
	assert_false(control_is_old("RPPF\002", 5, &version));
	assert_false(control_is_foreign("RPPF\002", 5));
	assert_true(control_is_foreign("RPPF\002\001", 6));
	assert_true(control_is_foreign("RPPG", 4));
	assert_true(control_is_foreign("G", 1));
	assert_false(control_is_foreign("RP", 2));
	assert_false(control_is_foreign("{", 1));
}

/* decoding any bytes never reads beyond the line; the sanitizers check that */
static void
any_bytes(void **state)
{
	(void)state;
	static const char pieces[] = "{}[]\",:\\\"type\"setup1-.e\n\377";
	unsigned short seed[3] = { 1, 2, 3 };
	char why[WHY_MAX];
	for (int i = 0; i < 20000; i++) {
		size_t len = (size_t)(nrand48(seed) % 64);
		char *bytes = malloc(len ? len : 1);
		assert_non_null(bytes);
		for (size_t j = 0; j < len; j++)
			bytes[j] = i % 2 ? (char)nrand48(seed)
					 : pieces[(size_t)nrand48(seed) % (sizeof(pieces) - 1)];
		(void)control_decode(bytes, len, &received, why);
		(void)control_is_foreign(bytes, len);
		free(bytes);
	}
}

/* ---- the connection ---- */

static void
put(const char *bytes, size_t len)
{
	assert_int_equal(write(fds[0], bytes, len), len);
}

static bool
receive(enum control_type type, bool *is_closed, const char *reason)
{
	char why[WHY_MAX] = "";
	bool good = control_receive(fds[1], type, WHILE_MS, &received, is_closed, why);
	if (reason && (good || strstr(why, reason) == NULL))
		fail_msg("\"%s\", and not \"%s\"", why, reason);
	return good;
}

/* a line is taken whole, and the next one stays in the socket, where poll(2) finds it */
static void
lines_are_taken_one_by_one(void **state)
{
	(void)state;
	char why[WHY_MAX], rest[64];
	bool is_closed;
	put(a_setup, strlen(a_setup));
	put("{\"type\":\"mark\"}\nrest", 20);
	assert_true(receive(CONTROL_SETUP, NULL, NULL));
	assert_int_equal(received.load.depth, 16);
	assert_true(receive(CONTROL_MARK, NULL, NULL));
	assert_int_equal(read(fds[1], rest, sizeof(rest)), 4);

	msg = (struct control_message){ .type = CONTROL_SETUP, .load = a_load };
	assert_true(control_send(fds[0], &msg, why));
	assert_true(receive(CONTROL_SETUP, NULL, NULL));
	shutdown(fds[0], SHUT_WR);
	assert_false(receive(CONTROL_SETUP, &is_closed, "has gone"));
	assert_true(is_closed);
}

static void
other_messages_are_errors(void **state)
{
	(void)state;
	bool is_closed;
	put("{\"type\":\"mark\"}\n", 16);
	receive(CONTROL_GO, NULL, "sent \"mark\" where \"go\" was expected");
	put("{\"type\":\"error\",\"sentence\":\"no room\"}\n", 38);
	receive(CONTROL_GO, NULL, "the other side says: no room");
	put("{\"type\":", 8);
	shutdown(fds[0], SHUT_WR);
	receive(CONTROL_GO, &is_closed, "has gone");
	assert_false(is_closed); /* in the middle of a message */
}

/* what is no message is refused without waiting for its end, and an old program gets a message that it understands */
static void
foreign_bytes_are_refused_at_once(void **state)
{
	(void)state;
	char answer[64];
	put("GET / HTTP/1.1", 14);
	receive(CONTROL_HELLO, NULL, "no rpma-perf");
	put("RPPF\002\000\001\000\000\000\000\000", 12);
	receive(CONTROL_HELLO, NULL, "versions 3 and 2");
	assert_int_equal(read(fds[0], answer, sizeof(answer)), 12);
	assert_memory_equal(answer, "RPPF\003\000\010\000\000\000\000\000", 12);
}

static void
waits_end(void **state)
{
	(void)state;
	char why[WHY_MAX];
	bool is_closed;
	assert_false(control_receive(fds[1], CONTROL_GO, 1, &received, &is_closed, why));
	assert_non_null(strstr(why, "has not answered in time"));
	assert_false(is_closed);
}

static void *
pour(void *arg)
{
	char bytes[4096];
	memset(bytes, ' ', sizeof(bytes));
	bytes[0] = '{';
	while (send(*(int *)arg, bytes, sizeof(bytes), MSG_NOSIGNAL) > 0)
		;
	return NULL;
}

static void
lines_are_bounded(void **state)
{
	(void)state;
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, pour, &fds[0]), 0);
	receive(CONTROL_GO, NULL, "a line of more than 98304 bytes");
	shutdown(fds[1], SHUT_RDWR);
	pthread_join(thread, NULL);
}

/* the sentence arrives although the other side's bytes were left unread */
static void
refusals_arrive(void **state)
{
	(void)state;
	put("what is this?", 13);
	shutdown(fds[0], SHUT_WR);
	control_refuse(fds[1], "not like this");
	int swap = fds[0];
	fds[0] = fds[1], fds[1] = swap;
	receive(CONTROL_GO, NULL, "says: not like this");
}

/* ---- sockets ---- */

/* fills the queue of a listener: the kernel drops the requests of further connections, as a firewall does */
static int
silent_listener(char port[static 8], int clients[static 4])
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(listen(fd, 0), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	snprintf(port, 8, "%u", ntohs(addr.sin_port));
	for (int i = 0; i < 4; i++) {
		clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		assert_true(clients[i] >= 0);
		assert_true(connect(clients[i], (struct sockaddr *)&addr, len) == 0 || errno == EINPROGRESS);
	}
	return fd;
}

/* without an answer the kernel itself ends a connection after a minute or more, with the same error */
#define KERNEL_PATIENCE_S 60

static time_t
now_s(void)
{
	struct timespec now;
	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	return now.tv_sec;
}

static void
connecting_ends(void **state)
{
	(void)state;
	char port[8], why[WHY_MAX];
	int clients[4], fd = -1, listener = silent_listener(port, clients);
	const time_t began_s = now_s();
	assert_false(control_connect("127.0.0.1", port, 200, &fd, why));
	assert_true(now_s() - began_s < KERNEL_PATIENCE_S);
	assert_non_null(strstr(why, "no answer within 0.2 seconds; does a firewall"));
	/* each address of a name has its part of the time */
	assert_false(control_connect("localhost", port, 200, &fd, why));
	for (int i = 0; i < 4; i++)
		close(clients[i]);
	close(listener);
	assert_false(control_connect("127.0.0.1", port, 200, &fd, why));
	assert_non_null(strstr(why, "Connection refused"));
	assert_int_equal(fd, -1);
}

static void
connections_are_made(void **state)
{
	(void)state;
	char text[8], client[CONTROL_TEXT_MAX], why[WHY_MAX];
	int listener, here, there;
	uint16_t port;
	bool is_closed;
	assert_true(control_listen("127.0.0.1", "0", &listener, &port, why));
	snprintf(text, sizeof(text), "%u", port);
	assert_true(control_connect("127.0.0.1", text, WHILE_MS, &here, why));
	assert_true(control_accept(listener, &there, client, why));
	assert_string_equal(client, "127.0.0.1");
	msg = (struct control_message){ .type = CONTROL_HELLO, .version = CONTROL_VERSION };
	assert_true(control_send(here, &msg, why));
	assert_true(control_receive(there, CONTROL_HELLO, WHILE_MS, &received, &is_closed, why));
	close(here);
	close(there);
	close(listener);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(load_goes_through),
		cmocka_unit_test(others_go_through),
		cmocka_unit_test(counts_go_through),
		cmocka_unit_test(wrong_loads_are_refused),
		cmocka_unit_test(cut_lines_are_refused),
		cmocka_unit_test(wrong_texts_are_refused),
		cmocka_unit_test(deep_lines_are_refused),
		cmocka_unit_test(versions_differ),
		cmocka_unit_test(any_bytes),
		cmocka_unit_test_setup_teardown(lines_are_taken_one_by_one, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(other_messages_are_errors, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(foreign_bytes_are_refused_at_once, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(waits_end, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(lines_are_bounded, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(refusals_arrive, open_pair, close_pair),
		cmocka_unit_test(connecting_ends),
		cmocka_unit_test(connections_are_made),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
