/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_waiter.c -- a thread that waits for an event of a channel: what wakes it, signals, failures */

#include <signal.h>
#include <sys/mman.h>

#include "waiting.h"
#include "softrdma/engine/waiter.h"

#define LARGE ((size_t)32 << 20)

/* a waiter takes one event; the descriptor reports the others */
static void
test_more_events_than_one(void **state)
{
	(void)state;
	struct pair_of_ids p, q;
	channel_init();
	struct ibv_cq *other = softrdma_ibv_create_cq(softrdma_context(), 64, NULL, channel, 0);
	assert_non_null(other);
	pair_init_with(&p, event_cq);
	pair_init_with(&q, other);
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(other, 0), 0);

	struct softrdma_comp_channel *ch = (struct softrdma_comp_channel *)channel;
	const struct ibv_wc wc = { .wr_id = 1 };
	softrdma_comp_channel_serve(ch);
	assert_true(softrdma_cq_push(softrdma_cq_of(event_cq), &wc, false));
	assert_true(softrdma_cq_push(softrdma_cq_of(other), &wc, false));
	softrdma_comp_channel_serve(NULL);
	assert_false(readable(channel->fd, 0));
	assert_true(softrdma_comp_channel_has_event(ch));
	expect_cq_event(event_cq);
	assert_true(readable(channel->fd, 0));
	expect_cq_event(other);
	assert_false(readable(channel->fd, 0));

	/* the same if the queue is destroyed */
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(other, 0), 0);
	softrdma_comp_channel_serve(ch);
	assert_true(softrdma_cq_push(softrdma_cq_of(event_cq), &wc, false));
	assert_true(softrdma_cq_push(softrdma_cq_of(other), &wc, false));
	softrdma_comp_channel_serve(NULL);
	pair_fini(&q);
	assert_int_equal(softrdma_ibv_destroy_cq(other), 0);
	assert_true(readable(channel->fd, 0));
	expect_cq_event(event_cq);
	assert_false(readable(channel->fd, 0));
	pair_fini(&p);
	channel_fini();
}

/* another thread posts more than the socket holds: all of it is sent */
static void
test_full_socket(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct wait wait;
	void *mem = mmap(NULL, 2 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(mem, MAP_FAILED);
	struct ibv_mr *mr =
		softrdma_ibv_reg_mr(the_pd, mem, 2 * LARGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(mr);
	memset(mem, 0x2a, LARGE);
	channel_init();
	pair_init_with(&p, event_cq);
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	wait_begin(&wait);
	post_write(p.active->qp, mr, LARGE, 1);
	wait_end(&wait);
	expect_wc(event_cq, 1);
	assert_memory_equal(mem, (char *)mem + LARGE, LARGE);
	pair_fini(&p);
	channel_fini();
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	munmap(mem, 2 * LARGE);
}

/* the end of a connection is reported, even while a thread waits for it */
static void
test_connection_ends(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct wait wait;
	channel_init();
	pair_init_with(&p, event_cq);
	lead_with(&p);
	wait_begin(&wait);
	softrdma_rdma_destroy_qp(p.active);
	expect_event(p.listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0);

	/* and the thread waits until something completes */
	struct ibv_recv_wr wr = { .wr_id = 5 };
	struct ibv_recv_wr *bad;
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	assert_int_equal(ibv_post_recv(p.passive->qp, &wr, &bad), 0);
	assert_int_equal(softrdma_rdma_disconnect(p.passive), 0);
	wait_end(&wait);
	end_with(&p);
}

/* --- signals --- */

static atomic_bool ended;
static atomic_int end_error; /* of the wait that has failed */

static void *
wait_until_interrupted(void *arg)
{
	(void)arg;
	struct ibv_cq *cq;
	void *context;
	int ret;
	/* events come for bytes without a completion */
	while ((ret = softrdma_ibv_get_cq_event(channel, &cq, &context)) == 0)
		softrdma_ibv_ack_cq_events(cq, 1);
	end_error = errno;
	ended = true;
	return NULL;
}

static void
on_signal(int signal)
{
	(void)signal;
}

/* posts as many writes without completions as there is room for */
static void
post_silent_writes(struct ibv_qp *qp)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1 }, *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)the_mem + 64;
	wr.wr.rdma.rkey = the_mr->rkey;
	while (ibv_post_send(qp, &wr, &bad) == 0)
		;
}

