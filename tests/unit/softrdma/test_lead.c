/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_lead.c -- whether the threads of the program read the sockets of a channel, or the progress threads do
 *
 * Both sides of each connection complete in one queue, unless a test says otherwise.
 */

#include "waiting.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "count.h"
#include "softrdma/base/valgrind.h"
#include "softrdma/base/env.h"
#include "softrdma/base/spin.h"
#include "softrdma/engine/reader.h"

/* --- threads that wait --- */

/* the waiting thread does all the work: the progress thread is held */
static void
test_needs_no_other_thread(void **state)
{
	(void)state;
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	lead_with(&p);
	memset(the_mem, 0x17, 64);
	memset(the_mem + MEM_SIZE / 2, 0, 64);
	shut_gate();
	for (uint64_t i = 1; i <= 3; i++) {
		write_and_wait(&p, i);
		/* no event is left that was taken */
		assert_false(softrdma_comp_channel_has_event((struct softrdma_comp_channel *)channel));
	}
	assert_memory_equal(the_mem, the_mem + MEM_SIZE / 2, 8);
	open_gate();
	clock_go_on();

	/* without a waiting thread, the progress thread serves the connections again */
	the_mem[0]++;
	post_write(p.active->qp, the_mr, 64, 4);
	wait_until(atomic_load(&softrdma_cq_of(event_cq)->count) == 1);
	expect_wc(event_cq, 4);
	assert_int_equal(the_mem[MEM_SIZE / 2], the_mem[0]);
	wait_until(reader_of(p.active) == SOFTRDMA_READER_ENGINE);
	pair_fini(&p);
	channel_fini();
}

/* traffic that is not dense does not lead */
static void
test_sparse(void **state)
{
	(void)state;
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	clock_stop();
	for (uint64_t i = 0; i < 30; i++) {
		write_and_wait(&p, i);
		clock_forward_ms(2);
	}
	assert_false(softrdma_lead_is_on(the_lead()));
	end_with(&p);
}

static bool
are_led(const struct pair_of_ids *p, int count)
{
	bool are_led = true;
	for (int i = 0; i < count && are_led; i++)
		are_led = is_led(p[i].active) && is_led(p[i].passive);
	return are_led;
}

/* a program that waits by its own epoll: one thread, many connections */
static void
test_event_loop(void **state)
{
	(void)state;
	struct pair_of_ids p[4];
	struct epoll_event event = { .events = EPOLLIN };
	const int epoll = epoll_create1(EPOLL_CLOEXEC);
	channel_init();
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &event), 0);
	for (int i = 0; i < 4; i++)
		pair_init_with(&p[i], event_cq);
	set_nonblocking(true);
	lead_with(&p[0]);
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	for (int i = 0; i < 4; i++)
		post_write(p[i].active->qp, the_mr, 8, (uint64_t)i);
	unsigned done = 0;
	/* the first pair alone may complete hundreds of writes before the progress thread has read the others' sockets once */
	for (int64_t end = now_ms() + PATIENCE_MS; (done < 400 || !are_led(p, 4)) && left_ms(end) > 0;) {
		assert_int_equal(epoll_wait(epoll, &event, 1, PATIENCE_MS), 1);
		if (!get_event())
			continue;
		assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
		/* few at once: this thread does both sides' work, so that the queue might never be empty */
		struct ibv_wc wcs[4];
		const int count = ibv_poll_cq(event_cq, 4, wcs);
		for (int i = 0; i < count; i++) {
			assert_int_equal(wcs[i].status, IBV_WC_SUCCESS);
			done++;
			post_write(p[wcs[i].wr_id].active->qp, the_mr, 8, wcs[i].wr_id);
		}
	}
	assert_true(done >= 400);
	assert_true(are_led(p, 4));
	clock_go_on();
	wait_until(atomic_load(&softrdma_cq_of(event_cq)->count) == 4);
	for (int i = 0; i < 4; i++)
		pair_fini(&p[i]);
	close(epoll);
	channel_fini();
}

/* The progress thread sends the rest of a long write as soon as there is room: no input tells the lead of that. */
static void
test_socket_is_full(void **state)
{
	(void)state;
	static uint8_t mem[8 * 1024 * 1024];
	struct pair_of_ids p[3]; /* more connections than a look tries without a report */
	channel_init();
	for (int i = 0; i < 3; i++)
		pair_init_with(&p[i], event_cq);
	set_nonblocking(true);
	lead_with(&p[0]);
	memset(mem, 0x53, sizeof(mem) / 2);
	memset(mem + sizeof(mem) / 2, 0, sizeof(mem) / 2);
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, mem, sizeof(mem),
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(mr);
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	post_write(p[0].active->qp, mr, sizeof(mem) / 2, 1);
	const int64_t end = now_ms() + PATIENCE_MS;
	while (atomic_load(&softrdma_cq_of(event_cq)->count) == 0 && left_ms(end) > 0) {
		assert_true(readable(channel->fd, PATIENCE_MS));
		get_event();
	}
	expect_wc(event_cq, 1);
	assert_memory_equal(mem, mem + sizeof(mem) / 2, sizeof(mem) / 2);
	assert_true(is_led(p[0].active));
	clock_go_on();
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	for (int i = 0; i < 3; i++)
		pair_fini(&p[i]);
	channel_fini();
}

