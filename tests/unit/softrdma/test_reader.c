/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_reader.c -- which thread reads a socket: pollers that own it
 *
 * One side is the device, the other one the device as well, or a plain socket that speaks the protocol.
 */

#include "serving.h"

#include "softrdma/base/env.h"
#include "softrdma/base/spin.h"
#include "softrdma/engine/reader.h"

static struct softrdma_link *
polled_link(struct pair_of_ids *p)
{
	return softrdma_qp_of(p->active->qp)->link;
}

static bool
is_owned(struct softrdma_link *link)
{
	pthread_mutex_lock(&link->lock);
	bool owned = softrdma_connection_of(link)->reader == SOFTRDMA_READER_POLLER;
	pthread_mutex_unlock(&link->lock);
	return owned;
}

static void
poll_until_owned(struct softrdma_link *link)
{
	struct ibv_wc wc;
	int64_t end = now_ms() + PATIENCE_MS;
	while (!is_owned(link) && left_ms(end) > 0)
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	assert_true(is_owned(link));
}

/* a thread that polls for some time owns the socket until it stops */
static void
test_owner(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct softrdma_link *link = polled_link(&p);
	struct ibv_wc wc;
	fail_call(FAIL_MINE, "epoll_ctl", 0, FAIL_FOR_EVER, ENOMEM); /* works without ownership, too */
	while (!has_failed(1))
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	fail_nothing();
	assert_false(is_owned(link));

	poll_until_owned(link);
	assert_true(write_works(p.active->qp));
	assert_true(write_works(p.passive->qp));
	/* its polling is checked: first it still polls, later it has stopped */
	wait_until(!is_owned(link));
	assert_true(write_works(p.passive->qp));

	/* arming the queue ends the ownership */
	poll_until_owned(link);
	assert_int_equal(ibv_req_notify_cq(the_cq, 0), 0);
	assert_false(is_owned(link));
	assert_int_equal(ibv_req_notify_cq(the_cq, 0), 0);

	/* waiting on any channel does too */
	poll_until_owned(link);
	struct ibv_comp_channel *channel = softrdma_ibv_create_comp_channel(softrdma_context());
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	struct ibv_cq *cq;
	void *context;
	assert_int_equal(softrdma_ibv_get_cq_event(channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	assert_false(is_owned(link));
	assert_int_equal(softrdma_ibv_destroy_comp_channel(channel), 0);

	/* the end of a connection ends its ownership */
	poll_until_owned(link);
	pair_fini(&p);
}

/* polls without success do not count if input comes in between: the program waits in another way, and polls now and then */
static void
test_rare_polls_do_not_own(void **state)
{
	(void)state;
	struct raw_peer p;
	struct ibv_wc wc;
	raw_peer_init(&p);
	for (int i = 0; i < 100; i++) {
		if (i % 20 == 0)
			raw_expect_alive(&p);
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
		assert_false(is_owned(p.link));
	}
	raw_peer_fini(&p);
}

/* the poller has stopped, and the peer sends: what it has sent waits until a beat finds that */
static void
let_input_wait(struct raw_peer *p)
{
	raw_write(p, the_mem, the_mr->rkey, 4);
	raw_send(p->fd, "abcd", 4);
	assert_true(readable(softrdma_connection_of(p->link)->fd, PATIENCE_MS));
	while (is_owned(p->link)) {
		clock_forward_ms(2);
		poll(NULL, 0, 5); /* longer than the beat */
	}
	raw_expect_frame(p->fd, SOFTRDMA_OP_ACK, 0, p->seq - 1);
}

static void
poll_in_vain(struct softrdma_link *link)
{
	struct ibv_wc wc;
	for (int i = 0; i < 300; i++)
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	assert_false(is_owned(link));
}

/* a poller that has let input wait owns no socket for a while: 10 ms, and twice as long each time */
static void
test_owner_that_lets_input_wait(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	clock_stop();
	uint64_t pause_ms = 10;
	for (int i = 0; i < 10; i++) {
		if (i == 9) { /* forgiven */
			clock_forward_ms(10001);
			pause_ms = 10;
		}
		poll_until_owned(p.link);
		let_input_wait(&p);
		const uint64_t again_ns = locked(p.link, softrdma_connection_of(p.link)->own_again_ns);
		poll_in_vain(p.link);
		assert_int_equal(locked(p.link, softrdma_connection_of(p.link)->own_pause_ns),
			pause_ms * SOFTRDMA_NS_PER_MS);
		const uint64_t left_ns = again_ns - softrdma_now_ns();
		assert_true(left_ns <= pause_ms * SOFTRDMA_NS_PER_MS);
		clock_forward_ms((unsigned)(left_ns / SOFTRDMA_NS_PER_MS) + 1);
		pause_ms = pause_ms < 500 ? 2 * pause_ms : 1000;
	}
	clock_go_on();
	raw_peer_fini(&p);
}

/* while other threads compute, a thread that polls sleeps until there is input: nothing is lost, and no lock is waited for */
static void
test_poller_naps(void **state)
{
	(void)state;
	struct pair_of_ids p, other[2];
	pair_init(&p);
	struct softrdma_cq *cq = softrdma_cq_of(the_cq);
	softrdma_spin_mine()->rest_until_ns = UINT64_MAX;
	struct ibv_wc wc;
	for (int i = 0; i < 20; i++)
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	for (int i = 0; i < 20; i++)
		assert_true(write_works(p.active->qp));
	softrdma_reader_nap(cq);
	pthread_mutex_lock(&cq->links_lock);
	softrdma_reader_nap(cq);
	pthread_mutex_unlock(&cq->links_lock);

	/* of more connections than a poller serves, the progress thread receives all input */
	for (int i = 0; i < 2; i++)
		pair_init(&other[i]);
	softrdma_reader_nap(cq);
	assert_true(write_works(other[1].active->qp));
	for (int i = 0; i < 2; i++)
		pair_fini(&other[i]);
	*softrdma_spin_mine() = (struct softrdma_spin){ 0 };
	pair_fini(&p);
}

/* more records than a poller serves at once, and less than the stream receives at once: the socket is empty then */
#define WRITES 48

/* more input in one record after the other than a poller serves at once: what the stream holds is read when it stops */
static void
test_owner_leaves_input(void **state)
{
	(void)state;
	setenv("SOFTRDMA_CRC", "1", 1);
	struct pair_of_ids p;
	pair_init_depth(&p, WRITES);
	struct softrdma_link *link = softrdma_qp_of(p.passive->qp)->link;
	uint64_t *words = (uint64_t *)(void *)the_mem;
	uint64_t *to = (uint64_t *)(void *)(the_mem + MEM_SIZE / 2);
	const unsigned last =
		SOFTRDMA_GATHER_LENGTH / sizeof(*to); /* the last word of a write, which is stored last */
	struct ibv_wc wc;
	to[last] = 0;
	/* while the clock stands, the progress thread takes nothing back from an owner that has lost its processor */
	do {
		clock_go_on();
		poll_until_owned(link);
		clock_stop();
	} while (!is_owned(link));
	for (unsigned i = 0; i < WRITES; i++) {
		words[i + last] = i + 1;
		/* short ones would leave in one record */
		struct ibv_sge sge = { .addr = (uintptr_t)&words[i],
			.length = SOFTRDMA_GATHER_LENGTH + sizeof(*to),
			.lkey = the_mr->lkey };
		struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.send_flags = i + 1 == WRITES ? IBV_SEND_SIGNALED : 0 },
				   *bad;
		wr.wr.rdma.remote_addr = (uintptr_t)to;
		wr.wr.rdma.rkey = the_mr->rkey;
		assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
	}
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	clock_go_on();
	/* no thread polls from here on */
	wait_until(__atomic_load_n(&to[last], __ATOMIC_ACQUIRE) == WRITES);
	assert_int_equal(next_wc().status, IBV_WC_SUCCESS);
	pair_fini(&p);
	unsetenv("SOFTRDMA_CRC");
}

/*
 * A thread that holds the lock of a connection it owns is polling it. The progress thread goes on to other
 * connections.
 */
static void
test_busy_owner_holds_up_no_other(void **state)
{
	(void)state;
	struct raw_peer p, other;
	raw_peer_init(&p);
	raw_peer_init(&other);
	poll_until_owned(p.link);
	pthread_mutex_lock(&p.link->lock);
	for (int i = 0; i < 3; i++) {
		clock_forward_ms(100); /* the time of the next ownership check */
		raw_expect_alive(&other);
	}
	pthread_mutex_unlock(&p.link->lock);
	wait_until(!is_owned(p.link));
	raw_expect_alive(&p);
	raw_peer_fini(&p);
	raw_peer_fini(&other);
}

/* a poller never waits for another thread */
static void
test_poller_does_not_wait(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct softrdma_link *link = polled_link(&p);
	struct ibv_wc wc;
	pthread_mutex_lock(&link->lock);
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	pthread_mutex_unlock(&link->lock);
	struct softrdma_cq *cq = softrdma_cq_of(the_cq);
	pthread_mutex_lock(&cq->links_lock);
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	pthread_mutex_unlock(&cq->links_lock);

	/* with more connections than a poller reads, the progress thread does all the work */
	struct pair_of_ids others[2];
	pair_init(&others[0]);
	pair_init(&others[1]);
	unsigned polls = locked(link, softrdma_connection_of(link)->polls);
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	assert_true(locked(link, softrdma_connection_of(link)->polls == polls));
	assert_true(write_works(p.active->qp));
	pair_fini(&others[0]);
	pair_fini(&others[1]);

	/* a queue pair without a connection is skipped */
	assert_int_equal(softrdma_rdma_disconnect(p.active), 0);
	expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	wait_until(locked(link,
		softrdma_connection_of(link)->fd < 0 || readable(softrdma_connection_of(link)->fd, 0)));
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	pair_fini(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_owner),
		device_test(test_rare_polls_do_not_own),
		device_test(test_owner_that_lets_input_wait),
		device_test(test_poller_naps),
		device_test(test_owner_leaves_input),
		device_test(test_busy_owner_holds_up_no_other),
		device_test(test_poller_does_not_wait),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