/*
 * A signal ends the wait, even if the peer sends all the time, so that the waiting thread never sleeps: a program must be
 * able to end.
 */
static void
test_signal_while_it_is_busy(void **state)
{
	(void)state;
	struct pair_of_ids p;
	const struct sigaction action = { .sa_handler = on_signal };
	struct sigaction before;
	pthread_t thread;
	setenv("SOFTRDMA_SPIN_US", "1000000", 1);
	channel_init();
	pair_init_with(&p, event_cq);
	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	ended = false;
	lead_with(&p);
	assert_int_equal(pthread_create(&thread, NULL, wait_until_interrupted, NULL), 0);
	int64_t end = now_ms() + 20;
	while (left_ms(end) > 0)
		post_silent_writes(p.active->qp);
	assert_false(ended);
	/* a signal that comes before the thread waits ends nothing */
	end = now_ms() + PATIENCE_MS;
	while (!ended && left_ms(end) > 0) {
		assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
		post_silent_writes(p.active->qp);
	}
	assert_true(ended);
	pthread_join(thread, NULL);
	assert_int_equal(end_error, EINTR);
	assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
	end_with(&p);
	unsetenv("SOFTRDMA_SPIN_US");
}

/* what the thread blocks is the same after a wait */
static void
test_signal_mask_stays(void **state)
{
	(void)state;
	struct pair_of_ids p;
	sigset_t blocked, before, after;
	channel_init();
	pair_init_with(&p, event_cq);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	post_write(p.active->qp, the_mr, 8, 1);
	expect_cq_event(event_cq);
	expect_wc(event_cq, 1);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
	sigaddset(&before, SIGUSR2);
	for (int signal = 1; signal < NSIG; signal++)
		assert_int_equal(sigismember(&after, signal), sigismember(&before, signal));
	pair_fini(&p);
	channel_fini();
}

/* a message gives the thread no event, so it waits on: there is no reply, and the acknowledgement leaves before */
static void
test_acknowledges_before_it_sleeps(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct wait wait;
	struct ibv_recv_wr recvs[2] = { { .wr_id = 1, .next = &recvs[1] }, { .wr_id = 2 } }, *bad;
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED },
			   *bad_send;
	/* with a clock that stands, a thread that spins does so for ever */
	setenv("SOFTRDMA_SPIN_US", "0", 1);
	channel_init();
	pair_init_with(&p, event_cq);
	lead_with(&p);
	send_many(&p);
	send_message(p.passive, p.active);
	const unsigned count = atomic_load(&softrdma_cq_of(event_cq)->count);
	assert_int_equal(ibv_post_recv(p.passive->qp, recvs, &bad), 0);
	assert_int_equal(ibv_req_notify_cq(event_cq, 1), 0);
	wait_begin(&wait);
	await_sleep_of_other_threads();
	assert_int_equal(post_empty_send(p.active->qp), 0);
	/* that of the last reply, too */
	wait_until(atomic_load(&softrdma_cq_of(event_cq)->count) == count + 3);
	assert_int_equal(ibv_post_send(p.active->qp, &send, &bad_send), 0);
	wait_end(&wait);
	end_with(&p);
	unsetenv("SOFTRDMA_SPIN_US");
}

static void
test_waiting_fails(void **state)
{
	(void)state;
	channel_init();
	fail_call(FAIL_MINE, "ppoll", 0, 1, ENOMEM);
	assert_int_equal(softrdma_waiter_wait((struct softrdma_comp_channel *)channel, PTHREAD_CANCEL_ENABLE),
		ENOMEM);
	assert_int_equal(fail_nothing(), 1);
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(softrdma_waiter_wait((struct softrdma_comp_channel *)channel, PTHREAD_CANCEL_ENABLE),
		EAGAIN);
	channel_fini();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_more_events_than_one),
		device_test(test_full_socket),
		device_test(test_connection_ends),
		device_test(test_signal_while_it_is_busy),
		device_test(test_signal_mask_stays),
		device_test(test_acknowledges_before_it_sleeps),
		device_test(test_waiting_fails),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
