/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_cm_msg.c -- the connection's first messages, on their way through a socket */

#include "connected.h"

#include <sys/ioctl.h>

#include "softrdma/base/sockaddr.h"
#include "softrdma/wire/cm_msg.h"

static int fds[2];

static void
open_pair(void)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

static void
close_pair(void)
{
	close(fds[0]);
	close(fds[1]);
}

static struct softrdma_cm_msg
a_message(const char *private_data)
{
	struct softrdma_cm_msg msg = { .length = 0 };
	struct softrdma_handshake hs = { .type = SOFTRDMA_HANDSHAKE_CONNECT, .qp_num = 5, .seq = 6 };
	softrdma_cm_msg_encode(&msg, &hs, private_data, (uint8_t)strlen(private_data));
	return msg;
}

/*
 * byte by byte: the message is complete with its last byte, not before, and what follows stays in the socket
 */
static void
test_pieces(void **state)
{
	(void)state;
	open_pair();
	struct softrdma_cm_msg sent = a_message("private"), got = { .length = 0 };
	assert_int_equal(sent.length, SOFTRDMA_HANDSHAKE_SIZE + 7);
	for (size_t i = 0; i < sent.length; i++) {
		assert_int_equal(softrdma_cm_msg_read(fds[1], NULL, &got), SOFTRDMA_CM_MSG_INCOMPLETE);
		raw_send(fds[0], sent.bytes + i, 1);
	}
	raw_send(fds[0], "!", 1);
	fail_call(FAIL_MINE, "recv", 0, 1, EINTR);
	assert_int_equal(softrdma_cm_msg_read(fds[1], NULL, &got), SOFTRDMA_CM_MSG_COMPLETE);
	assert_int_equal(fail_nothing(), 1);
	assert_int_equal(got.length, sent.length);
	assert_int_equal(got.peer.qp_num, 5);
	assert_int_equal(got.peer.seq, 6);
	assert_memory_equal(got.bytes, sent.bytes, sent.length);
	char left;
	raw_recv(fds[1], &left, 1);
	assert_int_equal(left, '!');
	close_pair();
}

/* the stream ends at every byte: the result is the end, and the message is never complete */
static void
test_truncated(void **state)
{
	(void)state;
	struct softrdma_cm_msg sent = a_message("private");
	for (size_t len = 0; len < sent.length; len++) {
		struct softrdma_cm_msg got = { .length = 0 };
		open_pair();
		if (len)
			raw_send(fds[0], sent.bytes, len);
		shutdown(fds[0], SHUT_WR);
		assert_int_equal(softrdma_cm_msg_read(fds[1], NULL, &got), SOFTRDMA_CM_MSG_ENDED);
		assert_int_equal(got.length, len);
		close_pair();
	}
	struct softrdma_cm_msg got = { .length = 0 };
	open_pair();
	fail_call(FAIL_MINE, "recv", 0, 1, ECONNRESET);
	assert_int_equal(softrdma_cm_msg_read(fds[1], NULL, &got), SOFTRDMA_CM_MSG_ENDED);
	fail_nothing();
	close_pair();
}

static void
test_strangers(void **state)
{
	(void)state;
	struct softrdma_cm_msg sent = a_message(""), got = { .length = 0 };
	open_pair();
	sent.bytes[0] ^= 1;
	raw_send(fds[0], sent.bytes, sent.length);
	assert_int_equal(softrdma_cm_msg_read(fds[1], NULL, &got), SOFTRDMA_CM_MSG_NOT_OURS);
	sent.bytes[0] ^= 1;
	sent.bytes[4] = 9;
	got.length = 0;
	raw_send(fds[0], sent.bytes, sent.length);
	assert_int_equal(softrdma_cm_msg_read(fds[1], NULL, &got), SOFTRDMA_CM_MSG_OTHER_VERSION);
	assert_int_equal(got.peer.version, 9);
	close_pair();
}