/* bytes that bring no completion make the descriptor readable, and so they bring an event */
static void
test_owes_an_event(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct ibv_wc wc;
	channel_init();
	pair_init_with(&p, event_cq);
	set_nonblocking(true);
	lead_with(&p);
	while (get_event())
		;
	/* a write that is not signaled: the passive side gets bytes, and the active one an acknowledgement */
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1 }, *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)the_mem + 64;
	wr.wr.rdma.rkey = the_mr->rkey;
	assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
	assert_true(readable(channel->fd, PATIENCE_MS));
	assert_true(get_event());
	assert_int_equal(ibv_poll_cq(event_cq, 1, &wc), 0);
	while (get_event())
		;
	assert_false(readable(channel->fd, 0));

	/* the same if a poll has taken the bytes before */
	assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
	assert_true(readable(channel->fd, PATIENCE_MS));
	for (int i = 0; i < 4; i++)
		assert_int_equal(ibv_poll_cq(event_cq, 1, &wc), 0);
	assert_true(get_event());
	while (get_event())
		;

	/* and if the program makes the descriptor blocking, what it has found readable does not block; for once */
	assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
	assert_true(readable(channel->fd, PATIENCE_MS));
	set_nonblocking(false);
	assert_true(get_event());
	assert_false(softrdma_lead_is_on(the_lead()));
	end_with(&p);
}

/* a program that blocks in the call gets no event without a completion: its sockets are hidden */
static void
test_hidden(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct wait wait;
	channel_init();
	pair_init_with(&p, event_cq);
	lead_with(&p);
	for (uint64_t i = 0; i < 20; i++) {
		assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
		post_silent_write(p.active->qp);
		assert_false(readable(channel->fd, 0));
		wait_begin(&wait);
		post_silent_write(p.active->qp);
		post_write(p.active->qp, the_mr, 8, i);
		wait_end(&wait);
		expect_wc(event_cq, i);
	}
	assert_true(is_led(p.active));
	end_with(&p);
}

/* a progress thread receives what the stream of a led connection held, for which the descriptor was not readable or was */
static void
test_progress_thread_receives(void **state)
{
	(void)state;
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	set_nonblocking(true);
	lead_with(&p);
	while (get_event())
		;
	struct softrdma_link *link = link_of(p.passive);
	pthread_mutex_lock(&link->lock);
	softrdma_lead_receives(softrdma_connection_of(link));
	pthread_mutex_unlock(&link->lock);
	assert_true(get_event());
	assert_false(get_event());
	assert_true(is_led(p.passive));

	/* so does a thread that ends the connection, if requests are outstanding */
	link = link_of(p.active);
	pthread_mutex_lock(&link->lock);
	softrdma_connection_collect(link);
	pthread_mutex_unlock(&link->lock);
	assert_false(the_lead()->owes);
	post_silent_write(p.active->qp);
	pthread_mutex_lock(&link->lock);
	softrdma_connection_collect(link);
	pthread_mutex_unlock(&link->lock);
	assert_true(the_lead()->owes);
	end_with(&p);
}

/* the socket was in the descriptor for a moment, and the progress thread goes on reading it */
static void
test_not_handed_over(void **state)
{
	(void)state;
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	set_nonblocking(true);
	lead_with(&p);
	softrdma_connection_stop_leading(link_of(p.active));
	softrdma_lead_took_event(the_lead(), false);
	assert_false(the_lead()->owes);
	fail_call(FAIL_MINE, "epoll_ctl", 1, 1, ENOMEM);
	assert_false(softrdma_lead_poll(the_lead()));
	assert_int_equal(fail_nothing(), 1);
	assert_false(is_led(p.active));
	assert_true(the_lead()->owes);
	end_with(&p);
}

/* a thread serves a lead that was left: the progress thread does not wait for it, and looks again */
static void
test_served_when_it_ends(void **state)
{
	(void)state;
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	lead_with(&p);
	pthread_mutex_lock(&the_lead()->lock);
	for (int i = 0; i < 6; i++) {
		clock_forward_ms(2);
		poll(NULL, 0, 5);
	}
	/* the progress thread goes on with its work */
	shut_gate();
	open_gate();
	assert_true(softrdma_lead_is_on(the_lead()));
	pthread_mutex_unlock(&the_lead()->lock);
	beats_until_off();
	end_with(&p);
}

