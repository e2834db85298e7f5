/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_offender.c -- peers that use wrong keys: what is counted and logged, and which connections end
 *
 * One side is the device, the other one the device as well, or a plain socket that speaks the protocol.
 */

#include "serving.h"

#include "softrdma/base/env.h"
#include "softrdma/engine/connection.h"

/*
 * One access violation ends the connection. The NAK is sent first, and the violation counts against its
 * source.
 */
static void
test_offender(void **state)
{
	(void)state;
	for (unsigned times = 1; times <= 2; times++) {
		struct raw_peer p;
		raw_peer_init(&p);
		/* in one turn, so that the NAK acknowledges the first one */
		pthread_mutex_lock(&p.link->lock);
		raw_write(&p, the_mem, the_mr->rkey, 4);
		raw_send(p.fd, "good", 4);
		raw_write(&p, the_mem, the_mr->rkey + 1, 4);
		raw_send(p.fd, "evil", 4);
		raw_write(&p, the_mem, the_mr->rkey, 4);
		raw_send(p.fd, "late", 4);
		pthread_mutex_unlock(&p.link->lock);
		raw_expect_frame(p.fd, SOFTRDMA_OP_NAK, 2, 101);
		raw_expect_frame(p.fd, SOFTRDMA_OP_DISCONNECT, 0, 0);
		raw_expect_end(p.fd);
		assert_memory_equal(the_mem, "good", 4);
		wait_for_log("127.0.0.1 has reached for memory that it may not have");
		wait_for_log(times == 1 ? "number 1 from there" : "number 2 from there");
		/*
		 * the application gets the usual event of the end: when the peer responds, or after the
		 * timeout
		 */
		expect_no_event(p.l.channel);
		if (times == 1)
			raw_frame(p.fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_DISCONNECT });
		else
			clock_forward_ms(SOFTRDMA_PEER_TIMEOUT_MS + 1);
		expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		raw_peer_fini(&p);
	}
}

/* a peer that ends the connection together with its wrong request is counted all the same */
static void
test_offender_that_leaves(void **state)
{
	(void)state;
	static const enum {
		STREAM_ENDS,
		DISCONNECT,
		GARBAGE,
		RESET
	} cases[] = { STREAM_ENDS, DISCONNECT, GARBAGE, RESET };
	struct sockaddr_in addr = loopback(0);
	const struct softrdma_source source = softrdma_source_of((struct sockaddr *)&addr);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct raw_peer p;
		/* the peer has reset the connection before it was attached, so the kernel has forgotten its address */
		if (cases[i] == RESET)
			fail_call(FAIL_MINE, "getpeername", 1, 1, ENOTCONN);
		raw_peer_init(&p);
		fail_nothing();
		const unsigned before = softrdma_source_violations(&source, softrdma_now_ns());
		/* so that all of it is received in one turn */
		pthread_mutex_lock(&p.link->lock);
		raw_write(&p, the_mem, the_mr->rkey + 1, 4);
		raw_send(p.fd, "evil", 4);
		if (cases[i] == DISCONNECT)
			raw_frame(p.fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_DISCONNECT });
		if (cases[i] == GARBAGE) {
			char garbage[SOFTRDMA_FRAME_SIZE];
			memset(garbage, 'x', sizeof(garbage));
			raw_send(p.fd, garbage, sizeof(garbage));
		}
		shutdown(p.fd, SHUT_WR);
		pthread_mutex_unlock(&p.link->lock);
		expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		wait_until(softrdma_source_violations(&source, softrdma_now_ns()) == before + 1);
		raw_peer_fini(&p);
	}
}

/* a connection whose peer's address is unknown is closed all the same */
static void
test_unknown_offender(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	locked(p.link, softrdma_connection_of(p.link)->peer.any.sa_family = AF_UNSPEC);
	raw_write(&p, the_mem, the_mr->rkey + 1, 0); /* of 0 bytes: this is not refused */
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100);
	raw_write(&p, the_mem, the_mr->rkey + 1, 4);
	raw_send(p.fd, "evil", 4);
	raw_expect_frame(p.fd, SOFTRDMA_OP_NAK, 2, 101);
	raw_expect_frame(p.fd, SOFTRDMA_OP_DISCONNECT, 0, 0);
	wait_for_log("an unknown address has reached for memory");
	raw_peer_fini(&p);
}

/*
 * A peer that has many connections before its first wrong key has as many guesses as the limit says. Its other connections
 * end when something comes on them, whatever it is.
 */
static void
test_wrong_keys_on_many_connections(void **state)
{
	(void)state;
	enum { LIMIT = 2, GUESSER = 20, HONEST = 21 };
	const struct softrdma_source source = source_of_host(GUESSER);
	struct raw_peer guessing[LIMIT], knowing, silent, late, honest;
	setenv("SOFTRDMA_MAX_WRONG_KEYS", "2", 1);
	for (int i = 0; i < LIMIT; i++)
		raw_peer_init_from(&guessing[i], GUESSER);
	raw_peer_init_from(&late, GUESSER);
	raw_peer_init_from(&knowing, GUESSER);
	raw_peer_init_from(&silent, GUESSER);
	raw_peer_init_from(&honest, HONEST);
	for (int i = 0; i < LIMIT; i++) {
		raw_expect_alive(&knowing); /* the limit is not reached */
		raw_write(&guessing[i], the_mem, the_mr->rkey + 1, 4);
		raw_send(guessing[i].fd, "evil", 4);
		raw_expect_frame(guessing[i].fd, SOFTRDMA_OP_NAK, SOFTRDMA_NAK_ACCESS, 100);
		raw_expect_frame(guessing[i].fd, SOFTRDMA_OP_DISCONNECT, 0, 0);
	}
	assert_int_equal(softrdma_source_violations(&source, softrdma_now_ns()), LIMIT);

	raw_write(&late, the_mem, the_mr->rkey + 1, 4);
	raw_send(late.fd, "evil", 4);
	raw_expect_shut_out(&late);
	wait_for_log("127.0.0.20:");
	wait_for_log("is no longer heard: too many wrong keys from there");
	assert_int_equal(softrdma_source_violations(&source, softrdma_now_ns()), LIMIT);
	memcpy(the_mem, "good", 4);
	raw_write(&knowing, the_mem, the_mr->rkey, 4);
	raw_send(knowing.fd, "evil", 4);
	raw_expect_shut_out(&knowing);
	assert_memory_equal(the_mem, "good", 4);

	/* others are served, and so is a connection that is silent until the wrong keys are forgotten */
	raw_expect_alive(&honest);
	clock_forward_ms(SOFTRDMA_OFFENDER_MEMORY_MS);
	raw_expect_alive(&silent);
	for (int i = 0; i < LIMIT; i++)
		raw_peer_fini(&guessing[i]);
	raw_peer_fini(&late);
	raw_peer_fini(&knowing);
	raw_peer_fini(&silent);
	raw_peer_fini(&honest);
	unsetenv("SOFTRDMA_MAX_WRONG_KEYS");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_offender),
		device_test(test_offender_that_leaves),
		device_test(test_unknown_offender),
		device_test(test_wrong_keys_on_many_connections),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