/* the other version may have shorter messages: magic and version are all that is waited for */
static void
test_other_version_in_pieces(void **state)
{
	(void)state;
	struct softrdma_cm_msg sent = a_message(""), got = { .length = 0 };
	open_pair();
	sent.bytes[4] = 9;
	for (size_t len = 0; len < 5; len++) {
		raw_send(fds[0], sent.bytes + len, 1);
		assert_int_equal(softrdma_cm_msg_read(fds[1], NULL, &got), SOFTRDMA_CM_MSG_INCOMPLETE);
	}
	raw_send(fds[0], sent.bytes + 5, 1);
	assert_int_equal(softrdma_cm_msg_read(fds[1], NULL, &got), SOFTRDMA_CM_MSG_OTHER_VERSION);
	assert_int_equal(got.peer.version, 9);
	close_pair();
}

/* any flipped bit after the version; a damaged length is not waited for */
static void
test_damage(void **state)
{
	(void)state;
	struct softrdma_cm_msg sent = a_message("private");
	for (size_t bit = 8 * 6; bit < 8 * sent.length; bit++) {
		struct softrdma_cm_msg got = { .length = 0 };
		open_pair();
		sent.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		raw_send(fds[0], sent.bytes, sent.length);
		assert_int_equal(softrdma_cm_msg_read(fds[1], NULL, &got), SOFTRDMA_CM_MSG_DAMAGED);
		sent.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		close_pair();
	}
}

static void
test_send(void **state)
{
	(void)state;
	struct softrdma_cm_msg msg = a_message("x");
	open_pair();
	fail_call(FAIL_MINE, "send", 0, 1, EINTR);
	assert_int_equal(softrdma_cm_msg_send(fds[0], NULL, &msg), 0);
	fail_call(FAIL_MINE, "send", 0, 1, FAIL_SHORT);
	assert_int_equal(softrdma_cm_msg_send(fds[0], NULL, &msg), EIO);
	fail_call(FAIL_MINE, "send", 0, 1, EPIPE);
	assert_int_equal(softrdma_cm_msg_send(fds[0], NULL, &msg), EPIPE);
	fail_nothing();
	softrdma_cm_msg_read_away(fds[1]);
	assert_false(readable(fds[1], 0));
	softrdma_cm_msg_reject(fds[0], NULL, SOFTRDMA_REJECT_BUSY, NULL, 0);
	shutdown(fds[0], SHUT_WR);
	raw_expect_reject(fds[1], SOFTRDMA_REJECT_BUSY);
	close_pair();
}

/* a refused peer that has sent more than any valid message, and would go on */
static void
test_read_away_is_bounded(void **state)
{
	(void)state;
	const size_t most = SOFTRDMA_READ_AWAY_SIZE * SOFTRDMA_READ_AWAY_TURNS;
	static uint8_t bytes[SOFTRDMA_READ_AWAY_SIZE * (SOFTRDMA_READ_AWAY_TURNS + 1)];
	int unread = 0;
	open_pair();
	raw_send(fds[0], bytes, sizeof(bytes));
	softrdma_cm_msg_read_away(fds[1]);
	assert_int_equal(ioctl(fds[1], FIONREAD, &unread), 0);
	assert_int_equal(unread, sizeof(bytes) - most);
	softrdma_cm_msg_read_away(fds[1]);
	assert_false(readable(fds[1], 0));
	close_pair();
}

/* check sums by default where they are of use; a user's setting overrides this; none inside TLS */
static void
test_wish(void **state)
{
	(void)state;
	static const struct {
		const char *value;
		uint8_t here, away;
	} cases[] = {
		{ NULL, 0, 1 },
		{ "", 0, 1 },
		{ "0", 2, 2 },
		{ "1", 3, 3 },
		{ "yes", 0, 1 },
		{ "2", 0, 1 },
	};
	struct sockaddr_in addr;
	int listening = raw_listen(&addr);
	int fd = raw_connect(&addr);
	struct softrdma_tls *tls = (struct softrdma_tls *)&addr; /* only compared with NULL */
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (cases[i].value)
			setenv("SOFTRDMA_CRC", cases[i].value, 1);
		log_clear();
		assert_int_equal(softrdma_cm_msg_wish(fd, NULL), cases[i].here);
		assert_int_equal(log_has("which is no number from 0 to 1: "), i >= 4);
		/* if the peer's location is unknown, it counts as remote */
		fail_call(FAIL_MINE, "getpeername", 0, 1, ENOTCONN);
		assert_int_equal(softrdma_cm_msg_wish(fd, NULL), cases[i].away);
		fail_call(FAIL_MINE, "getsockname", 0, 1, ENOBUFS);
		assert_int_equal(softrdma_cm_msg_wish(fd, NULL), cases[i].away);
		fail_nothing();
		assert_int_equal(softrdma_cm_msg_wish(fd, tls), 0);
	}
	unsetenv("SOFTRDMA_CRC");
	close(fd);
	close(listening);
}