/* a program polls, and then waits for a descriptor that blocks: it is readable for what comes */
static void
test_poller_arms(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct ibv_wc wc;
	channel_init();
	pair_init_with(&p, event_cq);
	clock_stop();
	for (uint64_t i = 0; i < 20; i++) {
		int64_t end = now_ms() + PATIENCE_MS;
		while (!is_led(p.active) && left_ms(end) > 0)
			assert_int_equal(ibv_poll_cq(event_cq, 1, &wc), 0);
		assert_true(is_led(p.active));
		assert_true(the_lead()->ends_if_armed);
		assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
		assert_false(softrdma_lead_is_on(the_lead()));
		assert_false(the_lead()->ends_if_armed);
		/* while it is armed, it is not told of input otherwise */
		for (int poll = 0; poll < 300; poll++)
			assert_int_equal(ibv_poll_cq(event_cq, 1, &wc), 0);
		assert_false(softrdma_lead_is_on(the_lead()));
		post_write(p.active->qp, the_mr, 8, i);
		assert_true(readable(channel->fd, PATIENCE_MS));
		expect_cq_event(event_cq);
		expect_wc(event_cq, i);
		clock_forward_ms(1001); /* a lead that ends so is on again later only */
	}
	/* a thread that blocks in the call leads on, although it polls in between */
	while (!softrdma_lead_is_on(the_lead()))
		assert_int_equal(ibv_poll_cq(event_cq, 1, &wc), 0);
	softrdma_lead_took_event(the_lead(), true);
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	assert_true(softrdma_lead_is_on(the_lead()));
	softrdma_lead_end(the_lead());
	/* so does one that polls, if the descriptor reports input; whichever of the channel's queues is armed */
	struct ibv_cq *other = softrdma_ibv_create_cq(softrdma_context(), 1, NULL, channel, 0);
	assert_non_null(other);
	assert_true(softrdma_comp_channel_is_armed((struct softrdma_comp_channel *)channel));
	post_write(p.active->qp, the_mr, 8, 1);
	expect_cq_event(event_cq);
	expect_wc(event_cq, 1);
	assert_false(softrdma_comp_channel_is_armed((struct softrdma_comp_channel *)channel));
	assert_int_equal(ibv_req_notify_cq(other, 0), 0);
	assert_true(softrdma_comp_channel_is_armed((struct softrdma_comp_channel *)channel));
	set_nonblocking(true);
	for (int poll = 0; poll < 300; poll++)
		assert_int_equal(ibv_poll_cq(event_cq, 1, &wc), 0);
	assert_true(softrdma_lead_is_on(the_lead()));
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	assert_true(softrdma_lead_is_on(the_lead()));
	assert_int_equal(softrdma_ibv_destroy_cq(other), 0);
	end_with(&p);
}

/* a program that has waited in the call polls, and then waits for the descriptor, again and again: it does not lead on */
static void
test_from_call_to_polls(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct ibv_wc wc;
	channel_init();
	pair_init_with(&p, event_cq);
	lead_with(&p);
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	int64_t end = now_ms() + PATIENCE_MS;
	while (softrdma_lead_is_on(the_lead()) && left_ms(end) > 0)
		assert_int_equal(ibv_poll_cq(event_cq, 1, &wc), 0);
	assert_false(softrdma_lead_is_on(the_lead()));
	post_write(p.active->qp, the_mr, 8, 1);
	assert_true(readable(channel->fd, PATIENCE_MS));
	expect_cq_event(event_cq);
	expect_wc(event_cq, 1);
	end_with(&p);
}

/* the lead goes on while a thread sleeps in the call: the sockets that it hides then wake that thread, too */
static void
test_goes_on_while_another_thread_waits(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct wait wait;
	setenv("SOFTRDMA_SPIN_US", "0", 1);
	channel_init();
	pair_init_with(&p, event_cq);
	clock_stop();
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	wait_begin(&wait);
	await_sleep_of_other_threads();
	for (int i = 0; i < 20; i++)
		softrdma_lead_took_event(the_lead(), true);
	assert_true(softrdma_lead_is_on(the_lead()));
	post_silent_write(p.active->qp);
	wait_until(is_led(p.active) && is_led(p.passive));
	await_sleep_of_other_threads();
	shut_gate();
	post_write(p.active->qp, the_mr, 8, 1);
	wait_end(&wait);
	expect_wc(event_cq, 1);
	open_gate();
	end_with(&p);
	unsetenv("SOFTRDMA_SPIN_US");
}

/* the descriptor becomes non-blocking: the first call that finds no event makes it report input */
static void
test_shown(void **state)
{
	(void)state;
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	lead_with(&p);
	set_nonblocking(true);
	assert_false(get_event());
	assert_false(softrdma_lead_is_on(the_lead()));
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	post_write(p.active->qp, the_mr, 8, 1);
	assert_true(readable(channel->fd, PATIENCE_MS));
	expect_cq_event(event_cq);
	expect_wc(event_cq, 1);
	end_with(&p);
}

/* the descriptor was readable, and another thread takes the connection away: that owes an event */
static void
test_taken_away(void **state)
{
	(void)state;
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	set_nonblocking(true);
	lead_with(&p);
	while (get_event())
		;
	post_silent_write(p.active->qp);
	assert_true(readable(channel->fd, PATIENCE_MS));
	softrdma_connection_stop_leading(link_of(p.passive));
	softrdma_connection_stop_leading(link_of(p.active));
	assert_true(get_event());
	end_with(&p);
}

/* a look at the sockets takes the channel's own entry out of its epoll, and puts it in again */
static void
test_tells_again(void **state)
{
	(void)state;
	struct pair_of_ids p[3];
	const struct ibv_wc wc = { .wr_id = 5 };
	channel_init();
	set_nonblocking(true);
	for (int i = 0; i < 3; i++)
		pair_init_with(&p[i], event_cq);
	lead_with(&p[0]);
	while (get_event())
		;
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	assert_true(softrdma_cq_push(softrdma_cq_of(event_cq), &wc, false));
	assert_false(softrdma_lead_poll(the_lead()));
	assert_true(readable(channel->fd, 0));
	assert_true(get_event());
	expect_wc(event_cq, 5);
	clock_go_on();
	for (int i = 0; i < 3; i++)
		pair_fini(&p[i]);
	channel_fini();
}

/* a program that has waited in the call waits for the descriptor, which blocks: it is readable for what comes */
static void
test_from_call_to_descriptor(void **state)
{
	(void)state;
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	lead_with(&p);
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	post_write(p.active->qp, the_mr, 8, 1);
	beats_until_off();
	assert_true(readable(channel->fd, PATIENCE_MS));
	expect_cq_event(event_cq);
	expect_wc(event_cq, 1);
	/* and so it does not begin again */
	clock_forward_ms(1001);
	for (uint64_t i = 0; i < 60; i++) {
		assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
		post_write(p.active->qp, the_mr, 8, i);
		assert_true(readable(channel->fd, PATIENCE_MS));
		expect_cq_event(event_cq);
		expect_wc(event_cq, i);
	}
	assert_false(softrdma_lead_is_on(the_lead()));
	end_with(&p);
}