/* each pair of wishes, in both orders: 0 and 1 are defaults, 2 and 3 a user's settings */
static void
test_agree(void **state)
{
	(void)state;
	static const bool used[4][4] = {
		{ false, true, false, true },
		{ true, true, false, true },
		{ false, false, false, true },
		{ true, true, true, true },
	};
	for (uint8_t own = 0; own < 4; own++)
		for (uint8_t other = 0; other < 4; other++)
			assert_int_equal(softrdma_cm_msg_agree(own, other), used[own][other]);
}

static void
test_names(void **state)
{
	(void)state;
	char name[SOFTRDMA_NAME_SIZE];
	struct sockaddr_in in = loopback(htons(7));
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
		.sin6_port = htons(8),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT };
	assert_string_equal(softrdma_address_name((struct sockaddr *)&in, name, sizeof(name)), "127.0.0.1:7");
	assert_string_equal(softrdma_address_name((struct sockaddr *)&in6, name, sizeof(name)), "[::1]:8");
	fail_call(FAIL_MINE, "getnameinfo", 0, 1, EAI_MEMORY);
	assert_string_equal(softrdma_address_name((struct sockaddr *)&in, name, sizeof(name)),
		"an unknown address");
	fail_nothing();
	assert_string_equal(softrdma_peer_name(-1, name, sizeof(name)), "an unknown address");

	union softrdma_address mapped = { .in6 = in6 }, wanted_in = { .in = loopback(htons(8)) };
	softrdma_address_unmap(&mapped);
	assert_memory_equal(&mapped.in6, &in6, sizeof(in6)); /* no address of IPv4 */
	assert_int_equal(inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.in6.sin6_addr), 1);
	softrdma_address_unmap(&mapped);
	assert_memory_equal(&mapped, &wanted_in, sizeof(mapped));
	softrdma_address_unmap(&mapped);
	assert_memory_equal(&mapped, &wanted_in, sizeof(mapped));

	struct sockaddr_in addr;
	int listening = raw_listen(&addr);
	int fd = raw_connect(&addr);
	char wanted[32];
	snprintf(wanted, sizeof(wanted), "127.0.0.1:%u", ntohs(addr.sin_port));
	assert_string_equal(softrdma_peer_name(fd, name, sizeof(name)), wanted);
	close(fd);
	close(listening);
}

static void
test_loopback(void **state)
{
	(void)state;
	static const struct {
		const char *addr;
		bool loopback;
	} cases[] = { { "127.0.0.1", true }, { "127.255.255.254", true }, { "128.0.0.1", false },
		{ "0.0.0.0", false }, { "::1", true }, { "::", false }, { "fe80::1", false },
		{ "::ffff:127.0.0.1", true }, { "::ffff:10.0.0.1", false } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sockaddr_in in = { .sin_family = AF_INET };
		struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
		bool v4 = inet_pton(AF_INET, cases[i].addr, &in.sin_addr) == 1;
		assert_true(v4 || inet_pton(AF_INET6, cases[i].addr, &in6.sin6_addr) == 1);
		const struct sockaddr *addr = v4 ? (struct sockaddr *)&in : (struct sockaddr *)&in6;
		assert_int_equal(softrdma_cm_msg_warn_if_open(addr, "listening"), !cases[i].loopback);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_pieces),
		device_test(test_truncated),
		device_test(test_strangers),
		device_test(test_other_version_in_pieces),
		device_test(test_damage),
		device_test(test_send),
		device_test(test_read_away_is_bounded),
		device_test(test_wish),
		device_test(test_agree),
		device_test(test_names),
		device_test(test_loopback),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