/* without a connection that has a socket, nothing leads */
static void
test_without_sockets(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct ibv_wc wc;
	channel_init();
	set_nonblocking(true);
	for (int i = 0; i < 300; i++)
		assert_int_equal(ibv_poll_cq(event_cq, 1, &wc), 0);
	assert_false(softrdma_lead_is_on(the_lead()));
	pair_init_with(&p, event_cq);
	assert_int_equal(softrdma_rdma_disconnect(p.active), 0);
	expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_event(p.listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	wait_until(locked(link_of(p.active), softrdma_connection_of(link_of(p.active))->fd < 0));
	wait_until(locked(link_of(p.passive), softrdma_connection_of(link_of(p.passive))->fd < 0));
	beats_until_off();
	for (int i = 0; i < 300; i++)
		assert_int_equal(ibv_poll_cq(event_cq, 1, &wc), 0);
	assert_false(softrdma_lead_is_on(the_lead()));
	pair_fini(&p);
	channel_fini();
}

/* the descriptor reports a socket, and another thread has taken what was there */
static void
test_reported_in_vain(void **state)
{
	(void)state;
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	set_nonblocking(true);
	lead_with(&p);
	while (get_event())
		;
	post_write(p.active->qp, the_mr, 8, 1);
	assert_true(readable(channel->fd, PATIENCE_MS));
	shut_gate(); /* the progress thread would hand the socket over again as soon as it has received the write */
	fail_call(FAIL_MINE, "recv", 0, 1, EAGAIN);
	assert_false(softrdma_lead_look_at_reported(the_lead()));
	assert_int_equal(fail_nothing(), 1);
	assert_int_equal(reader_of(p.passive), SOFTRDMA_READER_ENGINE);
	assert_true(get_event());
	open_gate();
	/* the progress thread receives the write, and this one the acknowledgement */
	struct ibv_wc wc;
	while (ibv_poll_cq(event_cq, 1, &wc) == 0)
		;
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	end_with(&p);
}

/* --- when it ends --- */

/* the program looks no longer, and input waits: the lead stays off for 10 ms, and twice as long each time */
static void
test_pauses(void **state)
{
	(void)state;
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	set_nonblocking(true); /* so that the test sees that input waits */
	uint64_t pause_ms = 10;
	for (int i = 0; i < 9; i++) {
		if (i == 8) { /* forgiven */
			clock_forward_ms(1001);
			pause_ms = 10;
		}
		lead_with(&p);
		post_write(p.active->qp, the_mr, 8, 1);
		assert_true(readable(channel->fd, PATIENCE_MS));
		beats_until_off();
		wait_until(atomic_load(&softrdma_cq_of(event_cq)->count) == 1); /* by the progress thread */
		expect_wc(event_cq, 1);
		assert_int_equal(the_lead()->pause_ns, pause_ms * SOFTRDMA_NS_PER_MS);
		for (uint64_t round = 0; round < 20; round++)
			write_and_wait(&p, round);
		assert_false(softrdma_lead_is_on(the_lead()));
		clock_forward_ms((unsigned)pause_ms + 1);
		pause_ms = pause_ms < 500 ? 2 * pause_ms : 1000;
	}
	end_with(&p);
}

/* nothing comes and no thread looks: the lead is off, and on again with the next dense traffic */
static void
test_ends_when_idle(void **state)
{
	(void)state;
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	for (int i = 0; i < 3; i++) {
		lead_with(&p);
		beats_until_off();
		assert_int_equal(reader_of(p.active), SOFTRDMA_READER_ENGINE);
		assert_int_equal(reader_of(p.passive), SOFTRDMA_READER_ENGINE);
		assert_int_equal(the_lead()->pause_ns, 0);
	}
	end_with(&p);
}

static atomic_uint checks; /* of the progress thread, each after its look at the leads */

static void
count_check(uint64_t now_ns)
{
	(void)now_ns;
	checks++;
}

/* The lead is on, and no thread looks at it; between two checks this thread looks at another one. The check at which it goes off. */
static unsigned
checks_until_off(struct softrdma_lead *other)
{
	unsigned n = 0;
	softrdma_engine_at_beat(SOFTRDMA_BEAT_LEADS, count_check);
	for (; n < 1000 && softrdma_lead_is_on(the_lead()); n++) {
		const unsigned before = checks;
		if (other)
			softrdma_lead_look(other);
		clock_forward_ms(2);
		wait_until(checks != before);
	}
	return n;
}

/* the progress thread soon ends a lead whose input no descriptor reports, or whose thread looks no longer; others may wait */
static void
test_when_a_left_lead_ends(void **state)
{
	(void)state;
	struct pair_of_ids p, other;
	channel_init();
	pair_init_with(&p, event_cq);
	pair_init(&other);
	struct softrdma_lead *looked_at = softrdma_cq_of(the_cq)->lead;
	for (int i = 0; i < 3; i++) {
		lead_with(&p);
		assert_in_range(checks_until_off(looked_at), 2, 6);
	}
	set_nonblocking(true);
	for (int i = 0; i < 3; i++) {
		lead_with(&p);
		assert_in_range(checks_until_off(NULL), 3, 4);
		lead_with(&p);
		assert_in_range(checks_until_off(looked_at), 50, 100);
	}
	clock_go_on();
	pair_fini(&other);
	pair_fini(&p);
	channel_fini();
}

/* a thread that serves another lead all the time has forgotten this one: that is found later */
static void
test_forgotten_lead(void **state)
{
	(void)state;
	struct pair_of_ids p, other;
	struct ibv_wc wc;
	channel_init();
	pair_init_with(&p, event_cq);
	pair_init(&other);
	lead_with(&p);
	int64_t end = now_ms() + PATIENCE_MS;
	const struct softrdma_lead *polled = softrdma_cq_of(the_cq)->lead;
	while (softrdma_lead_is_on(the_lead()) && left_ms(end) > 0) {
		for (int i = 0; i < 200; i++)
			assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
		clock_forward_ms(2);
		sched_yield();
	}
	assert_false(softrdma_lead_is_on(the_lead()));
	assert_true(softrdma_lead_is_on(polled));
	clock_go_on();
	pair_fini(&other);
	pair_fini(&p);
	channel_fini();
}

/* a thread that computes for each event does not lead, and stops leading */
static void
test_computing_thread(void **state)
{
	(void)state;
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	lead_with(&p);
	a_thread_computes = true;
	write_and_wait(&p, 1);
	assert_false(softrdma_lead_is_on(the_lead()));
	assert_true(the_lead()->pause_ns > 0);
	clock_forward_ms(1001);
	for (uint64_t i = 0; i < 30; i++)
		write_and_wait(&p, i);
	assert_false(softrdma_lead_is_on(the_lead()));
	a_thread_computes = false;
	lead_with(&p);
	end_with(&p);
}

/* what is destroyed while it leads */
static void
test_ends_with_its_objects(void **state)
{
	(void)state;
	struct pair_of_ids p;
	/* queue pairs */
	channel_init();
	pair_init_with(&p, event_cq);
	lead_with(&p);
	end_with(&p);
	/* the peer ends the connection */
	channel_init();
	pair_init_with(&p, event_cq);
	lead_with(&p);
	clock_go_on();
	assert_int_equal(softrdma_rdma_disconnect(p.active), 0);
	expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_event(p.listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	pair_fini(&p);
	channel_fini();
}

/* --- acknowledgements --- */

/* the acknowledgement of a message leaves with the reply to it, or when the program polls or waits without a reply */
static void
test_acknowledged_with_reply(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct ibv_wc wc;
	channel_init();
	pair_init_with(&p, event_cq);
	set_nonblocking(true);
	lead_with(&p);
	send_many(&p);
	sent = 0;
	send_message(p.passive, p.active);
	assert_int_equal(sent, 1); /* the completion of the message was there before the reply */
	assert_false(awaits_reply(p.passive));
	assert_true(awaits_reply(p.active));

	/* each way to have finished */
	send_message(p.active, p.passive);
	assert_true(awaits_reply(p.passive));
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	for (int i = 0; i < 2; i++) {
		pthread_mutex_lock(&the_lead()->lock); /* a thread that serves the lead is not waited for */
		softrdma_lead_no_replies(the_lead());
		pthread_mutex_unlock(&the_lead()->lock);
		assert_true(awaits_reply(p.passive));
	}
	while (softrdma_cq_pop(softrdma_cq_of(event_cq), 1, &wc) == 1)
		assert_int_equal(wc.opcode, IBV_WC_SEND);
	assert_int_equal(ibv_poll_cq(event_cq, 1, &wc), 0);
	assert_false(awaits_reply(p.passive));
	send_many(&p);
	softrdma_lead_poll(the_lead());
	assert_false(awaits_reply(p.passive));
	send_many(&p);
	while (get_event())
		;
	assert_false(awaits_reply(p.passive));
	/* that counts as late, so the next messages do not wait */
	send_message(p.passive, p.active);
	send_message(p.active, p.passive);
	assert_false(awaits_reply(p.passive));
	send_message(p.passive, p.active);
	send_many(&p);
	beats_until_off();
	assert_false(awaits_reply(p.passive));

	/* its queue pair is destroyed meanwhile */
	clock_forward_ms(1001);
	while (softrdma_cq_pop(softrdma_cq_of(event_cq), 1, &wc) == 1)
		assert_int_equal(wc.opcode, IBV_WC_SEND);
	lead_with(&p);
	send_many(&p);
	end_with(&p);
}

/* what is no message does not wait, and nothing does while other answers are due */
static void
test_acknowledged_at_once(void **state)
{
	(void)state;
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	set_nonblocking(true);
	lead_with(&p);
	send_many(&p);
	send_message(p.passive, p.active);
	for (uint64_t i = 0; i < 3; i++) {
		struct ibv_wc wc = { .opcode = IBV_WC_SEND };
		post_write(p.active->qp, the_mr, 8, 1);
		const int64_t end = now_ms() + PATIENCE_MS;
		while (wc.opcode == IBV_WC_SEND && left_ms(end) > 0) {
			if (softrdma_cq_pop(softrdma_cq_of(event_cq), 1, &wc) == 0)
				softrdma_lead_poll(the_lead());
			assert_false(awaits_reply(p.passive));
		}
		assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
	}
	end_with(&p);
}

/* --- pollers --- */

static void
poll_until_led(const struct pair_of_ids *p)
{
	struct ibv_wc wc;
	int64_t end = now_ms() + PATIENCE_MS;
	/* however long a poll takes, it is dense; and no lead that ended before, while input waited, keeps this one off */
	clock_stop();
	clock_forward_ms(1001);
	while (reader_of(p->active) != SOFTRDMA_READER_LEAD && left_ms(end) > 0)
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	assert_int_equal(reader_of(p->active), SOFTRDMA_READER_LEAD);
	clock_go_on();
}

/* a queue without a channel: a thread that polls for some time leads until it stops */
static void
test_poller(void **state)
{
	(void)state;
	static const char *const calls[] = { "epoll_create1", "epoll_ctl" };
	struct pair_of_ids p;
	struct ibv_wc wc;
	pair_init(&p);
	for (int i = 0; i < 2; i++) { /* works without, too */
		fail_call(FAIL_MINE, calls[i], 0, FAIL_FOR_EVER, ENOMEM);
		clock_stop();
		while (!has_failed(1))
			assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
		clock_go_on();
		fail_nothing();
		assert_int_equal(reader_of(p.active), SOFTRDMA_READER_ENGINE);
	}
	poll_until_led(&p);
	post_write(p.active->qp, the_mr, 8, 1);
	assert_int_equal(next_wc().wr_id, 1);
	wait_until(reader_of(p.active) == SOFTRDMA_READER_ENGINE); /* it has stopped */
	post_write(p.passive->qp, the_mr, 8, 2);
	assert_int_equal(next_wc().wr_id, 2);
	poll_until_led(&p);
	pair_fini(&p);
}

/* a thread that does something else between its polls lets the progress thread receive */
static void
test_rare_polls(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct ibv_wc wc;
	pair_init(&p);
	clock_stop();
	for (int i = 0; i < 300; i++) {
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
		clock_forward_ms(1);
	}
	assert_false(softrdma_lead_is_on(softrdma_cq_of(the_cq)->lead));
	/* a poller that has slept for lack of a processor does nothing else */
	for (int i = 0; i < 300; i++) {
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
		clock_forward_ms(1);
		softrdma_lead_nap(softrdma_cq_of(the_cq)->lead);
		if (softrdma_lead_is_on(softrdma_cq_of(the_cq)->lead))
			break;
	}
	assert_true(softrdma_lead_is_on(softrdma_cq_of(the_cq)->lead));
	clock_go_on();
	pair_fini(&p);
}

/* this thread polls a queue of four pairs until a lead of it has their sockets; the clock stands then */
static void
lead_many(struct pair_of_ids p[static 4])
{
	for (int i = 0; i < 4; i++)
		pair_init(&p[i]);
	int64_t end = now_ms() + PATIENCE_MS;
	clock_stop();
	while (!are_led(p, 4) && left_ms(end) > 0) {
		for (int i = 0; i < 4; i++)
			post_write(p[i].active->qp, the_mr, 8, 1);
		for (int i = 0; i < 4; i++)
			assert_int_equal(next_wc().status, IBV_WC_SUCCESS);
		struct ibv_wc wc;
		for (int i = 0; i < 300; i++)
			assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	}
	assert_true(are_led(p, 4));
}

static void
end_many(struct pair_of_ids p[static 4])
{
	clock_go_on();
	for (int i = 0; i < 4; i++)
		pair_fini(&p[i]);
}

/* with more connections than are looked at one by one, a poller asks the kernel which of them have input */
static void
test_poller_of_many(void **state)
{
	(void)state;
	struct pair_of_ids p[4];
	lead_many(p);
	softrdma_lead_nap(softrdma_cq_of(the_cq)->lead);
	end_many(p);
}

/* a page that was found writable for some requests may be lost before others come */
static void
test_memory_lost_between_looks(void **state)
{
	(void)state;
	if (softrdma_under_valgrind()) {
		print_message("skipped: under valgrind the device does not ask for pages\n");
		skip();
	}
	struct pair_of_ids p[4];
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	struct ibv_mr *mr =
		softrdma_ibv_reg_mr(the_pd, page, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(mr);
	lead_many(p);
	for (int i = 0; i < 4; i++)
		post_write(p[i].active->qp, mr, 8, 1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(next_wc().status, IBV_WC_SUCCESS);
	assert_int_equal(mprotect(page, size, PROT_READ), 0);
	for (int i = 0; i < 4; i++)
		post_write(p[i].active->qp, mr, 8, 1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(next_wc().status, IBV_WC_REM_OP_ERR);
	end_many(p);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	munmap(page, size);
}

/* a look does not try all connections of a queue that has many, so one that completes in another queue, too, is not handed over */
static void
test_poller_of_many_in_two_queues(void **state)
{
	(void)state;
	for (int shared_sends = 0; shared_sends <= 1; shared_sends++) {
		struct pair_of_ids p[3];
		struct ibv_cq *cqs[3];
		for (int i = 0; i < 3; i++) {
			struct ibv_qp_init_attr_ex attr = qp_attr();
			cqs[i] = softrdma_ibv_create_cq(softrdma_context(), 64, NULL, NULL, 0);
			assert_non_null(cqs[i]);
			*(shared_sends ? &attr.recv_cq : &attr.send_cq) = cqs[i];
			pair_init_as(&p[i], attr, 7);
		}
		clock_stop();
		for (uint64_t round = 0; round < 20; round++) {
			struct ibv_wc wc;
			post_write(p[0].active->qp, the_mr, 8, round);
			/* the lead of the shared queue has the passive side */
			wait_until(ibv_poll_cq(the_cq, 1, &wc) == 1 || ibv_poll_cq(cqs[0], 1, &wc) == 1);
			assert_int_equal(wc.wr_id, round);
			for (int i = 0; i < 300; i++)
				assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
			assert_true(softrdma_lead_is_on(softrdma_cq_of(the_cq)->lead));
			assert_int_equal(reader_of(p[0].active), SOFTRDMA_READER_ENGINE);
		}
		clock_go_on();
		for (int i = 0; i < 3; i++) {
			pair_fini(&p[i]);
			assert_int_equal(softrdma_ibv_destroy_cq(cqs[i]), 0);
		}
	}
}

/* a poller never waits for another thread */
static void
test_poller_does_not_wait(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct ibv_wc wc;
	pair_init(&p);
	struct softrdma_link *link = link_of(p.active);
	struct softrdma_lead *lead = softrdma_cq_of(the_cq)->lead;
	pthread_mutex_lock(&link->lock);
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	pthread_mutex_unlock(&link->lock);
	pthread_mutex_lock(&lead->lock);
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	softrdma_lead_nap(lead);
	assert_false(softrdma_lead_look(lead));
	pthread_mutex_unlock(&lead->lock);

	/* a queue pair without a connection is skipped */
	assert_int_equal(softrdma_rdma_disconnect(p.active), 0);
	expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	wait_until(locked(link,
		softrdma_connection_of(link)->fd < 0 || readable(softrdma_connection_of(link)->fd, 0)));
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	pair_fini(&p);
}

/* while other threads compute, a thread that polls sleeps until there is input: nothing is lost */
static void
test_poller_naps(void **state)
{
	(void)state;
	struct pair_of_ids p, other[2];
	struct ibv_wc wc;
	pair_init(&p);
	softrdma_spin_mine()->rest_until_ns = UINT64_MAX;
	for (int i = 0; i < 20; i++)
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	for (uint64_t i = 0; i < 20; i++) {
		post_write(p.active->qp, the_mr, 8, i);
		assert_int_equal(next_wc().wr_id, i);
	}
	/* of more connections than are looked at one by one, the progress thread receives all input */
	for (int i = 0; i < 2; i++)
		pair_init(&other[i]);
	softrdma_lead_nap(softrdma_cq_of(the_cq)->lead);
	post_write(other[1].active->qp, the_mr, 8, 7);
	assert_int_equal(next_wc().wr_id, 7);
	for (int i = 0; i < 2; i++)
		pair_fini(&other[i]);
	*softrdma_spin_mine() = (struct softrdma_spin){ 0 };
	pair_fini(&p);
}

/* --- what does not lead, and who else has the descriptor --- */

/* a connection whose queues have different channels is read by the progress thread */
static void
test_two_leads(void **state)
{
	(void)state;
	struct pair_of_ids p;
	channel_init();
	struct ibv_qp_init_attr_ex attr = qp_attr();
	attr.send_cq = event_cq;
	attr.recv_cq = the_cq;
	pair_init_as(&p, attr, 7);
	clock_stop();
	/* more, if the progress thread has raised each event before this one waits for it */
	const int64_t end = now_ms() + PATIENCE_MS;
	for (uint64_t i = 0; i < 60 || (!softrdma_lead_is_on(the_lead()) && left_ms(end) > 0); i++) {
		write_and_wait(&p, i);
		if (i % 20 == 19) /* what this thread has computed before counts no longer */
			clock_forward_ms(10);
	}
	assert_true(softrdma_lead_is_on(the_lead()));
	assert_int_equal(reader_of(p.active), SOFTRDMA_READER_ENGINE);
	assert_int_equal(reader_of(p.passive), SOFTRDMA_READER_ENGINE);
	end_with(&p);
}

/* the application has given the channel's number to another file: the lead has a number of its own */
static void
test_descriptor_replaced(void **state)
{
	(void)state;
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	set_nonblocking(true);
	lead_with(&p);
	const int kept = fcntl(channel->fd, F_DUPFD_CLOEXEC, 3);
	const int other = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(dup2(other, channel->fd), channel->fd);
	post_write(p.active->qp, the_mr, 8, 1);
	assert_true(readable(kept, PATIENCE_MS)); /* a copy reports as before */
	beats_until_off();
	wait_until(atomic_load(&softrdma_cq_of(event_cq)->count) == 1);
	expect_wc(event_cq, 1);
	assert_int_equal(dup2(kept, channel->fd), channel->fd);
	close(kept);
	close(other);
	end_with(&p);
}

/* the child's copies of the sockets are closed, and the parent goes on */
static void
test_fork(void **state)
{
	(void)state;
	if (in_thread_sanitizer()) {
		print_message("SKIPPED: the thread sanitizer cannot follow a child that begins threads\n");
		skip();
	}
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	lead_with(&p);
	const pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct ibv_cq *cq;
		void *context;
		_exit(softrdma_ibv_get_cq_event(channel, &cq, &context) == -1 && errno == ESTALE ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	for (uint64_t i = 0; i < 20; i++)
		write_and_wait(&p, i);
	assert_int_equal(reader_of(p.active), SOFTRDMA_READER_LEAD);
	end_with(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		one_thread_test(test_needs_no_other_thread),
		device_test(test_sparse),
		device_test(test_event_loop),
		device_test(test_socket_is_full),
		device_test(test_owes_an_event),
		device_test(test_hidden),
		device_test(test_progress_thread_receives),
		device_test(test_not_handed_over),
		one_thread_test(test_served_when_it_ends),
		device_test(test_poller_arms),
		device_test(test_from_call_to_descriptor),
		device_test(test_from_call_to_polls),
		one_thread_test(test_goes_on_while_another_thread_waits),
		device_test(test_shown),
		device_test(test_taken_away),
		device_test(test_tells_again),
		device_test(test_without_sockets),
		one_thread_test(test_reported_in_vain),
		device_test(test_pauses),
		device_test(test_ends_when_idle),
		device_test(test_when_a_left_lead_ends),
		device_test(test_forgotten_lead),
		device_test(test_computing_thread),
		device_test(test_ends_with_its_objects),
		device_test(test_acknowledged_with_reply),
		device_test(test_acknowledged_at_once),
		device_test(test_poller),
		device_test(test_rare_polls),
		device_test(test_poller_of_many),
		device_test(test_memory_lost_between_looks),
		device_test(test_poller_of_many_in_two_queues),
		device_test(test_poller_does_not_wait),
		device_test(test_poller_naps),
		device_test(test_two_leads),
		device_test(test_descriptor_replaced),
		device_test(test_fork),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
